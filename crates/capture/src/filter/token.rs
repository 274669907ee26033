//! The words and signs of a filter's text, and their positions.

use super::error::{FilterError, shown};

/// A word or sign of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// From 1.
    pub(super) column: usize,
}

/// Splits a text into words and signs.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, FilterError> {
    let (mut tokens, mut rest, mut column) = (Vec::new(), text, 1);
    while let Some(c) = rest.chars().next() {
        let len = match c {
            c if c.is_whitespace() => c.len_utf8(),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            '(' | ')' | '!' => 1,
            _ if rest.starts_with("&&") || rest.starts_with("||") => 2,
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        let token = Token {
            text: token,
            column,
        };
        match c {
            c if c.is_whitespace() => {}
            c if is_word(c) || "()!".contains(c) || matches!(token.text, "&&" | "||") => {
                tokens.push(token);
            }
            _ => return Err(token.meaningless(c)),
        }
        column += token.text.chars().count();
        rest = after;
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.:/".contains(c)
}

impl Token<'_> {
    /// Whether it is a word and no sign.
    pub(super) fn is_word(self) -> bool {
        self.text.starts_with(is_word)
    }

    fn meaningless(self, c: char) -> FilterError {
        let hint = match c {
            '&' => "write `&&` or `and`",
            '|' => "write `||` or `or`",
            '<' | '>' | '=' | '[' | ']' => {
                "`less 100` and `greater 100` compare lengths; other arithmetic is not supported"
            }
            _ => "names of hosts have letters, digits, `-`, `_` and `.`",
        };
        self.error(
            format!("`{}` means nothing in a filter", shown(self.text)),
            hint,
        )
    }

    pub(super) fn error(self, message: impl Into<String>, hint: impl Into<String>) -> FilterError {
        FilterError {
            column: self.column,
            width: self.text.chars().count().max(1),
            message: message.into(),
            hint: hint.into(),
        }
    }
}
