//! Judges, as programs and as models, that misbehave.

use std::time::{Duration, Instant};

use accredit_environments::{Judge, JudgeSettings, Judges, Limits, Question};
use serde_json::{Map, Value, json};

use super::file;
use super::http::{Server, python};

fn limits(more: &Value) -> Limits {
    serde_json::from_value(more.clone()).unwrap()
}

fn settings(judges: Judges) -> JudgeSettings {
    JudgeSettings { judges, settings: Map::new(), workers: 2, retries: 0, limits: limits(&json!({})) }
}

fn process(arguments: &[&str]) -> JudgeSettings {
    let command = ["python3"].iter().chain(arguments).map(|part| (*part).to_owned()).collect();
    settings(Judges::Process { command })
}

fn chat(url: &str, key: Option<&str>) -> JudgeSettings {
    settings(Judges::Chat { url: url.to_owned(), model: "small".to_owned(), key: key.map(str::to_owned) })
}

fn ask(judge: &Judge, prompt: &str) -> Result<String, String> {
    judge.ask(&Question { prompt: prompt.to_owned(), episode: json!({ "task": "t" }), successful: None })
}

fn refused(settings: JudgeSettings) -> (&'static str, String) {
    let error = Judge::new(settings).err().unwrap();
    (error.key.unwrap_or_default(), error.message)
}

#[test]
fn a_program_judges_and_goes_on_after_whatever_it_does() {
    let small = json!({ "answer_seconds": 1.5, "max_message_bytes": 1_000_000, "max_restarts": 50 });
    let judge =
        Judge::new(JudgeSettings { limits: limits(&small), ..process(&[&file("server.py"), "judge"]) }).unwrap();
    assert_eq!(ask(&judge, "well?").unwrap(), r#"well?|[{"task": "t"}, null]"#);
    for (prompt, expected) in [
        ("die", "its process ended with exit status: 3; the last lines of its stderr:\n  first line"),
        ("garbage", "texts for people must go to stderr; it wrote `Loading the model...`"),
        ("megabytes", "a line of more than 1000000 bytes (`limits.max_message_bytes`)"),
        ("endless", "a line of more than 1000000 bytes"),
        ("hang", "it gave no answer within 1.5 s"),
        ("wrong id", "it answered for the id `somebody else`"),
        ("error", "KeyError: 'door'"),
        ("no text", "the answer to `judge`: missing field `text`"),
    ] {
        let error = ask(&judge, prompt).unwrap_err();
        assert!(error.contains(expected), "{prompt}: {error}");
        assert!(ask(&judge, "and now?").is_ok(), "{prompt}");
    }
    let successful = Some(json!({ "task": "other" }));
    let question = Question { prompt: "both".to_owned(), episode: Value::Null, successful };
    assert_eq!(judge.ask(&question).unwrap(), r#"both|[null, {"task": "other"}]"#);
}

#[test]
fn what_does_not_judge_is_refused_with_the_key_that_names_it() {
    for (settings, key, expected) in [
        (process(&[&file("server.py")]), "command", "does not say in `hello` that it judges"),
        (process(&[&file("server.py"), "dies"]), "command", "no model file"),
        (settings(Judges::Process { command: Vec::new() }), "command", "must name a program"),
        (settings(Judges::Process { command: vec!["no-such-program".to_owned()] }), "command", "cannot start"),
        (chat("https://api.example.org/v1/chat/completions", None), "url", "a tunnel in front of a server with https"),
        (chat("http://localhost/v1", Some("a\nb")), "key_env", "cannot stand in a header"),
        (JudgeSettings { workers: 0, ..chat("http://localhost/v1", None) }, "workers", "must be 1 to 1024, not 0"),
        (
            JudgeSettings { limits: limits(&json!({ "answer_seconds": 0.0 })), ..chat("http://localhost/v1", None) },
            "limits.answer_seconds",
            "must be more than 0",
        ),
        (
            JudgeSettings {
                settings: json!({ "stream": true }).as_object().unwrap().clone(),
                ..chat("http://localhost/v1", None)
            },
            "settings",
            "`stream` is not for the settings",
        ),
    ] {
        let (found, error) = refused(settings);
        assert!(found == key && error.contains(expected), "{found}: {error}");
    }
}

#[test]
fn a_class_of_python_judges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strict.py");
    let class = "class Strict:\n    def judge(self, prompt, episode, successful):\n        return f\"{prompt} {episode['task']}\"\n";
    std::fs::write(&path, class).unwrap();
    let judge = Judge::new(process(&[&python(), &format!("{}:Strict", path.display())])).unwrap();
    assert_eq!(ask(&judge, "So?").unwrap(), "So? t");
}

#[test]
fn a_model_is_asked_and_what_is_no_text_is_an_error_with_its_address() {
    let server = Server::start(&[&file("server.py"), "chat", "--http"]);
    let small = json!({ "answer_seconds": 0.7, "max_message_bytes": 1_000_000 });
    let sampling = json!({ "temperature": 0.5 }).as_object().unwrap().clone();
    let settings = JudgeSettings { limits: limits(&small), settings: sampling, ..chat(&server.url, Some("secret\n")) };
    let judge = Judge::new(settings.clone()).unwrap();
    let seen: Value = serde_json::from_str(&ask(&judge, "well?").unwrap()).unwrap();
    let expected = json!({ "prompt": "well?", "model": "small", "key": "Bearer secret", "temperature": 0.5 });
    assert_eq!(seen, expected);
    for (prompt, expected) in [
        ("busy", "answered with status 429 Too Many Requests: slower, please"),
        ("garbage", "what is no chat completion: expected value at line 1 column 1; it wrote `<html>hello</html>`"),
        ("megabytes", "answered with more than 1000000 bytes"),
        ("silent", "a chat completion without text (`finish_reason` is `stop`)"),
        ("hang", "gave no answer within 0.7 s"),
        ("flaky", "slower, please"),
    ] {
        let error = ask(&judge, prompt).unwrap_err();
        assert!(error.contains(expected) && error.contains(&server.url), "{prompt}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    // It was asked once above, and answers the third time.
    let patient = Judge::new(JudgeSettings { retries: 1, ..settings }).unwrap();
    assert!(ask(&patient, "flaky").is_ok());
    let nobody = Judge::new(chat("http://127.0.0.1:9/v1/chat/completions", None)).unwrap();
    assert!(ask(&nobody, "well?").unwrap_err().contains("cannot be asked"));
}

#[test]
fn questions_are_under_way_at_once() {
    let judge = Judge::new(process(&[&file("server.py"), "judge"])).unwrap();
    let pid = |judge: &Judge| ask(judge, "count").unwrap().split(' ').next_back().unwrap().to_owned();
    let started = Instant::now();
    let pids: Vec<String> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    ask(&judge, "nap").unwrap();
                    pid(&judge)
                })
            })
            .collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(started.elapsed() < Duration::from_secs(10));
    let mut distinct = pids;
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 2, "{distinct:?}");
}
