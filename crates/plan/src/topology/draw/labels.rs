//! Places for texts: each beside what it names, none over another or over a node.

use std::collections::HashMap;

use super::Symbol;

/// A rectangle in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// What is taken, by squares of the paper.
#[derive(Debug)]
pub(super) struct Labels {
    /// Width and height of the paper.
    paper: (f64, f64),
    taken: HashMap<(i32, i32), Vec<Rect>>,
}

/// The side of a square.
const SQUARE: f64 = 48.0;

/// Where a text can be, as directions from its node; the first are the most readable.
pub(super) const SIDES: [(f64, f64); 8] = [
    (1.0, 0.0),
    (0.0, 1.0),
    (0.0, -1.0),
    (-1.0, 0.0),
    (0.7, 0.7),
    (0.7, -0.7),
    (-0.7, 0.7),
    (-0.7, -0.7),
];

impl Labels {
    /// Nothing is taken yet.
    pub(super) fn new(paper: (f64, f64)) -> Self {
        Self {
            paper,
            taken: HashMap::new(),
        }
    }

    /// The squares that a rectangle touches.
    fn squares(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
        let part = |value: f64| (value / SQUARE).floor() as i32;
        let (left, right) = (part(rect.left), part(rect.right));
        let (top, bottom) = (part(rect.top), part(rect.bottom));
        (left..=right).flat_map(move |x| (top..=bottom).map(move |y| (x, y)))
    }

    /// Takes a rectangle, whatever is there.
    pub(super) fn block(&mut self, rect: Rect) {
        for square in Self::squares(&rect) {
            self.taken.entry(square).or_default().push(rect);
        }
    }

    fn is_free(&self, rect: &Rect) -> bool {
        let others = |square| self.taken.get(&square).into_iter().flatten();
        rect.left >= 0.0
            && rect.top >= 0.0
            && rect.right <= self.paper.0
            && rect.bottom <= self.paper.1
            && !Self::squares(rect)
                .flat_map(others)
                .any(|other| other.meets(rect))
    }

    /// Takes room for a text of `size` around `middle`, if it is free.
    pub(super) fn at(&mut self, middle: (f64, f64), size: (f64, f64)) -> bool {
        let rect = Symbol(size.0 / 2.0, size.1 / 2.0).around(middle);
        let free = self.is_free(&rect);
        if free {
            self.block(rect);
        }
        free
    }

    /// Takes room for a text of `size` beside a node, first on the sides that are least `crowded`;
    /// gives the text's top left corner.
    pub(super) fn beside(
        &mut self,
        (x, y): (f64, f64),
        symbol: Symbol,
        size: (f64, f64),
        crowded: &[i8; SIDES.len()],
    ) -> Option<(f64, f64)> {
        const GAP: f64 = 2.0;
        let mut sides: [usize; SIDES.len()] = std::array::from_fn(|side| side);
        // Stable: among equals the readable ones stay first.
        sides.sort_by_key(|side| crowded[*side]);
        for (dx, dy) in sides.map(|side| SIDES[side]) {
            let middle = (
                x + dx * (symbol.0 + GAP + size.0 / 2.0),
                y + dy * (symbol.1 + GAP + size.1 / 2.0),
            );
            if self.at(middle, size) {
                return Some((middle.0 - size.0 / 2.0, middle.1 - size.1 / 2.0));
            }
        }
        None
    }
}
