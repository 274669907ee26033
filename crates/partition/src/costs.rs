//! What work costs a core, and what a partition costs in all.
//!
//! Theory: a core's time for a second of experiment is what its pipes, the programs and modelled
//! hosts at its nodes, and the packets that it hands over take:
//!
//! ```text
//! work(core) = hops · hop + (sent + received) · end + crossings · crossing / 2
//! ```
//!
//! where a crossing counts half on either side. Cores that run ahead of each other by the
//! look-ahead L synchronise once in each window of that length, which costs each of them `window`:
//!
//! ```text
//! cost = max over cores of work + window / L
//! ```
//!
//! This is the time that the slowest core takes for a second of experiment, below 1 in real time.
//! Few crossings, even loads and a long look-ahead each lower it, and by it they are weighed
//! against one another.
//!
//! Left out: cores that wait for each other inside a window, and memory that cores share.

use longhaul_core::Span;

/// Constants of the cost model, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A packet that crosses a pipe.
    pub hop_ns: f64,
    /// A packet that enters from a program or a modelled host, or leaves to one.
    pub end_ns: f64,
    /// A packet that goes from one core to another. Above 0.
    pub crossing_ns: f64,
    /// The end of a window, at which all cores meet.
    pub window_ns: f64,
}

/// The range of each cost in nanoseconds, wider than any machine needs.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Of [`Costs::hop_ns`].
    pub hop_ns: (f64, f64),
    /// Of [`Costs::end_ns`].
    pub end_ns: (f64, f64),
    /// Of [`Costs::crossing_ns`].
    pub crossing_ns: (f64, f64),
    /// Of [`Costs::window_ns`].
    pub window_ns: (f64, f64),
}

impl Costs {
    /// Between 1 ns and 1 ms a packet, and at most 0.1 s a window.
    pub const BOUNDS: Bounds = Bounds {
        hop_ns: (1.0, 1e6),
        end_ns: (1.0, 1e6),
        crossing_ns: (1.0, 1e6),
        window_ns: (0.0, 1e8),
    };

    /// Whether all lie within [`BOUNDS`](Self::BOUNDS); they may come from a file.
    pub fn is_sound(&self) -> bool {
        let bounds = Self::BOUNDS;
        let all = [
            (self.hop_ns, bounds.hop_ns),
            (self.end_ns, bounds.end_ns),
            (self.crossing_ns, bounds.crossing_ns),
            (self.window_ns, bounds.window_ns),
        ];
        let is_within = |(cost, (least, most)): (f64, (f64, f64))| cost >= least && cost <= most;
        all.into_iter().all(is_within)
    }

    /// Threads of one machine that has not been measured. The orders of magnitude of this engine with modelled hosts:
    /// 75 ns a hop in a chain; 285 ns in a fat tree of 6 hops, whose ends make the difference.
    pub const THREADS: Self = Self {
        hop_ns: 100.0,
        end_ns: 400.0,
        crossing_ns: 200.0,
        window_ns: 3_000.0,
    };

    /// The paper's machines (its section 6): 0.5 µs a hop, 8 µs to enter and leave a core, and no
    /// windows, since emulation in real time has none.
    pub const PAPER: Self = Self {
        hop_ns: 500.0,
        end_ns: 4_000.0,
        crossing_ns: 8_000.0,
        window_ns: 0.0,
    };

    /// What windows of this look-ahead cost in a second of experiment, in nanoseconds.
    pub fn windows(&self, look_ahead: Option<Span>) -> f64 {
        match look_ahead {
            // Nothing is cut: nothing to wait for.
            None => 0.0,
            Some(span) => self.window_ns * 1e9 / span.as_ns().max(1) as f64,
        }
    }
}
