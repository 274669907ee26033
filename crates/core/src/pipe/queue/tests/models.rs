//! The texts' pseudo-code, taken literally: plain vectors, no laziness, no
//! sharing. Times are whole nanoseconds, as everywhere; all else is floating point.

use super::super::Item;
use super::BYTE_NS;
use crate::params::{self, Discipline};
use crate::rng::Stream;
use crate::units::QueueLimit;

/// What a queue does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    In(u32),
    InMarked(u32),
    Dropped { index: u32, early: bool },
    Out { index: u32, marked: bool },
    Nothing,
}

pub(super) type Log = Vec<Event>;

fn drop_packet(log: &mut Log, item: &Item, early: bool) {
    log.push(Event::Dropped {
        index: item.index,
        early,
    });
}

/// A queue by its text; `rest` is the time left of the packet in service.
pub(super) trait Model {
    fn enqueue(&mut self, now: u64, item: Item, rest: Option<u64>, log: &mut Log);
    fn dequeue(&mut self, now: u64, log: &mut Log);
}

pub(super) fn model(limit: QueueLimit, discipline: Discipline, random: Stream) -> Box<dyn Model> {
    match discipline {
        Discipline::DropTail => Box::new(DropTailModel(limit, Vec::new())),
        Discipline::Red(red) => Box::new(RedModel::new(limit, red, random)),
        Discipline::CoDel(params) => Box::new(CodelModel {
            limit,
            largest: 0,
            line: CodelLine::new(params),
        }),
        Discipline::Pie(pie) => Box::new(PieModel::new(limit, pie, random)),
        Discipline::FqCodel(params) => Box::new(FqModel::new(limit, params)),
    }
}

fn sum(items: &[Item]) -> u64 {
    items.iter().map(|item| u64::from(item.bytes)).sum()
}

fn full(limit: QueueLimit, packets: usize, bytes: u64, item: &Item, rest: Option<u64>) -> bool {
    if packets == 0 && rest.is_none() {
        return false;
    }
    match limit {
        QueueLimit::Packets(most) => packets + 1 > most as usize,
        QueueLimit::Bytes(most) => bytes + u64::from(item.bytes) > most,
        QueueLimit::Time(span) => rest.unwrap_or(0) + bytes * BYTE_NS > span.as_ns(),
    }
}

struct DropTailModel(QueueLimit, Vec<Item>);

impl Model for DropTailModel {
    fn enqueue(&mut self, _: u64, item: Item, rest: Option<u64>, log: &mut Log) {
        if full(self.0, self.1.len(), sum(&self.1), &item, rest) {
            drop_packet(log, &item, false);
        } else {
            log.push(Event::In(item.index));
            self.1.push(item);
        }
    }

    fn dequeue(&mut self, _: u64, log: &mut Log) {
        if self.1.is_empty() {
            return log.push(Event::Nothing);
        }
        log.push(Event::Out {
            index: self.1.remove(0).index,
            marked: false,
        });
    }
}

/// Uniform in [0, 1).
fn random(stream: &mut Stream) -> f64 {
    (stream.draw() >> 11) as f64 / 9_007_199_254_740_992.0
}

/// Figure 2 of Floyd and Jacobson 1993, with the gentle slope.
struct RedModel {
    limit: QueueLimit,
    red: params::Red,
    random: Stream,
    q: Vec<Item>,
    mean: Option<f64>,
    avg: f64,
    count: f64,
    q_time: u64,
}

impl RedModel {
    fn new(limit: QueueLimit, red: params::Red, random: Stream) -> Self {
        Self {
            limit,
            red,
            random,
            q: Vec::new(),
            mean: None,
            avg: 0.0,
            count: -1.0,
            q_time: 0,
        }
    }

    fn average(&mut self, now: u64, item: &Item, rest: Option<u64>) {
        let mean = self.mean.unwrap_or(f64::from(item.bytes));
        let mean = mean * (63.0 / 64.0) + f64::from(item.bytes) / 64.0;
        self.mean = Some(mean);
        let w_q = 0.5f64.powi(i32::from(self.red.weight_log2));
        let bytes = sum(&self.q);
        let q = match self.limit {
            QueueLimit::Packets(_) => self.q.len() as f64,
            QueueLimit::Bytes(_) => bytes as f64,
            QueueLimit::Time(_) => (rest.unwrap_or(0) + bytes * BYTE_NS) as f64,
        };
        if self.q.is_empty() {
            let m = (now - self.q_time) as f64 / (mean * BYTE_NS as f64);
            self.avg *= (1.0 - w_q).powf(m);
            self.q_time = now;
        } else {
            self.avg = (1.0 - w_q) * self.avg + w_q * q;
        }
    }
}

impl Model for RedModel {
    fn enqueue(&mut self, now: u64, item: Item, rest: Option<u64>, log: &mut Log) {
        self.average(now, &item, rest);
        let (min_th, max_th) = (self.red.min as f64, self.red.max as f64);
        let max_p = self.red.probability.as_f64();
        let mut mark = false;
        if self.avg < min_th {
            self.count = -1.0;
        } else {
            self.count += 1.0;
            let p_b = if self.avg < max_th {
                max_p * (self.avg - min_th) / (max_th - min_th)
            } else {
                (max_p + (1.0 - max_p) * (self.avg / max_th - 1.0)).min(1.0)
            };
            let certain = self.count * p_b >= 1.0 || p_b / (1.0 - self.count * p_b) >= 1.0;
            let p_a = if certain {
                1.0
            } else {
                p_b / (1.0 - self.count * p_b)
            };
            mark = p_a >= 1.0 || (p_a > 0.0 && random(&mut self.random) < p_a);
            if mark {
                self.count = 0.0;
            }
        }
        let by_ecn = self.red.ecn && item.ecn_capable && self.avg < max_th;
        if mark && !by_ecn {
            drop_packet(log, &item, true);
        } else if full(self.limit, self.q.len(), sum(&self.q), &item, rest) {
            self.count = 0.0;
            drop_packet(log, &item, false);
        } else {
            self.q.push(item);
            log.push(if mark {
                Event::InMarked(item.index)
            } else {
                Event::In(item.index)
            });
        }
    }

    fn dequeue(&mut self, now: u64, log: &mut Log) {
        if self.q.is_empty() {
            return log.push(Event::Nothing);
        }
        let item = self.q.remove(0);
        if self.q.is_empty() {
            self.q_time = now;
        }
        log.push(Event::Out {
            index: item.index,
            marked: false,
        });
    }
}

/// RFC 8289 §5, with marks in the place of drops.
struct CodelLine {
    params: params::CoDel,
    q: Vec<Item>,
    /// 0 stands for none, as in the RFC.
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

struct DodequeueResult {
    p: Option<Item>,
    ok_to_drop: bool,
}

impl CodelLine {
    fn new(params: params::CoDel) -> Self {
        Self {
            params,
            q: Vec::new(),
            first_above_time: 0,
            drop_next: 0,
            count: 0,
            lastcount: 0,
            dropping: false,
        }
    }

    fn control_law(&self, t: u64, count: u32) -> u64 {
        t + (self.params.interval.as_ns() as f64 / f64::from(count).sqrt()).floor() as u64
    }

    fn dodequeue(&mut self, now: u64, maxpacket: u32) -> DodequeueResult {
        let p = (!self.q.is_empty()).then(|| self.q.remove(0));
        let mut ok_to_drop = false;
        match p {
            None => self.first_above_time = 0,
            Some(p) => {
                let sojourn_time = now - p.entered.as_ns();
                let target = self.params.target.as_ns();
                if sojourn_time < target || sum(&self.q) <= u64::from(maxpacket) {
                    self.first_above_time = 0;
                } else if self.first_above_time == 0 {
                    self.first_above_time = now + self.params.interval.as_ns();
                } else if now >= self.first_above_time {
                    ok_to_drop = true;
                }
            }
        }
        DodequeueResult { p, ok_to_drop }
    }

    fn deque(&mut self, now: u64, maxpacket: u32, log: &mut Log) -> Option<(Item, bool)> {
        let mut r = self.dodequeue(now, maxpacket);
        let ecn = self.params.ecn;
        let marks = |p: &Option<Item>| ecn && p.is_some_and(|p| p.ecn_capable);
        if self.dropping {
            if !r.ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.count += 1;
                if marks(&r.p) {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                    return r.p.map(|p| (p, true));
                }
                drop_packet(log, &r.p.unwrap(), true);
                r = self.dodequeue(now, maxpacket);
                if !r.ok_to_drop {
                    self.dropping = false;
                } else {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                }
            }
        } else if r.ok_to_drop {
            let marked = marks(&r.p);
            if !marked {
                drop_packet(log, &r.p.unwrap(), true);
                r = self.dodequeue(now, maxpacket);
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            let since = now as i64 - self.drop_next as i64;
            if delta > 1 && since < 16 * self.params.interval.as_ns() as i64 {
                self.count = delta;
            }
            self.drop_next = self.control_law(now, self.count);
            self.lastcount = self.count;
            return r.p.map(|p| (p, marked));
        }
        r.p.map(|p| (p, false))
    }
}

struct CodelModel {
    limit: QueueLimit,
    largest: u32,
    line: CodelLine,
}

fn log_out(log: &mut Log, out: Option<(Item, bool)>) {
    log.push(out.map_or(Event::Nothing, |(item, marked)| Event::Out {
        index: item.index,
        marked,
    }));
}

impl Model for CodelModel {
    fn enqueue(&mut self, _: u64, item: Item, rest: Option<u64>, log: &mut Log) {
        self.largest = self.largest.max(item.bytes);
        let q = &mut self.line.q;
        if full(self.limit, q.len(), sum(q), &item, rest) {
            drop_packet(log, &item, false);
        } else {
            log.push(Event::In(item.index));
            q.push(item);
        }
    }

    fn dequeue(&mut self, now: u64, log: &mut Log) {
        let out = self.line.deque(now, self.largest, log);
        log_out(log, out);
    }
}

/// RFC 8033, appendix A: a timer for the updates, and delays from timestamps.
struct PieModel {
    limit: QueueLimit,
    pie: params::Pie,
    random: Stream,
    q: Vec<Item>,
    mean: Option<f64>,
    drop_prob: f64,
    current_qdelay: f64,
    qdelay_old: f64,
    /// Whole nanoseconds, so that it gets to 0 exactly.
    burst_allowance: u64,
    next_update: u64,
}

impl PieModel {
    fn new(limit: QueueLimit, pie: params::Pie, random: Stream) -> Self {
        Self {
            limit,
            pie,
            random,
            q: Vec::new(),
            mean: None,
            drop_prob: 0.0,
            current_qdelay: 0.0,
            qdelay_old: 0.0,
            burst_allowance: 0,
            next_update: pie.update.as_ns(),
        }
    }

    fn timer(&mut self, now: u64) {
        while self.next_update <= now {
            self.calculate_drop_prob();
            self.next_update += self.pie.update.as_ns();
        }
        if self.q.is_empty() {
            self.current_qdelay = 0.0;
        }
    }

    fn calculate_drop_prob(&mut self) {
        if self.q.is_empty() {
            self.current_qdelay = 0.0;
        }
        let error = self.current_qdelay - self.pie.target.as_s();
        let mut p = 0.125 * error + 1.25 * (self.current_qdelay - self.qdelay_old);
        if self.drop_prob < 0.000_001 {
            p /= 2048.0;
        } else if self.drop_prob < 0.000_01 {
            p /= 512.0;
        } else if self.drop_prob < 0.000_1 {
            p /= 128.0;
        } else if self.drop_prob < 0.001 {
            p /= 32.0;
        } else if self.drop_prob < 0.01 {
            p /= 8.0;
        } else if self.drop_prob < 0.1 {
            p /= 2.0;
        }
        self.drop_prob += p;
        if self.current_qdelay == 0.0 && self.qdelay_old == 0.0 {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = self.current_qdelay;
        self.burst_allowance -= self.burst_allowance.min(self.pie.update.as_ns());
    }

    fn drop_early(&mut self) -> bool {
        let half = self.pie.target.as_s() / 2.0;
        if (self.qdelay_old < half && self.drop_prob < 0.2)
            || sum(&self.q) as f64 <= 2.0 * self.mean.unwrap()
        {
            return false;
        }
        random(&mut self.random) < self.drop_prob
    }
}

impl Model for PieModel {
    fn enqueue(&mut self, now: u64, item: Item, rest: Option<u64>, log: &mut Log) {
        self.timer(now);
        let mean = self.mean.unwrap_or(f64::from(item.bytes));
        self.mean = Some(mean * (63.0 / 64.0) + f64::from(item.bytes) / 64.0);
        if full(self.limit, self.q.len(), sum(&self.q), &item, rest) {
            return drop_packet(log, &item, false);
        }
        let half = self.pie.target.as_s() / 2.0;
        if self.drop_prob == 0.0 && self.current_qdelay < half && self.qdelay_old < half {
            self.burst_allowance = self.pie.max_burst.as_ns();
        }
        if self.burst_allowance == 0 && self.drop_early() {
            if self.pie.ecn && item.ecn_capable && self.drop_prob <= 0.1 {
                log.push(Event::InMarked(item.index));
                self.q.push(item);
            } else {
                drop_packet(log, &item, true);
            }
        } else {
            log.push(Event::In(item.index));
            self.q.push(item);
        }
    }

    fn dequeue(&mut self, now: u64, log: &mut Log) {
        self.timer(now);
        if self.q.is_empty() {
            return log.push(Event::Nothing);
        }
        let item = self.q.remove(0);
        self.current_qdelay = (now - item.entered.as_ns()) as f64 / 1e9;
        log.push(Event::Out {
            index: item.index,
            marked: false,
        });
    }
}

/// RFC 8290 §4.
struct FqModel {
    limit: QueueLimit,
    params: params::FqCodel,
    largest: u32,
    /// In order of first use, with the value of the hash.
    queues: Vec<(u64, CodelLine, i64)>,
    new_queues: Vec<usize>,
    old_queues: Vec<usize>,
}

impl FqModel {
    fn new(limit: QueueLimit, params: params::FqCodel) -> Self {
        Self {
            limit,
            params,
            largest: 0,
            queues: Vec::new(),
            new_queues: Vec::new(),
            old_queues: Vec::new(),
        }
    }

    fn classify(&mut self, item: &Item) -> usize {
        let bucket = item.flow % u64::from(self.params.flows.get());
        let known = self.queues.iter().position(|queue| queue.0 == bucket);
        known.unwrap_or_else(|| {
            let line = CodelLine::new(self.params.codel);
            self.queues.push((bucket, line, 0));
            self.queues.len() - 1
        })
    }

    fn waiting(&self) -> (usize, u64) {
        let lines = self.queues.iter().map(|queue| &queue.1.q);
        lines.fold((0, 0), |(packets, bytes), q| {
            (packets + q.len(), bytes + sum(q))
        })
    }
}

impl Model for FqModel {
    fn enqueue(&mut self, _: u64, item: Item, rest: Option<u64>, log: &mut Log) {
        self.largest = self.largest.max(item.bytes);
        let at = self.classify(&item);
        self.queues[at].1.q.push(item);
        if !self.new_queues.contains(&at) && !self.old_queues.contains(&at) {
            self.new_queues.push(at);
            self.queues[at].2 = i64::from(self.params.quantum);
        }
        loop {
            let (packets, bytes) = self.waiting();
            let ahead = bytes - u64::from(item.bytes);
            if !full(self.limit, packets - 1, ahead, &item, rest) {
                return log.push(Event::In(item.index));
            }
            let most = self.queues.iter().map(|queue| sum(&queue.1.q)).max();
            let fattest = self
                .queues
                .iter()
                .position(|queue| Some(sum(&queue.1.q)) == most);
            let dropped = self.queues[fattest.unwrap()].1.q.remove(0);
            drop_packet(log, &dropped, false);
            if dropped.index == item.index {
                return;
            }
        }
    }

    fn dequeue(&mut self, now: u64, log: &mut Log) {
        loop {
            let is_new = !self.new_queues.is_empty();
            if !is_new && self.old_queues.is_empty() {
                return log.push(Event::Nothing);
            }
            let at = if is_new {
                self.new_queues[0]
            } else {
                self.old_queues[0]
            };
            let leave = |model: &mut Self| {
                if is_new {
                    model.new_queues.remove(0);
                } else {
                    model.old_queues.remove(0);
                }
            };
            if self.queues[at].2 <= 0 {
                self.queues[at].2 += i64::from(self.params.quantum);
                leave(self);
                self.old_queues.push(at);
                continue;
            }
            let out = self.queues[at].1.deque(now, self.largest, log);
            if let Some((item, _)) = out {
                self.queues[at].2 -= i64::from(item.bytes);
                return log_out(log, out);
            }
            leave(self);
            if is_new {
                self.old_queues.push(at);
            }
        }
    }
}
