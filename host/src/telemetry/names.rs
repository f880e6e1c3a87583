//! Names of the metrics, and how each is aggregated. A scheme's own are `credit/<scheme>/<name>`.

/// Mean undiscounted reward of the iteration's episodes, before `shape`; each episode counts once.
pub const REWARD: &str = "episode/reward/mean";
/// Episodes that were played, failed ones left out.
pub const EPISODES: &str = "episode/count";
/// Share of the iteration's episodes that solved their task; each episode counts once.
pub const SUCCESS: &str = "episode/success_rate";
/// Mean number of steps of an episode.
pub const STEPS: &str = "episode/length/mean";
/// Share of steps whose action could be executed.
pub const VALID: &str = "episode/valid_action_ratio";
/// Episodes whose environment broke, all attempts counted.
pub const FAILED: &str = "episode/failed";
/// Share of episodes that the limit of steps or of length ended.
pub const TRUNCATED: &str = "episode/truncated_ratio";
/// Groups whose episodes all have the same outcome: a group-relative scheme learns nothing from them.
pub const GROUPS_WITHOUT_SPREAD: &str = "episode/groups_without_spread";
/// Trajectories that were left out before credit: failed, unscored, empty or dropped.
pub const LEFT_OUT: &str = "episode/left_out";
/// Tokens that were sampled.
pub const SAMPLED_TOKENS: &str = "rollout/sampled_tokens";
/// Episodes that ended since a prompt left no room for a response.
pub const OVERLONG_ENDED: &str = "rollout/overlong_prompts/ended";
/// Prompts that turns were left out of, so that a response fits.
pub const OVERLONG_SHORTENED: &str = "rollout/overlong_prompts/shortened";
/// Turns that were left out, each once for every prompt that dropped it.
pub const OVERLONG_DROPPED_TURNS: &str = "rollout/overlong_prompts/dropped_turns";
/// Mean number of tokens of a response.
pub const RESPONSE_LENGTH: &str = "response_length/mean";
/// Share of responses that the limit of tokens cut.
pub const RESPONSE_CLIPPED: &str = "response_length/clip_ratio";
/// Share of responses with think and action tokens.
pub const COMPLETE: &str = "response/complete_ratio";
/// Share of response tokens that think.
pub const THINK_SHARE: &str = "response/think_token_ratio";
/// Questions to the judge; not there where none were asked.
pub const JUDGE_ASKED: &str = "judge/asked";
/// Those of them that failed, after all tries: what the judge would have said is left out.
pub const JUDGE_FAILED: &str = "judge/failed";
/// Mean absolute difference of a token's log-probability between the sampler and the training kernels.
pub const MISMATCH: &str = "rollout/logprob_diff/mean";
/// Largest such difference in the iteration.
pub const MISMATCH_MAX: &str = "rollout/logprob_diff/max";
/// Tokens that went through the frozen reference, prompts included; not there without one.
pub const REFERENCE_TOKENS: &str = "reference/tokens";
/// Mean surprisal (negative log-probability before the update) of the tokens that were sampled: an estimate of the
/// policy's entropy that needs no pass of its own.
pub const SURPRISAL: &str = "actor/surprisal";
/// Mean entropy of the sampling distribution over response tokens, where something reads it.
pub const ENTROPY_MEAN: &str = "actor/entropy";
/// Prefix of rank correlations over the iteration's groups: mean energy of the reference against the variance of
/// outcomes, for think, action and all tokens; where something reads energies. A group in which all tokens of a kind are
/// missing takes no part; null with fewer than three groups or where one side does not vary.
pub const ENERGY_CORRELATION: &str = "reference/energy_variance_spearman/";
/// Texts that schemes asked to be scored and that were.
pub const QUERIES: &str = "queries/scored";
/// Texts that were not scored because their row is longer than the model can read.
pub const QUERIES_TOO_LONG: &str = "queries/too_long";
/// Tokens of the scored texts, prompts included.
pub const QUERY_TOKENS: &str = "queries/tokens";
/// Mean loss of the iteration's minibatches.
pub const LOSS: &str = "actor/loss";
/// Mean norm of the policy's gradient before clipping; 0 in the critic's warm-up, where it has none.
pub const GRAD_NORM: &str = "actor/grad_norm";
/// Mean over the tokens of all forward passes of the update: log-probability before the update less that of now.
pub const POLICY_KL: &str = "actor/ppo_kl";
/// Mean over the same tokens: weight times advantage times what the log-probability has gained. Above 0 the policy moves
/// as the advantages say; 0 in the first optimiser step, before it has moved.
pub const POLICY_GAIN: &str = "actor/policy_gain";
/// Learning rate of the policy's last optimiser step; 0 in the critic's warm-up.
pub const LR: &str = "actor/lr";
/// Mean advantage over trained tokens.
pub const ADVANTAGE_MEAN: &str = "critic/advantages/mean";
/// Largest advantage.
pub const ADVANTAGE_MAX: &str = "critic/advantages/max";
/// Smallest advantage.
pub const ADVANTAGE_MIN: &str = "critic/advantages/min";
/// Mean value over the batch's tokens, before the update.
pub const VALUE_MEAN: &str = "critic/values/mean";
/// Mean value target over the batch's tokens.
pub const VALUE_TARGET_MEAN: &str = "critic/value_targets/mean";
/// 1 - Var(target - value) / Var(target) over the batch's tokens, values before the update: 1 is a perfect critic, 0 is
/// no better than a constant. Missing where the targets do not vary.
pub const EXPLAINED_VARIANCE: &str = "critic/vf_explained_var";
/// Mean norm of the gradient of the critic's own weights before clipping.
pub const CRITIC_GRAD_NORM: &str = "critic/grad_norm";
/// Learning rate of the critic's last optimiser step.
pub const CRITIC_LR: &str = "critic/lr";
/// Optimiser steps of the policy so far.
pub const UPDATES: &str = "training/updates";
/// Share of held-out tasks that were solved.
pub const EVAL_SUCCESS: &str = "val/success_rate";
/// Mean reward of held-out tasks.
pub const EVAL_REWARD: &str = "val/reward/mean";
/// Share of responses on held-out tasks with think and action tokens.
pub const EVAL_COMPLETE: &str = "val/response/complete_ratio";
/// Prefix of the evaluation before the first iteration, which stands in the first iteration's line.
pub const BEFORE: &str = "before/";
/// Seconds of a part of the iteration; the prefix of all that two equal runs differ in.
pub const TIMING: &str = "timing_s/";
/// Seconds for which saving after the iteration before held the loop up: copying the numbers, waiting for what was being
/// written, and writing itself where that is not done in the background.
pub const SAVING: &str = "timing_s/save_checkpoint";
/// Sampled tokens per second.
pub const SAMPLING_RATE: &str = "perf/sampled_tokens_per_second";
/// Trained tokens per second, prompts included.
pub const TRAINING_RATE: &str = "perf/trained_tokens_per_second";

/// Whether a metric is a measurement of time, which two equal runs differ in.
pub fn is_timing(name: &str) -> bool {
    name.starts_with(TIMING) || name.starts_with("perf/")
}
