//! The critic's loss of one token.

/// The loss of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueLoss {
    /// Half the squared error.
    pub loss: f64,
    /// Its derivative with respect to the new value.
    pub slope: f64,
    /// The cut value decides.
    pub clipped: bool,
}

/// Half of the larger of two squared errors: of the value, and of the value cut to `clip` around the old one. An
/// infinite `clip` does not cut. Ties are those of automatic differentiation.
pub fn value_loss(new: f64, old: f64, target: f64, clip: f64) -> ValueLoss {
    let error = new - target;
    let cut = if new > old + clip {
        old + clip
    } else if new < old - clip {
        old - clip
    } else {
        new
    };
    let cut_error = cut - target;
    let (plain, clipped) = (error * error, cut_error * cut_error);
    let slope = if clipped > plain {
        // Only a value that was moved can have the larger error, and then it does not move further.
        0.0
    } else if clipped == plain && cut != new {
        error / 2.0
    } else {
        error
    };
    ValueLoss { loss: plain.max(clipped) / 2.0, slope, clipped: clipped > plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(new: f64, old: f64, target: f64, clip: f64, loss: f64, slope: f64) {
        let found = value_loss(new, old, target, clip);
        assert!(
            (found.loss - loss).abs() < 1e-12 && (found.slope - slope).abs() < 1e-12,
            "{new} {old} {target}: {found:?}"
        );
    }

    #[test]
    fn values_by_hand() {
        // Inside the cut.
        check(1.0, 0.75, 0.0, 0.5, 0.5, 1.0);
        // Moved away from the target: the plain error is larger.
        check(2.0, 0.5, 0.0, 0.5, 2.0, 2.0);
        // Moved towards it, further than the cut: the cut value decides, and nothing pulls.
        check(1.0, 0.0, 2.0, 0.5, 1.125, 0.0);
        check(1.0, 0.0, 2.0, f64::INFINITY, 0.5, -1.0);
        // Past it, as far as the cut value stands before it.
        check(1.0, 0.0, 0.75, 0.5, 0.03125, 0.125);
    }
}
