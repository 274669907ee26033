//! From a filter's text to its chain of terms.
//!
//! A recursive-descent parser with one token of look-ahead. A primitive that stands for several
//! tests (`tcp port 80`, a host of several addresses) becomes a group, so that a filter prints as
//! text that means the same.

use std::net::IpAddr;
use std::str::FromStr;

use super::error::{FilterError, near_miss, shown};
use super::token::{Token, tokens};
use super::{
    Chain, DEPTH_MAX, ELEMENTS_MAX, End, Join, Net, PROTOCOLS, Protocol, TEXT_MAX, Term, Test,
};
use crate::drops::DROPS;

const KEYWORDS: [&str; 10] = [
    "host",
    "net",
    "port",
    "portrange",
    "src",
    "dst",
    "less",
    "greater",
    "dropped",
    "not",
];
const JOINS: [&str; 4] = ["and", "&&", "or", "||"];
/// What begins a primitive of pcap-filter that is left out here.
const OMITTED: [&str; 14] = [
    "ether",
    "vlan",
    "mpls",
    "proto",
    "protochain",
    "broadcast",
    "multicast",
    "gateway",
    "sctp",
    "igmp",
    "rarp",
    "len",
    "inbound",
    "outbound",
];

type Resolve<'a> = &'a dyn Fn(&str) -> Result<Vec<IpAddr>, String>;

/// What a value means.
#[derive(Debug, Clone, Copy)]
struct Meaning {
    protocol: Option<Protocol>,
    end: End,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
}

impl Kind {
    fn of(word: &str) -> Option<Self> {
        let all = [Self::Host, Self::Net, Self::Port, Self::PortRange];
        all.into_iter().find(|kind| kind.name() == word)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Net => "net",
            Self::Port => "port",
            Self::PortRange => "portrange",
        }
    }

    /// How one is written.
    const fn example(self) -> &'static str {
        match self {
            Self::Host => "host 10.0.0.1",
            Self::Net => "net 10.0.0.0/8",
            Self::Port => "port 80",
            Self::PortRange => "portrange 8000-8099",
        }
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// Where the text ends.
    end: Token<'a>,
    resolve: Resolve<'a>,
    /// What a value without a keyword means: the same as the value before it.
    last: Option<Meaning>,
    elements: usize,
}

pub(super) fn parse(text: &str, resolve: Resolve<'_>) -> Result<Chain, FilterError> {
    if text.len() > TEXT_MAX {
        let end = Token {
            text: "",
            column: 1,
        };
        return Err(end.error(
            format!("a filter of {} bytes", text.len()),
            format!("a filter has at most {TEXT_MAX}: write nets instead of hosts"),
        ));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        end: Token {
            text: "",
            column: text.chars().count() + 1,
        },
        resolve,
        last: None,
        elements: 0,
    };
    if parser.tokens.is_empty() {
        return Ok(Chain::default());
    }
    let chain = parser.chain(0)?;
    match parser.peek() {
        None => Ok(chain),
        Some(token) if token.text == ")" => {
            Err(token.error("`)` closes nothing", "remove it, or open a `(` before it"))
        }
        Some(token) => Err(token.error(
            format!("`{}` follows a whole filter", shown(token.text)),
            match near_miss(token.text, ["and", "or"]) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "join tests by `and` or `or`".to_owned(),
            },
        )),
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    /// Takes the next token if it is one of some.
    fn take(&mut self, any: &[&str]) -> Option<Token<'a>> {
        let token = self.peek().filter(|token| any.contains(&token.text))?;
        self.at += 1;
        Some(token)
    }

    /// Takes the next token, which must be there.
    fn next(&mut self, wanted: &str, example: &str) -> Result<Token<'a>, FilterError> {
        let Some(token) = self.peek() else {
            return Err(self.end.error(
                format!("the filter ends where {wanted} should be"),
                format!("such as `{example}`"),
            ));
        };
        self.at += 1;
        Ok(token)
    }

    /// Counts an element of a filter at a depth.
    fn count(&mut self, at: Token<'_>, depth: usize) -> Result<(), FilterError> {
        self.elements += 1;
        if depth > DEPTH_MAX {
            return Err(at.error(
                format!("groups and negations more than {DEPTH_MAX} deep"),
                "`and` and `or` need no groups from left to right",
            ));
        }
        if self.elements > ELEMENTS_MAX {
            return Err(at.error(
                format!("more than {ELEMENTS_MAX} tests, negations and groups"),
                "write nets instead of hosts, and ranges instead of ports",
            ));
        }
        Ok(())
    }

    /// `term { ( and | or ) term }`, `depth` groups and negations deep.
    fn chain(&mut self, depth: usize) -> Result<Chain, FilterError> {
        let mut chain = vec![(Join::And, self.term(depth)?)];
        loop {
            let join = match self.take(&JOINS) {
                Some(token) if matches!(token.text, "and" | "&&") => Join::And,
                Some(_) => Join::Or,
                None => return Ok(Chain(chain)),
            };
            chain.push((join, self.term(depth)?));
        }
    }

    fn term(&mut self, depth: usize) -> Result<Term, FilterError> {
        let token = self.next("a test", "host 10.0.0.1")?;
        match token.text {
            "not" | "!" => {
                self.count(token, depth + 1)?;
                Ok(Term::Not(Box::new(self.term(depth + 1)?)))
            }
            "(" => {
                self.count(token, depth + 1)?;
                let chain = self.chain(depth + 1)?;
                if self.take(&[")"]).is_none() {
                    let at = self.peek().unwrap_or(self.end);
                    return Err(at.error(
                        format!("the `(` of column {} is not closed", token.column),
                        "write a `)`, and `and` or `or` between tests",
                    ));
                }
                Ok(Term::Group(chain))
            }
            _ => self.primitive(token, depth),
        }
    }

    /// A test that begins with `token`.
    fn primitive(&mut self, token: Token<'a>, depth: usize) -> Result<Term, FilterError> {
        if token.text == ")" || JOINS.contains(&token.text) {
            return Err(token.error(
                format!("`{}` where a test should be", token.text),
                "such as `host 10.0.0.1`",
            ));
        }
        if matches!(token.text, "less" | "greater" | "dropped") {
            self.last = None;
            let test = self.simple(token)?;
            return self.test(token, test);
        }
        // The token may be the protocol, the direction or the kind, each of which may be absent.
        self.at -= 1;
        let protocol = self.peek().and_then(|token| Protocol::of(token.text));
        self.at += usize::from(protocol.is_some());
        let end = self.take(&["src", "dst"]).map(|token| match token.text {
            "src" => End::Source,
            _ => End::Destination,
        });
        let kind = self.peek().and_then(|token| Kind::of(token.text));
        self.at += usize::from(kind.is_some());
        match (protocol, end, kind) {
            (Some(protocol), None, None) => {
                self.last = None;
                self.test(token, Test::Protocol(protocol))
            }
            (None, None, None) => {
                let last = self.last.ok_or_else(|| self.unknown(token))?;
                self.value(last, depth)
                    .map_err(|error| mistyped(error, token))
            }
            _ => {
                let meaning = Meaning {
                    protocol,
                    end: end.unwrap_or(End::Either),
                    kind: kind.unwrap_or(Kind::Host),
                };
                if let Some(protocol) = protocol {
                    check_qualifier(protocol, meaning.kind, token)?;
                }
                self.last = Some(meaning);
                self.value(meaning, depth)
            }
        }
    }

    /// What `less`, `greater` and `dropped` stand for.
    fn simple(&mut self, keyword: Token<'a>) -> Result<Test, FilterError> {
        if keyword.text == "dropped" {
            let is_cause = |token: &Token<'_>| token.is_word() && !JOINS.contains(&token.text);
            let Some(cause) = self.peek().filter(is_cause) else {
                return Ok(Test::Dropped(None));
            };
            self.at += 1;
            return match DROPS.iter().find(|(_, name, _)| *name == cause.text) {
                Some((fate, ..)) => Ok(Test::Dropped(Some(*fate))),
                None => Err(unknown_cause(cause)),
            };
        }
        let value = self.next("a length", "less 100")?;
        let Some(len) = number(value.text) else {
            return Err(value.error(
                format!("`{}` is not a length", shown(value.text)),
                format!(
                    "write bytes as a decimal number, such as `{} 100`",
                    keyword.text
                ),
            ));
        };
        Ok(match keyword.text {
            "less" => Test::Less(len),
            _ => Test::Greater(len),
        })
    }

    /// The value of a primitive whose keywords have been read.
    fn value(&mut self, meaning: Meaning, depth: usize) -> Result<Term, FilterError> {
        let Meaning {
            protocol,
            end,
            kind,
        } = meaning;
        let value = self.next("a value", kind.example())?;
        if !value.is_word() {
            return Err(value.error(
                format!("`{}` where a value should be", value.text),
                format!("such as `{}`", kind.example()),
            ));
        }
        let qualified = depth + usize::from(protocol.is_some());
        let term = match kind {
            Kind::Host => self.host(value, end, qualified)?,
            Kind::Net => self.test(value, Test::Address(end, net(value)?))?,
            Kind::Port => self.test(value, Test::Port(end, port(value)?))?,
            Kind::PortRange => self.test(value, Test::Port(end, port_range(value)?))?,
        };
        let Some(protocol) = protocol else {
            return Ok(term);
        };
        // `tcp port 80` is the group `(tcp and port 80)`.
        let protocol = self.test(value, Test::Protocol(protocol))?;
        self.group(
            value,
            vec![(Join::And, protocol), (Join::And, term)],
            qualified,
        )
    }

    /// Any of a host's addresses.
    fn host(&mut self, value: Token<'a>, end: End, depth: usize) -> Result<Term, FilterError> {
        let addresses = match value.text.parse() {
            Ok(address) => vec![address],
            Err(_) => (self.resolve)(value.text).map_err(|hint| {
                value.error(
                    format!("there is no host called `{}`", shown(value.text)),
                    hint,
                )
            })?,
        };
        let mut any = Vec::new();
        for address in addresses {
            let test = self.test(value, Test::Address(end, Net::host(address)))?;
            any.push((Join::Or, test));
        }
        match any.len() {
            0 => Err(value.error(
                format!("the host `{}` has no address", shown(value.text)),
                "write an address instead",
            )),
            1 => Ok(any.swap_remove(0).1),
            _ => {
                any[0].0 = Join::And;
                self.group(value, any, depth + 1)
            }
        }
    }

    fn test(&mut self, at: Token<'_>, test: Test) -> Result<Term, FilterError> {
        self.count(at, 0)?;
        Ok(Term::Test(test))
    }

    fn group(
        &mut self,
        at: Token<'_>,
        terms: Vec<(Join, Term)>,
        depth: usize,
    ) -> Result<Term, FilterError> {
        self.count(at, depth)?;
        Ok(Term::Group(Chain(terms)))
    }

    /// A word that begins nothing.
    fn unknown(&self, token: Token<'_>) -> FilterError {
        let word = shown(token.text);
        if OMITTED.contains(&token.text) {
            return token.error(
                format!("`{word}` of pcap-filter is not supported"),
                "docs/captures.md lists what is",
            );
        }
        let is_host = token.text.parse::<IpAddr>().is_ok() || (self.resolve)(token.text).is_ok();
        let hint = match near_miss(token.text, keywords()) {
            _ if is_host => format!("write `host {word}`"),
            _ if token.text.contains('/') => format!("write `net {word}`"),
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!(
                "a test begins with one of {}",
                keywords().collect::<Vec<_>>().join(", ")
            ),
        };
        token.error(format!("`{word}` is not the beginning of a test"), hint)
    }
}

/// Words with which tests begin.
fn keywords() -> impl Iterator<Item = &'static str> {
    let protocols = PROTOCOLS.iter().map(|(name, _)| *name);
    KEYWORDS.into_iter().chain(protocols)
}

/// An error about a value that may have been meant as a keyword.
fn mistyped(error: FilterError, token: Token<'_>) -> FilterError {
    match near_miss(token.text, keywords()) {
        Some(meant) => FilterError {
            hint: format!("did you mean `{meant}`? {}", error.hint),
            ..error
        },
        None => error,
    }
}

/// Refuses what could never match.
fn check_qualifier(protocol: Protocol, kind: Kind, at: Token<'_>) -> Result<(), FilterError> {
    let fits = match protocol {
        Protocol::Ip | Protocol::Ip6 | Protocol::Arp => matches!(kind, Kind::Host | Kind::Net),
        Protocol::Tcp | Protocol::Udp => matches!(kind, Kind::Port | Kind::PortRange),
        Protocol::Icmp | Protocol::Icmp6 => false,
    };
    if fits {
        return Ok(());
    }
    Err(at.error(
        format!("`{}` cannot qualify `{}`", protocol.name(), kind.name()),
        format!("write `{} and {}`", protocol.name(), kind.example()),
    ))
}

fn unknown_cause(cause: Token<'_>) -> FilterError {
    let names = || DROPS.iter().map(|(_, name, _)| *name);
    let near = match near_miss(cause.text, names()) {
        Some(meant) => format!("did you mean `{meant}`? "),
        None => String::new(),
    };
    let all = names().collect::<Vec<_>>().join(", ");
    cause.error(
        format!("`{}` is not a cause of drops", shown(cause.text)),
        format!("{near}causes are {all}; tests are joined by `and` or `or`"),
    )
}

/// A decimal number without leading zeros, which pcap-filter takes for octal.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_octal = text.len() > 1 && text.starts_with('0');
    text.parse().ok().filter(|_| is_number && !is_octal)
}

fn net(value: Token<'_>) -> Result<Net, FilterError> {
    let error = |hint: String| value.error(format!("`{}` is not a net", shown(value.text)), hint);
    let parts = value.text.split_once('/');
    let Some((Ok(address), len)) = parts.map(|(address, len)| (address.parse(), len)) else {
        return Err(error(
            "write an address and how many bits of it count, such as `net 10.0.0.0/8`".to_owned(),
        ));
    };
    let bits = Net::bits(address);
    let Some(len) = number(len).filter(|len| *len <= bits) else {
        return Err(error(format!(
            "after the `/`, write a number from 0 to {bits}"
        )));
    };
    let net = Net::around(address, len);
    if net.address != address {
        return Err(value.error(
            format!("`{}` has bits set after the first {len}", shown(value.text)),
            format!("write `net {}/{len}`", net.address),
        ));
    }
    Ok(net)
}

fn port(value: Token<'_>) -> Result<[u16; 2], FilterError> {
    match number(value.text) {
        Some(port) => Ok([port; 2]),
        None => Err(value.error(
            format!("`{}` is not a port", shown(value.text)),
            "ports are decimal numbers from 0 to 65535, such as `port 80`",
        )),
    }
}

fn port_range(value: Token<'_>) -> Result<[u16; 2], FilterError> {
    let ends = value.text.split_once('-');
    let ends = ends.map(|(first, last)| (number(first), number(last)));
    match ends {
        Some((Some(first), Some(last))) if first <= last => Ok([first, last]),
        Some((Some(first), Some(last))) => Err(value.error(
            format!("`{}` contains no port", shown(value.text)),
            format!("write `portrange {last}-{first}`"),
        )),
        _ => Err(value.error(
            format!("`{}` is not a range of ports", shown(value.text)),
            "write the first and the last port, such as `portrange 8000-8099`",
        )),
    }
}
