//! Figures beside their theory, and their table in a Markdown file.

use std::fmt::Write;

/// One measured number.
pub(crate) struct Figure {
    /// What was asked for, as the experiment file says it.
    asked: String,
    what: &'static str,
    theory: f64,
    measured: f64,
    /// How far the measurement may be off; of a bound, `None`.
    within: Option<f64>,
    unit: &'static str,
    /// Decimals that are shown.
    places: usize,
}

/// Figures on one subject.
pub(crate) struct Table {
    name: &'static str,
    figures: Vec<Figure>,
}

/// Adds the figures on one thing that was asked for.
pub(crate) struct Asked<'a> {
    asked: String,
    unit: &'static str,
    places: usize,
    figures: &'a mut Vec<Figure>,
}

impl Table {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            figures: Vec::new(),
        }
    }

    /// Figures on what was `asked` for follow, plain numbers to begin with.
    pub(crate) fn asked(&mut self, asked: impl Into<String>) -> Asked<'_> {
        Asked {
            asked: asked.into(),
            unit: "",
            places: 4,
            figures: &mut self.figures,
        }
    }

    /// The figures that are off.
    pub(crate) fn misses(&self) -> Vec<String> {
        let missed = self.figures.iter().filter(|figure| !figure.holds());
        missed.map(Figure::row).collect()
    }

    /// The table with its markers, as a Markdown file has it.
    pub(crate) fn block(&self) -> String {
        let mut text = format!("{}\n\n", marker(self.name, "begin"));
        text += "| asked | figure | theory | measured | may differ by |\n";
        text += "| --- | --- | --- | --- | --- |\n";
        let mut before = "";
        for figure in &self.figures {
            let repeated = before == figure.asked;
            let asked = if repeated { "" } else { &figure.asked };
            let _ = writeln!(text, "| {asked} {}", figure.row());
            before = &figure.asked;
        }
        text + "\n" + &marker(self.name, "end")
    }

    /// `text` with this table in place of the one that it holds; `None` where it has no markers.
    pub(crate) fn put_into(&self, text: &str) -> Option<String> {
        let end_marker = marker(self.name, "end");
        let begin = text.find(&marker(self.name, "begin"))?;
        let end = begin + text[begin..].find(&end_marker)? + end_marker.len();
        Some(format!(
            "{}{}{}",
            &text[..begin],
            self.block(),
            &text[end..]
        ))
    }
}

fn marker(name: &str, side: &str) -> String {
    format!("<!-- links:{name}:{side} -->")
}

impl Asked<'_> {
    /// The unit of the figures to come, and the decimals that are shown.
    pub(crate) fn unit(mut self, unit: &'static str, places: usize) -> Self {
        (self.unit, self.places) = (unit, places);
        self
    }

    /// A figure that is off by at most `within`.
    pub(crate) fn near(self, what: &'static str, theory: f64, measured: f64, within: f64) -> Self {
        self.figure(what, theory, measured, Some(within))
    }

    /// A count that is what theory says.
    pub(crate) fn exact(self, what: &'static str, theory: u64, measured: u64) -> Self {
        let (unit, places) = (self.unit, self.places);
        let plain = self.unit("", 0);
        let plain = plain.figure(what, theory as f64, measured as f64, Some(0.0));
        plain.unit(unit, places)
    }

    /// A figure that is at most `bound`.
    pub(crate) fn at_most(self, what: &'static str, bound: f64, measured: f64) -> Self {
        self.figure(what, bound, measured, None)
    }

    fn figure(self, what: &'static str, theory: f64, measured: f64, within: Option<f64>) -> Self {
        self.figures.push(Figure {
            asked: self.asked.clone(),
            what,
            theory,
            measured,
            within,
            unit: self.unit,
            places: self.places,
        });
        self
    }
}

impl Figure {
    fn holds(&self) -> bool {
        match self.within {
            Some(within) => (self.measured - self.theory).abs() <= within,
            None => self.measured <= self.theory,
        }
    }

    /// All columns but the first.
    fn row(&self) -> String {
        let Self {
            what,
            theory,
            measured,
            unit,
            places,
            ..
        } = self;
        let space = if unit.is_empty() { "" } else { " " };
        let shown = |number: f64| format!("{number:.places$}{space}{unit}");
        let (theory, within) = match self.within {
            Some(0.0) => (shown(*theory), "nothing".to_owned()),
            Some(within) => (shown(*theory), shown(within)),
            None => (format!("at most {}", shown(*theory)), String::new()),
        };
        format!("| {what} | {theory} | {} | {within} |", shown(*measured))
    }
}
