//! What an experiment may ask of the machine, and how that compares with what it carries.
//!
//! Theory: between two hosts with programs no more packets get through than the narrowest pipe of
//! their path lets through. Every packet thus crosses one pipe of the set of all narrowest pipes,
//! and the rates of that set bound the packets of all paths together. Another bound are the first
//! links of all hosts with programs; the smaller one counts. Packets are counted at the path's
//! MTU: bulk transfers send them so, and rates say nothing about smaller ones.
//!
//! The bound is high where programs use less than the network offers, and where programs talk to
//! some hosts only. It can be low where they flood: what a full queue drops has entered, too.
//!
//! Left out: events that change rates, and networks without rates: what these ask for is not
//! known, and nothing is said of it.

use std::collections::BTreeMap;

use longhaul_core::route::Routes;
use longhaul_core::topology::Balance;
use longhaul_core::{NodeId, PipeId, Span, Topology};
use serde::Serialize;

use super::fit::Region;
use longhaul_plan::plan::Plan;

/// Nodes and pipes that all searches together may visit: half a second or so.
const BUDGET: usize = 20_000_000;
/// The most hosts between which paths are sought; of more, this many are a sample.
const HOSTS_MAX: usize = 200;

/// Packets of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// Packets per second, at most.
    pub packets_per_s: f64,
    /// Pipes that they cross, at most.
    pub hops: u32,
    /// Bytes of one.
    pub mtu: u32,
}

/// What an experiment may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct Demands {
    /// Its packets, in parts that are bounded by different pipes.
    pub flows: Vec<Flow>,
    /// The smallest delay between two hosts with programs, where it is not zero.
    pub shortest: Option<Span>,
    /// How late packets may be.
    pub tolerance: Span,
}

/// An experiment's demands beside a machine's region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// Packets per second that the experiment may ask for.
    pub packets_per_s: f64,
    /// Pipes that one of them crosses in the mean.
    pub hops: f64,
    /// Packets per second that the machine carries faithfully of that mixture.
    pub carried_packets_per_s: f64,
    /// The first over the last: above 1 the machine is too slow.
    pub load: f64,
}

impl Demands {
    /// What `plan` may ask for; `None` where that is not known.
    pub fn of(plan: &Plan) -> Option<Self> {
        let hosts = plan.program_nodes();
        let paths = HostPaths::find(&plan.topology, &hosts)?;
        let first = paths.first_links(&plan.topology, &hosts);
        let narrowest = paths.narrowest(&plan.topology);
        let sum = |flows: &[Flow]| flows.iter().map(|flow| flow.packets_per_s).sum::<f64>();
        let flows = [first, narrowest]
            .into_iter()
            .flatten()
            .min_by(|a, b| sum(a).total_cmp(&sum(b)))?;
        Some(Self {
            flows,
            shortest: paths.shortest,
            tolerance: plan.tolerance,
        })
    }

    /// All packets per second.
    pub fn packets_per_s(&self) -> f64 {
        self.flows.iter().map(|flow| flow.packets_per_s).sum()
    }

    /// Pipes that a packet crosses in the mean.
    pub fn hops(&self) -> f64 {
        let hops = |flow: &Flow| flow.packets_per_s * f64::from(flow.hops);
        self.flows.iter().map(hops).sum::<f64>() / self.packets_per_s()
    }

    /// The demands beside a region; `None` where the region says nothing.
    pub fn compare(&self, region: &Region) -> Option<Comparison> {
        if !region.cost.is_sound() || self.flows.is_empty() {
            return None;
        }
        let packets_per_s = self.packets_per_s();
        let time = |flow: &Flow| {
            flow.packets_per_s * region.cost.of(flow.hops.into(), flow.mtu.into()) / 1e9
        };
        let load: f64 = self.flows.iter().map(time).sum();
        Some(Comparison {
            packets_per_s,
            hops: self.hops(),
            carried_packets_per_s: packets_per_s / load,
            load,
        })
    }
}

/// Paths between hosts with programs.
struct HostPaths {
    list: Vec<Vec<PipeId>>,
    shortest: Option<Span>,
    complete: bool,
}

impl HostPaths {
    /// Between all of `hosts`, or an evenly spread sample; `None` for fewer than two.
    fn find(topology: &Topology, hosts: &[NodeId]) -> Option<Self> {
        let per_search = (topology.nodes().len() + topology.pipes().len()).max(1);
        let size = (BUDGET / per_search).clamp(2, HOSTS_MAX).min(hosts.len());
        let sample: Vec<NodeId> = (0..size)
            .map(|index| hosts[index * hosts.len() / size])
            .collect();
        let mut routes = Routes::new(topology);
        let pairs = sample
            .iter()
            .flat_map(|&from| sample.iter().map(move |&to| (from, to)));
        let list: Vec<Vec<PipeId>> = pairs
            .filter(|(from, to)| from != to)
            .filter_map(|(from, to)| routes.path(topology, from, to))
            .filter(|path| !path.is_empty())
            .collect();
        let delay = |path: &Vec<PipeId>| {
            let delays = path.iter().map(|pipe| topology.pipe(*pipe).params.delay);
            delays.fold(Span::ZERO, |sum, delay| sum + delay)
        };
        let delays = list.iter().map(delay);
        let shortest = delays.filter(|delay| *delay > Span::ZERO).min();
        (!list.is_empty()).then_some(Self {
            list,
            shortest,
            complete: size == hosts.len(),
        })
    }

    /// The bound by the first links of all hosts.
    fn first_links(&self, topology: &Topology, hosts: &[NodeId]) -> Option<Vec<Flow>> {
        let longest = self.list.iter().map(Vec::len).max()? as u32;
        let flows = hosts.iter().flat_map(|&host| {
            let own = |path: &&Vec<PipeId>| topology.pipe(path[0]).from == host;
            let hops = self.list.iter().filter(own).map(Vec::len).max();
            // A host outside of the sample counts with the longest way.
            let hops = hops.map_or(longest, |hops| hops as u32);
            let pipes = topology.outgoing(host).iter();
            pipes.map(move |&pipe| flow(topology, pipe, hops, topology.pipe(pipe).mtu))
        });
        flows.collect()
    }

    /// The bound by the narrowest pipe of each path; `None` where a path has no rate, and for a
    /// sample.
    fn narrowest(&self, topology: &Topology) -> Option<Vec<Flow>> {
        if !self.complete {
            return None;
        }
        let mut set: BTreeMap<PipeId, (u32, u32)> = BTreeMap::new();
        for path in &self.list {
            let hops = path.len() as u32;
            let mtu = path.iter().map(|pipe| topology.pipe(*pipe).mtu).min()?;
            for &pipe in cover(topology, path)? {
                let entry = set.entry(pipe).or_insert((hops, mtu));
                *entry = (entry.0.max(hops), entry.1.min(mtu));
            }
        }
        let flows = set
            .into_iter()
            .map(|(pipe, (hops, mtu))| flow(topology, pipe, hops, mtu));
        flows.collect()
    }
}

/// Pipes of which each packet of a path crosses one: its narrowest, or, where packets are spread
/// over several ways, the links of the sending host.
fn cover<'a>(topology: &'a Topology, path: &'a [PipeId]) -> Option<&'a [PipeId]> {
    let spread = |pipe: &&PipeId| topology.pipe(**pipe).balance != Balance::First;
    if path.iter().any(|pipe| spread(&pipe)) {
        return Some(topology.outgoing(topology.pipe(path[0]).from));
    }
    let rate = |index: &usize| topology.pipe(path[*index]).params.highest_rate();
    let rates = (0..path.len()).filter_map(|index| Some((rate(&index)?, index)));
    let (_, index) = rates.min()?;
    Some(&path[index..=index])
}

fn flow(topology: &Topology, pipe: PipeId, hops: u32, mtu: u32) -> Option<Flow> {
    let params = &topology.pipe(pipe).params;
    let bits = u64::from(params.framing.counted(mtu)) * 8;
    Some(Flow {
        packets_per_s: params.highest_rate()? as f64 / bits as f64,
        hops,
        mtu,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::calibrate::fit::{Cost, Region};

    /// The demands of links `ends`, with a program on each of `hosts`.
    fn demands(nodes: &str, links: &[&str], hosts: &[&str]) -> Option<Demands> {
        let links: String = links
            .iter()
            .map(|link| format!("    - {{ {link} }}\n"))
            .collect();
        let programs: String = hosts
            .iter()
            .map(|host| format!("  p-{host}: {{ on: {host}, run: 'true' }}\n"))
            .collect();
        let text = format!(
            "name: d\nframing: ip\ntopology:\n  nodes: {{ {nodes} }}\n  links:\n{links}\
             programs:\n{programs}"
        );
        let plan =
            Plan::from_text(&text, "d.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        Demands::of(&plan)
    }

    fn assert_rate(demands: &Demands, bits_per_s: f64, mtu: f64) {
        let expected = bits_per_s / 8.0 / mtu;
        let got = demands.packets_per_s();
        assert!(
            (got / expected - 1.0).abs() < 1e-9,
            "{got}, not {expected}: {demands:?}"
        );
    }

    #[test]
    fn the_narrowest_pipe_bounds_a_path_in_each_direction() {
        let links = [
            "ends: [a, r], rate: 1 Gbit/s, delay: 50 us",
            "ends: [r, b], rate: 100 Mbit/s, delay: 1 ms, back: { rate: 20 Mbit/s }",
        ];
        let found = demands("a: {}, r: { kind: router }, b: {}", &links, &["a", "b"]).unwrap();
        assert_rate(&found, 120e6, 1500.0);
        assert_eq!(found.hops(), 2.0);
        assert_eq!(found.shortest, Some(Span::from_us(1050)));
    }

    #[test]
    fn first_links_bound_what_shares_nothing_else() {
        // Three hosts at 10 Mbit/s, joined by a fast link that no path finds narrow.
        let nodes = "a: { count: 2 }, r: { kind: router }, s: { kind: router }, b: {}";
        let links = [
            "ends: [a, r], rate: 10 Mbit/s",
            "ends: [r, s], rate: 1 Gbit/s",
            "ends: [s, b], rate: 10 Mbit/s",
        ];
        let found = demands(nodes, &links, &["a0", "a1", "b"]).unwrap();
        assert_rate(&found, 30e6, 1500.0);
        assert_eq!(found.shortest, None);
        // A host without a program sends nothing.
        assert_rate(&demands(nodes, &links, &["a0", "b"]).unwrap(), 20e6, 1500.0);
    }

    #[test]
    fn packets_are_of_the_paths_mtu() {
        let links = ["ends: [a, b], rate: 1 Gbit/s, mtu: 9000"];
        let found = demands("a: {}, b: {}", &links, &["a", "b"]).unwrap();
        assert_rate(&found, 2e9, 9000.0);
        assert_eq!(found.flows[0].mtu, 9000);
    }

    #[test]
    fn what_is_spread_over_several_links_is_bounded_by_the_first_ones() {
        let nodes = "a: {}, r: { kind: router }, s: { kind: router }, b: {}";
        let links = [
            "ends: [a, r], rate: 1 Gbit/s",
            "ends: [r, s], rate: 100 Mbit/s, bundle: 4, balance: flow",
            "ends: [s, b], rate: 1 Gbit/s",
        ];
        let found = demands(nodes, &links, &["a", "b"]).unwrap();
        assert_rate(&found, 2e9, 1500.0);
    }

    #[test]
    fn nothing_is_known_without_rates_or_partners() {
        let free = ["ends: [a, b], delay: 1 ms"];
        assert_eq!(demands("a: {}, b: {}", &free, &["a", "b"]), None);
        let limited = ["ends: [a, b], rate: 1 Mbit/s"];
        assert_eq!(demands("a: {}, b: {}", &limited, &["a"]), None);
        // One direction without a rate is enough not to know.
        let half = ["ends: [a, b], rate: 1 Mbit/s, back: { rate: unlimited }"];
        assert_eq!(demands("a: {}, b: {}", &half, &["a", "b"]), None);
    }

    fn region(entry_ns: f64, hop_ns: f64) -> Region {
        let byte_ns = 0.0;
        Region {
            cost: Cost {
                entry_ns,
                hop_ns,
                byte_ns,
            },
            ..Region::default()
        }
    }

    #[test]
    fn a_mixture_is_compared_by_the_time_that_it_takes() {
        let flow = |packets_per_s, hops| Flow {
            packets_per_s,
            hops,
            mtu: 1500,
        };
        let demands = Demands {
            flows: vec![flow(100_000.0, 1), flow(50_000.0, 4)],
            shortest: None,
            tolerance: Span::from_us(200),
        };
        // 100 k × 4 us + 50 k × 10 us = 0.9 s of each second.
        let found = demands.compare(&region(2_000.0, 2_000.0)).unwrap();
        assert!((found.load - 0.9).abs() < 1e-9, "{found:?}");
        assert!((found.hops - 2.0).abs() < 1e-9);
        assert!((found.carried_packets_per_s - 150_000.0 / 0.9).abs() < 1e-6);
        assert_eq!(demands.compare(&Region::default()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

        #[test]
        fn more_of_anything_never_lowers_the_load(
            rate in 1.0..1e6f64, more in 1.0..10.0f64, hops in 1u32..50, mtu in 1280u32..9000,
            entry_ns in 1.0..10_000.0f64, hop_ns in 0.0..1_000.0f64,
        ) {
            let load = |packets_per_s: f64, hops: u32| {
                let flows = vec![Flow { packets_per_s, hops, mtu }];
                let demands = Demands { flows, shortest: None, tolerance: Span::from_us(200) };
                demands.compare(&region(entry_ns, hop_ns)).unwrap().load
            };
            prop_assert!(load(rate * more, hops) >= load(rate, hops));
            prop_assert!(load(rate, hops + 1) >= load(rate, hops));
        }
    }
}
