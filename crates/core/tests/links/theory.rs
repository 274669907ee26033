//! Distributions by their textbook formulas, and chains of two states.

/// The normal distribution function.
pub(crate) fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / core::f64::consts::SQRT_2)
}

/// The Erlang distribution function of integer shape `k` and scale 1.
pub(crate) fn erlang(k: u32, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 0.0);
    for i in 0..k {
        sum += term;
        term *= x / f64::from(i + 1);
    }
    1.0 - libm::exp(-x) * sum
}

/// The point between `low` and `high` with a share `p` below it, by bisection.
pub(crate) fn quantile(cdf: &dyn Fn(f64) -> f64, p: f64, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// A chain that is good or bad and moves after each packet: the probabilities to leave each
/// state, and to lose a packet in each.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    pub(crate) leave: [f64; 2],
    pub(crate) loss: [f64; 2],
}

impl Chain {
    /// One that loses each packet with probability `p`.
    pub(crate) const fn independent(p: f64) -> Self {
        Self {
            leave: [0.0, 1.0],
            loss: [p, 0.0],
        }
    }

    /// The share of time in each state.
    fn stationary(&self) -> [f64; 2] {
        let bad = self.leave[0] / (self.leave[0] + self.leave[1]);
        [1.0 - bad, bad]
    }

    /// Moves a distribution over the states by one packet.
    fn step(&self, [good, bad]: [f64; 2]) -> [f64; 2] {
        let (fall, rise) = (good * self.leave[0], bad * self.leave[1]);
        [good - fall + rise, bad + fall - rise]
    }

    /// The mean loss, and the standard error of its measurement over `n` packets: the variance
    /// of one packet plus twice its covariances with all behind it, which fall geometrically.
    pub(crate) fn rate(&self, n: f64) -> (f64, f64) {
        let at = self.stationary();
        let mean = at[0] * self.loss[0] + at[1] * self.loss[1];
        let apart = self.loss[1] - self.loss[0];
        let memory = 1.0 - self.leave[0] - self.leave[1];
        let covariances = apart * apart * at[0] * at[1] * memory / (1.0 - memory);
        let variance = mean * (1.0 - mean) + 2.0 * covariances;
        (mean, (variance / n).sqrt())
    }

    /// The mean number of packets lost in a row, and the standard error of its measurement over
    /// `n` packets, by the probabilities of a burst to go on: E[B] = Σ P(B ≥ k), E[B²] =
    /// Σ (2k − 1)·P(B ≥ k).
    pub(crate) fn burst(&self, n: f64) -> (f64, f64) {
        let at = self.stationary();
        let kept = [at[0] * (1.0 - self.loss[0]), at[1] * (1.0 - self.loss[1])];
        let next = self.step(kept);
        // The states of the first lost packets of all bursts.
        let mut lost = [next[0] * self.loss[0], next[1] * self.loss[1]];
        let bursts = lost[0] + lost[1];
        let (mut mean, mut square) = (0.0, 0.0);
        for k in 1..10_000 {
            let alive = (lost[0] + lost[1]) / bursts;
            mean += alive;
            square += (2.0 * f64::from(k) - 1.0) * alive;
            let next = self.step(lost);
            lost = [next[0] * self.loss[0], next[1] * self.loss[1]];
        }
        let variance = (square - mean * mean).max(0.0);
        (mean, (variance / (n * bursts)).sqrt())
    }
}
