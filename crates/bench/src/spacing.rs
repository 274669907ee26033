//! How far apart the segments of a TCP connection reach the receiving kernel.
//!
//! A connection with `SO_TIMESTAMPNS` reports with each read the kernel's stamp of the last frame
//! that it took bytes from. Frames may stand for several segments (receive offload, or a
//! super-packet), which have one stamp: the distance to the frame before is shared among them.
//! Reads are short, so that each frame shows; what is read across a frame's end counts to the later
//! one.

use std::io;
use std::mem;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use serde::Serialize;

use crate::net;
use crate::summary::{Samples, Summary};
use crate::udp_batch::kernel_stamp;

/// Bytes of a read, at most: whole segments, so that a stamp is that of the last one read.
const READ: usize = 16 << 10;

/// What a receiver measures of spacing.
#[derive(Serialize)]
pub(crate) struct Spacing {
    /// The distance of each segment from the one before.
    segment_ns: Option<Summary>,
    /// Segments that came as one frame.
    frame_segments: Option<Summary>,
}

/// Reads a connection and notes its stamps.
pub(crate) struct StampedReader {
    buffer: Vec<u8>,
    mss: u64,
    /// The frame that is being read: its stamp and bytes.
    frame: Option<(i64, u64)>,
    before: Option<i64>,
    spacings: Samples,
    segments: Samples,
}

impl StampedReader {
    /// Makes the kernel report its stamps of `stream`, whose segments carry `mss` bytes.
    pub(crate) fn new(stream: &TcpStream, mss: u32) -> io::Result<Self> {
        net::set_option(stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        let mss = mss.max(1);
        let segments = (READ / mss as usize).max(1);
        Ok(Self {
            buffer: vec![0; segments * mss as usize],
            mss: u64::from(mss),
            frame: None,
            before: None,
            spacings: Samples::default(),
            segments: Samples::default(),
        })
    }

    /// Reads once: how many bytes, 0 at the end.
    pub(crate) fn read(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let mut vector = libc::iovec {
            iov_base: self.buffer.as_mut_ptr().cast(),
            iov_len: self.buffer.len(),
        };
        let mut control = [0u64; 8];
        // SAFETY: an all-zero msghdr is valid: null pointers with zero lengths.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = mem::size_of_val(&control);
        // SAFETY: the header describes one vector and one control buffer, which outlive the call.
        let read = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut header, 0) };
        let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
        if let Some(stamp) = kernel_stamp(&header).filter(|_| read > 0) {
            self.take(stamp, read as u64);
        }
        Ok(read)
    }

    fn take(&mut self, stamp: i64, bytes: u64) {
        match &mut self.frame {
            Some((of, all)) if *of == stamp => *all += bytes,
            _ => {
                self.close_frame();
                self.frame = Some((stamp, bytes));
            }
        }
    }

    fn close_frame(&mut self) {
        let Some((stamp, bytes)) = self.frame.take() else {
            return;
        };
        // A read may end within a segment, so the share of a segment is that of its bytes.
        let segments = ((bytes + self.mss / 2) / self.mss).max(1);
        self.segments.push(segments as i64);
        if let Some(before) = self.before.replace(stamp) {
            let mss = self.mss.min(bytes) as i64;
            for _ in 0..segments {
                self.spacings.push((stamp - before) * mss / bytes as i64);
            }
        }
    }

    /// The measured spacing.
    pub(crate) fn finish(mut self) -> Spacing {
        self.close_frame();
        Spacing {
            segment_ns: self.spacings.summary(),
            frame_segments: self.segments.summary(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn a_frame_shares_its_distance_among_its_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut reader = StampedReader::new(&stream, 1000).unwrap();
        for (stamp, bytes) in [(10, 1000), (50, 1500), (50, 2500), (60, 10)] {
            reader.take(stamp, bytes);
        }
        let spacing = serde_json::to_value(reader.finish()).unwrap();
        assert_eq!(spacing["frame_segments"]["count"], 3);
        assert_eq!(spacing["frame_segments"]["max"], 4);
        // Four at 40 / 4, and one of ten bytes at 10.
        assert_eq!(spacing["segment_ns"]["count"], 5);
        assert_eq!(
            (&spacing["segment_ns"]["min"], &spacing["segment_ns"]["max"]),
            (&10.into(), &10.into())
        );
    }

    #[test]
    fn the_kernel_stamps_what_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut reader = StampedReader::new(&stream, 1000).unwrap();
        // Stamps begin a while after they were asked for, so the sender goes on until then.
        let writer = thread::spawn(move || while sender.write_all(&[7; 10_000]).is_ok() {});
        while reader.frame.is_none() || reader.before.is_none() {
            assert!(reader.read(&stream).unwrap() > 0);
        }
        drop(stream);
        writer.join().unwrap();
        let spacing = serde_json::to_value(reader.finish()).unwrap();
        assert!(
            spacing["frame_segments"]["min"].as_i64() >= Some(1),
            "{spacing}"
        );
        assert!(
            spacing["segment_ns"]["min"].as_i64() >= Some(0),
            "{spacing}"
        );
    }
}
