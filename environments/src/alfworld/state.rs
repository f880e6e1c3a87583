//! What changes in a game, and what the commands do to it.

use std::fmt::Write as _;

use super::game::{Ability, Game, Treatment};

/// Where the bits of a state are: rows of equal meaning in one flat array of words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    receptacles: usize,
    places: usize,
    receptacle_words: usize,
    object_words: usize,
}

/// What an object has had done to it: one row of bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    Clean,
    Hot,
    Cool,
    Sliced,
    Toggled,
}

const FLAGS: usize = 5;

impl Layout {
    pub(super) fn new(receptacles: usize, objects: usize, places: usize) -> Self {
        Self { receptacles, places, receptacle_words: receptacles.div_ceil(64), object_words: objects.div_ceil(64) }
    }

    fn words(self) -> usize {
        self.receptacle_words + self.object_words * (FLAGS + 2 * self.receptacles + self.places)
    }

    /// The row of objects that have the flag.
    fn flag(self, flag: Flag) -> usize {
        self.receptacle_words + flag as usize * self.object_words
    }

    /// The row of objects that are in a receptacle.
    fn inside(self, receptacle: usize) -> usize {
        self.receptacle_words + (FLAGS + receptacle) * self.object_words
    }

    /// The row of objects that were taken out of a receptacle and not put back into it.
    fn removed(self, receptacle: usize) -> usize {
        self.inside(self.receptacles + receptacle)
    }

    /// The row of objects that are at a place.
    fn at(self, place: usize) -> usize {
        self.inside(2 * self.receptacles + place)
    }
}

/// A command with its arguments: indices of objects and receptacles of the game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Look,
    Inventory,
    Help,
    GoTo(usize),
    ExamineReceptacle(usize),
    ExamineObject(usize),
    Open(usize),
    Close(usize),
    /// An object, from a receptacle.
    Take(usize, usize),
    /// The object that is held, into or onto a receptacle.
    Put(usize, usize),
    Treat(Treatment, usize, usize),
    /// An object, with the knife that is held.
    Slice(usize, usize),
    Use(usize),
}

/// All that changes in a game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Where the agent is.
    pub(super) place: usize,
    /// What it holds.
    pub(super) held: Option<usize>,
    /// The rows of [`Layout`]; first the receptacles that are open.
    words: Vec<u64>,
}

impl State {
    /// Everything closed, nothing anywhere.
    pub(super) fn empty(layout: Layout, place: usize) -> Self {
        Self { place, held: None, words: vec![0; layout.words()] }
    }

    fn get(&self, row: usize, index: usize) -> bool {
        self.words[row + index / 64] >> (index % 64) & 1 == 1
    }

    fn set(&mut self, row: usize, index: usize, value: bool) {
        let word = &mut self.words[row + index / 64];
        *word = *word & !(1 << (index % 64)) | u64::from(value) << (index % 64);
    }

    /// The members of a row of objects, ascending.
    fn objects(&self, layout: Layout, row: usize) -> impl Iterator<Item = usize> + '_ {
        self.words[row..row + layout.object_words].iter().enumerate().flat_map(|(word, &bits)| {
            std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                .take_while(|bits| *bits != 0)
                .map(move |bits| 64 * word + bits.trailing_zeros() as usize)
        })
    }

    pub(super) fn is_open(&self, receptacle: usize) -> bool {
        self.get(0, receptacle)
    }

    pub(super) fn set_open(&mut self, receptacle: usize, open: bool) {
        self.set(0, receptacle, open);
    }

    pub(super) fn has(&self, game: &Game, flag: Flag, object: usize) -> bool {
        self.get(game.layout.flag(flag), object)
    }

    pub(super) fn set_flag(&mut self, layout: Layout, flag: Flag, object: usize, value: bool) {
        self.set(layout.flag(flag), object, value);
    }

    pub(super) fn is_inside(&self, game: &Game, object: usize, receptacle: usize) -> bool {
        self.get(game.layout.inside(receptacle), object)
    }

    pub(super) fn set_inside(&mut self, layout: Layout, object: usize, receptacle: usize, value: bool) {
        self.set(layout.inside(receptacle), object, value);
    }

    pub(super) fn set_at(&mut self, layout: Layout, object: usize, place: usize, value: bool) {
        self.set(layout.at(place), object, value);
    }

    /// The objects in a receptacle.
    pub(super) fn inside(&self, game: &Game, receptacle: usize) -> impl Iterator<Item = usize> + '_ {
        self.objects(game.layout, game.layout.inside(receptacle))
    }

    /// The objects at the agent's place that were once taken out of a receptacle here, one for each such receptacle:
    /// what `look` finds next to the agent.
    pub(super) fn on_the_floor<'a>(&'a self, game: &'a Game) -> impl Iterator<Item = usize> + 'a {
        let here = &game.places[self.place].receptacles;
        self.objects(game.layout, game.layout.at(self.place)).flat_map(move |object| {
            let removed = move |receptacle: &&usize| self.get(game.layout.removed(**receptacle), object);
            here.iter().filter(removed).map(move |_| object)
        })
    }

    /// A closed door is in the way.
    pub(super) fn is_closed(&self, game: &Game, receptacle: usize) -> bool {
        game.receptacles[receptacle].openable && !self.is_open(receptacle)
    }

    /// All commands that would be executed now, in no particular order.
    pub(super) fn commands(&self, game: &Game) -> Vec<Command> {
        let mut commands = vec![Command::Look, Command::Inventory];
        if game.wording.has_help() {
            commands.push(Command::Help);
        }
        let away = |receptacle: &usize| game.receptacles[*receptacle].place != self.place;
        commands.extend((0..game.receptacles.len()).filter(away).map(Command::GoTo));
        let here = &game.places[self.place].receptacles;
        for &receptacle in here {
            commands.push(Command::ExamineReceptacle(receptacle));
            if game.receptacles[receptacle].openable {
                let open = self.is_open(receptacle);
                commands.push(if open { Command::Close(receptacle) } else { Command::Open(receptacle) });
            }
            for object in self.inside(game, receptacle) {
                let kind = &game.objects[object];
                if kind.can(Ability::Toggle) && !commands.contains(&Command::Use(object)) {
                    commands.push(Command::Use(object));
                }
                if self.held.is_none() && kind.can(Ability::PickUp) && !self.is_closed(game, receptacle) {
                    commands.push(Command::Take(object, receptacle));
                }
            }
        }
        if let Some(held) = self.held {
            commands.push(Command::ExamineObject(held));
            for &receptacle in here {
                if !self.is_closed(game, receptacle) && game.can_contain(receptacle, held) {
                    commands.push(Command::Put(held, receptacle));
                }
                if let Some(treatment) = game.receptacles[receptacle].treats
                    && game.objects[held].can(treatment.ability())
                {
                    commands.push(Command::Treat(treatment, held, receptacle));
                }
            }
            if game.objects[held].can(Ability::Cut) {
                let sliceable = |object: &usize| game.objects[*object].can(Ability::Slice);
                let here = self.objects(game.layout, game.layout.at(self.place)).filter(sliceable);
                commands.extend(here.map(|object| Command::Slice(object, held)));
            }
        }
        commands
    }

    /// Executes a command, which must be one of [`Self::commands`].
    pub(super) fn apply(&mut self, game: &Game, command: Command) {
        let layout = game.layout;
        match command {
            Command::Look
            | Command::Inventory
            | Command::Help
            | Command::ExamineReceptacle(_)
            | Command::ExamineObject(_) => {}
            Command::GoTo(receptacle) => self.place = game.receptacles[receptacle].place,
            Command::Open(receptacle) => self.set_open(receptacle, true),
            Command::Close(receptacle) => self.set_open(receptacle, false),
            Command::Take(object, receptacle) => {
                self.set_inside(layout, object, receptacle, false);
                self.set_at(layout, object, self.place, false);
                self.set_removed(game, object, receptacle, true);
                self.held = Some(object);
            }
            Command::Put(object, receptacle) => {
                self.set_inside(layout, object, receptacle, true);
                self.set_at(layout, object, self.place, true);
                self.set_removed(game, object, receptacle, false);
                self.held = None;
            }
            Command::Treat(treatment, object, _) => {
                self.set_flag(layout, treatment.flag(), object, true);
                if let Some(undone) = treatment.undoes() {
                    self.set_flag(layout, undone, object, false);
                }
            }
            Command::Slice(object, _) => self.set_flag(layout, Flag::Sliced, object, true),
            Command::Use(object) => self.set_flag(layout, Flag::Toggled, object, true),
        }
    }

    /// Only where a place has several receptacles can it ever be seen that something was taken out of one; elsewhere
    /// it is not remembered, so that states which cannot be told apart are equal.
    fn set_removed(&mut self, game: &Game, object: usize, receptacle: usize, value: bool) {
        if game.places[game.receptacles[receptacle].place].receptacles.len() > 1 {
            self.set(game.layout.removed(receptacle), object, value);
        }
    }

    /// The key of the state: which game it is, where the agent is, what it holds, and the words that differ from the
    /// game's start.
    pub(super) fn key(&self, game: &Game) -> String {
        let mut key = format!("{:016x}/{}/", game.fingerprint, self.place);
        if let Some(held) = self.held {
            let _ = write!(key, "{held}");
        }
        key.push('/');
        for (index, (now, start)) in self.words.iter().zip(&game.start.words).enumerate() {
            if now != start {
                let _ = write!(key, "{index}={now:x};");
            }
        }
        key
    }

    /// The words of the rows, for the game's fingerprint.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::alfworld::Split;
    use crate::alfworld::goal::TaskType;
    use crate::alfworld::house::House;
    use crate::alfworld::trial;

    /// The states of a walk of this many commands.
    fn walk(game: &Game, choices: &[usize]) -> Vec<State> {
        let mut states = vec![game.start.clone()];
        for choice in choices {
            let mut state = states[states.len() - 1].clone();
            let mut commands = state.commands(game);
            // Most commands only go somewhere.
            if choice % 3 > 0 {
                commands.retain(|command| !matches!(command, Command::GoTo(_)));
            }
            state.apply(game, commands[choice / 3 % commands.len()]);
            states.push(state);
        }
        states
    }

    proptest! {
        #[test]
        fn keys_are_equal_where_states_are(
            seed in 0..1000_u64,
            first in prop::collection::vec(0..3000_usize, 0..40),
            second in prop::collection::vec(0..3000_usize, 0..40),
        ) {
            let game = trial::generate(seed, Split::Train, &TaskType::ALL, House::Small).unwrap();
            let mut states = walk(&game, &first);
            states.extend(walk(&game, &second));
            let keys: Vec<String> = states.iter().map(|state| state.key(&game)).collect();
            for (state, key) in states.iter().zip(&keys) {
                for (other, other_key) in states.iter().zip(&keys) {
                    prop_assert_eq!(state == other, key == other_key);
                }
            }
        }

        #[test]
        fn a_thing_is_in_one_place(
            seed in 0..1000_u64,
            choices in prop::collection::vec(0..3000_usize, 0..60),
        ) {
            let game = trial::generate(seed, Split::Train, &TaskType::ALL, House::Full).unwrap();
            for state in walk(&game, &choices) {
                for object in 0..game.objects.len() {
                    let inside = (0..game.receptacles.len()).filter(|receptacle| state.is_inside(&game, object, *receptacle));
                    let inside: Vec<usize> = inside.collect();
                    prop_assert_eq!(inside.len() + usize::from(state.held == Some(object)), 1);
                    let at = (0..game.places.len()).filter(|place| state.get(game.layout.at(*place), object));
                    let expected = inside.iter().map(|receptacle| game.receptacles[*receptacle].place);
                    prop_assert!(at.eq(expected));
                    let (hot, cool) = (state.has(&game, Flag::Hot, object), state.has(&game, Flag::Cool, object));
                    prop_assert!(!(hot && cool));
                }
            }
        }
    }

    #[test]
    fn games_with_equal_content_have_equal_first_keys_and_others_do_not() {
        let make = |seed| trial::generate(seed, Split::Train, &TaskType::ALL, House::Full).unwrap();
        let keys: Vec<String> = (0..200).map(|seed| make(seed).start.key(&make(seed))).collect();
        let different: std::collections::HashSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }
}
