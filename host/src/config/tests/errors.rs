//! Every kind of error of a configuration, with its exact text.

use super::*;

/// Holds the error of a file against its text, which may begin with an empty line.
fn check(config: &str, sets: &[&str], expected: &str) {
    let folder = folder(&[("a.toml", config)]);
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let error = Loaded::read(&[folder.path().join("a.toml")], &sets).expect_err(config);
    assert_eq!(text(&error, folder.path()), expected.trim_start_matches('\n'), "\n--- for:\n{config}");
}

#[test]
fn toml_that_is_none_is_shown_where_it_ends() {
    check(
        "[rollout
",
        &[],
        "
error: this is not TOML: unclosed table, expected `]`
 --> a.toml:1:9
  |
1 | [rollout
  |         ^",
    );
    check(
        "seed = 1
seed = 2
",
        &[],
        "
error: this is not TOML: duplicate key
 --> a.toml:2:1
  |
2 | seed = 2
  | ^^^^",
    );
    check(
        r#"[run]
name = "abc
"#,
        &[],
        r#"
error: this is not TOML: invalid basic string, expected `"`
 --> a.toml:2:12
  |
2 | name = "abc
  |            ^"#,
    );
}

#[test]
fn all_unknown_keys_are_named_at_once() {
    check(
        r#"[rollout]
gruops = 8
lr = 3

[optimiser]
seed = 3

[update]
seed = 3

[[credit]]
plugin = "acme"
mixx = 2.0

[model.create]
heads = 2
layer = 1
zzz = 1
"#,
        &[],
        "
error: unknown key `gruops` in `rollout`
 --> a.toml:2:1
  |
2 | gruops = 8
  | ^^^^^^
  = expected one of `groups`, `group_size`, `max_steps`, `context`, `window`, `temperature`, `top_p`, `top_k` and 14 more
  = hint: did you mean `groups`?

error: unknown key `lr` in `rollout`
 --> a.toml:3:1
  |
3 | lr = 3
  | ^^
  = expected one of `groups`, `group_size`, `max_steps`, `context`, `window`, `temperature`, `top_p`, `top_k` and 14 more
  = hint: `lr` is a key of `[warm_start]` and of `[optimizer]` and of `[critic]`

error: unknown key `optimiser`
 --> a.toml:5:2
  |
5 | [optimiser]
  |  ^^^^^^^^^
  = expected one of `seed`, `iterations`, `extends`, `run`, `model`, `environment`, `rollout`, `judge` and 9 more
  = hint: did you mean `optimizer`?

error: unknown key `seed` in `update`
 --> a.toml:9:1
  |
9 | seed = 3
  | ^^^^
  = expected one of `epochs`, `minibatches`, `micro_batch_tokens`, `gradient_checkpointing`
  = hint: `seed` is a key of `[evaluation]` and of the top, above every table

error: unknown key `mixx` in `credit[0]`
  --> a.toml:13:1
   |
13 | mixx = 2.0
   | ^^^^
   = expected one of `plugin`, `name`, `params`, `mix`, `shadow`, `from`, `until`, `sha256`
   = hint: did you mean `mix`?

error: unknown key `layer` in `model.create`
  --> a.toml:17:1
   |
17 | layer = 1
   | ^^^^^
   = expected one of `family`, `hidden_size`, `intermediate_size`, `layers`, `heads`, `kv_heads`, `vocab_size`, `max_positions` and 2 more
   = hint: did you mean `layers`?

error: unknown key `zzz` in `model.create`
  --> a.toml:18:1
   |
18 | zzz = 1
   | ^^^
   = expected one of `family`, `hidden_size`, `intermediate_size`, `layers`, `heads`, `kv_heads`, `vocab_size`, `max_positions` and 2 more

error: `model.create` lacks `hidden_size`, `intermediate_size`, `layers`, `kv_heads`, `vocab_size`, `max_positions`
  --> a.toml:15:1
   |
15 | [model.create]
   | ^^^^^^^^^^^^^^
   = expected `hidden_size`, an integer of at least 1 and at most 65536
   = expected `intermediate_size`, an integer of at least 1 and at most 1048576
   = expected `layers`, an integer of at least 1 and at most 1024
   = expected `kv_heads`, an integer of at least 1 and at most 1024
   = expected `vocab_size`, an integer of at least 1 and at most 16777216
   = expected `max_positions`, an integer of at least 1 and at most 16777216",
    );
}

#[test]
fn a_wrong_type_says_what_was_expected_and_found() {
    check(
        r#"seed = "7"
model.device = 1
plugins = { path = "x" }
run = 3

[rollout]
groups = 1.5
system = [1]

[evaluation]
temperature = true

[credit]
plugin = "acme"
shadow = "true"
"#,
        &[],
        r#"
error: wrong type for `seed`: found a string
 --> a.toml:1:8
  |
1 | seed = "7"
  |        ^^^
  = expected an integer of at least 0
  = hint: write the number without quotes

error: wrong type for `model.device`: found an integer
 --> a.toml:2:16
  |
2 | model.device = 1
  |                ^
  = expected a string
  = hint: write `"1"`, in quotes

error: wrong type for `plugins.path`: found a string
 --> a.toml:3:20
  |
3 | plugins = { path = "x" }
  |                    ^^^
  = expected an array of strings

error: wrong type for `run`: found an integer
 --> a.toml:4:7
  |
4 | run = 3
  |       ^
  = expected a table

error: wrong type for `rollout.groups`: found a number with a fraction
 --> a.toml:7:10
  |
7 | groups = 1.5
  |          ^^^
  = expected an integer of at least 1 and at most 65536

error: wrong type for `rollout.system`: found an array
 --> a.toml:8:10
  |
8 | system = [1]
  |          ^^^
  = expected a string

error: wrong type for `evaluation.temperature`: found a boolean
  --> a.toml:11:15
   |
11 | temperature = true
   |               ^^^^
   = expected a number of at least 0 and at most 1000

error: wrong type for `credit`: found a table
  --> a.toml:13:1
   |
13 | [credit]
   | ^^^^^^^^
   = expected an array of tables
   = hint: write `[[credit]]`, with two brackets"#,
    );
    check(
        r#"[[credit]]
plugin = "acme"
shadow = "true"
params = 1
"#,
        &[],
        r#"
error: wrong type for `credit[0].shadow`: found a string
 --> a.toml:3:10
  |
3 | shadow = "true"
  |          ^^^^^^
  = expected `true` or `false`
  = hint: write it without quotes

error: wrong type for `credit[0].params`: found an integer
 --> a.toml:4:10
  |
4 | params = 1
  |          ^
  = expected a table"#,
    );
    check(
        r#"[environment]
name = "x"
day = 2024-01-01
sizes = [1, inf]
"#,
        &[],
        "
error: wrong type for `environment.day`: found a date or time without quotes
 --> a.toml:3:7
  |
3 | day = 2024-01-01
  |       ^^^^^^^^^^
  = expected a string, a finite number, a boolean, an array or a table

error: wrong type for `environment.sizes[1]`: found a number that is not finite
 --> a.toml:4:13
  |
4 | sizes = [1, inf]
  |             ^^^
  = expected a string, a finite number, a boolean, an array or a table",
    );
}

#[test]
fn a_number_out_of_range_says_the_range() {
    check(
        r#"seed = -1
iterations = 0

[rollout]
top_p = 0
temperature = -0.5
think_tag = ""

[optimizer]
beta1 = 1
min_lr_share = 1.5
max_grad_norm = 0.0
"#,
        &[],
        r#"
error: `seed` is out of range: -1
 --> a.toml:1:8
  |
1 | seed = -1
  |        ^^
  = expected an integer of at least 0

error: `iterations` is out of range: 0
 --> a.toml:2:14
  |
2 | iterations = 0
  |              ^
  = expected an integer of at least 1

error: `rollout.top_p` is out of range: 0
 --> a.toml:5:9
  |
5 | top_p = 0
  |         ^
  = expected a number above 0 and at most 1

error: `rollout.temperature` is out of range: -0.5
 --> a.toml:6:15
  |
6 | temperature = -0.5
  |               ^^^^
  = expected a number of at least 0 and at most 1000

error: `rollout.think_tag` is out of range: ""
 --> a.toml:7:13
  |
7 | think_tag = ""
  |             ^^
  = expected a string that is not empty

error: `optimizer.beta1` is out of range: 1
  --> a.toml:10:9
   |
10 | beta1 = 1
   |         ^
   = expected a number of at least 0 and below 1

error: `optimizer.min_lr_share` is out of range: 1.5
  --> a.toml:11:16
   |
11 | min_lr_share = 1.5
   |                ^^^
   = expected a number of at least 0 and at most 1

error: `optimizer.max_grad_norm` is out of range: 0.0
  --> a.toml:12:17
   |
12 | max_grad_norm = 0.0
   |                 ^^^
   = expected a number above 0"#,
    );
}

#[test]
fn an_unknown_word_has_a_nearest_one() {
    check(
        r#"[rollout]
context = "windw"
prompt = "no"
"#,
        &[],
        r#"
error: unknown value `windw` for `rollout.context`
 --> a.toml:2:11
  |
2 | context = "windw"
  |           ^^^^^^^
  = expected one of `concat`, `window`
  = hint: did you mean `window`?

error: unknown value `no` for `rollout.prompt`
 --> a.toml:3:10
  |
3 | prompt = "no"
  |          ^^^^
  = expected one of `ragen`, `verl_agent`, `bare`"#,
    );
}

#[test]
fn a_missing_key_is_shown_at_its_table() {
    check(
        "[environment]
size = 3

[warm_start]
episodes = 3
lr = 1e-3

[[credit]]
mix = 0.5
",
        &[],
        "
error: `environment` lacks `name`
 --> a.toml:1:1
  |
1 | [environment]
  | ^^^^^^^^^^^^^
  = expected `name`, a string

error: `warm_start` lacks `updates`, `batch_rows`
 --> a.toml:4:1
  |
4 | [warm_start]
  | ^^^^^^^^^^^^
  = expected `updates`, an integer of at least 1
  = expected `batch_rows`, an integer of at least 1 and at most 1000000

error: `credit[0]` lacks `plugin`
 --> a.toml:8:1
  |
8 | [[credit]]
  | ^^^^^^^^^^
  = expected `plugin`, a string that is not empty",
    );
    check(
        "model = { create = { layers = 2 } }
",
        &[],
        "
error: `model.create` lacks `hidden_size`, `intermediate_size`, `heads`, `kv_heads`, `vocab_size`, `max_positions`
 --> a.toml:1:20
  |
1 | model = { create = { layers = 2 } }
  |                    ^^^^^^^^^^^^^^
  = expected `hidden_size`, an integer of at least 1 and at most 65536
  = expected `intermediate_size`, an integer of at least 1 and at most 1048576
  = expected `heads`, an integer of at least 1 and at most 1024
  = expected `kv_heads`, an integer of at least 1 and at most 1024
  = expected `vocab_size`, an integer of at least 1 and at most 16777216
  = expected `max_positions`, an integer of at least 1 and at most 16777216",
    );
}

#[test]
fn a_bad_set_shows_the_flag() {
    check(
        "",
        &["rollout.groups", "a[=3", "=3", "extends=[]", "rollout[0]=1", "credit.x.params.y=1"],
        "
error: cannot read `--set`: there is no `=` after the key
 --> command line
  |
  | --set rollout.groups
  |       ^^^^^^^^^^^^^^
  = expected KEY=VALUE, such as `rollout.groups=8` or `credit.NAME.params.KEY=0.3`

error: cannot read `--set`: a `[` is not closed
 --> command line
  |
  | --set a[=3
  |       ^^^^
  = expected KEY=VALUE, such as `rollout.groups=8` or `credit.NAME.params.KEY=0.3`

error: cannot read `--set`: a key is empty
 --> command line
  |
  | --set =3
  |       ^^
  = expected KEY=VALUE, such as `rollout.groups=8` or `credit.NAME.params.KEY=0.3`

error: cannot read `--set`: `extends` works in files only
 --> command line
  |
  | --set extends=[]
  |       ^^^^^^^^^^
  = expected KEY=VALUE, such as `rollout.groups=8` or `credit.NAME.params.KEY=0.3`

error: `rollout` is not an array
 --> command line
  |
  | --set rollout[0]=1
  |              ^^^

error: `credit` has no entry `x`
 --> command line
  |
  | --set credit.x.params.y=1
  |              ^
  = `credit` is empty",
    );
    check(
        "seed = 1
",
        &["seed.x=1"],
        "
error: `seed` is not a table
 --> command line
  |
  | --set seed.x=1
  |            ^",
    );
    check(
        "",
        &["environment.t=nan"],
        "
error: wrong type for `environment.t`: found a number that is not finite
 --> command line
  |
  | --set environment.t=nan
  |                     ^^^
  = expected a string, a finite number, a boolean, an array or a table",
    );
    check(
        r#"[[credit]]
plugin = "acme"
[[credit]]
plugin = "acme"
"#,
        &["credit.acem.mix=1", "credit.acme.mix=2", "credit[4].mix=3"],
        "
error: `credit` has no entry `acem`
 --> command line
  |
  | --set credit.acem.mix=1
  |              ^^^^
  = expected one of `acme`, or a number below 2
  = hint: did you mean `acme`?

error: `credit` has 2 entries `acme`
 --> command line
  |
  | --set credit.acme.mix=2
  |              ^^^^
  = expected one of `credit.0`, `credit.1`

error: `credit` has no entry `4`
 --> command line
  |
  | --set credit[4].mix=3
  |             ^^^
  = expected one of `acme`, or a number below 2",
    );
    check(
        "",
        &["rollout.gruops=1", "optimizer.lr=abc", "run.name=7", "rolout.groups=1", "iterations=0"],
        r#"
error: unknown key `gruops` in `rollout`
 --> command line
  |
  | --set rollout.gruops=1
  |               ^^^^^^
  = expected one of `groups`, `group_size`, `max_steps`, `context`, `window`, `temperature`, `top_p`, `top_k` and 14 more
  = hint: did you mean `groups`?

error: wrong type for `optimizer.lr`: found a string
 --> command line
  |
  | --set optimizer.lr=abc
  |                    ^^^
  = expected a number above 0

error: wrong type for `run.name`: found an integer
 --> command line
  |
  | --set run.name=7
  |                ^
  = expected a string
  = hint: write `--set 'run.name="7"'`, with both kinds of quotes

error: unknown key `rolout`
 --> command line
  |
  | --set rolout.groups=1
  |       ^^^^^^
  = expected one of `seed`, `iterations`, `extends`, `run`, `model`, `environment`, `rollout`, `judge` and 9 more
  = hint: did you mean `rollout`?

error: `iterations` is out of range: 0
 --> command line
  |
  | --set iterations=0
  |                  ^
  = expected an integer of at least 1"#,
    );
}

#[test]
fn values_that_do_not_fit_each_other_are_refused() {
    check(
        r#"[model]
path = "x"

[model.create]
hidden_size = 10
intermediate_size = 4
layers = 1
heads = 3
kv_heads = 2
vocab_size = 10
max_positions = 10
"#,
        &[],
        r#"
error: `model.path` and `model.create` exclude each other
 --> a.toml:2:1
  |
2 | path = "x"
  | ^^^^^^^^^^
  = expected one of them; `model.create` is set by a.toml:4

error: 3 heads do not divide a hidden size of 10 into even parts
 --> a.toml:8:1
  |
8 | heads = 3
  | ^^^^^^^^^
  = expected `hidden_size` to be a multiple of twice the heads

error: 2 key and value heads do not divide 3 heads
 --> a.toml:9:1
  |
9 | kv_heads = 2
  | ^^^^^^^^^^^^
  = expected `heads` to be a multiple of `kv_heads`"#,
    );
    check(
        r#"[rollout]
window = 3
action_tag = "think"
max_context = 256
"#,
        &["model.device=gpu", "update.minibatches=100", "rollout.think_tag=<think>"],
        r#"
error: unknown device `gpu`
 --> command line
  |
  | --set model.device=gpu
  |             ^^^^^^^^^^
  = expected `auto`, `cpu`, `cuda` or `cuda:N`

error: `rollout.window` has no meaning with `context = "concat"`
 --> a.toml:2:1
  |
2 | window = 3
  | ^^^^^^^^^^
  = expected `context = "window"` beside it

error: a row has no room for a response of 256 tokens and its prompt
 --> a.toml:4:1
  |
4 | max_context = 256
  | ^^^^^^^^^^^^^^^^^
  = expected `max_context` above `max_tokens`

error: `<think>` is not the name of a tag
 --> command line
  |
  | --set rollout.think_tag=<think>
  |               ^^^^^^^^^^^^^^^^^
  = expected a name without brackets, slashes and spaces, such as `think`

error: 100 minibatches of 64 trajectories
 --> command line
  |
  | --set update.minibatches=100
  |              ^^^^^^^^^^^^^^^
  = expected at most `groups` times `group_size`"#,
    );
    check(
        r#"[[credit]]
plugin = "acme"
from = 3
until = 3
sha256 = "x"

[[credit]]
plugin = "./libacme.so"

[[credit]]
plugin = "gae"
name = "7"

[objective]
sha256 = "y"
"#,
        &[],
        r#"
error: `acme` is active from 3 until 3, which is never
 --> a.toml:4:1
  |
4 | until = 3
  | ^^^^^^^^^
  = expected `from` below `until`

error: `x` is no SHA-256
 --> a.toml:5:1
  |
5 | sha256 = "x"
  | ^^^^^^^^^^^^
  = expected 64 hexadecimal digits

error: `credit[0]` and `credit[1]` are both called `acme`
 --> a.toml:8:1
  |
8 | plugin = "./libacme.so"
  | ^^^^^^^^^^^^^^^^^^^^^^^
  = expected a `name` of its own for one of them, such as `name = "second"`

error: `7` cannot name a scheme
  --> a.toml:12:1
   |
12 | name = "7"
   | ^^^^^^^^^^
   = expected a `name` of letters, digits, `_` and `-` that is not a number

error: `y` is no SHA-256
  --> a.toml:15:1
   |
15 | sha256 = "y"
   | ^^^^^^^^^^^^
   = expected 64 hexadecimal digits"#,
    );
}

#[test]
fn a_file_that_cannot_be_extended_is_shown_where_it_is_named() {
    check(
        r#"seed = 1
extends = "x"
"#,
        &[],
        r#"
error: wrong type for `extends`: found a string
 --> a.toml:2:11
  |
2 | extends = "x"
  |           ^^^
  = expected an array of strings"#,
    );
    check(
        r#"extends = ["aa.toml"]
"#,
        &[],
        r#"
error: cannot read `aa.toml`: there is no such file
 --> a.toml:1:12
  |
1 | extends = ["aa.toml"]
  |            ^^^^^^^^^
  = hint: did you mean `a.toml`?"#,
    );
    check(
        r#"extends = ["base/x.toml"]
"#,
        &[],
        r#"
error: cannot read `base/x.toml`: there is no such file
 --> a.toml:1:12
  |
1 | extends = ["base/x.toml"]
  |            ^^^^^^^^^^^^^
  = hint: there is no folder `base`"#,
    );
    check(
        r#"extends = ["."]
"#,
        &[],
        r#"
error: cannot read `.`: it is a folder
 --> a.toml:1:12
  |
1 | extends = ["."]
  |            ^^^"#,
    );
    check(
        r#"extends = ["a.toml"]
"#,
        &[],
        r#"
error: `extends` goes in a circle: a.toml -> a.toml
 --> a.toml:1:12
  |
1 | extends = ["a.toml"]
  |            ^^^^^^^^"#,
    );
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let folder = folder(&[
        ("quickstart.toml", ""),
        ("b.toml", "extends = [\"c.toml\"]\n"),
        ("c.toml", "\nextends = [\"b.toml\"]\n"),
    ]);
    fs::write(folder.path().join("latin.toml"), b"name = '\xe4'").unwrap();
    for (name, expected) in [
        (
            "quikstart.toml",
            "error: cannot read `quikstart.toml`: there is no such file\n  = hint: did you mean `quickstart.toml`?",
        ),
        ("latin.toml", "error: cannot read `latin.toml`: it is not UTF-8 text"),
        (
            "c.toml",
            "error: `extends` goes in a circle: c.toml -> b.toml -> c.toml\n --> b.toml:1:12\n  |\n1 | extends = [\"c.toml\"]\n  |            ^^^^^^^^",
        ),
    ] {
        let error = Loaded::read(&[folder.path().join(name)], &[]).unwrap_err();
        assert_eq!(text(&error, folder.path()), expected);
    }
}

#[test]
fn a_judge_is_one_program_or_one_model_and_its_prompts_show_it_the_episode() {
    check(
        "[judge]
workers = 2
",
        &[],
        "
error: `judge` names nobody who judges
 --> a.toml:1:1
  |
1 | [judge]
  | ^^^^^^^
  = expected a `command`, or the `url` of a server and a `model`",
    );
    check(
        "[judge]
command = [\"judge\"]
url = \"http://localhost\"
model = \"m\"
",
        &[],
        "
error: `judge.command` and `judge.url` exclude each other
 --> a.toml:3:1
  |
3 | url = \"http://localhost\"
  | ^^^^^^^^^^^^^^^^^^^^^^^^
  = expected one of them; `judge.command` is set by a.toml:2",
    );
    check(
        "[judge]
url = \"http://localhost\"
prompt = \"Look: {steps} {episode}\"
prompt_with_success = \"{episode}\"
",
        &[],
        "
error: `judge` names a server and no model of it
 --> a.toml:2:1
  |
2 | url = \"http://localhost\"
  | ^^^^^^^^^^^^^^^^^^^^^^^^
  = expected a `model` beside `url`

error: `{steps}` stands for nothing in `judge.prompt`
 --> a.toml:3:1
  |
3 | prompt = \"Look: {steps} {episode}\"
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = expected `{task}`, `{episode}`, `{outcome}`

error: `judge.prompt_with_success` does not show the judge `{successful}`
 --> a.toml:4:1
  |
4 | prompt_with_success = \"{episode}\"
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = expected `{successful}` somewhere in it",
    );
    check(
        "[judge]
command = [\"judge\"]
key_env = \"KEY\"
",
        &[],
        "
error: `judge.key_env` has no meaning for a program
 --> a.toml:3:1
  |
3 | key_env = \"KEY\"
  | ^^^^^^^^^^^^^^^
  = expected it beside `url` alone",
    );
}
