//! Queues: a length, the name of a discipline, or a discipline with its parameters.

use std::num::NonZeroU32;

use longhaul_core::params::{CoDel, Discipline, FqCodel, ParamError, Pie, PipeParams, Red};
use longhaul_core::units::QueueLimit;

use crate::file::link::{CodelSpec, FqCodelSpec, PieSpec, QueueSpec, RedSpec};
use crate::file::wrap::{At, Either, Quantity, QueueWord};
use crate::text::error::{Faults, Pos};

/// A bound with its discipline.
type Queue = (QueueLimit, Discipline);

/// Linux's `limit` of FQ-CoDel.
const FQ_CODEL_LIMIT: QueueLimit = QueueLimit::Packets(10_240);

pub(crate) fn read(
    spec: &Either<Quantity<QueueWord>, At<QueueSpec>>,
    faults: &mut Faults,
) -> Option<Queue> {
    let (at, (limit, discipline)) = match spec {
        Either::Short(word) => (word.at(), by_word(word.get(faults)?)),
        Either::Long(spec) => (spec.at, by_parameters(&spec.value, spec.at, faults)?),
    };
    // The engine's own validation refuses parameters out of range, such as times of zero.
    let params = PipeParams {
        queue: limit,
        discipline,
        ..PipeParams::default()
    };
    match params.validate() {
        Ok(()) => Some((limit, discipline)),
        Err(ParamError { problem, remedy }) => {
            faults.add(at, problem, remedy);
            None
        }
    }
}

/// What a text alone says; the rest is by default.
fn by_word(word: QueueWord) -> Queue {
    let limit = QueueLimit::default();
    match word {
        QueueWord::Limit(limit) => (limit, Discipline::DropTail),
        QueueWord::DropTail => (limit, Discipline::DropTail),
        QueueWord::Red => (limit, Discipline::Red(Red::for_limit(limit))),
        QueueWord::Codel => (limit, Discipline::CoDel(CoDel::default())),
        QueueWord::Pie => (limit, Discipline::Pie(Pie::default())),
        QueueWord::FqCodel => (FQ_CODEL_LIMIT, Discipline::FqCodel(FqCodel::default())),
    }
}

fn by_parameters(spec: &QueueSpec, at: Pos, faults: &mut Faults) -> Option<Queue> {
    let asked = match spec {
        QueueSpec::DropTail(spec) => &spec.limit,
        QueueSpec::Red(spec) => &spec.limit,
        QueueSpec::Codel(spec) => &spec.limit,
        QueueSpec::Pie(spec) => &spec.limit,
        QueueSpec::FqCodel(spec) => &spec.limit,
    };
    let limit = match (asked, spec) {
        (Some(limit), _) => limit.get(faults)?,
        (None, QueueSpec::FqCodel(_)) => FQ_CODEL_LIMIT,
        (None, _) => QueueLimit::default(),
    };
    let discipline = match spec {
        QueueSpec::DropTail(_) => Discipline::DropTail,
        QueueSpec::Red(spec) => Discipline::Red(red(spec, limit, at, faults)?),
        QueueSpec::Codel(spec) => Discipline::CoDel(codel(spec, faults)?),
        QueueSpec::Pie(spec) => Discipline::Pie(pie(spec, faults)?),
        QueueSpec::FqCodel(spec) => Discipline::FqCodel(fq_codel(spec, faults)?),
    };
    Some((limit, discipline))
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

fn red(spec: &RedSpec, limit: QueueLimit, at: Pos, faults: &mut Faults) -> Option<Red> {
    let default = Red::for_limit(limit);
    let bound = |field: &Option<Quantity<QueueLimit>>, name, default, faults: &mut Faults| {
        let given = field
            .as_ref()
            .map(|field| in_unit(field, name, limit, faults));
        given.unwrap_or(Some(default))
    };
    let min = bound(&spec.min, "min", default.min, faults)?;
    let max = bound(&spec.max, "max", default.max, faults)?;
    let all = match limit {
        QueueLimit::Packets(packets) => u64::from(packets),
        QueueLimit::Bytes(bytes) => bytes,
        QueueLimit::Time(span) => span.as_ns(),
    };
    if max > all && spec.max.is_some() {
        let message = format!("`max` is above the limit of the queue, {limit}");
        let at = spec.max.as_ref().map_or(at, Quantity::at);
        faults.add(
            at,
            message,
            "write it like `{ red: { limit: 64 KiB, max: 30 KiB } }`",
        );
        return None;
    }
    let weight = spec
        .weight
        .as_ref()
        .map_or(u32::from(default.weight_log2), |w| w.value);
    Some(Red {
        min,
        max,
        probability: match &spec.probability {
            Some(probability) => probability.get(faults)?,
            None => default.probability,
        },
        weight_log2: u8::try_from(weight).unwrap_or(u8::MAX),
        ecn: spec.ecn.unwrap_or(default.ecn),
    })
}

/// A time, or the default.
macro_rules! time {
    ($spec:expr, $default:expr, $field:ident, $faults:expr) => {
        match &$spec.$field {
            Some(span) => span.get($faults)?,
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
        max_burst: time!(spec, default, max_burst, faults),
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
        Some(flows) => match NonZeroU32::new(flows.value) {
            Some(number) => number,
            None => {
                let message = "at least one flow queue is needed";
                faults.add(flows.at, message, "write it like `flows: 1024`");
                return None;
            }
        },
    };
    let quantum = match &spec.quantum {
        None => default.quantum,
        Some(bytes) => u32::try_from(bytes.get(faults)?.0).unwrap_or(u32::MAX),
    };
    Some(FqCodel {
        codel,
        flows,
        quantum,
    })
}
