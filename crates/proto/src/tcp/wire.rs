//! The seam to real headers: 64-bit sequence numbers to and from the 32 bits of RFC 9293.
//!
//! Inside, each direction counts from 0 (its SYN) and never wraps. On the wire the count is
//! offset by an initial sequence number and cut to 32 bits; what comes back is taken as the
//! count nearest to one that is known, which is unambiguous as long as windows stay below 2^31
//! (RFC 7323 §2.3).

/// The wire's form of the count `seq` in a direction whose SYN had the number `isn`.
pub const fn to_wire(seq: u64, isn: u32) -> u32 {
    isn.wrapping_add(seq as u32)
}

/// The count nearest to `near` whose wire form is `wire`; 0 where that would lie before the SYN.
pub const fn from_wire(wire: u32, isn: u32, near: u64) -> u64 {
    let distance = wire.wrapping_sub(to_wire(near, isn)) as i32;
    near.saturating_add_signed(distance as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_the_wire_across_many_wraps() {
        let isn = 0xffff_fff0;
        for near in [
            0x10,
            0x7fff_ffff,
            0xffff_ffff,
            0x1_0000_0000,
            0x1234_5678_9abc,
        ] {
            for seq in [near - 0x10, near, near + 1, near + 0x7fff_ffff] {
                assert_eq!(from_wire(to_wire(seq, isn), isn, near), seq);
            }
        }
        assert_eq!(from_wire(isn.wrapping_sub(1), isn, 0), 0);
    }
}
