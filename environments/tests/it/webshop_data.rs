//! `webshop` with files in the original's form.

use std::fs;
use std::path::Path;

use accredit_environments::traces::{TraceError, replay};
use accredit_environments::{Outcome, make, traits};
use serde_json::{Value, json};

use crate::broken_data;
use crate::webshop::{act, play_expert, shop};

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
    check(&[products(PRODUCTS)], "synthetic", "data", &["cannot read", "items_ins_v2.json", "setup.sh -d small"]);
    check(&[products("{}"), annotations], "synthetic", "data", &["items_shuffle.json", "expected a list of products"]);
    check(&[products("[]"), annotations], "synthetic", "data", &["holds no product"]);
    check(&[products("[1]"), annotations], "synthetic", "data", &["items_shuffle.json", "`[0]`", "line 1"]);
    check(&[products("[{\"asin\": 3}]"), annotations], "synthetic", "data", &["`[0].asin`"]);
    let bad_price =
        (PRODUCTS.replace("$12.50", "12.50"), "`pricing`: expected a text such as \"$12.99\", not \"12.50\"");
    check(&[("items_shuffle.json", &bad_price.0), annotations], "synthetic", "data", &["`B000000001`", bad_price.1]);
    check(
        &[products(PRODUCTS), ("items_ins_v2.json", r#"{"B000000001": {"instruction": "Find me"}}"#)],
        "synthetic",
        "data",
        &["items_ins_v2.json: `B000000001` has an `instruction` but no `instruction_attributes`; "],
    );
    check(
        &[products(PRODUCTS), ("items_ins_v2.json", r#"{"x": 3}"#)],
        "synthetic",
        "data",
        &["items_ins_v2.json", "`x`"],
    );
    check(&[products(PRODUCTS), annotations], "human", "goals", &["no `items_human_ins.json`", "setup.sh"]);
    let none = ["none of the 2 products has a goal", "items_ins_v2", "setup.sh -d small"];
    check(&[products(PRODUCTS), ("items_ins_v2.json", "{}")], "synthetic", "data", &none);
}

#[test]
fn folders_and_files_that_are_broken_are_named() {
    const HINT: &str = "`setup.sh -d small`";
    let refused = |folder: &Path| {
        let settings = json!({ "data": folder.to_str().unwrap(), "goals": "human" });
        let error = make("webshop", settings.as_object().unwrap()).err().unwrap();
        assert_eq!(error.key(), Some("data"), "{error}");
        error.to_string()
    };
    broken_data::check_folder(HINT, &refused);
    let folder = tempfile::tempdir().unwrap();
    let nouns = r#"{"B000000001": ["Acme", "Tea", "Cup"], "B000000002": ["Pot"]}"#;
    let files = [
        ("items_shuffle.json", PRODUCTS),
        ("items_ins_v2.json", ANNOTATIONS),
        ("items_human_ins.json", HUMAN),
        ("items_nouns.json", nouns),
    ];
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    for (name, _) in files {
        broken_data::check_file(&folder.path().join(name), HINT, &|| refused(folder.path()));
    }
    let whole = json!({ "data": folder.path().to_str().unwrap(), "goals": "human" });
    assert!(make("webshop", whole.as_object().unwrap()).is_ok());
}
