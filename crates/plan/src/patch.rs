//! Changes of a pipe's parameters: what a link of the file, its way back, an event and the
//! command `set` have in common.
//!
//! A patch names only what it changes, so that several of them, from events and from commands,
//! can follow one another in any order without undoing each other. It has a member for each row of
//! the table of [`fields`](crate::fields).

pub use crate::fields::Patch;

impl Patch {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::Span;
    use longhaul_core::params::{LossModel, PipeParams};
    use longhaul_core::units::{Probability, Rate};

    use super::*;

    #[test]
    fn a_patch_touches_only_what_it_names() {
        let now = PipeParams {
            delay: Span::from_ms(5),
            loss: LossModel::Independent(Probability::ALWAYS),
            ..PipeParams::default()
        };
        let rate = Rate::from_bits_per_s(8_000_000);
        let patch = Patch {
            rate: Some(rate),
            ..Patch::default()
        };
        let then = patch.apply(&now);
        assert_eq!(
            then,
            PipeParams {
                rate,
                ..now.clone()
            }
        );
        assert_eq!(Patch::default().apply(&then), then);
        let back = Patch {
            rate: Some(None),
            ..Patch::default()
        };
        assert_eq!(back.apply(&then), now);
        assert!(Patch::default().is_empty() && !back.is_empty());
    }
}
