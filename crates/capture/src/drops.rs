//! What drops are called: in filters as in `packets.dropped` of the summary, in files as a comment.

use longhaul_core::witness::PacketEvent;

/// Each fate that ends a packet inside the network, its name, and the comment of its packets.
pub(crate) const DROPS: [(PacketEvent, &str, &str); 8] = [
    (PacketEvent::Queue, "queue", "dropped: queue"),
    (PacketEvent::Loss, "loss", "dropped: loss"),
    (PacketEvent::LinkDown, "link_down", "dropped: link_down"),
    (PacketEvent::HopLimit, "hop_limit", "dropped: hop_limit"),
    (PacketEvent::NoRoute, "no_route", "dropped: no_route"),
    (PacketEvent::TooBig, "too_big", "dropped: too_big"),
    (
        PacketEvent::Misdelivered,
        "misdelivered",
        "dropped: misdelivered",
    ),
    (PacketEvent::Absorbed, "absorbed", "dropped: absorbed"),
];

fn find(fate: PacketEvent) -> Option<&'static (PacketEvent, &'static str, &'static str)> {
    DROPS.iter().find(|(dropped, ..)| *dropped == fate)
}

/// The name of a drop's cause; `None` for fates that end no packet inside the network.
pub fn drop_name(fate: PacketEvent) -> Option<&'static str> {
    find(fate).map(|(_, name, _)| *name)
}

/// The comment of a dropped packet in a file; `None` for fates that end no packet inside the
/// network.
pub fn drop_comment(fate: PacketEvent) -> Option<&'static str> {
    find(fate).map(|(.., comment)| *comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_names_the_cause() {
        for (fate, name, comment) in DROPS {
            assert_eq!(comment, format!("dropped: {name}"));
            assert_eq!(drop_name(fate), Some(name));
        }
        assert_eq!(drop_comment(PacketEvent::Delivered), None);
    }
}
