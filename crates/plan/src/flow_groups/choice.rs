//! The TCP of modelled flows: what the file says, over what the hosts are set to.

use longhaul_proto::tcp::{Algorithm, Config, EcnMode};

use crate::plan::TcpProfile;

/// Settings of both ends of a flow; what is `None` is as the hosts have it.
#[derive(Debug, Clone)]
pub struct TcpChoice {
    /// Everything that hosts do not say.
    pub base: Config,
    /// Congestion control.
    pub congestion: Option<Algorithm>,
    /// Explicit congestion notification.
    pub ecn: Option<bool>,
    /// Receive buffer in bytes.
    pub rmem: Option<u64>,
    /// Send buffer in bytes.
    pub wmem: Option<u64>,
}

impl TcpChoice {
    /// The settings between two hosts: the first one's congestion control and ECN, and of either
    /// buffer the larger, since both ends have the same.
    pub fn config(&self, from: &TcpProfile, to: &TcpProfile) -> Config {
        let ecn = self.ecn.unwrap_or(from.ecn);
        Config {
            congestion: self
                .congestion
                .or_else(|| algorithm(&from.congestion))
                .unwrap_or_default(),
            ecn: if ecn { EcnMode::On } else { EcnMode::Off },
            rmem: self.rmem.unwrap_or(from.rmem_max.max(to.rmem_max)),
            wmem: self.wmem.unwrap_or(from.wmem_max.max(to.wmem_max)),
            ..self.base.clone()
        }
    }
}

/// The algorithm of a name.
pub fn algorithm(name: &str) -> Option<Algorithm> {
    let mut all = Algorithm::ALL.iter();
    all.find(|(known, _)| *known == name)
        .map(|(_, algorithm)| *algorithm)
}
