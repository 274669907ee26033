//! Hostile traces, patterns and tables: a sound value or a fault with its remedy, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::time::Span;
use longhaul_core::trace::{Series, Trace};
use longhaul_plan::trace_file::{TraceKind, TraceOptions, parse_delays, parse_pattern, parse_trace};

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how to read the rest.
    let Some((&how, text)) = bytes.split_first() else {
        return;
    };
    let options = TraceOptions {
        repeat: how & 4 != 0,
        interpolate: how & 8 != 0,
        ..TraceOptions::default()
    };
    let fault = match how & 3 {
        0 => parse_trace(text, TraceKind::Csv, &options).map(check),
        1 => parse_trace(text, TraceKind::Mahimahi, &options).map(check),
        2 => parse_pattern(text).map(|list| assert!(!list.is_empty())),
        _ => parse_delays(text).map(|list| assert!(!list.is_empty() && list.is_sorted())),
    };
    if let Err(fault) = fault {
        assert!(!fault.message.is_empty() && !fault.hint.is_empty());
    }
});

/// What holds of every trace that was read.
fn check(trace: Trace) {
    let last = match &trace.series {
        Series::Samples { samples, .. } => {
            assert!(samples[0].at == Span::ZERO);
            assert!(samples.windows(2).all(|pair| pair[0].at < pair[1].at));
            samples[samples.len() - 1].at
        }
        Series::Opportunities { at, bytes } => {
            assert!(at.is_sorted() && *bytes > 0);
            at[at.len() - 1]
        }
    };
    assert!(
        trace
            .period
            .is_none_or(|period| period > Span::ZERO && period >= last)
    );
}
