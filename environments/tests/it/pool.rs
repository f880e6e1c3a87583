//! The pool with environments that answer, fail, panic and hang on demand.

use std::thread;
use std::time::{Duration, Instant};

use accredit_environments::{
    Demonstration, Environment, EnvironmentError, Failure, FailureKind, Outcome, Pool, Request, Turn,
};

/// Does what the action says, and counts the turns.
struct Scripted {
    turns: u64,
}

impl Environment for Scripted {
    fn instructions(&self) -> String {
        String::new()
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        assert!(seed != 13, "unlucky seed {seed}");
        self.turns = 0;
        Ok(Turn { observation: seed.to_string(), ..Turn::default() })
    }

    fn step(&mut self, action: Option<&str>, response: &str) -> Result<Outcome, EnvironmentError> {
        match action {
            Some("panic") => panic!("on demand"),
            Some("error") => return Err(EnvironmentError::Failed("on demand".to_owned())),
            Some("hang") => thread::sleep(Duration::from_hours(1)),
            Some("nap") => thread::sleep(Duration::from_millis(50)),
            Some("sleep") => thread::sleep(Duration::from_millis(500)),
            _ => {}
        }
        self.turns += 1;
        Ok(Outcome { feedback: format!("{response} {}", self.turns), ..Outcome::default() })
    }

    fn expert(&mut self) -> Option<Demonstration> {
        None
    }
}

fn pool(environments: usize, threads: usize) -> Pool {
    let make = |_| Box::new(Scripted { turns: 0 }) as Box<dyn Environment>;
    Pool::new((0..environments).map(make).collect(), threads).unwrap()
}

fn request(index: usize, action: &str) -> Request {
    Request { index, action: Some(action.to_owned()), response: format!("r{index}") }
}

/// For calls that hang among others that need next to nothing.
const SHORT: Option<Duration> = Some(Duration::from_millis(500));
/// For calls that nap: far more than they need, also on a busy machine.
const LONG: Option<Duration> = Some(Duration::from_secs(30));

fn kind<T>(answer: &Result<T, Failure>) -> Option<FailureKind> {
    answer.as_ref().err().map(|failure| failure.kind)
}

#[test]
fn answers_come_in_the_order_of_the_requests() {
    for threads in [0, 1, 3] {
        let mut pool = pool(20, threads);
        for round in 1..4 {
            let order = (0..20).map(|i| (i * 7) % 20);
            let requests = order.clone().map(|i| request(i, if i % 5 == 0 { "nap" } else { "go" }));
            let answers = pool.step_all(requests.collect(), LONG);
            let texts: Vec<String> = answers.into_iter().map(|answer| answer.unwrap().feedback).collect();
            assert_eq!(texts, order.map(|i| format!("r{i} {round}")).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_fails_fails_alone() {
    let mut pool = pool(5, 2);
    let actions = ["panic", "go", "error", "go", "hang"];
    let requests = actions.iter().enumerate().map(|(i, action)| request(i, action)).collect();
    let answers = pool.step_all(requests, SHORT);
    let kinds: Vec<_> = answers.iter().map(kind).collect();
    let (panic, error, timeout) = (FailureKind::Panic, FailureKind::Error, FailureKind::Timeout);
    assert_eq!(kinds, [Some(panic), None, Some(error), None, Some(timeout)]);
    assert_eq!(answers[0].as_ref().unwrap_err().to_string(), "environment 0: it panicked: on demand");
    assert_eq!(answers[2].as_ref().unwrap_err().to_string(), "environment 2: on demand");
    assert_eq!(answers[4].as_ref().unwrap_err().to_string(), "environment 4: it took longer than 500ms");
    assert_eq!(pool.lost(), [0, 4]);

    // The one that returned an error goes on; the lost ones are named until they are replaced.
    let again = pool.step_all((0..5).map(|i| request(i, "go")).collect(), SHORT);
    let missing = Some(FailureKind::Missing);
    assert_eq!(again.iter().map(kind).collect::<Vec<_>>(), [missing, None, None, None, missing]);
    assert_eq!(again[1].as_ref().unwrap().feedback, "r1 2");
    assert_eq!(again[2].as_ref().unwrap().feedback, "r2 1");
    pool.replace(4, Box::new(Scripted { turns: 0 })).unwrap();
    assert_eq!(pool.reset_all(vec![(4, 8)], SHORT)[0].as_ref().unwrap().0.observation, "8");
    assert_eq!(pool.replace(5, Box::new(Scripted { turns: 0 })).unwrap_err().kind, FailureKind::Missing);
}

#[test]
fn threads_that_hang_are_replaced() {
    let mut pool = pool(6, 2);
    let actions = ["hang", "hang", "hang", "go", "go", "go"];
    let started = Instant::now();
    let answers = pool.step_all(actions.iter().enumerate().map(|(i, a)| request(i, a)).collect(), SHORT);
    assert!(answers[..3].iter().all(|answer| kind(answer) == Some(FailureKind::Timeout)));
    assert!(answers[3..].iter().all(Result::is_ok));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(pool.step_all(vec![request(5, "go")], SHORT)[0].is_ok());
}

#[test]
fn waiting_in_the_queue_costs_no_time() {
    let mut pool = pool(24, 1);
    let limit = Some(Duration::from_millis(800));
    let started = Instant::now();
    let answers = pool.step_all((0..24).map(|i| request(i, "nap")).collect(), limit);
    assert!(started.elapsed() > Duration::from_millis(1200));
    assert!(answers.iter().all(Result::is_ok));
}

#[test]
fn a_late_answer_is_dropped() {
    let mut pool = pool(2, 1);
    let limit = Some(Duration::from_millis(10));
    assert_eq!(kind(&pool.step_all(vec![request(0, "sleep")], limit)[0]), Some(FailureKind::Timeout));
    thread::sleep(Duration::from_millis(700));
    assert_eq!(pool.lost(), [0]);
    assert!(pool.step_all(vec![request(1, "go")], None)[0].is_ok());
}

#[test]
fn resets_fail_like_steps() {
    let mut pool = pool(3, 2);
    let answers = pool.reset_all(vec![(2, 5), (0, 13), (1, 6)], LONG);
    assert_eq!(answers[0].as_ref().unwrap().0.observation, "5");
    assert!(answers[1].as_ref().unwrap_err().message.contains("unlucky seed 13"));
    assert_eq!(answers[2].as_ref().unwrap().0.observation, "6");
    assert_eq!(pool.lost(), [0]);
}

#[test]
fn an_index_that_is_not_there_or_asked_twice_is_a_failure() {
    let mut pool = pool(2, 2);
    let answers = pool.step_all(vec![request(0, "go"), request(0, "go"), request(2, "go")], SHORT);
    let missing = Some(FailureKind::Missing);
    assert_eq!(answers.iter().map(kind).collect::<Vec<_>>(), [None, missing, missing]);
    assert!(pool.lost().is_empty());
    assert!(pool.step_all(Vec::new(), SHORT).is_empty());
}
