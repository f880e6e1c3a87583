//! `grpo`: an episode's reward against the rewards of its group (Group Relative Policy Optimisation).
//!
//! # What it does
//!
//! A group is played from one task. Every response token of a trajectory gets the same advantage: how far the
//! trajectory's outcome lies above the group's mean, in units of the group's standard deviation. No critic is needed.
//!
//! # The formula
//!
//! With `R_i` the outcome of trajectory `i`, and mean and standard deviation over the entries of its group,
//!
//! ```text
//! A_i = (R_i - mean(R)) / (std(R) + eps)        std = true    Shao et al. 2024 (arXiv 2402.03300), section 4.1.2
//! A_i =  R_i - mean(R)                          std = false   Dr. GRPO, Liu et al. 2025 (arXiv 2503.20783), section 3.2
//! ```
//!
//! `std` divides its sum of squares by `n - ddof`. The sums are taken in 64 bits over sorted values, so the result does
//! not depend, in any bit, on the order of trajectories or groups.
//!
//! # Fidelity
//!
//! Equal to verl's GRPO (its `eps` of 1e-6 outside the root, its sample deviation) and, by its parameters, to those of
//! RAGEN, DrMAS, TRL (`eps = 1e-4`) and OpenRLHF (`eps = 1e-9`), as far as the two rules below go.
//!
//! - A group whose outcomes are all equal gets exactly 0, decided by comparing the outcomes. Elsewhere the rounding of
//!   a mean such as that of eight times 0.95 can be blown up to an advantage by a small `eps`.
//! - A group of one gets 0. verl and others give it mean 0 and deviation 1, so that its raw outcome survives;
//!   `singleton = "raw"` does that.
//!
//! # Parameters
//!
//! | name | default | what |
//! | --- | --- | --- |
//! | `over` | `"trajectories"` | what counts once in mean and deviation: `"trajectories"`, `"rows"` or `"tokens"` |
//! | `std` | `true` | divide by the deviation; `false` is Dr. GRPO |
//! | `ddof` | `1` | 1 the sample deviation, 0 the population's |
//! | `eps` | `1e-6` | added to the deviation |
//! | `singleton` | `"zero"` | the advantage of a group with one entry: `"zero"`, or `"raw"`, its outcome over `1 + eps` |
//! | `token_rewards` | `"outcome"` | what `shape` gave to tokens: a part of the `"outcome"`, or each token's own `"to-go"` |
//!
//! The papers set: GRPO `std = true`, Dr. GRPO `std = false`; verl-agent on ALFWorld, WebShop and Sokoban
//! `over = "rows"`, `singleton = "raw"`; RAGEN `over = "trajectories"`. Groups of 8 in all of them, 16 in RAGEN.
//!
//! `over` matters where a row is a step (`context = "window"`). `"rows"` is how verl-agent and GiGPO count by default: a
//! trajectory with more steps weighs more in its group's baseline. With outcomes 1 (three steps) and 0 (one step) the
//! baseline is 0.75, not 0.5. Where a row is a trajectory the two are the same. `"tokens"` counts a trajectory as often as
//! it has response tokens; with `std = false` that is the baseline of OPO (Hao et al. 2025, arXiv 2505.23585), equal to
//! verl's.
//!
//! `token_rewards` matters where a scheme such as `kl-reward` gives rewards to single tokens. With `"outcome"` the sum of a
//! trajectory's is a part of the outcome that is compared, as in verl. With `"to-go"` the comparison leaves them out, and
//! each token gets, on top of its trajectory's advantage, the sum of those from itself to the end of its row, as in
//! OpenRLHF.
//!
//! # What it needs
//!
//! The outcome of each trajectory, with `token_rewards = "to-go"` also the rewards of steps and tokens; no signal of a model. Groups of at least two, unless `singleton = "raw"`.
//!
//! # When it goes wrong
//!
//! - Groups that are all solved or all failed teach nothing: the metric `groups_without_spread` counts them. Harder or
//!   easier tasks, larger groups or a filter help.
//! - Division by the deviation gives the same weight to a group that is solved once in a hundred as to one that is solved
//!   every other time; `std = false` does not.
//! - Every token of an episode gets the same credit, the costly mistake and the idle remark alike. That is what the
//!   other schemes are for.
//!
//! # Metrics
//!
//! `groups`, `groups_singleton` (one entry), `groups_without_spread` (several entries, all equal).
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
//! params = { std = true, singleton = "zero" }
//!
//! [objective]
//! plugin = "clip"
//! params = { low = 0.2, high = 0.28 }
//! ```
//!
//! # `rloo`: leave one out
//!
//! The second scheme of this library compares a trajectory's outcome with the mean of the *other* trajectories of its
//! group, so that its own reward does not move its baseline (REINFORCE leave-one-out):
//!
//! ```text
//! A_i = R_i - sum_{j != i} R_j / (n - 1) = (R_i - mean(R)) n / (n - 1)     Ahmadian et al. 2024 (arXiv 2402.14740), section 3
//! ```
//!
//! **Fidelity**: equal to verl's `rloo` with `singleton = "raw"`, to its vectorised form with `"zero"`, and to OpenRLHF's
//! with `token_rewards = "to-go"`. With `over = "rows"` the factor counts rows, as in verl-agent: close to 1, and not the
//! trajectory that is left out. A group whose outcomes are all equal gets exactly 0.
//!
//! **Parameters**: `over` (`"trajectories"` or `"rows"`, default `"trajectories"`), `singleton` (`"zero"`, or `"raw"`: the
//! outcome itself; default `"zero"`) and `token_rewards`, as above. DeepSWE's recipe is `rloo` with `clip` set to
//! `aggregate = "seq-mean-token-sum"`, `low = 0.2`, `high = 0.28`, and a filter that does not train truncated episodes.
//!
//! **Needs**, **metrics** and **when it goes wrong**: as `grpo`. Without a deviation, tasks with large rewards weigh more
//! than tasks with small ones.
//!
//! ```toml
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
//! plugin = "rloo"
//! params = { over = "trajectories" }
//!
//! [objective]
//! plugin = "clip"
//! params = { aggregate = "seq-mean-token-sum", low = 0.2, high = 0.28 }
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod group;
mod grpo;
mod rloo;

accredit_plugin_api::export_plugin!(grpo::Grpo, rloo::Rloo);

#[cfg(test)]
mod tests;
