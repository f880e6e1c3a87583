//! Tasks that are made here: from a seed a floor plan, a goal that fits it, and things lying about. Every one is solved
//! by the oracle before it is given away.

use std::collections::HashSet;

use accredit_core::rng::{Purpose, Stream};

use super::expert::{self, Knowledge};
use super::game::{Ability, Game, Object, Parts, Receptacle, Treatment};
use super::goal::{self, Goal, TaskType};
use super::house::{self, FloorPlan, House};
use super::tables::{self, Kind, OBJECTS, Room};
use super::{Split, builtin};

/// How many tasks are drawn before a seed counts as one without a task.
pub(super) const DRAWS: u64 = 10_000;

/// One goal in so many, on the floor plans of training, is kept for [`Split::ValidSeen`].
const SEEN_SHARE: u64 = 8;

/// No solution takes longer.
const LONGEST: usize = 100;

/// The game of a seed; none if no draw gives one.
pub(super) fn generate(seed: u64, split: Split, types: &[TaskType], house: House) -> Option<Game> {
    let stream = Stream::new(seed, Purpose::Environment).with(split as u64);
    (0..DRAWS).find_map(|draw| {
        let mut draws = Draws { stream: stream.with(draw), position: 0 };
        attempt(&mut draws, split, types, house).filter(is_solvable)
    })
}

/// The oracle solves the game.
fn is_solvable(game: &Game) -> bool {
    let knowledge = Knowledge::everything(game);
    let mut state = game.start.clone();
    for _ in 0..LONGEST {
        let Some(aim) = expert::aim(game, &state, &knowledge) else { return false };
        state.apply(game, expert::command(game, &state, aim));
        if goal::is_met(game, &state) {
            return true;
        }
    }
    false
}

/// Random numbers, one after another.
struct Draws {
    stream: Stream,
    position: u64,
}

impl Draws {
    fn below(&mut self, count: usize) -> usize {
        self.position += 1;
        self.stream.below(self.position, count as u64) as usize
    }

    /// A number of a range, both ends included.
    fn between(&mut self, (fewest, most): (usize, usize)) -> usize {
        fewest + self.below(most - fewest + 1)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        (!items.is_empty()).then(|| items[self.below(items.len())])
    }
}

/// How many kinds of objects lie about beside the goal's, and how many of each, and how many of the goal's.
struct Amounts {
    kinds: (usize, usize),
    each: (usize, usize),
    targets: (usize, usize),
}

fn amounts(house: House) -> Amounts {
    match house {
        House::Full => Amounts { kinds: (6, 14), each: (1, 3), targets: (1, 3) },
        House::Small => Amounts { kinds: (2, 4), each: (1, 1), targets: (1, 1) },
    }
}

/// One draw of a task; none if it does not fit together, or belongs to another split.
fn attempt(draws: &mut Draws, split: Split, types: &[TaskType], house: House) -> Option<Game> {
    let task_type = draws.pick(types)?;
    let room = draws.pick(match task_type {
        TaskType::Place | TaskType::PlaceTwo => &Room::ALL[..],
        TaskType::Look => &[Room::Living, Room::Bedroom],
        TaskType::Clean => &[Room::Kitchen, Room::Bathroom],
        TaskType::Heat | TaskType::Cool => &[Room::Kitchen],
    })?;
    let plans = house::plans(room, house, split == Split::ValidUnseen);
    let number = draws.below(plans.len());
    let plan = &plans[number];
    let kinds: Vec<&'static str> = plan.counts().into_keys().collect();
    let treatment = task_type.treatment();
    let wanted = |object: &&Kind| {
        let treatable = |treatment: Treatment| object.abilities().has(treatment.ability());
        object.is_in(room) && treatment.is_none_or(treatable)
    };
    let object = draws.pick(&OBJECTS.iter().filter(wanted).collect::<Vec<_>>())?;
    // Where the object is to go: a kind of receptacle, or a kind of lamp.
    let end = if task_type == TaskType::Look {
        draws.pick(&tables::LAMPS)?
    } else {
        let fits = |kind: &&'static str| {
            object.goes_into(kind) && treatment.is_none_or(|treatment| treatment.appliance() != *kind)
        };
        draws.pick(&kinds.iter().copied().filter(fits).collect::<Vec<_>>())?
    };
    if split != Split::ValidUnseen && is_kept(room, number, task_type, object.name, end) != (split == Split::ValidSeen)
    {
        return None;
    }

    let mut things = Things { plan, lying: Vec::new() };
    let Amounts { kinds, each, targets } = amounts(house);
    let copies = draws.between(targets);
    for _ in 0..if task_type == TaskType::PlaceTwo { copies.max(2) } else { copies } {
        things.lay(draws, object.name, |kind| object.goes_into(kind) && kind != end)?;
    }
    if task_type == TaskType::Look {
        things.lay(draws, end, |kind| tables::LAMP_STANDS.contains(&kind))?;
    }
    let mut others: Vec<&Kind> =
        OBJECTS.iter().filter(|other| other.is_in(room) && other.name != object.name).collect();
    for _ in 0..draws.between(kinds).min(others.len()) {
        let other = others.swap_remove(draws.below(others.len()));
        for _ in 0..draws.between(each) {
            // What goes nowhere in this room is not there.
            let _ = things.lay(draws, other.name, |kind| other.goes_into(kind));
        }
    }
    let count = if task_type == TaskType::PlaceTwo { 2 } else { 1 };
    let goal = match task_type {
        TaskType::Look => Goal::Look { object: object.name.to_owned(), lamp: end.to_owned() },
        _ => Goal::Place { object: object.name.to_owned(), receptacle: end.to_owned(), treatment, count },
    };
    let task = sentence(task_type, object.name, end, draws.below(2) == 0);
    Some(things.game(goal, task))
}

/// The goal on this floor plan is kept for the held-out tasks of rooms that training has seen.
fn is_kept(room: Room, plan: usize, task_type: TaskType, object: &str, end: &str) -> bool {
    let address = Stream::new(0, Purpose::Task).with(room as u64).with(plan as u64).with(task_type as u64);
    let hash = object.bytes().chain([0]).chain(end.bytes()).fold(address, |hash, byte| hash.with(byte.into()));
    hash.below(0, SEEN_SHARE) == 0
}

/// The sentence that gives the task, in one of two forms.
fn sentence(task_type: TaskType, object: &str, end: &str, first: bool) -> String {
    let task = match (task_type, first) {
        (TaskType::Place, true) => format!("put a {object} in {end}"),
        (TaskType::Place, false) => format!("put some {object} on {end}"),
        (TaskType::Look, true) => format!("look at {object} under the {end}"),
        (TaskType::Look, false) => format!("examine the {object} with the {end}"),
        (TaskType::Clean, true) => format!("put a clean {object} in {end}"),
        (TaskType::Clean, false) => format!("clean some {object} and put it in {end}"),
        (TaskType::Heat, true) => format!("put a hot {object} in {end}"),
        (TaskType::Heat, false) => format!("heat some {object} and put it in {end}"),
        (TaskType::Cool, true) => format!("put a cool {object} in {end}"),
        (TaskType::Cool, false) => format!("cool some {object} and put it in {end}"),
        (TaskType::PlaceTwo, true) => format!("put two {object} in {end}"),
        (TaskType::PlaceTwo, false) => format!("find two {object} and put them in {end}"),
    };
    format!("{}{task}.", super::TASK)
}

/// What lies about in a room.
struct Things<'a> {
    plan: &'a FloorPlan,
    /// Kinds of objects and the receptacles that they are in.
    lying: Vec<(&'static str, usize)>,
}

impl Things<'_> {
    /// Lays a thing into or onto one of the receptacles that fit; none if there is none.
    fn lay(&mut self, draws: &mut Draws, kind: &'static str, fits: impl Fn(&str) -> bool) -> Option<()> {
        let receptacles = self.plan.receptacles.iter().enumerate();
        let spots: Vec<usize> = receptacles.filter(|(_, (kind, _, _))| fits(kind)).map(|(index, _)| index).collect();
        self.lying.push((kind, draws.pick(&spots)?));
        Some(())
    }

    fn game(mut self, goal: Goal, task: String) -> Game {
        let receptacle = |(kind, number, place): &(&'static str, usize, usize)| Receptacle {
            name: format!("{kind} {number}"),
            kind: (*kind).to_owned(),
            place: *place,
            openable: tables::is_openable(kind),
            treats: Treatment::ALL.into_iter().find(|treatment| treatment.appliance() == *kind),
        };
        let receptacles: Vec<Receptacle> = self.plan.receptacles.iter().map(receptacle).collect();
        self.lying.sort_by_key(|(kind, _)| *kind);
        let objects = self.lying.iter().enumerate().map(|(index, (kind, _))| {
            let known = OBJECTS.iter().find(|known| known.name == *kind);
            let abilities = known.map_or_else(|| [Ability::Toggle].into_iter().collect(), Kind::abilities);
            // Numbers run down within a kind.
            let number = self.lying[index..].iter().take_while(|(other, _)| other == kind).count();
            Object { name: format!("{kind} {number}"), kind: (*kind).to_owned(), abilities, contents: Vec::new() }
        });
        let objects = objects.collect();
        let inside = || self.lying.iter().enumerate().map(|(object, (_, receptacle))| (object, *receptacle));
        let pairs = self.plan.counts().into_keys().flat_map(|receptacle| {
            let inside = OBJECTS.iter().filter(move |object| object.goes_into(receptacle));
            inside.map(move |object| (receptacle.to_owned(), object.name.to_owned()))
        });
        let can_contain: HashSet<(String, String)> = pairs.collect();
        Game::new(Parts {
            at: inside().map(|(object, receptacle)| (object, receptacles[receptacle].place)).collect(),
            inside: inside().collect(),
            receptacles,
            objects,
            places: (0..=self.plan.places).map(|place| format!("loc {}", place + 1)).collect(),
            can_contain,
            start: self.plan.places,
            held: None,
            opened: Vec::new(),
            flags: Vec::new(),
            goal,
            task,
            wording: builtin::wording(),
        })
    }
}
