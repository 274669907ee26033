//! Where a pair runs: over an emulated path, or over a plain cable.

use std::io;

use serde_json::json;

use super::direct::Cable;
use super::emulated::Path;
use super::figures::Outcome;
use super::lab::Lab;
use super::pair::Pair;

/// Where a pair runs.
#[derive(Clone)]
pub(crate) enum Place {
    /// Over a plain veth cable.
    Direct(Cable),
    /// Through the emulator.
    Emulated(Path),
}

impl Place {
    /// Runs a pair once.
    pub(crate) fn run(&self, lab: &Lab, pair: &Pair) -> io::Result<Outcome> {
        match self {
            Self::Direct(cable) => {
                let (receiver, sender) = cable.run(lab, pair)?;
                let data = json!({ "recv": receiver, "send": sender });
                Ok(Outcome { data, health: None })
            }
            Self::Emulated(path) => path.run(lab, pair),
        }
    }

    /// It in a few words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Direct(cable) => cable.words(),
            Self::Emulated(path) => path.words(),
        }
    }

    /// Whether it is a plain cable.
    pub(crate) fn is_reference(&self) -> bool {
        matches!(self, Self::Direct(_))
    }

    /// Both commands of a pair, for whoever wants to repeat them.
    pub(crate) fn command(&self, pair: &Pair) -> String {
        let host = match self {
            Self::Direct(_) => "10.0.0.2",
            Self::Emulated(_) => "b",
        };
        let [receiver, sender] = [pair.receiver.clone(), pair.sender_to(host)];
        format!(
            "longhaul-bench {}; longhaul-bench {}; {}",
            receiver.join(" "),
            sender.join(" "),
            self.words()
        )
    }
}
