//! The turns of a group: their rewards, compared with each other, and summed towards the end of each episode.

use std::ops::Range;

use accredit_plugin_api::prelude::*;

use crate::params::{Gain, Normalise, Over, Params, Singleton};

/// The turns of one group; the buffers are used again for the next.
#[derive(Debug, Default)]
pub struct Turns {
    list: Vec<Turn>,
    /// The turns with a reward by their index, each with the set of those that it is compared with.
    order: Vec<(Set, usize)>,
    scores: Scores,
}

/// What is compared with each other: whether they are outcomes on their own, and their position where that matters.
type Set = (bool, usize);

#[derive(Debug)]
struct Turn {
    tokens: Range<usize>,
    /// Which turn of its episode it is, from 0.
    position: usize,
    /// The last turn of its episode: its reward is the outcome.
    last: bool,
    /// The mean log-probability of the answer before it; NaN where nobody asked.
    answer: f64,
    /// Its reward, and later its advantage; NaN where there is none.
    reward: f64,
}

/// Sums of the batch, for its metrics.
#[derive(Debug, Default)]
pub struct Value {
    asked: f64,
    probability: f64,
    gains: f64,
    gain: f64,
    positive: f64,
}

impl Turns {
    /// Forgets all turns and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds an episode: the tokens of each turn with the mean log-probability of the answer before it.
    pub fn push(&mut self, turns: impl Iterator<Item = (Range<usize>, f64)>, outcome: f64, gain: Gain) {
        let first = self.list.len();
        for (position, (tokens, answer)) in turns.enumerate() {
            self.list.push(Turn { tokens, position, last: false, answer, reward: f64::NAN });
        }
        let worth = |answer: f64| match gain {
            Gain::Probability => answer.exp(),
            Gain::LogProbability => answer,
        };
        for turn in first..self.list.len().saturating_sub(1) {
            self.list[turn].reward = worth(self.list[turn + 1].answer) - worth(self.list[turn].answer);
        }
        if let Some(last) = self.list[first..].last_mut() {
            (last.last, last.reward) = (true, outcome);
        }
    }

    /// Adds the group to the sums, before its rewards are compared; false if the answer is known before no turn.
    pub fn count_into(&self, value: &mut Value) -> bool {
        let mut known = false;
        for turn in self.list.iter().filter(|turn| !turn.answer.is_nan()) {
            known = true;
            value.asked += 1.0;
            value.probability += turn.answer.exp();
        }
        for turn in self.list.iter().filter(|turn| !turn.last && !turn.reward.is_nan()) {
            value.gains += 1.0;
            value.gain += turn.reward;
            value.positive += f64::from(u8::from(turn.reward > 0.0));
        }
        known
    }

    /// Turns rewards into advantages.
    pub fn normalise(&mut self, params: &Params) {
        let Self { list: turns, order, scores } = self;
        let set = |turn: &Turn| -> Set {
            let outcomes = params.normalise == Normalise::Separate && turn.last;
            let position = if params.over == Over::Position && !outcomes { turn.position } else { 0 };
            (outcomes, position)
        };
        order.clear();
        let rewarded = turns.iter().enumerate().filter(|(_, turn)| !turn.reward.is_nan());
        order.extend(rewarded.map(|(index, turn)| (set(turn), index)));
        order.sort_unstable();
        for compared in order.chunk_by(|a, b| a.0 == b.0) {
            scores.clear();
            for (_, turn) in compared {
                scores.push(turns[*turn].reward, 1);
            }
            let Some(spread) = scores.spread() else { continue };
            let (mean, scale) = match (spread.count, params.singleton) {
                (1, Singleton::Raw) => (0.0, if params.std { 1.0 + params.eps } else { 1.0 }),
                _ if spread.all_equal => {
                    for (_, turn) in compared {
                        turns[*turn].reward = 0.0;
                    }
                    continue;
                }
                _ if params.std => {
                    let variance = spread.squares / f64::from(spread.count - params.ddof);
                    (spread.mean, (variance + params.variance_eps).sqrt() + params.eps)
                }
                _ => (spread.mean, 1.0),
            };
            for (_, turn) in compared {
                let reward = &mut turns[*turn].reward;
                *reward = (*reward - mean) / scale;
            }
        }
    }

    /// Writes each turn's credit on its tokens: its advantage and those after it, each later one times `gamma`.
    pub fn credit(&self, gamma: f64, advantage: &mut [f32]) {
        let mut credit = 0.0;
        for turn in self.list.iter().rev() {
            let later = if turn.last { 0.0 } else { gamma * credit };
            credit = later + if turn.reward.is_nan() { 0.0 } else { turn.reward };
            advantage[turn.tokens.clone()].fill(credit as f32);
        }
    }
}

impl Value {
    /// Pushes the means.
    pub fn report(&self, host: &Host) {
        if self.asked > 0.0 {
            host.metric_weighted("answer_probability", self.probability / self.asked, self.asked);
        }
        if self.gains > 0.0 {
            host.metric_weighted("gain_mean", self.gain / self.gains, self.gains);
            host.metric_weighted("gain_positive", self.positive / self.gains, self.gains);
        }
    }
}
