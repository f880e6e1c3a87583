//! `http` with servers that misbehave, and the Python side over both ways.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::{environment, failure, feedback, file, folder, pool, refused, request, with};

/// A server that ends with the test.
pub(super) struct Server {
    process: Child,
    pub(super) url: String,
}

impl Server {
    /// Starts a program of Python that prints its address at the end of its first line.
    pub(super) fn start(arguments: &[&str]) -> Self {
        let mut process =
            Command::new("python3").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().next_back().unwrap_or_default().to_owned();
        assert!(url.starts_with("http://"), "{arguments:?} printed {line}");
        Self { process, url }
    }

    pub(super) fn stop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn misbehaving(how: &str) -> Server {
    Server::start(&[&file("server.py"), how, "--http"])
}

pub(super) fn python() -> String {
    folder("python").join("accredit_env.py").to_string_lossy().into_owned()
}

#[test]
fn a_server_is_played_like_a_process() {
    let server = misbehaving("");
    let settings = json!({ "urls": [server.url], "supplies": { "states": true }, "settings": { "level": 2 } });
    let mut pool = pool("http", &settings, 16, 16);
    let starts = pool.reset_all((0..16).map(|i| (i, i as u64)).collect(), None);
    assert_eq!(starts[3].as_ref().unwrap().0.state.as_deref(), Some("3.0"));
    for _ in 0..3 {
        let requests = (0..16).map(|i| request(i, if i == 0 { "nap" } else { "go" })).collect();
        let answers = pool.step_all(requests, None);
        assert_eq!(answers[5].as_ref().unwrap().feedback, "go|r5");
    }
    let count = pool.step_all(vec![request(0, "count")], None)[0].as_ref().unwrap().feedback.clone();
    let messages: u64 = count.split(' ').next().unwrap().parse().unwrap();
    assert!(messages < 50, "{messages} messages for 65 requests");
    assert_eq!(environment("http", &settings).instructions(), "Settings {\"level\": 2}.");
}

#[test]
fn what_a_server_does_wrong_is_told_with_its_address() {
    let server = misbehaving("");
    let settings = json!({
        "urls": [server.url], "limits": { "answer_seconds": 1.5, "max_message_bytes": 1_000_000, "max_restarts": 50 },
    });
    let mut environment = environment("http", &settings);
    for (action, expected) in [
        ("garbage", "it wrote `Loading the model...`".to_owned()),
        ("megabytes", format!("{}: it wrote a line of more than 1000000 bytes", server.url)),
        ("binary", "its line is not UTF-8".to_owned()),
        ("wrong id", "it answered for the id `somebody else`".to_owned()),
        ("nan", "`answers[0].reward`".to_owned()),
        ("die", format!("{} cannot be asked", server.url)),
    ] {
        environment.reset(1).unwrap();
        let error = failure(environment.as_mut(), action);
        assert!(error.contains(&expected), "{action}: {error}");
    }
}

#[test]
fn a_server_that_is_late_away_or_unwilling_is_told() {
    let hanging = misbehaving("");
    let settings = json!({ "urls": [hanging.url], "limits": { "answer_seconds": 0.5 } });
    let mut late = environment("http", &settings);
    late.reset(1).unwrap();
    let error = failure(late.as_mut(), "hang");
    assert!(error.contains(&format!("{} gave no answer within 0.5 s", hanging.url)), "{error}");

    let (broken, locked) = (misbehaving("broken"), misbehaving("locked"));
    let check = |settings: Value, key: &str, expected: &str| {
        let (found, error) = refused("http", &settings);
        assert!(found == key && error.contains(expected), "{found}: {error}");
    };
    check(json!({ "urls": [broken.url] }), "urls", "answered with status 503");
    check(json!({ "urls": [locked.url] }), "urls", "answered with status 401");
    check(json!({ "urls": ["http://127.0.0.1:9"] }), "urls", "http://127.0.0.1:9 cannot be asked");
    check(json!({ "urls": [] }), "urls", "must name a server");
    check(json!({ "urls": ["https://example.org"] }), "urls[0]", "only http is; put a tunnel in front of it");
    check(json!({ "urls": ["http://a", "http://b"], "workers": 1 }), "workers", "1 of `urls` would be idle");
    check(json!({ "urls": ["http://a"], "headers": { "a b": "c" } }), "headers.a b", "is no header of HTTP");
    check(json!({ "urls": ["http://a"], "protocol": "grpc" }), "protocol", "unknown variant `grpc`");
    let open = json!({ "urls": [locked.url], "headers": { "authorization": "Bearer me" } });
    assert!(environment("http", &open).reset(1).is_ok());
}

#[test]
fn a_server_that_ends_takes_its_episodes_and_the_other_one_goes_on() {
    let (mut one, other) = (misbehaving(""), misbehaving(""));
    let settings = json!({ "urls": [one.url, other.url], "limits": { "max_restarts": 0 } });
    let mut environments = [environment("http", &settings), environment("http", &settings)];
    for environment in &mut environments {
        environment.reset(1).unwrap();
    }
    one.stop();
    assert!(failure(environments[0].as_mut(), "go").contains(&format!("{} cannot be asked", one.url)));
    assert_eq!(feedback(environments[1].as_mut(), "go"), "go|");
    environments[0].reset(2).unwrap();
    assert_eq!(feedback(environments[0].as_mut(), "go"), "go|");
}

#[test]
fn the_python_side_tests_itself() {
    let test = Command::new("python3").args([&python(), "--selftest"]).output().unwrap();
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stderr));
}

/// Plays what the Python side counts in its self-test, to its end.
fn count(name: &str, settings: &Value) -> Vec<String> {
    let supplies = json!({ "states": true, "expert": true, "answers": true, "tasks": 5 });
    let settings = with(settings, &json!({ "settings": { "goal": 2 }, "supplies": supplies }));
    let mut environment = environment(name, &settings);
    let mut told = vec![environment.instructions(), format!("{:?}", environment.reset(6).unwrap())];
    told.push(format!("{:?}", environment.task()));
    let error = failure(environment.as_mut(), "raise");
    assert!(error.contains("accredit_env.py") && error.contains("RuntimeError: on demand"), "{error}");
    environment.reset(6).unwrap();
    let error = failure(environment.as_mut(), "nan");
    assert!(error.contains("`reward` must be a finite number"), "{error}");
    environment.reset(6).unwrap();
    while let Some(demonstration) = environment.expert() {
        let outcome = environment.step(Some(&demonstration.action), "").unwrap();
        assert_eq!((outcome.terminal, outcome.valid_action), (outcome.success, true));
        told.push(format!("{demonstration:?} {outcome:?}"));
    }
    told
}

#[test]
fn the_python_side_plays_the_same_over_both_ways() {
    let class = format!("{}:Count", python());
    let over_stdio = count("process", &json!({ "command": ["python3", python(), class] }));
    assert_eq!(over_stdio[0], "Answer with the next number, up to 2.");
    assert_eq!(over_stdio.len(), 6);
    let server = Server::start(&[&python(), &class, "--http", "0"]);
    assert_eq!(count("http", &json!({ "urls": [server.url], "workers": 3 })), over_stdio);
}

#[test]
fn the_python_side_splits_long_answers_and_serves_many_hosts() {
    let class = format!("{}:Count", python());
    let goal = |goal: u64| json!({ "command": ["python3", python(), class], "settings": { "goal": goal } });
    let small = with(&goal(9), &json!({ "limits": { "max_message_bytes": 1024 }, "supplies": { "expert": true } }));
    let mut pool = pool("process", &small, 32, 32);
    let timeout = Some(Duration::from_mins(1));
    assert!(pool.reset_all((0..32).map(|i| (i, 1)).collect(), timeout).iter().all(Result::is_ok));
    let answers = pool.step_all((0..32).map(|i| request(i, "0")).collect(), timeout);
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|outcome| outcome.valid_action)));

    let server = Server::start(&[&python(), &class, "--http", "0"]);
    let host = |goal: u64| json!({ "urls": [server.url], "settings": { "goal": goal } });
    let (mut one, mut two) = (environment("http", &host(1)), environment("http", &host(2)));
    assert_eq!(two.instructions(), "Answer with the next number, up to 2.");
    one.reset(0).unwrap();
    two.reset(0).unwrap();
    assert!(one.step(Some("1"), "").unwrap().success);
    assert!(!two.step(Some("1"), "").unwrap().success);
}
