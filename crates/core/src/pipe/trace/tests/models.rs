//! Slow models of replay, which share nothing with it.

use super::super::WORK_OF_BYTE;
use crate::trace::{Capacity, Series, Trace};
use crate::units::Rate;

/// What can be sent in the nanosecond that begins at `t`: `None` is everything, otherwise bits ·
/// 10⁹ times `scale`, which every `2 · length` of a stretch must divide. Not for loops.
pub(super) fn budget(trace: &Trace, fallback: Option<Rate>, t: u64, scale: u128) -> Option<u128> {
    let Series::Samples {
        samples,
        interpolate,
    } = &trace.series
    else {
        panic!("samples")
    };
    let own = |rate: Option<Rate>| rate.map(|rate| u128::from(rate.bits_per_s()) * scale);
    let Some(since) = t.checked_sub(trace.offset.as_ns()) else {
        return own(fallback);
    };
    let mut index = 0;
    while index + 1 < samples.len() && samples[index + 1].at.as_ns() <= since {
        index += 1;
    }
    let figure = |capacity| match capacity {
        Capacity::Outage => Some(0),
        Capacity::Limited(rate) => Some(i128::from(rate.bits_per_s())),
        Capacity::Unlimited => None,
    };
    let Some(capacity) = samples[index].rate else {
        return own(fallback);
    };
    let from = figure(capacity)?;
    let to = samples
        .get(index + 1)
        .filter(|_| *interpolate)
        .and_then(|next| figure(next.rate?));
    let scaled = from * scale as i128;
    let Some(to) = to else {
        return Some(scaled as u128);
    };
    // The mean of a line over one nanosecond is its value in the middle.
    let (begin, end) = (samples[index].at.as_ns(), samples[index + 1].at.as_ns());
    let middle = i128::from(2 * (since - begin) + 1);
    let per_half = scale as i128 / i128::from(2 * (end - begin));
    Some((scaled + (to - from) * middle * per_half) as u128)
}

/// Serves packets nanosecond by nanosecond up to `until`: what one leaves of a nanosecond is for
/// the next if that one was there already.
pub(super) fn summed(
    trace: &Trace,
    fallback: Option<Rate>,
    packets: &[(u64, u32)],
    (until, scale): (u64, u128),
) -> Vec<u64> {
    let mut out = vec![u64::MAX; packets.len()];
    let (mut next, mut done) = (0, 0u128);
    for t in 0..until {
        let mut open = budget(trace, fallback, t, scale);
        while let Some(&(entered, bytes)) = packets.get(next).filter(|packet| packet.0 <= t) {
            debug_assert!(entered <= t);
            let Some(open) = &mut open else {
                (out[next], next, done) = (t, next + 1, 0);
                continue;
            };
            let missing = u128::from(bytes) * WORK_OF_BYTE * scale - done;
            if *open < missing {
                done += *open;
                break;
            }
            *open -= missing;
            (out[next], next, done) = (t + 1, next + 1, 0);
        }
    }
    out
}

/// Hands out opportunities one by one to packets that entered before them.
pub(super) fn handed_out(trace: &Trace, packets: &[(u64, u32)]) -> Vec<u64> {
    let Series::Opportunities { at, bytes } = &trace.series else {
        panic!("opportunities")
    };
    let mut out = vec![u64::MAX; packets.len()];
    let (mut next, mut sent) = (0, 0);
    for at in at {
        let time = at.as_ns() + trace.offset.as_ns();
        let mut open = *bytes;
        while let Some(&(_, bytes)) = packets.get(next).filter(|packet| packet.0 < time) {
            let part = open.min(bytes - sent);
            (sent, open) = (sent + part, open - part);
            if sent < bytes {
                break;
            }
            (out[next], next, sent) = (time, next + 1, 0);
        }
    }
    out
}
