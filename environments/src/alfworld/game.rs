//! What does not change in a game: receptacles, objects, places, names, the goal, and how things begin.

use std::collections::HashSet;
use std::sync::Arc;

use super::goal::Goal;
use super::state::{Flag, Layout, State};
use super::wording::Wording;

/// What is done to an object before it is put away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    Clean,
    Heat,
    Cool,
}

impl Treatment {
    pub(super) const ALL: [Self; 3] = [Self::Clean, Self::Heat, Self::Cool];

    /// The kind of receptacle that it needs.
    pub(super) fn appliance(self) -> &'static str {
        match self {
            Self::Clean => "sinkbasin",
            Self::Heat => "microwave",
            Self::Cool => "fridge",
        }
    }

    /// The objects that can have it.
    pub(super) fn ability(self) -> Ability {
        match self {
            Self::Clean => Ability::Clean,
            Self::Heat => Ability::Heat,
            Self::Cool => Ability::Cool,
        }
    }

    /// What it makes an object.
    pub(super) fn flag(self) -> Flag {
        match self {
            Self::Clean => Flag::Clean,
            Self::Heat => Flag::Hot,
            Self::Cool => Flag::Cool,
        }
    }

    /// What an object is no longer.
    pub(super) fn undoes(self) -> Option<Flag> {
        match self {
            Self::Clean => None,
            Self::Heat => Some(Flag::Cool),
            Self::Cool => Some(Flag::Hot),
        }
    }

    /// The word for an object that has had it.
    pub(super) fn adjective(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Heat => "hot",
            Self::Cool => "cool",
        }
    }

    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Heat => "heat",
            Self::Cool => "cool",
        }
    }
}

/// Something that things are in or on.
#[derive(Clone, Debug)]
pub(super) struct Receptacle {
    /// As it is shown: `cabinet 3`.
    pub(super) name: String,
    /// In lower case, without `type`: `cabinet`.
    pub(super) kind: String,
    /// Where one stands to reach it.
    pub(super) place: usize,
    pub(super) openable: bool,
    /// What it does to objects.
    pub(super) treats: Option<Treatment>,
}

/// What can be done with an object, or what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ability {
    PickUp,
    Clean,
    Heat,
    Cool,
    Slice,
    Toggle,
    /// Slices others.
    Cut,
    /// Has things in it.
    Contain,
}

/// A set of abilities: one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Abilities(u8);

impl Abilities {
    pub(super) fn has(self, ability: Ability) -> bool {
        self.0 >> ability as u8 & 1 == 1
    }
}

impl FromIterator<Ability> for Abilities {
    fn from_iter<I: IntoIterator<Item = Ability>>(abilities: I) -> Self {
        Self(abilities.into_iter().fold(0, |bits, ability| bits | 1 << ability as u8))
    }
}

/// Something that can be carried, or switched on.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    /// As it is shown: `mug 1`.
    pub(super) name: String,
    /// In lower case, without `type`: `mug`.
    pub(super) kind: String,
    pub(super) abilities: Abilities,
    /// The objects in it. They stay there in words when it is carried about: the rules do not move them.
    pub(super) contents: Vec<usize>,
}

impl Object {
    pub(super) fn can(&self, ability: Ability) -> bool {
        self.abilities.has(ability)
    }
}

/// Where the agent can stand.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    /// What is within reach.
    pub(super) receptacles: Vec<usize>,
}

/// What a game is made of. Receptacles and objects are in the order in which lists show them.
pub(super) struct Parts {
    pub(super) receptacles: Vec<Receptacle>,
    pub(super) objects: Vec<Object>,
    /// The names of the places.
    pub(super) places: Vec<String>,
    /// Kinds of receptacles with the kinds of objects that go into them.
    pub(super) can_contain: HashSet<(String, String)>,
    /// Where the agent begins, and what it holds then.
    pub(super) start: usize,
    pub(super) held: Option<usize>,
    /// Receptacles that are open at first.
    pub(super) opened: Vec<usize>,
    /// Objects with the receptacles that they are in.
    pub(super) inside: Vec<(usize, usize)>,
    /// Objects with the places that they are at.
    pub(super) at: Vec<(usize, usize)>,
    /// Objects with what is true of them at first.
    pub(super) flags: Vec<(usize, Flag)>,
    pub(super) goal: Goal,
    /// The sentence that gives the task.
    pub(super) task: String,
    pub(super) wording: Arc<Wording>,
}

/// A game: all of it but the state.
#[derive(Debug)]
pub(super) struct Game {
    pub(super) receptacles: Vec<Receptacle>,
    pub(super) objects: Vec<Object>,
    pub(super) places: Vec<Place>,
    pub(super) goal: Goal,
    pub(super) task: String,
    pub(super) wording: Arc<Wording>,
    pub(super) layout: Layout,
    pub(super) start: State,
    /// Equal for games that differ in nothing but words.
    pub(super) fingerprint: u64,
    /// The objects that the goal is about.
    pub(super) targets: Vec<usize>,
    /// Where they go; empty if the task is to look at one.
    pub(super) destinations: Vec<usize>,
    /// The lamps to look at one under.
    pub(super) lamps: Vec<usize>,
    /// Whether objects like the goal's go into a receptacle.
    pub(super) plausible: Vec<bool>,
    /// Receptacle times object.
    containable: Vec<bool>,
}

impl Game {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { receptacles, objects, can_contain, goal, .. } = parts;
        let layout = Layout::new(receptacles.len(), objects.len(), parts.places.len());
        let mut start = State::empty(layout, parts.start);
        start.held = parts.held;
        for receptacle in parts.opened {
            start.set_open(receptacle, true);
        }
        for (object, receptacle) in parts.inside {
            start.set_inside(layout, object, receptacle, true);
        }
        for (object, place) in parts.at {
            start.set_at(layout, object, place, true);
        }
        for (object, flag) in parts.flags {
            start.set_flag(layout, flag, object, true);
        }
        let mut places: Vec<Place> =
            parts.places.into_iter().map(|name| Place { name, receptacles: Vec::new() }).collect();
        for (index, receptacle) in receptacles.iter().enumerate() {
            places[receptacle.place].receptacles.push(index);
        }
        let goes_into =
            |kind: &str, receptacle: &Receptacle| can_contain.contains(&(receptacle.kind.clone(), kind.to_owned()));
        let containable =
            receptacles.iter().flat_map(|receptacle| objects.iter().map(|object| goes_into(&object.kind, receptacle)));
        let containable: Vec<bool> = containable.collect();
        let plausible = receptacles.iter().map(|receptacle| goes_into(goal.object(), receptacle)).collect();
        let select = |wanted: &dyn Fn(&Object) -> bool| -> Vec<usize> {
            (0..objects.len()).filter(|object| wanted(&objects[*object])).collect()
        };
        let targets = select(&|object| object.kind == goal.object());
        let (mut destinations, mut lamps) = (Vec::new(), Vec::new());
        match &goal {
            Goal::Place { receptacle: kind, .. } => {
                destinations = (0..receptacles.len()).filter(|index| receptacles[*index].kind == *kind).collect();
            }
            Goal::Look { lamp, .. } => lamps = select(&|object| object.kind == *lamp && object.can(Ability::Toggle)),
        }
        let mut game = Self {
            receptacles,
            objects,
            places,
            goal,
            task: parts.task,
            wording: parts.wording,
            layout,
            start,
            fingerprint: 0,
            targets,
            destinations,
            lamps,
            plausible,
            containable,
        };
        game.fingerprint = game.hash();
        game
    }

    pub(super) fn can_contain(&self, receptacle: usize, object: usize) -> bool {
        self.containable[receptacle * self.objects.len() + object]
    }

    /// FNV-1a over all that makes the game, words of the task and of the answers aside.
    fn hash(&self) -> u64 {
        let mut hash = 0xCBF2_9CE4_8422_2325;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
        };
        for Receptacle { name, kind, place, openable, treats: _ } in &self.receptacles {
            add(name.as_bytes());
            add(kind.as_bytes());
            add(&place.to_le_bytes());
            add(&[u8::from(*openable)]);
        }
        for object in &self.objects {
            add(object.name.as_bytes());
            add(object.kind.as_bytes());
            add(&[object.abilities.0]);
            for inner in &object.contents {
                add(&inner.to_le_bytes());
            }
        }
        add(&self.containable.iter().copied().map(u8::from).collect::<Vec<u8>>());
        add(self.goal.describe().as_bytes());
        add(&self.start.place.to_le_bytes());
        add(&self.start.held.map_or(0, |held| held + 1).to_le_bytes());
        for word in self.start.words() {
            add(&word.to_le_bytes());
        }
        hash
    }
}
