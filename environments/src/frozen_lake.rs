//! `frozen-lake`: a walk over ice with holes, as in RAGEN and gymnasium.
//!
//! A map of `size` x `size` cells; the agent reaches the goal (reward 1) or falls into a hole (reward 0), and both end
//! the episode. There is no limit of steps here: that is the rollout's. On slippery ice a move goes where it was meant
//! to with `success_rate`, and to each of its two sides with half of the rest; at the edge the agent stays.
//!
//! A seed gives the map and the slipping that RAGEN's environment gives for it, bit for bit, and the views are its
//! texts: both are checked against a recording of the original. So all episodes of a seed meet the same slips, and as the
//! original draws map and slips from one stream, slips are not quite independent of the map (the best player loses about
//! one point of success to that). With `map = "gym"`, the map is gymnasium's fixed 4x4 one
//! and the slipping is gymnasium's for the seed.
//!
//! ```toml
//! [environment]
//! name = "frozen-lake"
//! size = 4
//! p_frozen = 0.9
//! success_rate = 1.0
//! view = "grid_coord"
//! ```

mod expert;
mod map;
mod motion;
mod view;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::numpy_random::Pcg64;
use crate::{Demonstration, Environment, EnvironmentError, Outcome, Task, Traits, Turn, action_list, registry};
use expert::Plan;
use map::{Cell, Map, Misfits};
use motion::Direction;
use view::View;

/// The settings of `frozen-lake`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Cells along a side of the map, 2 to 64.
    size: usize,
    /// Where maps come from.
    map: MapSource,
    /// The probability that a cell of a random map is frozen; every other cell is a hole.
    p_frozen: f64,
    /// The fewest moves from start to goal, at most `2 * (size - 1)`; random maps that have fewer are drawn again. 1 is
    /// RAGEN's rule: start and goal differ.
    min_distance: usize,
    /// The probability that a move goes where it was meant to; 1 means that the ice is not slippery.
    success_rate: f64,
    /// How many actions one answer may hold, separated by `||`. With more than 1, RAGEN's rules hold: what is no action
    /// is left out and makes the answer invalid, the actions beside it are played, and those beyond the limit are not.
    max_actions_per_turn: usize,
    /// How the map is shown.
    view: View,
    /// How many actions the expert plans for on slippery ice: as many as an episode has.
    expert_horizon: usize,
}

/// Where maps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MapSource {
    /// Random cells, start and goal, with a way between them.
    Random,
    /// The fixed 4x4 map of gymnasium.
    Gym,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            size: 4,
            map: MapSource::Random,
            p_frozen: 0.9,
            min_distance: 1,
            success_rate: 0.8,
            max_actions_per_turn: 1,
            view: View::default(),
            expert_horizon: 10,
        }
    }
}

impl registry::Settings for Settings {
    const NAME: &'static str = "frozen-lake";
    const SUMMARY: &'static str = "Walk over ice to the goal without falling into a hole.";

    fn check(&self) -> Result<(), EnvironmentError> {
        let probability = |value: f64| (0.0..=1.0).contains(&value);
        if !(2..=64).contains(&self.size) {
            return Err(Self::misfit("size", format!("must be 2 to 64, not {}", self.size)));
        }
        if self.map == MapSource::Gym && self.size != 4 {
            return Err(Self::misfit("size", format!("the gym map is 4x4, so this must be 4, not {}", self.size)));
        }
        if !probability(self.p_frozen) {
            return Err(Self::misfit("p_frozen", format!("must be a probability, 0 to 1, not {}", self.p_frozen)));
        }
        let farthest = 2 * (self.size - 1);
        if !(1..=farthest).contains(&self.min_distance) {
            let message = format!("must be 1 to {farthest} for maps of size {}, not {}", self.size, self.min_distance);
            return Err(Self::misfit("min_distance", message));
        }
        if !probability(self.success_rate) {
            return Err(Self::misfit(
                "success_rate",
                format!("must be a probability, 0 to 1, not {}", self.success_rate),
            ));
        }
        if self.max_actions_per_turn == 0 {
            return Err(Self::misfit("max_actions_per_turn", "must be at least 1"));
        }
        if !(1..=1000).contains(&self.expert_horizon) {
            return Err(Self::misfit("expert_horizon", format!("must be 1 to 1000, not {}", self.expert_horizon)));
        }
        Ok(())
    }

    fn traits(&self) -> Traits {
        Traits { states: true, expert: true, ..Traits::default() }
    }

    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError> {
        Ok(Box::new(FrozenLake { settings: self, episode: None }))
    }
}

struct FrozenLake {
    settings: Settings,
    episode: Option<Episode>,
}

struct Episode {
    map: Map,
    place: usize,
    /// Actions played so far.
    used: usize,
    /// What the ice does: one number per action.
    ice: Pcg64,
    /// Made when the expert is first asked.
    plan: Option<Plan>,
}

impl Episode {
    fn is_over(&self) -> bool {
        self.map.cells[self.place] != Cell::Floor
    }

    /// Plays one action and says what happened.
    fn play(&mut self, intended: Direction, success_rate: f64, feedback: &mut String) {
        let actual = motion::pick(motion::outcomes(intended, success_rate), self.ice.uniform());
        let next = self.map.neighbour(self.place, actual);
        self.place = next.unwrap_or(self.place);
        self.used += 1;
        let (before, after) = if next.is_some() { ("moved ", "") } else { ("ran into the ", " edge") };
        let end = match self.map.cells[self.place] {
            Cell::Floor => ".",
            Cell::Hole => " and fell into a hole.",
            Cell::Goal => " and reached the goal.",
        };
        let space = if feedback.is_empty() { "" } else { " " };
        let slipped = if actual == intended { "" } else { "slipped and " };
        for part in [space, "You ", slipped, before, actual.name(), after, end] {
            feedback.push_str(part);
        }
    }

    fn turn(&self, view: View) -> Turn {
        let actions: &[Direction] = if self.is_over() { &[] } else { &Direction::ALL };
        let state = view::grid(&self.map, self.place);
        Turn {
            observation: match view {
                View::Grid => state.clone(),
                view => view::show(view, &self.map, self.place),
            },
            state: Some(state),
            actions: actions.iter().map(|direction| direction.name().to_owned()).collect(),
        }
    }
}

impl Environment for FrozenLake {
    fn instructions(&self) -> String {
        let ice = if self.settings.success_rate < 1.0 {
            format!(
                "The ice is slippery: a move goes where you mean it to with probability {}, else to one of its two sides.",
                self.settings.success_rate
            )
        } else {
            "The ice is not slippery.".to_owned()
        };
        format!(
            "You are on a frozen lake. Walk to the goal without falling into a hole. {ice} \
             At the edge of the lake you stay where you are.\n{}\nActions: {}. {}",
            view::legend(self.settings.view),
            Direction::ALL.map(Direction::name).join(", "),
            action_list::instruction(self.settings.max_actions_per_turn),
        )
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        let Settings { size, p_frozen, min_distance, .. } = self.settings;
        let map = match self.settings.map {
            MapSource::Gym => Ok(Map::gym()),
            MapSource::Random => Map::random(seed, size, p_frozen, min_distance),
        };
        let map = map.map_err(|Misfits { draws, farthest }| EnvironmentError::NoTask {
            environment: <Settings as registry::Settings>::NAME,
            seed,
            message: format!(
                "of {draws} random maps with p_frozen = {p_frozen}, none has its goal {min_distance} or more moves away; {}",
                match farthest {
                    Some(farthest) => format!("the farthest is {farthest} away: lower `min_distance`"),
                    None => "no goal can be reached at all: raise `p_frozen`".to_owned(),
                }
            ),
        })?;
        let mut ice = Pcg64::new(seed);
        // The original draws its starting state here, though there is only one.
        ice.uniform();
        let episode = Episode { place: map.start, map, used: 0, ice, plan: None };
        Ok(self.episode.insert(episode).turn(self.settings.view))
    }

    fn step(&mut self, action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
        let episode = self.episode.as_mut().ok_or(EnvironmentError::NotStarted)?;
        if episode.is_over() {
            return Err(EnvironmentError::EpisodeOver);
        }
        let (directions, valid_action) =
            action_list::parse(action, self.settings.max_actions_per_turn, Direction::parse);
        let mut feedback = String::with_capacity(64);
        if !valid_action {
            let what = if action.is_some() { "Not a valid action" } else { "No action" };
            feedback.push_str(what);
            feedback.push_str(": the actions are ");
            feedback.push_str(&Direction::ALL.map(Direction::name).join(", "));
            feedback.push('.');
        }
        for direction in directions {
            episode.play(direction, self.settings.success_rate, &mut feedback);
            if episode.is_over() {
                break;
            }
        }
        let success = episode.map.cells[episode.place] == Cell::Goal;
        Ok(Outcome {
            reward: f32::from(u8::from(success)),
            terminal: episode.is_over(),
            success,
            valid_action,
            feedback,
            turn: episode.turn(self.settings.view),
        })
    }

    fn expert(&mut self) -> Option<Demonstration> {
        let episode = self.episode.as_mut().filter(|episode| !episode.is_over())?;
        let Settings { success_rate, expert_horizon, .. } = self.settings;
        let plan = episode.plan.get_or_insert_with(|| Plan::new(&episode.map, success_rate, expert_horizon));
        Some(Demonstration {
            think: expert::think(&episode.map, episode.place),
            action: plan.best(&episode.map, episode.place, episode.used).name().to_owned(),
        })
    }

    fn task(&self) -> Task {
        Task { text: "Walk to the goal without falling into a hole.".to_owned(), answer: None }
    }
}
