//! What flows do: a transfer, requests and responses, or packets at a rate.
//!
//! Which of them an entry means follows from its fields, and a field that goes with another one
//! is an error rather than nothing.

use longhaul_core::Span;
use longhaul_core::units::Bytes;
use longhaul_proto::modelled::MIN_PAYLOAD;

use super::{Context, draw, tcp};
use crate::file::traffic::{ConnectionSpec, GapsSpec, ModelSpec, TrafficSpec, Varying};
use crate::file::wrap::{At, Either, Quantity};
use crate::flow_groups::{Carrier, Draw, Gaps, TcpChoice, Work};
use crate::text::error::{Faults, Pos};

/// The shortest time between two packets of a flow on average, 10 million a second.
const GAP_MIN: Span = Span::from_ns(100);

/// What the flows of an entry do.
pub(super) fn read(
    place: Pos,
    spec: &TrafficSpec,
    ipv6: bool,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Work> {
    let udp = spec
        .model
        .as_ref()
        .is_some_and(|model| model.value == ModelSpec::Udp);
    exclude(spec, udp, faults)?;
    let bytes = match &spec.bytes {
        Some(bytes) => Some(draw::positive(bytes, "bytes", faults)?),
        None => None,
    };
    if udp {
        let by = Carrier::Udp(packet(spec, ipv6, context, faults)?);
        return paced(place, spec, by, bytes, faults);
    }
    let tcp = tcp::read(place, spec, ipv6, context, faults)?;
    if spec.rate.is_some() {
        return paced(place, spec, Carrier::Tcp(tcp), bytes, faults);
    }
    match (&spec.request, &spec.response) {
        (None, None) => Some(Work::Bulk { tcp, bytes }),
        (Some(_), Some(_)) => requests(spec, tcp, faults),
        (request, _) => {
            let (is, lacks) = match request {
                Some(_) => ("request", "response"),
                None => ("response", "request"),
            };
            let message = format!("`{is}` needs `{lacks}` beside it");
            faults.add(
                place,
                message,
                format!("add its size, like `{lacks}: 1 kB`"),
            );
            None
        }
    }
}

/// Refuses fields that go with other traffic.
fn exclude(spec: &TrafficSpec, udp: bool, faults: &mut Faults) -> Option<()> {
    let asks = spec.request.is_some() || spec.response.is_some();
    let of_tcp = [
        ("congestion", spec.congestion.as_ref().map(|f| f.at)),
        ("tcp", spec.tcp.as_ref().map(|f| f.at)),
        ("request", spec.request.as_ref().map(at_of)),
        ("response", spec.response.as_ref().map(at_of)),
    ];
    let rate = spec.rate.as_ref().map(Quantity::at);
    let of_udp = [("packet", spec.packet.as_ref().map(Quantity::at))];
    let of_rates = [
        ("gaps", spec.gaps.as_ref().map(|f| f.at)),
        ("on", spec.on.as_ref().map(at_of)),
        ("off", spec.off.as_ref().map(at_of)),
    ];
    let of_requests = [
        ("think", spec.think.as_ref().map(at_of)),
        ("requests", spec.requests.as_ref().map(|f| f.at)),
        ("connection", spec.connection.as_ref().map(|f| f.at)),
    ];
    let before = faults.count();
    let mut refuse = |fields: &[(&str, Option<Pos>)], why: &str, hint: &str| {
        for (field, at) in fields {
            if let Some(at) = at {
                faults.add(*at, format!("`{field}` {why}"), hint);
            }
        }
    };
    if udp {
        refuse(
            &of_tcp,
            "applies to TCP only",
            "remove it, or write `model: tcp`",
        )
    } else {
        refuse(
            &of_udp,
            "applies to UDP only",
            "remove it, or write `model: udp`",
        )
    }
    if rate.is_none() && !udp {
        refuse(
            &of_rates,
            "needs a `rate`",
            "add `rate: 10 Mbit/s`, or remove it",
        );
    }
    if asks {
        refuse(
            &[("rate", rate)],
            "cannot be combined with requests",
            "remove it, or `request`",
        );
    }
    if !asks {
        let hint = "add their sizes, like `request: 200 B, response: 50 kB`, or remove it";
        refuse(&of_requests, "needs requests and responses", hint);
    } else {
        let bytes = [("bytes", spec.bytes.as_ref().map(at_of))];
        let hint = "remove it: `requests` says how many, and `response` how large they are";
        refuse(
            &bytes,
            "cannot be combined with requests and responses",
            hint,
        );
    }
    (faults.count() == before).then_some(())
}

/// The position of a field.
pub(super) fn at_of<T: draw::Whole>(field: &Varying<T>) -> Pos {
    match field {
        Either::Short(quantity) => quantity.at(),
        Either::Long(spec) => spec.at,
    }
}

fn requests(spec: &TrafficSpec, tcp: TcpChoice, faults: &mut Faults) -> Option<Work> {
    let request = draw::positive(spec.request.as_ref()?, "request", faults);
    let response = draw::positive(spec.response.as_ref()?, "response", faults);
    let think = match &spec.think {
        Some(think) => draw::varying(think, faults),
        None => Some(Draw::Constant(0)),
    };
    if let Some(At { at, value: 0 }) = spec.requests {
        faults.add(
            at,
            "0 requests",
            "write at least `requests: 1`, or leave it out",
        );
        return None;
    }
    let reuses = |spec: &At<ConnectionSpec>| spec.value == ConnectionSpec::Keep;
    Some(Work::Requests {
        tcp,
        request: request?,
        response: response?,
        think: think?,
        count: spec.requests.as_ref().map(|count| count.value),
        reuses_connection: spec.connection.as_ref().is_none_or(reuses),
    })
}

/// Packets at a rate, `bytes` of payload in all.
fn paced(
    place: Pos,
    spec: &TrafficSpec,
    by: Carrier,
    bytes: Option<Draw>,
    faults: &mut Faults,
) -> Option<Work> {
    let Some(field) = &spec.rate else {
        let message = "UDP traffic needs a `rate`";
        faults.add(place, message, "add `rate: 10 Mbit/s`");
        return None;
    };
    let rate = field.get(faults)?;
    let (packet, hint) = match &by {
        Carrier::Udp(packet) => (*packet, "write a lower `rate` or a larger `packet`"),
        Carrier::Tcp(tcp) => {
            let hint = "write a lower `rate`, or leave it out to send as fast as TCP can";
            (tcp.base.mss, hint)
        }
    };
    if u128::from(packet) * 8_000_000_000
        < u128::from(rate.bits_per_s()) * u128::from(GAP_MIN.as_ns())
    {
        let message = format!("more than 10 million packets of {packet} B per second");
        faults.add(field.at(), message, hint);
        return None;
    }
    let gaps = spec.gaps.as_ref().map(|gaps| (gaps.at, gaps.value));
    let gaps = match (&spec.on, &spec.off, gaps) {
        (None, None, Some((_, GapsSpec::Poisson))) => Gaps::Poisson,
        (None, None, _) => Gaps::Even,
        (Some(_), Some(_), Some((at, GapsSpec::Poisson))) => {
            let message = "`on` and `off` need even gaps";
            faults.add(at, message, "remove `gaps`, or `on` and `off`");
            return None;
        }
        (Some(on), Some(off), _) => {
            let on = draw::positive(on, "on", faults);
            let off = draw::positive(off, "off", faults);
            Gaps::OnOff(on?, off?)
        }
        (on, ..) => {
            let lacks = if on.is_some() { "off" } else { "on" };
            let message = "`on` and `off` need each other";
            faults.add(place, message, format!("add `{lacks}: 500 ms`"));
            return None;
        }
    };
    Some(Work::Paced {
        by,
        rate,
        gaps,
        bytes,
    })
}

/// The payload of a packet.
fn packet(
    spec: &TrafficSpec,
    ipv6: bool,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<u32> {
    let most = context.mtu - if ipv6 { 48 } else { 28 };
    let Some(packet) = &spec.packet else {
        return Some(most);
    };
    let Bytes(bytes) = packet.get(faults)?;
    let least = u64::from(MIN_PAYLOAD);
    let message = if bytes < least {
        format!("a packet of {bytes} B has no room for its number and time")
    } else if bytes > u64::from(most) {
        format!(
            "a packet of {bytes} B does not fit the smallest MTU, {}",
            context.mtu
        )
    } else {
        return u32::try_from(bytes).ok();
    };
    faults.add(packet.at(), message, format!("write {least} B to {most} B"));
    None
}
