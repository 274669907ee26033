//! A reader of pcapng files, written from the draft and not from the writer. It demands what the
//! draft says of lengths and padding, and stops at the first block that is not whole.

use std::net::IpAddr;

/// Codes with their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Options(pub(crate) Vec<(u16, Vec<u8>)>);

impl Options {
    pub(crate) fn get(&self, code: u16) -> Option<&[u8]> {
        let found = self.0.iter().find(|(c, _)| *c == code);
        found.map(|(_, value)| &value[..])
    }

    pub(crate) fn text(&self, code: u16) -> &str {
        std::str::from_utf8(self.get(code).unwrap_or_default()).expect("text")
    }

    pub(crate) fn u64(&self, code: u16) -> Option<u64> {
        let value = self.get(code)?.try_into().expect("eight bytes");
        Some(u64::from_le_bytes(value))
    }

    /// A time: the high half first.
    pub(crate) fn time(&self, code: u16) -> Option<u64> {
        let value = self.u64(code)?;
        Some(value.rotate_left(32))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) link_type: u16,
    pub(crate) snaplen: u32,
    pub(crate) options: Options,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) interface: usize,
    pub(crate) time: u64,
    pub(crate) frame: Vec<u8>,
    pub(crate) len: u32,
    pub(crate) options: Options,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) interface: usize,
    pub(crate) time: u64,
    pub(crate) options: Options,
}

#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) section: Options,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) names: Vec<(IpAddr, String)>,
    pub(crate) packets: Vec<Packet>,
    pub(crate) statistics: Vec<Statistics>,
    /// Bytes behind the last whole block.
    pub(crate) rest: usize,
}

struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    fn padded(&mut self, len: usize) -> &'a [u8] {
        let (value, padding) = self.bytes(len.next_multiple_of(4)).split_at(len);
        assert!(padding.iter().all(|byte| *byte == 0), "padding is zero");
        value
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap())
    }

    fn time(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    fn options(&mut self) -> Options {
        let mut options = Vec::new();
        while !self.0.is_empty() {
            let (code, len) = (self.u16(), usize::from(self.u16()));
            if code == 0 {
                assert_eq!((len, self.0.len()), (0, 0), "the end is the end");
                return Options(options);
            }
            options.push((code, self.padded(len).to_vec()));
        }
        assert!(options.is_empty(), "options have an end");
        Options(options)
    }
}

pub(crate) fn read(mut bytes: &[u8]) -> File {
    let mut file = File::default();
    let mut is_first = true;
    while bytes.len() >= 12 {
        let mut body = Body(bytes);
        let (kind, len) = (body.u32(), body.u32() as usize);
        assert!(len >= 12 && len.is_multiple_of(4), "a block of {len} bytes");
        if len > bytes.len() {
            break;
        }
        let (block, rest) = bytes.split_at(len);
        assert_eq!(block[4..8], block[len - 4..], "both lengths agree");
        assert_eq!(is_first, kind == 0x0a0d_0d0a, "one section, first");
        is_first = false;
        block_of(&mut file, kind, Body(&block[8..len - 4]));
        bytes = rest;
    }
    file.rest = bytes.len();
    file
}

fn block_of(file: &mut File, kind: u32, mut body: Body<'_>) {
    match kind {
        0x0a0d_0d0a => {
            assert_eq!(body.u32(), 0x1a2b_3c4d, "byte order");
            assert_eq!((body.u16(), body.u16()), (1, 0), "version");
            assert_eq!(body.bytes(8), [0xff; 8], "of unknown length");
            file.section = body.options();
        }
        1 => {
            let (link_type, _) = (body.u16(), body.u16());
            file.interfaces.push(Interface {
                link_type,
                snaplen: body.u32(),
                options: body.options(),
            });
        }
        4 => names(file, &mut body),
        5 => file.statistics.push(Statistics {
            interface: body.u32() as usize,
            time: body.time(),
            options: body.options(),
        }),
        6 => {
            let (interface, time) = (body.u32() as usize, body.time());
            let (captured, len) = (body.u32(), body.u32());
            assert!(interface < file.interfaces.len() && captured <= len);
            assert!(captured <= file.interfaces[interface].snaplen);
            file.packets.push(Packet {
                interface,
                time,
                frame: body.padded(captured as usize).to_vec(),
                len,
                options: body.options(),
            });
        }
        _ => panic!("a block of type {kind}"),
    }
}

fn names(file: &mut File, body: &mut Body<'_>) {
    loop {
        let (kind, len) = (body.u16(), usize::from(body.u16()));
        let record = body.padded(len);
        let (address, name) = match kind {
            0 => break assert_eq!((len, body.options()), (0, Options::default())),
            1 => {
                let (address, name) = record.split_first_chunk::<4>().unwrap();
                (IpAddr::from(*address), name)
            }
            2 => {
                let (address, name) = record.split_first_chunk::<16>().unwrap();
                (IpAddr::from(*address), name)
            }
            _ => panic!("a record of type {kind}"),
        };
        let name = std::str::from_utf8(name).unwrap();
        let name = name.strip_suffix('\0').expect("a name ends with a zero");
        assert!(!name.is_empty() && !name.contains('\0'), "one name");
        file.names.push((address, name.to_owned()));
    }
}
