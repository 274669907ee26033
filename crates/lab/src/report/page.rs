//! A document as an HTML file: the template that `ui/` builds, with the data in it.
//!
//! The data is JSON, compressed (zlib, RFC 1950) and in base64 (RFC 4648 §4), in a script element of a type
//! that no browser runs: nothing in it can end the element or become markup. The page's own script is allowed
//! by its hash, and nothing else; the title has the name of the run, escaped, and a `noscript` part the
//! verdict.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::document::{Document, Ending, Run};
use super::text::escape;

/// What `ui/` builds, script and style in it.
const TEMPLATE: &str = include_str!("../../../../ui/dist/page.html");
const TITLE: &str = "<!--longhaul:title-->";
const PLAIN: &str = "<!--longhaul:plain-->";
const DATA: &str = "longhaul:data";
const POLICY: &str = "default-src 'none';";

/// A document as base64.
pub(super) fn packed(document: &Document) -> io::Result<String> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    serde_json::to_writer(&mut encoder, document).map_err(io::Error::other)?;
    encoder.flush()?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// The page of a document that has been packed.
pub(super) fn page(document: &Document, packed: &str) -> String {
    let names: Vec<&str> = document.runs.iter().map(|run| &*run.name).collect();
    let title = match &*document.runs {
        [run] => format!("{}: {}", run.name, word(run)),
        _ => format!("{}, compared", names.join(", ")),
    };
    let plain: String = document.runs.iter().map(plain).collect();
    // In this order, each once: inserted text is never searched for further markers.
    let pieces = TEMPLATE.split_once(TITLE).and_then(|(a, rest)| {
        let (b, rest) = rest.split_once(PLAIN)?;
        let (c, d) = rest.split_once(DATA)?;
        Some([a, b, c, d])
    });
    let [a, b, c, d] = pieces.expect("the template has a place for each part");
    let head = if document.served {
        // The page asks its own server for rows.
        a.replacen(POLICY, &format!("{POLICY} connect-src 'self';"), 1)
    } else {
        a.to_owned()
    };
    [&head, &*escape(&title), b, &plain, c, packed, d].concat()
}

/// A run in one word.
fn word(run: &Run) -> &str {
    let state = run
        .summary
        .as_ref()
        .and_then(|summary| summary.get("verdict")?.get("state")?.as_str());
    match (run.ending, state) {
        (Ending::UnderWay, _) => "under way",
        (Ending::CutOff, _) => "cut off",
        (Ending::Whole, state) => state.unwrap_or("without a verdict"),
    }
}

/// The verdict for those without scripts.
fn plain(run: &Run) -> String {
    let verdict = run
        .summary
        .as_ref()
        .and_then(|summary| summary.get("verdict"));
    let holds = verdict.and_then(|verdict| verdict.get("holds")?.as_str());
    let reasons = verdict.and_then(|verdict| verdict.get("reasons")?.as_array());
    let reasons = reasons
        .into_iter()
        .flatten()
        .filter_map(|reason| reason.as_str());
    let lines: String = holds
        .into_iter()
        .chain(reasons)
        .chain(run.notes.iter().map(String::as_str))
        .take(50)
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    let (name, word) = (escape(&run.name), escape(word(run)));
    format!("<h1>{name}: {word}</h1><ul>{lines}</ul>")
}
