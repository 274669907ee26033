//! The least delay of a pipe: how long a core can go on without hearing from the other end.
//!
//! Theory: in conservative simulation a core advances as far as no event from another core can still
//! arrive (Chandy and Misra 1979). A packet that enters a cut pipe now comes out no
//! sooner than its least delay later, so the least of all cut pipes is the *look-ahead* of a
//! partition, and a pipe that may let something through at once cannot be cut at all.
//!
//! The time to send a packet is not counted: it depends on the packet, and rates change.
//!
//! Left out: changes during a run; callers lower what they know to fall.

use longhaul_core::{Span, Topology};

/// The least delay of each pipe as the run begins.
pub fn least_delays(topology: &Topology) -> Vec<Span> {
    let pipes = topology.pipes().iter();
    pipes.map(|pipe| pipe.params.least_delay()).collect()
}
