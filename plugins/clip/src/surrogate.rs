//! The clipped surrogate of one token.

/// Where the surrogate is cut.
#[derive(Clone, Copy, Debug)]
pub struct Clip {
    /// Lowest ratio that still counts.
    pub low: f64,
    /// Highest ratio that still counts.
    pub high: f64,
    /// With a negative advantage the loss is at most this times the advantage's size; infinite is no limit.
    pub dual: f64,
}

/// The surrogate of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surrogate {
    /// The loss.
    pub loss: f64,
    /// Its derivative with respect to the logarithm of the ratio.
    pub slope: f64,
    /// The cut ratio decides.
    pub clipped: bool,
    /// The limit for negative advantages decides.
    pub clipped_lower: bool,
}

impl Clip {
    /// The larger of `-A * ratio` and `-A * cut(ratio)` (PPO, Schulman et al. 2017, equation 7), and for `A < 0` not
    /// more than `-A * dual` (dual clip, Ye et al. 2020, equation 5).
    ///
    /// Where two losses are equal each passes half of its derivative, and a ratio at the edge of the cut counts as
    /// inside it: what automatic differentiation of the same expression gives.
    pub fn surrogate(&self, ratio: f64, advantage: f64) -> Surrogate {
        if advantage == 0.0 {
            // Also where the ratio is infinite.
            return Surrogate { loss: 0.0, slope: 0.0, clipped: false, clipped_lower: false };
        }
        let plain = -advantage * ratio;
        let cut = -advantage * ratio.clamp(self.low, self.high);
        let cut_slope = if (self.low..=self.high).contains(&ratio) { plain } else { 0.0 };
        let (larger, slope) = if plain > cut {
            (plain, plain)
        } else if plain < cut {
            (cut, cut_slope)
        } else {
            (cut, f64::midpoint(plain, cut_slope))
        };
        let limit = if advantage < 0.0 { -advantage * self.dual } else { f64::INFINITY };
        let (loss, slope) = if larger > limit {
            (limit, 0.0)
        } else if larger == limit {
            (limit, slope / 2.0)
        } else {
            // Not a number ends here as well, and stays visible.
            (larger, slope)
        };
        Surrogate { loss, slope, clipped: cut > plain, clipped_lower: larger > limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(clip: Clip, ratio: f64, advantage: f64, loss: f64, slope: f64) {
        let found = clip.surrogate(ratio, advantage);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(found.loss, loss) && near(found.slope, slope), "ratio {ratio}, advantage {advantage}: {found:?}");
    }

    #[test]
    fn values_by_hand() {
        let clip = Clip { low: 0.8, high: 1.2, dual: 3.0 };
        check(clip, 0.5, 1.0, -0.5, -0.5);
        check(clip, 0.5, -1.0, 0.8, 0.0);
        check(clip, 1.5, 1.0, -1.2, 0.0);
        check(clip, 1.5, -1.0, 1.5, 1.5);
        check(clip, 5.0, 1.0, -1.2, 0.0);
        check(clip, 5.0, -1.0, 3.0, 0.0);
        let single = Clip { dual: f64::INFINITY, ..clip };
        check(single, 5.0, -1.0, 5.0, 5.0);
        check(single, f64::INFINITY, 0.0, 0.0, 0.0);
        check(single, f64::INFINITY, 2.0, -2.4, 0.0);
    }

    #[test]
    fn ties_are_those_of_automatic_differentiation() {
        let clip = Clip { low: 0.75, high: 1.25, dual: 3.0 };
        // At the edge of the cut both branches pass: half and half is the whole.
        check(clip, 1.25, 1.0, -1.25, -1.25);
        check(clip, 0.75, -1.0, 0.75, 0.75);
        // At the limit the constant takes half.
        check(clip, 3.0, -1.0, 3.0, 1.5);
    }

    #[test]
    fn what_is_no_number_stays_visible() {
        let clip = Clip { low: 0.8, high: 1.2, dual: 3.0 };
        for advantage in [1.0, -1.0, f64::NAN] {
            assert!(clip.surrogate(f64::NAN, advantage).loss.is_nan(), "{advantage}");
        }
        assert!(clip.surrogate(1.0, f64::NAN).loss.is_nan());
    }

    #[test]
    fn what_decides_is_reported() {
        let clip = Clip { low: 0.8, high: 1.2, dual: 3.0 };
        for (ratio, advantage, clipped, clipped_lower) in [
            (1.0, 1.0, false, false),
            (1.5, 1.0, true, false),
            (0.5, -1.0, true, false),
            (4.0, -1.0, false, true),
            (4.0, 0.0, false, false),
        ] {
            let found = clip.surrogate(ratio, advantage);
            assert_eq!((found.clipped, found.clipped_lower), (clipped, clipped_lower), "{ratio} {advantage}");
        }
    }
}
