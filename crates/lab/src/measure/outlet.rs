//! Readers of a capture under way, through a pipe or any other descriptor that they have opened.
//!
//! Each reader has a writing thread, so a reader that stops blocks only that. The queue to the
//! thread is bounded by [`PENDING`]: while it is full, packets are counted as missed
//! ([`Outlet::is_ready`]). At the end of a capture the queue is still delivered; a run that ends
//! waits for that as long as its caller chooses ([`Delivery`]).

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use longhaul_linux::wait_writable;

/// The most that is queued for a reader: bytes, and blocks.
const PENDING: usize = 16 << 20;

/// A reader.
pub(super) struct Outlet {
    state: Arc<State>,
    /// Its other end goes with the thread.
    delivery: Delivery,
}

/// The writing side of it.
pub(super) struct OutletWriter {
    blocks: Sender<Vec<u8>>,
    state: Arc<State>,
}

/// The end of what a reader has yet to take.
pub(crate) struct Delivery(Receiver<Infallible>);

#[derive(Default)]
struct State {
    pending: AtomicUsize,
    is_gone: AtomicBool,
}

impl Outlet {
    /// A reader of what is written to `to`.
    pub(super) fn new(to: OwnedFd) -> io::Result<(Self, OutletWriter)> {
        let (blocks, inbox) = channel::<Vec<u8>>();
        let (end, delivery) = channel();
        let state = Arc::new(State::default());
        let own = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("longhaul-capture".to_owned());
        thread.spawn(move || {
            let _end: Sender<Infallible> = end;
            let mut to = File::from(to);
            for block in inbox {
                if write_whole(&mut to, &block).is_err() {
                    own.is_gone.store(true, Ordering::Relaxed);
                    return;
                }
                own.pending.fetch_sub(block.len(), Ordering::Relaxed);
            }
        })?;
        let outlet = Self {
            state: Arc::clone(&state),
            delivery: Delivery(delivery),
        };
        Ok((outlet, OutletWriter { blocks, state }))
    }

    /// Whether there is room for more.
    pub(super) fn is_ready(&self) -> bool {
        self.state.pending.load(Ordering::Relaxed) < PENDING
    }

    /// The end of what is under way, once the writing side is gone.
    pub(super) fn close(self) -> Delivery {
        self.delivery
    }
}

impl Delivery {
    /// Waits for at most this long until the reader has taken everything or is gone; returns whether it
    /// has or is.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        self.0.recv_timeout(at_most) == Err(RecvTimeoutError::Disconnected)
    }
}

/// Writes to a reader, whose descriptor may be one that does not block.
fn write_whole(to: &mut File, mut block: &[u8]) -> io::Result<()> {
    while !block.is_empty() {
        match to.write(block) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => block = &block[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_writable(to.as_fd())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Write for OutletWriter {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        if self.state.is_gone.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let pending = &self.state.pending;
        pending.fetch_add(block.len(), Ordering::Relaxed);
        let sent = self.blocks.send(block.to_vec());
        sent.map(|()| block.len())
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A reader that stops makes the outlet not ready but blocks nothing; the queue is delivered when it goes on.
    #[test]
    fn a_reader_that_stops_holds_up_nobody() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (outlet, mut writer) = Outlet::new(ours.into()).unwrap();
        let block = vec![7; 1 << 20];
        let mut written = 0;
        while outlet.is_ready() {
            writer.write_all(&block).unwrap();
            written += block.len();
            assert!(written <= 64 << 20, "there is no bound");
        }
        assert!(written >= PENDING);
        drop(writer);
        let delivery = outlet.close();
        assert!(
            !delivery.wait(Duration::from_millis(50)),
            "it waits for its reader"
        );
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).unwrap();
        assert!(all.len() == written && all.iter().all(|byte| *byte == 7));
        assert!(delivery.wait(Duration::from_secs(10)));
    }

    #[test]
    fn a_reader_that_goes_away_ends_it() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (outlet, mut writer) = Outlet::new(ours.into()).unwrap();
        drop(theirs);
        let _ = writer.write_all(&[1; 100]);
        assert!(
            outlet.delivery.wait(Duration::from_secs(10)),
            "its thread ends"
        );
        let error = writer.write_all(&[2; 100]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
