//! Which tasks are played. Held-out tasks come from their own seed, and no training task starts as one of them does.

use std::collections::HashSet;

use accredit_core::rng::{Purpose, Stream};
use accredit_environments::{Environment, EnvironmentError};

/// How often a task that starts like a held-out one is drawn again.
const REDRAWS: u64 = 1_000;

/// Draws tasks: the seeds of environments.
pub struct Tasks {
    environment: Box<dyn Environment>,
    held_out: HashSet<String>,
    held_out_seeds: Vec<u64>,
}

impl Tasks {
    /// A source of tasks with `count` held-out ones.
    pub fn new(mut environment: Box<dyn Environment>, seed: u64, count: usize) -> Result<Self, EnvironmentError> {
        let stream = Stream::new(seed, Purpose::Evaluation);
        let mut held_out = HashSet::new();
        let mut held_out_seeds = Vec::with_capacity(count);
        for index in 0..count as u64 {
            let seed = seed_of(stream.bits(index));
            held_out.extend(environment.reset(seed)?.state);
            held_out_seeds.push(seed);
        }
        Ok(Self { environment, held_out, held_out_seeds })
    }

    /// The seeds of the held-out tasks.
    pub fn held_out(&self) -> &[u64] {
        &self.held_out_seeds
    }

    /// The seed of a training task: the first of a stream that does not start like a held-out one.
    pub fn draw(&mut self, stream: Stream) -> Result<u64, EnvironmentError> {
        for attempt in 0..REDRAWS {
            let seed = seed_of(stream.bits(attempt));
            if self.held_out.is_empty() {
                return Ok(seed);
            }
            match self.environment.reset(seed)?.state {
                Some(state) if self.held_out.contains(&state) => {}
                _ => return Ok(seed),
            }
        }
        Ok(seed_of(stream.bits(REDRAWS)))
    }
}

/// Environments of other houses take seeds of 32 bits.
fn seed_of(bits: u64) -> u64 {
    bits >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lake() -> Box<dyn Environment> {
        let settings = serde_json::json!({ "success_rate": 1.0, "p_frozen": 0.8 });
        accredit_environments::make("frozen-lake", settings.as_object().unwrap()).unwrap()
    }

    #[test]
    fn no_training_task_starts_like_a_held_out_one() {
        let mut tasks = Tasks::new(lake(), 0, 500).unwrap();
        let held_out: HashSet<String> =
            tasks.held_out().to_vec().into_iter().filter_map(|seed| lake().reset(seed).unwrap().state).collect();
        let mut met = 0;
        for index in 0..2_000 {
            let stream = Stream::new(1, Purpose::Task).with(index);
            let first = lake().reset(seed_of(stream.bits(0))).unwrap().state.unwrap();
            met += usize::from(held_out.contains(&first));
            let drawn = tasks.draw(stream).unwrap();
            assert!(!held_out.contains(&lake().reset(drawn).unwrap().state.unwrap()));
        }
        assert!(met > 0, "the test has met none");
    }
}
