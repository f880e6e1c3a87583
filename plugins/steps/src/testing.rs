//! Episodes from literals and at random, and what the tests of several schemes ask of them.

use std::collections::BTreeMap;

use accredit_plugin_api::{
    prelude::*,
    testing::{TestBatch, TestScheme},
};
use proptest::prelude::*;

/// A step of an episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The state before it, by a number that means the same in the whole group.
    pub state: u32,
    /// Its reward.
    pub reward: f32,
    /// How many tokens its response has.
    pub tokens: usize,
}

/// An episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// Its steps.
    pub turns: Vec<Turn>,
    /// The state after its last step, where the environment did not end it.
    pub reached: Option<u32>,
}

impl Episode {
    /// Steps of two tokens each, from states and rewards.
    pub fn new(turns: &[(u32, f32)]) -> Self {
        let turn = |(state, reward): &(u32, f32)| Turn { state: *state, reward: *reward, tokens: 2 };
        Self { turns: turns.iter().map(turn).collect(), reached: None }
    }

    /// The sum of its rewards.
    pub fn outcome(&self) -> f32 {
        self.turns.iter().map(|turn| turn.reward).sum()
    }
}

/// A group that is small enough to check by hand.
pub fn toy() -> Vec<Episode> {
    vec![
        Episode::new(&[(0, 0.0), (1, 0.0), (2, 10.0)]),
        Episode::new(&[(0, 0.0), (1, 0.0), (3, 0.0), (1, 0.0)]),
        Episode::new(&[(0, 0.0), (4, 10.0)]),
    ]
}

/// The batch of these groups. States get their ids in the order in which they appear, as the host gives them.
pub fn batch(layout: Layout, groups: &[Vec<Episode>]) -> TestBatch {
    let tokens: Vec<Vec<Vec<usize>>> = groups
        .iter()
        .map(|group| group.iter().map(|episode| episode.turns.iter().map(|turn| turn.tokens).collect()).collect())
        .collect();
    let shape: Vec<Vec<&[usize]>> = tokens.iter().map(|group| group.iter().map(Vec::as_slice).collect()).collect();
    let shape: Vec<&[&[usize]]> = shape.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(layout, &shape);
    let (mut states, mut next_states, mut terminal) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    for group in groups {
        let mut ids = BTreeMap::new();
        let mut id_of = |state| {
            *ids.entry(state).or_insert_with(|| {
                count += 1;
                count - 1
            })
        };
        for episode in group {
            for (step, turn) in episode.turns.iter().enumerate() {
                let next = episode.turns.get(step + 1).map(|turn| turn.state).or(episode.reached);
                states.push(id_of(turn.state));
                next_states.push(next.map_or(NO_STATE, &mut id_of));
                terminal.push(next.is_none());
            }
        }
    }
    let episodes = || groups.iter().flatten();
    batch
        .set(OUTCOME, episodes().map(Episode::outcome).collect())
        .set(REWARD, turns(groups).map(|turn| turn.reward).collect())
        .set(STATE, states)
        .set(NEXT_STATE, next_states)
        .set(TERMINAL, terminal);
    batch
}

/// All steps.
pub fn turns(groups: &[Vec<Episode>]) -> impl Iterator<Item = &Turn> {
    groups.iter().flatten().flat_map(|episode| &episode.turns)
}

/// The advantage of each step from those of the tokens, after checking that it is the same on all of a step's tokens; 0
/// for a step without one.
pub fn by_step(groups: &[Vec<Episode>], of_tokens: &[f32]) -> Vec<f32> {
    let mut next = 0;
    let of_step = |turn: &Turn| {
        let own = &of_tokens[next..next + turn.tokens];
        next += turn.tokens;
        assert!(own.iter().all(|a| a.to_bits() == own[0].to_bits()), "{own:?}");
        own.first().copied().unwrap_or(0.0)
    };
    turns(groups).map(of_step).collect()
}

/// What a scheme with these parameters gives each step.
pub fn advantages<S: Scheme>(layout: Layout, params: &str, groups: &[Vec<Episode>]) -> Vec<f32> {
    let mut scheme = TestScheme::<S>::new(params).unwrap_or_else(|error| panic!("{params}: {error:?}"));
    let of_tokens = scheme.advantage(&batch(layout, groups)).unwrap_or_else(|error| panic!("{params}: {error:?}"));
    by_step(groups, &of_tokens)
}

/// Compares numbers at the precision of 32 bits.
pub fn assert_near(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs();
        assert!(difference <= 2e-6 * expected.abs().max(1.0), "{what}, {place}: {found} and not {expected}");
    }
}

/// Batches of up to three groups of up to five episodes over few states and rewards, so that states come again and
/// returns tie. Some responses are empty, though never all of an episode; some episodes are truncated.
pub fn groups() -> impl Strategy<Value = Vec<Vec<Episode>>> {
    let turn = (0_u32..4, prop::sample::select(vec![0.0_f32, 0.0, 1.0, -0.1, 0.5]), 0_usize..4);
    let turns = prop::collection::vec(turn, 1..6).prop_map(|turns| {
        let turn = |(state, reward, tokens)| Turn { state, reward, tokens };
        let mut turns: Vec<Turn> = turns.into_iter().map(turn).collect();
        if turns.iter().all(|turn| turn.tokens == 0) {
            turns[0].tokens = 1;
        }
        turns
    });
    let episode = (turns, prop::option::of(0_u32..6)).prop_map(|(turns, reached)| Episode { turns, reached });
    prop::collection::vec(prop::collection::vec(episode, 1..6), 1..4)
}

/// The same with rewards that are exact in binary: with a discount that is too, returns that are equal in fact are equal
/// in every bit, however they are summed.
pub fn exact(mut groups: Vec<Vec<Episode>>) -> Vec<Vec<Episode>> {
    for turn in turns_mut(&mut groups) {
        turn.reward = if turn.reward < 0.0 { -0.25 } else { turn.reward };
    }
    groups
}

/// The same with a state of its own before each step.
pub fn unique(mut groups: Vec<Vec<Episode>>) -> Vec<Vec<Episode>> {
    for (state, turn) in turns_mut(&mut groups).enumerate() {
        turn.state = state as u32;
    }
    groups
}

fn turns_mut(groups: &mut [Vec<Episode>]) -> impl Iterator<Item = &mut Turn> {
    groups.iter_mut().flatten().flat_map(|episode| &mut episode.turns)
}

/// Another order of groups, and of trajectories in them: the groups, and for each of their steps its place before.
pub fn shuffled(groups: &[Vec<Episode>], seed: u64) -> (Vec<Vec<Episode>>, Vec<usize>) {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let mut step = 0;
    let mut tagged: Vec<Vec<(Episode, usize)>> = Vec::new();
    for group in groups {
        let mut episodes = Vec::new();
        for episode in group {
            episodes.push((episode.clone(), step));
            step += episode.turns.len();
        }
        episodes.sort_by_cached_key(|_| random());
        tagged.push(episodes);
    }
    tagged.sort_by_cached_key(|_| random());
    let places = tagged.iter().flatten().flat_map(|(episode, first)| *first..first + episode.turns.len()).collect();
    let groups = tagged.into_iter().map(|group| group.into_iter().map(|(episode, _)| episode).collect()).collect();
    (groups, places)
}

/// Fails unless another order of groups and trajectories gives the same advantages, bit for bit.
pub fn order_changes_no_bit<S: Scheme>(
    layout: Layout,
    params: &str,
    groups: &[Vec<Episode>],
    seed: u64,
) -> Result<(), TestCaseError> {
    let before = advantages::<S>(layout, params, groups);
    let (other, places) = shuffled(groups, seed);
    let after = advantages::<S>(layout, params, &other);
    let expected: Vec<u32> = places.iter().map(|place| before[*place].to_bits()).collect();
    let found: Vec<u32> = after.iter().map(|advantage| advantage.to_bits()).collect();
    prop_assert_eq!(found, expected, "{}", params);
    Ok(())
}

/// Returns of an episode's steps, by the definition.
pub fn returns(episode: &Episode, gamma: f64) -> Vec<f64> {
    let rewards = || episode.turns.iter().map(|turn| f64::from(turn.reward));
    (0..episode.turns.len()).map(|t| rewards().skip(t).zip(0..).map(|(r, k)| gamma.powi(k) * r).sum()).collect()
}

/// Mean, and deviation with this many degrees of freedom taken off; none without a number. Numbers that are equal up to
/// rounding have a deviation of 0.
pub fn mean_and_deviation(numbers: &[f64], ddof: usize) -> Option<(f64, f64)> {
    let count = numbers.len();
    let mean = numbers.iter().sum::<f64>() / count as f64;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let deviation = if count > ddof { (squares / (count - ddof) as f64).sqrt() } else { 0.0 };
    (count > 0).then_some((mean, if deviation < 1e-9 { 0.0 } else { deviation }))
}
