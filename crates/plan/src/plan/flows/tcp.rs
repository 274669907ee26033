//! The TCP settings of flows, by Linux's names, and their ranges.

use std::ops::RangeInclusive;

use longhaul_core::Span;
use longhaul_core::units::Bytes;
use longhaul_proto::tcp::{Algorithm, Config};

use super::Context;
use crate::file::traffic::{FlowTcp, TrafficSpec};
use crate::file::wrap::{At, Quantity};
use crate::flow_groups::{TcpChoice, algorithm};
use crate::text::error::{Faults, Pos, near_miss, shown};

/// Buffers, as those of hosts.
const BUFFER: RangeInclusive<u64> = super::super::TCP_BUFFER;
/// Timers, as a kernel's have them at most.
const TIMER_MAX: Span = Span::from_s(3600);
/// The smallest segment that every network carries (RFC 9293 §3.7.1, IPv4).
const MSS_MIN: u64 = 88;

/// The settings of an entry's flows.
pub(super) fn read(
    place: Pos,
    spec: &TrafficSpec,
    ipv6: bool,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<TcpChoice> {
    let before = faults.count();
    let most = context.mtu - if ipv6 { 60 } else { 40 };
    let congestion = spec
        .congestion
        .as_ref()
        .and_then(|name| named(name, faults));
    if spec.congestion.is_none() {
        check_hosts(place, context, faults);
    }
    let defaults = FlowTcp::default();
    let tcp = spec.tcp.as_ref().map_or(&defaults, |tcp| &tcp.value);
    let choice = TcpChoice {
        base: config(tcp, most, faults),
        congestion,
        ecn: tcp.ecn,
        rmem: buffer(tcp.rmem.as_ref(), faults),
        wmem: buffer(tcp.wmem.as_ref(), faults),
    };
    (faults.count() == before).then_some(choice)
}

/// A congestion control by its name.
fn named(name: &At<String>, faults: &mut Faults) -> Option<Algorithm> {
    if let Some(found) = algorithm(&name.value) {
        return Some(found);
    }
    let known = || Algorithm::ALL.iter().map(|(known, _)| *known);
    let all: Vec<&str> = known().collect();
    let all = format!("there are {}", all.join(", "));
    let hint = match near_miss(&name.value, known()) {
        Some(meant) => format!("did you mean `{meant}`? {all}"),
        None => all,
    };
    let message = format!(
        "the model has no congestion control `{}`",
        shown(&name.value)
    );
    faults.add(name.at, message, hint);
    None
}

/// Flows that say nothing take their host's, which may be one that only kernels have.
fn check_hosts(place: Pos, context: &Context<'_>, faults: &mut Faults) {
    let unknown = |host: &&super::HostPlan| algorithm(&host.tcp.congestion).is_none();
    if let Some(host) = context.hosts.iter().find(unknown) {
        let message = format!(
            "host `{}` has the congestion control `{}`, which the model does not have",
            host.name,
            shown(&host.tcp.congestion)
        );
        faults.add(place, message, "add `congestion: cubic` here");
    }
}

/// Everything that hosts do not say.
fn config(tcp: &FlowTcp, mss: u32, faults: &mut Faults) -> Config {
    let base = Config::default();
    let least = base.delack_min;
    let mut config = Config {
        mss: segment(tcp.mss.as_ref(), mss, faults),
        initcwnd: from_one(&tcp.initcwnd, "initcwnd", base.initcwnd, faults),
        cwnd_clamp: from_one(&tcp.cwnd_clamp, "cwnd_clamp", base.cwnd_clamp, faults),
        init_ssthresh: from_one(&tcp.ssthresh, "ssthresh", base.init_ssthresh, faults),
        rto_min: timer(&tcp.rto_min, "rto_min", base.rto_min, faults),
        rto_max: timer(&tcp.rto_max, "rto_max", base.rto_max, faults),
        rto_initial: timer(&tcp.rto_initial, "rto_initial", base.rto_initial, faults),
        syn_retries: byte(&tcp.syn_retries, "syn_retries", base.syn_retries, faults),
        retries2: byte(&tcp.retries2, "retries2", base.retries2, faults),
        delack_min: delay(&tcp.delack_min, base.delack_min, faults),
        delack_max: delay(&tcp.delack_max, base.delack_max, faults),
        quickack: byte(&tcp.quickack, "quickack", base.quickack, faults),
        ..base
    };
    let switches = [
        (tcp.sack, &mut config.sack),
        (tcp.timestamps, &mut config.timestamps),
        (tcp.window_scaling, &mut config.window_scaling),
        (tcp.rack, &mut config.rack),
        (tcp.tlp, &mut config.tlp),
        (tcp.nodelay, &mut config.nodelay),
        (tcp.slow_start_after_idle, &mut config.slow_start_after_idle),
        (tcp.pacing, &mut config.pacing),
        (tcp.hystart, &mut config.hystart),
    ];
    for (wish, field) in switches {
        *field = wish.unwrap_or(*field);
    }
    // A bound given alone moves the other one with it.
    match (&tcp.delack_min, &tcp.delack_max) {
        (Some(_), None) => config.delack_max = config.delack_max.max(config.delack_min),
        (None, Some(_)) => config.delack_min = least.min(config.delack_max),
        (Some(field), Some(_)) if config.delack_min > config.delack_max => faults.add(
            field.at(),
            "`delack_min` is above `delack_max`",
            "write the shorter time as `delack_min`",
        ),
        _ => {}
    }
    if config.rto_min > config.rto_max {
        let field = tcp.rto_min.as_ref().or(tcp.rto_max.as_ref());
        let at = field.map(Quantity::at).unwrap_or_default();
        let message = "`rto_min` is above `rto_max`";
        faults.add(at, message, "write the shorter time as `rto_min`");
    }
    config
}

fn buffer(field: Option<&Quantity<Bytes>>, faults: &mut Faults) -> Option<u64> {
    let field = field?;
    let Bytes(bytes) = field.get(faults)?;
    let message = match bytes {
        0 => "with a buffer of zero nothing is ever sent",
        bytes if !BUFFER.contains(&bytes) => "a TCP buffer must have between 4 KiB and 1 GiB",
        bytes => return Some(bytes),
    };
    faults.add(field.at(), message, "write it like `16 MiB`");
    None
}

fn segment(field: Option<&Quantity<Bytes>>, most: u32, faults: &mut Faults) -> u32 {
    let Some((field, Bytes(bytes))) = field.and_then(|f| Some((f, f.get(faults)?))) else {
        return most;
    };
    if !(MSS_MIN..=u64::from(most)).contains(&bytes) {
        let message = format!("an `mss` of {bytes} B is impossible");
        faults.add(
            field.at(),
            message,
            format!("write {MSS_MIN} B to {most} B: more does not fit the MTU"),
        );
    }
    u32::try_from(bytes).unwrap_or(most)
}

fn from_one(field: &Option<At<u32>>, name: &str, default: u32, faults: &mut Faults) -> u32 {
    let Some(field) = field else { return default };
    if field.value == 0 {
        let message = format!("`{name}` cannot be 0: nothing would be sent");
        faults.add(field.at, message, format!("write it like `{name}: 10`"));
    }
    field.value
}

fn byte(field: &Option<At<u32>>, name: &str, default: u8, faults: &mut Faults) -> u8 {
    let Some(field) = field else { return default };
    u8::try_from(field.value).unwrap_or_else(|_| {
        let message = format!("`{name}` is at most 255");
        faults.add(field.at, message, format!("write it like `{name}: 15`"));
        default
    })
}

fn timer(field: &Option<Quantity<Span>>, name: &str, default: Span, faults: &mut Faults) -> Span {
    let Some((field, span)) = field.as_ref().and_then(|f| Some((f, f.get(faults)?))) else {
        return default;
    };
    if span < Span::from_ms(1) || span > TIMER_MAX {
        let message = format!("`{name}` must be between 1 ms and 1 h");
        faults.add(
            field.at(),
            message,
            format!("write it like `{name}: 200 ms`"),
        );
    }
    span
}

/// A delay of acknowledgements, which may be zero.
fn delay(field: &Option<Quantity<Span>>, default: Span, faults: &mut Faults) -> Span {
    let span = field.as_ref().and_then(|f| Some((f, f.get(faults)?)));
    match span {
        Some((field, span)) if span > TIMER_MAX => {
            let message = "acknowledgements are delayed by at most 1 h";
            faults.add(field.at(), message, "write it like `40 ms`");
            default
        }
        Some((_, span)) => span,
        None => default,
    }
}
