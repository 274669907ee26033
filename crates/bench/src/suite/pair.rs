//! A sender and a receiver.

use serde_json::Value;

/// The receiver's port.
const PORT: u16 = 5000;
/// How long a receiver waits for more, in seconds.
const IDLE: &str = "0.4";
/// How much longer than the sender a receiver of datagrams may take, in seconds.
const GRACE: u32 = 8;

/// The arguments of both programs.
#[derive(Clone)]
pub(crate) struct Pair {
    /// The receiver's words.
    pub(crate) receiver: Vec<String>,
    /// The sender's words, without `--to`.
    pub(crate) sender: Vec<String>,
    /// How long the sender sends.
    pub(crate) seconds: u32,
}

impl Pair {
    /// Datagrams of `size` bytes: `rate` is a number a second or `max`; further words follow.
    pub(crate) fn udp(size: u32, rate: &str, seconds: u32, more: &[&str]) -> Self {
        let deadline = (seconds + GRACE).to_string();
        let (port, size) = (PORT.to_string(), size.to_string());
        let receiver = [
            "udp-recv",
            "--port",
            &port,
            "--idle",
            IDLE,
            "--deadline",
            &deadline,
        ];
        let span = seconds.to_string();
        let sender = [
            "udp-send",
            "--size",
            &size,
            "--rate",
            rate,
            "--seconds",
            &span,
        ];
        Self {
            receiver: words(&receiver),
            sender: words(&[&sender, more].concat()),
            seconds,
        }
    }

    /// One bulk connection.
    pub(crate) fn tcp(seconds: u32) -> Self {
        let port = PORT.to_string();
        Self {
            receiver: words(&["tcp-recv", "--port", &port, "--once"]),
            sender: words(&["tcp-send", "--seconds", &seconds.to_string()]),
            seconds,
        }
    }

    /// The same, and the receiver notes how far apart segments come.
    pub(crate) fn spaced(mut self) -> Self {
        self.receiver.push("--spacing".to_owned());
        self
    }

    /// The sender's words with the receiver's host.
    pub(crate) fn sender_to(&self, host: &str) -> Vec<String> {
        let to = ["--to".to_owned(), format!("{host}:{PORT}")];
        let (name, rest) = self.sender.split_at(1);
        [name, &to, rest].concat()
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// Frames that hosts send of themselves, such as multicast reports: the machine may lose them too,
/// and then counts them among the others.
const OWN_FRAMES: u64 = 16;

/// Packets that reached the kernel of the receiving host or were lost with a reason, of those
/// that the sender's kernel took: a sentence where they do not add up.
pub(crate) fn open_sum(sender: &Value, receiver: &Value, lost_on_the_way: u64) -> Option<String> {
    let number = |from: &Value, name: &str| from.get(name).and_then(Value::as_u64);
    let sent = number(sender, "sent")?;
    let received = number(receiver, "received")?;
    let dropped = number(receiver, "kernel_drops").unwrap_or(0);
    let found = received + dropped + lost_on_the_way;
    let surplus = if lost_on_the_way > 0 { OWN_FRAMES } else { 0 };
    (!(sent..=sent + surplus).contains(&found)).then(|| {
        format!(
            "sent {sent}, but received {received} + dropped by the socket {dropped} + lost on the \
             way {lost_on_the_way} = {found}"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_datagram_sent_must_be_found() {
        let sum = |received: u64, lost: u64| {
            let sender = json!({ "sent": 100 });
            let receiver = json!({ "received": received, "kernel_drops": 10 });
            open_sum(&sender, &receiver, lost).is_none()
        };
        assert!(sum(90, 0) && sum(80, 10));
        assert!(sum(80, 12), "the hosts' own frames get lost too");
        assert!(!sum(91, 0) && !sum(80, 9) && !sum(80, 40));
        assert!(
            open_sum(&json!({}), &json!({}), 0).is_none(),
            "TCP counts no datagrams"
        );
    }

    #[test]
    fn the_receiver_is_named_in_the_senders_words() {
        let words = Pair::udp(64, "max", 2, &["--batch", "64"]).sender_to("b");
        assert_eq!(words[..3], ["udp-send", "--to", "b:5000"]);
        assert_eq!(words[words.len() - 2..], ["--batch", "64"]);
    }
}
