//! How far each core may go on alone.
//!
//! Theory: what a core does at time t affects another core no sooner than t plus the least delays of
//! the cut pipes on the way there, over any number of cores in between, and affects the core itself no
//! sooner than t plus the shortest cycle. Cores are the nodes of a graph, and the least delay of the
//! pipes that lead directly from one to another is the length of an edge. Its shortest paths of at
//! least one edge (Floyd and Warshall; the diagonal holds the shortest cycles) are the distances in
//! time between cores. A core may do everything before the minimum, over all cores, of that core's next
//! event plus the distance from there. Edges alone would not do: a core that has no event of its own
//! may be woken by a third one.
//!
//! Left out: what makes a pipe's least delay ([`crate::Engine::least_delay`]).

use crate::time::{Span, Time};

/// The distances in time between cores.
#[derive(Debug, Clone)]
pub struct Horizons {
    cores: usize,
    /// From core times `cores` plus to core; [`Span::MAX`] where nothing leads.
    distances: Vec<Span>,
}

impl Horizons {
    /// The distances between cores by the least delay of all pipes that lead `direct`ly from one to
    /// another: from core times `cores` plus to core, [`Span::MAX`] where there is none.
    ///
    /// # Panics
    /// Where there is not one for each two cores.
    pub fn new(cores: usize, direct: Vec<Span>) -> Self {
        assert_eq!(direct.len(), cores * cores);
        let mut distances = direct;
        for over in 0..cores {
            for from in 0..cores {
                for to in 0..cores {
                    let first = distances[from * cores + over];
                    let second = distances[over * cores + to];
                    let way = first.as_ns().saturating_add(second.as_ns());
                    let known = &mut distances[from * cores + to];
                    *known = (*known).min(Span::from_ns(way));
                }
            }
        }
        Self { cores, distances }
    }

    /// The least time in which anything that one core does is felt at another or, around a cycle,
    /// at itself; [`Span::MAX`] where it never is.
    pub fn distance(&self, from: usize, to: usize) -> Span {
        self.distances[from * self.cores + to]
    }

    /// Up to when, exclusive, a core may go on alone, where each core acts next at its `next`.
    pub fn horizon(&self, core: usize, next: &[Time]) -> Time {
        let bound = |(from, next): (usize, &Time)| {
            let distance = self.distance(from, core);
            Time::from_ns(next.as_ns().saturating_add(distance.as_ns()))
        };
        next.iter()
            .enumerate()
            .map(bound)
            .min()
            .unwrap_or(Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cores `a`, `b`, … with links of these delays in microseconds, in either direction.
    fn horizons(links: &[(char, char, u64)], cores: usize) -> Horizons {
        let mut direct = vec![Span::MAX; cores * cores];
        for &(x, y, us) in links {
            let [x, y] = [x, y].map(|name| name as usize - 'a' as usize);
            direct[x * cores + y] = Span::from_us(us);
            direct[y * cores + x] = Span::from_us(us);
        }
        Horizons::new(cores, direct)
    }

    fn at(us: u64) -> Time {
        Time::from_ns(us * 1000)
    }

    #[test]
    fn distances_lead_over_other_cores_and_back() {
        let horizons = horizons(&[('a', 'b', 10), ('b', 'c', 20), ('a', 'c', 50)], 3);
        let us = |from, to| horizons.distance(from, to).as_ns() / 1000;
        assert_eq!([us(0, 1), us(0, 2), us(1, 2)], [10, 30, 20]);
        assert_eq!([us(0, 0), us(1, 1), us(2, 2)], [20, 20, 40]);
    }

    #[test]
    fn an_idle_core_is_woken_by_a_third_one() {
        let horizons = horizons(&[('a', 'b', 10), ('b', 'c', 20)], 3);
        let next = [at(5), Time::MAX, Time::MAX];
        assert_eq!(horizons.horizon(2, &next), at(35));
        // What it does itself may come back.
        assert_eq!(horizons.horizon(0, &next), at(25));
    }

    #[test]
    fn cores_without_a_way_between_them_go_on_for_ever() {
        let horizons = horizons(&[('a', 'b', 10)], 3);
        let next = [at(5), at(5), at(5)];
        assert_eq!(horizons.horizon(2, &next), Time::MAX);
    }
}
