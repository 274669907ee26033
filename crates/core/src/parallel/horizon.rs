//! How far each core may go on alone.
//!
//! Theory: what a core does at a time can be felt at another no sooner than the cut pipes between
//! them take, over any number of cores in between, and comes back to itself no sooner than around
//! the shortest cycle. With the least delay of each cut pipe as the length of an arm between two
//! cores, shortest paths of at least one arm (Floyd and Warshall; the diagonal holds the shortest
//! cycles) say how far apart in time any two cores are. A core may then do everything before the
//! least, over all cores, of when that one can act next, plus the distance from there. The closure
//! matters: a core that has nothing to do for long may be woken by a third one.
//!
//! Left out: what makes a pipe's least delay ([`crate::Engine::least_delay`]).

use super::share::Split;
use crate::time::{Span, Time};
use crate::topology::PipeId;

/// The distances in time between cores.
#[derive(Debug, Clone)]
pub struct Horizons {
    cores: usize,
    /// From core times `cores` plus to core; [`Span::MAX`] where nothing leads.
    distances: Vec<Span>,
}

impl Horizons {
    /// The distances of a split network by the least delays of its cut pipes.
    pub fn new(split: &Split, least_delay: impl Fn(PipeId) -> Span) -> Self {
        let cores = split.cores();
        let mut distances = vec![Span::MAX; cores * cores];
        for pipe in split.cut() {
            let (from, to) = (split.owner_of(pipe), split.destination_of(pipe));
            let arm = &mut distances[from.index() * cores + to.index()];
            *arm = (*arm).min(least_delay(pipe));
        }
        Self::from_arms(cores, distances)
    }

    /// The same where the least delay of all pipes that lead directly from one core to another is
    /// known: from core times `cores` plus to core, [`Span::MAX`] where there is none.
    ///
    /// # Panics
    /// Where there is not one for each two cores.
    pub fn from_arms(cores: usize, arms: Vec<Span>) -> Self {
        assert_eq!(arms.len(), cores * cores);
        let mut distances = arms;
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

    /// The shortest of all distances; [`Span::MAX`] where no pipe is cut.
    pub fn least(&self) -> Span {
        self.distances.iter().copied().min().unwrap_or(Span::MAX)
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
    use super::super::CoreId;
    use super::*;
    use crate::topology::{Link, Node, NodeKind, PipeParams, Topology};

    fn split(links: &[(&str, &str, u64)], cores: usize) -> Split {
        let node = |name: &String| Node {
            name: name.clone(),
            kind: NodeKind::Router,
            ipv4: std::net::Ipv4Addr::from(name.as_bytes()[0] as u32),
            ipv6: std::net::Ipv6Addr::from(u128::from(name.as_bytes()[0])),
        };
        let names: Vec<String> = ('a'..).take(cores).map(String::from).collect();
        let link = |&(x, y, us): &(&str, &str, u64)| {
            let params = PipeParams {
                delay: Span::from_us(us),
                ..PipeParams::default()
            };
            Link::new(x, y, params)
        };
        let topology = Topology::new(
            names.iter().map(node).collect(),
            links.iter().map(link).collect(),
        );
        let owners = (0..cores as u16).map(CoreId).collect();
        Split::new(topology.unwrap(), owners, cores)
    }

    fn at(us: u64) -> Time {
        Time::from_ns(us * 1000)
    }

    fn horizons(split: &Split) -> Horizons {
        Horizons::new(split, |pipe| split.topology().pipe(pipe).params.delay)
    }

    #[test]
    fn distances_lead_over_other_cores_and_back() {
        let split = split(&[("a", "b", 10), ("b", "c", 20), ("a", "c", 50)], 3);
        let horizons = horizons(&split);
        let us = |from, to| horizons.distance(from, to).as_ns() / 1000;
        assert_eq!([us(0, 1), us(0, 2), us(1, 2)], [10, 30, 20]);
        assert_eq!([us(0, 0), us(1, 1), us(2, 2)], [20, 20, 40]);
        assert_eq!(horizons.least(), Span::from_us(10));
    }

    #[test]
    fn an_idle_core_is_woken_by_a_third_one() {
        let split = split(&[("a", "b", 10), ("b", "c", 20)], 3);
        let horizons = horizons(&split);
        let next = [at(5), Time::MAX, Time::MAX];
        assert_eq!(horizons.horizon(2, &next), at(35));
        // What it does itself may come back.
        assert_eq!(horizons.horizon(0, &next), at(25));
    }

    #[test]
    fn cores_without_a_way_between_them_go_on_for_ever() {
        let split = split(&[("a", "b", 10)], 3);
        let horizons = horizons(&split);
        let next = [at(5), at(5), at(5)];
        assert_eq!(horizons.horizon(2, &next), Time::MAX);
    }
}
