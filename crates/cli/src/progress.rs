//! Progress of a run: a bar on a terminal, a few plain lines elsewhere.
//!
//! No thread redraws the bar: the run forks its sandbox, which needs a process of one thread. The
//! bar is drawn whenever something changes, and the run calls its observer often enough.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul_core::{Span, Time};
use longhaul_lab::fidelity::State;
use longhaul_lab::run::{Observer, Progress};
use longhaul_plan::plan::{Plan, RunClock};

use crate::style::{self, Style};

/// The interval of plain lines.
const LINES: Span = Span::from_s(10);
/// The steps of the bar.
const STEPS: u64 = 1000;

/// Reports of a virtual run for each plain line: about ten seconds.
const REPORTS: u64 = 50;

enum Display {
    Bar(ProgressBar),
    Lines {
        /// When the next line is due, in nanoseconds of experiment time.
        next_ns: u64,
    },
    Silent,
}

/// Reports progress on standard error.
pub(crate) struct Reporter {
    display: Display,
    style: Style,
    experiment: String,
    /// Whether the run has no clock to follow.
    is_virtual: bool,
    /// Reports of a virtual run so far.
    reports: u64,
}

impl Reporter {
    pub(crate) fn new(plan: &Plan, quiet: bool) -> Self {
        let display = if quiet {
            Display::Silent
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            Display::Bar(bar)
        } else {
            Display::Lines {
                next_ns: LINES.as_ns(),
            }
        };
        let reporter = Self {
            display,
            style: Style::stderr(),
            experiment: plan.name.clone(),
            is_virtual: plan.clock == RunClock::Virtual,
            reports: 0,
        };
        reporter.set_template("{wide_msg}");
        reporter
    }

    /// Something that is allowed but probably not meant.
    pub(crate) fn warn(&self, warning: &str) {
        self.line(&format!("{}: {warning}", self.style.doubtful("warning")));
    }

    /// Takes the bar away: what remains on the screen is the result.
    pub(crate) fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }

    fn set_template(&self, template: &str) {
        if let (Display::Bar(bar), Ok(style)) =
            (&self.display, ProgressStyle::with_template(template))
        {
            bar.set_style(style.progress_chars("=> "));
        }
    }

    /// A line that stays.
    fn line(&self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.println(text),
            Display::Lines { .. } => style::notice(text),
            Display::Silent => {}
        }
    }

    fn hosts(&self, up: usize, total: usize) {
        match &self.display {
            Display::Bar(bar) => {
                bar.set_position(STEPS * up as u64 / total.max(1) as u64);
                bar.set_message(format!("{}: {up} of {total} hosts are up", self.experiment));
            }
            Display::Lines { .. } if up == 0 => {
                let hosts = style::number(total, "host");
                style::notice(format_args!("{}: setting up {hosts}", self.experiment));
            }
            _ => {}
        }
    }

    fn running(&mut self, progress: &Progress) {
        let Progress::Running {
            time,
            duration,
            packets_per_s,
            headroom,
            state,
            ended,
            programs,
        } = progress
        else {
            return;
        };
        let verdict = match state {
            State::Faithful => self.style.good(state.name()),
            State::Degraded => self.style.doubtful(state.name()),
            State::Broken => self.style.bad(state.name()),
        };
        let of = duration.map_or(String::new(), |duration| {
            format!(" of {}", style::span(duration))
        });
        let headroom = headroom.map_or(String::new(), |headroom| {
            format!(", {:.0} % headroom", headroom * 100.0)
        });
        let text = format!(
            "{:.1} s{of}, {} packets/s{headroom}, {verdict}, {ended}/{programs} programs ended",
            time.as_s(),
            style::short(*packets_per_s),
        );
        match &mut self.display {
            Display::Bar(bar) => {
                if let Some(duration) = duration {
                    let part = time.as_s() / duration.as_s().max(1e-9);
                    bar.set_position((part.min(1.0) * STEPS as f64) as u64);
                }
                bar.set_message(text);
            }
            Display::Lines { next_ns } if time.as_ns() >= *next_ns => {
                *next_ns = time.as_ns() + LINES.as_ns();
                style::notice(format_args!("{}: {text}", self.experiment));
            }
            _ => {}
        }
    }
}

impl Reporter {
    /// A virtual run under way.
    fn simulating(&mut self, progress: &Progress) {
        let &Progress::Simulating {
            time,
            duration,
            speed,
            hops_per_s,
            flows_done,
            flows,
        } = progress
        else {
            return;
        };
        let left = duration.map(|duration| duration.saturating_sub(time.since(Time::ZERO)));
        let ends = left.filter(|_| speed > 0.0).map_or(String::new(), |left| {
            format!(", {:.0} s left", left.as_s() / speed)
        });
        let of = duration.map_or(String::new(), |duration| {
            format!(" of {}", style::span(duration))
        });
        let text = format!(
            "{:.1} s{of} simulated at {speed:.1} x real time, {} packet-hops/s, \
             {}/{} flows ended{ends}",
            time.as_s(),
            style::short(hops_per_s as u64),
            style::grouped(flows_done),
            style::grouped(flows),
        );
        match &mut self.display {
            Display::Bar(bar) => {
                if let Some(duration) = duration {
                    let part = time.as_s() / duration.as_s().max(1e-9);
                    bar.set_position((part.min(1.0) * STEPS as f64) as u64);
                }
                bar.set_message(text);
            }
            Display::Lines { .. } => {
                self.reports += 1;
                if self.reports.is_multiple_of(REPORTS) {
                    style::notice(format_args!("{}: {text}", self.experiment));
                }
            }
            Display::Silent => {}
        }
    }
}

impl Observer for Reporter {
    fn progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Hosts { up, total } => {
                if *up == 0 {
                    self.set_template("[{bar:20}] {wide_msg}");
                }
                self.hosts(*up, *total);
            }
            Progress::Started => {
                if let Display::Bar(bar) = &self.display {
                    bar.set_position(0);
                    bar.set_message(format!("{}: running", self.experiment));
                } else if !self.is_virtual {
                    self.line(&format!(
                        "{}: all hosts are up, starting programs",
                        self.experiment
                    ));
                }
            }
            Progress::Running { duration, .. } => {
                if duration.is_none() {
                    self.set_template("{wide_msg}");
                }
                self.running(progress);
            }
            Progress::Simulating { duration, .. } => {
                match duration {
                    Some(_) => self.set_template("[{bar:20}] {wide_msg}"),
                    None => self.set_template("{wide_msg}"),
                }
                self.simulating(progress);
            }
            Progress::Note(note) => self.line(note),
            Progress::Stopping => match &self.display {
                Display::Bar(bar) => bar.set_message(format!("{}: stopping", self.experiment)),
                _ => self.line(&format!("{}: stopping", self.experiment)),
            },
        }
    }
}
