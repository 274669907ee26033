//! The reference that CPU speeds are given in.
//!
//! **1 ref** is the speed of a CPU that does 100 million steps of this benchmark in a second. A step
//! draws a number (xorshift64, three shifts and three exclusive ors), loads the one of the 32,768
//! words of a table of 256 KiB that the number names, its last bit exclusive-ored with that of the sum
//! so far, adds it to the sum, and stores the sum there. Each step needs the
//! result of the one before, so it measures the latency of a chain of integer operations and of
//! loads from a near cache: what most programs that are not made of vectors wait for.
//!
//! The definition never changes: a host of 0.5 ref is as fast on every machine, as far as one number
//! says how fast a program is. Programs that live in larger memory, or use vectors, are faster or
//! slower on a machine than its number suggests.
//!
//! The best of several tries counts: a CPU cannot be faster than it is, and whatever else runs makes
//! it slower.
//!
//! Left out: CPUs of one machine that differ from each other, and frequencies that change.

use std::hint::black_box;
use std::time::Duration;

use longhaul_linux::clock::MachineTime;

/// Steps a second of 1 ref.
pub const STEPS_PER_SECOND: u64 = 100_000_000;

/// The words of the table: 256 KiB.
const WORDS: usize = 1 << 15;
/// Steps of a try: some 10 ms.
const STEPS: u64 = 2_000_000;
const TRIES: u32 = 25;

/// The speed of the calling thread's CPU, in ref; takes about a quarter of a second.
pub fn measure() -> f64 {
    let mut table = vec![1_u64; WORDS];
    // The first try brings the table into the cache.
    black_box(steps(&mut table, STEPS / 4));
    let tries = (0..TRIES).map(|_| {
        let before = MachineTime::now();
        black_box(steps(&mut table, STEPS));
        MachineTime::now().since(before)
    });
    let best = tries.min().unwrap_or(Duration::ZERO);
    let per_second = STEPS as f64 / best.as_secs_f64().max(1e-9);
    per_second / STEPS_PER_SECOND as f64
}

/// The benchmark.
#[inline(never)]
fn steps(table: &mut [u64], steps: u64) -> u64 {
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    let mut sum = 0_u64;
    for _ in 0..steps {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        // The sum of the step before is part of the next place, so that loads wait for each other.
        let place = (number ^ (sum & 1)) as usize % WORDS;
        sum = sum.wrapping_add(table[place]);
        table[place] = sum;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmark_is_what_it_was() {
        let mut table = vec![1_u64; WORDS];
        let sum = steps(&mut table, 100_000);
        assert_eq!(
            (sum, table[12_345]),
            (6_371_254_503_110_030_108, 16_722_953_682_130_984_730),
            "its results are part of the definition"
        );
    }

    #[test]
    fn a_machine_has_a_speed() {
        let speed = measure();
        assert!((0.01..100.0).contains(&speed), "{speed} ref");
    }
}
