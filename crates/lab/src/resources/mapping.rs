//! Which hosts are on which CPUs of the machine.
//!
//! Theory: bin packing, best fit decreasing. Hosts of at most one CPU go, the largest first, each to
//! the CPU with the least room that is enough for them; so what is left is in as few CPUs as
//! possible, for hosts that need whole ones. Those with several CPUs go to as many different ones,
//! those with the most room, and come before all others. A host that fits nowhere as it is, although
//! there is room in all CPUs together, is spread over those that have any.
//!
//! A host that stays on one CPU has all its caches there, and none of its programs runs beside
//! another, as on a machine with one CPU. Hosts that ask for nothing go wherever there is room, by the
//! kernel's choice.

use std::cmp::Reverse;

/// What a host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// CPU time in thousandths of one CPU.
    pub quota: u32,
    /// CPUs that it sees.
    pub count: u32,
}

/// The CPUs of each host, by their numbers, in the order of `demands`; none for hosts that ask for
/// nothing, which have all. The CPUs are shared by more than there is of them where demands are
/// larger.
pub fn map(demands: &[Option<Demand>], cpus: &[usize]) -> Vec<Vec<usize>> {
    const WHOLE: i64 = 1_000;
    let mut room = vec![WHOLE; cpus.len()];
    let mut chosen = vec![Vec::new(); demands.len()];
    let mut order: Vec<(usize, Demand)> = demands
        .iter()
        .enumerate()
        .filter_map(|(host, demand)| Some((host, (*demand)?)))
        .collect();
    order.sort_by_key(|(host, demand)| (Reverse(demand.count), Reverse(demand.quota), *host));
    for (host, demand) in order {
        let quota = i64::from(demand.quota);
        let count = (demand.count.max(1) as usize).min(cpus.len());
        let places = match count {
            0 => continue,
            1 => one(&room, quota).map_or_else(|| spread(&room, quota), |place| vec![place]),
            _ => emptiest(&room, count),
        };
        let each = quota / places.len().max(1) as i64;
        for &place in &places {
            room[place] -= each;
        }
        chosen[host] = places.into_iter().map(|place| cpus[place]).collect();
        chosen[host].sort_unstable();
    }
    chosen
}

/// The CPU with the least room that is enough.
fn one(room: &[i64], quota: i64) -> Option<usize> {
    let enough = room.iter().enumerate().filter(|(_, left)| **left >= quota);
    enough
        .min_by_key(|(place, left)| (**left, *place))
        .map(|(place, _)| place)
}

/// Those with the most room.
fn emptiest(room: &[i64], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..room.len()).collect();
    places.sort_by_key(|&place| (Reverse(room[place]), place));
    places.truncate(count);
    places
}

/// As many of those with the most room as have enough together; at least one.
fn spread(room: &[i64], quota: i64) -> Vec<usize> {
    let mut left = quota;
    let mut places = emptiest(room, room.len());
    let needed = places.iter().take_while(|&&place| {
        let goes_on = left > 0 && room[place] > 0;
        left -= room[place].max(0);
        goes_on
    });
    let needed = needed.count().max(1);
    places.truncate(needed);
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(quota: u32, count: u32) -> Option<Demand> {
        Some(Demand { quota, count })
    }

    #[test]
    fn small_hosts_share_cpus_and_whole_ones_stay_for_those_that_need_them() {
        let demands = [of(250, 1), of(500, 1), of(1_000, 1), of(250, 1), None];
        let mapped = map(&demands, &[4, 6, 7]);
        assert_eq!(mapped, [vec![6], vec![6], vec![4], vec![6], vec![]]);
    }

    #[test]
    fn hosts_with_several_cpus_have_as_many_different_ones() {
        let mapped = map(&[of(300, 1), of(1_500, 2), of(1_000, 2)], &[0, 1, 2, 3]);
        assert_eq!(mapped, [vec![2], vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn what_fits_no_cpu_by_itself_is_spread() {
        let mapped = map(&[of(600, 1), of(600, 1), of(600, 1)], &[0, 1]);
        assert_eq!(mapped, [vec![0], vec![1], vec![0, 1]]);
        // More than there is: somewhere it has to run.
        assert_eq!(map(&[of(1_000, 1), of(500, 1)], &[3]), [vec![3], vec![3]]);
        assert_eq!(map(&[of(500, 1)], &[]), [Vec::<usize>::new()]);
    }

    proptest! {
        /// Demands that fit CPU by CPU are mapped so that no CPU has more than it is.
        #[test]
        fn no_cpu_is_overloaded_where_parts_of_whole_cpus_are_asked_for(
            cuts in prop::collection::vec(prop::collection::vec(1_u32..=4, 1..=4), 1..=6),
        ) {
            // Every CPU is cut into powers of two of a thousandth: 500, 250, 125.
            let mut demands = Vec::new();
            for cut in &cuts {
                let mut left = 1_000;
                for power in cut {
                    let part = 1_000 >> power;
                    if part <= left {
                        left -= part;
                        demands.push(of(part, 1));
                    }
                }
            }
            let cpus: Vec<usize> = (0..cuts.len()).collect();
            let mapped = map(&demands, &cpus);
            let mut used = vec![0; cpus.len()];
            for (demand, cpus) in demands.iter().zip(&mapped) {
                prop_assert_eq!(cpus.len(), 1);
                used[cpus[0]] += demand.unwrap().quota;
            }
            prop_assert!(used.iter().all(|used| *used <= 1_000), "{:?}", used);
        }
    }
}
