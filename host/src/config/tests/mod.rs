//! The configuration as a user meets it: layers, `--set`, origins, what is written and read again, and, in [`errors`],
//! every kind of error with its exact text.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

mod errors;

const VALID: &str = r#"
seed = 7
iterations = 200

[model]
path = "models/tiny"

[environment]
name = "sokoban"
size = 6
walls = { thick = true, rows = [1, 2] }

[rollout]
groups = 4
context = "window"
window = 2

[[credit]]
plugin = "acme"

[[credit]]
plugin = "./target/libaccredit_emphasis.so"
params = { alpha = 0.1, beta = 1 }
until = 20

[objective]
params = { low = 0.2, high = 0.28 }
"#;

fn load(text: &str, sets: &[&str]) -> Result<Loaded, ConfigError> {
    let folder = folder(&[("a.toml", text)]);
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Loaded::read(&[folder.path().join("a.toml")], &sets)
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

/// The text of an error, with the temporary folder cut out of it.
fn text(error: &ConfigError, folder: &Path) -> String {
    error.to_string().replace(&format!("{}/", folder.display()), "")
}

#[test]
fn another_environment_does_not_inherit_keys_and_the_same_one_does() {
    let folder = folder(&[("a.toml", VALID)]);
    let read = |text: &str| {
        let file = folder.path().join("b.toml");
        fs::write(&file, format!("extends = [\"a.toml\"]\n{text}")).unwrap();
        Loaded::read(&[file], &[]).unwrap().config.environment.unwrap()
    };
    let other = read("[environment]\nname = \"sudoku\"\nclues = 9");
    assert_eq!(serde_json::json!(other.parameters), serde_json::json!({ "clues": 9 }));
    let same = read("[environment]\nname = \"sokoban\"\nsize = 7");
    assert_eq!((&same.parameters["size"], same.parameters.contains_key("walls")), (&serde_json::json!(7), true));
}

#[test]
fn the_whole_is_read_with_defaults() {
    let loaded = load(VALID, &[]).unwrap();
    let config = &loaded.config;
    assert_eq!((config.seed, config.iterations), (7, 200));
    assert_eq!(config.model.path, Some(PathBuf::from("models/tiny")));
    let environment = loaded.for_training().unwrap();
    assert_eq!(environment.name, "sokoban");
    assert_eq!(environment.timeout_seconds, 60.0);
    assert_eq!(
        serde_json::to_string(&environment.parameters).unwrap(),
        r#"{"size":6,"walls":{"thick":true,"rows":[1,2]}}"#
    );
    assert_eq!(config.rollout.groups, 4);
    assert_eq!(config.rollout.group_size, 8);
    assert_eq!(config.rollout.context, Context::Window);
    let labels: Vec<&str> = config.credit.iter().map(Credit::label).collect();
    assert_eq!(labels, ["acme", "emphasis"]);
    assert_eq!(config.credit[1].until, Some(20));
    assert_eq!(config.objective.plugin, "clip");
    assert_eq!(config.optimizer, Optimizer::default());
    assert_eq!(Loaded::read(&[], &[]).unwrap().config, Config::default());
}

#[test]
fn training_needs_more_than_offline_credit() {
    let error = load("[model]\ndevice = \"cpu\"\n[[credit]]\nplugin = \"acme\"\nshadow = true\n", &[])
        .unwrap()
        .for_training()
        .unwrap_err();
    let shown = error.to_string();
    for part in [
        "error: there is no environment to play in\n  = expected `[environment]` with a `name` in ",
        "error: there is no model to train\n --> ",
        "a.toml:1:1\n  |\n1 | [model]\n  | ^^^^^^^\n  = expected `[model]` with a `path`, or `[model.create]` in ",
    ] {
        assert!(shown.contains(part), "{part}\n--- is not in\n{shown}");
    }
}

#[test]
fn later_layers_win_and_tables_merge() {
    let folder = folder(&[
        ("base/model.toml", "seed = 1\niterations = 5\n[optimizer]\nlr = 1e-3\nbeta1 = 0.5\n"),
        ("base/credit.toml", "seed = 2\n[[credit]]\nplugin = \"acme\"\n[[credit]]\nplugin = \"emphasis\"\n"),
        ("runs/a.toml", "extends = [\"../base/model.toml\", \"../base/credit.toml\"]\n\n[optimizer]\nlr = 1e-4\n"),
        ("runs/b.toml", "[[credit]]\nplugin = \"gae\"\n"),
    ]);
    let files = [folder.path().join("runs/a.toml"), folder.path().join("runs/b.toml")];
    let loaded = Loaded::read(&files, &["iterations=9".to_owned(), "rollout.context=window".to_owned()]).unwrap();
    let config = &loaded.config;
    assert_eq!((config.seed, config.iterations), (2, 9));
    assert_eq!((config.optimizer.lr, config.optimizer.beta1), (1e-4, 0.5));
    assert_eq!(config.rollout.context, Context::Window);
    assert_eq!(config.credit.iter().map(Credit::label).collect::<Vec<_>>(), ["gae"]);

    let origin = |path: &str| loaded.origin(path).to_string().replace(&format!("{}/", folder.path().display()), "");
    assert_eq!(origin("seed"), "runs/../base/credit.toml:1");
    assert_eq!(origin("optimizer.lr"), "runs/a.toml:4");
    assert_eq!(origin("optimizer.beta1"), "runs/../base/model.toml:5");
    assert_eq!(origin("credit[0].plugin"), "runs/b.toml:2");
    assert_eq!(origin("credit.gae.plugin"), "runs/b.toml:2");
    assert_eq!(loaded.origin("iterations"), Origin::Set("iterations=9".to_owned()));
    assert_eq!(loaded.origin("optimizer.eps"), Origin::Default);
    assert_eq!(loaded.origin("no such key"), Origin::Default);
}

#[test]
fn parameters_are_not_those_of_another_plugin() {
    let base = "[objective]\nplugin = \"acme\"\nparams = { low = 0.1, high = 0.2 }\n";
    let folder = folder(&[
        ("base.toml", base),
        ("same.toml", "extends = [\"base.toml\"]\n[objective]\nparams = { low = 0.3 }\n"),
        ("other.toml", "extends = [\"base.toml\"]\n[objective]\nplugin = \"other\"\nparams = { k = 1 }\n"),
    ]);
    let params = |name: &str| {
        let loaded = Loaded::read(&[folder.path().join(name)], &[]).unwrap();
        serde_json::to_string(&loaded.config.objective.params).unwrap()
    };
    assert_eq!(params("same.toml"), r#"{"low":0.3,"high":0.2}"#);
    assert_eq!(params("other.toml"), r#"{"k":1}"#);
}

#[test]
fn one_base_of_two_files_is_no_circle() {
    let folder = folder(&[
        ("base.toml", "seed = 3\n"),
        ("a.toml", "extends = [\"base.toml\"]\n"),
        ("b.toml", "extends = [\"base.toml\"]\n"),
        ("c.toml", "extends = [\"a.toml\", \"b.toml\"]\n"),
    ]);
    assert_eq!(Loaded::read(&[folder.path().join("c.toml")], &[]).unwrap().config.seed, 3);
}

#[test]
fn a_scheme_is_set_by_name_by_plugin_and_by_number() {
    let text = "[[credit]]\nplugin = \"acme\"\nname = \"first\"\n[[credit]]\nplugin = \"lib/libaccredit_gae.so\"\n";
    let sets = [
        "credit.first.params.a=1",
        "credit.acme.params.b = 'two'",
        "credit.gae.mix=0.5",
        "credit.1.params.c=[1, 2]",
        "credit[1].params.d=plain text",
        "credit[1].params.e={ x = 2024-01-02, y = true }",
    ];
    let error = load(text, &sets).unwrap_err().to_string();
    assert!(error.contains("found a date or time without quotes"), "{error}");

    let loaded = load(text, &sets[..5]).unwrap();
    let shown = |index: usize| serde_json::to_string(&loaded.config.credit[index].params).unwrap();
    assert_eq!(shown(0), r#"{"a":1,"b":"two"}"#);
    assert_eq!(shown(1), r#"{"c":[1,2],"d":"plain text"}"#);
    assert_eq!(loaded.config.credit[1].mix, 0.5);
    assert_eq!(loaded.origin("credit.gae.mix"), Origin::Set("credit.gae.mix=0.5".to_owned()));
}

#[test]
fn a_date_or_an_empty_right_side_of_set_is_a_string() {
    let loaded = load("", &["run.name=2024-01-02", "rollout.system="]).unwrap();
    assert_eq!(loaded.config.run.name.as_deref(), Some("2024-01-02"));
    assert_eq!(loaded.config.rollout.system.as_deref(), Some(""));
}

#[test]
fn what_is_written_is_read_again() {
    let loaded = load(
        VALID,
        &["optimizer.lr=1e-7", "rollout.system=two\nlines", "warm_start={episodes=1,updates=2,batch_rows=3,lr=1}"],
    )
    .unwrap();
    for written in [loaded.to_toml(), loaded.show()] {
        let again = Loaded::from_text(Path::new("resolved.toml"), written.as_str()).unwrap();
        assert_eq!(again.config, loaded.config, "{written}");
        assert_eq!(again.to_toml(), loaded.to_toml());
        assert_eq!(loaded.differences(&written).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn the_order_of_writing_does_not_matter() {
    let a = load("iterations = 3\nseed = 1\n[rollout]\nmax_steps = 3\ngroups = 2\n", &[]).unwrap();
    let b = load("rollout = { groups = 2, max_steps = 3 }\nseed = 1\niterations = 3\n", &[]).unwrap();
    assert_eq!(a.to_toml(), b.to_toml());
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let shown =
        load("seed = 7\n[optimizer]\nlr = 1e-5\n[[credit]]\nplugin = \"acme\"\n", &["credit.acme.params.std=false"])
            .unwrap()
            .show();
    for (line, origin) in [
        ("seed = 7", "a.toml:1"),
        ("iterations = 100", "default"),
        ("lr = 1e-5", "a.toml:3"),
        ("eps = 1e-8", "default"),
        ("plugin = \"acme\"", "a.toml:5"),
        ("mix = 1.0", "default"),
        ("std = false", "--set"),
    ] {
        let shown = shown.lines().find(|shown| shown.starts_with(&format!("{line}  # ")));
        assert!(shown.is_some_and(|shown| shown.ends_with(origin)), "{line}: {shown:?}");
    }
}

#[test]
fn differences_name_the_keys() {
    let mine = load(VALID, &[]).unwrap();
    let other =
        load(VALID, &["iterations=201", "credit.emphasis.params.alpha=0.3", "credit.0.params.new=1", "run.name=x"])
            .unwrap();
    let expected = ["iterations", "credit[0].params", "credit[1].params.alpha", "run.name", "credit[0].params.new"];
    assert_eq!(mine.differences(&other.to_toml()).unwrap(), expected);
    assert!(mine.differences("iterations = 'x'").is_err());
}

#[test]
fn changes_have_old_and_new_values_and_schemes_are_compared_by_name() {
    let before = load("[[credit]]\nplugin = 'a'\nparams = { x = 1 }\n[[credit]]\nplugin = 'b'\n", &[]).unwrap();
    let now = load(
        "iterations = 7\nrun.name = 'n'\n[[credit]]\nplugin = 'c'\nname = 'b'\n[[credit]]\nplugin = 'a'\nparams = { x = 2 }\n",
        &[],
    )
    .unwrap();
    let shown: Vec<String> = now
        .changes_since(&before)
        .into_iter()
        .map(|Change { key, old, new }| {
            let text = |value: Option<String>| value.unwrap_or("-".to_owned());
            format!("{key}: {} -> {}", text(old), text(new))
        })
        .collect();
    let expected = [
        "iterations: 100 -> 7",
        "run.name: - -> \"n\"",
        "credit: [\"a\", \"b\"] -> [\"b\", \"a\"]",
        "credit.b: { plugin = \"b\", params = {}, mix = 1.0, shadow = false } -> { plugin = \"c\", name = \"b\", params = {}, \
         mix = 1.0, shadow = false }",
        "credit.a.params.x: 1 -> 2",
    ];
    assert_eq!(shown, expected);
    assert_eq!(now.changes_since(&now), []);
}

#[test]
fn others_say_what_is_wrong_with_their_keys() {
    let folder = folder(&[("a.toml", VALID)]);
    let sets = ["credit.acme.params.std=2".to_owned()];
    let loaded = Loaded::read(&[folder.path().join("a.toml")], &sets).unwrap();
    let shown = |path: &str, hint: Option<&str>| {
        text(&loaded.error_at(path, "too bad", hint.map(str::to_owned)), folder.path())
    };
    assert_eq!(
        shown("credit[1].params.alpha", Some("be good")),
        "error: too bad
  --> a.toml:23:12
   |
23 | params = { alpha = 0.1, beta = 1 }
   |            ^^^^^^^^^^^
   = hint: be good"
    );
    assert_eq!(
        shown("credit.acme.params.std", None),
        "error: too bad
 --> command line
  |
  | --set credit.acme.params.std=2
  |                          ^^^^^"
    );
    assert_eq!(
        shown("rollout.group_size", None),
        "error: too bad
  --> a.toml:13:1
   |
13 | [rollout]
   | ^^^^^^^^^
   = `rollout.group_size` is not set; its default is 8"
    );
    assert_eq!(
        shown("optimizer.lr", None),
        "error: too bad
  = `optimizer.lr` is not set; its default is 1e-6"
    );
    assert_eq!(shown("not a path[", None), "error: too bad");
}

/// Every key of a valid configuration, as `--set` writes it, and its value. The schemes themselves stand in the file.
const KEYS: [(&str, &str); 14] = [
    ("seed", "9"),
    ("iterations", "12"),
    ("run.name", "\"x y\""),
    ("run.rollouts", "\"sample\""),
    (
        "model.create",
        "{ hidden_size = 8, intermediate_size = 8, layers = 1, heads = 2, kv_heads = 1, vocab_size = 9, max_positions = 16 }",
    ),
    ("model.create.tied", "false"),
    ("environment.name", "\"frozenlake\""),
    ("environment.maps.holes", "[0.1, 0.2]"),
    ("rollout.temperature", "1"),
    ("rollout.system", "\"a = \\\"b\\\"\\n# c\""),
    ("optimizer.lr", "1e-5"),
    ("objective.params", "{ low = 0.1, deep = { x = [{ y = 1 }] } }"),
    ("objective.params.low", "0.2"),
    ("evaluation.seed", "5"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever part of a configuration is set on the command line instead of in the file, the result is the same.
    #[test]
    fn a_set_is_as_good_as_a_line(moved in prop::collection::vec(any::<bool>(), KEYS.len())) {
        // `model.create.tied` and `objective.params.low` overlay the table before them, so they are written as layers.
        let layers: Vec<(String, String)> =
            KEYS.iter().enumerate().map(|(i, (key, value))| (format!("{i}.toml"), format!("{key} = {value}\n"))).collect();
        let layers: Vec<(&str, &str)> = layers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let folder = folder(&layers);
        let file = |i: &usize| folder.path().join(layers[*i].0);
        let all: Vec<PathBuf> = (0..KEYS.len()).map(|i| file(&i)).collect();
        let whole = Loaded::read(&all, &[]).unwrap();

        // A key that overlays another one moves with it, since --set comes after every file.
        let moves = |i: usize| moved[i] || (i > 0 && KEYS[i].0.starts_with(KEYS[i - 1].0) && moved[i - 1]);
        let (sets, files): (Vec<usize>, Vec<usize>) = (0..KEYS.len()).partition(|i| moves(*i));
        let files: Vec<PathBuf> = files.iter().map(file).collect();
        let sets: Vec<String> = sets.iter().map(|i| format!("{}={}", KEYS[*i].0, KEYS[*i].1)).collect();
        let split = Loaded::read(&files, &sets).unwrap();
        prop_assert_eq!(&split.config, &whole.config);
        prop_assert_eq!(split.to_toml(), whole.to_toml());
        for (i, (key, _)) in KEYS.iter().enumerate() {
            prop_assert_eq!(matches!(split.origin(key), Origin::Set(_)), moves(i), "{}", key);
        }
    }
}
