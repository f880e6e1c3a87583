//! `http` with servers of OpenEnv.

use serde_json::{Value, json};

use super::http::Server;
use super::{environment, failure, feedback, file, refused, with};

fn settings(server: &Server, openenv: &Value) -> Value {
    let common = json!({ "instructions": "Count to 3.", "action_key": "op", "observation_keys": ["said"] });
    json!({
        "urls": [server.url], "protocol": "openenv", "openenv": with(&common, openenv), "settings": { "level": 4 },
    })
}

fn server(how: &str) -> Server {
    Server::start(&[&file("openenv_server.py"), how])
}

#[test]
fn sessions_over_websockets_are_apart() {
    let server = server("none");
    let openenv = json!({
        "names": { "One": 1, "Two": 2 }, "action": { "kind": "add" }, "observation_keys": ["said", "legal"],
        "state_key": "at",
    });
    let settings = with(&settings(&server, &openenv), &json!({ "supplies": { "states": true } }));
    let (mut one, mut two) = (environment("http", &settings), environment("http", &settings));
    assert_eq!(one.instructions(), "Count to 3.");
    let turn = one.reset(8).unwrap();
    assert_eq!(turn.observation, "said: seed 8, level 4\nlegal: [1,2]");
    assert_eq!((turn.state.as_deref(), turn.actions), (Some("0"), vec!["One".to_owned(), "Two".to_owned()]));
    two.reset(9).unwrap();
    let outcome = one.step(Some(" Two "), "").unwrap();
    assert_eq!(outcome.turn.observation, "said: did {'kind': 'add', 'op': 2}\nlegal: [1,2]");
    assert_eq!((outcome.reward, outcome.terminal, outcome.turn.state.as_deref()), (0.0, false, Some("2")));
    for nonsense in [None, Some("Three")] {
        let outcome = one.step(nonsense, "").unwrap();
        assert!(!outcome.valid_action && outcome.reward == 0.0 && outcome.turn.state.as_deref() == Some("2"));
    }
    assert_eq!(two.step(Some("One"), "").unwrap().turn.state.as_deref(), Some("1"));
    let outcome = one.step(Some("One"), "").unwrap();
    assert!(outcome.terminal && outcome.success && outcome.reward == 1.0 && outcome.turn.actions.is_empty());
    assert!(one.step(Some("One"), "").is_err());
    assert_eq!(one.reset(1).unwrap().state.as_deref(), Some("0"));
}

#[test]
fn what_goes_wrong_in_a_session_fails_its_episode_alone() {
    let server = server("none");
    let settings = settings(&server, &json!({}));
    let mut other = environment("http", &settings);
    other.reset(1).unwrap();
    let mut environment = environment("http", &settings);
    for (action, expected) in [
        ("bad", "the server refuses `step`: {\"message\":\"bad op\",\"code\":\"EXECUTION_ERROR\"}"),
        ("gone", "the WebSocket broke"),
        ("null", "`reward` is null; `openenv.null_reward_is_zero` would take that as 0"),
        ("nan", "`data.reward`: expected value"),
        ("text", "`reward`: invalid type: string \"1\""),
    ] {
        environment.reset(1).unwrap();
        let error = failure(environment.as_mut(), action);
        assert!(error.contains(expected), "{action}: {error}");
        assert!(environment.step(Some("go"), "").is_err());
    }
    assert_eq!(feedback(other.as_mut(), "go"), "");
}

#[test]
fn a_server_of_one_session_plays_one_episode_at_a_time() {
    let server = server("one");
    let settings = settings(&server, &json!({ "transport": "http", "null_reward_is_zero": true }));
    let (mut one, mut two) = (environment("http", &settings), environment("http", &settings));
    assert_eq!(one.reset(8).unwrap().observation, "seed 8, level 4");
    let error = two.reset(1).unwrap_err().to_string();
    assert!(error.contains("all 1 servers of `urls` are in use"), "{error}");
    for _ in 0..2 {
        assert_eq!(one.step(Some("null"), "").unwrap().reward, 0.0);
    }
    assert!(one.step(Some("go"), "").unwrap().success);
    // Its episode is over, so the server is free.
    two.reset(1).unwrap();
    assert!(one.reset(1).is_err());
    drop(two);
    one.reset(1).unwrap();
}

#[test]
fn a_server_that_forgets_or_cannot_be_asked_is_refused() {
    let forgetful = server("none");
    let over_http = settings(&forgetful, &json!({ "transport": "http" }));
    let error = environment("http", &over_http).reset(1).unwrap_err().to_string();
    assert!(error.contains("keeps no session between two requests of HTTP"), "{error}");
    let plain = server("no sessions");
    let error = environment("http", &settings(&plain, &json!({}))).reset(1).unwrap_err().to_string();
    assert!(error.contains("opens no WebSocket") && error.contains("403"), "{error}");
    let shown = settings(&forgetful, &json!({ "observation_keys": ["board"] }));
    let error = environment("http", &shown).reset(1).unwrap_err().to_string();
    assert!(error.contains("the observation has no key `board`; it has: said, at, legal"), "{error}");

    let check = |settings: Value, key: &str, expected: &str| {
        let (found, error) = refused("http", &settings);
        assert!(found == key && error.contains(expected), "{found}: {error}");
    };
    let base = settings(&forgetful, &json!({}));
    check(with(&base, &json!({ "urls": ["http://127.0.0.1:9"] })), "urls", "http://127.0.0.1:9 cannot be reached");
    check(with(&base, &json!({ "workers": 2 })), "workers", "this must be 0");
    check(with(&base, &json!({ "openenv": {} })), "openenv.instructions", "must tell the agent the rules");
    check(with(&base, &json!({ "supplies": { "states": true } })), "supplies.states", "needs `openenv.state_key`");
    check(with(&base, &json!({ "supplies": { "answers": true } })), "supplies.answers", "cannot be had");
}
