//! GML, the Graph Modelling Language (Himsolt, University of Passau, 1997): keys with values,
//! which are numbers, strings or lists of keys with values in brackets.
//!
//! The reader takes one token after another and keeps only what it needs, so that neither depth
//! nor what it does not know costs memory. Strings may have line breaks and the entities of HTML;
//! `#` starts a comment where a token could.
//!
//! Left out: `Version` and the other keys outside of the graph; coordinates of drawings.

use super::graph::Graph;
use super::text::Flaw;
use super::zoo::{EdgeAttributes, NodeAttributes, Seen};
use crate::text::error::shown;

/// How the nodes' ids and the ends of edges are written; longer ones are not ids.
const MAX_ID: usize = 200;

/// A part of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    /// A key, or a value that is a bare word such as `NAN`.
    Word(&'a str),
    Number(&'a str),
    /// Without its quotes.
    Text(&'a str),
    Open,
    Close,
    End,
}

/// Takes tokens off a text.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// The next token and its place.
    fn next(&mut self) -> Result<(usize, Token<'a>), Flaw> {
        self.skip();
        let at = self.at;
        let rest = &self.text[at..];
        let Some(first) = rest.chars().next() else {
            return Ok((at, Token::End));
        };
        let run = |inside: fn(char) -> bool| rest.find(|c| !inside(c)).unwrap_or(rest.len());
        let (len, token) = match first {
            '[' => (1, Token::Open),
            ']' => (1, Token::Close),
            '"' => {
                let end = rest[1..].find('"').ok_or_else(|| {
                    let hint = "the file may be cut off: fetch it again, or close the quotes";
                    Flaw::at(at, "this string is not closed", hint)
                })?;
                (end + 2, Token::Text(&rest[1..end + 1]))
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let len = run(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
                (len, Token::Word(&rest[..len]))
            }
            c if c.is_ascii_digit() || "+-.".contains(c) => {
                let len = run(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
                (len, Token::Number(&rest[..len]))
            }
            c => {
                let message = format!("`{}` is not allowed here", shown(&c.to_string()));
                let hint = "GML has keys, numbers, strings in quotes, and lists in brackets";
                return Err(Flaw::at(at, message, hint));
            }
        };
        self.at += len;
        Ok((at, token))
    }

    /// Goes past white space and comments.
    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.trim_start();
            self.at += rest.len() - blank.len();
            if !blank.starts_with('#') {
                return;
            }
            self.at += blank.find('\n').unwrap_or(blank.len());
        }
    }

    /// The next key; `None` at the end of the list that was opened at `open`.
    fn key(&mut self, open: Option<usize>) -> Result<Option<(usize, &'a str)>, Flaw> {
        match (self.next()?, open) {
            ((at, Token::Word(word)), _) => Ok(Some((at, word))),
            ((_, Token::Close), Some(_)) | ((_, Token::End), None) => Ok(None),
            ((_, Token::End), Some(open)) => Err(unclosed(open)),
            ((at, _), _) => Err(Flaw::at(
                at,
                "a key is missing here",
                "GML is a sequence of keys with values, like `id 3`",
            )),
        }
    }

    /// Goes past a value.
    fn pass(&mut self, at: usize, value: Token<'a>) -> Result<(), Flaw> {
        let mut depth = usize::from(value == Token::Open);
        while depth > 0 {
            match self.next()?.1 {
                Token::Open => depth += 1,
                Token::Close => depth -= 1,
                Token::End => return Err(unclosed(at)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn unclosed(at: usize) -> Flaw {
    let hint = "the file may be cut off: fetch it again, or add the missing `]`";
    Flaw::at(at, "the list that starts here is not closed", hint)
}

/// Reads a GML file.
pub(super) fn read(text: &str) -> Result<Graph, Flaw> {
    let mut tokens = Tokens { text, at: 0 };
    let mut found: Option<Graph> = None;
    while let Some((key_at, key)) = tokens.key(None)? {
        let (at, value) = tokens.next()?;
        check(at, key, value)?;
        if !key.eq_ignore_ascii_case("graph") || value != Token::Open {
            tokens.pass(at, value)?;
        } else if found.is_some() {
            let hint = "leave one `graph [ … ]` in the file";
            return Err(Flaw::at(key_at, "a second graph", hint));
        } else {
            found = Some(graph(&mut tokens, at)?);
        }
    }
    found.ok_or_else(|| {
        let hint = "GML has `graph [ node [ id 0 ] … edge [ source 0 target 1 ] … ]`";
        Flaw::whole("there is no graph in this file", hint)
    })
}

/// A value must be there.
fn check(at: usize, key: &str, value: Token<'_>) -> Result<(), Flaw> {
    if !matches!(value, Token::Close | Token::End) {
        return Ok(());
    }
    let message = format!("`{}` has no value", shown(key));
    let hint = "the file may be cut off: fetch it again, or add the value";
    Err(Flaw::at(at, message, hint))
}

fn graph(tokens: &mut Tokens<'_>, open: usize) -> Result<Graph, Flaw> {
    let mut graph = Graph::new(true);
    let mut seen = Seen::default();
    let mut directed = false;
    while let Some((key_at, key)) = tokens.key(Some(open))? {
        let (at, value) = tokens.next()?;
        check(at, key, value)?;
        match (key.to_ascii_lowercase().as_str(), value) {
            ("node", Token::Open) => node(tokens, key_at, at, &mut graph, &mut seen)?,
            ("edge", Token::Open) => edge(tokens, key_at, at, directed, &mut graph, &mut seen)?,
            ("directed", Token::Number(number)) => directed = number == "1",
            ("label", Token::Text(title)) => graph.title = Some(decode(title)),
            _ => tokens.pass(at, value)?,
        }
    }
    graph.join()?;
    seen.note(&mut graph);
    Ok(graph)
}

fn node(
    tokens: &mut Tokens<'_>,
    start: usize,
    open: usize,
    graph: &mut Graph,
    seen: &mut Seen,
) -> Result<(), Flaw> {
    let mut id = None;
    let mut attributes = NodeAttributes::default();
    attributes.node.at = start;
    while let Some((_, key)) = tokens.key(Some(open))? {
        let (at, value) = tokens.next()?;
        check(at, key, value)?;
        match value {
            Token::Open => tokens.pass(at, value)?,
            _ if key.eq_ignore_ascii_case("id") => once(&mut id, key, at, value)?,
            _ => attributes.set(key, &content(value), at)?,
        }
    }
    let id = id.ok_or_else(|| {
        let hint = "write it like `node [ id 0 label \"Paris\" ]`";
        Flaw::at(start, "this node has no id", hint)
    })?;
    attributes.finish(&id, graph, seen)
}

fn edge(
    tokens: &mut Tokens<'_>,
    start: usize,
    open: usize,
    directed: bool,
    graph: &mut Graph,
    seen: &mut Seen,
) -> Result<(), Flaw> {
    let (mut source, mut target) = (None, None);
    let mut attributes = EdgeAttributes::default();
    attributes.edge.at = start;
    attributes.edge.directed = directed;
    while let Some((_, key)) = tokens.key(Some(open))? {
        let (at, value) = tokens.next()?;
        check(at, key, value)?;
        match value {
            Token::Open => tokens.pass(at, value)?,
            _ if key.eq_ignore_ascii_case("source") => once(&mut source, key, at, value)?,
            _ if key.eq_ignore_ascii_case("target") => once(&mut target, key, at, value)?,
            _ => attributes.set(key, &content(value), at)?,
        }
    }
    let (Some(source), Some(target)) = (source, target) else {
        let hint = "write it like `edge [ source 0 target 1 ]`";
        return Err(Flaw::at(
            start,
            "this edge lacks its source or target",
            hint,
        ));
    };
    attributes.finish([source, target], graph, seen)
}

/// Takes an id, which must not have been there before.
fn once(slot: &mut Option<String>, key: &str, at: usize, value: Token<'_>) -> Result<(), Flaw> {
    let id = content(value);
    if id.len() > MAX_ID {
        return Err(Flaw::at(at, "this is too long for an id", "write a number"));
    }
    if slot.replace(id).is_some() {
        let message = format!("a second `{}`", shown(key));
        return Err(Flaw::at(at, message, "leave one of the two"));
    }
    Ok(())
}

/// A simple value as text.
fn content(value: Token<'_>) -> String {
    match value {
        Token::Text(text) => decode(text),
        Token::Word(text) | Token::Number(text) => text.to_owned(),
        Token::Open | Token::Close | Token::End => String::new(),
    }
}

/// The names of HTML's entities for the characters 160 to 255 of ISO 8859-1.
const LATIN_1: [&str; 96] = [
    "nbsp", "iexcl", "cent", "pound", "curren", "yen", "brvbar", "sect", "uml", "copy", "ordf",
    "laquo", "not", "shy", "reg", "macr", "deg", "plusmn", "sup2", "sup3", "acute", "micro",
    "para", "middot", "cedil", "sup1", "ordm", "raquo", "frac14", "frac12", "frac34", "iquest",
    "Agrave", "Aacute", "Acirc", "Atilde", "Auml", "Aring", "AElig", "Ccedil", "Egrave", "Eacute",
    "Ecirc", "Euml", "Igrave", "Iacute", "Icirc", "Iuml", "ETH", "Ntilde", "Ograve", "Oacute",
    "Ocirc", "Otilde", "Ouml", "times", "Oslash", "Ugrave", "Uacute", "Ucirc", "Uuml", "Yacute",
    "THORN", "szlig", "agrave", "aacute", "acirc", "atilde", "auml", "aring", "aelig", "ccedil",
    "egrave", "eacute", "ecirc", "euml", "igrave", "iacute", "icirc", "iuml", "eth", "ntilde",
    "ograve", "oacute", "ocirc", "otilde", "ouml", "divide", "oslash", "ugrave", "uacute", "ucirc",
    "uuml", "yacute", "thorn", "yuml",
];

/// The longest entity: `&#x10FFFF;` without its ends.
const MAX_ENTITY: usize = 8;

/// A string with its entities replaced; what is none stays as it is.
fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let end = rest.bytes().take(MAX_ENTITY + 1).position(|b| b == b';');
        match end.and_then(|end| Some((entity(rest.get(..end)?)?, end))) {
            Some((c, end)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out + rest
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => char::from_u32(160 + LATIN_1.iter().position(|latin| *latin == name)? as u32)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_those_of_html() {
        let cases = [
            ("Z&uuml;rich &amp; K&#246;ln", "Zürich & Köln"),
            ("&#xc5;lesund", "Ålesund"),
            ("&nbsp;&yuml;", "\u{a0}ÿ"),
            ("AT&T &unknown; &", "AT&T &unknown; &"),
            ("&#xD800; &#99999999;", "&#xD800; &#99999999;"),
            ("&é;", "&é;"),
        ];
        for (text, expected) in cases {
            assert_eq!(decode(text), expected);
        }
    }
}
