//! The name service of a run: what its one resolver answers, without a socket.
//!
//! A query comes as bytes, an answer leaves as bytes (RFC 1035; the crate `domain` implements the wire
//! format). All nodes with addresses are known, each by its plain name and by that name below
//! [`DOMAIN`], and their addresses lead back to them. There is nothing else: the run's resolver is
//! authoritative for the whole tree, so an unknown name is NXDOMAIN at once and no question leaves the
//! machine. A name that has only other names below it, or lacks the type that is asked for, gets an
//! answer without data (RFC 8020, RFC 2308).
//!
//! A name has one address of each family, so every answer fits into the 512 bytes of plain DNS
//! over UDP: nothing is truncated, and no client needs TCP. A test tries the longest names.
//!
//! Queries are hostile: a reply is never answered, one query gets at most one answer of at most
//! [`MAX_ANSWER`] bytes, and work is bounded by the length of the query.
//!
//! Left out: zone transfers and updates, DNSSEC, names outside the run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use domain::base::iana::{Class, Opcode, OptRcode, Rcode};
use domain::base::message_builder::{AnswerBuilder, PushError};
use domain::base::name::ToLabelIter;
use domain::base::{
    Message, MessageBuilder, Name, ParsedName, Question, Rtype, Serial, StaticCompressor, Ttl,
};
use domain::rdata::{A, Aaaa, Ptr, Soa};
use rustc_hash::FxHashMap;

/// All names also exist below this domain, which is the hosts' search domain. The top-level
/// domain is reserved for private use.
pub const DOMAIN: &str = "longhaul.internal";
/// The longest query that is parsed: what servers of today accept without fragmentation.
pub const MAX_QUERY: usize = 1232;
/// The longest answer: what every client takes over UDP (RFC 1035 §2.3.4).
pub const MAX_ANSWER: usize = 512;

/// [`DOMAIN`] in wire format, without the root.
const DOMAIN_LABELS: &[u8] = b"\x08longhaul\x08internal";
/// The primary server and the mailbox that the start of authority names (RFC 2606).
const SERVER: &[u8] = b"\x02ns\x08longhaul\x08internal\0";
const MAILBOX: &[u8] = b"\x06nobody\x07invalid\0";
const LOCALHOST: &[u8] = b"\x09localhost\0";
/// Nothing of it changes within a run; caches of programs may outlive one that is repeated.
const TTL: Ttl = Ttl::from_secs(60);

/// Somebody who has a name.
#[derive(Debug)]
struct Named {
    /// Its name below [`DOMAIN`], as in messages.
    full: Name<Vec<u8>>,
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
}

/// The names of a run.
#[derive(Debug, Default)]
pub struct Names {
    named: Vec<Named>,
    /// Plain names in lower case, as in messages without the root, and all domains above them, which
    /// have no number.
    by_name: FxHashMap<Vec<u8>, Option<u32>>,
    by_address: FxHashMap<IpAddr, u32>,
}

/// What a question asks for.
enum Found<'a> {
    Node(&'a Named),
    Localhost,
    /// An address that is this one's.
    Owner(&'a Named),
    LocalAddress,
    /// The name is there, and has no data.
    Empty,
    Unknown,
}

impl Names {
    /// The names of these nodes: name, and an address of each family. Of several names that differ in
    /// nothing but case the first one counts, as in `/etc/hosts`. What cannot be a name is left out.
    pub fn new<'a>(nodes: impl Iterator<Item = (&'a str, Ipv4Addr, Ipv6Addr)>) -> Self {
        let mut names = Self::default();
        for (name, ipv4, ipv6) in nodes {
            let plain = labels(name);
            let mut full = plain.clone();
            full.extend_from_slice(DOMAIN_LABELS);
            full.push(0);
            let Ok(full) = Name::from_octets(full) else {
                continue;
            };
            let number = names.named.len() as u32;
            names.named.push(Named { full, ipv4, ipv6 });
            for address in [IpAddr::V4(ipv4), IpAddr::V6(ipv6)] {
                names.by_address.entry(address).or_insert(number);
            }
            let mut key = plain.to_ascii_lowercase();
            let own = names.by_name.entry(key.clone()).or_default();
            own.get_or_insert(number);
            while !key.is_empty() {
                key.drain(..=usize::from(key[0]));
                names.by_name.entry(key.clone()).or_default();
            }
        }
        names
    }

    /// The answer to a query; `None` where there is none to give.
    pub fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let query = Message::from_octets(query).ok()?;
        if query.header().qr() {
            return None;
        }
        let answer = self.reply(&query);
        // No query should lead here; a client that gets SERVFAIL does not retry.
        Some(answer.unwrap_or_else(|_| bare(&query, Rcode::SERVFAIL)))
    }

    fn reply(&self, query: &Message<&[u8]>) -> Result<Vec<u8>, PushError> {
        if query.header().opcode() != Opcode::QUERY {
            return Ok(bare(query, Rcode::NOTIMP));
        }
        let counts = query.header_counts();
        let Some(question) = query.sole_question().ok().filter(|question| {
            // A query has no answers. Nothing precedes a question that its name could point to (compression); one that
            // refers to what follows would make a long answer of a short query.
            let is_plain = !question.qname().is_compressed();
            let answers = counts.ancount() > 0 || counts.nscount() > 0;
            is_plain && !answers && query.additional().is_ok()
        }) else {
            return Ok(bare(query, Rcode::FORMERR));
        };
        let extended = query.opt();
        if let Some(opt) = &extended
            && opt.version() > 0
        {
            return finish(start(query, Rcode::NOERROR)?, Some(OptRcode::BADVERS));
        }
        let known = [Class::IN, Class::ANY].contains(&question.qclass());
        let transfer = [Rtype::AXFR, Rtype::IXFR].contains(&question.qtype());
        if !known || transfer {
            let refused = start(query, Rcode::REFUSED)?;
            return finish(refused, extended.map(|_| OptRcode::REFUSED));
        }
        let found = self.find(question.qname());
        let rcode = match found {
            Found::Unknown => Rcode::NXDOMAIN,
            _ => Rcode::NOERROR,
        };
        let mut builder = start(query, rcode)?;
        push_data(&mut builder, &question, &found)?;
        finish(builder, extended.map(|_| OptRcode::from_rcode(rcode)))
    }

    fn find(&self, name: &ParsedName<&[u8]>) -> Found<'_> {
        let mut key = Vec::with_capacity(64);
        let mut starts = Vec::new();
        for label in name.iter_labels().filter(|label| !label.is_root()) {
            starts.push(key.len());
            key.push(label.len() as u8);
            key.extend(label.iter().map(|byte| byte.to_ascii_lowercase()));
        }
        let below = |depth: usize, suffix: &[u8]| {
            let start = starts.len().checked_sub(depth).map(|at| starts[at]);
            start.filter(|&start| &key[start..] == suffix)
        };
        if below(1, b"\x09localhost").is_some() {
            return Found::Localhost;
        }
        if below(2, b"\x07in-addr\x04arpa").is_some() {
            return self.owner(&starts, &key, reverse_v4);
        }
        if below(2, b"\x03ip6\x04arpa").is_some() {
            return self.owner(&starts, &key, reverse_v6);
        }
        if below(1, b"\x04arpa").is_some_and(|start| start == 0) {
            return Found::Empty;
        }
        let plain = below(2, DOMAIN_LABELS).map(|start| &key[..start]);
        let at_top = key.is_empty() || key == b"\x08internal";
        let entry = self.by_name.get(&key).or_else(|| self.by_name.get(plain?));
        match entry {
            Some(Some(number)) => Found::Node(&self.named[*number as usize]),
            Some(None) => Found::Empty,
            None if at_top || plain.is_some_and(<[u8]>::is_empty) => Found::Empty,
            None => Found::Unknown,
        }
    }

    /// The node whose address a name below a reverse domain spells; a shorter name is a domain above some.
    fn owner(
        &self,
        starts: &[usize],
        key: &[u8],
        address: fn(&[&[u8]]) -> Option<Option<IpAddr>>,
    ) -> Found<'_> {
        let label = |&start: &usize| &key[start + 1..][..usize::from(key[start])];
        let digits: Vec<&[u8]> = starts[..starts.len() - 2].iter().map(label).collect();
        match address(&digits) {
            Some(None) => Found::Empty,
            Some(Some(address)) if address.is_loopback() => Found::LocalAddress,
            Some(Some(address)) => match self.by_address.get(&address) {
                Some(&number) => Found::Owner(&self.named[number as usize]),
                None => Found::Unknown,
            },
            None => Found::Unknown,
        }
    }
}

/// A name of dots and labels in wire format, without the root.
fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 1);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes
}

/// The address that reversed bytes in decimal say; `Some(None)` for the beginning of one.
fn reverse_v4(labels: &[&[u8]]) -> Option<Option<IpAddr>> {
    if labels.len() > 4 {
        return None;
    }
    let mut bytes = [0; 4];
    for (byte, label) in bytes.iter_mut().zip(labels.iter().rev()) {
        let text = std::str::from_utf8(label).ok()?;
        *byte = text
            .parse()
            .ok()
            .filter(|byte: &u8| byte.to_string() == text)?;
    }
    Some((labels.len() == 4).then(|| Ipv4Addr::from(bytes).into()))
}

/// The same for reversed digits in hexadecimal.
fn reverse_v6(labels: &[&[u8]]) -> Option<Option<IpAddr>> {
    if labels.len() > 32 {
        return None;
    }
    let mut bits = 0u128;
    for label in labels.iter().rev() {
        let [digit] = label else { return None };
        bits = bits << 4 | u128::from(char::from(*digit).to_digit(16)?);
    }
    Some((labels.len() == 32).then(|| Ipv6Addr::from(bits).into()))
}

type Builder = AnswerBuilder<StaticCompressor<Vec<u8>>>;

fn message() -> MessageBuilder<StaticCompressor<Vec<u8>>> {
    let target = StaticCompressor::new(Vec::with_capacity(MAX_ANSWER));
    // A vector takes what it is given.
    let mut builder = MessageBuilder::from_target(target).expect("room for a header");
    builder.set_push_limit(MAX_ANSWER);
    builder
}

/// An answer with the question, by a server that is authoritative for all names.
fn start(query: &Message<&[u8]>, rcode: Rcode) -> Result<Builder, PushError> {
    let mut builder = message().start_answer(query, rcode)?;
    let header = builder.header_mut();
    header.set_aa(true);
    // There are no other servers, so recursion would find nothing more.
    header.set_ra(true);
    Ok(builder)
}

/// An answer that is nothing but a header.
fn bare(query: &Message<&[u8]>, rcode: Rcode) -> Vec<u8> {
    let mut builder = message();
    let header = builder.header_mut();
    header.set_id(query.header().id());
    header.set_qr(true);
    header.set_opcode(query.header().opcode());
    header.set_rd(query.header().rd());
    header.set_rcode(rcode);
    builder.finish().into_target()
}

/// What has been found, or that there is nothing of this type.
fn push_data(
    builder: &mut Builder,
    question: &Question<ParsedName<&[u8]>>,
    found: &Found<'_>,
) -> Result<(), PushError> {
    let name = question.qname();
    let asks = |kind: Rtype| [kind, Rtype::ANY].contains(&question.qtype());
    let (ipv4, ipv6) = match found {
        Found::Node(node) => (Some(node.ipv4), Some(node.ipv6)),
        Found::Localhost => (Some(Ipv4Addr::LOCALHOST), Some(Ipv6Addr::LOCALHOST)),
        _ => (None, None),
    };
    if let Some(ipv4) = ipv4.filter(|_| asks(Rtype::A)) {
        builder.push((name, TTL, A::new(ipv4)))?;
    }
    if let Some(ipv6) = ipv6.filter(|_| asks(Rtype::AAAA)) {
        builder.push((name, TTL, Aaaa::new(ipv6)))?;
    }
    match found {
        Found::Owner(node) if asks(Rtype::PTR) => {
            builder.push((name, TTL, Ptr::new(node.full.for_ref())))?;
        }
        Found::LocalAddress if asks(Rtype::PTR) => {
            builder.push((name, TTL, Ptr::new(fixed(LOCALHOST))))?;
        }
        _ => {}
    }
    if name.is_root() && asks(Rtype::SOA) {
        builder.push((Name::root_ref(), TTL, authority()))?;
    }
    Ok(())
}

/// Completes an answer: the authority where there is nothing else, and the extension where the
/// client has it.
fn finish(builder: Builder, extended: Option<OptRcode>) -> Result<Vec<u8>, PushError> {
    let refused = ![Rcode::NOERROR, Rcode::NXDOMAIN].contains(&builder.header().rcode());
    let says_nothing = builder.counts().ancount() == 0 && extended != Some(OptRcode::BADVERS);
    let mut builder = builder.authority();
    if says_nothing && !refused {
        builder.push((Name::root_ref(), TTL, authority()))?;
    }
    let mut builder = builder.additional();
    if let Some(rcode) = extended {
        builder.opt(|opt| {
            opt.set_udp_payload_size(MAX_QUERY as u16);
            opt.set_rcode(rcode);
            Ok(())
        })?;
    }
    Ok(builder.finish().into_target())
}

/// The start of authority: of the whole tree, and never another one during a run.
fn authority() -> Soa<Name<&'static [u8]>> {
    let hour = Ttl::from_secs(3600);
    let (server, mailbox) = (fixed(SERVER), fixed(MAILBOX));
    Soa::new(server, mailbox, Serial::from(1), hour, hour, hour, TTL)
}

fn fixed(name: &'static [u8]) -> Name<&'static [u8]> {
    Name::from_octets(name).expect("a name of this file")
}

#[cfg(test)]
mod tests;
