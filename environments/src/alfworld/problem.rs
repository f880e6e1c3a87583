//! A game from a PDDL problem of the domain `alfred`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Misfit;
use super::game::{Ability, Game, Object, Parts, Receptacle, Treatment};
use super::goal::Goal;
use super::pddl::{self, Item};
use super::state::Flag;
use super::wording::Wording;

/// What separates the parts of an identifier: `Mug_bar__plus_01_dot_84_bar_...`.
const BAR: &str = "_bar_";

/// Reads a problem. `task` is the sentence that gives the task.
pub(super) fn read(text: &str, wording: Arc<Wording>, task: String) -> Result<Game, Misfit> {
    let whole = pddl::read(text)?;
    let Some(("define", sections)) = whole.call() else {
        return Err(whole.misfit("a PDDL problem begins with `(define`"));
    };
    let section = |name: &str| {
        let found = sections.iter().find(|section| section.call().is_some_and(|(head, _)| head == name));
        found.ok_or_else(|| whole.misfit(format!("the problem has no section `({name} ...)`")))
    };
    let domain = section(":domain")?;
    if domain.call().and_then(|(_, rest)| rest.first()?.word()) != Some("alfred") {
        return Err(domain.misfit("a problem of another domain; ALFWorld's is `(:domain alfred)`"));
    }
    let facts = Facts::read(section(":init")?)?;
    let goal_section = section(":goal")?;
    let goal = goal(goal_section)?;
    facts.game(goal, wording, task).map_err(|message| whole.misfit(message))
}

/// The facts of the initial state by predicate: arguments and line.
struct Facts<'a>(HashMap<&'a str, Vec<(Vec<&'a str>, usize)>>);

/// The predicates that are read, with the number of their arguments. Others say nothing about what an agent can see.
const PREDICATES: [(&str, usize); 26] = [
    ("atlocation", 2),
    ("receptacleatlocation", 2),
    ("objectatlocation", 2),
    ("openable", 1),
    ("opened", 1),
    ("inreceptacle", 2),
    ("isreceptacleobject", 1),
    ("inreceptacleobject", 2),
    ("receptacletype", 2),
    ("cancontain", 2),
    ("objecttype", 2),
    ("holds", 2),
    ("isclean", 1),
    ("cleanable", 1),
    ("ishot", 1),
    ("heatable", 1),
    ("iscool", 1),
    ("coolable", 1),
    ("pickupable", 1),
    ("toggleable", 1),
    ("istoggled", 1),
    ("sliceable", 1),
    ("issliced", 1),
    ("holdsany", 1),
    ("moveable", 1),
    ("ison", 1),
];

/// The predicates that say what can be done with an object.
const ABILITIES: [(&str, Ability); 7] = [
    ("pickupable", Ability::PickUp),
    ("cleanable", Ability::Clean),
    ("heatable", Ability::Heat),
    ("coolable", Ability::Cool),
    ("sliceable", Ability::Slice),
    ("toggleable", Ability::Toggle),
    ("isreceptacleobject", Ability::Contain),
];

impl<'a> Facts<'a> {
    fn read(init: &'a Item) -> Result<Self, Misfit> {
        let mut facts: HashMap<&str, Vec<(Vec<&str>, usize)>> = HashMap::new();
        for fact in init.call().map_or(&[][..], |(_, facts)| facts) {
            let (predicate, arguments) = fact.call().ok_or_else(|| fact.misfit("expected a fact `(predicate ...)`"))?;
            if predicate == "=" {
                continue;
            }
            let arguments: Option<Vec<&str>> = arguments.iter().map(Item::word).collect();
            let arguments = arguments.ok_or_else(|| fact.misfit(format!("`{predicate}` of something nested")))?;
            let expected = PREDICATES.iter().find(|(known, _)| *known == predicate).map(|(_, count)| *count);
            if expected.is_some_and(|count| count != arguments.len()) {
                let count = expected.unwrap_or_default();
                return Err(fact.misfit(format!("`{predicate}` has {count} arguments, not {}", arguments.len())));
            }
            facts.entry(predicate).or_default().push((arguments, fact.line()));
        }
        Ok(Self(facts))
    }

    fn all(&self, predicate: &str) -> impl Iterator<Item = &(Vec<&'a str>, usize)> {
        self.0.get(predicate).into_iter().flatten()
    }

    /// The first arguments of a predicate.
    fn which(&self, predicate: &str) -> HashSet<&'a str> {
        self.all(predicate).map(|(arguments, _)| arguments[0]).collect()
    }

    /// What a predicate gives to its first argument, which it may do once.
    fn map(&self, predicate: &str) -> Result<HashMap<&'a str, &'a str>, String> {
        let mut map = HashMap::new();
        for (arguments, line) in self.all(predicate) {
            if map.insert(arguments[0], arguments[1]).is_some_and(|before| before != arguments[1]) {
                return Err(format!("line {line}: `{predicate}` of `{}` for the second time", arguments[0]));
            }
        }
        Ok(map)
    }

    fn game(&self, goal: Goal, wording: Arc<Wording>, task: String) -> Result<Game, String> {
        let receptacle_places = self.map("receptacleatlocation")?;
        let receptacle_types = self.map("receptacletype")?;
        let object_types = self.map("objecttype")?;
        let mut agents = self.all("atlocation").map(|(arguments, _)| (arguments[0], arguments[1]));
        let (agent, start) = agents.next().ok_or("no `atlocation` says where the agent is")?;
        if let Some((other, _)) = agents.find(|(other, _)| *other != agent) {
            return Err(format!("there are two agents, `{agent}` and `{other}`; games for one are read here"));
        }
        if receptacle_places.is_empty() {
            return Err("no `receptacleatlocation` says where a receptacle is".to_owned());
        }

        // Whatever stands in a fact has a name, and the number in it counts all of its kind.
        let entities: BTreeSet<&str> =
            self.0.values().flatten().flat_map(|(arguments, _)| arguments).copied().collect();
        let names = names(&entities);
        let ids: Vec<&str> = receptacle_places.keys().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let receptacle_index: HashMap<&str, usize> = ids.iter().enumerate().map(|(index, id)| (*id, index)).collect();
        let at = || self.all("objectatlocation").map(|(arguments, _)| (arguments[0], arguments[1]));
        let inside = || self.all("inreceptacle").map(|(arguments, _)| (arguments[0], arguments[1]));
        let contents = || self.all("inreceptacleobject").map(|(arguments, _)| (arguments[0], arguments[1]));
        let objects: BTreeSet<&str> = (object_types.keys().copied())
            .chain(at().map(|(object, _)| object))
            .chain(inside().map(|(object, _)| object))
            .chain(contents().flat_map(|(inner, outer)| [inner, outer]))
            .filter(|id| !receptacle_index.contains_key(id))
            .collect();
        let objects: Vec<&str> = objects.into_iter().collect();
        let object_index: HashMap<&str, usize> = objects.iter().enumerate().map(|(index, id)| (*id, index)).collect();
        let places: BTreeSet<&str> =
            (receptacle_places.values().copied()).chain(at().map(|(_, place)| place)).chain([start]).collect();
        let places: Vec<&str> = places.into_iter().collect();
        let place_index: HashMap<&str, usize> = places.iter().enumerate().map(|(index, id)| (*id, index)).collect();

        let openable = self.which("openable");
        let receptacles = ids.iter().map(|id| {
            let kind = kind(receptacle_types.get(id).copied().unwrap_or_default());
            Receptacle {
                name: names[id].clone(),
                place: place_index[receptacle_places[id]],
                openable: openable.contains(id),
                treats: Treatment::ALL.into_iter().find(|treatment| treatment.appliance() == kind),
                kind,
            }
        });
        let receptacles: Vec<Receptacle> = receptacles.collect();
        let abilities = ABILITIES.map(|(predicate, ability)| (self.which(predicate), ability));
        let flags = [
            ("isclean", Flag::Clean),
            ("ishot", Flag::Hot),
            ("iscool", Flag::Cool),
            ("issliced", Flag::Sliced),
            ("istoggled", Flag::Toggled),
        ];
        let flags = flags.iter().flat_map(|(predicate, flag)| {
            let objects = self.which(predicate).into_iter().filter_map(|id| object_index.get(id));
            objects.map(|object| (*object, *flag)).collect::<Vec<_>>()
        });
        let flags = flags.collect();
        let inside = inside()
            .filter_map(|(object, receptacle)| Some((*object_index.get(object)?, *receptacle_index.get(receptacle)?)));
        let inside = inside.collect();
        // A receptacle that is said to be at a place, or in something, is no thing to find there.
        let at = at().filter_map(|(object, place)| Some((*object_index.get(object)?, place_index[place]))).collect();
        let held = self.all("holds").next().and_then(|(arguments, _)| object_index.get(arguments[1]).copied());
        let opened = self.which("opened").into_iter().filter_map(|id| receptacle_index.get(id).copied()).collect();
        let mut made: Vec<Object> = (objects.iter())
            .map(|id| {
                let kind = kind(object_types.get(id).copied().unwrap_or_default());
                let stated = abilities.iter().filter(|(objects, _)| objects.contains(id)).map(|(_, ability)| *ability);
                let cuts = ["knife", "butterknife"].contains(&kind.as_str()).then_some(Ability::Cut);
                Object { name: names[id].clone(), abilities: stated.chain(cuts).collect(), contents: Vec::new(), kind }
            })
            .collect();
        for (inner, outer) in contents() {
            if let (Some(inner), Some(outer)) = (object_index.get(inner), object_index.get(outer)) {
                made[*outer].contents.push(*inner);
            }
        }
        for object in &mut made {
            object.contents.sort_unstable();
        }
        let can_contain = self.all("cancontain").map(|(arguments, _)| (kind(arguments[0]), kind(arguments[1])));
        Ok(Game::new(Parts {
            receptacles,
            objects: made,
            places: places.iter().map(|id| names[id].clone()).collect(),
            can_contain: can_contain.collect(),
            start: place_index[start],
            held,
            opened,
            inside,
            at,
            flags,
            goal,
            task,
            wording,
        }))
    }
}

/// A type without its ending.
fn kind(name: &str) -> String {
    name.strip_suffix("type").unwrap_or(name).to_owned()
}

/// The names that are shown: what the identifier begins with, and numbers that run down as identifiers ascend.
fn names<'a>(entities: &BTreeSet<&'a str>) -> HashMap<&'a str, String> {
    let base = |id: &str| {
        id.split_once(BAR).map(|(base, _)| format!("{base}{}", if id.contains("basin") { "basin" } else { "" }))
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    for base in entities.iter().filter_map(|id| base(id)) {
        *counts.entry(base).or_default() += 1;
    }
    let name = |id: &&'a str| {
        let name = match base(id) {
            None => format!("{id} "),
            Some(base) => {
                let count = counts.entry(base.clone()).or_default();
                let name = format!("{base} {count}");
                *count = count.saturating_sub(1);
                name
            }
        };
        (*id, name)
    };
    entities.iter().map(name).collect()
}

/// The goal, which must be that of one of the six kinds of tasks.
fn goal(section: &Item) -> Result<Goal, Misfit> {
    let mut atoms = Vec::new();
    for item in section.call().map_or(&[][..], |(_, rest)| rest) {
        collect(item, &mut atoms)?;
    }
    let unknown = || {
        section.misfit(
            "the goal is none of the six kinds of tasks: an object in a receptacle (as it is, clean, hot or cool), two of \
             them, or one held under a lamp",
        )
    };
    let kind_of = |predicate: &str, variable: &str| {
        let find = |atom: &&Vec<&str>| atom[0] == predicate && atom.get(1) == Some(&variable);
        atoms.iter().find(find).and_then(|atom| atom.get(2)).map(|name| kind(name)).ok_or_else(unknown)
    };
    let inside: Vec<(&str, &str)> = (atoms.iter())
        .filter(|atom| atom[0] == "inreceptacle" && atom.len() == 3)
        .map(|atom| (atom[1], atom[2]))
        .collect();
    let holds = atoms.iter().find(|atom| atom[0] == "holds" && atom.len() == 3);
    // The atoms that the goal should have; what it has beside them would be a condition that nobody keeps.
    let (goal, expected): (Goal, Vec<Vec<String>>) = match (inside.as_slice(), holds) {
        ([(lamp, receptacle)], Some(held)) => {
            let (agent, object) = (held[1], held[2]);
            let goal = Goal::Look { object: kind_of("objecttype", object)?, lamp: kind_of("objecttype", lamp)? };
            let place = atoms.iter().find(|atom| atom[0] == "atlocation" && atom.len() == 3).ok_or_else(unknown)?;
            let place = place[2];
            let expected = atom_lists(&[
                &["toggleable", lamp],
                &["istoggled", lamp],
                &["receptacleatlocation", receptacle, place],
                &["atlocation", agent, place],
                &["inreceptacle", lamp, receptacle],
                &["holds", agent, object],
            ]);
            (goal, expected)
        }
        ([(object, receptacle)], None) => {
            let ability = |treatment: Treatment| match treatment {
                Treatment::Clean => ("cleanable", "isclean"),
                Treatment::Heat => ("heatable", "ishot"),
                Treatment::Cool => ("coolable", "iscool"),
            };
            let treatment = Treatment::ALL.into_iter().find(|it| atoms.iter().any(|atom| atom[0] == ability(*it).1));
            let mut expected = atom_lists(&[&["inreceptacle", object, receptacle]]);
            if let Some((able, treated)) = treatment.map(ability) {
                expected.extend(atom_lists(&[&[able, object], &[treated, object]]));
            }
            let (object, receptacle) = (kind_of("objecttype", object)?, kind_of("receptacletype", receptacle)?);
            (Goal::Place { object, receptacle, treatment, count: 1 }, expected)
        }
        ([(first, receptacle), (second, same)], None) if receptacle == same && first != second => {
            let object = kind_of("objecttype", first)?;
            if kind_of("objecttype", second)? != object {
                return Err(unknown());
            }
            let differ: [&[&str]; 2] = [&["not =", first, second], &["not =", second, first]];
            let differ =
                differ.into_iter().find(|differ| atoms.iter().any(|atom| atom == differ)).ok_or_else(unknown)?;
            let expected =
                atom_lists(&[&["inreceptacle", first, receptacle], &["inreceptacle", second, receptacle], differ]);
            let receptacle = kind_of("receptacletype", receptacle)?;
            (Goal::Place { object, receptacle, treatment: None, count: 2 }, expected)
        }
        _ => return Err(unknown()),
    };
    let types = ["objecttype", "receptacletype"];
    let has = |atom: &Vec<String>| atoms.iter().any(|other| other == atom);
    let known = |atom: &&Vec<&str>| types.contains(&atom[0]) || expected.iter().any(|other| other == *atom);
    if !expected.iter().all(has) || !atoms.iter().all(|atom| known(&atom)) {
        return Err(unknown());
    }
    Ok(goal)
}

fn atom_lists(atoms: &[&[&str]]) -> Vec<Vec<String>> {
    atoms.iter().map(|atom| atom.iter().map(|&word| word.to_owned()).collect()).collect()
}

/// The atoms of a goal, whatever they stand in; `(not (= a b))` is one.
fn collect<'a>(item: &'a Item, atoms: &mut Vec<Vec<&'a str>>) -> Result<(), Misfit> {
    let (head, rest) = item.call().ok_or_else(|| item.misfit("expected a condition `(...)` in the goal"))?;
    match (head, rest) {
        ("and", parts) => parts.iter().try_for_each(|part| collect(part, atoms)),
        ("exists", [_, parts @ ..]) => parts.iter().try_for_each(|part| collect(part, atoms)),
        ("not", [equal]) => {
            collect(equal, atoms)?;
            match atoms.last_mut() {
                Some(atom) if atom[0] == "=" => {
                    atom[0] = "not =";
                    Ok(())
                }
                _ => Err(item.misfit("the goal denies something else than that two objects are the same")),
            }
        }
        (_, arguments) => {
            let words: Option<Vec<&str>> =
                std::iter::once(Some(head)).chain(arguments.iter().map(Item::word)).collect();
            atoms.push(words.ok_or_else(|| item.misfit(format!("`{head}` is no condition that a goal has here")))?);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::LazyLock;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::alfworld::builtin;

    /// Some recorded problems.
    static PROBLEMS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let archive = &include_bytes!("../../tests/golden/alfworld_synth_problems.tar.gz")[..];
        let mut problems = Vec::new();
        for entry in tar::Archive::new(GzDecoder::new(archive)).entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path().unwrap().ends_with("initial_state.pddl") {
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                problems.push(text);
            }
        }
        problems
    });

    proptest! {
        #[test]
        fn a_problem_with_other_words_in_it_is_a_game_or_an_error(
            problem in 0..20_usize,
            swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..12),
            choices in prop::collection::vec(0..1000_usize, 0..30),
        ) {
            let mut words: Vec<&str> = PROBLEMS[problem].split_inclusive([' ', ')']).collect();
            for (to, from) in swaps {
                let word = words[from.index(words.len())];
                let to = to.index(words.len());
                words[to] = word;
            }
            if let Ok(game) = read(&words.concat(), builtin::wording(), String::new()) {
                let mut state = game.start.clone();
                for choice in choices {
                    let commands = state.commands(&game);
                    let command = commands[choice % commands.len()];
                    state.apply(&game, command);
                    prop_assert!(!Wording::feedback(&game, &state, command).is_empty());
                    state.key(&game);
                }
            }
        }
    }
}
