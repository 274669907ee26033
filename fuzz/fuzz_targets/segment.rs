//! A super-packet from a hostile host: splitting, losing some, and merging what is left.
//!
//! Run with `cargo +nightly fuzz run segment`. Input: kind, segment size, place of the checksum,
//! which segments are lost, then the frame, whose IP header some inputs have put right. What can
//! be split must come together again: merged runs hold the same segments as the whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::packet::{ETHERNET_LEN, parse_any, sum16};
use longhaul_core::segment::{Kind, Offload, Partial, Super, complete};

fuzz_target!(|data: &[u8]| {
    let Some((&[how, size_high, size_low, start, offset, lost], frame)) = data.split_first_chunk()
    else {
        return;
    };
    let mut frame = frame.to_vec();
    if how & 4 != 0 {
        put_right(&mut frame);
    }
    let partial = Partial {
        start: start.into(),
        offset: offset.into(),
    };
    complete(&mut frame.clone(), partial);
    let offload = Offload {
        kind: if how & 1 == 0 { Kind::Tcp } else { Kind::Udp },
        size: u16::from_be_bytes([size_high, size_low]),
        checksum: Some(partial),
        ..Offload::default()
    };
    let Ok(headers) = parse_any(&frame) else {
        return;
    };
    frame.truncate(ETHERNET_LEN + headers.ip_len as usize);
    if let Some(dimensions) = Super::parse(&frame, &offload) {
        check(&frame, &dimensions, lost);
    }
});

fn put_right(frame: &mut [u8]) {
    if frame.len() < 34 {
        return;
    }
    let ip_len = (frame.len() - ETHERNET_LEN).min(65_535) as u16;
    frame[..12].fill(2);
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[20..22].fill(0);
    frame[24..26].fill(0);
    let checksum = !sum16(&frame[ETHERNET_LEN..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

fn segments(frame: &[u8], dimensions: &Super) -> Vec<Vec<u8>> {
    let one = |number| {
        let mut out = vec![0; 70_000];
        let len = dimensions.write_segment(frame, number, &mut out);
        out.truncate(len.expect("room enough"));
        let headers = parse_any(&out).expect("segments are sound");
        assert_eq!(headers.ip_len as usize, dimensions.ip_len(number));
        out
    };
    (0..dimensions.count()).map(one).collect()
}

fn check(frame: &[u8], dimensions: &Super, lost: u8) {
    let all = segments(frame, dimensions);
    let payload: Vec<u8> = all
        .iter()
        .flat_map(|segment| segment[dimensions.headers()..].to_vec())
        .collect();
    assert_eq!(payload, frame[dimensions.headers()..], "the payload is what went in");
    let is_left = |number: u16| lost >> (number % 8) & 1 == 0;
    let mut number = 0;
    while number < dimensions.count() {
        let run = (number..dimensions.count()).take_while(|n| is_left(*n));
        let count = run.count() as u16;
        if count > 1 {
            let mut merged = vec![0; dimensions.headers()];
            dimensions.write_headers(frame, number, count, &mut merged);
            merged.extend(&frame[dimensions.payload(number, count)]);
            let offload = dimensions.offload(frame, number, count);
            let again = Super::parse(&merged, &offload).expect("what we merge can be split");
            let first = usize::from(number);
            assert_eq!(segments(&merged, &again), all[first..first + usize::from(count)]);
        }
        number += count + 1;
    }
}
