//! Changes a JSON text as damage, other versions and malice would; included by the tests of its readers.

use serde_json::{Value, json};

/// A text that would steer a terminal, and then some.
pub(crate) const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r\n\u{7f}";

/// One change: where, and which.
pub(crate) type Change = (u32, u8);

/// The text after all changes; a change of bytes may leave it without form.
pub(crate) fn mutate(value: &Value, changes: &[Change], bytes: &[Change]) -> Vec<u8> {
    let mut value = value.clone();
    for &(place, kind) in changes {
        let mut left = place as usize % count(&value);
        change(&mut value, &mut left, kind);
    }
    let mut text = value.to_string().into_bytes();
    for &(place, kind) in bytes {
        let at = place as usize % text.len().max(1);
        match kind % 4 {
            0 => text.truncate(at),
            1 if !text.is_empty() => text[at] ^= 1 << (kind / 4 % 8),
            2 => text.insert(at, kind),
            _ if !text.is_empty() => drop(text.remove(at)),
            _ => {}
        }
    }
    text
}

/// The values of a tree.
pub(crate) fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value with this number, counted from the root.
fn change(value: &mut Value, left: &mut usize, kind: u8) {
    if *left == 0 {
        *left = usize::MAX;
        *value = changed(value, kind);
        return;
    }
    *left -= 1;
    let all: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(map) => {
            // A missing field is what other versions have.
            if kind.is_multiple_of(3) && *left < map.len() {
                let name = map.keys().nth(*left).cloned().unwrap_or_default();
                map.remove(&name);
                *left = usize::MAX;
                return;
            }
            map.values_mut().collect()
        }
        _ => return,
    };
    for value in all {
        if *left != usize::MAX {
            change(value, left, kind);
        }
    }
}

fn changed(value: &Value, kind: u8) -> Value {
    match (kind % 12, value) {
        (0, _) => Value::Null,
        (1, _) => json!(u64::MAX),
        (2, _) => json!(-1),
        (3, _) => json!(1e308),
        (4, _) => json!(-1e-308),
        (5, _) => json!(HOSTILE),
        (6, _) => json!([]),
        (7, _) => json!({}),
        (8, Value::Array(list)) => list
            .iter()
            .cycle()
            .take(list.len() * 300)
            .cloned()
            .collect(),
        (8 | 9, Value::String(text)) => json!(format!("{text}{HOSTILE}").repeat(200)),
        (10, Value::Number(_)) => json!(0),
        (_, Value::Bool(is)) => json!(!is),
        (_, other) => other.clone(),
    }
}
