//! What a game says: the texts of commands and of the answers to them, as compiled rules.
//!
//! The rules are written in the language of the games' own grammars (TextWorld's context-sensitive grammar). Its
//! conditions and lists are queries over facts; those that the games use are known here by their text, and any other is
//! refused, so that a text is either the original's or an error.

use super::game::{Ability, Game, Treatment};
use super::state::{Command, Flag, State};

/// The actions of a game, as its grammar names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Look,
    Inventory,
    Help,
    GoTo,
    ExamineReceptacle,
    ExamineObject,
    Open,
    Close,
    Take,
    Put,
    Clean,
    Heat,
    Cool,
    Slice,
    Use,
}

impl Verb {
    pub(super) const ALL: [(Self, &'static str); 15] = [
        (Self::Look, "look"),
        (Self::Inventory, "inventory"),
        (Self::Help, "help"),
        (Self::GoTo, "GotoLocation"),
        (Self::ExamineReceptacle, "examineReceptacle"),
        (Self::ExamineObject, "examineObject"),
        (Self::Open, "OpenObject"),
        (Self::Close, "CloseObject"),
        (Self::Take, "PickupObject"),
        (Self::Put, "PutObject"),
        (Self::Clean, "CleanObject"),
        (Self::Heat, "HeatObject"),
        (Self::Cool, "CoolObject"),
        (Self::Slice, "SliceObject"),
        (Self::Use, "ToggleObject"),
    ];
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// The name of an argument.
    Name(Argument),
    /// The sentence that gives the task.
    Task,
    /// A list of names.
    List {
        query: Query,
        /// Each name has an article.
        article: bool,
    },
    /// The first alternative whose facts all hold.
    Choice(Vec<(Vec<Fact>, Vec<Piece>)>),
}

/// An argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Object,
    Receptacle,
    /// What an object is sliced with.
    Tool,
    /// The place of the receptacle.
    Place,
}

/// What a list lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    /// What is in the receptacle.
    Inside,
    /// What the agent holds.
    Held,
    /// What is in the object.
    Contents,
    /// The receptacles here.
    Here,
    /// What was taken out of a receptacle here and is here.
    Floor,
    /// Before the first command all receptacles, later those here: a quirk of the original.
    Receptacles,
}

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// The receptacle can be opened.
    Openable,
    /// The receptacle is open.
    Opened,
    /// The agent holds something.
    HoldsAny,
    Container,
    Toggleable,
    Sliceable,
    Has(Flag),
    /// A list has members.
    Some(Query),
    /// What no command ever makes true.
    Never,
}

/// What the texts are about.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) game: &'a Game,
    pub(super) state: &'a State,
    pub(super) object: Option<usize>,
    pub(super) receptacle: Option<usize>,
    pub(super) tool: Option<usize>,
    /// No command was given yet.
    pub(super) first: bool,
}

/// All texts of a game.
#[derive(Clone, Debug)]
pub(super) struct Wording {
    pub(super) intro: Vec<Piece>,
    /// Command and answer of each verb, in the order of [`Verb`]; none where the game has no such command, which only
    /// [`Verb::Help`] may be.
    pub(super) actions: Vec<Option<Action>>,
}

/// The texts of a verb.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) command: Vec<Piece>,
    pub(super) feedback: Vec<Piece>,
}

impl Wording {
    pub(super) fn has_help(&self) -> bool {
        self.actions[Verb::Help as usize].is_some()
    }

    /// All commands, with words in place of their arguments.
    pub(super) fn commands(&self) -> Vec<String> {
        let word = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Name(Argument::Receptacle) => "(receptacle)".to_owned(),
            _ => "(object)".to_owned(),
        };
        let mut commands: Vec<String> =
            self.actions.iter().flatten().map(|action| action.command.iter().map(word).collect()).collect();
        commands.sort_unstable();
        commands
    }

    /// The first text of an episode.
    pub(super) fn intro(game: &Game, state: &State) -> String {
        let scene = Scene { game, state, object: None, receptacle: None, tool: None, first: true };
        let mut text = String::with_capacity(512);
        render(&game.wording.intro, scene, &mut text);
        text
    }

    /// Writes the text of a command.
    pub(super) fn command(game: &Game, state: &State, command: Command, out: &mut String) {
        let (verb, scene) = scene(game, state, command);
        if let Some(action) = &game.wording.actions[verb as usize] {
            render(&action.command, scene, out);
        }
    }

    /// The answer to a command that led to this state.
    pub(super) fn feedback(game: &Game, state: &State, command: Command) -> String {
        let (verb, scene) = scene(game, state, command);
        let mut text = String::with_capacity(128);
        if let Some(action) = &game.wording.actions[verb as usize] {
            render(&action.feedback, scene, &mut text);
        }
        text
    }
}

/// The verb of a command, and what its texts are about.
fn scene<'a>(game: &'a Game, state: &'a State, command: Command) -> (Verb, Scene<'a>) {
    let (verb, object, receptacle, tool) = match command {
        Command::Look => (Verb::Look, None, None, None),
        Command::Inventory => (Verb::Inventory, None, None, None),
        Command::Help => (Verb::Help, None, None, None),
        Command::GoTo(receptacle) => (Verb::GoTo, None, Some(receptacle), None),
        Command::ExamineReceptacle(receptacle) => (Verb::ExamineReceptacle, None, Some(receptacle), None),
        Command::ExamineObject(object) => (Verb::ExamineObject, Some(object), None, None),
        Command::Open(receptacle) => (Verb::Open, None, Some(receptacle), None),
        Command::Close(receptacle) => (Verb::Close, None, Some(receptacle), None),
        Command::Take(object, receptacle) => (Verb::Take, Some(object), Some(receptacle), None),
        Command::Put(object, receptacle) => (Verb::Put, Some(object), Some(receptacle), None),
        Command::Treat(treatment, object, receptacle) => {
            let verb = match treatment {
                Treatment::Clean => Verb::Clean,
                Treatment::Heat => Verb::Heat,
                Treatment::Cool => Verb::Cool,
            };
            (verb, Some(object), Some(receptacle), None)
        }
        Command::Slice(object, tool) => (Verb::Slice, Some(object), None, Some(tool)),
        Command::Use(object) => (Verb::Use, Some(object), None, None),
    };
    (verb, Scene { game, state, object, receptacle, tool, first: false })
}

fn render(pieces: &[Piece], scene: Scene<'_>, out: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Name(argument) => out.push_str(name(*argument, scene)),
            Piece::Task => out.push_str(&scene.game.task),
            Piece::List { query, article } => list(*query, *article, scene, out),
            Piece::Choice(alternatives) => {
                let fits = |facts: &[Fact]| facts.iter().all(|fact| holds(*fact, scene));
                if let Some((_, pieces)) = alternatives.iter().find(|(facts, _)| fits(facts)) {
                    render(pieces, scene, out);
                }
            }
        }
    }
}

fn name(argument: Argument, Scene { game, object, receptacle, tool, .. }: Scene<'_>) -> &str {
    let name = match argument {
        Argument::Object => object.map(|object| &game.objects[object].name),
        Argument::Tool => tool.map(|tool| &game.objects[tool].name),
        Argument::Receptacle => receptacle.map(|receptacle| &game.receptacles[receptacle].name),
        Argument::Place => receptacle.map(|receptacle| &game.places[game.receptacles[receptacle].place].name),
    };
    name.map_or("", String::as_str)
}

/// Calls `each` with the names of what a query finds.
fn find<'a>(
    query: Query,
    Scene { game, state, object, receptacle, first, .. }: Scene<'a>,
    mut each: impl FnMut(&'a str),
) {
    let object_name = |object: usize| game.objects[object].name.as_str();
    let receptacle_name = |receptacle: usize| game.receptacles[receptacle].name.as_str();
    match query {
        Query::Inside => {
            let inside = receptacle.into_iter().flat_map(|receptacle| state.inside(game, receptacle));
            inside.for_each(|object| each(object_name(object)));
        }
        Query::Held => state.held.into_iter().for_each(|object| each(object_name(object))),
        Query::Contents => {
            let contents = object.into_iter().flat_map(|object| &game.objects[object].contents);
            contents.for_each(|object| each(object_name(*object)));
        }
        Query::Receptacles if first => (0..game.receptacles.len()).for_each(|index| each(receptacle_name(index))),
        Query::Here | Query::Receptacles => {
            game.places[state.place].receptacles.iter().for_each(|index| each(receptacle_name(*index)));
        }
        Query::Floor => state.on_the_floor(game).for_each(|object| each(object_name(object))),
    }
}

/// Writes `a`; `a, and b`; `a, b, and c`; or `nothing`.
fn list(query: Query, article: bool, scene: Scene<'_>, out: &mut String) {
    let article = if article { "a " } else { "" };
    let mut write = |before: &str, name: &str| {
        for part in [before, article, name] {
            out.push_str(part);
        }
    };
    // The last name has another separator before it, so each is written when the next is known.
    let (mut last, mut separator) = (None, "");
    find(query, scene, |name| {
        if let Some(name) = last.replace(name) {
            write(separator, name);
            separator = ", ";
        }
    });
    match last {
        None => out.push_str("nothing"),
        Some(name) => write(if separator.is_empty() { "" } else { ", and " }, name),
    }
}

fn holds(fact: Fact, scene: Scene<'_>) -> bool {
    let Scene { game, state, object, receptacle, .. } = scene;
    let object_is = |test: &dyn Fn(usize) -> bool| object.is_some_and(test);
    match fact {
        Fact::Openable => receptacle.is_some_and(|receptacle| game.receptacles[receptacle].openable),
        Fact::Opened => receptacle.is_some_and(|receptacle| state.is_open(receptacle)),
        Fact::HoldsAny => state.held.is_some(),
        Fact::Container => object_is(&|object| game.objects[object].can(Ability::Contain)),
        Fact::Toggleable => object_is(&|object| game.objects[object].can(Ability::Toggle)),
        Fact::Sliceable => object_is(&|object| game.objects[object].can(Ability::Slice)),
        Fact::Has(flag) => object_is(&|object| state.has(game, flag, object)),
        Fact::Some(query) => {
            let mut some = false;
            find(query, scene, |_| some = true);
            some
        }
        Fact::Never => false,
    }
}
