//! What has been sent and not yet acknowledged, segment by segment.
//!
//! Theory: each segment is in the network, selectively acknowledged or thought lost, and may
//! have been sent again; the counts of RFC 6675's pipe are kept beside the records, as Linux
//! does (`packets_out`, `sacked_out`, `lost_out`, `retrans_out`). Originals were sent in the
//! order of their numbers, and retransmissions are queued in the order of their sending, so
//! that a search for what is lost by time never walks over what it has judged before. Memory is
//! taken with the first segment and given back when all is acknowledged.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use longhaul_core::time::Time;

use super::segment::Range;

/// Selectively acknowledged.
pub(super) const SACKED: u8 = 1;
/// Thought lost.
pub(super) const LOST: u8 = 2;
/// Sent again, and that copy is not thought lost.
pub(super) const RESENT: u8 = 4;
/// Was ever sent again: its acknowledgement is ambiguous (Karn).
pub(super) const EVER_RESENT: u8 = 8;
/// Its last number is the FIN.
pub(super) const FIN: u8 = 16;
/// Was sent when the application, not the window, was the limit.
pub(super) const APP_LIMITED: u8 = 32;

/// A segment that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) seq: u64,
    /// Numbers taken, with the FIN's.
    pub(super) span: u32,
    pub(super) flags: u8,
    /// When it was last sent.
    pub(super) at: Time,
    /// When the first segment of the flight it belongs to was sent (rate samples).
    pub(super) first_at: Time,
    /// Segments delivered when it was sent, and when the last of them was.
    pub(super) delivered: u64,
    pub(super) delivered_at: Time,
}

impl Sent {
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.span)
    }

    pub(super) fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// All that is outstanding.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    sent: VecDeque<Sent>,
    /// Retransmissions (number, time) in the order of their sending.
    resent: VecDeque<(u64, Time)>,
    /// The blocks of the last acknowledgement, whose segments are marked already.
    known: Option<Box<[Range; 4]>>,
    /// Selectively acknowledged; without that option, duplicate acknowledgements.
    pub(super) sacked: u32,
    pub(super) lost: u32,
    pub(super) retransmissions: u32,
    /// Marked lost so far, copies that were sent again too (Linux's `lost`).
    pub(super) marked: u64,
    /// Lost and not sent again.
    pub(super) to_resend: u32,
    /// None below is to be sent again.
    resend_from: u64,
    /// Originals below are judged: acknowledged, lost or sent again.
    pub(super) judged: u64,
    /// The number behind the highest one selectively acknowledged.
    pub(super) highest: u64,
}

/// A scoreboard that takes memory only while something is outstanding: most of a million
/// connections are idle.
#[derive(Debug, Default)]
pub(super) struct Board(Option<Box<Scoreboard>>);

static EMPTY: Scoreboard = Scoreboard {
    sent: VecDeque::new(),
    resent: VecDeque::new(),
    known: None,
    sacked: 0,
    lost: 0,
    retransmissions: 0,
    marked: 0,
    to_resend: 0,
    resend_from: 0,
    judged: 0,
    highest: 0,
};

impl Board {
    /// Gives the memory back if nothing is outstanding.
    pub(super) fn release(&mut self) {
        if self.is_empty() {
            self.0 = None;
        }
    }
}

impl Deref for Board {
    type Target = Scoreboard;

    fn deref(&self) -> &Scoreboard {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for Board {
    fn deref_mut(&mut self) -> &mut Scoreboard {
        self.0.get_or_insert_default()
    }
}

impl Scoreboard {
    /// Segments outstanding.
    pub(super) fn len(&self) -> u32 {
        self.sent.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// RFC 6675's pipe: segments in the network.
    pub(super) fn in_flight(&self) -> u32 {
        let left = self.sacked + self.lost;
        (self.len() + self.retransmissions).saturating_sub(left)
    }

    pub(super) fn push(&mut self, sent: Sent) {
        self.sent.push_back(sent);
    }

    pub(super) fn first(&self) -> Option<&Sent> {
        self.sent.front()
    }

    pub(super) fn last_index(&self) -> Option<usize> {
        self.sent.len().checked_sub(1)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Sent> {
        self.sent.get(index)
    }

    /// Index of the first segment that starts at `seq` or behind it.
    pub(super) fn index_from(&self, seq: u64) -> usize {
        self.sent.partition_point(|sent| sent.seq < seq)
    }

    /// Index of the segment that starts at `seq`.
    fn index_at(&self, seq: u64) -> Option<usize> {
        let index = self.index_from(seq);
        self.sent
            .get(index)
            .filter(|sent| sent.seq == seq)
            .map(|_| index)
    }

    /// Takes out the first segment if all of it lies below `una`; one that does so in part is
    /// cut.
    pub(super) fn pop_acknowledged(&mut self, una: u64, counts_sacked: bool) -> Option<Sent> {
        let first = self.sent.front_mut()?;
        if first.end() > una {
            if first.seq < una {
                // A number in `resent` no longer fits: that copy is then judged by a time-out.
                first.span = (first.end() - una) as u32;
                first.seq = una;
            }
            return None;
        }
        let sent = self.sent.pop_front()?;
        if counts_sacked && sent.is(SACKED) {
            self.sacked -= 1;
        }
        self.forget_marks(sent.flags);
        Some(sent)
    }

    fn forget_marks(&mut self, flags: u8) {
        let (lost, resent) = (flags & LOST != 0, flags & RESENT != 0);
        self.lost -= u32::from(lost);
        self.retransmissions -= u32::from(resent);
        self.to_resend -= u32::from(lost && !resent);
    }

    /// Marks what `block` covers as selectively acknowledged and hands each such segment, as it
    /// was before, to `seen`.
    pub(super) fn sack(&mut self, block: Range, mut seen: impl FnMut(&Sent)) {
        let known = self.known.as_deref().copied().unwrap_or_default();
        let inside = known
            .into_iter()
            .find(|k| !k.is_empty() && block.start <= k.start && k.end <= block.end);
        let parts = match inside {
            Some(k) => [
                Range {
                    start: block.start,
                    end: k.start,
                },
                Range {
                    start: k.end,
                    end: block.end,
                },
            ],
            None => [block, Range::default()],
        };
        for part in parts {
            let mut index = self.index_from(part.start);
            // A segment at the seam of two parts ends in the second.
            while let Some(sent) = self.sent.get(index).copied()
                && sent.seq < part.end
                && sent.end() <= block.end
            {
                if !sent.is(SACKED) {
                    seen(&sent);
                    self.forget_marks(sent.flags);
                    self.sacked += 1;
                    self.sent[index].flags = (sent.flags & !(LOST | RESENT)) | SACKED;
                    self.highest = self.highest.max(sent.end());
                }
                index += 1;
            }
        }
    }

    /// Remembers the blocks that have been gone through.
    pub(super) fn remember(&mut self, blocks: &[Range]) {
        let known = self.known.get_or_insert_default();
        known.fill(Range::default());
        known
            .iter_mut()
            .zip(blocks)
            .for_each(|(place, block)| *place = *block);
    }

    /// Marks the segment at `index` lost; if it was sent again, that copy is. False if it is
    /// acknowledged or known to be lost.
    pub(super) fn mark_lost(&mut self, index: usize) -> bool {
        let Some(sent) = self.sent.get_mut(index) else {
            return false;
        };
        if sent.is(SACKED) || (sent.is(LOST) && !sent.is(RESENT)) {
            return false;
        }
        self.lost += u32::from(!sent.is(LOST));
        self.retransmissions -= u32::from(sent.is(RESENT));
        self.to_resend += 1;
        self.marked += 1;
        sent.flags = (sent.flags & !RESENT) | LOST;
        self.resend_from = self.resend_from.min(sent.seq);
        true
    }

    /// All that is not acknowledged is lost; returns how many had not been known to be.
    pub(super) fn mark_all_lost(&mut self) -> u32 {
        let marked = (0..self.sent.len())
            .filter(|&index| self.mark_lost(index))
            .count();
        self.resent.clear();
        self.judged = self.sent.back().map_or(0, Sent::end);
        marked as u32
    }

    /// Nothing is thought lost any more (an undone reduction).
    pub(super) fn unmark_lost(&mut self) {
        for sent in &mut self.sent {
            sent.flags &= !LOST;
        }
        self.lost = 0;
        self.to_resend = 0;
    }

    /// Forgets all selective acknowledgements: the other side has gone back on them.
    pub(super) fn renege(&mut self) {
        for sent in &mut self.sent {
            sent.flags &= !SACKED;
        }
        self.sacked = 0;
        self.known = None;
        self.highest = 0;
    }

    /// Index of the first segment to be sent again.
    pub(super) fn next_to_resend(&mut self) -> Option<usize> {
        if self.to_resend == 0 {
            return None;
        }
        let mut index = self.index_from(self.resend_from);
        while let Some(sent) = self.sent.get(index) {
            if sent.is(LOST) && !sent.is(RESENT) {
                self.resend_from = sent.seq;
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// The segment at `index` has been sent again; `stamp` sets its times. Gives it back.
    pub(super) fn resend(&mut self, index: usize, stamp: impl FnOnce(&mut Sent)) -> Option<Sent> {
        let sent = self.sent.get_mut(index)?;
        let (lost, resent) = (sent.is(LOST), sent.is(RESENT));
        stamp(sent);
        sent.flags |= RESENT | EVER_RESENT;
        self.retransmissions += u32::from(!resent);
        self.to_resend -= u32::from(lost && !resent);
        self.resent.push_back((sent.seq, sent.at));
        Some(*sent)
    }

    /// The earliest retransmission that is neither acknowledged nor judged: index and time.
    pub(super) fn oldest_resent(&mut self) -> Option<(usize, Time)> {
        while let Some(&(seq, at)) = self.resent.front() {
            let index = self.index_at(seq);
            let live = index.filter(|&i| {
                let sent = &self.sent[i];
                sent.is(RESENT) && !sent.is(SACKED) && sent.at == at
            });
            if let Some(index) = live {
                return Some((index, at));
            }
            self.resent.pop_front();
        }
        None
    }

    /// The earliest original that is not judged: its index. Moves `judged` up to it.
    pub(super) fn oldest_original(&mut self) -> Option<usize> {
        let mut index = self.index_from(self.judged);
        while let Some(sent) = self.sent.get(index) {
            if !sent.is(SACKED | LOST | EVER_RESENT) {
                self.judged = sent.seq;
                return Some(index);
            }
            index += 1;
        }
        self.judged = self.sent.back().map_or(0, Sent::end);
        None
    }
}
