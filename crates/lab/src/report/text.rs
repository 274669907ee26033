//! Texts that are in the page outside of its data.

/// The longest text that is shown there, in characters.
const TEXT_MAX: usize = 1000;

/// A text for any place in HTML, attributes included: markup is escaped, what could hide or
/// reorder text is replaced, and too long a text is cut.
pub(super) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len().min(TEXT_MAX) + 16);
    for (index, character) in text.chars().enumerate() {
        if index == TEXT_MAX {
            html.push('…');
            break;
        }
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(character),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                html.push('\u{fffd}');
            }
            _ if character.is_control() => html.push('\u{fffd}'),
            _ => html.push(character),
        }
    }
    html
}
