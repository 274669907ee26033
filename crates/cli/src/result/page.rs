//! Sections cut to fit one screen, however many lines there are.

use crate::style::Style;

/// The most lines of a page.
pub(crate) const LINES: usize = 40;
/// The most characters of a line: only hostile text is longer.
const WIDTH: usize = 400;
/// Characters before the words of a line.
const INDENT: usize = 11;

/// Lines under one label.
#[derive(Debug, Default)]
struct Section {
    label: &'static str,
    lines: Vec<String>,
    /// Lines that stay when room is short.
    least: usize,
    /// What the lines are that are left out, and how many.
    what: String,
    more: usize,
}

impl Section {
    fn height(&self) -> usize {
        self.lines.len() + usize::from(self.more > 0)
    }
}

/// What is to be shown, the most important first.
#[derive(Debug, Default)]
pub(crate) struct Page {
    sections: Vec<Section>,
}

impl Page {
    /// A line that stays.
    pub(crate) fn line(&mut self, label: &'static str, words: impl Into<String>) {
        self.list(label, vec![words.into()], 1, String::new());
    }

    /// Lines of which at least `least` stay; the others are counted as that many more of `what`.
    pub(crate) fn list(
        &mut self,
        label: &'static str,
        lines: Vec<String>,
        least: usize,
        what: impl Into<String>,
    ) {
        self.part(label, lines, 0, least, what);
    }

    /// The same where `more` are left out already.
    pub(crate) fn part(
        &mut self,
        label: &'static str,
        lines: Vec<String>,
        more: usize,
        least: usize,
        what: impl Into<String>,
    ) {
        if !lines.is_empty() {
            self.sections.push(Section {
                label,
                lines,
                least: least.max(1),
                what: what.into(),
                more,
            });
        }
    }

    /// The text, of at most [`LINES`] lines as far as the lines that stay allow that.
    pub(crate) fn text(mut self, style: Style) -> String {
        while self.sections.iter().map(Section::height).sum::<usize>() > LINES {
            let spare = |section: &&mut Section| section.lines.len().saturating_sub(section.least);
            let longest = self.sections.iter_mut().rev().max_by_key(spare);
            match longest.filter(|section| section.lines.len() > section.least) {
                Some(section) => {
                    // The first line to go makes room for the one that counts the rest.
                    let go = if section.more == 0 { 2 } else { 1 };
                    let go = go.min(section.lines.len() - section.least);
                    section.lines.truncate(section.lines.len() - go);
                    section.more += go;
                }
                None => break,
            }
        }
        let mut text = String::new();
        for section in &self.sections {
            let mut label = style.bold(format_args!("{:<9}", section.label));
            let more = (section.more > 0)
                .then(|| style.dim(format_args!("… and {} more {}", section.more, section.what)));
            for line in section
                .lines
                .iter()
                .map(String::as_str)
                .chain(more.as_deref())
            {
                text.push_str(&format!("{label}  {}\n", clip(line, WIDTH).trim_end()));
                label = " ".repeat(INDENT - 2);
            }
        }
        text
    }
}

/// A line cut to `width` characters, colours not counted.
pub(crate) fn clip(line: &str, width: usize) -> String {
    let mut text = String::new();
    let (mut seen, mut in_colour, mut coloured) = (0, false, false);
    for c in line.chars() {
        match c {
            '\x1b' => (in_colour, coloured) = (true, true),
            'm' if in_colour => in_colour = false,
            _ if in_colour => {}
            _ if seen == width => {
                text.push('…');
                if coloured {
                    text.push_str("\x1b[0m");
                }
                return text;
            }
            _ => seen += 1,
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(n: usize) -> Vec<String> {
        (0..n).map(|n| format!("line {n}")).collect()
    }

    #[test]
    fn a_page_has_no_more_lines_than_a_screen() {
        for (a, b, c) in [(1, 1, 1), (20, 20, 2), (500, 3, 39), (40, 0, 0), (39, 1, 1)] {
            let mut page = Page::default();
            page.list("first", lines(a), 1, "lines");
            page.list("second", lines(b), 2, "lines");
            page.part("third", lines(c), 7, 3, "lines");
            let text = page.text(Style::plain());
            let shown = text.lines().filter(|line| !line.contains("… and"));
            let more = text.lines().filter_map(|line| line.split("and ").nth(1));
            let more = more.map(|more| more.split(' ').next().unwrap().parse::<usize>().unwrap());
            let left_out = if c > 0 { 7 } else { 0 };
            assert_eq!(
                shown.count() + more.sum::<usize>(),
                a + b + c + left_out,
                "{text}"
            );
            assert!(text.lines().count() <= LINES, "{text}");
            let whole = a + b + c + usize::from(c > 0);
            assert!(whole > LINES || text.lines().count() == whole, "{text}");
        }
    }

    #[test]
    fn labels_stand_once_and_long_lines_are_cut() {
        let mut page = Page::default();
        page.list("flows", lines(2), 1, "flows");
        page.line("trace", "x".repeat(5000));
        let text = page.text(Style::plain());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["flows      line 0", "           line 1"]);
        assert_eq!(lines[2].chars().count(), INDENT + WIDTH + 1);
        assert_eq!(clip("\x1b[1;31mabc\x1b[0m", 2), "\x1b[1;31mab…\x1b[0m");
        assert_eq!(clip("\x1b[1mab\x1b[0mc", 3), "\x1b[1mab\x1b[0mc");
    }
}
