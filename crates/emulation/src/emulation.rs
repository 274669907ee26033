//! A running network: the operations for whatever drives it.
//!
//! **Order.** At one time, changes come before packets, packets before timers
//! ([`longhaul_plan::schedule`], the engine's event order, [`hosts`](crate::hosts)). Packets enter
//! at their stamps, also where the engine is past them.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul_core::engine::{Egress, Engine, EngineConfig, Parcel, Refused};
use longhaul_core::observe::{PipeCounters, QueueUse};
use longhaul_core::parallel::{CoreId, Split};
use longhaul_core::params::PipeParams;
use longhaul_core::segment::Offload;
use longhaul_core::topology::PipeId;
use longhaul_core::witness::{Witness, WitnessId};
use longhaul_core::{NodeId, Time};
use longhaul_plan::card::Card;
use longhaul_plan::patch::Patch;
use longhaul_plan::plan::Plan;
use longhaul_plan::schedule::{Change, Timeline};
use longhaul_proto::RouterReplies;
use longhaul_proto::traffic::{self, FlowTable, Traffic};

use crate::applied::Applied;
use crate::endpoints::Endpoints;
use crate::hosts::ModelledHosts;

/// The state of a pipe at one moment.
#[derive(Debug, Clone)]
pub struct PipeState {
    /// Which one.
    pub pipe: PipeId,
    /// What it does to packets.
    pub params: PipeParams,
    /// Whether it is up.
    pub up: bool,
    /// Its counters.
    pub counters: PipeCounters,
    /// Packets and counted bytes that wait in its queue.
    pub waiting: (u32, u64),
}

/// The network, what is scheduled in it, and its modelled hosts.
pub struct Emulation {
    pub(crate) engine: Engine,
    timeline: Timeline,
    pub(crate) hosts: Option<ModelledHosts>,
    /// The pipes behind cards, and what they are like but for that.
    cards: HashMap<PipeId, (Card, PipeParams)>,
    applied: Applied,
    tells_network: bool,
}

/// The modelled hosts of a plan, which the emulations of all cores share as far as nothing changes
/// about them.
pub(crate) struct Modelled {
    endpoints: Endpoints,
    flows: Arc<FlowTable>,
}

impl Modelled {
    /// # Errors
    /// They could not be made.
    pub(crate) fn new(plan: &Plan) -> Result<Self, traffic::Error> {
        let endpoints = Endpoints::new(plan);
        let flows = Arc::new(endpoints.table(plan)?);
        Ok(Self { endpoints, flows })
    }

    /// The emulation of one core's share of a plan's network, at t = 0, with the modelled hosts
    /// there.
    pub(crate) fn emulation(
        &self,
        plan: &Plan,
        split: &Arc<Split>,
        core: CoreId,
        config: EngineConfig,
    ) -> Emulation {
        let responder = Box::new(RouterReplies::new());
        let engine = Engine::of_share(Arc::clone(split), core, config, responder);
        let hosts = (plan.traffic.flows > 0).then(|| {
            let holds = |node| engine.owns(node);
            let traffic = Traffic::holding(Arc::clone(&self.flows), plan.seed, holds);
            let own = self
                .endpoints
                .hosts()
                .iter()
                .copied()
                .filter(|&node| holds(node));
            ModelledHosts::new(traffic, own.collect())
        });
        Emulation {
            engine,
            timeline: Timeline::new(Arc::clone(&plan.schedule)),
            hosts,
            cards: HashMap::new(),
            applied: Applied::default(),
            tells_network: false,
        }
    }
}

impl Emulation {
    /// What the engine of a plan's network is built with, without super-packets and trace hash.
    pub fn engine_config(plan: &Plan) -> EngineConfig {
        EngineConfig {
            seed: plan.seed,
            slot_size: plan.slot_bytes(),
            slots: u32::try_from(plan.packet_slots()).unwrap_or(u32::MAX - 1),
            ..EngineConfig::default()
        }
    }

    /// The same for one core of a split network, with room for its own packets and for those that
    /// come over from other cores.
    pub fn engine_config_of(plan: &Plan, split: &Split, core: CoreId) -> EngineConfig {
        let has = |pipe| split.owner_of(pipe) == core || split.destination_of(pipe) == core;
        let slots = plan.packet_slots_of(has);
        EngineConfig {
            slots: u32::try_from(slots).unwrap_or(u32::MAX - 1),
            ..Self::engine_config(plan)
        }
    }

    /// An emulation of a plan, at t = 0; `config` is [that of the plan](Self::engine_config), or
    /// has more.
    ///
    /// # Errors
    /// The modelled hosts could not be made.
    pub fn new(plan: &Plan, config: EngineConfig) -> Result<Self, traffic::Error> {
        let split = Arc::new(Split::whole(plan.topology.clone()));
        Ok(Modelled::new(plan)?.emulation(plan, &split, CoreId(0), config))
    }

    /// The network.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Measures a pipe's queue from now on; see [`Engine::measure_queue`].
    pub fn measure_queue(&mut self, pipe: PipeId) {
        self.engine.measure_queue(pipe);
    }

    /// The use of a measured queue since the last call.
    pub fn take_queue_use(&mut self, pipe: PipeId) -> QueueUse {
        self.engine.take_queue_use(pipe)
    }

    /// Adds a witness, which gets packet events from now on.
    pub fn watch(&mut self, witness: Box<dyn Witness>) -> WitnessId {
        self.engine.watch(witness)
    }

    /// A witness by its id.
    pub fn witness<W: Witness>(&mut self, id: WitnessId) -> Option<&mut W> {
        self.engine.witness(id)
    }

    /// Removes a witness and returns it.
    pub fn unwatch<W: Witness>(&mut self, id: WitnessId) -> Option<Box<W>> {
        self.engine.unwatch(id)
    }

    /// Makes the route tables of a host, which would be made at its first packet.
    pub fn prepare_routes(&mut self, host: NodeId) {
        self.engine.prepare_routes(host);
    }

    /// The time up to which all events are handled.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// When the next event is due, if any.
    pub fn next_at(&self) -> Option<Time> {
        let next = [self.next_packet_or_timer(), self.next_step()];
        next.into_iter().flatten().min()
    }

    /// When a packet comes out or a timer of a modelled host is due next.
    pub fn next_packet_or_timer(&self) -> Option<Time> {
        let timer = self.hosts.as_ref().and_then(ModelledHosts::next_timer);
        self.engine.next_due().into_iter().chain(timer).min()
    }

    /// When the file has something scheduled next.
    pub fn next_step(&self) -> Option<Time> {
        self.timeline.next_at()
    }

    /// A frame arrives from a host; see [`Engine::arrive_super`].
    ///
    /// # Errors
    /// Why it did not enter.
    pub fn arrive(
        &mut self,
        host: NodeId,
        stamp: Time,
        frame: &[u8],
        offload: &Offload,
    ) -> Result<(), Refused> {
        self.engine.arrive_super(host, stamp, frame, offload)
    }

    /// Counts a frame that cannot be read as refused.
    pub fn arrive_unreadable(&mut self, host: NodeId, stamp: Time) -> Result<(), Refused> {
        self.engine.arrive(host, stamp, &[])
    }

    /// Handles all packets that are due at or before `until`; changes must have been made before.
    pub fn advance(&mut self, until: Time) {
        self.engine.advance(until);
    }

    /// The same of those before `until`.
    pub fn advance_before(&mut self, until: Time) {
        self.engine.advance_before(until);
    }

    /// Advances to `at`, and makes the changes that the file has scheduled up to then.
    pub fn take_steps(&mut self, at: Time) {
        self.engine.advance_before(at);
        loop {
            let (engine, cards) = (&self.engine, &self.cards);
            let present = |pipe| own_params(engine, cards, pipe).clone();
            let Some(step) = self.timeline.pop(at, present) else {
                return;
            };
            if let Some(event) = step.begins {
                self.applied.begin(step.at, event);
            }
            for change in step.changes {
                match change {
                    Change::Params(pipe, patch) => self.set(pipe, &patch),
                    Change::Up {
                        pipe,
                        up,
                        keep_queue,
                    } => self.set_up(pipe, up, keep_queue),
                    Change::Reroute => self.reroute(step.at),
                }
            }
        }
    }

    fn set_up(&mut self, pipe: PipeId, up: bool, keep_queue: bool) {
        if self.tells_network {
            self.applied.up.insert(pipe, up);
        }
        self.engine.set_up(pipe, up, keep_queue);
    }

    fn reroute(&mut self, at: Time) {
        if self.tells_network {
            self.applied.rerouted = Some(at);
        }
        self.engine.reroute();
    }

    /// From now on [`take_applied`](Self::take_applied) also reports changes of the network: parameters,
    /// failures and repairs, routes.
    pub fn report_network_changes(&mut self) {
        self.tells_network = true;
    }

    /// The changes applied since the last call, if any.
    pub fn take_applied(&mut self) -> Option<Applied> {
        (!self.applied.is_empty()).then(|| std::mem::take(&mut self.applied))
    }

    /// Puts changes back that could not be passed on. No other change may have been applied meanwhile.
    pub fn restore_applied(&mut self, applied: Applied) {
        self.applied = applied;
    }

    /// Changes a pipe now.
    pub fn set(&mut self, pipe: PipeId, patch: &Patch) {
        let params = patch.apply(self.params(pipe));
        if self.tells_network {
            self.applied.params.insert(pipe, params.clone());
        }
        self.set_params(pipe, params);
    }

    /// Gives a pipe other parameters than the plan's, before anything has happened.
    pub fn set_params(&mut self, pipe: PipeId, params: PipeParams) {
        let params = match self.cards.get_mut(&pipe) {
            Some((card, own)) => {
                *own = params;
                card.before(own)
            }
            None => params,
        };
        self.engine.set(pipe, params);
    }

    /// Puts a host's card before a pipe, before anything has happened.
    pub fn put_card(&mut self, pipe: PipeId, card: Card) {
        let params = self.params(pipe).clone();
        self.cards.insert(pipe, (card, params.clone()));
        self.set_params(pipe, params);
    }

    /// What a pipe does to packets now, without the room that a card's packets have in its queue.
    pub fn params(&self, pipe: PipeId) -> &PipeParams {
        own_params(&self.engine, &self.cards, pipe)
    }

    /// Takes pipes down or up now, at a caller's request; returns those that changed.
    pub fn switch(&mut self, pipes: &[PipeId], up: bool, keep_queue: bool) -> Vec<PipeId> {
        let now = self.engine.now();
        let timeline = &mut self.timeline;
        let changed = |pipe: &&PipeId| timeline.switch(**pipe, up, now);
        let changed: Vec<PipeId> = pipes.iter().filter(changed).copied().collect();
        for &pipe in &changed {
            self.set_up(pipe, up, keep_queue);
        }
        changed
    }

    /// The state of a pipe now.
    pub fn pipe_state(&self, pipe: PipeId) -> PipeState {
        PipeState {
            pipe,
            params: self.params(pipe).clone(),
            up: self.timeline.is_up(pipe),
            counters: self.engine.pipe_counters(pipe),
            waiting: self.engine.waiting(pipe),
        }
    }

    /// The bytes of a parcel, in two parts of which the second may be empty.
    pub fn parts(&self, parcel: &Parcel) -> [&[u8]; 2] {
        self.engine.parts(parcel)
    }

    /// Gives back the slot of a packet that has left.
    pub fn release(&mut self, egress: Egress) {
        self.engine.release(egress);
    }

    /// Whether all modelled traffic that ends by itself has ended.
    pub fn traffic_is_done(&self) -> bool {
        self.hosts
            .as_ref()
            .is_none_or(|hosts| hosts.traffic.is_done())
    }

    /// Modelled traffic, and what has become of it.
    pub fn traffic(&self) -> Option<&Traffic> {
        self.hosts.as_ref().map(|hosts| &hosts.traffic)
    }

    /// The modelled traffic of an emulation that is over.
    pub fn into_traffic(self) -> Option<Traffic> {
        self.hosts.map(|hosts| hosts.traffic)
    }

    /// Packets that modelled hosts have received.
    pub fn received(&self) -> u64 {
        self.hosts.as_ref().map_or(0, |hosts| hosts.received)
    }

    /// The hosts with modelled endpoints.
    pub fn modelled_hosts(&self) -> &[NodeId] {
        self.hosts.as_ref().map_or(&[], |hosts| &hosts.nodes)
    }
}

/// What a pipe is like but for a card before it.
fn own_params<'a>(
    engine: &'a Engine,
    cards: &'a HashMap<PipeId, (Card, PipeParams)>,
    pipe: PipeId,
) -> &'a PipeParams {
    cards.get(&pipe).map_or(engine.params(pipe), |(_, own)| own)
}
