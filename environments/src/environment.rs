//! What the host and an environment say to each other.

use crate::EnvironmentError;

/// A text environment that plays one episode at a time.
///
/// An environment owns everything that it needs, chance included: an episode is a function of its seed and of the
/// actions, so nothing has to be saved to resume a run.
pub trait Environment: Send {
    /// What an agent must know before its first turn: the rules, the legend, the names of the actions and how several
    /// are written in one answer. Says nothing about tags; those are the host's.
    fn instructions(&self) -> String;

    /// Starts the episode of this seed. Equal seeds start equal episodes, whatever was played before.
    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError>;

    /// Plays one turn. `action` is the text inside the response's action tags, none if it has none; `response` is the
    /// whole response. An action that means nothing here is no error: it gives an [`Outcome`] with `valid_action` false.
    /// Playing before `reset`, or after a terminal outcome, is an error.
    fn step(&mut self, action: Option<&str>, response: &str) -> Result<Outcome, EnvironmentError>;

    /// What a scripted expert thinks and does now; none where there is no expert, or no episode is going on.
    fn expert(&mut self) -> Option<Demonstration>;

    /// The task of the episode that was started last; empty where the observation says all.
    fn task(&self) -> Task {
        Task::default()
    }
}

/// What the agent sees before it acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The text to show.
    pub observation: String,
    /// A key of the environment's state, equal for equal states of a task, whatever led to them; none where the
    /// environment cannot tell.
    pub state: Option<String>,
    /// The actions that would be executed now, as texts; empty means unknown, or none once the episode is over.
    pub actions: Vec<String>,
}

/// What a turn led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The reward of this turn, summed over its actions.
    pub reward: f32,
    /// The episode is over.
    pub terminal: bool,
    /// The task is solved.
    pub success: bool,
    /// The action was one that the environment could execute, as a whole.
    pub valid_action: bool,
    /// What the environment answers to the action.
    pub feedback: String,
    /// What the agent sees now.
    pub turn: Turn,
}

/// What an expert would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demonstration {
    /// The reasoning, which carries the decision: what is read from the observation before acting.
    pub think: String,
    /// The action, as `step` takes it.
    pub action: String,
}

/// A task in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// What is to be done; may be empty.
    pub text: String,
    /// The known answer, for schemes that use one.
    pub answer: Option<String>,
}

/// What an environment supplies, known from its settings before anything runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Traits {
    /// Every turn has a key of its state.
    pub states: bool,
    /// There is a scripted expert.
    pub expert: bool,
    /// Every task has a known answer.
    pub answers: bool,
    /// How many tasks there are, where they are finite: the seeds below this number give each of them once, and larger
    /// ones begin again. None where every seed may give another task.
    pub tasks: Option<u64>,
    /// Its steps wait for another program, so it is worth doing something else meanwhile.
    pub apart: bool,
}
