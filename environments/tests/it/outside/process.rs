//! `process` with a server that misbehaves.

use std::cell::RefCell;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use accredit_environments::{Environment, EnvironmentError, Pool, Traits, traits};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{environment, failure, feedback, file, pool, refused, request, server, with};

#[test]
fn an_episode_is_played_as_the_server_answers() {
    let settings = server("plain", &json!({ "supplies": { "states": true, "tasks": 9 } }));
    let expected = Traits { states: true, tasks: Some(9), apart: true, ..Traits::default() };
    assert_eq!(traits("process", &settings).unwrap(), expected);
    let mut environment = environment("process", &settings);
    assert_eq!(environment.instructions(), "Settings {\"tag\": \"plain\"}.");
    assert!(matches!(environment.step(Some("go"), ""), Err(EnvironmentError::NotStarted)));
    let turn = environment.reset(u64::MAX).unwrap();
    assert_eq!(turn.observation, format!("seed {}, step 0", u64::MAX));
    assert_eq!(environment.task().text, format!("task {}", u64::MAX));
    environment.reset(5).unwrap();
    let outcome = environment.step(None, "think\n").unwrap();
    assert_eq!((outcome.feedback.as_str(), outcome.reward, outcome.terminal), ("None|think\n", 0.25, false));
    assert_eq!((outcome.turn.state.as_deref(), outcome.valid_action), (Some("5.1"), true));
    let outcome = environment.step(Some("end"), "").unwrap();
    assert!(outcome.terminal && outcome.success && outcome.reward == 0.5);
    assert!(matches!(environment.step(Some("go"), ""), Err(EnvironmentError::EpisodeOver)));
    assert!(environment.expert().is_none());
    assert_eq!(environment.reset(6).unwrap().observation, "seed 6, step 0");
}

/// Plays `action` in one of four environments of two processes. The error must hold `expected`; the other episode of the
/// same process fails with it, the two of the other process go on, and afterwards all can be played.
fn breaks_its_process(action: &str, more: &Value, expected: &str) {
    let settings = with(&server(action, more), &json!({ "workers": 2 }));
    let mut environments: Vec<_> = (0..4).map(|_| environment("process", &settings)).collect();
    for (seed, environment) in environments.iter_mut().enumerate() {
        environment.reset(seed as u64).unwrap();
    }
    let error = failure(environments[0].as_mut(), action);
    assert!(error.contains(expected), "{action}: {error}");
    let other = failure(environments[2].as_mut(), "go");
    assert!(other.contains("worker 0 broke, and the episode with it"), "{action}: {other}");
    assert!(other.contains(expected), "{action}: {other}");
    for environment in [1, 3] {
        assert_eq!(environments[environment].step(Some("go"), "").unwrap().reward, 0.25, "{action}");
    }
    assert!(matches!(environments[0].step(Some("go"), ""), Err(EnvironmentError::NotStarted)), "{action}");
    for (seed, environment) in environments.iter_mut().enumerate() {
        let turn = environment.reset(seed as u64 + 10).unwrap();
        assert_eq!(turn.observation, format!("seed {}, step 0", seed + 10), "{action}");
        assert_eq!(feedback(environment.as_mut(), "go"), "go|", "{action}");
    }
}

#[test]
fn what_is_no_answer_breaks_one_process_and_the_others_go_on() {
    let none = json!({});
    breaks_its_process(
        "die",
        &none,
        "its process ended with exit status: 3; the last lines of its stderr:\n  first line",
    );
    breaks_its_process("garbage", &none, "stdout belongs to the protocol, so texts for people must go to stderr");
    breaks_its_process("binary", &none, "its line is not UTF-8 (byte 28)");
    breaks_its_process("half a line", &none, "it closed its stdout; its process ended with exit status: 0");
    breaks_its_process("nan", &none, "`answers[0].reward`: expected value");
}

#[test]
fn an_answer_that_goes_too_far_breaks_one_process_and_the_others_go_on() {
    let none = json!({});
    let small = json!({ "limits": { "max_message_bytes": 1_000_000 } });
    breaks_its_process("megabytes", &small, "a line of more than 1000000 bytes (`limits.max_message_bytes`)");
    breaks_its_process("endless", &small, "a line of more than 1000000 bytes (`limits.max_message_bytes`)");
    breaks_its_process("wrong id", &none, "it answered for the id `somebody else`");
    breaks_its_process("wrong message", &none, "its line answers message 999999");
    breaks_its_process("too many", &none, "more answers than were asked for");
}

#[test]
fn a_process_that_hangs_breaks_alone() {
    breaks_its_process("hang", &json!({ "limits": { "answer_seconds": 2.0 } }), "it gave no answer within 2.0 s");
}

#[test]
fn a_line_that_nobody_asked_for_is_found_before_it_is_taken_for_an_answer() {
    let mut environment = environment("process", &server("unasked", &json!({})));
    environment.reset(1).unwrap();
    feedback(environment.as_mut(), "unasked");
    thread::sleep(Duration::from_millis(100));
    assert!(failure(environment.as_mut(), "go").contains("a line that nobody had asked for"));
}

#[test]
fn an_answer_that_does_not_fit_fails_its_episode_alone() {
    let settings = server("misfit", &json!({}));
    let (mut one, mut other) = (environment("process", &settings), environment("process", &settings));
    other.reset(1).unwrap();
    for (action, expected) in [
        ("no reward", "the answer to `step`: missing field `reward`"),
        ("text reward", "`reward`: invalid type: string"),
        ("huge reward", "`reward` is 1e300, which is no finite number of 32 bits"),
        ("error", "KeyError: 'door'"),
    ] {
        one.reset(1).unwrap();
        let error = failure(one.as_mut(), action);
        assert!(error.contains(expected), "{error}");
        assert!(matches!(one.step(Some("go"), ""), Err(EnvironmentError::NotStarted)));
    }
    assert_eq!(other.step(Some("go"), "").unwrap().reward, 0.25);
}

#[test]
fn what_cannot_start_is_refused_with_the_reason() {
    let how = |how: &str| server("start", &json!({ "command": ["python3", file("server.py"), how] }));
    let check = |settings: Value, key: &str, expected: &str| {
        let (found, error) = refused("process", &settings);
        assert!(found == key && error.contains(expected), "{found}: {error}");
    };
    check(json!({ "command": [] }), "command", "must name a program");
    check(json!({ "command": ["no-such-program"] }), "command", "cannot start `no-such-program`: No such file");
    check(json!({ "command": ["true"] }), "command", "`hello` failed: it closed its stdout");
    check(json!({ "command": ["echo", "hi"] }), "command", "`hi`");
    check(json!({ "command": ["x"], "cwd": "/nowhere" }), "cwd", "there is no folder `/nowhere`");
    check(json!({ "command": ["x"], "env": { "A=B": "c" } }), "env", "cannot be the name of a variable");
    check(json!({ "command": ["x"], "workers": 0 }), "workers", "must be 1 to 1024, not 0");
    check(json!({ "command": ["x"], "limits": { "max_batch": 0 } }), "limits.max_batch", "must be 1 to 4096");
    check(json!({ "command": ["x"], "limits": { "answer_seconds": -1 } }), "limits.answer_seconds", "more than 0");
    check(json!({ "command": ["x"], "limits": { "max_message_bytes": 1 } }), "limits.max_message_bytes", "1024 to");
    check(json!({ "command": ["x"], "comand": [] }), "comand", "did you mean `command`?");
    check(json!({ "command": ["x"], "supplies": { "state": true } }), "supplies.state", "unknown field `state`");
    check(how("dies"), "command", "ended with exit status: 7; the last lines of its stderr:\n  no model file");
    check(how("version"), "command", "it speaks version 2 of the protocol, and this is 1");
    check(how("refuses"), "command", "`hello` failed: no such game");
    let hasty = json!({ "limits": { "start_seconds": 0.5 } });
    check(with(&how("silent"), &hasty), "command", "it gave no answer within 0.5 s");
    let more = |supplies: Value| with(&how(""), &json!({ "supplies": supplies }));
    check(more(json!({ "expert": true })), "supplies.expert", "it has no such thing as an expert");
    check(more(json!({ "tasks": 8 })), "supplies.tasks", "is 8, and the environment says that it has 9 tasks");
}

#[test]
fn a_slow_start_is_waited_for() {
    let mut environment =
        environment("process", &server("slow", &json!({ "command": ["python3", file("server.py"), "slow"] })));
    assert_eq!(environment.reset(3).unwrap().observation, "seed 3, step 0");
}

#[test]
fn a_worker_that_breaks_again_and_again_is_given_up() {
    let settings = server("given up", &json!({ "limits": { "max_restarts": 2 } }));
    let mut environment = environment("process", &settings);
    for _ in 0..3 {
        environment.reset(1).unwrap();
        assert!(failure(environment.as_mut(), "die").contains("worker 0 failed"));
    }
    let error = environment.reset(1).unwrap_err().to_string();
    assert!(error.contains("no worker is left; worker 0 broke 3 times in a row and is given up"), "{error}");
    assert!(error.contains("out of cheese"), "{error}");
}

#[test]
fn a_worker_that_plays_episodes_between_its_breaks_is_kept() {
    let settings = server("kept", &json!({ "limits": { "max_restarts": 1 } }));
    let mut environment = environment("process", &settings);
    for _ in 0..4 {
        environment.reset(1).unwrap();
        assert!(environment.step(Some("end"), "").unwrap().terminal);
        environment.reset(1).unwrap();
        assert!(failure(environment.as_mut(), "die").contains("worker 0 failed"));
    }
    environment.reset(1).unwrap();
}

#[test]
fn another_worker_takes_the_environments_of_one_that_is_given_up() {
    let settings = server("taken", &json!({ "workers": 2, "limits": { "max_restarts": 0 } }));
    let mut environment = environment("process", &settings);
    environment.reset(1).unwrap();
    failure(environment.as_mut(), "die");
    environment.reset(2).unwrap();
    assert_eq!(feedback(environment.as_mut(), "go"), "go|");
}

#[test]
fn a_server_that_becomes_another_one_is_refused() {
    let settings = json!({ "command": ["python3", file("server.py"), "fickle"], "settings": { "tag": "fickle" } });
    let mut environment = environment("process", &settings);
    environment.reset(1).unwrap();
    failure(environment.as_mut(), "die");
    let error = environment.reset(1).unwrap_err().to_string();
    assert!(error.contains("it describes itself in other words than before"), "{error}");
}

#[test]
fn requests_that_wait_are_sent_as_one_message() {
    let settings = server("batches", &json!({ "limits": { "max_batch": 48 } }));
    let mut pool = pool("process", &settings, 64, 64);
    assert!(pool.reset_all((0..64).map(|i| (i, i as u64)).collect(), None).iter().all(Result::is_ok));
    for _ in 0..4 {
        // Whatever comes first naps, and the others wait together.
        let requests = (0..64).map(|i| request(i, if i == 0 { "nap" } else { "go" })).collect();
        assert!(pool.step_all(requests, None).iter().all(Result::is_ok));
    }
    let count = pool.step_all(vec![request(0, "count")], None)[0].as_ref().unwrap().feedback.clone();
    let [messages, largest, environments, _] = numbers(&count);
    // 64 resets and 256 steps; one by one it would be more than 320 messages.
    assert!(messages < 160, "{messages} messages");
    assert!((17..=48).contains(&largest), "the largest had {largest} requests");
    assert_eq!(environments, 64);
}

fn numbers(text: &str) -> [u64; 4] {
    let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn results_do_not_depend_on_threads_workers_or_batches() {
    let play = |threads: usize, workers: usize, max_batch: usize| {
        let more = json!({ "workers": workers, "limits": { "max_batch": max_batch }, "supplies": { "states": true } });
        let mut pool = pool("process", &server("equal", &more), 12, threads);
        let mut results = Vec::new();
        for round in 0..3 {
            let starts = pool.reset_all((0..12).map(|i| (i, i as u64 * 7 + round)).collect(), None);
            results.push(format!("{starts:?}"));
            for action in ["a", "b", "end"] {
                results.push(format!("{:?}", pool.step_all((0..12).map(|i| request(i, action)).collect(), None)));
            }
        }
        results
    };
    let alone = play(1, 1, 64);
    assert!(alone[3].contains("terminal: true"), "{}", alone[3]);
    for (threads, workers, max_batch) in [(12, 1, 64), (5, 3, 64), (12, 2, 3)] {
        assert_eq!(play(threads, workers, max_batch), alone);
    }
}

#[test]
fn what_a_process_writes_to_stderr_holds_up_nothing() {
    let mut environment = environment("process", &server("chatter", &json!({})));
    environment.reset(1).unwrap();
    assert_eq!(feedback(environment.as_mut(), "chatter"), "chatter|");
    let error = failure(environment.as_mut(), "die");
    assert!(error.contains("\n  out of cheese"), "{error}");
    assert!(error.lines().count() <= 21 && error.len() < 10_000, "{error}");
}

#[test]
fn a_request_that_is_too_long_fails_alone_and_many_are_sent_in_parts() {
    let settings = server("sizes", &json!({ "limits": { "max_message_bytes": 3000 } }));
    let mut pool = pool("process", &settings, 8, 8);
    assert!(pool.reset_all((0..8).map(|i| (i, 1)).collect(), None).iter().all(Result::is_ok));
    let sizes = [4000, 900, 900, 900, 900, 900, 900, 900];
    let text = |size: usize| format!("quiet{}", "x".repeat(size));
    let answers = pool.step_all(sizes.iter().enumerate().map(|(i, size)| request(i, &text(*size))).collect(), None);
    let error = &answers[0].as_ref().unwrap_err().message;
    assert!(error.contains("bytes, and a line may have 3000 (`limits.max_message_bytes`)"), "{error}");
    assert!(answers[1..].iter().all(|answer| answer.as_ref().is_ok_and(|outcome| outcome.feedback == "quiet")));
}

/// The memory of this process, in MB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn many_episodes_leave_nothing_behind() {
    let settings = server("flat", &json!({}));
    let mut kept = environment("process", &settings);
    kept.reset(0).unwrap();
    let play = |episodes: u64| {
        for seed in 0..episodes {
            let mut environment = environment("process", &settings);
            environment.reset(seed).unwrap();
            environment.step(Some(&"long ".repeat(400)), "").unwrap();
        }
    };
    play(200);
    let before = memory();
    play(3000);
    let grown = memory().saturating_sub(before);
    // 3000 episodes of 2 KB each way would be more than 12 MB; other tests run in this process too.
    assert!(grown < 64, "{grown} MB more");
    let [_, _, environments, _] = numbers(&feedback(kept.as_mut(), "count"));
    assert!(environments <= 2, "the server still has {environments} environments");
}

fn is_running(pid: u64) -> bool {
    // A zombie runs no more.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim().starts_with('Z'))
}

fn ends_soon(pid: u64) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_running(pid) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    !is_running(pid)
}

#[test]
fn processes_end_with_their_last_environment() {
    for how in ["", "lingers"] {
        let settings = json!({ "command": ["python3", file("server.py"), how], "settings": { "tag": "ends" } });
        let (mut one, two) = (environment("process", &settings), environment("process", &settings));
        one.reset(1).unwrap();
        let pids = feedback(one.as_mut(), "grandchild");
        let pids: Vec<u64> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
        drop(two);
        assert!(pids.iter().all(|pid| is_running(*pid)));
        drop(one);
        assert!(!is_running(pids[0]), "{how}");
        assert!(ends_soon(pids[1]), "{how}");
    }
}

/// Set for a copy of this test program that plays the host.
const HOST: &str = "ACCREDIT_TEST_HOST";

#[test]
fn processes_die_with_a_host_that_is_killed() {
    if std::env::var_os(HOST).is_some() {
        let mut environment = environment("process", &server("orphan", &json!({})));
        environment.reset(1).unwrap();
        let [.., pid] = numbers(&feedback(environment.as_mut(), "count"));
        writeln!(std::io::stdout(), "pid {pid}").unwrap();
        // It reads no stdin and heeds no signal that can be refused; meanwhile the host ends as on a second Ctrl-C.
        thread::spawn(move || environment.step(Some("stubborn"), ""));
        thread::sleep(Duration::from_millis(300));
        std::process::abort();
    }
    let test = "outside::process::processes_die_with_a_host_that_is_killed";
    let host = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(HOST, "1")
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&host.stdout);
    let pid = text.lines().find_map(|line| line.rsplit_once("pid ")).unwrap_or_else(|| panic!("{text}")).1;
    assert!(!host.status.success());
    assert!(ends_soon(pid.trim().parse().unwrap()));
}

#[test]
fn environments_with_equal_settings_share_processes() {
    let pid = |environment: &mut Box<dyn Environment>| {
        environment.reset(1).unwrap();
        numbers(&feedback(environment.as_mut(), "count"))[3]
    };
    let settings = server("share", &json!({}));
    let (mut one, mut two) = (environment("process", &settings), environment("process", &settings));
    let mut other = environment("process", &server("do not share", &json!({})));
    assert_eq!(pid(&mut one), pid(&mut two));
    assert_ne!(pid(&mut one), pid(&mut other));
    let deadline = Some(Duration::from_mins(1));
    assert!(Pool::new(vec![one, two], 2).unwrap().reset_all(vec![(0, 1), (1, 2)], deadline)[1].is_ok());
}

#[test]
fn any_text_arrives_as_it_is() {
    let settings = server("texts", &json!({ "env": { "PYTHONUTF8": "1" } }));
    let environment = RefCell::new(environment("process", &settings));
    proptest!(|(action in "(?s).{0,40}", response in any::<String>(), seed in any::<u64>())| {
        let mut environment = environment.borrow_mut();
        prop_assert_eq!(environment.reset(seed).unwrap().observation, format!("seed {seed}, step 0"));
        // Without the frame it could be one that the server acts on.
        let action = format!("<{action}>");
        let outcome = environment.step(Some(&action), &response).unwrap();
        prop_assert_eq!(outcome.feedback, format!("{action}|{response}"));
    });
}
