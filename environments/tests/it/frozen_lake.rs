//! `frozen-lake`: its settings, its rules, and what holds for every seed. `traces.rs` has the recording of the original.

use accredit_environments::{Environment, EnvironmentError, Traits, make, traits};
use proptest::prelude::*;
use serde_json::{Value, json};

fn lake(settings: &Value) -> Box<dyn Environment> {
    make("frozen-lake", settings.as_object().unwrap()).unwrap()
}

fn refused(settings: &Value) -> EnvironmentError {
    make("frozen-lake", settings.as_object().unwrap()).err().unwrap()
}

#[test]
fn the_views_are_parts_of_one_another() {
    let show = |view: &str| lake(&json!({ "view": view })).reset(4).unwrap();
    let (grid, coord, both) = (show("grid"), show("coord"), show("grid_coord"));
    assert_eq!(grid.observation, "_P_O\n____\n_O__\n__OG");
    assert_eq!(both.observation, format!("Coordinates: \n{}\nGrid Map: \n{}", coord.observation, grid.observation));
    // The state does not depend on how it is shown.
    assert_eq!(grid.state, both.state);
    assert_eq!(grid.state, coord.state);
    assert_eq!(grid.actions, ["Left", "Down", "Right", "Up"]);
}

#[test]
fn what_is_no_action_moves_nothing_and_draws_nothing() {
    let (mut plain, mut disturbed) = (lake(&json!({})), lake(&json!({})));
    let start = plain.reset(4).unwrap();
    disturbed.reset(4).unwrap();
    for nonsense in [None, Some(""), Some("Jump"), Some("Down || Down"), Some("go Down"), Some("Down.")] {
        let outcome = disturbed.step(nonsense, "").unwrap();
        assert!(!outcome.valid_action && !outcome.terminal && outcome.reward == 0.0, "{nonsense:?}");
        assert_eq!(outcome.turn, start, "{nonsense:?}");
        assert!(outcome.feedback.ends_with("the actions are Left, Down, Right, Up."), "{}", outcome.feedback);
    }
    for action in ["Down", "right", " LEFT "] {
        let expected = plain.step(Some(action), "").unwrap();
        assert!(expected.valid_action);
        assert_eq!(disturbed.step(Some(action), "").unwrap(), expected);
    }
}

#[test]
fn several_actions_in_one_answer_follow_ragen() {
    let settings = json!({ "success_rate": 1.0, "max_actions_per_turn": 2, "map": "gym" });
    let play = |action: &str| {
        let mut environment = lake(&settings);
        environment.reset(0).unwrap();
        let outcome = environment.step(Some(action), "").unwrap();
        (outcome.turn.observation.lines().map(str::to_owned).collect::<Vec<_>>(), outcome)
    };
    let (rows, outcome) = play("Down || down");
    assert_eq!((rows[2].as_str(), outcome.valid_action), ("P__O", true));
    // One too many is not played; what is no action is left out and told; nothing is played after the end.
    let (rows, outcome) = play("Down||Down||Right");
    assert_eq!((rows[2].as_str(), outcome.valid_action), ("P__O", true));
    let (rows, outcome) = play("Jump || Down");
    assert_eq!((rows[1].as_str(), outcome.valid_action), ("PO_O", false));
    let (rows, outcome) = play(" || Right || ");
    assert_eq!((rows[0].as_str(), outcome.valid_action), ("_P__", true));
    assert!(!play("||").1.valid_action);

    let mut environment = lake(&settings);
    environment.reset(0).unwrap();
    environment.step(Some("Right"), "").unwrap();
    let outcome = environment.step(Some("Down || Right"), "").unwrap();
    assert!(outcome.terminal && !outcome.success && outcome.valid_action);
    assert_eq!(outcome.turn.observation, "____\n_X_O\n___O\nO__G");
    assert_eq!(outcome.feedback, "You moved Down and fell into a hole.");
}

#[test]
fn an_episode_is_played_between_reset_and_its_end() {
    let mut environment = lake(&json!({ "success_rate": 1.0, "map": "gym" }));
    assert!(matches!(environment.step(Some("Left"), ""), Err(EnvironmentError::NotStarted)));
    assert!(environment.expert().is_none());
    environment.reset(0).unwrap();
    for action in ["Down", "Down", "Right", "Down", "Right"] {
        assert!(!environment.step(Some(action), "").unwrap().terminal);
    }
    let last = environment.step(Some("Right"), "").unwrap();
    assert!(last.terminal && last.success);
    assert_eq!(last.reward, 1.0);
    assert_eq!(last.feedback, "You moved Right and reached the goal.");
    assert!(last.turn.actions.is_empty());
    assert!(matches!(environment.step(Some("Left"), ""), Err(EnvironmentError::EpisodeOver)));
    assert!(environment.expert().is_none());
    assert!(environment.reset(0).is_ok());
}

#[test]
fn the_expert_comes_near_the_known_ceiling_on_slippery_ice() {
    // The best possible success rate within 10 actions is 95.4 % where slips are independent of the map (the expert's own
    // test has that). In the original they are not: both come from one seed's stream. Over 20,000 seeds that costs the
    // expert 1.2 points.
    let mut environment = lake(&json!({}));
    let mut wins = 0;
    for seed in 0..1000 {
        environment.reset(seed).unwrap();
        for _ in 0..10 {
            let action = environment.expert().unwrap().action;
            let outcome = environment.step(Some(&action), "").unwrap();
            wins += u32::from(outcome.success);
            if outcome.terminal {
                break;
            }
        }
    }
    assert!((925..=960).contains(&wins), "{wins} of 1000");
}

#[test]
fn the_expert_prefers_no_direction() {
    let mut counts = [0; 4];
    let mut environment = lake(&json!({ "p_frozen": 1.0, "success_rate": 1.0, "min_distance": 2 }));
    for seed in 0..400 {
        environment.reset(seed).unwrap();
        let action = environment.expert().unwrap().action;
        counts[["Left", "Down", "Right", "Up"].iter().position(|name| *name == action).unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (70..=130).contains(count)), "{counts:?}");
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let check = |settings: Value, key: &str, message: &str| {
        let error = refused(&settings);
        assert_eq!(error.key(), Some(key), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(traits("frozen-lake", &settings).unwrap_err().to_string(), error.to_string());
    };
    check(json!({ "sise": 4 }), "sise", "did you mean `size`?");
    check(json!({ "size": 1 }), "size", "must be 2 to 64, not 1");
    check(json!({ "size": "4" }), "size", "expected a whole number");
    check(json!({ "size": -4 }), "size", "expected a whole number");
    // TOML has no whole number that is so large, so the command line takes it for a text.
    let range =
        "9223372036854775808 is out of range: whole numbers go from -9223372036854775808 to 9223372036854775807";
    check(json!({ "size": "9223372036854775808" }), "size", range);
    check(json!({ "size": "" }), "size", "expected a whole number");
    check(json!({ "size": 5, "map": "gym" }), "size", "must be 4, not 5");
    check(json!({ "map": "round" }), "map", "expected `random` or `gym`");
    check(json!({ "view": "Grid" }), "view", "expected one of `grid`, `coord`, `grid_coord`");
    check(json!({ "p_frozen": 1.5 }), "p_frozen", "must be a probability, 0 to 1, not 1.5");
    check(json!({ "success_rate": -0.1 }), "success_rate", "must be a probability, 0 to 1, not -0.1");
    check(json!({ "min_distance": 0 }), "min_distance", "must be 1 to 6 for maps of size 4, not 0");
    check(json!({ "min_distance": 7 }), "min_distance", "must be 1 to 6 for maps of size 4, not 7");
    check(json!({ "max_actions_per_turn": 0 }), "max_actions_per_turn", "must be at least 1");
    check(json!({ "expert_horizon": 0 }), "expert_horizon", "must be 1 to 1000, not 0");
    let expected = Traits { states: true, expert: true, ..Traits::default() };
    assert_eq!(traits("frozen-lake", &json!({ "size": 8, "success_rate": 1 })).unwrap(), expected);
}

#[test]
fn a_seed_without_a_map_is_an_error_that_says_what_to_change() {
    let check = |settings: Value, message: &str| {
        let error = lake(&settings).reset(3).unwrap_err().to_string();
        assert!(error.starts_with("environment `frozen-lake` has no task for seed 3: of "), "{error}");
        assert!(error.ends_with(message), "{error}");
    };
    let whole = "of 100000 random maps with p_frozen = 0, none has its goal 3 or more moves away; the farthest is 1 away: \
                 lower `min_distance`";
    check(json!({ "p_frozen": 0.0, "min_distance": 3 }), whole);
    check(json!({ "size": 64, "min_distance": 126 }), "away: lower `min_distance`");
    check(json!({ "size": 64, "p_frozen": 0.0 }), "no goal can be reached at all: raise `p_frozen`");
}

#[test]
fn instructions_say_what_the_settings_mean() {
    let slippery = lake(&json!({ "max_actions_per_turn": 2 })).instructions();
    assert!(slippery.contains("probability 0.8") && slippery.contains("1 to 2 actions, separated by ||"));
    let plain = lake(&json!({ "success_rate": 1.0, "view": "coord" })).instructions();
    assert!(plain.contains("not slippery") && plain.contains("(row, column)") && plain.contains("one action"));
}

proptest! {
    #[test]
    fn equal_seeds_play_equal_episodes(
        seed: u64,
        before: u64,
        actions in prop::collection::vec(prop::sample::select(vec!["Left", "Down", "Right", "Up", "Fly"]), 1..20),
    ) {
        let (mut fresh, mut used) = (lake(&json!({})), lake(&json!({})));
        used.reset(before).unwrap();
        used.step(Some("Left"), "").unwrap();
        used.expert();
        prop_assert_eq!(fresh.reset(seed).unwrap(), used.reset(seed).unwrap());
        for action in actions {
            let outcome = fresh.step(Some(action), "").unwrap();
            prop_assert_eq!(used.expert(), used.expert());
            prop_assert_eq!(&outcome, &used.step(Some(action), "").unwrap());
            if outcome.terminal {
                break;
            }
        }
    }
}
