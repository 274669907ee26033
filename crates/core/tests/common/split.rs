//! A case on several engines, each over a share of the nodes, that take turns under horizons.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul_core::observe::Counters;
use longhaul_core::parallel::{CoreId, Crossing, Horizons, Split};
use longhaul_core::router::{Responder, Silent};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Span, Time, Topology};

use super::cases::{Action, Case, Manner, Outcome, TICK, outcome_of, shaped, target, topology_of};
use super::{Delivery, Plain, drain, frame};

/// The engines of a split network.
struct Cores {
    split: Arc<Split>,
    engines: Vec<Engine>,
    horizons: Horizons,
    deliveries: Vec<Delivery>,
    /// How many packets crossed a cut.
    crossed: u64,
}

/// For each node the core that owns it: any, but that pipes that may take no time are not cut.
fn owners(case: &Case, topology: &Topology, cores: usize, pick: u64) -> Vec<CoreId> {
    let mut least: HashMap<PipeId, Span> = HashMap::new();
    let pipes = (0..topology.pipes().len() as u32).map(PipeId);
    for pipe in pipes.clone() {
        least.insert(pipe, topology.pipe(pipe).params.least_delay());
    }
    for (_, action) in &case.actions {
        if let Action::Set { pipe, params, .. } = action {
            let pipe = PipeId((pipe % topology.pipes().len()) as u32);
            let known = least.get_mut(&pipe).unwrap();
            *known = (*known).min(params.least_delay());
        }
    }
    let mut group: Vec<usize> = (0..topology.nodes().len()).collect();
    for pipe in pipes.filter(|pipe| least[pipe] == Span::ZERO) {
        let pipe = topology.pipe(pipe);
        let (from, to) = (group[pipe.from.index()], group[pipe.to.index()]);
        group
            .iter_mut()
            .filter(|g| **g == to)
            .for_each(|g| *g = from);
    }
    let owner = |group: &usize| {
        let mixed = (*group as u64 + 1).wrapping_mul(pick | 1) >> 32;
        CoreId((mixed % cores as u64) as u16)
    };
    group.iter().map(owner).collect()
}

impl Cores {
    fn next_due(&self) -> Vec<Time> {
        let next = |core: usize| {
            let exits = self
                .engines
                .iter()
                .map(|e| e.next_exit(CoreId(core as u16)));
            let own = [self.engines[core].next_due()];
            let all = exits.chain(own).flatten();
            all.min().unwrap_or(Time::MAX)
        };
        (0..self.engines.len()).map(next).collect()
    }

    /// Handles everything before `end`.
    fn advance_before(&mut self, end: Time) {
        let mut crossing = Crossing::default();
        loop {
            let next = self.next_due();
            if next.iter().all(|next| *next >= end) {
                break;
            }
            let horizon = |core| self.horizons.horizon(core, &next).min(end);
            let horizons: Vec<Time> = (0..self.engines.len()).map(horizon).collect();
            assert!(next.iter().zip(&horizons).any(|(next, end)| next < end));
            for from in 0..self.engines.len() {
                for (to, horizon) in horizons.iter().enumerate() {
                    let core = CoreId(to as u16);
                    self.engines[from].export(core, *horizon, &mut crossing);
                    self.crossed += crossing.len() as u64;
                    self.engines[to].import(&crossing);
                    crossing.clear();
                }
            }
            for (engine, horizon) in self.engines.iter_mut().zip(&horizons) {
                engine.advance_before(*horizon);
            }
            self.check();
        }
        for engine in &mut self.engines {
            engine.advance_before(end);
            self.deliveries.extend(drain(engine));
        }
    }

    fn check(&self) {
        for engine in &self.engines {
            let c = engine.counters();
            let left = c.delivered + c.dropped.total() + c.exported;
            assert_eq!(c.pool_exhausted, 0);
            assert_eq!(c.entered + c.created + c.imported, left + engine.inside());
        }
    }

    fn all(&mut self, change: impl Fn(&mut Engine)) {
        self.engines.iter_mut().for_each(change);
    }

    /// What all of them together have to show.
    fn outcome(&self) -> Outcome {
        let mut counters = Counters::default();
        let engines = self.engines.iter();
        engines.for_each(|engine| counters.merge(engine.counters()));
        assert_eq!(counters.imported, counters.exported);
        assert_eq!(counters.imported, self.crossed);
        (counters.imported, counters.exported) = (0, 0);
        let pipes = (0..self.split.topology().pipes().len() as u32).map(PipeId);
        let of = |pipe: PipeId| {
            let owner = &self.engines[self.split.owner_of(pipe).index()];
            owner.pipe_counters(pipe)
        };
        let pipes = pipes.map(of).collect();
        let hash = Engine::joint_trace_hash(&self.engines);
        outcome_of(counters, pipes, hash, self.deliveries.clone())
    }
}

/// Runs a case on so many engines, with owners picked by `pick`; also says how many packets crossed.
pub(crate) fn run_split(case: &Case, manner: Manner, cores: usize, pick: u64) -> (Outcome, u64) {
    let topology = Arc::new(topology_of(case, manner));
    let owners = owners(case, &topology, cores, pick);
    let split = Arc::new(Split::new(Arc::clone(&topology), owners, cores));
    let config = EngineConfig {
        seed: case.seed,
        slots: 4096,
        always_shaped: manner.always_shaped,
        windows: manner.windows,
        trace_hash: true,
        ..EngineConfig::default()
    };
    let engine = |core| {
        let responder: Box<dyn Responder> = if manner.lively {
            Box::new(Plain)
        } else {
            Box::new(Silent)
        };
        Engine::of_share(Arc::clone(&split), CoreId(core), config, responder)
    };
    let mut least: HashMap<PipeId, Span> = HashMap::new();
    for (_, action) in &case.actions {
        if let Action::Set { pipe, params, .. } = action {
            let pipe = PipeId((pipe % topology.pipes().len()) as u32);
            let known = least.entry(pipe).or_insert(Span::MAX);
            *known = (*known).min(params.least_delay());
        }
    }
    let mut direct = vec![Span::MAX; cores * cores];
    for pipe in (0..cores as u16).flat_map(|core| split.cut_from(CoreId(core))) {
        let later = least.get(pipe).copied().unwrap_or(Span::MAX);
        let [from, to] = [split.owner_of(*pipe), split.destination_of(*pipe)];
        let known = &mut direct[from.index() * cores + to.index()];
        *known = topology
            .pipe(*pipe)
            .params
            .least_delay()
            .min(later)
            .min(*known);
    }
    let horizons = Horizons::new(cores, direct);
    let mut cores = Cores {
        engines: (0..cores as u16).map(engine).collect(),
        split: Arc::clone(&split),
        horizons,
        deliveries: Vec::new(),
        crossed: 0,
    };
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let named = |pipe: usize| PipeId((pipe % topology.pipes().len()) as u32);
    let mut time = 0;
    for (ticks, action) in &case.actions {
        time += ticks * TICK;
        cores.advance_before(Time::from_ns(time));
        match action {
            Action::Set {
                pipe,
                params,
                shape,
            } => {
                cores.all(|engine| engine.set(named(*pipe), shaped(params, *shape)));
            }
            Action::Up {
                pipe,
                up,
                keep_queue,
            } => {
                let pipe = named(*pipe);
                cores.all(|engine| engine.set_up(pipe, *up, *keep_queue));
                if manner.reroutes && pipe.index() % 3 == 0 {
                    cores.all(Engine::reroute);
                }
            }
            Action::Send {
                from,
                to,
                ip_len,
                ttl,
                burst,
            } => {
                let host = hosts[from % hosts.len()];
                let nobody = manner.nobody();
                let to = target(&topology, *to).map_or(nobody, |to| topology.node(to).ipv4);
                let frame = frame(topology.node(host).ipv4, to, *ip_len, *ttl, !manner.lively);
                let owner = split.owner(host).index();
                for _ in 0..*burst {
                    let entered = cores.engines[owner].arrive(host, Time::from_ns(time), &frame);
                    assert!(entered.is_ok() || to == nobody, "{entered:?}");
                }
            }
        }
    }
    cores.advance_before(Time::from_ns(time + TICK));
    for pipe in (0..topology.pipes().len() as u32).map(PipeId) {
        cores.all(|engine| engine.set_up(pipe, true, true));
    }
    cores.advance_before(Time::MAX);
    cores.check();
    let left = |engine: &Engine| (engine.inside(), engine.slots_in_use());
    assert!(cores.engines.iter().all(|engine| left(engine) == (0, 0)));
    (cores.outcome(), cores.crossed)
}
