//! Plays an environment with answers of any kind, and checks what holds whatever they are: for the fuzz targets, for the
//! test of odd answers, and for the bench that plays a million of them.
//!
//! Here a panic is a finding, so what should hold is asserted.

use accredit_environments::{Environment, EnvironmentError, Outcome, Turn, make};
use serde_json::Value;

/// Stands between the answers of an episode; no text has this byte.
pub const BETWEEN: u8 = 0xFF;
/// Begins an answer that is one of the listed actions: the next byte is its number, which goes round, and what follows is
/// put behind it. No text has this byte.
pub const LISTED: u8 = 0xFE;

/// How many turns an expert may need from where an episode is left.
const EXPERT_TURNS: usize = 3;

/// Plays an episode of a new environment; the first byte is its seed, and answers follow.
pub fn play(name: &str, settings: &Value, data: &[u8]) {
    let Some((seed, answers)) = data.split_first() else { return };
    let settings = settings.as_object().expect("settings are a table");
    let mut environment = make(name, settings).expect("the settings fit");
    episode(name, environment.as_mut(), (*seed).into(), answers);
}

/// Plays the episode of a seed, and then the same again: answers until it is over, and some of the expert's if it is not.
/// Gives the number of answers that were played.
pub fn episode(name: &str, environment: &mut dyn Environment, seed: u64, answers: &[u8]) -> usize {
    let start = environment.reset(seed).expect("the seed has a task");
    let mut played: Vec<String> = Vec::new();
    let mut turn = start.clone();
    let mut over = false;
    for answer in answers.split(|byte| *byte == BETWEEN) {
        let (answer, listed) = read(answer, &turn);
        Outcome { terminal: over, turn, .. } = step(name, environment, &start, &turn, &answer, listed);
        played.push(answer);
        if over {
            break;
        }
    }
    if over {
        assert!(matches!(environment.step(Some("Up"), "Up"), Err(EnvironmentError::EpisodeOver)));
        assert!(environment.expert().is_none(), "{name}: nothing is left to do");
    }
    for _ in 0..EXPERT_TURNS {
        // A room may be past solving.
        let Some(demonstration) = environment.expert() else { break };
        turn = step(name, environment, &start, &turn, &demonstration.action, true).turn;
        played.push(demonstration.action);
    }
    assert_eq!(environment.reset(seed).expect("the seed has a task"), start);
    let again = played.iter().map(|answer| environment.step(Some(answer), answer).expect("no text is an error"));
    assert_eq!(again.last().map_or(start, |outcome| outcome.turn), turn, "{name}: equal answers lead to equal turns");
    played.len()
}

/// The text of an answer, and whether it is a listed action as it stands.
fn read(answer: &[u8], turn: &Turn) -> (String, bool) {
    match answer {
        [LISTED, number, rest @ ..] if !turn.actions.is_empty() => {
            let action = &turn.actions[usize::from(*number) % turn.actions.len()];
            (format!("{action}{}", String::from_utf8_lossy(rest)), rest.is_empty())
        }
        _ => (String::from_utf8_lossy(answer).into_owned(), false),
    }
}

/// Plays an answer. `is_action` says that it is known to be one.
fn step(
    name: &str,
    environment: &mut dyn Environment,
    start: &Turn,
    before: &Turn,
    answer: &str,
    is_action: bool,
) -> Outcome {
    let outcome = environment.step(Some(answer), answer).expect("no text is an error");
    let Outcome { reward, terminal, success, valid_action, feedback, turn } = &outcome;
    assert!(reward.is_finite());
    assert!(turn.actions.is_empty() || !terminal, "{name}: an episode that is over has no actions");
    // A grid can be filled so that nothing fits any more.
    assert!(!turn.actions.is_empty() || *terminal || name == "sudoku", "{name}: an episode that goes on has actions");
    assert!(*terminal || !success);
    assert!(*valid_action || !is_action, "{name}: `{answer}` is an action");
    if !valid_action && !answer.contains("||") {
        assert_eq!(turn.state, before.state, "{name}: what is no action changes nothing");
    }
    assert!(turn.observation.len() < 20_000, "{name}: the observation grows with the answer");
    assert!(feedback.len() < 100_000, "{name}: the feedback grows with the answer");
    let state = |turn: &Turn| turn.state.clone().expect("a built-in environment tells its state");
    check_state(name, &state(start), &state(turn));
    outcome
}

/// Checks that a state is one that the rules allow, as far as its key tells.
fn check_state(name: &str, start: &str, state: &str) {
    let count = |symbols: &str| state.chars().filter(|symbol| symbols.contains(*symbol)).count();
    match name {
        "frozen-lake" => {
            assert_eq!(ground(state, "PXO√"), ground(start, "PXO√"), "the ice stays as it is");
            assert_eq!(count("PX√"), 1, "there is one agent");
        }
        "sokoban" => {
            assert_eq!(ground(state, "@ $.*+"), ground(start, "@ $.*+"), "walls and targets stay where they are");
            assert_eq!(count("@+"), 1, "there is one player");
            let boxes = start.chars().filter(|symbol| "$*".contains(*symbol)).count();
            assert_eq!(count("$*"), boxes, "no box comes or goes");
        }
        "sudoku" => check_sudoku(start, state),
        // Games have a fingerprint, and a shop's tasks a number.
        "alfworld" => assert_eq!(state.split('/').next(), start.split('/').next(), "the house stays the same"),
        "webshop" => assert_eq!(state.split(',').next(), start.split(',').next(), "the task stays the same"),
        other => panic!("what states of `{other}` are is not known here"),
    }
}

/// What lies below the things that move.
fn ground(state: &str, symbols: &str) -> String {
    assert!(state.chars().all(|symbol| "#_GO \n".contains(symbol) || symbols.contains(symbol)), "{state}");
    let below = |symbol| match symbol {
        'P' | '_' => '_',
        'X' | 'O' => 'O',
        '√' | 'G' => 'G',
        '@' | '$' => ' ',
        '*' | '+' => '.',
        other => other,
    };
    state.chars().map(below).collect()
}

/// The given numbers are there, and none is twice in a row, a column or a box.
fn check_sudoku(start: &str, state: &str) {
    let cells = |state: &str| state.lines().map(|row| row.chars().collect::<Vec<_>>()).collect::<Vec<_>>();
    let (start, state) = (cells(start), cells(state));
    let size = state.len();
    let side = size.isqrt();
    for (row, col) in (0..size * size).map(|cell| (cell / size, cell % size)) {
        let number = state[row][col];
        assert!(start[row][col] == '.' || start[row][col] == number, "a given number stays");
        let near = |(other_row, other_col): (usize, usize)| {
            let same_box = (row / side, col / side) == (other_row / side, other_col / side);
            (other_row, other_col) != (row, col) && (other_row == row || other_col == col || same_box)
        };
        let mut others = (0..size * size).map(|cell| (cell / size, cell % size)).filter(|other| near(*other));
        assert!(number == '.' || others.all(|(row, col)| state[row][col] != number), "{number} stands twice");
    }
}
