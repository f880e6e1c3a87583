//! `sokoban`: push every box onto a target, as in RAGEN, verl-agent and gym-sokoban.
//!
//! A move costs 0.1; a box that comes onto a target pays 1, one that leaves it costs 1, and the last one pays 10 more
//! and ends the episode. So does the step `max_steps`, without success. A seed gives the room that RAGEN's generator
//! makes for it, bit for bit, or a level of a file; the views are RAGEN's and verl-agent's texts. Rooms and steps are
//! checked against recordings of the original.
//!
//! Where RAGEN's generator fails, it goes on with a hash of the seed that differs from process to process; here that
//! hash is Python's with PYTHONHASHSEED=0. Seeds beyond 32 bits, which the original refuses, share what NumPy draws with
//! the seed of their lower 32 bits.
//!
//! ```toml
//! [environment]
//! name = "sokoban"
//! rows = 8
//! cols = 8
//! boxes = 2
//! search_depth = 10
//! view = "grid_coord"
//! max_actions_per_turn = 2
//! ```
//!
//! For verl-agent's form: `search_depth = 30`, `max_steps = 15`, `view = "tabbed"`, `grammar = "verl_agent"`. For
//! Boxoban's levels: `levels = "path/to/boxoban-levels/medium"`.

mod board;
mod expert;
mod levels;
mod room;
mod solver;
mod view;

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Demonstration, Environment, EnvironmentError, Outcome, Task, Traits, Turn, action_list, registry};
use board::{Board, Direction, Effect, MAX_BOXES, MAX_SIDE};
use expert::Expert;
use levels::Split;
use room::{Plan, Room};
use view::{Symbols, View};

/// The settings of `sokoban`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Rows of a generated room, its walls included, 3 to 32.
    rows: usize,
    /// Columns of a generated room, its walls included, 3 to 32.
    cols: usize,
    /// Boxes in a generated room, 1 to 8.
    boxes: usize,
    /// How many moves the generator pulls boxes away from their targets at most, 3 to 1000: RAGEN's `search_depth`.
    search_depth: usize,
    /// A folder of level files in Boxoban's format, to play instead of generated rooms; empty for none. Size and boxes
    /// are then those of the levels.
    levels: String,
    /// Which levels of the folder are played. Only with `levels`.
    split: Split,
    /// After how many moves an episode ends without success, as RAGEN (100) and verl-agent (15) have it; 0 for never.
    max_steps: usize,
    /// What an answer may look like.
    grammar: Grammar,
    /// How many actions one answer may hold, separated by `||`. With more than 1, RAGEN's rules hold: what is no action
    /// is left out and makes the answer invalid, the actions beside it are played, and those beyond the limit are not.
    max_actions_per_turn: usize,
    /// How the board is shown.
    view: View,
    /// The characters that the board is shown with.
    symbols: Symbols,
}

/// What an answer may look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Grammar {
    /// RAGEN's: the names `Up`, `Down`, `Left`, `Right`, in any case and nothing else. What is no action plays nothing.
    #[default]
    Ragen,
    /// verl-agent's: the first of `up`, `down`, `left`, `right`, `still` that occurs in the answer, even inside a word.
    /// `still`, and an answer with none of them, costs 0.1 and does not count as a move.
    VerlAgent,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rows: 6,
            cols: 6,
            boxes: 1,
            search_depth: 300,
            levels: String::new(),
            split: Split::default(),
            max_steps: 100,
            grammar: Grammar::default(),
            max_actions_per_turn: 1,
            view: View::default(),
            symbols: Symbols::default(),
        }
    }
}

impl Settings {
    /// The levels, where they come from files.
    fn levels(&self) -> Result<Option<Arc<[Board]>>, EnvironmentError> {
        if self.levels.is_empty() {
            return Ok(None);
        }
        let levels = levels::load(Path::new(&self.levels), self.split);
        levels.map(Some).map_err(|message| <Self as registry::Settings>::misfit("levels", message))
    }
}

impl registry::Settings for Settings {
    const NAME: &'static str = "sokoban";
    const SUMMARY: &'static str = "Push every box onto a target; a wrong push may be past mending.";

    fn check(&self) -> Result<(), EnvironmentError> {
        let within = |key: &str, value: usize, least: usize, most: usize| {
            let fits = (least..=most).contains(&value);
            fits.then_some(()).ok_or_else(|| Self::misfit(key, format!("must be {least} to {most}, not {value}")))
        };
        within("rows", self.rows, 3, MAX_SIDE)?;
        within("cols", self.cols, 3, MAX_SIDE)?;
        within("boxes", self.boxes, 1, MAX_BOXES)?;
        within("search_depth", self.search_depth, 3, 1000)?;
        let most_boxes = ((self.rows - 2) * (self.cols - 2)).saturating_sub(2);
        if self.boxes > most_boxes {
            let message = format!(
                "a room of {} x {} has no place for {} boxes, as many targets and a player",
                self.rows, self.cols, self.boxes
            );
            return Err(Self::misfit("boxes", message));
        }
        if self.max_actions_per_turn == 0 {
            return Err(Self::misfit("max_actions_per_turn", "must be at least 1"));
        }
        if self.grammar == Grammar::VerlAgent && self.max_actions_per_turn > 1 {
            return Err(Self::misfit("max_actions_per_turn", "must be 1 with grammar = \"verl_agent\""));
        }
        if self.levels.is_empty() && self.split != Split::default() {
            return Err(Self::misfit("split", "is for level files, and `levels` names no folder of them"));
        }
        self.levels().map(|_| ())
    }

    fn traits(&self) -> Traits {
        // `check` has read them.
        let levels = self.levels().ok().flatten();
        Traits { states: true, expert: true, tasks: levels.map(|levels| levels.len() as u64), ..Traits::default() }
    }

    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError> {
        let levels = self.levels()?;
        Ok(Box::new(Sokoban { settings: self, levels, episode: None }))
    }
}

struct Sokoban {
    settings: Settings,
    levels: Option<Arc<[Board]>>,
    episode: Option<Episode>,
}

struct Episode {
    board: Board,
    /// Moves played so far, those that were blocked included.
    steps: usize,
    /// It is solved, or there are no steps left.
    over: bool,
    expert: Expert,
}

/// What an answer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Move(Direction),
    /// verl-agent's `still`.
    Still,
}

impl Action {
    const ALL: [Self; 5] = [
        Self::Move(Direction::Up),
        Self::Move(Direction::Down),
        Self::Move(Direction::Left),
        Self::Move(Direction::Right),
        Self::Still,
    ];

    /// What the agent reads and writes.
    fn name(self, grammar: Grammar) -> &'static str {
        let names = match grammar {
            Grammar::Ragen => ["Up", "Down", "Left", "Right", "Still"],
            Grammar::VerlAgent => ["up", "down", "left", "right", "still"],
        };
        names[match self {
            Self::Move(direction) => direction as usize,
            Self::Still => 4,
        }]
    }

    /// What an answer may ask for.
    fn of(grammar: Grammar) -> &'static [Self] {
        match grammar {
            Grammar::Ragen => &Self::ALL[..4],
            Grammar::VerlAgent => &Self::ALL,
        }
    }
}

/// The actions of an answer, and whether it holds what it should.
fn parse(text: Option<&str>, settings: &Settings) -> (Vec<Action>, bool) {
    match settings.grammar {
        Grammar::Ragen => action_list::parse(text, settings.max_actions_per_turn, |part| {
            let mut actions = Action::of(Grammar::Ragen).iter();
            actions.find(|action| action.name(Grammar::Ragen).eq_ignore_ascii_case(part)).copied()
        }),
        Grammar::VerlAgent => {
            let text = text.unwrap_or_default().as_bytes();
            let occurs = |name: &str| text.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name.as_bytes()));
            let found = Action::ALL.into_iter().find(|action| occurs(action.name(Grammar::VerlAgent)));
            (vec![found.unwrap_or(Action::Still)], found.is_some())
        }
    }
}

impl Episode {
    /// Plays one action, tells what happened, and gives its reward.
    fn play(&mut self, action: Action, max_steps: usize, feedback: &mut String) -> f64 {
        if !feedback.is_empty() {
            feedback.push(' ');
        }
        let Action::Move(direction) = action else {
            feedback.push_str("You stood still.");
            return -0.1;
        };
        let effect = self.board.play(direction);
        self.expert.saw(direction, effect);
        self.steps += 1;
        let name = action.name(Grammar::Ragen);
        let (before, after, reward) = match effect {
            Effect::Blocked => ("You cannot move ", ".", -0.1),
            Effect::Walked => ("You moved ", ".", -0.1),
            Effect::Pushed { was_on_target, is_on_target } => match (was_on_target, is_on_target) {
                (false, true) => ("You pushed a box ", ", onto a target.", 0.9),
                (true, false) => ("You pushed a box ", ", off its target.", -1.1),
                (true, true) => ("You pushed a box ", ", from one target onto another.", -0.1),
                (false, false) => ("You pushed a box ", ".", -0.1),
            },
        };
        for part in [before, name, after] {
            feedback.push_str(part);
        }
        let solved = self.board.is_solved();
        self.over = solved || self.steps == max_steps;
        if solved {
            feedback.push_str(" Every box is on a target.");
            return reward + 10.0;
        }
        if self.over {
            feedback.push_str(" No moves are left.");
        }
        reward
    }

    fn turn(&self, settings: &Settings) -> Turn {
        let actions = if self.over { &[] } else { Action::of(settings.grammar) };
        Turn {
            observation: view::show(settings.view, settings.symbols, &self.board),
            state: Some(view::state(&self.board)),
            actions: actions.iter().map(|action| action.name(settings.grammar).to_owned()).collect(),
        }
    }
}

impl Environment for Sokoban {
    fn instructions(&self) -> String {
        let Settings { view, symbols, grammar, max_actions_per_turn, max_steps, .. } = self.settings;
        let limit = match max_steps {
            0 => String::new(),
            n => format!(" You have {n} moves."),
        };
        format!(
            "You play Sokoban: push every box onto a target. You move one cell up, down, left or right. Moving into a box \
             pushes it, if the cell behind it is free; boxes cannot be pulled, and two cannot be pushed at once.{limit}\n\
             {}\nActions: {}. {}",
            view::legend(view, symbols),
            names(grammar),
            action_list::instruction(max_actions_per_turn),
        )
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        let Settings { rows, cols, boxes, search_depth, .. } = self.settings;
        let (board, solution) = if let Some(levels) = &self.levels {
            (levels[(seed % levels.len() as u64) as usize].clone(), None)
        } else {
            let room = room::make(seed, Plan { rows, cols, boxes, search_depth });
            let Room { board, solution } = room.ok_or_else(|| EnvironmentError::NoTask {
                environment: <Settings as registry::Settings>::NAME,
                seed,
                message: format!(
                    "neither it nor the seeds that follow from it make a room of {rows} x {cols} with {boxes} boxes and \
                     search_depth = {search_depth}; fewer `boxes`, a larger room, or with many boxes a greater \
                     `search_depth` may do"
                ),
            })?;
            (board, Some(solution))
        };
        let episode = Episode { board, steps: 0, over: false, expert: Expert::new(solution) };
        Ok(self.episode.insert(episode).turn(&self.settings))
    }

    fn step(&mut self, action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
        let episode = self.episode.as_mut().ok_or(EnvironmentError::NotStarted)?;
        if episode.over {
            return Err(EnvironmentError::EpisodeOver);
        }
        let (actions, valid_action) = parse(action, &self.settings);
        let mut feedback = String::with_capacity(64);
        if !valid_action {
            feedback.push_str(if action.is_some() { "Not a valid action" } else { "No action" });
            feedback.push_str(": the actions are ");
            feedback.push_str(&names(self.settings.grammar));
            feedback.push('.');
        }
        let mut reward = 0.0;
        for action in actions {
            reward += episode.play(action, self.settings.max_steps, &mut feedback);
            if episode.over {
                break;
            }
        }
        Ok(Outcome {
            reward: reward as f32,
            terminal: episode.over,
            success: episode.board.is_solved(),
            valid_action,
            feedback,
            turn: episode.turn(&self.settings),
        })
    }

    fn expert(&mut self) -> Option<Demonstration> {
        let Episode { board, expert, .. } = self.episode.as_mut().filter(|episode| !episode.over)?;
        let (direction, think) = expert.next(board)?;
        Some(Demonstration { think, action: Action::Move(direction).name(self.settings.grammar).to_owned() })
    }

    fn task(&self) -> Task {
        Task { text: "Push every box onto a target.".to_owned(), answer: None }
    }
}

/// The names of all actions.
fn names(grammar: Grammar) -> String {
    Action::of(grammar).iter().map(|action| action.name(grammar)).collect::<Vec<_>>().join(", ")
}
