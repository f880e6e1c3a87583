//! The six kinds of tasks: when they are solved, and how much of one is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::game::{Game, Treatment};
use super::state::{Flag, State};

/// A kind of task. The names are the data set's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub(super) enum TaskType {
    /// An object goes into or onto a receptacle.
    #[serde(rename = "pick_and_place_simple")]
    Place,
    /// The agent holds an object where a lamp shines.
    #[serde(rename = "look_at_obj_in_light")]
    Look,
    /// An object is cleaned in the sink first.
    #[serde(rename = "pick_clean_then_place_in_recep")]
    Clean,
    /// An object is heated in the microwave first.
    #[serde(rename = "pick_heat_then_place_in_recep")]
    Heat,
    /// An object is cooled in the fridge first.
    #[serde(rename = "pick_cool_then_place_in_recep")]
    Cool,
    /// Two objects go into or onto one receptacle.
    #[serde(rename = "pick_two_obj_and_place")]
    PlaceTwo,
}

impl TaskType {
    pub(super) const ALL: [Self; 6] = [Self::Place, Self::Look, Self::Clean, Self::Heat, Self::Cool, Self::PlaceTwo];

    pub(super) fn treatment(self) -> Option<Treatment> {
        match self {
            Self::Clean => Some(Treatment::Clean),
            Self::Heat => Some(Treatment::Heat),
            Self::Cool => Some(Treatment::Cool),
            Self::Place | Self::Look | Self::PlaceTwo => None,
        }
    }
}

/// What a game asks for. Kinds are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// `count` objects of a kind, treated if that is asked for, in one receptacle of a kind.
    Place { object: String, receptacle: String, treatment: Option<Treatment>, count: usize },
    /// An object of a kind in the hand, where a lamp of a kind stands and is on.
    Look { object: String, lamp: String },
}

impl Goal {
    /// The kind of object that it is about.
    pub(super) fn object(&self) -> &str {
        match self {
            Self::Place { object, .. } | Self::Look { object, .. } => object,
        }
    }

    /// In a few words, equal for equal goals.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Place { object, receptacle, treatment, count } => {
                let two = if *count == 1 { "" } else { "two " };
                let treated = treatment.map(|treatment| format!("{} ", treatment.adjective())).unwrap_or_default();
                format!("{two}{treated}{object} to {receptacle}")
            }
            Self::Look { object, lamp } => format!("{object} under {lamp}"),
        }
    }
}

/// An object has had what the task asks for.
pub(super) fn is_treated(game: &Game, state: &State, treatment: Option<Treatment>, object: usize) -> bool {
    treatment.is_none_or(|treatment| {
        game.objects[object].can(treatment.ability()) && state.has(game, treatment.flag(), object)
    })
}

/// How many conditions of the goal hold, and how many there are, as ALFRED counts them: one for an object in its place;
/// two for two of them; three where it is treated first (in place, treated, both in one object); two for an object in
/// the hand and a shining lamp where the agent stands. All of them hold if and only if the task is solved.
pub(super) fn conditions(game: &Game, state: &State) -> (usize, usize) {
    match game.goal {
        Goal::Place { treatment, count, .. } => {
            let (mut most, mut in_place, mut both) = (0, false, false);
            for &receptacle in &game.destinations {
                let inside = || game.targets.iter().filter(|object| state.is_inside(game, **object, receptacle));
                most = most.max(inside().count());
                in_place |= inside().next().is_some();
                both |= inside().any(|object| is_treated(game, state, treatment, *object));
            }
            if treatment.is_none() {
                return (most.min(count), count);
            }
            let treated = game.targets.iter().any(|object| is_treated(game, state, treatment, *object));
            (usize::from(in_place) + usize::from(treated) + usize::from(both), 3)
        }
        Goal::Look { .. } => {
            let holds = state.held.is_some_and(|held| game.targets.contains(&held));
            let here = &game.places[state.place].receptacles;
            let shines = |lamp: &usize| {
                state.has(game, Flag::Toggled, *lamp) && here.iter().any(|there| state.is_inside(game, *lamp, *there))
            };
            (usize::from(holds) + usize::from(game.lamps.iter().any(shines)), 2)
        }
    }
}

/// The task is solved.
pub(super) fn is_met(game: &Game, state: &State) -> bool {
    let (met, all) = conditions(game, state);
    met == all
}
