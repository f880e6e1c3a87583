//! `sudoku`: fill a grid so that every row, column and box has every number once, as in RAGEN.
//!
//! An action puts a number into a cell that was not given, also in place of one that was put there before. The number of
//! the stored solution pays 1, another one that breaks no rule 0.5, and a full grid 10 more and ends the episode. What
//! breaks a rule, and what is no action, costs 0.1 and changes nothing. A legal action in step `max_steps` or later ends
//! the episode without success; an illegal one never does, as in RAGEN.
//!
//! With `puzzle = "ragen"` a seed gives RAGEN's puzzle, bit for bit, which may have more solutions than the stored one;
//! `puzzle = "unique"` gives puzzles with one solution. Texts, rewards and puzzles are checked against a recording of the
//! original. One thing differs: of a text that is no action, the observation quotes no more than 200 characters.
//!
//! ```toml
//! [environment]
//! name = "sudoku"
//! size = 9
//! puzzle = "unique"
//! clues = 36
//! ```

mod action;
mod expert;
mod grid;
mod puzzle;
mod solver;
mod view;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Demonstration, Environment, EnvironmentError, Outcome, Task, Traits, Turn, action_list, registry};
use action::Placement;
use grid::{Grid, digits, each};
use puzzle::Puzzle;
use view::{Shown, View};

/// The settings of `sudoku`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Cells along a side: 4, 9 or 16.
    size: usize,
    /// How puzzles are made.
    puzzle: Source,
    /// How many cells of a puzzle are empty, where `clues` does not say it.
    difficulty: Difficulty,
    /// How many numbers a unique puzzle gives: 4 to 15 at size 4, 24 to 80 at size 9, 110 to 255 at size 16; 0 for as
    /// many as `difficulty` leaves. Fewer take longer to find.
    clues: usize,
    /// The step from which on a legal action ends the episode; 0 for none.
    max_steps: usize,
    /// How many actions one answer may hold, separated by `||`.
    max_actions_per_turn: usize,
    /// How the grid is shown.
    view: View,
    /// Whether the view with feedback tells which numbers fit into the last ten empty cells, as RAGEN does.
    show_valid_numbers: bool,
}

/// How puzzles are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// As RAGEN makes them, for the seed: a full grid without some of its numbers.
    #[default]
    Ragen,
    /// So that each has one solution.
    Unique,
}

/// How many cells of a puzzle are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Difficulty {
    /// 40 percent.
    #[default]
    Easy,
    /// 50 percent.
    Medium,
    /// 60 percent.
    Hard,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            size: 4,
            puzzle: Source::default(),
            difficulty: Difficulty::default(),
            clues: 0,
            max_steps: 81,
            max_actions_per_turn: 1,
            view: View::default(),
            show_valid_numbers: true,
        }
    }
}

impl Settings {
    /// How many cells of a puzzle are empty.
    fn blanks(&self) -> usize {
        let cells = self.size * self.size;
        if self.clues > 0 {
            return cells - self.clues;
        }
        cells
            * match self.difficulty {
                Difficulty::Easy => 4,
                Difficulty::Medium => 5,
                Difficulty::Hard => 6,
            }
            / 10
    }
}

impl registry::Settings for Settings {
    const NAME: &'static str = "sudoku";
    const SUMMARY: &'static str = "Fill a grid so that every row, column and box has every number once.";

    fn check(&self) -> Result<(), EnvironmentError> {
        let fewest = match self.size {
            4 => 4,
            9 => 24,
            16 => 110,
            other => return Err(Self::misfit("size", format!("must be 4, 9 or 16, not {other}"))),
        };
        if self.clues > 0 && self.puzzle == Source::Ragen {
            return Err(Self::misfit("clues", "is for puzzle = \"unique\"; RAGEN's puzzles have a `difficulty`"));
        }
        let cells = self.size * self.size;
        if self.clues > 0 && !(fewest..cells).contains(&self.clues) {
            let message = format!("must be 0, or {fewest} to {} at size {}, not {}", cells - 1, self.size, self.clues);
            return Err(Self::misfit("clues", message));
        }
        if self.puzzle == Source::Unique && cells - self.blanks() < fewest {
            let message = format!("leaves fewer than {fewest} clues, too few for unique puzzles of size {}", self.size);
            return Err(Self::misfit("difficulty", message));
        }
        if self.max_actions_per_turn == 0 {
            return Err(Self::misfit("max_actions_per_turn", "must be at least 1"));
        }
        Ok(())
    }

    fn traits(&self) -> Traits {
        Traits { states: true, expert: true, answers: true, ..Traits::default() }
    }

    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError> {
        Ok(Box::new(Sudoku { settings: self, episode: None }))
    }
}

struct Sudoku {
    settings: Settings,
    episode: Option<Episode>,
}

struct Episode {
    given: Grid,
    solution: Grid,
    grid: Grid,
    steps: usize,
    over: bool,
    /// What the last action did; empty before the first.
    feedback: String,
}

/// What an action did.
struct Played {
    reward: f64,
    legal: bool,
}

impl Episode {
    /// Plays one action and keeps what it did as the feedback.
    fn play(&mut self, text: &str, max_steps: usize) -> Played {
        self.steps += 1;
        let illegal = Played { reward: -0.1, legal: false };
        self.feedback.clear();
        let Placement { number, row, col } = match action::parse(text, self.grid.size) {
            Ok(placement) => placement,
            Err(why) => {
                self.feedback.push_str("❌ Invalid action format: ");
                self.feedback.push_str(&why);
                return illegal;
            }
        };
        let cell = row * self.grid.size + col;
        if self.given.cells()[cell] != 0 {
            self.feedback.push_str("❌ Cannot modify initial cell at ");
            view::point(&mut self.feedback, &self.grid, cell);
            return illegal;
        }
        if !self.grid.allows(cell, number) {
            self.refuse(cell, number);
            return illegal;
        }
        self.grid.put(cell, number);
        let right = self.solution.cells()[cell] == number;
        self.feedback.push_str(if right { "✓ Correct! Placed " } else { "⚠ Placed " });
        self.feedback.push_str(digits(number.into()));
        self.feedback.push_str(" at ");
        view::point(&mut self.feedback, &self.grid, cell);
        if !right {
            self.feedback.push_str(" - Valid but not optimal");
        }
        let solved = self.is_solved();
        if solved {
            self.feedback.push_str("\n🎉 Congratulations! Puzzle solved!");
        }
        self.over = solved || (max_steps > 0 && self.steps >= max_steps);
        Played { reward: if right { 1.0 } else { 0.5 } + if solved { 10.0 } else { 0.0 }, legal: true }
    }

    /// Tells why a number cannot be put into a cell.
    fn refuse(&mut self, cell: usize, number: u8) {
        let (row, col) = self.grid.position(cell);
        let (band, stack) = (row / self.grid.side, col / self.grid.side);
        let units =
            [format!("row {}", row + 1), format!("column {}", col + 1), format!("box ({},{})", band + 1, stack + 1)];
        let taken = self.grid.around(cell).into_iter().zip(units);
        let conflicts = taken.filter(|(numbers, _)| numbers >> (number - 1) & 1 == 1).map(|(_, unit)| unit);
        let conflicts = conflicts.collect::<Vec<_>>().join(", ");
        self.feedback.push_str(&format!("❌ Invalid placement: {number} conflicts with {conflicts}"));
        if self.grid.cells()[cell] == 0 && self.grid.candidates(cell) != 0 {
            self.feedback.push_str("\n   Valid numbers for ");
            view::point(&mut self.feedback, &self.grid, cell);
            self.feedback.push_str(": ");
            view::list(&mut self.feedback, &self.grid, cell);
        }
    }

    /// The grid is full; what is in it breaks no rule.
    fn is_solved(&self) -> bool {
        self.grid.empty() == 0
    }

    fn turn(&self, settings: &Settings) -> Turn {
        let Settings { view, max_steps, show_valid_numbers, .. } = *settings;
        let Self { given, grid, feedback, steps, .. } = self;
        let shown = Shown { given, grid, feedback, steps: *steps, max_steps };
        let mut actions = Vec::with_capacity(if self.over { 0 } else { 4 * grid.empty() });
        if !self.over {
            for cell in (0..grid.cells().len()).filter(|cell| given.cells()[*cell] == 0) {
                let (row, col) = grid.position(cell);
                actions.extend(each(grid.candidates(cell)).map(|number| name(Placement { number, row, col })));
            }
        }
        Turn { observation: view::show(view, &shown, show_valid_numbers), state: Some(view::state(grid)), actions }
    }
}

/// A placement as an action.
fn name(Placement { number, row, col }: Placement) -> String {
    let parts = ["place ", digits(number.into()), " at row ", digits(row + 1), " col ", digits(col + 1)];
    parts.concat()
}

impl Environment for Sudoku {
    fn instructions(&self) -> String {
        let Settings { size, max_actions_per_turn, .. } = self.settings;
        let side = size.isqrt();
        format!(
            "You solve a Sudoku of {size}x{size} cells: fill the empty cells so that every row, every column and every \
             {side}x{side} box has every number from 1 to {size} once. Given numbers cannot be changed; numbers that you \
             placed can be replaced.\n\
             An action places one number: place N at row R col C, or R,C,N; rows and columns are counted from 1 at the \
             top left. {}",
            action_list::instruction(max_actions_per_turn),
        )
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        let (size, blanks) = (self.settings.size, self.settings.blanks());
        let (puzzle, why) = match self.settings.puzzle {
            Source::Ragen => {
                (puzzle::ragen(seed, size, blanks), "its grid takes too long to fill; other seeds do not".to_owned())
            }
            Source::Unique => {
                let clues = size * size - blanks;
                let why = format!("no puzzle with {clues} clues and one solution was found in time; set more `clues`");
                (puzzle::unique(seed, size, clues), why)
            }
        };
        let Puzzle { given, solution } = puzzle.ok_or(EnvironmentError::NoTask {
            environment: <Settings as registry::Settings>::NAME,
            seed,
            message: why,
        })?;
        let grid = given.clone();
        let episode = Episode { given, solution, grid, steps: 0, over: false, feedback: String::new() };
        Ok(self.episode.insert(episode).turn(&self.settings))
    }

    fn step(&mut self, action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
        let episode = self.episode.as_mut().ok_or(EnvironmentError::NotStarted)?;
        if episode.over {
            return Err(EnvironmentError::EpisodeOver);
        }
        let (actions, mut valid_action) =
            action_list::parse(action, self.settings.max_actions_per_turn, |part| (!part.is_empty()).then_some(part));
        let mut reward = 0.0;
        let mut feedback = String::new();
        for action in actions {
            let played = episode.play(action, self.settings.max_steps);
            reward += played.reward;
            valid_action &= played.legal;
            if !feedback.is_empty() {
                feedback.push('\n');
            }
            feedback.push_str(&episode.feedback);
            if episode.over {
                break;
            }
        }
        if feedback.is_empty() {
            feedback.push_str("No action: place a number, as in 'place 5 at row 2 col 3'.");
        }
        Ok(Outcome {
            reward: reward as f32,
            terminal: episode.over,
            success: episode.is_solved(),
            valid_action,
            feedback,
            turn: episode.turn(&self.settings),
        })
    }

    fn expert(&mut self) -> Option<Demonstration> {
        let episode = self.episode.as_ref().filter(|episode| !episode.over)?;
        let (placement, think) = expert::next(&episode.given, &episode.grid, &episode.solution)?;
        Some(Demonstration { think, action: name(placement) })
    }

    fn task(&self) -> Task {
        Task {
            text: "Fill the grid so that every row, column and box has every number once.".to_owned(),
            answer: self.episode.as_ref().map(|episode| view::answer(&episode.solution)),
        }
    }
}
