//! Judges in runs and on rollout files: what they say, and what becomes of those that do not answer.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::plugins::library;

/// A judge that writes down how often it was asked. The first times it does what its settings say, in place of an answer.
const JUDGE: &str = r#"
import os, time

class Judge:
    def __init__(self, count, moods=()):
        self.count, self.moods = count, moods

    def judge(self, prompt, episode, successful):
        with open(self.count, "a") as file:
            file.write(".")
        asked = os.path.getsize(self.count)
        mood = self.moods[asked - 1] if asked <= len(self.moods) else ""
        if mood == "hang":
            time.sleep(3600)
        if mood == "die":
            os._exit(3)
        if mood == "megabytes":
            return "x" * 3_000_000
        if mood == "number":
            return 7
        return f"{len(episode['steps'])} steps, {'beside another' if successful else 'alone'}."
"#;

/// An environment in which about every second response succeeds, whatever it is.
const LUCK: &str = r#"
class Luck:
    instructions, expert = "Say something.", True
    turn = {"observation": "Well?", "expert": {"think": "hm", "action": "this"}}

    def reset(self, seed):
        return self.turn

    def step(self, action, response):
        solved = sum(map(ord, response)) % 2 == 0
        return {**self.turn, "reward": float(solved), "terminal": solved, "success": solved}
"#;

const SCHEMES: &str = r#"
[[credit]]
plugin = "grpo"

[[credit]]
plugin = "serl"
params = { feedback = "none", judge = "JUDGE" }
"#;

struct Bench {
    folder: TempDir,
}

impl Bench {
    /// `judge` are lines of the table `[judge]`.
    fn new(base: &str, source: &str, judge: Option<&str>) -> Self {
        for package in ["accredit-grpo", "accredit-serl", "accredit-clip"] {
            library(package);
        }
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let table = judge.map_or_else(String::new, |lines| format!("[judge]\n{lines}\n"));
        bench.write("c.toml", &format!("{base}\n{table}{}", SCHEMES.replace("JUDGE", source)));
        bench.write("judge.py", &format!("{JUDGE}{LUCK}"));
        bench
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accredit"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The credit of a rollout file: whether there was any, and what was said.
    fn credit(&self, rollouts: &str) -> (bool, String) {
        self.write("r.jsonl", rollouts);
        said(&self.run(&["credit", "--config", "c.toml", "--rollouts", "r.jsonl", "--out", "o.jsonl"]))
    }

    /// How often the judge was asked.
    fn asked(&self) -> usize {
        fs::read(self.folder.path().join("count")).map_or(0, |count| count.len())
    }
}

fn said(output: &Output) -> (bool, String) {
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The line that names a class of the file above as a program.
fn command(class: &str) -> String {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../environments/python/accredit_env.py");
    format!("command = [\"python3\", \"{}\", \"judge.py:{class}\"]", python.display())
}

/// The lines of `[judge]` that name the judge above.
fn judge(settings: &str) -> String {
    format!("{}\nsettings = {{ count = \"count\"{settings} }}", command("Judge"))
}

fn rollouts(judgement: &str) -> String {
    ["a", "b"]
        .map(|name| {
            format!(
                r#"{{"group": "g", "trajectory": "{name}", "success": true,{judgement} "steps": [{{"reward": 1.0, "tokens": {{"kind": ["think", "action"], "old_logprob": [-0.5, -0.25]}}}}]}}"#
            )
        })
        .join("\n")
}

#[test]
fn a_rollout_file_has_its_judgements_or_a_judge_is_asked_or_it_is_refused() {
    let without = Bench::new("", "alone", None);
    let (success, error) = without.credit(&rollouts(""));
    assert!(!success, "{error}");
    let expected = "no trajectory of iteration 0 has `judgement`, which a scheme reads; add `[judge]`";
    assert!(error.contains(expected), "{error}");
    assert!(without.credit(&rollouts(r#" "judgement": "","#)).0);
    // The text about a comparison is another one.
    assert!(!Bench::new("", "with-success", None).credit(&rollouts(r#" "judgement": "","#)).0);

    let bench = Bench::new("", "with-success", Some(&judge("")));
    assert!(bench.credit(&rollouts(r#" "judgement_with_success": "well done","#)).0);
    assert_eq!(bench.asked(), 0);
    let (success, error) = bench.credit(&rollouts(""));
    assert!(success, "{error}");
    assert_eq!(bench.asked(), 2);
}

#[test]
fn a_program_that_is_no_judge_is_refused_at_its_line() {
    let bench = Bench::new("", "alone", Some("command = [\"no-such-judge\"]"));
    let (_, error) = bench.credit(&rollouts(""));
    assert!(error.contains("c.toml:3:") && error.contains("cannot start `no-such-judge`"), "{error}");
    let model = "url = \"http://127.0.0.1:9/v1/chat/completions\"\nmodel = \"m\"\nkey_env = \"ACCREDIT_NO_SUCH_KEY\"";
    let (_, error) = Bench::new("", "alone", Some(model)).credit(&rollouts(""));
    assert!(error.contains("c.toml:5:") && error.contains("export ACCREDIT_NO_SUCH_KEY"), "{error}");
}

#[cfg(feature = "torch")]
mod runs {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::TcpListener,
        sync::{Arc, Mutex},
        thread,
    };

    use super::*;
    use crate::training::CONFIG;

    /// A tiny run: two iterations of six episodes.
    fn base() -> String {
        let (before, rest) = CONFIG.split_once("[[credit]]").unwrap();
        let objective = rest.find("[objective]").unwrap();
        // The schemes come at the end of the file, and tables before them.
        format!("{before}{}", &rest[objective..])
            .replace("iterations = 5", "iterations = 2")
            .replace("max_positions = 96", "max_positions = 256")
    }

    fn train(bench: &Bench) -> (bool, String) {
        said(&bench.run(&["train", "c.toml", "--run-name", "r"]))
    }

    fn lines(bench: &Bench, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(bench.folder.path().join("runs/r").join(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn texts(bench: &Bench, iteration: u64, key: &str) -> Vec<String> {
        let rollouts = lines(bench, &format!("rollouts/{iteration:06}.jsonl"));
        rollouts.iter().map(|line| line[key].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_a_judge_says_reaches_the_teacher_and_the_rollout_file() {
        let bench = Bench::new(&base(), "alone", Some(&format!("{}\nworkers = 2\nmax_characters = 7", judge(""))));
        let (success, error) = train(&bench);
        assert!(success, "{error}");
        let metrics = lines(&bench, "metrics.jsonl");
        assert_eq!(metrics.len(), 2);
        for line in &metrics {
            assert_eq!((&line["judge/asked"], &line["judge/failed"]), (&6.0.into(), &0.0.into()), "{line}");
            assert!(line["credit/serl/queries"].as_f64().unwrap() > 0.0, "{line}");
            assert!(line["queries/scored"].as_f64().unwrap() > 0.0, "{line}");
        }
        let texts = texts(&bench, 1, "judgement");
        assert!(texts.len() == 6 && texts.iter().all(|text| text.ends_with("steps")), "{texts:?}");
    }

    #[test]
    fn a_judge_that_fails_leaves_steps_without_a_teacher_and_too_many_failures_stop_the_run() {
        let moods = r#", moods = ["hang", "die", "megabytes", "number"]"#;
        let limits = "retries = 0\nlimits = { answer_seconds = 1.5, max_message_bytes = 1000000 }";
        let settings = format!("{}\n{limits}\nmax_failed_share = 0.9", judge(moods));
        let bench = Bench::new(&base(), "alone", Some(&settings));
        let (success, error) = train(&bench);
        assert!(success, "{error}");
        assert!(error.contains("4 of 6 questions to the judge failed"), "{error}");
        let metrics = lines(&bench, "metrics.jsonl");
        assert_eq!((&metrics[0]["judge/failed"], &metrics[1]["judge/failed"]), (&4.0.into(), &0.0.into()));
        assert!(metrics[0]["credit/serl/steps_not_asked"].as_f64().unwrap() >= 4.0, "{}", metrics[0]);
        let texts = texts(&bench, 0, "judgement");
        assert_eq!(texts.iter().filter(|text| text.is_empty()).count(), 4, "{texts:?}");

        let settings = format!("{}\n{limits}\nmax_failed_share = 0.1", judge(r#", moods = ["number"]"#));
        let strict = Bench::new(&base(), "alone", Some(&settings));
        let (success, error) = train(&strict);
        assert!(!success);
        let expected = "1 of 6 questions to the judge failed, more than `judge.max_failed_share` (0.1) allows; the last: \
                        `text` must be a text, not 7";
        assert!(error.replace('\n', " ").contains(expected), "{error}");
    }

    /// A server with chat completions that says `text` to everything, and the requests that it got.
    fn server(text: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, seen) = (stream.unwrap(), Arc::clone(&seen));
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    loop {
                        let (mut head, mut length) = (String::new(), 0);
                        while !head.ends_with("\r\n\r\n") {
                            let start = head.len();
                            if reader.read_line(&mut head).unwrap() == 0 {
                                return;
                            }
                            if let Some(value) = head[start..].to_lowercase().strip_prefix("content-length:") {
                                length = value.trim().parse().unwrap();
                            }
                        }
                        let mut body = vec![0; length];
                        reader.read_exact(&mut body).unwrap();
                        seen.lock().unwrap().push(head + &String::from_utf8(body).unwrap());
                        let answer = format!(r#"{{"choices": [{{"message": {{"content": "{text}"}}}}]}}"#);
                        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
                    }
                });
            }
        });
        (format!("http://{address}/v1/chat/completions"), requests)
    }

    #[test]
    fn a_model_is_asked_with_its_key_and_compares_with_a_successful_episode() {
        let (url, requests) = server("Too many steps.");
        let table = format!(
            "url = \"{url}\"\nmodel = \"small\"\nkey_env = \"ACCREDIT_TEST_KEY\"\nsettings = {{ temperature = 0.25 }}\n\
             workers = 3\nprompt_with_success = \"A: {{episode}} B: {{successful}}\""
        );
        let play = format!("name = \"process\"\nsupplies = {{ expert = true }}\n{}", command("Luck"));
        let config = base().replace("name = \"frozen-lake\"\nsuccess_rate = 1.0", &play);
        let bench = Bench::new(&config, "with-success", Some(&table));
        let output =
            bench.command(&["train", "c.toml", "--run-name", "r"]).env("ACCREDIT_TEST_KEY", "secret").output().unwrap();
        let (success, error) = said(&output);
        assert!(success, "{error}");
        let requests = requests.lock().unwrap();
        let mut said = 0;
        for iteration in 0..2 {
            let rollouts = lines(&bench, &format!("rollouts/{iteration:06}.jsonl"));
            for (line, text) in rollouts.iter().zip(texts(&bench, iteration, "judgement_with_success")) {
                let other = |other: &&Value| {
                    other["group"] == line["group"]
                        && other["trajectory"] != line["trajectory"]
                        && other["success"] == true
                };
                assert_eq!(text.is_empty(), rollouts.iter().find(other).is_none(), "{line}");
                said += usize::from(!text.is_empty());
            }
        }
        assert!(said > 0 && requests.len() == said, "{said} texts, {} requests", requests.len());
        for request in requests.iter() {
            assert!(request.to_lowercase().contains("authorization: bearer secret"), "{request}");
            let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
            assert_eq!((&body["model"], &body["temperature"]), (&"small".into(), &0.25.into()));
            let prompt = body["messages"][0]["content"].as_str().unwrap();
            assert!(prompt.starts_with("A: Step 1, ") && prompt.contains(" B: Step 1, "), "{prompt}");
        }
        // The key is nowhere in what the run wrote.
        let config = fs::read_to_string(bench.folder.path().join("runs/r/config.resolved.toml")).unwrap();
        assert!(config.contains("key_env = \"ACCREDIT_TEST_KEY\"") && !config.contains("secret"));
    }

    #[test]
    fn a_judge_that_nobody_named_is_missed_when_the_configuration_is_read() {
        let bench = Bench::new(&base(), "alone", None);
        let output = bench.run(&["train", "c.toml", "--run-name", "r"]);
        let (_, error) = said(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        for part in ["`serl` reads `judgement`", "add `[judge]` with a `command`, or with the `url` of a server"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!bench.folder.path().join("runs").exists());
        let bench = Bench::new(&base(), "alone", Some(&judge("")));
        let (success, plan) = {
            let output = bench.run(&["plan", "c.toml"]);
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert!(success && plan.contains("6 questions to the judge at most"), "{plan}");
        assert_eq!(bench.asked(), 0);
    }
}
