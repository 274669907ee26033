//! What the screen shows, and what keys do to it. Knows no terminal.

use std::collections::VecDeque;

use longhaul_lab::control::{Order, Top};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::watcher::Query;

/// Points of a curve that are kept: more than the widest screen shows.
const POINTS: usize = 1000;
/// Pipes that are asked for beyond those on the screen.
const AHEAD: usize = 50;

/// What a key has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
}

/// A curve, the newest point last.
#[derive(Debug, Default)]
pub(super) struct Curve(VecDeque<u64>);

impl Curve {
    fn add(&mut self, value: u64) {
        if self.0.len() == POINTS {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The newest points, as many as fit.
    pub(super) fn last(&self, width: usize) -> Vec<u64> {
        let skip = self.0.len().saturating_sub(width);
        self.0.iter().skip(skip).copied().collect()
    }
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct State {
    pub(super) top: Option<Box<Top>>,
    pub(super) by: Order,
    /// The first pipe of the table that is shown.
    pub(super) first: usize,
    /// How many pipes there was room for.
    pub(super) rows: usize,
    pub(super) help: bool,
    /// Packets of each second; in virtual time packet-hops per second of real time, at each answer.
    pub(super) packets: Curve,
    /// The 99th percentile of lateness in each second, in ns; in virtual time hundredths of real time's speed.
    pub(super) lateness: Curve,
    moment: Option<u64>,
}

impl State {
    pub(super) fn new(by: Order) -> Self {
        Self {
            top: None,
            by,
            first: 0,
            rows: 0,
            help: false,
            packets: Curve::default(),
            lateness: Curve::default(),
            moment: None,
        }
    }

    /// What to ask the run for.
    pub(super) fn query(&self) -> Query {
        Query {
            by: self.by,
            limit: self.first + self.rows + AHEAD,
        }
    }

    /// The run has answered.
    pub(super) fn take(&mut self, top: Box<Top>) {
        let moment = super::moment(&top);
        if moment.is_some() && moment != self.moment {
            let points = match (&top.simulation, &top.second) {
                (Some(now), _) => Some((now.hops_per_s as u64, (now.speed * 100.0) as u64)),
                (None, Some(second)) => Some((second.packets, second.lateness_ns.p99)),
                (None, None) => None,
            };
            if let Some((packets, lateness)) = points {
                self.packets.add(packets);
                self.lateness.add(lateness);
            }
        }
        self.moment = moment;
        self.top = Some(top);
        self.scroll_to(self.first);
    }

    /// How many pipes the run has reported.
    fn pipes(&self) -> usize {
        self.top.as_ref().map_or(0, |top| top.pipes.len())
    }

    fn scroll_to(&mut self, first: usize) {
        // The last page is full.
        self.first = first.min(self.pipes().saturating_sub(self.rows.max(1)));
    }

    fn sort(&mut self, by: Order) {
        (self.by, self.first) = (by, 0);
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        let page = self.rows.max(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Action::Quit;
            }
            KeyCode::Char('q' | 'Q') => return Action::Quit,
            KeyCode::Esc if !self.help => return Action::Quit,
            KeyCode::Esc => self.help = false,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char('r') => self.sort(Order::Rate),
            KeyCode::Char('u') => self.sort(Order::Utilisation),
            KeyCode::Char('d') => self.sort(Order::Drops),
            KeyCode::Char('b') => self.sort(Order::Backlog),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_to(self.first + 1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll_to(self.first.saturating_sub(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_to(self.first + page),
            KeyCode::PageUp => self.scroll_to(self.first.saturating_sub(page)),
            KeyCode::Home | KeyCode::Char('g') => self.scroll_to(0),
            KeyCode::End | KeyCode::Char('G') => self.scroll_to(usize::MAX),
            _ => {}
        }
        Action::Nothing
    }
}
