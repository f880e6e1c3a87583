//! `webshop` on its generated products, and on input of any kind.

use accredit_environments::{Environment, EnvironmentError, Outcome, Traits, Turn, make, traits};
use proptest::prelude::*;
use serde_json::{Value, json};

pub fn shop(settings: &Value) -> Box<dyn Environment> {
    make("webshop", settings.as_object().unwrap()).unwrap()
}

/// A shop that is quickly made.
fn small(settings: &Value) -> Value {
    let mut all = json!({ "products": 300 });
    for (key, value) in settings.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

pub fn act(environment: &mut dyn Environment, action: &str) -> Outcome {
    environment.step(Some(action), "").unwrap()
}

/// Plays the expert to the end, at most 40 turns.
pub fn play_expert(environment: &mut dyn Environment) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    while let Some(demonstration) = environment.expert() {
        assert!(!demonstration.think.is_empty());
        outcomes.push(act(environment, &demonstration.action));
        assert!(outcomes.last().unwrap().valid_action, "{}", demonstration.action);
        assert!(outcomes.len() <= 40, "{:?}", environment.task());
    }
    outcomes
}

#[test]
fn the_expert_reaches_every_goal_of_a_generated_shop() {
    for (matching, catalogue_seed) in [("original", 0), ("corrected", 1)] {
        let settings = small(&json!({ "option_matching": matching, "catalogue_seed": catalogue_seed }));
        let tasks = traits("webshop", &settings).unwrap().tasks.unwrap();
        assert!(tasks > 300, "{tasks}");
        let mut environment = shop(&settings);
        for seed in (0..tasks).step_by(7) {
            let start = environment.reset(seed).unwrap();
            assert!(start.observation.contains(&environment.task().text));
            let last = play_expert(&mut *environment).pop().unwrap();
            assert!(
                last.terminal && last.success && last.reward == 1.0,
                "{}: {}",
                environment.task().text,
                last.feedback
            );
        }
    }
}

#[test]
fn a_visit_goes_through_all_pages() {
    let mut environment = shop(&small(&json!({ "show_attributes": true })));
    let start = environment.reset(3).unwrap();
    let task = environment.task().text;
    assert_eq!(start.observation, format!("WebShop [SEP] Instruction: [SEP] {task} [SEP] Search"));
    assert_eq!(start.actions, [format!("search[{}]", task.to_lowercase())]);

    let results = act(&mut *environment, &start.actions[0]);
    assert_eq!(results.feedback, "50 products found.");
    let head = format!(
        "Instruction: [SEP] {task} [SEP] Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP] B0"
    );
    assert!(results.turn.observation.starts_with(&head), "{}", results.turn.observation);
    assert_eq!(results.turn.actions.len(), 12);
    assert_eq!(results.turn.actions[..2], ["click[back to search]", "click[next >]"]);

    let second = act(&mut *environment, "click[Next >]");
    assert!(second.turn.observation.contains("Page 2 (Total results: 50) [SEP] < Prev [SEP] Next >"));
    assert_eq!(act(&mut *environment, "click[< prev]").turn, results.turn);
    // Pages go on behind the last product.
    for _ in 0..5 {
        act(&mut *environment, "click[next >]");
    }
    let empty = act(&mut *environment, "click[next >]").turn;
    assert!(
        empty.observation.ends_with("Page 7 (Total results: 50) [SEP] < Prev [SEP] Next >"),
        "{}",
        empty.observation
    );
    assert_eq!(act(&mut *environment, &start.actions[0]).turn, results.turn);

    let item = act(&mut *environment, &results.turn.actions[2]);
    assert!(
        item.turn.observation.contains(
            "[SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Attributes [SEP] Buy Now"
        )
    );
    let value = item.turn.actions.last().unwrap().clone();
    let chosen = act(&mut *environment, &value);
    assert_eq!(chosen.turn.observation, item.turn.observation);
    assert_ne!(chosen.turn.state, item.turn.state);
    assert!(chosen.feedback.starts_with("You chose "), "{}", chosen.feedback);
    for sub_page in ["description", "features", "reviews", "attributes"] {
        let told = act(&mut *environment, &format!("click[{sub_page}]"));
        assert_eq!(told.turn.actions, ["click[back to search]", "click[< prev]"]);
        assert!(
            told.turn.observation.starts_with(&format!("Instruction: [SEP] {task} [SEP] Back to Search [SEP] < Prev"))
        );
        assert_eq!(act(&mut *environment, "click[< prev]").turn, chosen.turn);
    }
    assert_eq!(act(&mut *environment, "click[< prev]").turn, results.turn);
    assert_eq!(act(&mut *environment, "click[back to search]").turn, start);

    act(&mut *environment, &start.actions[0]);
    act(&mut *environment, &results.turn.actions[2]);
    let end = act(&mut *environment, "click[buy now]");
    assert!(end.terminal && !end.success && end.turn.actions.is_empty());
    assert!(end.turn.observation.starts_with("Thank you for shopping with us! [SEP] Your code: [SEP] None"));
    assert!((0.0..1.0).contains(&end.reward) && end.feedback.starts_with("You bought B0"));
    assert!(matches!(environment.step(Some("click[buy now]"), ""), Err(EnvironmentError::EpisodeOver)));
    assert!(environment.expert().is_none());
}

#[test]
fn what_is_no_action_changes_nothing() {
    let mut environment = shop(&small(&json!({})));
    assert!(matches!(environment.step(None, ""), Err(EnvironmentError::NotStarted)));
    let start = environment.reset(0).unwrap();
    for action in [None, Some(""), Some("click[search]"), Some("click[buy now]"), Some("search[]"), Some("buy[x]")] {
        let outcome = environment.step(action, "").unwrap();
        assert!(!outcome.valid_action && !outcome.terminal && outcome.reward == 0.0, "{action:?}");
        assert_eq!(outcome.turn, start);
    }
    // A search for nothing finds nothing.
    let nothing = act(&mut *environment, "search[ ]");
    assert!(nothing.valid_action && nothing.turn.observation.contains("Page 1 (Total results: 0)"));
    let endless = act(&mut *environment, &format!("search[{}]", "red shirt ".repeat(10_000)));
    assert!(endless.valid_action && endless.turn.observation.len() < 10_000);
    // The original's searches by query and by category.
    let all = act(&mut *environment, "search[<c> fashion]").turn.observation;
    assert!(!all.contains("results: 0)") && !all.contains("results: 50)"), "{all}");
    assert!(act(&mut *environment, "search[<q> no such query]").turn.observation.contains("results: 0)"));
}

#[test]
fn rewards_and_views_are_what_the_settings_say() {
    for (reward, expected) in [("score", 1.0), ("verl", 10.0), ("ragen", 1.0)] {
        let mut environment = shop(&small(&json!({ "reward": reward, "view": "quoted" })));
        let start = environment.reset(5).unwrap();
        assert_eq!(start.observation, "'Search'");
        let outcomes = play_expert(&mut *environment);
        let (last, before) = outcomes.split_last().unwrap();
        assert_eq!((last.reward, last.success), (expected, true));
        assert!(before.iter().all(|outcome| outcome.reward == 0.0));
        assert!(
            before[0]
                .turn
                .observation
                .starts_with("'Back to Search' [SEP] 'Page 1 (Total results: 50)' [SEP] 'Next >'")
        );

        environment.reset(5).unwrap();
        act(&mut *environment, "search[tea]");
        let item = act(&mut *environment, "click[next >]").turn.actions[3].clone();
        act(&mut *environment, &item);
        let poor = act(&mut *environment, "click[buy now]");
        assert!(!poor.success && (reward == "score" || poor.reward == 0.0));
    }
}

#[test]
fn splits_never_meet_and_seeds_go_round() {
    let states = |split: &str| -> Vec<String> {
        let settings = small(&json!({ "split": split }));
        let tasks = traits("webshop", &settings).unwrap().tasks.unwrap();
        let mut environment = shop(&settings);
        let state = |turn: Turn| turn.state.unwrap();
        let first = state(environment.reset(0).unwrap());
        assert_eq!(state(environment.reset(tasks).unwrap()), first);
        (0..tasks).map(|seed| state(environment.reset(seed).unwrap())).collect()
    };
    let mut all = ["train", "validation", "test"].map(states).concat();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let check = |settings: Value, key: &str, message: &str| {
        let error = make("webshop", settings.as_object().unwrap()).err().unwrap();
        assert_eq!(error.key(), Some(key), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    };
    check(json!({ "products": 2_000_000 }), "products", "at most 1000000 products");
    check(json!({ "goals": "human" }), "goals", "`data` is needed");
    check(small(&json!({ "ranges": "verl", "split": "test" })), "split", "this split is empty");
    check(json!({ "products": 3, "ranges": "original" }), "split", "this split is empty");
    check(json!({ "reward": "points" }), "reward", "expected one of `score`, `verl`, `ragen`");
    check(json!({ "data": "/no/such/folder" }), "data", "there is no folder /no/such/folder; ");
    let expected = Traits { states: true, expert: true, tasks: Some(1), ..Traits::default() };
    let traits = traits("webshop", &small(&json!({}))).unwrap();
    assert_eq!(Traits { tasks: Some(1), ..traits }, expected);
}

/// Texts of any kind, and actions that are nearly right.
fn responses() -> impl Strategy<Value = String> {
    let huge = (1_usize..300).prop_map(|count| format!("search[{}]", "red shirt ".repeat(count)));
    prop_oneof![
        4 => "\\PC{0,80}",
        4 => "(search|click|Click)\\[[ -~]{0,30}\\]{0,2}",
        2 => "[\\x00-\\x1f\\[\\]<>\u{202e}\u{200b}é]{0,40}",
        2 => "search\\[(<[acqr]> ?)?[a-z ]{0,20}\\]",
        1 => huge,
        4 => prop::sample::select(vec!["click[next >]", "click[< prev]", "click[back to search]", "click[description]"])
            .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_input_leaves_a_whole_shop(
        seed: u64,
        inputs in prop::collection::vec(prop_oneof![3 => responses().prop_map(Some), 4 => Just(None)], 1..25),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 25),
    ) {
        let settings = small(&json!({}));
        let (mut environment, mut other) = (shop(&settings), shop(&settings));
        let mut turn = environment.reset(seed).unwrap();
        prop_assert_eq!(&other.reset(seed).unwrap(), &turn);
        for (input, pick) in inputs.into_iter().zip(picks) {
            // Where there is no text, one of the listed actions is played.
            let listed = input.is_none();
            let action = input.unwrap_or_else(|| turn.actions[pick.index(turn.actions.len())].clone());
            let outcome = environment.step(Some(&action), &action).unwrap();
            prop_assert!(!listed || outcome.valid_action, "{}", action);
            prop_assert_eq!(&other.step(Some(&action), &action).unwrap(), &outcome);
            prop_assert!((0.0..=1.0).contains(&outcome.reward));
            prop_assert_eq!(outcome.terminal, outcome.turn.actions.is_empty());
            prop_assert!(outcome.valid_action || outcome.turn == turn);
            prop_assert!(outcome.turn.observation.len() < 20_000);
            // From wherever it is, the expert goes on.
            prop_assert_eq!(environment.expert().is_none(), outcome.terminal);
            if outcome.terminal {
                return Ok(());
            }
            turn = outcome.turn;
        }
        let last = play_expert(&mut *environment).pop().unwrap();
        prop_assert!(last.success);
    }
}
