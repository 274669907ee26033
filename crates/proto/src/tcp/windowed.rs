//! The best of a sliding window, in constant space (K. Nichols' filter, Linux's `lib/win_minmax.c`).
//!
//! Theory: the best sample, the best after it and the best after that are kept. When the best is
//! too old the second takes its place. A quarter and a half of the window without a new best
//! renew the runners-up, so that they are spread over the window.

/// The best value of a window, by the order that the caller gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windowed<T> {
    samples: [(u64, T); 3],
}

impl<T: Copy> Windowed<T> {
    /// A window with a single `value`, seen at `at`.
    pub(super) fn new(at: u64, value: T) -> Self {
        Self {
            samples: [(at, value); 3],
        }
    }

    /// The best value of the window.
    pub(super) fn best(&self) -> T {
        self.samples[0].1
    }

    /// Takes `value`, seen at `at` (never before an earlier one), into a window of `length`;
    /// `better(a, b)` says whether `a` is at least as good as `b`.
    pub(super) fn update(&mut self, at: u64, value: T, length: u64, better: fn(T, T) -> bool) {
        let s = &mut self.samples;
        if better(value, s[0].1) || at.saturating_sub(s[2].0) > length {
            *self = Self::new(at, value);
            return;
        }
        if better(value, s[1].1) {
            s[1] = (at, value);
            s[2] = s[1];
        } else if better(value, s[2].1) {
            s[2] = (at, value);
        }
        let age = at.saturating_sub(s[0].0);
        if age > length {
            *s = [s[1], s[2], (at, value)];
            if at.saturating_sub(s[0].0) > length {
                *s = [s[1], s[2], (at, value)];
            }
        } else if s[1].0 == s[0].0 && age > length / 4 {
            s[1] = (at, value);
            s[2] = s[1];
        } else if s[2].0 == s[1].0 && age > length / 2 {
            s[2] = (at, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::rng::Stream;

    /// Never better than the true best of the window, never worse than the worst of its last
    /// quarter.
    #[test]
    fn stays_between_the_true_best_and_the_recent() {
        let mut stream = Stream::new(1, "windowed");
        let values: Vec<u64> = (0..5000).map(|_| stream.draw() % 1000).collect();
        let mut filter = Windowed::new(0, values[0]);
        for (at, &value) in values.iter().enumerate() {
            filter.update(at as u64, value, 100, |a, b| a >= b);
            let from = at.saturating_sub(101);
            let best = *values[from..=at].iter().max().unwrap();
            let recent = *values[at.saturating_sub(20)..=at].iter().max().unwrap();
            assert!((recent..=best).contains(&filter.best()), "at {at}");
        }
    }
}
