//! Schemes that go wrong: the program lives, and says who, where and what.

use std::{
    env,
    io::Write,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use accredit::plugin::{During, Library, Refusal, Scheme, SchemeError, SchemeErrorKind, Services, cancel, cancelled};
use accredit_plugin_api::{
    Hook,
    columns::{ADVANTAGE, D_LOGPROB, REWARD, WEIGHT},
};
use serde_json::{Value, json};

use super::{advantage, call, misbehave, scheme};
use crate::plugins;

fn with_mode(mode: &str, hook: Hook) -> Scheme {
    scheme(&misbehave(), "misbehave", &json!({ "mode": mode, "hook": hook.name() }))
}

fn not_built(params: &Value) -> SchemeError {
    let library = misbehave();
    Scheme::build(&library, "misbehave", "the label", params, Services::default()).unwrap_err()
}

/// Holds that an error names the plugin with its version and file, the scheme and what it was doing.
#[track_caller]
fn check_names(error: &SchemeError, label: &str, during: &str) {
    let text = error.to_string();
    let path = plugins::library("accredit-misbehave");
    for part in [
        "plugin accredit-misbehave 0.1.0",
        &path.display().to_string(),
        &format!("scheme `{label}`"),
        during,
        &error.message,
    ] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

#[test]
fn a_panic_in_any_hook_is_an_error_with_its_place_and_the_last_call() {
    for hook in Hook::ALL {
        let mut scheme = with_mode("panic", hook);
        assert_eq!(scheme.needs().hooks, [hook]);
        let error = call(&mut scheme, hook).unwrap_err();
        assert_eq!(error.kind, SchemeErrorKind::Panicked);
        assert_eq!(error.during, During::Hook(hook));
        assert_eq!(error.message, format!("on purpose, in {}", hook.name()));
        check_names(&error, "misbehave", &format!("hook `{}`", hook.name()));
        let place = "panicked at host/tests/fixtures/misbehave/src/lib.rs:";
        assert!(error.to_string().contains(place), "{error}");

        let again = call(&mut scheme, hook).unwrap_err();
        assert_eq!(again.kind, SchemeErrorKind::PanickedBefore);
        let before = format!("panicked before: hook `{}`, panicked at", hook.name());
        assert!(again.to_string().contains(&before), "{again}");
        assert_eq!(scheme.save().unwrap_err().kind, SchemeErrorKind::PanickedBefore);
        assert_eq!(scheme.restore(&[0; 8]).unwrap_err().kind, SchemeErrorKind::PanickedBefore);
    }
    super::check_harmless(&plugins::library("accredit-misbehave"));
}

#[test]
fn an_error_in_any_hook_keeps_the_scheme_usable() {
    for hook in Hook::ALL {
        let mut scheme = with_mode("error", hook);
        for _ in 0..2 {
            let error = call(&mut scheme, hook).unwrap_err();
            assert_eq!(error.kind, SchemeErrorKind::Failed);
            assert_eq!(error.message, format!("on purpose, in {}", hook.name()));
            check_names(&error, "misbehave", &format!("hook `{}`", hook.name()));
        }
        scheme.save().unwrap();
    }
}

#[test]
fn without_a_fault_every_hook_works() {
    for hook in Hook::ALL {
        let mut scheme = with_mode("behave", hook);
        call(&mut scheme, hook).unwrap();
    }
    let mut scheme = with_mode("behave", Hook::Objective);
    let outputs = call(&mut scheme, Hook::Objective).unwrap();
    assert_eq!(outputs.f32(D_LOGPROB).unwrap(), [-1.0_f32 / 6.0; 6]);
}

#[test]
fn odd_panics_are_caught_too() {
    for mode in ["panic_non_text", "panic_twice"] {
        let error = call(&mut with_mode(mode, Hook::Weigh), Hook::Weigh).unwrap_err();
        assert_eq!(error.kind, SchemeErrorKind::Panicked, "{mode}");
        assert_eq!(error.message, "(a payload that is not text)", "{mode}");
        assert!(error.location.contains("lib.rs:"), "{mode}: {error}");
    }
    let error = call(&mut with_mode("out_of_range", Hook::Shape), Hook::Shape).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (SchemeErrorKind::Panicked, "index out of bounds: the len is 3 but the index is 3")
    );
    let error = call(&mut with_mode("panic_in_thread", Hook::Weigh), Hook::Weigh).unwrap_err();
    assert_eq!(error.message, "a thread of the scheme panicked");
}

#[test]
fn a_scheme_that_panics_while_it_is_made_saved_or_ended_does_no_harm() {
    for (mode, message) in [("panic_in_new", "on purpose, in new"), ("panic_in_needs", "on purpose, in needs")] {
        let error = not_built(&json!({ "mode": mode }));
        assert_eq!(error.kind, SchemeErrorKind::Panicked, "{mode}");
        assert_eq!(error.message, message);
        assert!(error.parameter().is_none());
        check_names(&error, "the label", "while it was made");
    }
    let mut saved = with_mode("panic_in_save", Hook::Advantage);
    let error = saved.save().unwrap_err();
    assert_eq!((error.kind, error.during), (SchemeErrorKind::Panicked, During::Save));
    let refused = call(&mut saved, Hook::Advantage).unwrap_err();
    assert_eq!(refused.kind, SchemeErrorKind::PanickedBefore);
    drop(with_mode("panic_in_drop", Hook::Advantage));
    advantage(&mut with_mode("behave", Hook::Advantage));
}

#[test]
fn parameters_that_do_not_fit_are_named_by_their_path() {
    for (params, path, message) in [
        (json!({ "mode": "error_in_new" }), "mode", "refused on purpose"),
        (json!({ "moed": "panic" }), "moed", "unknown field `moed`"),
        (json!({ "seconds": -1.0 }), "seconds", "at least 0"),
        (json!({ "also": ["weigh", 3] }), "also[1]", "expected"),
        (json!([]), "", "expected a table, found `[]`"),
    ] {
        let error = not_built(&params);
        let (found, text) = error.parameter().unwrap();
        assert_eq!(found, path, "{error}");
        assert!(text.contains(message), "{text}");
        check_names(&error, "the label", "while it was made");
    }
}

#[test]
fn a_scheme_that_the_library_does_not_have_is_named_with_a_near_one() {
    let library = misbehave();
    let params = json!({});
    let error = Scheme::build(&library, "harmles", "x", &params, Services::default()).unwrap_err();
    assert_eq!(error.kind, SchemeErrorKind::Unknown);
    let text = error.to_string();
    assert!(text.contains("Did you mean `harmless`?"), "{text}");
    assert!(text.contains("but `misbehave`, `harmless`, "), "{text}");
}

#[test]
fn a_hook_that_is_declared_and_not_written_says_so() {
    let mut scheme = scheme(&misbehave(), "promises", &json!({}));
    assert_eq!(scheme.needs().hooks, Hook::ALL);
    for hook in Hook::ALL {
        let error = call(&mut scheme, hook).unwrap_err();
        assert_eq!(error.kind, SchemeErrorKind::Failed);
        assert!(error.message.contains("not implemented"), "{error}");
    }
}

#[test]
fn an_absent_column_is_named() {
    let mut scheme = with_mode("missing_column", Hook::Advantage);
    let error = call(&mut scheme, Hook::Advantage).unwrap_err();
    assert_eq!(error.kind, SchemeErrorKind::MissingColumn);
    assert_eq!(error.message, "column `misbehave.absent` is absent");
}

/// What a scheme leaves in its outputs is for the caller to check; here it arrives as it was written.
#[test]
fn bad_numbers_arrive_as_they_were_written() {
    let written = |mode, hook, column| {
        let outputs = call(&mut with_mode(mode, hook), hook).unwrap();
        outputs.f32(column).unwrap().to_vec()
    };
    for (hook, column) in [
        (Hook::Shape, REWARD),
        (Hook::Advantage, ADVANTAGE),
        (Hook::Weigh, WEIGHT),
        (Hook::Refresh, ADVANTAGE),
        (Hook::Objective, D_LOGPROB),
    ] {
        let nan = written("nan", hook, column);
        assert!(nan.iter().all(|value| value.is_nan()), "{hook:?}");
        let infinite = written("infinite", hook, column);
        assert!(infinite.iter().all(|value| *value == f32::INFINITY));
    }
    assert_eq!(written("negative_weight", Hook::Weigh, WEIGHT), [-1.0; 6]);
    for (hook, column) in [(Hook::Advantage, ADVANTAGE), (Hook::Objective, D_LOGPROB)] {
        let unwritten = written("unwritten", hook, column);
        let nan: Vec<bool> = unwritten.iter().map(|value| value.is_nan()).collect();
        assert_eq!(nan, [false, false, false, false, false, true], "{hook:?}");
    }
}

#[test]
fn state_survives_and_another_version_is_refused() {
    let mut first = with_mode("state", Hook::Advantage);
    for calls in 1..=3_u8 {
        assert_eq!(advantage(&mut first), [f32::from(calls); 6]);
    }
    let saved = first.save().unwrap();
    let mut second = with_mode("state", Hook::Advantage);
    second.restore(&saved).unwrap();
    assert_eq!(advantage(&mut second), [4.0; 6]);

    let wrong = with_mode("wrong_state_version", Hook::Advantage).save().unwrap();
    let error = second.restore(&wrong).unwrap_err();
    assert_eq!(error.during, During::Restore);
    assert!(error.message.contains("has version 2") && error.message.contains("reads version 1"), "{error}");
    for bytes in [&saved[..2], &saved[..6]] {
        assert_eq!(second.restore(bytes).unwrap_err().kind, SchemeErrorKind::Failed);
    }
    let mut without = with_mode("behave", Hook::Advantage);
    assert!(without.save().unwrap().is_empty());
}

/// A writer that tests read.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn metrics_and_log_lines_reach_the_host_under_the_label() {
    let (lines, library) = (Lines::default(), misbehave());
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let params = json!({ "mode": "talk" });
    let services = Services { threads: 3 };
    let mut talking = Scheme::build(&library, "misbehave", "the talker", &params, services).unwrap();
    let mut silent = with_mode("behave", Hook::Advantage);
    tracing::subscriber::with_default(subscriber, || {
        advantage(&mut talking);
        advantage(&mut silent);
    });
    assert_eq!(talking.take_metrics(), [("spoken".to_owned(), 3.0), ("threads".to_owned(), 3.0)]);
    assert_eq!(talking.take_metrics(), []);
    assert_eq!(silent.take_metrics(), []);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for (level, message) in [("INFO", "a line from the plugin"), ("WARN", "a warning from the plugin")] {
        let line = text.lines().find(|line| line.contains(message)).unwrap();
        assert!(line.contains(level), "{line}");
        assert!(line.contains("the talker"), "{line}");
    }
}

/// Runs a test of this binary in a process of its own, since what it does concerns the whole process.
fn alone(test: &str, variable: &str) {
    let output = Command::new(env::current_exe().unwrap()).args(["--exact", test]).env(variable, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A name that is no test's runs nothing, and that is a success too.
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn a_scheme_that_takes_long_learns_that_the_user_asked_to_stop() {
    const ALONE: &str = "ACCREDIT_TEST_CANCEL";
    if env::var_os(ALONE).is_none() {
        return alone("loader::misbehaviour::a_scheme_that_takes_long_learns_that_the_user_asked_to_stop", ALONE);
    }
    let params = json!({ "mode": "sleep", "seconds": 600.0 });
    let mut slow = scheme(&misbehave(), "misbehave", &params);
    assert!(!cancelled());
    let started = Instant::now();
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(50));
        cancel();
    });
    let error = call(&mut slow, Hook::Advantage).unwrap_err();
    assert_eq!(error.message, "stopped, since the user asked to");
    assert!(cancelled() && started.elapsed() < Duration::from_mins(5));
}

#[test]
fn a_scheme_that_sleeps_returns() {
    let params = json!({ "mode": "sleep", "seconds": 0.02 });
    let mut slow = scheme(&misbehave(), "misbehave", &params);
    let started = Instant::now();
    call(&mut slow, Hook::Advantage).unwrap();
    assert!(started.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_panic_in_the_description_is_a_refusal() {
    // The fixture's own variable.
    const ALONE: &str = "ACCREDIT_MISBEHAVE_DESCRIBE";
    if env::var_os(ALONE).is_none() {
        return alone("loader::misbehaviour::a_panic_in_the_description_is_a_refusal", ALONE);
    }
    let error = Library::load(&plugins::library("accredit-misbehave"), None).unwrap_err();
    assert!(matches!(error.refusal, Refusal::Describe(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("on purpose, in the description"), "{text}");
    assert!(text.contains("panicked at host/tests/"), "{text}");
}
