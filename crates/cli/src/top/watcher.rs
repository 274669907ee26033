//! The thread that asks the run, so that keys are answered while the run takes its time.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use longhaul_lab::control::{Control, ControlError, Order, Reply, Request, Top};

/// Interval of requests: short enough that a second is shown soon after its end.
const REFRESH: Duration = Duration::from_millis(500);

/// What to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) by: Order,
    pub(super) limit: usize,
}

/// What the run has said.
#[derive(Debug)]
pub(super) enum News {
    Top(Box<Top>),
    /// It has ended.
    Ended,
    /// It cannot be asked.
    Failed(ControlError),
}

/// Asks until the run has ended or the receiver is gone.
#[derive(Debug)]
pub(super) struct Watcher {
    wishes: Sender<Wish>,
    news: Receiver<News>,
}

impl Watcher {
    pub(super) fn start(control: Control, wish: Wish) -> Self {
        let (wishes, to_do) = channel();
        let (done, news) = channel();
        std::thread::spawn(move || ask(&control, wish, &to_do, &done));
        Self { wishes, news }
    }

    /// Asks for something else from now on, and at once.
    pub(super) fn wish(&self, wish: Wish) {
        // A watcher that has ended reports so itself.
        let _ = self.wishes.send(wish);
    }

    /// What has been said since, if anything.
    pub(super) fn news(&self) -> Option<News> {
        match self.news.try_recv() {
            Ok(news) => Some(news),
            Err(std::sync::mpsc::TryRecvError::Empty) => None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Some(News::Ended),
        }
    }
}

fn ask(control: &Control, mut wish: Wish, wishes: &Receiver<Wish>, news: &Sender<News>) {
    let mut answered = false;
    loop {
        let request = Request::Top {
            limit: wish.limit,
            by: wish.by,
        };
        let said = match control.ask(&request, &[]) {
            Ok(Reply::Top(top)) => News::Top(top),
            Ok(_) => News::Failed(ControlError::Ended),
            Err(ControlError::Ended | ControlError::Io { .. }) if answered => News::Ended,
            Err(error) => News::Failed(error),
        };
        answered = matches!(said, News::Top(_));
        if news.send(said).is_err() || !answered {
            return;
        }
        match wishes.recv_timeout(REFRESH) {
            Ok(new) => wish = new,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Of several wishes the last counts.
        while let Ok(new) = wishes.try_recv() {
            wish = new;
        }
    }
}
