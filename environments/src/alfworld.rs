//! `alfworld`: household tasks in text, as in ALFWorld (TextWorld with the rules of ALFRED).
//!
//! The agent stands in a room with receptacles (cabinets, tables, a fridge), goes to them, opens them, takes things out,
//! cleans, heats or cools them, and puts them where the task wants them. The answer to a command is the only thing that
//! it sees. A command must be one of those that would be executed now, letter by letter; anything else is answered by
//! `Nothing happens.` and changes nothing. An episode ends when the task is solved; there is no limit of steps here, that
//! is the rollout's.
//!
//! Games are the original's, read from the folder that `data` names, with the wording that each game brings along
//! (`put X in/on Y` or `move X to Y`); without `data` they are made here, with ALFRED's tables of what goes where, and
//! every one is solved once before it is given away. Rules and texts are checked against recordings of the original.
//!
//! The splits never meet. In the original's data they are its folders. Of the games that are made here, `valid_unseen`
//! has floor plans that the others never have; `valid_seen` has the floor plans of `train` with goals that training never
//! has on them.
//!
//! ```toml
//! [environment]
//! name = "alfworld"
//! data = "/data/alfworld/json_2.1.1"
//! split = "train"
//! success_reward = 10.0
//! ```

mod builtin;
mod catalogue;
mod expert;
mod game;
mod goal;
mod grammar;
mod house;
mod pddl;
mod problem;
mod state;
mod tables;
mod trial;
mod wording;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Demonstration, Environment, EnvironmentError, Outcome, Task, Traits, Turn, registry};
use catalogue::Catalogue;
use expert::Knowledge;
use game::Game;
use goal::TaskType;
use house::House;
use state::{Command, State};
use wording::Wording;

/// What the sentence that gives the task begins with.
const TASK: &str = "Your task is to: ";

/// The answer to what is no command.
const NOTHING: &str = "Nothing happens.";

/// The settings of `alfworld`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// A folder with the original's games (`json_2.1.1`, with a folder for each split); empty: games are made here.
    data: PathBuf,
    /// Which tasks are played. With `data`, a seed's game is the one with the seed's number in the order of paths, going
    /// round; the tasks that are made here do not end.
    split: Split,
    /// The kinds of tasks that are played.
    task_types: Vec<TaskType>,
    /// How large the houses are that are made here.
    house: House,
    /// What a solved task pays. The original pays 1; verl and RAGEN pay 10.
    success_reward: f32,
    /// What is paid for.
    reward: Reward,
    /// How an observation shows the commands that would be executed now.
    commands: Commands,
    /// Commands are put into lower case before they are looked up, as verl does.
    ignore_case: bool,
    /// Who demonstrates.
    expert: Expert,
}

/// Tasks that never meet those of another split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Split {
    /// The tasks to learn from.
    Train,
    /// Held-out tasks in rooms that training has seen.
    ValidSeen,
    /// Held-out tasks in rooms that training never sees.
    ValidUnseen,
}

impl Split {
    /// Its folder in the original's data.
    fn folder(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::ValidSeen => "valid_seen",
            Self::ValidUnseen => "valid_unseen",
        }
    }
}

/// What is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Reward {
    /// The solved task.
    Success,
    /// Every condition of the goal when it comes true, in equal parts, and as much is taken back when it no longer holds:
    /// over an episode that begins with none of them and solves the task, the sum is the same.
    GoalConditions,
}

/// How an observation shows the commands that would be executed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Commands {
    /// Not at all.
    Hidden,
    /// In a list after the text, as RAGEN does: `Admissible actions: [look, go to desk 1]`.
    Listed,
    /// The same with each in quotes on a line of its own and without `help`, as in verl's prompt.
    Quoted,
}

/// Who demonstrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Expert {
    /// Knows where everything is.
    Oracle,
    /// Knows only what it has seen, and searches for the rest.
    Explorer,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data: PathBuf::new(),
            split: Split::Train,
            task_types: TaskType::ALL.to_vec(),
            house: House::Full,
            success_reward: 1.0,
            reward: Reward::Success,
            commands: Commands::Listed,
            ignore_case: false,
            expert: Expert::Explorer,
        }
    }
}

impl Settings {
    /// The games of `data`; none if games are made here.
    fn catalogue(&self) -> Result<Option<Arc<Catalogue>>, EnvironmentError> {
        if self.data.as_os_str().is_empty() {
            return Ok(None);
        }
        let catalogue = catalogue::open(&self.data, self.split, &self.task_types);
        catalogue.map(Some).map_err(|message| <Self as registry::Settings>::misfit("data", message))
    }
}

impl registry::Settings for Settings {
    const NAME: &'static str = "alfworld";
    const SUMMARY: &'static str =
        "Household tasks: find things, clean, heat or cool them, and put them in their place.";

    fn check(&self) -> Result<(), EnvironmentError> {
        if self.task_types.is_empty() {
            return Err(Self::misfit("task_types", "there must be at least one"));
        }
        if !self.success_reward.is_finite() || self.success_reward <= 0.0 {
            return Err(Self::misfit("success_reward", format!("must be above 0, not {}", self.success_reward)));
        }
        if self.catalogue()?.is_some() && self.house != House::Full {
            return Err(Self::misfit("house", "says how houses are made here, and `data` names a folder of games"));
        }
        Ok(())
    }

    fn traits(&self) -> Traits {
        // `check` comes first, so the folder is known to hold games.
        let tasks = self.catalogue().ok().flatten().map(|catalogue| catalogue.len() as u64);
        Traits { states: true, expert: true, tasks, ..Traits::default() }
    }

    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError> {
        let (games, wording) = match self.catalogue()? {
            Some(catalogue) => {
                let first = catalogue.game(0).map_err(|message| Self::misfit("data", message))?;
                (Games::Folder(catalogue), Arc::clone(&first.wording))
            }
            None => (Games::Made, builtin::wording()),
        };
        Ok(Box::new(Alfworld { settings: self, games, wording, episode: None }))
    }
}

/// Something that does not fit in a text of a game.
#[derive(Debug)]
struct Misfit {
    /// The line, from 1; 0 if it is no line's.
    line: usize,
    message: String,
}

impl Misfit {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// Where games come from.
enum Games {
    /// They are made here.
    Made,
    /// From a folder.
    Folder(Arc<Catalogue>),
    /// There is one, whatever the seed.
    One(Arc<Game>),
}

/// An environment with one game and nothing in its observations but the game's own texts: that of a file
/// `game.tw-pddl`, or that of a PDDL problem with the sentence that gives its task. The error is a message.
pub(crate) fn with_one_game(game: OneGame<'_>) -> Result<Box<dyn Environment>, String> {
    let game = match game {
        OneGame::File(path) => catalogue::read_game(path)?,
        OneGame::Problem { text, task } => problem::read(text, builtin::wording(), task.to_owned())
            .map_err(|Misfit { line, message }| format!("initial_state.pddl, line {line}: {message}"))?,
    };
    let (settings, wording) =
        (Settings { commands: Commands::Hidden, ..Settings::default() }, Arc::clone(&game.wording));
    Ok(Box::new(Alfworld { settings, games: Games::One(Arc::new(game)), wording, episode: None }))
}

/// Where a single game is read.
#[derive(Clone, Copy)]
pub(crate) enum OneGame<'a> {
    File(&'a Path),
    Problem { text: &'a str, task: &'a str },
}

struct Alfworld {
    settings: Settings,
    games: Games,
    /// The wording of the first game, for the instructions.
    wording: Arc<Wording>,
    episode: Option<Episode>,
}

/// A game that is being played.
struct Episode {
    game: Arc<Game>,
    state: State,
    /// The commands that would be executed now, in the order of their texts; none once the episode is over.
    commands: Vec<Command>,
    knowledge: Knowledge,
    over: bool,
}

impl Episode {
    fn new(game: Arc<Game>, expert: Expert) -> Self {
        let knowledge = match expert {
            Expert::Oracle => Knowledge::everything(&game),
            Expert::Explorer => Knowledge::nothing(&game),
        };
        Self { state: game.start.clone(), game, commands: Vec::new(), knowledge, over: false }
    }

    /// The command that a text is, if it would be executed now.
    fn find(&self, text: &str) -> Option<Command> {
        let mut other = String::new();
        let found = self.commands.binary_search_by(|command| {
            other.clear();
            Wording::command(&self.game, &self.state, *command, &mut other);
            other.as_str().cmp(text)
        });
        found.ok().map(|index| self.commands[index])
    }

    /// Executes a command and gives the answer.
    fn execute(&mut self, command: Command) -> String {
        self.state.apply(&self.game, command);
        self.knowledge.learn(&self.game, &self.state, command);
        self.over = goal::is_met(&self.game, &self.state);
        Wording::feedback(&self.game, &self.state, command)
    }

    /// The share of the goal's conditions that hold.
    fn share_met(&self) -> f32 {
        let (met, all) = goal::conditions(&self.game, &self.state);
        met as f32 / all as f32
    }

    /// Finds out which commands would be executed now, and gives their texts.
    fn list(&mut self) -> Vec<String> {
        let commands = if self.over { Vec::new() } else { self.state.commands(&self.game) };
        let with_text = |command: Command| {
            let mut text = String::with_capacity(40);
            Wording::command(&self.game, &self.state, command, &mut text);
            (text, command)
        };
        let mut listed: Vec<(String, Command)> = commands.into_iter().map(with_text).collect();
        listed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (texts, commands) = listed.into_iter().unzip();
        self.commands = commands;
        texts
    }

    /// What the agent sees now, after a text.
    fn turn(&mut self, text: &str, shown: Commands) -> Turn {
        let actions = self.list();
        let mut observation = text.to_owned();
        if !actions.is_empty() {
            match shown {
                Commands::Hidden => {}
                Commands::Listed => {
                    observation.push_str("\n\nAdmissible actions: [");
                    append(&mut observation, actions.iter(), "", ", ");
                    observation.push(']');
                }
                Commands::Quoted => {
                    observation.push_str("\n\nAdmissible actions: [");
                    append(&mut observation, actions.iter().filter(|action| *action != "help"), "'", "\n ");
                    observation.push(']');
                }
            }
        }
        Turn { observation, state: Some(self.state.key(&self.game)), actions }
    }
}

/// Writes items in quotes, with a separator between them.
fn append<'a>(out: &mut String, items: impl Iterator<Item = &'a String>, quote: &str, separator: &str) {
    for (index, item) in items.enumerate() {
        for part in [if index == 0 { "" } else { separator }, quote, item, quote] {
            out.push_str(part);
        }
    }
}

impl Environment for Alfworld {
    fn instructions(&self) -> String {
        format!(
            "You are in a room with receptacles that hold things. Go to them and open them to see what they hold; carry \
             one thing at a time. Clean things with a sinkbasin, heat them with a microwave, cool them with a fridge, and \
             do what the task says.\nAnswer with one command, written exactly as it is listed or seen. Commands: {}.",
            self.wording.commands().join(", ")
        )
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        let Settings { split, house, ref task_types, expert, commands, .. } = self.settings;
        let game = match &self.games {
            Games::One(game) => Arc::clone(game),
            Games::Folder(catalogue) => catalogue.game(seed).map_err(EnvironmentError::Failed)?,
            Games::Made => {
                let game = trial::generate(seed, split, task_types, house);
                Arc::new(game.ok_or_else(|| EnvironmentError::NoTask {
                    environment: <Settings as registry::Settings>::NAME,
                    seed,
                    message: format!("none of {} draws gave one that can be solved", trial::DRAWS),
                })?)
            }
        };
        let intro = Wording::intro(&game, &game.start);
        Ok(self.episode.insert(Episode::new(game, expert)).turn(&intro, commands))
    }

    fn step(&mut self, action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
        let episode = self.episode.as_mut().ok_or(EnvironmentError::NotStarted)?;
        if episode.over {
            return Err(EnvironmentError::EpisodeOver);
        }
        let before = episode.share_met();
        let text = action.unwrap_or_default().trim();
        let command = if self.settings.ignore_case { episode.find(&text.to_lowercase()) } else { episode.find(text) };
        let feedback = match command {
            Some(command) => episode.execute(command),
            None => NOTHING.to_owned(),
        };
        let success = episode.over;
        let paid = match self.settings.reward {
            Reward::Success => f32::from(u8::from(success)),
            Reward::GoalConditions => episode.share_met() - before,
        };
        Ok(Outcome {
            reward: paid * self.settings.success_reward,
            terminal: success,
            success,
            valid_action: command.is_some(),
            turn: episode.turn(&feedback, self.settings.commands),
            feedback,
        })
    }

    fn expert(&mut self) -> Option<Demonstration> {
        let Episode { game, state, knowledge, .. } = self.episode.as_ref().filter(|episode| !episode.over)?;
        let aim = expert::aim(game, state, knowledge)?;
        let mut action = String::new();
        Wording::command(game, state, expert::command(game, state, aim), &mut action);
        Some(Demonstration { think: expert::think(game, state, aim), action })
    }

    fn task(&self) -> Task {
        let sentence = self.episode.as_ref().map_or("", |episode| episode.game.task.as_str());
        Task { text: sentence.strip_prefix(TASK).unwrap_or(sentence).to_owned(), answer: None }
    }
}
