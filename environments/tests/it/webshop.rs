//! `webshop` on its generated products, on files, and on input of any kind.

use std::fs;
use std::path::Path;

use accredit_environments::traces::{TraceError, replay};
use accredit_environments::{Environment, EnvironmentError, Outcome, Traits, Turn, make, traits};
use proptest::prelude::*;
use serde_json::{Value, json};

fn shop(settings: &Value) -> Box<dyn Environment> {
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

fn act(environment: &mut dyn Environment, action: &str) -> Outcome {
    environment.step(Some(action), "").unwrap()
}

/// Plays the expert to the end, at most 40 turns.
fn play_expert(environment: &mut dyn Environment) -> Vec<Outcome> {
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
    check(json!({ "data": "/no/such/folder" }), "data", "there is neither `items_shuffle.json` nor");
    let expected = Traits { states: true, expert: true, tasks: Some(1), ..Traits::default() };
    let traits = traits("webshop", &small(&json!({}))).unwrap();
    assert_eq!(Traits { tasks: Some(1), ..traits }, expected);
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

const PRODUCTS: &str = r#"[
    {"asin": "B000000001", "name": "Acme Red Tea Cup", "full_description": "", "small_description": ["For tea.", " "],
     "pricing": "$12.50", "customization_options": {"Color": [{"value": "Red/Gold"}, {"value": "blue"}]},
     "category": "garden", "query": "Tea Cups", "product_category": "Home › Cups", "images": ["x"]},
    {"asin": "B000000001", "name": "Twice", "full_description": "", "small_description": "", "pricing": null,
     "customization_options": "", "category": "garden", "query": "x", "product_category": "x"},
    {"asin": "a name that is too long", "name": "Long", "full_description": "", "small_description": "", "pricing": null,
     "customization_options": "", "category": "garden", "query": "x", "product_category": "x"},
    {"asin": "B000000002", "name": "Acme [Big] Pot", "full_description": "A pot.", "small_description": "Iron.",
     "pricing": "$20 - $30", "customization_options": "", "category": "garden", "query": "pots",
     "product_category": "Home › Pots"}
]"#;
const ANNOTATIONS: &str = r#"{
    "B000000001": {"attributes": ["hand made"], "instruction": "Find me hand made tea cups", "instruction_attributes": ["hand made"]},
    "B000000002": {"attributes": []}
}"#;
const HUMAN: &str = r#"{"B000000002": [
    {"asin": "B000000002", "instruction": "i want a big pot.", "instruction_attributes": ["pot"], "instruction_options": []},
    {"asin": "B000000002", "instruction": "no attributes", "instruction_attributes": [], "instruction_options": []}
]}"#;

#[test]
fn files_of_the_original_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    write(folder.path(), "items_shuffle_1000.json", PRODUCTS);
    write(folder.path(), "items_ins_v2_1000.json", ANNOTATIONS);
    write(folder.path(), "items_human_ins.json", HUMAN);
    let settings = json!({ "data": data });
    assert_eq!(traits("webshop", &settings).unwrap().tasks, Some(2));
    let mut environment = shop(&settings);
    for seed in 0..2 {
        environment.reset(seed).unwrap();
        assert!(
            environment.task().text.starts_with("Find me hand made tea cups with color: "),
            "{:?}",
            environment.task()
        );
        let outcomes = play_expert(&mut *environment);
        assert!(outcomes.last().unwrap().success);
        let item = &outcomes[1].turn.observation;
        assert!(
            item.contains("[SEP] color [SEP] red | gold [SEP] blue [SEP] Acme Red Tea Cup [SEP] Price: $12.5 [SEP]"),
            "{item}"
        );
    }
    let mut human = shop(&json!({ "data": data, "goals": "human" }));
    human.reset(0).unwrap();
    let text = human.task().text;
    assert!(text.starts_with("i want a big pot, and price lower than "), "{text}");
    assert!(play_expert(&mut *human).last().unwrap().success);
}

#[test]
fn a_trace_beside_the_files_is_played_back_and_a_change_is_found() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "items_shuffle.json", PRODUCTS);
    write(folder.path(), "items_ins_v2.json", ANNOTATIONS);
    let data = folder.path().to_str().unwrap();
    let settings = json!({ "data": data, "price_seed": 0, "shuffle_seed": 0, "ranges": "verl", "split": "validation" });
    let mut environment = shop(&settings);
    let obs = environment.reset(1).unwrap().observation;
    let search_page = json!({ "has_search_bar": true, "clickables": ["search"] });
    let mut lines = vec![json!({ "ep": 0, "goal": 1, "action": null, "obs": obs, "avail": search_page })];
    while let Some(demonstration) = environment.expert() {
        let Outcome { reward, terminal, turn, .. } = act(&mut *environment, &demonstration.action);
        let texts: Vec<&str> = turn.actions.iter().map(|action| &action[6..action.len() - 1]).collect();
        lines.push(json!({
            "ep": 0, "goal": 1, "action": demonstration.action, "obs": turn.observation, "reward": reward,
            "done": terminal, "avail": { "has_search_bar": false, "clickables": texts },
        }));
    }
    let played = |lines: &[Value]| {
        let text: Vec<String> = lines.iter().map(Value::to_string).collect();
        write(folder.path(), "trace.jsonl", &text.join("\n"));
        replay(&folder.path().join("trace.jsonl"))
    };
    assert_eq!(played(&lines).unwrap(), lines.len());
    let last = lines.len() - 1;
    for (line, key, value) in [
        (0, "obs", json!("WebShop")),
        (1, "obs", json!("")),
        (1, "avail", json!({ "has_search_bar": false, "clickables": [] })),
        (2, "done", json!(true)),
        (last, "reward", json!(0.9)),
    ] {
        let mut changed = lines.clone();
        changed[line][key] = value;
        let error = played(&changed).unwrap_err();
        assert!(
            matches!(&error, TraceError::Differs { line: found, key: of, .. } if (*found, *of) == (line + 1, key)),
            "{error}"
        );
    }
    let error = played(&[json!({ "q": "the pots", "tokens": ["pot"], "hits": [["B000000002", 0.0]] })]).unwrap_err();
    assert!(matches!(error, TraceError::Differs { line: 1, key: "hits", .. }), "{error}");
}

/// The original's data are not ours to check in, so this compares only where `ACCREDIT_WEBSHOP_DATA` names a folder with
/// the small set and recordings of the original with it.
#[test]
fn recordings_of_the_original_are_played_back() {
    let Some(folder) = std::env::var_os("ACCREDIT_WEBSHOP_DATA") else {
        eprintln!("not compared: ACCREDIT_WEBSHOP_DATA names no folder with the original's data");
        return;
    };
    for (name, expected) in [("bm25_golden.jsonl", 125), ("trace_20_episodes.jsonl", 90)] {
        match replay(&Path::new(&folder).join(name)) {
            Ok(lines) => assert_eq!(lines, expected, "{name}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let goals = |changes: Value| -> u64 {
        let count = |split: &str| {
            let mut settings = changes.clone();
            settings["data"] = json!(folder.to_str().unwrap());
            settings["ranges"] = json!("verl");
            settings["split"] = json!(split);
            traits("webshop", &settings).unwrap().tasks.unwrap()
        };
        count("train") + count("validation")
    };
    assert_eq!(goals(json!({})), 6910);
    assert_eq!(goals(json!({ "drop_unreachable": true })), 6910 - 458);
    assert_eq!(goals(json!({ "drop_unreachable": true, "option_matching": "corrected" })), 6910);
}

#[test]
fn files_that_do_not_fit_are_named_with_the_place() {
    let check = |files: &[(&str, &str)], goals: &str, key: &str, expected: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            write(folder.path(), name, text);
        }
        let settings = json!({ "data": folder.path().to_str().unwrap(), "goals": goals });
        let error = make("webshop", settings.as_object().unwrap()).err().unwrap();
        assert_eq!(error.key(), Some(key), "{error}");
        for part in expected {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    };
    let products = |text: &'static str| ("items_shuffle.json", text);
    let annotations = ("items_ins_v2.json", ANNOTATIONS);
    check(&[], "synthetic", "data", &["items_shuffle.json", "setup.sh -d small"]);
    check(&[products(PRODUCTS)], "synthetic", "data", &["cannot read", "items_ins_v2.json"]);
    let cut = PRODUCTS.split_at(700).0;
    check(&[products(cut), annotations], "synthetic", "data", &["items_shuffle.json", "line", "is the file cut?"]);
    check(&[products("{}"), annotations], "synthetic", "data", &["items_shuffle.json", "expected a list of products"]);
    check(&[products("[]"), annotations], "synthetic", "data", &["holds no product"]);
    check(&[products("[1]"), annotations], "synthetic", "data", &["items_shuffle.json", "`[0]`", "line 1"]);
    check(&[products("[{\"asin\": 3}]"), annotations], "synthetic", "data", &["`[0].asin`"]);
    check(&[products("\u{0}\u{1}"), annotations], "synthetic", "data", &["items_shuffle.json", "line 1"]);
    let bad_price =
        (PRODUCTS.replace("$12.50", "12.50"), "`pricing`: expected a text such as \"$12.99\", not \"12.50\"");
    check(&[("items_shuffle.json", &bad_price.0), annotations], "synthetic", "data", &["`B000000001`", bad_price.1]);
    check(
        &[products(PRODUCTS), ("items_ins_v2.json", r#"{"B000000001": {"instruction": "Find me"}}"#)],
        "synthetic",
        "data",
        &["`B000000001` has an `instruction` but no `instruction_attributes`"],
    );
    check(
        &[products(PRODUCTS), ("items_ins_v2.json", r#"{"x": 3}"#)],
        "synthetic",
        "data",
        &["items_ins_v2.json", "`x`"],
    );
    check(&[products(PRODUCTS), annotations], "human", "goals", &["there is no `items_human_ins.json`"]);
    check(&[products(PRODUCTS), ("items_ins_v2.json", "{}")], "synthetic", "split", &["0 goals"]);
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
