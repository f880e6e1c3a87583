//! `actfocus`: less loss on thinking, more on the actions that the reference model is unsure of.
//!
//! # What it does
//!
//! In an agent's response most tokens are reasoning, while the reward hangs on the few tokens that are executed. ActFocus
//! leaves the advantages as they are and changes each token's weight in the loss: a constant below 1 on reasoning, and
//! on action tokens a weight above 1 that grows with the energy of the frozen reference model. The objective divides by
//! the sum of weights, so only the proportion between tokens changes.
//!
//! # The formula
//!
//! After arXiv 2605.14558 (method section; the form of the deviation is in its appendix). With `z_t` the reference
//! model's raw logits that predict token `t`, and mean and deviation over the `N` action tokens of the batch:
//!
//! ```text
//! E_t   = -logsumexp(z_t)                          low: confident, high: uncertain
//! mu    = 1/N sum E_t        sigma = sqrt(1/N sum (E_t - mu)^2 + eps)
//! w_t   = alpha                                    think
//! w_t   = 1 + beta * sigmoid((E_t - mu) / sigma)   action, so 1 < w_t < 1 + beta
//! ```
//!
//! The weights of earlier schemes are multiplied by `w_t`.
//!
//! The paper's ablation puts another signal in the place of `E_t`, with the rest as it is:
//!
//! | `signal` | what `E_t` is |
//! | --- | --- |
//! | `"energy"` | the energy of the reference, as above |
//! | `"entropy"` | the entropy of the distribution that the token was drawn from |
//! | `"surprisal"` | minus the token's log-probability under the policy before the update |
//! | `"logprob-shift"` | that log-probability minus the reference's |
//!
//! # Fidelity
//!
//! The paper's text; no code of its authors was found. Our reading, where the text is silent:
//!
//! - Tokens in neither tag (the tags themselves, separators, the end of the turn) get `format_weight`, which is `alpha`
//!   unless it is set: only what is executed is meant to gain.
//! - The paper gives no value of `eps`.
//! - Mean and deviation are taken once over the whole batch that is trained, before it is cut into minibatches.
//! - The paper's entropy is the reference's; the one here is that of the policy before the update, which a run computes
//!   anyway. They are equal until the first update.
//! - A response without an action takes no part in mean and deviation. A batch without any action token keeps its
//!   weights.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `alpha` | `0.1` | weight of think tokens |
//! | `beta` | `0.5` | how far the weight of an action token can rise above 1 |
//! | `format_weight` | `alpha` | weight of tokens that are neither |
//! | `eps` | `1e-8` | added to the variance, inside the root |
//! | `signal` | `"energy"` | what tells confidence from doubt: `"energy"`, `"entropy"`, `"surprisal"`, `"logprob-shift"` |
//!
//! The paper's main setting is the default; its ablation finds `alpha = 0.3` best on WebShop. `alpha = 1, beta = 0`
//! changes nothing.
//!
//! # What it needs
//!
//! The kind of each token and its signal: the reference model's energy, so a frozen reference is run over the batch once;
//! with `"entropy"` or `"surprisal"` no reference is needed. Some other scheme must give the advantages. The paper trains with a token ratio, `low = 0.2`, `high = 0.28` and no dual clip.
//!
//! # When it goes wrong
//!
//! - Responses without tags have no action tokens: the metric `action_tokens` falls to 0, and nothing is emphasised.
//! - A large `beta` ties the step to a few tokens; the paper's success rate falls at `beta = 2`.
//! - The energy holds the logits' common offset, which no probability shows. The standardisation removes it where it is
//!   the same for all tokens; that high energy means doubt is an observation, not a law.
//! - With `alpha = 0` reasoning is not trained at all.
//!
//! # Metrics
//!
//! `action_tokens` (their number), `energy_mean`, `energy_sigma` (over them; called `entropy_mean`, `surprisal_mean` or
//! `logprob_shift_mean` and so on with another signal), `weight_think`, `weight_action` (the mean weight that this scheme
//! gave).
//!
//! # Example
//!
//! ```toml
//! seed = 7
//! iterations = 100
//!
//! [model.create]
//! hidden_size = 128
//! intermediate_size = 256
//! layers = 2
//! heads = 4
//! kv_heads = 2
//! vocab_size = 512
//! max_positions = 1024
//!
//! [environment]
//! name = "frozen-lake"
//!
//! [rollout]
//! groups = 8
//! group_size = 8
//!
//! [[credit]]
//! plugin = "grpo"
//!
//! [[credit]]
//! plugin = "actfocus"
//! params = { alpha = 0.1, beta = 0.5 }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.28, dual = 0 }
//! ```
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod weights;

use accredit_plugin_api::{math, prelude::*};
use accredit_steps::whiten::{Halves, Moments, inverse};

use crate::weights::{Level, Weights};

choices! {
    /// What tells the tokens that the model is sure of from the others.
    pub enum Signal {
        /// The reference model's energy: minus the log-sum-exp of its raw logits.
        Energy = "energy",
        /// The entropy of the distribution that the token was drawn from, under the policy before the update.
        Entropy = "entropy",
        /// Minus the log-probability under the policy before the update.
        Surprisal = "surprisal",
        /// The log-probability under the policy before the update minus that under the reference.
        LogprobShift = "logprob-shift",
    }
}

params! {
    /// Parameters of `actfocus`.
    pub struct Params {
        /// Weight of think tokens.
        #[range(0.0..)]
        alpha: f64 = 0.1,
        /// How far the weight of an action token can rise above 1.
        #[range(0.0..)]
        beta: f64 = 0.5,
        /// Weight of tokens that are neither think nor action; alpha if it is not given.
        #[range(0.0..)]
        format_weight: Option<f64> = None,
        /// Added to the variance, inside the root.
        #[range((std::ops::Bound::Excluded(0.0), std::ops::Bound::Unbounded))]
        eps: f64 = 1e-8,
        /// What tells confidence from doubt.
        signal: Signal = Signal::Energy,
    }
}

/// The scheme.
pub struct ActFocus {
    params: Params,
    /// The signal of every token, where it is not a column itself.
    signal: Vec<f32>,
    /// The signals of the batch's action tokens.
    actions: Moments,
}

impl Scheme for ActFocus {
    type Params = Params;
    const NAME: &'static str = "actfocus";
    const ABOUT: &'static str = "Less weight on think tokens, more on action tokens of high reference energy.";

    fn new(params: Params, _host: Host) -> Result<Self> {
        Ok(Self { params, signal: Vec::new(), actions: Moments::default() })
    }

    fn needs(&self) -> Needs {
        let columns: &[_] = match self.params.signal {
            Signal::Energy => &[REF_ENERGY.any()],
            Signal::Entropy => &[ENTROPY.any()],
            Signal::Surprisal => &[OLD_LOGPROB.any()],
            Signal::LogprobShift => &[OLD_LOGPROB.any(), REF_LOGPROB.any()],
        };
        Needs::hooks(&[Hook::Weigh])
            .reads(&[KIND.any()])
            .reads(columns)
            .optional(&[TRAINED.any()])
            .except("other-groups", "a token's signal is compared with those of all action tokens of the batch")
    }

    fn weigh(&mut self, batch: &Batch<'_>, credit: &mut Credit<'_>, context: &Context) -> Result<()> {
        let Self { params, signal, actions } = self;
        let kind = batch.get(KIND)?;
        let signal = read(params.signal, batch, signal)?;
        let trained = batch.get_optional(TRAINED);

        actions.clear();
        for trajectory in batch.trajectories() {
            if trained.is_none_or(|trained| trained[trajectory.index()]) {
                let tokens = trajectory.tokens();
                actions.push_kind(&signal[tokens.clone()], &kind[tokens], ACTION);
            }
        }
        let host = &context.host;
        let spread = actions.spread();
        host.metric("action_tokens", spread.map_or(0.0, |spread| f64::from(spread.count)));
        let Some(Spread { count, mean, squares, .. }) = spread else {
            return Ok(());
        };
        let sigma = (squares / f64::from(count) + params.eps).sqrt();

        let alpha = params.alpha;
        let format = params.format_weight.unwrap_or(alpha);
        let weight = &mut *credit.weight;
        let (alpha_f32, beta, format) = (alpha as f32, params.beta as f32, format as f32);
        let level = Level { mean: Halves::from(mean), inverse: inverse(sigma), beta, alpha: alpha_f32, format };
        let sums = math::run(Weights { kind, signal, level, weight });
        let [name_of_mean, name_of_sigma] = match params.signal {
            Signal::Energy => ["energy_mean", "energy_sigma"],
            Signal::Entropy => ["entropy_mean", "entropy_sigma"],
            Signal::Surprisal => ["surprisal_mean", "surprisal_sigma"],
            Signal::LogprobShift => ["logprob_shift_mean", "logprob_shift_sigma"],
        };
        host.metric(name_of_mean, mean);
        host.metric(name_of_sigma, sigma);
        if sums.actions > 0 {
            host.metric("weight_action", sums.raised.total() / sums.actions as f64);
        }
        if sums.thinks {
            host.metric("weight_think", alpha);
        }
        Ok(())
    }
}

/// The signal of every token: a column as it is, or computed from columns into the buffer.
fn read<'a>(signal: Signal, batch: &Batch<'a>, buffer: &'a mut Vec<f32>) -> Result<&'a [f32]> {
    match signal {
        Signal::Energy => return batch.get(REF_ENERGY),
        Signal::Entropy => return batch.get(ENTROPY),
        Signal::Surprisal => {
            buffer.clear();
            buffer.extend(batch.get(OLD_LOGPROB)?.iter().map(|old| -old));
        }
        Signal::LogprobShift => {
            let (old, reference) = (batch.get(OLD_LOGPROB)?, batch.get(REF_LOGPROB)?);
            buffer.clear();
            buffer.extend(old.iter().zip(reference).map(|(old, reference)| old - reference));
        }
    }
    Ok(buffer)
}

export_plugin!(ActFocus);

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{
        Layout,
        testing::{TestBatch, TestScheme, take_metrics},
    };
    use proptest::prelude::*;

    use super::*;

    /// A token: its kind and its energy.
    type Token = (u8, f32);

    /// One group whose trajectories have one step each.
    fn batch(trajectories: &[Vec<Token>]) -> TestBatch {
        let steps: Vec<[usize; 1]> = trajectories.iter().map(|t| [t.len()]).collect();
        let group: Vec<&[usize]> = steps.iter().map(<[usize; 1]>::as_slice).collect();
        let mut batch = TestBatch::new(Layout::Trajectory, &[&group]);
        let tokens = || trajectories.iter().flatten();
        batch.set(KIND, tokens().map(|t| t.0).collect());
        batch.set(REF_ENERGY, tokens().map(|t| t.1).collect());
        batch
    }

    fn weights(params: &str, batch: &TestBatch) -> Vec<f32> {
        let advantage: Vec<f32> = (0..batch.tokens()).map(|i| i as f32 - 1.5).collect();
        let mut scheme = TestScheme::<ActFocus>::new(params).unwrap();
        let (after, weight) = scheme.weigh(batch, advantage.clone()).unwrap();
        assert_eq!(after, advantage, "the advantages are left alone");
        weight
    }

    fn check(params: &str, batch: &TestBatch, expected: &[f32]) {
        let found = weights(params, batch);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} and not {expected}");
        }
    }

    #[test]
    fn weights_by_hand() {
        take_metrics();
        let energies = [-22.0, -21.0, -19.0, -16.0].map(|e| (ACTION, e));
        let think = vec![(THINK, -3.0); 6];
        let batch = batch(&[[think, energies.to_vec()].concat()]);
        let action = [1.125_707, 1.170_971, 1.277_17, 1.410_822];
        check("{}", &batch, &[[0.1; 6].as_slice(), &action].concat());
        let metrics = take_metrics();
        for (name, expected) in [
            ("action_tokens", 4.0),
            ("energy_mean", -19.5),
            ("energy_sigma", 2.291_288),
            ("weight_think", 0.1),
            ("weight_action", 1.246_168),
        ] {
            let found = metrics[name][0].0;
            assert!((found - expected).abs() < 1e-6, "{name}: {found}");
        }
    }

    #[test]
    fn format_tokens_follow_alpha_unless_they_have_their_own_weight() {
        let batch = batch(&[vec![(FORMAT, 0.0), (THINK, 0.0), (ACTION, -5.0)]]);
        check(r#"{"alpha": 0.3}"#, &batch, &[0.3, 0.3, 1.25]);
        let params = r#"{"alpha": 0.3, "format_weight": 1, "beta": 1}"#;
        check(params, &batch, &[1.0, 0.3, 1.5]);
    }

    #[test]
    fn one_action_token_or_equal_energies_give_the_middle() {
        for energies in [vec![-7.1], vec![-7.1; 11]] {
            let tokens: Vec<Token> = energies.iter().map(|e| (ACTION, *e)).collect();
            let expected = vec![1.25; tokens.len()];
            check("{}", &batch(&[tokens]), &expected);
        }
    }

    #[test]
    fn no_action_token_leaves_the_weights() {
        take_metrics();
        let tokens = vec![(THINK, -1.0), (FORMAT, f32::NAN)];
        check("{}", &batch(&[tokens]), &[1.0, 1.0]);
        let metrics = take_metrics();
        assert_eq!(metrics["action_tokens"], [(0.0, 1.0)]);
        assert!(!metrics.contains_key("energy_mean"));
    }

    #[test]
    fn a_response_without_an_action_does_not_move_the_others() {
        let actions = vec![(ACTION, -9.0), (ACTION, -4.0)];
        let alone = weights("{}", &batch(std::slice::from_ref(&actions)));
        let beside = weights("{}", &batch(&[actions, vec![(THINK, 90.0), (FORMAT, -90.0)]]));
        assert_eq!(beside, [alone, vec![0.1, 0.1]].concat());
    }

    #[test]
    fn what_is_not_trained_stays_out_of_the_statistics() {
        let trained = vec![(ACTION, -9.0), (ACTION, -4.0)];
        let alone = weights("{}", &batch(std::slice::from_ref(&trained)));
        let mut both = batch(&[trained, vec![(ACTION, 50.0)]]);
        both.set(TRAINED, vec![true, false]);
        assert_eq!(weights("{}", &both)[..2], alone);
    }

    #[test]
    fn weights_of_earlier_schemes_are_multiplied() {
        use accredit_plugin_api::host::Table;
        let batch = batch(&[vec![(THINK, 0.0), (ACTION, -5.0)]]);
        let mut scheme = TestScheme::<ActFocus>::new("{}").unwrap();
        let mut outputs = Table::default();
        outputs.put(ADVANTAGE, vec![1.0, 1.0]);
        outputs.put(WEIGHT, vec![4.0, 2.0]);
        let outputs = scheme.call(Hook::Weigh, batch.table(), outputs).unwrap();
        assert_eq!(outputs.f32(WEIGHT).unwrap(), [0.4, 2.5]);
    }

    #[test]
    fn another_signal_takes_the_energy_s_place() {
        let tokens = vec![vec![(ACTION, -22.0), (THINK, 0.0), (ACTION, -21.0)], vec![(ACTION, -19.0), (ACTION, -16.0)]];
        let expected = weights("{}", &batch(&tokens));
        let energies: Vec<f32> = tokens.iter().flatten().map(|token| token.1).collect();
        let shifted = |by: f32| energies.iter().map(|energy| by * energy).collect::<Vec<f32>>();
        for (signal, columns, name) in [
            ("entropy", vec![(ENTROPY, shifted(1.0))], "entropy_mean"),
            ("surprisal", vec![(OLD_LOGPROB, shifted(-1.0))], "surprisal_mean"),
            ("logprob-shift", vec![(OLD_LOGPROB, shifted(2.0)), (REF_LOGPROB, shifted(1.0))], "logprob_shift_mean"),
        ] {
            let mut batch = batch(&tokens);
            batch.set(REF_ENERGY, vec![f32::NAN; energies.len()]);
            for (column, numbers) in columns {
                batch.set(column, numbers);
            }
            take_metrics();
            assert_eq!(weights(&format!(r#"{{"signal": "{signal}"}}"#), &batch), expected, "{signal}");
            assert_eq!(take_metrics()[name], [(-19.5, 1.0)]);
        }
    }

    #[test]
    fn an_energy_that_is_no_number_stays_visible() {
        let tokens = vec![(ACTION, f32::NAN), (ACTION, 1.0), (THINK, 0.0)];
        let found = weights("{}", &batch(&[tokens]));
        assert!(found[0].is_nan() && found[1].is_nan());
        assert_eq!(found[2], 0.1);
    }

    #[test]
    fn it_reads_its_signal_and_the_kinds() {
        for (params, expected) in [
            ("{}", ["kind", "ref_energy"].as_slice()),
            (r#"{"signal": "entropy"}"#, &["kind", "entropy"]),
            (r#"{"signal": "surprisal"}"#, &["kind", "old_logprob"]),
            (r#"{"signal": "logprob-shift"}"#, &["kind", "old_logprob", "ref_logprob"]),
        ] {
            let needs = TestScheme::<ActFocus>::new(params).unwrap().needs().unwrap();
            let reads: Vec<&str> = needs.reads.iter().map(|read| read.name.as_str()).collect();
            assert_eq!(reads, expected, "{params}");
        }
        for params in [r#"{"alpha": -0.1}"#, r#"{"eps": 0}"#, r#"{"signal": "loudness"}"#] {
            assert!(TestScheme::<ActFocus>::new(params).is_err(), "{params}");
        }
    }

    fn tokens() -> impl Strategy<Value = Vec<Vec<Token>>> {
        let token = (prop::sample::select(vec![THINK, ACTION, FORMAT]), -30.0_f32..5.0);
        prop::collection::vec(prop::collection::vec(token, 1..6), 1..5)
    }

    proptest! {
        #[test]
        fn alpha_one_and_beta_zero_change_nothing(tokens in tokens()) {
            let found = weights(r#"{"alpha": 1, "beta": 0}"#, &batch(&tokens));
            prop_assert!(found.iter().all(|w| *w == 1.0), "{found:?}");
        }

        #[test]
        fn action_weights_lie_between_one_and_one_plus_beta(tokens in tokens(), beta in 0.01..3.0) {
            let found = weights(&format!(r#"{{"beta": {beta}}}"#), &batch(&tokens));
            for ((kind, _), weight) in tokens.iter().flatten().zip(&found) {
                let inside = *weight > 1.0 && f64::from(*weight) < 1.0 + beta;
                prop_assert!(*kind != ACTION || inside, "{weight}");
            }
        }

        #[test]
        fn a_higher_energy_weighs_more_and_an_offset_nothing(tokens in tokens(), offset in -20.0_f32..20.0) {
            let plain = weights("{}", &batch(&tokens));
            let moved: Vec<Vec<Token>> = tokens
                .iter()
                .map(|t| t.iter().map(|(kind, energy)| (*kind, energy + offset)).collect())
                .collect();
            let moved = weights("{}", &batch(&moved));
            for (a, b) in plain.iter().zip(&moved) {
                prop_assert!((a - b).abs() < 1e-2, "{plain:?} {moved:?}");
            }
            let mut actions: Vec<(f32, f32)> = tokens
                .iter()
                .flatten()
                .zip(&plain)
                .filter(|(token, _)| token.0 == ACTION)
                .map(|(token, weight)| (token.1, *weight))
                .collect();
            actions.sort_by(|a, b| a.0.total_cmp(&b.0));
            prop_assert!(actions.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        }

        #[test]
        fn a_permutation_permutes_the_result_bit_for_bit(tokens in tokens(), turn in 0_usize..5) {
            let before = weights("{}", &batch(&tokens));
            let mut tagged: Vec<Vec<(Token, f32)>> = Vec::new();
            let mut weights_left = before.into_iter();
            for trajectory in &tokens {
                tagged.push(trajectory.iter().map(|t| (*t, weights_left.next().unwrap())).collect());
            }
            let middle = turn % tagged.len();
            tagged.rotate_left(middle);
            tagged[..].reverse();
            let moved: Vec<Vec<Token>> =
                tagged.iter().map(|t| t.iter().map(|(token, _)| *token).collect()).collect();
            let after = weights("{}", &batch(&moved));
            let expected = tagged.iter().flatten().map(|(_, w)| w.to_bits());
            prop_assert!(after.iter().map(|w| w.to_bits()).eq(expected));
        }
    }
}
