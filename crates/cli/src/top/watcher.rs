//! The thread that asks the run, so that keys are answered while the run takes its time.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use longhaul_lab::control::{Control, ControlError, Order, Reply, Request, Top};

/// Interval of requests: short enough that a second is shown soon after its end.
const REFRESH: Duration = Duration::from_millis(500);

/// What to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) by: Order,
    pub(super) limit: usize,
}

/// What the run has said.
#[derive(Debug)]
pub(super) enum Update {
    Top(Box<Top>),
    /// It has ended.
    Ended,
    /// It cannot be asked.
    Failed(ControlError),
}

/// Asks until the run has ended or the receiver is gone.
#[derive(Debug)]
pub(super) struct Watcher {
    queries: Sender<Query>,
    updates: Receiver<Update>,
}

impl Watcher {
    pub(super) fn start(control: Control, query: Query) -> Self {
        let (queries, to_do) = channel();
        let (done, updates) = channel();
        std::thread::spawn(move || ask(&control, query, &to_do, &done));
        Self { queries, updates }
    }

    /// Asks for something else from now on, and at once.
    pub(super) fn query(&self, query: Query) {
        // A watcher that has ended reports so itself.
        let _ = self.queries.send(query);
    }

    /// What has been said since, if anything.
    pub(super) fn updates(&self) -> Option<Update> {
        match self.updates.try_recv() {
            Ok(updates) => Some(updates),
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Some(Update::Ended),
        }
    }
}

fn ask(control: &Control, mut query: Query, queries: &Receiver<Query>, updates: &Sender<Update>) {
    let mut answered = false;
    loop {
        let request = Request::Top {
            limit: query.limit,
            by: query.by,
        };
        let said = match control.ask(&request, &[]) {
            Ok(Reply::Top(top)) => Update::Top(top),
            Ok(_) => Update::Failed(ControlError::Ended),
            Err(ControlError::Ended | ControlError::Io { .. }) if answered => Update::Ended,
            Err(error) => Update::Failed(error),
        };
        answered = matches!(said, Update::Top(_));
        if updates.send(said).is_err() || !answered {
            return;
        }
        match queries.recv_timeout(REFRESH) {
            Ok(new) => query = new,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Of several queries the last counts.
        while let Ok(new) = queries.try_recv() {
            query = new;
        }
    }
}
