//! How large an experiment may be, by its clock: a virtual run may be much larger than one whose
//! hosts are made of namespaces.

/// The most hosts of an experiment on the real clock.
pub const MAX_HOSTS: usize = 20_000;
/// The most routers of an experiment on the real clock, and the most lans.
pub const MAX_ROUTERS: usize = 100_000;
/// The most links of an experiment on the real clock.
pub const MAX_LINKS: usize = 200_000;
/// The most hosts on any clock.
pub(crate) const MOST_HOSTS: usize = 1_000_000;
/// The most routers on any clock, and the most lans.
pub(crate) const MOST_ROUTERS: usize = 1_000_000;
/// The most links on any clock.
pub(crate) const MOST_LINKS: usize = 2_000_000;
/// The most modelled flows of an experiment on the real clock.
const MAX_LIVE_FLOWS: u64 = 100_000;

/// The most flows of an experiment.
pub const MAX_FLOWS: u64 = 10_000_000;

/// What drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunClock {
    /// The machine's clock.
    #[default]
    Real,
    /// None: time jumps to the next event.
    Virtual,
}

impl RunClock {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Virtual => "virtual",
        }
    }
}

/// How large an experiment may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) clock: RunClock,
    pub(crate) hosts: usize,
    pub(crate) routers: usize,
    pub(crate) links: usize,
    pub(crate) flows: u64,
}

impl Limits {
    pub(crate) const fn of(clock: RunClock) -> Self {
        match clock {
            RunClock::Real => Self {
                clock,
                hosts: MAX_HOSTS,
                routers: MAX_ROUTERS,
                links: MAX_LINKS,
                flows: MAX_LIVE_FLOWS,
            },
            RunClock::Virtual => Self {
                clock,
                hosts: MOST_HOSTS,
                routers: MOST_ROUTERS,
                links: MOST_LINKS,
                flows: MAX_FLOWS,
            },
        }
    }

    /// What to say of a number beyond its limit.
    pub(crate) fn hint(&self, limit: impl std::fmt::Display, what: &str) -> String {
        match self.clock {
            RunClock::Real => {
                format!("at most {limit} {what} are supported; `clock: virtual` takes more")
            }
            RunClock::Virtual => format!("at most {limit} {what} are supported"),
        }
    }
}
