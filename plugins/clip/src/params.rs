//! The parameters as the configuration gives them, and the settings that follow from them.

use std::ops::Bound;

use accredit_plugin_api::prelude::*;

use crate::{
    aggregate::{Aggregate, Mode},
    distill::{Distillation, Kinds},
    geometric::GeometricMean,
    kl::{Kl, KlClamp},
    mismatch::{Correction, Mismatch, Weighed},
    ratio::{LogRatioClamp, Ratio},
    surrogate::{Cispo, Clip, Dro, Form, Sapo},
};

/// Declares the parameters of one of the names of this library: they are the same, with some defaults of its own.
macro_rules! objective_params {
    ($(#[$meta:meta])* $name:ident { low: $low:expr, high: $high:expr, ratio: $ratio:expr $(,)? }) => {
        params! {
            $(#[$meta])*
            pub struct $name {
                /// What stands in for the policy's gain.
                surrogate: Form = Form::Clip,
                /// How far the ratio (with geometric-mean, its logarithm) may fall before its gain is cut.
                #[range(0.0..=1.0)]
                low: f64 = $low,
                /// How far the ratio (with geometric-mean, its logarithm) may rise before its gain is cut.
                #[range(0.0..)]
                high: f64 = $high,
                /// What one importance ratio belongs to.
                ratio: Ratio = $ratio,
                /// With clip and a negative advantage the loss is at most this times the advantage's size; 0 is no limit.
                /// Not given: 3 with a token ratio, else 0.
                #[range(0.0..)]
                dual: Option<f64> = None,
                /// Where the log-ratio is cut: at both ends with a token ratio, else from above; 0 does not cut. Not
                /// given: 20 with a token ratio, else 10.
                #[range(0.0..)]
                log_ratio_clamp: Option<f64> = None,
                /// How steep the gate of sapo is with a positive advantage; 1 if it is not given.
                #[range((Bound::Excluded(0.0), Bound::Unbounded))]
                tau_positive: Option<f64> = None,
                /// How steep the gate of sapo is with another advantage; 1.05 if it is not given.
                #[range((Bound::Excluded(0.0), Bound::Unbounded))]
                tau_negative: Option<f64> = None,
                /// Factor of the square of dro; 0.1 if it is not given.
                #[range(0.0..)]
                dro_beta: Option<f64> = None,
                /// How tokens become one loss. Not given: the mean over what the ratio belongs to of its token mean; that
                /// over all tokens with a token ratio; with sapo that over rows.
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
                /// What is done about a sampler that is not quite the policy.
                mismatch: Correction = Correction::None,
                /// What one weight of that belongs to.
                mismatch_ratio: Weighed = Weighed::Token,
                /// Lowest weight that a mask lets pass.
                #[range(0.0..=1.0)]
                mismatch_low: f64 = 0.5,
                /// Highest weight.
                #[range(1.0..)]
                mismatch_high: f64 = 2.0,
                /// Factor of the distillation term.
                #[range(0.0..)]
                distill_coef: f64 = 0.0,
                /// The column with the teacher's log-probabilities.
                distill_column: String = TEACHER_LOGPROB.name().to_owned(),
                /// Which tokens are distilled.
                distill_kinds: Kinds = Kinds::Action,
            }
        }
    };
}

objective_params! {
    /// Parameters of `clip`.
    Params { low: 0.2, high: 0.2, ratio: Ratio::Token }
}

objective_params! {
    /// Parameters of `gspo`.
    GspoParams { low: 3e-4, high: 4e-4, ratio: Ratio::Row }
}

impl From<GspoParams> for Params {
    fn from(params: GspoParams) -> Self {
        let GspoParams {
            surrogate,
            low,
            high,
            ratio,
            dual,
            log_ratio_clamp,
            tau_positive,
            tau_negative,
            dro_beta,
            aggregate,
            norm_length,
            kl,
            kl_coef,
            kl_clamp,
            entropy_coef,
            value_coef,
            value_clip,
            mismatch,
            mismatch_ratio,
            mismatch_low,
            mismatch_high,
            distill_coef,
            distill_column,
            distill_kinds,
        } = params;
        Self {
            surrogate,
            low,
            high,
            ratio,
            dual,
            log_ratio_clamp,
            tau_positive,
            tau_negative,
            dro_beta,
            aggregate,
            norm_length,
            kl,
            kl_coef,
            kl_clamp,
            entropy_coef,
            value_coef,
            value_clip,
            mismatch,
            mismatch_ratio,
            mismatch_low,
            mismatch_high,
            distill_coef,
            distill_column,
            distill_kinds,
        }
    }
}

/// A surrogate with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Chosen {
    /// The clipped ratio.
    Clip(Clip),
    /// The cut ratio as a constant factor.
    Cispo(Cispo),
    /// The geometric mean of cut ratios.
    GeometricMean(GeometricMean),
    /// No ratio.
    Plain,
    /// A gate.
    Sapo(Sapo),
    /// A square.
    Dro(Dro),
}

/// What the parameters amount to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The surrogate.
    pub surrogate: Chosen,
    /// What one ratio belongs to.
    pub ratio: Ratio,
    /// Where its logarithm is cut.
    pub clamp: LogRatioClamp,
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
    /// What makes up for the sampler, if anything does.
    pub mismatch: Option<Mismatch>,
    /// The distillation term, if there is one.
    pub distillation: Option<Distillation>,
}

impl Settings {
    /// Fills in the defaults that depend on other parameters, and refuses what does not fit together.
    pub fn of(params: Params) -> Result<Self> {
        let surrogate = surrogate(&params)?;
        let mode = mode(&params)?;
        if params.kl == Kl::None && params.kl_coef > 0.0 {
            return Err(Error::parameter(
                "kl_coef",
                format!(
                    "`kl_coef` is {} and `kl` is \"none\"; name an estimate: \"k1\", \"k2\", \"k3\" or \"abs\"",
                    params.kl_coef
                ),
            ));
        }
        if params.distill_column.is_empty() {
            return Err(Error::parameter("distill_column", "`distill_column` is empty; it must name a column"));
        }
        // Token ratios are cut one by one before their geometric mean is taken.
        let clamped = if params.surrogate == Form::GeometricMean { Ratio::Token } else { params.ratio };
        Ok(Self {
            surrogate,
            ratio: params.ratio,
            clamp: LogRatioClamp::new(clamped, params.log_ratio_clamp.map(|limit| limit as f32)),
            mode,
            kl: params.kl,
            kl_coef: params.kl_coef,
            kl_clamp: KlClamp::new(params.kl_clamp),
            entropy_coef: params.entropy_coef,
            value_coef: params.value_coef,
            value_clip: if params.value_clip > 0.0 { params.value_clip } else { f64::INFINITY },
            mismatch: (params.mismatch != Correction::None).then_some(Mismatch {
                correction: params.mismatch,
                weighed: params.mismatch_ratio,
                low: params.mismatch_low,
                high: params.mismatch_high,
            }),
            distillation: (params.distill_coef != 0.0).then_some(Distillation {
                coefficient: params.distill_coef,
                column: params.distill_column,
                kinds: params.distill_kinds,
            }),
        })
    }
}

fn surrogate(params: &Params) -> Result<Chosen> {
    for (name, given, form) in [
        ("dual", params.dual, Form::Clip),
        ("tau_positive", params.tau_positive, Form::Sapo),
        ("tau_negative", params.tau_negative, Form::Sapo),
        ("dro_beta", params.dro_beta, Form::Dro),
    ] {
        if given.is_some() && params.surrogate != form {
            let message = format!("`{name}` belongs to another surrogate than the chosen one");
            return Err(Error::parameter(name, message));
        }
    }
    let (low, high) = ((1.0 - params.low) as f32, (1.0 + params.high) as f32);
    Ok(match params.surrogate {
        Form::Clip => Chosen::Clip(Clip { low, high, dual: dual(params)? }),
        Form::Cispo => Chosen::Cispo(Cispo { low, high }),
        Form::GeometricMean if params.ratio == Ratio::Token => {
            let message = "`ratio` is \"token\"; the surrogate \"geometric-mean\" needs \"step\" or \"row\"";
            return Err(Error::parameter("ratio", message));
        }
        Form::GeometricMean => Chosen::GeometricMean(GeometricMean { low: -params.low, high: params.high }),
        Form::Plain => Chosen::Plain,
        Form::Sapo => Chosen::Sapo(Sapo {
            tau_positive: params.tau_positive.unwrap_or(1.0) as f32,
            tau_negative: params.tau_negative.unwrap_or(1.05) as f32,
        }),
        Form::Dro => Chosen::Dro(Dro { beta: params.dro_beta.unwrap_or(0.1) as f32 }),
    })
}

fn dual(params: &Params) -> Result<f32> {
    let dual = params.dual.unwrap_or(match params.ratio {
        Ratio::Token => 3.0,
        Ratio::Step | Ratio::Row => 0.0,
    });
    if dual > 0.0 && dual <= 1.0 {
        return Err(Error::parameter("dual", format!("`dual` is {dual}; it must be more than 1, or 0 for no limit")));
    }
    Ok(if dual > 0.0 { dual as f32 } else { f32::INFINITY })
}

fn mode(params: &Params) -> Result<Mode> {
    let aggregate = params.aggregate.unwrap_or(match params.ratio {
        Ratio::Token if params.surrogate == Form::Sapo => Aggregate::SeqMeanTokenMean,
        Ratio::Token => Aggregate::TokenMean,
        Ratio::Step => Aggregate::StepMeanTokenMean,
        Ratio::Row => Aggregate::SeqMeanTokenMean,
    });
    match (aggregate, params.norm_length) {
        (Aggregate::SeqMeanTokenSumNorm, None) => Err(Error::parameter(
            "norm_length",
            "`norm_length` is missing; `aggregate = \"seq-mean-token-sum-norm\"` divides by it",
        )),
        (Aggregate::SeqMeanTokenSumNorm, Some(length)) => Ok(Mode::new(aggregate, length)),
        (_, Some(_)) => Err(Error::parameter(
            "norm_length",
            "`norm_length` is only used by `aggregate = \"seq-mean-token-sum-norm\"`",
        )),
        (_, None) => Ok(Mode::new(aggregate, 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{Params as _, testing::TestScheme};

    use super::*;
    use crate::{ClipObjective, GspoObjective};

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
        refused(r#"{"surrogate": "cispo", "dual": 3}"#, "dual", "another surrogate");
        refused(r#"{"tau_positive": 2}"#, "tau_positive", "another surrogate");
        refused(r#"{"surrogate": "sapo", "tau_negative": 0}"#, "tau_negative", "more than 0");
        refused(r#"{"surrogate": "plain", "dro_beta": 0.1}"#, "dro_beta", "another surrogate");
        refused(r#"{"surrogate": "geometric-mean"}"#, "ratio", "\"step\" or \"row\"");
        refused(r#"{"mismatch": "clip"}"#, "mismatch", "unknown variant");
        refused(r#"{"mismatch_high": 0.5}"#, "mismatch_high", "at least 1");
        refused(r#"{"distill_column": ""}"#, "distill_column", "empty");
        refused(r#"{"distill_coef": -1}"#, "distill_coef", "at least 0");
    }

    #[test]
    fn defaults_follow_the_ratio() {
        for (ratio, dual, aggregate) in [
            ("token", 3.0, Aggregate::TokenMean),
            ("step", f32::INFINITY, Aggregate::StepMeanTokenMean),
            ("row", f32::INFINITY, Aggregate::SeqMeanTokenMean),
        ] {
            let params = Params::from_json(&format!(r#"{{"ratio": "{ratio}"}}"#));
            let settings = Settings::of(params.unwrap()).unwrap();
            assert_eq!(settings.surrogate, Chosen::Clip(Clip { low: 0.8, high: 1.2, dual }), "{ratio}");
            assert_eq!(settings.mode, Mode::new(aggregate, 1.0), "{ratio}");
        }
    }

    #[test]
    fn gspo_has_its_paper_s_defaults() {
        let settings = Settings::of(GspoParams::from_json("{}").unwrap().into()).unwrap();
        assert_eq!(settings.ratio, Ratio::Row);
        assert_eq!(settings.mode, Mode::new(Aggregate::SeqMeanTokenMean, 1.0));
        let clip = Clip { low: 0.9997, high: 1.0004, dual: f32::INFINITY };
        assert_eq!(settings.surrogate, Chosen::Clip(clip));
        assert_eq!(TestScheme::<GspoObjective>::new(r#"{"dual": 1}"#).err().unwrap().location, "dual");
    }
}
