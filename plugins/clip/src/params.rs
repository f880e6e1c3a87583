//! The parameters as the configuration gives them, and the settings that follow from them.

use std::ops::Bound;

use accredit_plugin_api::prelude::*;

use crate::{
    aggregate::{Aggregate, Mode},
    kl::{Kl, KlClamp},
    ratio::{LogRatioClamp, Ratio},
    surrogate::Clip,
};

params! {
    /// Parameters of `clip`.
    pub struct Params {
        /// How far the ratio may fall below 1 before its gain is cut.
        #[range(0.0..=1.0)]
        low: f64 = 0.2,
        /// How far the ratio may rise above 1 before its gain is cut.
        #[range(0.0..)]
        high: f64 = 0.2,
        /// What one importance ratio belongs to.
        ratio: Ratio = Ratio::Token,
        /// With a negative advantage the loss is at most this times the advantage's size; 0 is no limit. Not given: 3
        /// with a token ratio, else 0.
        #[range(0.0..)]
        dual: Option<f64> = None,
        /// Where the log-ratio is cut: at both ends with a token ratio, else from above; 0 does not cut. Not given: 20
        /// with a token ratio, else 10.
        #[range(0.0..)]
        log_ratio_clamp: Option<f64> = None,
        /// How tokens become one loss. Not given: token-mean with a token ratio, else the mean over what the ratio
        /// belongs to of its token mean.
        aggregate: Option<Aggregate> = None,
        /// The constant that seq-mean-token-sum-norm divides by.
        #[range((Bound::Excluded(0.0), Bound::Unbounded))]
        norm_length: Option<f64> = None,
        /// How the divergence from the reference is estimated.
        kl: Kl = Kl::None,
        /// Factor of the divergence in the loss; 0 only reports it.
        #[range(0.0..)]
        kl_coef: f64 = 0.0,
        /// Where the estimate k3 is cut; 0 does not cut.
        #[range(0.0..)]
        kl_clamp: f64 = 10.0,
        /// Factor of the entropy that is taken off the loss.
        entropy_coef: f64 = 0.0,
        /// Factor of the critic's loss.
        #[range(0.0..)]
        value_coef: f64 = 0.0,
        /// How far the value may move from the old one before its gain is cut; 0 does not cut.
        #[range(0.0..)]
        value_clip: f64 = 0.5,
    }
}

/// What the parameters amount to.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What one ratio belongs to.
    pub ratio: Ratio,
    /// Where its logarithm is cut.
    pub clamp: LogRatioClamp,
    /// Where the surrogate is cut.
    pub clip: Clip,
    /// How tokens become one loss.
    pub mode: Mode,
    /// The estimate of the divergence from the reference.
    pub kl: Kl,
    /// Its factor.
    pub kl_coef: f64,
    /// Where it is cut.
    pub kl_clamp: KlClamp,
    /// The entropy's factor.
    pub entropy_coef: f64,
    /// The critic's factor.
    pub value_coef: f64,
    /// How far its value may move.
    pub value_clip: f64,
}

impl Settings {
    /// Fills in the defaults that depend on other parameters, and refuses what does not fit together.
    pub fn of(params: &Params) -> Result<Self> {
        let dual = params.dual.unwrap_or(match params.ratio {
            Ratio::Token => 3.0,
            Ratio::Step | Ratio::Row => 0.0,
        });
        if dual > 0.0 && dual <= 1.0 {
            return Err(Error::parameter(
                "dual",
                format!("`dual` is {dual}; it must be more than 1, or 0 for no limit"),
            ));
        }
        let aggregate = params.aggregate.unwrap_or(match params.ratio {
            Ratio::Token => Aggregate::TokenMean,
            Ratio::Step => Aggregate::StepMeanTokenMean,
            Ratio::Row => Aggregate::SeqMeanTokenMean,
        });
        let mode = match (aggregate, params.norm_length) {
            (Aggregate::SeqMeanTokenSumNorm, None) => {
                return Err(Error::parameter(
                    "norm_length",
                    "`norm_length` is missing; `aggregate = \"seq-mean-token-sum-norm\"` divides by it",
                ));
            }
            (Aggregate::SeqMeanTokenSumNorm, Some(length)) => Mode::new(aggregate, length),
            (_, Some(_)) => {
                return Err(Error::parameter(
                    "norm_length",
                    "`norm_length` is only used by `aggregate = \"seq-mean-token-sum-norm\"`",
                ));
            }
            (_, None) => Mode::new(aggregate, 1.0),
        };
        if params.kl == Kl::None && params.kl_coef > 0.0 {
            return Err(Error::parameter(
                "kl_coef",
                format!(
                    "`kl_coef` is {} and `kl` is \"none\"; name an estimate: \"k1\", \"k2\", \"k3\" or \"abs\"",
                    params.kl_coef
                ),
            ));
        }
        Ok(Self {
            ratio: params.ratio,
            clamp: LogRatioClamp::new(params.ratio, params.log_ratio_clamp),
            clip: Clip {
                low: 1.0 - params.low,
                high: 1.0 + params.high,
                dual: if dual > 0.0 { dual } else { f64::INFINITY },
            },
            mode,
            kl: params.kl,
            kl_coef: params.kl_coef,
            kl_clamp: KlClamp::new(params.kl_clamp),
            entropy_coef: params.entropy_coef,
            value_coef: params.value_coef,
            value_clip: if params.value_clip > 0.0 { params.value_clip } else { f64::INFINITY },
        })
    }
}

#[cfg(test)]
mod tests {
    use accredit_plugin_api::testing::TestScheme;

    use super::*;
    use crate::ClipObjective;

    fn refused(params: &str, path: &str, part: &str) {
        let error = TestScheme::<ClipObjective>::new(params).err().unwrap();
        assert_eq!(error.location, path, "{params}");
        assert!(error.message.contains(part), "{params}: {}", error.message);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        refused(r#"{"dual": 0.5}"#, "dual", "more than 1, or 0");
        refused(r#"{"dual": 1}"#, "dual", "more than 1, or 0");
        refused(r#"{"low": 1.5}"#, "low", "at most 1");
        refused(r#"{"aggregate": "seq-mean-token-sum-norm"}"#, "norm_length", "missing");
        refused(r#"{"norm_length": 5}"#, "norm_length", "seq-mean-token-sum-norm");
        refused(r#"{"kl_coef": 0.1}"#, "kl_coef", "name an estimate");
        refused(r#"{"aggregate": "mean"}"#, "aggregate", "unknown variant");
    }

    #[test]
    fn defaults_follow_the_ratio() {
        for (ratio, dual, aggregate) in [
            ("token", 3.0, Aggregate::TokenMean),
            ("step", f64::INFINITY, Aggregate::StepMeanTokenMean),
            ("row", f64::INFINITY, Aggregate::SeqMeanTokenMean),
        ] {
            let params = accredit_plugin_api::Params::from_json(&format!(r#"{{"ratio": "{ratio}"}}"#));
            let settings = Settings::of(&params.unwrap()).unwrap();
            assert_eq!(settings.clip.dual, dual, "{ratio}");
            assert_eq!(settings.mode, Mode::new(aggregate, 1.0), "{ratio}");
        }
    }
}
