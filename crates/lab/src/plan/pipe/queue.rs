//! Queues: a length, the name of a discipline, or a discipline with its parameters.

use std::num::NonZeroU32;

use longhaul_core::params::{CoDel, Discipline, FqCodel, Pie, Red};
use longhaul_core::units::QueueLimit;

use super::{get, positive};
use crate::file::error::Faults;
use crate::file::link::{CodelSpec, FqCodelSpec, PieSpec, QueueSpec, RedSpec};
use crate::file::wrap::{At, Either, Quantity, QueueWord};

/// A bound with its discipline.
type Queue = (QueueLimit, Discipline);

/// Linux's `limit` of FQ-CoDel.
const FQ_CODEL_LIMIT: QueueLimit = QueueLimit::Packets(10_240);
/// The most flow queues: each takes memory in every pipe that has them.
const FLOWS_MAX: u32 = 65_536;

pub(super) fn read(
    spec: &Either<Quantity<QueueWord>, At<QueueSpec>>,
    faults: &mut Faults,
) -> Option<Queue> {
    match spec {
        Either::Short(word) => {
            let queue = match word.get(faults)? {
                QueueWord::Limit(limit) => (limit, Discipline::DropTail),
                QueueWord::DropTail => Queue::default(),
                QueueWord::Red => {
                    let limit = QueueLimit::default();
                    (limit, Discipline::Red(Red::for_limit(limit)))
                }
                QueueWord::Codel => (QueueLimit::default(), Discipline::CoDel(CoDel::default())),
                QueueWord::Pie => (QueueLimit::default(), Discipline::Pie(Pie::default())),
                QueueWord::FqCodel => (FQ_CODEL_LIMIT, Discipline::FqCodel(FqCodel::default())),
            };
            Some(queue)
        }
        Either::Long(At { at, value }) => match value {
            QueueSpec::DropTail(spec) => {
                Some((limit(spec.limit.as_ref(), faults)?, Discipline::DropTail))
            }
            QueueSpec::Red(spec) => {
                let limit = limit(spec.limit.as_ref(), faults)?;
                Some((limit, Discipline::Red(red(spec, limit, *at, faults)?)))
            }
            QueueSpec::Codel(spec) => Some((
                limit(spec.limit.as_ref(), faults)?,
                Discipline::CoDel(codel(spec, faults)?),
            )),
            QueueSpec::Pie(spec) => Some((
                limit(spec.limit.as_ref(), faults)?,
                Discipline::Pie(pie(spec, faults)?),
            )),
            QueueSpec::FqCodel(spec) => {
                let limit = match &spec.limit {
                    Some(limit) => limit.get(faults)?,
                    None => FQ_CODEL_LIMIT,
                };
                Some((limit, Discipline::FqCodel(fq_codel(spec, faults)?)))
            }
        },
    }
}

fn limit(field: Option<&Quantity<QueueLimit>>, faults: &mut Faults) -> Option<QueueLimit> {
    match field {
        Some(limit) => limit.get(faults),
        None => Some(QueueLimit::default()),
    }
}

/// A length as a bare number, in the unit of `limit`.
fn in_unit(
    field: &Quantity<QueueLimit>,
    name: &str,
    limit: QueueLimit,
    faults: &mut Faults,
) -> Option<u64> {
    match (field.get(faults)?, limit) {
        (QueueLimit::Packets(packets), QueueLimit::Packets(_)) => Some(u64::from(packets)),
        (QueueLimit::Bytes(bytes), QueueLimit::Bytes(_)) => Some(bytes),
        (QueueLimit::Time(span), QueueLimit::Time(_)) => Some(span.as_ns()),
        (other, _) => {
            let message = format!("`{name}` is {other}, but the limit of the queue is {limit}");
            faults.add(field.at(), message, "give all in packets, or all in bytes");
            None
        }
    }
}

fn red(
    spec: &RedSpec,
    limit: QueueLimit,
    at: crate::file::error::Pos,
    faults: &mut Faults,
) -> Option<Red> {
    if matches!(limit, QueueLimit::Time(_)) {
        let message = "RED averages packets or bytes, and a limit in time is neither";
        faults.add(at, message, "write it like `{ red: { limit: 64 KiB } }`");
        return None;
    }
    let default = Red::for_limit(limit);
    let bound = |field: &Option<Quantity<QueueLimit>>, name, default, faults: &mut Faults| {
        let given = field.as_ref().map(|field| in_unit(field, name, limit, faults));
        given.unwrap_or(Some(default))
    };
    let min = bound(&spec.min, "min", default.min, faults)?;
    let max = bound(&spec.max, "max", default.max, faults)?;
    let all = match limit {
        QueueLimit::Packets(packets) => u64::from(packets),
        QueueLimit::Bytes(bytes) => bytes,
        QueueLimit::Time(_) => u64::MAX,
    };
    if !(min < max && max <= all) {
        let message = format!(
            "RED drops between two bounds below the limit, but here `min` is {min}, `max` {max} \
             and `limit` {all}"
        );
        faults.add(
            at,
            message,
            "write it like `{ red: { limit: 64 KiB, min: 10 KiB, max: 30 KiB } }`",
        );
        return None;
    }
    let weight = spec.weight.as_ref().map_or(9, |weight| weight.value);
    if !(1..=30).contains(&weight) {
        let at = spec.weight.as_ref().map_or(at, |weight| weight.at);
        faults.add(
            at,
            format!("a weight of 2^-{weight} is not possible"),
            "write a number from 1 to 30, such as `weight: 9`",
        );
        return None;
    }
    Some(Red {
        min,
        max,
        probability: match &spec.probability {
            Some(probability) => probability.get(faults)?,
            None => default.probability,
        },
        weight_log2: weight as u8,
        ecn: spec.ecn.unwrap_or(default.ecn),
    })
}

/// A time above zero, or the default.
macro_rules! time {
    ($spec:expr, $default:expr, $field:ident, $faults:expr) => {
        match &$spec.$field {
            Some(span) => positive(span, stringify!($field), $faults)?,
            None => $default.$field,
        }
    };
}

fn codel(spec: &CodelSpec, faults: &mut Faults) -> Option<CoDel> {
    let default = CoDel::default();
    Some(CoDel {
        target: time!(spec, default, target, faults),
        interval: time!(spec, default, interval, faults),
        ecn: spec.ecn.unwrap_or(default.ecn),
    })
}

fn pie(spec: &PieSpec, faults: &mut Faults) -> Option<Pie> {
    let default = Pie::default();
    Some(Pie {
        target: time!(spec, default, target, faults),
        update: time!(spec, default, update, faults),
        max_burst: get(spec.max_burst.as_ref(), faults).unwrap_or(default.max_burst),
        ecn: spec.ecn.unwrap_or(default.ecn),
    })
}

fn fq_codel(spec: &FqCodelSpec, faults: &mut Faults) -> Option<FqCodel> {
    let default = FqCodel::default();
    let codel = CoDel {
        target: time!(spec, default.codel, target, faults),
        interval: time!(spec, default.codel, interval, faults),
        ecn: spec.ecn.unwrap_or(default.codel.ecn),
    };
    let flows = match &spec.flows {
        None => default.flows,
        Some(flows) => match NonZeroU32::new(flows.value).filter(|n| n.get() <= FLOWS_MAX) {
            Some(number) => number,
            None => {
                let message = format!("{} flow queues are not possible", flows.value);
                let hint = format!("write a number from 1 to {FLOWS_MAX}, such as `flows: 1024`");
                faults.add(flows.at, message, hint);
                return None;
            }
        },
    };
    let quantum = match &spec.quantum {
        None => default.quantum,
        Some(bytes) => match u32::try_from(bytes.get(faults)?.0).ok().filter(|n| *n > 0) {
            Some(quantum) => quantum,
            None => {
                let message = "such a quantum is not possible";
                faults.add(bytes.at(), message, "write it like `quantum: 1514 B`");
                return None;
            }
        },
    };
    Some(FqCodel {
        codel,
        flows,
        quantum,
    })
}
