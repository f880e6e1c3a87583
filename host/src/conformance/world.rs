//! Made-up batches: every number is a function of whom it belongs to, so that the same trajectory stands for the same
//! numbers wherever it stands in a batch.

use accredit_core::rng::{Purpose, Stream};
use accredit_plugin_api::{
    ACTION, FORMAT, Layout, Level, NO_STATE, Needs, THINK,
    abi::DType,
    columns::{
        ALL_TEXTS, ENTROPY, GROUP_TRAJECTORIES, ITERATION, ITERATIONS, KIND, LAYOUT, NEW_ENTROPY, NEW_LOGPROB,
        NEW_TOP_K_LOGPROB, NEW_VALUE, NEXT_STATE, OBSERVATION_TOKENS, OLD_LOGPROB, OUTCOME, RAW_OUTCOME, RAW_REWARD,
        REF_ENERGY, REF_LOGPROB, REWARD, ROUND, ROUND_GROUPS, ROUNDS, ROW_STEPS, SAMPLER_LOGPROB, STATE, STATUS,
        STEP_TOKENS, SUCCESS, TEACHER_LOGPROB, TEACHER_TOP_K_LOGPROB, TERMINAL, TOKEN_ID, TOKEN_REWARD, TOP_K,
        TOP_K_ID, TRAINED, TRAJECTORY_STEPS, UPDATE, UPDATES, VALID_ACTION, VALUE, VALUE_TARGET,
    },
    host::{Data, Table, known_column},
};

/// A batch.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// How rows are cut.
    pub layout: Layout,
    /// Trajectories, those of a group one after another.
    pub trajectories: Vec<Trajectory>,
    /// What is the same for all of them.
    pub nature: Nature,
    /// What all its numbers are drawn with.
    pub seed: u64,
}

/// A trajectory, which keeps its numbers wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trajectory {
    /// Whom its numbers belong to.
    pub id: u64,
    /// Whose trajectories it is compared with.
    pub group: u64,
    /// Response tokens of each step.
    pub steps: Vec<usize>,
}

/// What trajectories are like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nature {
    /// Their outcomes.
    pub outcomes: Outcomes,
    /// 0 completed, 1 and 2 truncated.
    pub status: u8,
    /// The kind of all tokens, if they have one.
    pub kind: Option<u8>,
    /// All trajectories of a group go through the same states.
    pub alike: bool,
}

/// What episodes end with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Outcomes {
    /// Anything between 0 and 1, and 0 and 1 themselves often.
    #[default]
    Mixed,
    /// The same for all.
    Equal(f32),
    /// Very large and very small.
    Extreme,
    /// One and a little more.
    Close,
}

/// Sizes of a random batch.
const GROUPS: u64 = 4;
const TRAJECTORIES: u64 = 5;
const STEPS: u64 = 4;
const TOKENS: u64 = 6;

impl World {
    /// A random batch: groups, trajectories, steps and tokens of differing numbers, at least two of each but tokens.
    pub fn random(seed: u64, layout: Layout) -> Self {
        let stream = Stream::new(seed, Purpose::Other);
        let mut trajectories = Vec::new();
        for group in 0..2 + stream.below(0, GROUPS - 1) {
            let of_group = stream.with(1 + group);
            for member in 0..2 + of_group.below(0, TRAJECTORIES - 1) {
                let own = of_group.with(1 + member);
                let steps = (0..=own.below(0, STEPS)).map(|step| 1 + own.below(1 + step, TOKENS) as usize).collect();
                trajectories.push(Trajectory { id: 100 * group + member, group, steps });
            }
        }
        Self { layout, trajectories, nature: Nature::default(), seed }
    }

    /// The same with other trajectories of it, which must keep groups together.
    #[must_use]
    pub fn with(&self, trajectories: Vec<Trajectory>) -> Self {
        Self { trajectories, ..self.clone() }
    }

    /// Tokens of the whole batch.
    pub fn tokens(&self) -> usize {
        self.trajectories.iter().flat_map(|trajectory| &trajectory.steps).sum()
    }

    /// Groups, trajectories, steps and tokens, in words.
    pub fn shape(&self) -> String {
        let mut groups: Vec<(u64, Vec<String>)> = Vec::new();
        for trajectory in &self.trajectories {
            let steps: Vec<String> = trajectory.steps.iter().map(usize::to_string).collect();
            let text = format!("[{}]", steps.join(" "));
            match groups.last_mut() {
                Some((group, members)) if *group == trajectory.group => members.push(text),
                _ => groups.push((trajectory.group, vec![text])),
            }
        }
        let groups: Vec<String> = groups.iter().map(|(_, members)| format!("{{{}}}", members.join(" "))).collect();
        let layout = match self.layout {
            Layout::Trajectory => "trajectory",
            Layout::Step => "step",
        };
        format!("tokens by step {}, a row is a {layout}, seed {}", groups.join(" "), self.seed)
    }

    /// The batch as columns: what the host always has, and what the scheme needs beside.
    pub fn table(&self, needs: &Needs) -> Table {
        let mut table = Table::default();
        self.put_structure(&mut table);
        self.put_episodes(&mut table);
        self.put_tokens(&mut table, needs);
        self.put_texts(&mut table);
        table
    }

    fn put_structure(&self, table: &mut Table) {
        let (mut groups, mut steps, mut tokens) = (vec![0_u32], vec![0_u32], vec![0_u32]);
        for (index, trajectory) in self.trajectories.iter().enumerate() {
            for count in &trajectory.steps {
                tokens.push(tokens[tokens.len() - 1] + *count as u32);
            }
            steps.push(tokens.len() as u32 - 1);
            if self.trajectories.get(index + 1).is_none_or(|next| next.group != trajectory.group) {
                groups.push(index as u32 + 1);
            }
        }
        let rows = match self.layout {
            Layout::Trajectory => steps.clone(),
            Layout::Step => (0..tokens.len() as u32).collect(),
        };
        let group_count = groups.len() as u64 - 1;
        table.put(GROUP_TRAJECTORIES, groups);
        table.put(TRAJECTORY_STEPS, steps);
        table.put(STEP_TOKENS, tokens);
        table.put(ROW_STEPS, rows);
        table.put(LAYOUT, vec![u8::from(self.layout == Layout::Step)]);
        for (column, value) in [
            (ITERATION, 3),
            (ITERATIONS, 100),
            (UPDATE, 6),
            (UPDATES, 200),
            (ROUND, 0),
            (ROUNDS, 2),
            (ROUND_GROUPS, group_count),
        ] {
            table.put(column, vec![value]);
        }
    }

    fn put_episodes(&self, table: &mut Table) {
        let outcome: Vec<f32> = self.trajectories.iter().map(|trajectory| self.outcome(trajectory)).collect();
        let mut reward = Vec::new();
        let (mut state, mut next_state, mut terminal, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (trajectory, outcome) in self.trajectories.iter().zip(&outcome) {
            let last = trajectory.steps.len() - 1;
            let numbers = self.stream(trajectory, 1);
            // The parts are exact in binary, so that they add up to the outcome in any order.
            let early = if matches!(self.nature.outcomes, Outcomes::Mixed) { 0.125 } else { 0.0 };
            let early: Vec<f32> = (0..last as u64).map(|step| early * numbers.below(step, 3) as f32).collect();
            reward.push(outcome - early.iter().sum::<f32>());
            let at = reward.len() - 1;
            reward.splice(at..at, early);
            // All begin in one state, and go through three others that they share with their group.
            let state_at = |step: u64| match step {
                0 => 0,
                step if self.nature.alike => step as u32,
                step => 1 + numbers.below(50 + step, 3) as u32,
            };
            let states: Vec<u32> = (0..=last as u64).map(|step| 8 * trajectory.group as u32 + state_at(step)).collect();
            for step in 0..=last {
                next_state.push(states.get(step + 1).copied().unwrap_or(NO_STATE));
                terminal.push(step == last && self.nature.status == 0);
                valid.push(numbers.uniform(100 + step as u64) < 0.8);
            }
            state.extend(states);
        }
        let steps = reward.len();
        table.put(SUCCESS, outcome.iter().map(|outcome| *outcome >= 1.0).collect());
        table.put(RAW_OUTCOME, outcome.clone());
        table.put(OUTCOME, outcome);
        table.put(STATUS, vec![self.nature.status; self.trajectories.len()]);
        table.put(TRAINED, vec![true; self.trajectories.len()]);
        table.put(RAW_REWARD, reward.clone());
        table.put(REWARD, reward);
        table.put(STATE, state);
        table.put(NEXT_STATE, next_state);
        table.put(TERMINAL, terminal);
        table.put(VALID_ACTION, valid);
        table.put(OBSERVATION_TOKENS, vec![3; steps]);
    }

    fn outcome(&self, trajectory: &Trajectory) -> f32 {
        let stream = self.stream(trajectory, 0);
        match self.nature.outcomes {
            Outcomes::Mixed => [0.0, 1.0, 0.0, 1.0, 0.25, stream.uniform(1) as f32][stream.below(0, 6) as usize],
            Outcomes::Equal(outcome) => outcome,
            Outcomes::Extreme => [1e6, -1e6, 1e-6, 0.0][stream.below(0, 4) as usize],
            Outcomes::Close => 1.0 + 1e-5 * stream.below(0, 2) as f32,
        }
    }

    fn put_tokens(&self, table: &mut Table, needs: &Needs) {
        // A column's numbers: a number of its own, and those of another column from which it moves away.
        let column = |purpose: u64, from: Option<&[f32]>, low: f64, high: f64| -> Vec<f32> {
            let drawn = self.numbers(purpose, low, high);
            match from {
                Some(from) => drawn.iter().zip(from).map(|(a, b)| a + b).collect(),
                None => drawn,
            }
        };
        let old = column(10, None, -3.0, -0.05);
        table.put(NEW_LOGPROB, column(11, Some(&old), -0.3, 0.04));
        table.put(SAMPLER_LOGPROB, column(12, Some(&old), -0.05, 0.05));
        table.put(REF_LOGPROB, column(13, Some(&old), -0.5, 0.04));
        table.put(TEACHER_LOGPROB, column(14, Some(&old), -0.6, 0.04));
        table.put(REF_ENERGY, column(15, None, -12.0, -3.0));
        for (name, purpose) in [(ENTROPY, 16), (NEW_ENTROPY, 17)] {
            table.put(name, column(purpose, None, 0.05, 2.0));
        }
        for (name, purpose) in [(VALUE, 18), (NEW_VALUE, 19), (VALUE_TARGET, 20)] {
            table.put(name, column(purpose, None, -1.0, 1.0));
        }
        table.put(TOKEN_REWARD, vec![0.0; old.len()]);
        table.put(OLD_LOGPROB, old);
        let kinds = self.each_token(|stream, token| stream.with(21).uniform(token));
        let kind = |share: &f64| {
            self.nature.kind.unwrap_or_else(|| [THINK, ACTION, FORMAT, THINK, ACTION][(5.0 * share) as usize])
        };
        table.put(KIND, kinds.iter().map(kind).collect());
        let ids = self.each_token(|stream, token| stream.with(22).below(token, 50) as f64);
        table.put(TOKEN_ID, ids.iter().map(|id| *id as u32).collect());
        if needs.top_k > 0 {
            let k = u64::from(needs.top_k);
            table.put(TOP_K, vec![needs.top_k]);
            let mut likeliest = Vec::new();
            let mut of = [Vec::new(), Vec::new()];
            self.each_token(|stream, token| {
                for place in 0..k {
                    likeliest.push(place as u32);
                    for (purpose, numbers) in of.iter_mut().enumerate() {
                        // Probabilities of the likeliest fall, and leave some for the rest.
                        let share = 0.4 + 0.5 * stream.with(23 + purpose as u64).uniform(k * token + place);
                        numbers.push((share / (k as f64 + 1.0)).ln() as f32);
                    }
                }
                0.0
            });
            let [new, teacher] = of;
            table.put(TOP_K_ID, likeliest);
            table.put(NEW_TOP_K_LOGPROB, new);
            table.put(TEACHER_TOP_K_LOGPROB, teacher);
        }
        let own = needs.reads.iter().chain(&needs.optional).chain(&needs.asks);
        for (index, read) in own.filter(|read| known_column(&read.name).is_none()).enumerate() {
            if read.element() == DType::F32 {
                table.set(read.name.clone(), column(40 + index as u64, None, -2.0, -0.1));
            }
        }
    }

    fn put_texts(&self, table: &mut Table) {
        for text in ALL_TEXTS {
            let mut texts: Vec<String> = Vec::new();
            let mut last_group = None;
            for trajectory in &self.trajectories {
                let Trajectory { id, group, steps } = trajectory;
                match text.level() {
                    Level::Group if last_group != Some(*group) => texts.push(format!("{} of {group}", text.name())),
                    Level::Trajectory => texts.push(format!("{} of {id}", text.name())),
                    Level::Step => texts.extend((0..steps.len()).map(|step| format!("{} {step} of {id}", text.name()))),
                    _ => {}
                }
                last_group = Some(*group);
            }
            let (bytes, offsets) = text.parts();
            let ends = texts.iter().scan(0, |end, text| {
                *end += text.len() as u64;
                Some(*end)
            });
            table.set(offsets, std::iter::once(0).chain(ends).collect::<Vec<u64>>());
            table.set(bytes, Data::U8(texts.concat().into_bytes()));
        }
    }

    /// A column of numbers for whatever the caller needs.
    pub fn numbers(&self, purpose: u64, low: f64, high: f64) -> Vec<f32> {
        let numbers = self.each_token(|stream, token| low + (high - low) * stream.with(purpose).uniform(token));
        numbers.into_iter().map(|number| number as f32).collect()
    }

    fn stream(&self, trajectory: &Trajectory, purpose: u64) -> Stream {
        Stream::new(self.seed, Purpose::Other).with(1000 + trajectory.id).with(purpose)
    }

    /// A number for each token, by the stream of its step and its place there.
    fn each_token(&self, mut number: impl FnMut(Stream, u64) -> f64) -> Vec<f64> {
        let mut numbers = Vec::with_capacity(self.tokens());
        for trajectory in &self.trajectories {
            for (step, tokens) in trajectory.steps.iter().enumerate() {
                let stream = self.stream(trajectory, 200 + step as u64);
                numbers.extend((0..*tokens as u64).map(|token| number(stream, token)));
            }
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trajectory_has_the_same_numbers_wherever_it_stands() {
        let world = World::random(3, Layout::Trajectory);
        let mut turned = world.trajectories.clone();
        turned.reverse();
        let turned = world.with(turned);
        let numbers = |world: &World| {
            let table = world.table(&Needs::default());
            let column = table.f32(OLD_LOGPROB).unwrap().to_vec();
            let mut start = 0;
            let mut by_id: Vec<(u64, Vec<f32>)> = Vec::new();
            for trajectory in &world.trajectories {
                let end = start + trajectory.steps.iter().sum::<usize>();
                by_id.push((trajectory.id, column[start..end].to_vec()));
                start = end;
            }
            by_id.sort_by_key(|(id, _)| *id);
            by_id
        };
        assert_eq!(numbers(&world), numbers(&turned));
    }

    #[test]
    fn rewards_add_up_to_the_outcome() {
        for seed in 0..20 {
            let world = World::random(seed, Layout::Step);
            let table = world.table(&Needs::default());
            let (reward, outcome) = (table.f32(REWARD).unwrap(), table.f32(OUTCOME).unwrap());
            let mut start = 0;
            for (trajectory, outcome) in world.trajectories.iter().zip(outcome) {
                let end = start + trajectory.steps.len();
                let sum: f32 = reward[start..end].iter().sum();
                assert!((sum - outcome).abs() < 1e-6, "{sum} {outcome}");
                start = end;
            }
        }
    }
}
