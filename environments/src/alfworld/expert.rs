//! The scripted experts: what to do next, and the thought that leads to it. The oracle knows where everything is; the
//! explorer knows what it has seen, and where things of a kind can be.

use super::game::{Ability, Game};
use super::goal::{self, Goal};
use super::state::{Command, Flag, State};

/// What is known about a game's state.
#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    /// The receptacles whose inside was seen.
    searched: Vec<bool>,
    /// The objects that were seen. Where they are is known ever after, since nothing moves but by the agent's hand.
    seen: Vec<bool>,
}

impl Knowledge {
    pub(super) fn everything(game: &Game) -> Self {
        Self { searched: vec![true; game.receptacles.len()], seen: vec![true; game.objects.len()] }
    }

    /// What one knows at first: the names of the receptacles, and what is in the hand.
    pub(super) fn nothing(game: &Game) -> Self {
        let seen = (0..game.objects.len()).map(|object| game.start.held == Some(object)).collect();
        Self { searched: vec![false; game.receptacles.len()], seen }
    }

    /// Learns from the answer to a command that led to this state.
    pub(super) fn learn(&mut self, game: &Game, state: &State, command: Command) {
        if let Command::GoTo(receptacle) | Command::Open(receptacle) | Command::ExamineReceptacle(receptacle) = command
            && !state.is_closed(game, receptacle)
        {
            self.searched[receptacle] = true;
            for object in state.inside(game, receptacle) {
                self.seen[object] = true;
            }
        }
    }
}

/// What is to be done next, with what and where; it takes some commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    Search(usize),
    Fetch(usize, usize),
    Treat(usize, usize),
    Deliver(usize, usize),
    /// Away with what is in the hand, as it is not wanted.
    PutAway(usize, usize),
    /// Switch on a lamp, or stand under it.
    Light(usize, usize),
}

impl Aim {
    fn receptacle(self) -> usize {
        match self {
            Self::Search(receptacle)
            | Self::Fetch(_, receptacle)
            | Self::Treat(_, receptacle)
            | Self::Deliver(_, receptacle)
            | Self::PutAway(_, receptacle)
            | Self::Light(_, receptacle) => receptacle,
        }
    }
}

/// What is to be done next; none if nothing helps.
pub(super) fn aim(game: &Game, state: &State, knowledge: &Knowledge) -> Option<Aim> {
    match (&game.goal, state.held) {
        (Goal::Place { treatment, .. }, Some(held)) if is_wanted(game, held) => {
            if goal::is_treated(game, state, *treatment, held) {
                return Some(Aim::Deliver(held, destination(game, state, knowledge, held)?));
            }
            let treats = |receptacle: &usize| game.receptacles[*receptacle].treats == *treatment;
            Some(Aim::Treat(held, nearest(game, state, (0..game.receptacles.len()).filter(treats))?))
        }
        (Goal::Look { .. }, Some(held)) if is_wanted(game, held) => {
            let lamps = game.lamps.iter().copied().filter(|lamp| knowledge.seen[*lamp]);
            let lamp = pick(game, state, lamps).map(|(lamp, receptacle)| Aim::Light(lamp, receptacle));
            lamp.or_else(|| search(game, state, knowledge, |receptacle| !game.receptacles[receptacle].openable))
        }
        (_, Some(held)) => {
            let fits = |receptacle: &usize| game.can_contain(*receptacle, held);
            Some(Aim::PutAway(held, nearest(game, state, (0..game.receptacles.len()).filter(fits))?))
        }
        (goal, None) => {
            let placed = match goal {
                Goal::Place { count: 2, .. } => {
                    game.targets.first().and_then(|object| destination(game, state, knowledge, *object))
                }
                _ => None,
            };
            let missing = |object: &usize| !placed.is_some_and(|there| state.is_inside(game, *object, there));
            let known = (game.targets.iter().copied()).filter(|object| {
                knowledge.seen[*object]
                    && is_wanted(game, *object)
                    && game.objects[*object].can(Ability::PickUp)
                    && missing(object)
            });
            let fetch = pick(game, state, known).map(|(object, receptacle)| Aim::Fetch(object, receptacle));
            fetch.or_else(|| search(game, state, knowledge, |receptacle| game.plausible[receptacle]))
        }
    }
}

/// The command that comes next for an aim.
pub(super) fn command(game: &Game, state: &State, aim: Aim) -> Command {
    let receptacle = aim.receptacle();
    if game.receptacles[receptacle].place != state.place {
        return Command::GoTo(receptacle);
    }
    match aim {
        Aim::Treat(object, _) => match game.receptacles[receptacle].treats {
            Some(treatment) => Command::Treat(treatment, object, receptacle),
            None => Command::ExamineReceptacle(receptacle),
        },
        Aim::Light(lamp, _) => Command::Use(lamp),
        _ if state.is_closed(game, receptacle) => Command::Open(receptacle),
        Aim::Search(_) => Command::ExamineReceptacle(receptacle),
        Aim::Fetch(object, _) => Command::Take(object, receptacle),
        Aim::Deliver(object, _) | Aim::PutAway(object, _) => Command::Put(object, receptacle),
    }
}

/// The thought before a command: the goal, what is in the hand, what is aimed at and why, and what is in the way.
pub(super) fn think(game: &Game, state: &State, aim: Aim) -> String {
    let object = |object: usize| game.objects[object].name.as_str();
    let there = game.receptacles[aim.receptacle()].name.as_str();
    let hand = state.held.map_or("hands empty".to_owned(), |held| format!("holding {}", object(held)));
    let reason = match aim {
        Aim::Search(_) => {
            let sought = match &game.goal {
                Goal::Look { lamp, .. } if state.held.is_some() => lamp,
                goal => goal.object(),
            };
            format!("no {sought} known; {there} not searched")
        }
        Aim::Fetch(fetched, _) => format!("{} is at {there}", object(fetched)),
        Aim::Treat(treated, receptacle) => {
            let treatment = game.receptacles[receptacle].treats;
            let (word, verb) = treatment.map_or(("", ""), |treatment| (treatment.adjective(), treatment.verb()));
            format!("{} is not {word}; {there} can {verb} it", object(treated))
        }
        Aim::Deliver(delivered, _) => {
            let done = match &game.goal {
                Goal::Place { treatment: Some(treatment), .. } => format!("is {} and ", treatment.adjective()),
                _ => String::new(),
            };
            format!("{} {done}goes to {there}", object(delivered))
        }
        Aim::PutAway(unwanted, _) => format!("{} is not wanted; {there} has room", object(unwanted)),
        Aim::Light(lamp, _) => format!("{} is at {there}", object(lamp)),
    };
    let way = match command(game, state, aim) {
        Command::GoTo(_) => "go there",
        Command::Open(_) => "here but closed",
        _ => "here",
    };
    format!("{}; {hand}; {reason}; {way}", game.goal.describe())
}

/// An object that the goal can be reached with.
fn is_wanted(game: &Game, object: usize) -> bool {
    let treatable = match &game.goal {
        Goal::Place { treatment, .. } => {
            treatment.is_none_or(|treatment| game.objects[object].can(treatment.ability()))
        }
        Goal::Look { .. } => true,
    };
    treatable && game.targets.contains(&object)
}

/// The receptacle that an object goes to: where most of its kind are already, as far as that is known.
fn destination(game: &Game, state: &State, knowledge: &Knowledge, object: usize) -> Option<usize> {
    let there = |receptacle: usize| {
        let inside = |target: &&usize| knowledge.seen[**target] && state.is_inside(game, **target, receptacle);
        game.targets.iter().filter(inside).count()
    };
    let fitting = game.destinations.iter().copied().filter(|receptacle| game.can_contain(*receptacle, object));
    match fitting.clone().map(there).max()? {
        0 => nearest(game, state, fitting),
        // Not the nearest one: with one of two in each of two receptacles, that would change with every walk.
        most => fitting.clone().find(|receptacle| there(*receptacle) == most),
    }
}

/// The receptacle that is here, or else the first in the list.
fn nearest(game: &Game, state: &State, receptacles: impl Iterator<Item = usize>) -> Option<usize> {
    receptacles.min_by_key(|receptacle| (game.receptacles[*receptacle].place != state.place, *receptacle))
}

/// The object that is quickest to reach, and where it is; those that are treated as the goal asks come first.
fn pick(game: &Game, state: &State, objects: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    let treatment = match &game.goal {
        Goal::Place { treatment, .. } => *treatment,
        Goal::Look { .. } => None,
    };
    let lit = |object: usize| state.has(game, Flag::Toggled, object);
    let with_place = objects.flat_map(|object| {
        let holds = move |receptacle: &usize| state.is_inside(game, object, *receptacle);
        (0..game.receptacles.len()).filter(holds).map(move |receptacle| (object, receptacle))
    });
    with_place.min_by_key(|&(object, receptacle)| {
        let away = game.receptacles[receptacle].place != state.place;
        (!goal::is_treated(game, state, treatment, object), !lit(object), away, object, receptacle)
    })
}

/// The next receptacle to search: a likely one, one that is here, the first in the list.
fn search(game: &Game, state: &State, knowledge: &Knowledge, likely: impl Fn(usize) -> bool) -> Option<Aim> {
    let unknown = (0..game.receptacles.len()).filter(|receptacle| !knowledge.searched[*receptacle]);
    let next = unknown
        .min_by_key(|&receptacle| (!likely(receptacle), game.receptacles[receptacle].place != state.place, receptacle));
    next.map(Aim::Search)
}
