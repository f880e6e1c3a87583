//! `accredit env`: environments by hand and by script, without a model.

use std::{
    fs::File,
    io::{self, BufRead, BufWriter, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use accredit_core::rng::{Purpose, Stream};
use accredit_environments::{Environment, FailureKind, Pool, Traits, Turn};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{print, settings};
use crate::{
    config::{Loaded, Parameters},
    rollout::scripted::{self, Episode, Script, Scripted},
};

/// How often an episode whose environment broke is played again.
const REPLAYS: usize = 2;
/// Environments that stand ready for each thread.
const PER_THREAD: usize = 8;
/// Bytes of a line that is typed in.
const LONGEST_LINE: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub enum Env {
    /// List the environments
    List,
    /// Show what an environment tells the agent, its settings, and a first observation
    Describe {
        #[command(flatten)]
        which: Which,
        /// The task to show
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        seed: u64,
    },
    /// Play by hand, in the terminal
    Play {
        #[command(flatten)]
        which: Which,
        /// The task to play
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        seed: u64,
    },
    /// Play episodes by script: the environment's expert, or random actions
    Rollout(Rollout),
    /// Time steps and resets on one core
    Bench {
        #[command(flatten)]
        which: Which,
        /// How long to measure each part
        #[arg(long, default_value = "1", value_parser = seconds, allow_negative_numbers = true)]
        seconds: Duration,
    },
}

/// An environment and its settings.
#[derive(Debug, Args)]
pub struct Which {
    /// The environment's name, or a configuration file with an `[environment]`
    #[arg(value_name = "NAME|CONFIG")]
    environment: String,
    /// Set a key of the environment, such as `size=8`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Rollout {
    #[command(flatten)]
    which: Which,
    /// Who plays
    #[arg(long, value_enum, default_value_t = Player::Expert)]
    player: Player,
    /// The share of the expert's steps in which it acts at random instead
    #[arg(long, default_value_t = 0.0, value_parser = share, allow_negative_numbers = true)]
    noise: f64,
    /// How many tasks are played
    #[arg(
        long,
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        allow_negative_numbers = true
    )]
    tasks: u64,
    /// How many episodes of each task
    #[arg(
        long,
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=65_536),
        allow_negative_numbers = true
    )]
    copies: u64,
    /// The seed of the first task; the others follow
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// The most steps of an episode
    #[arg(
        long,
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        allow_negative_numbers = true
    )]
    max_steps: u32,
    /// Threads; how many there are changes nothing but the time
    #[arg(
        long,
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=4096),
        allow_negative_numbers = true
    )]
    threads: u16,
    /// How long an episode may take before it counts as failed
    #[arg(long, default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    timeout_seconds: Duration,
    /// Show every turn
    #[arg(long)]
    show: bool,
    /// Write the episodes as a rollout file, which `accredit credit` reads
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Who plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Player {
    /// The environment's scripted expert
    Expert,
    /// Random actions among those that would be executed
    Random,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

/// An environment whose settings are checked.
struct Setting {
    name: String,
    parameters: Parameters,
    traits: Traits,
}

impl Setting {
    fn check(loaded: &Loaded, name: String, parameters: Parameters) -> Result<Self> {
        let value = Value::Object(parameters.clone());
        let traits = accredit_environments::traits(&name, &value)
            .and_then(|traits| accredit_environments::make(&name, &parameters).map(|_| traits))
            .map_err(|error| {
                let path = error.key().map_or_else(|| "environment".to_owned(), |key| format!("environment.{key}"));
                let unset = error.key().filter(|key| *key != "name" && !parameters.contains_key(*key));
                let hint = unset.map(|key| {
                    format!("`--set '{key}=...'` sets it; `accredit env describe {name}` shows all settings")
                });
                loaded.error_at(&path, error.to_string(), hint)
            })?;
        Ok(Self { name, parameters, traits })
    }

    fn make(&self) -> Result<Box<dyn Environment>> {
        Ok(accredit_environments::make(&self.name, &self.parameters)?)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let fits = text.parse().ok().filter(|seconds| (1e-3..=1e9).contains(seconds));
    fits.map(Duration::from_secs_f64).ok_or_else(|| "a time is a number of seconds from 0.001 to 1e9".to_owned())
}

impl Which {
    /// The environment's name and settings as they were given, before the environment has looked at them.
    fn load(&self) -> Result<(Loaded, String, Parameters)> {
        let sets = self.sets.iter().map(|set| format!("environment.{set}"));
        let loaded = if Path::new(&self.environment).extension().is_some_and(|extension| extension == "toml") {
            Loaded::read(&[PathBuf::from(&self.environment)], &sets.collect::<Vec<_>>())?
        } else {
            let name = format!("environment.name={}", json!(self.environment));
            Loaded::read(&[], &std::iter::once(name).chain(sets).collect::<Vec<_>>())?
        };
        let Some(environment) = loaded.config.environment.clone() else {
            return Err(loaded.error_at("environment", "there is no environment to play in", None).into());
        };
        Ok((loaded, environment.name, environment.parameters))
    }

    fn read(&self) -> Result<Setting> {
        let (loaded, name, parameters) = self.load()?;
        Setting::check(&loaded, name, parameters)
    }
}

impl Env {
    pub fn run(self) -> Result<()> {
        match self {
            Self::List => list(),
            Self::Describe { which, seed } => describe(&which, seed),
            Self::Play { which, seed } => play(&which, seed),
            Self::Rollout(rollout) => rollout.run(),
            Self::Bench { which, seconds } => bench(&which, seconds),
        }
    }
}

fn list() -> Result<()> {
    let names = accredit_environments::names();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for name in names {
        text.push_str(&format!("{name:<width$}  {}\n", accredit_environments::summary(name)?));
    }
    print(&text)
}

fn describe(which: &Which, seed: u64) -> Result<()> {
    let (loaded, name, parameters) = which.load()?;
    let setting = Setting::check(&loaded, name.clone(), parameters.clone());
    // The settings are shown even where they do not fit yet: that is where they are looked up.
    let Ok(schema) = accredit_environments::schema(&name) else { return setting.map(drop) };
    let mut text = format!("{name}: {}\n", accredit_environments::summary(&name)?);
    if let Ok(Setting { traits, .. }) = &setting {
        let given = |there: bool| if there { "yes" } else { "no" };
        let tasks = traits.tasks.map_or_else(|| "one for every seed".to_owned(), |tasks| tasks.to_string());
        text.push_str(&format!(
            "\ntasks: {tasks}; expert: {}; keys of states: {}; known answers: {}\n",
            given(traits.expert),
            given(traits.states),
            given(traits.answers),
        ));
    }
    text.push_str("\nsettings\n");
    text.push_str(&settings::describe(&schema, &parameters));
    print(&text)?;
    let mut environment = setting?.make()?;
    let turn = environment.reset(seed)?;
    let mut text = format!("\nwhat the agent is told\n{}\n\nthe task of seed {seed}\n", environment.instructions());
    let task = environment.task();
    if !task.text.is_empty() {
        text.push_str(&format!("{}\n", task.text));
    }
    text.push_str(&format!("{}\nactions: {}\n", turn.observation, turn.actions.join(" | ")));
    print(&harmless(&text))
}

/// A text of somebody else for a terminal: control characters, which could move its cursor, as escapes.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            _ if letter.is_control() => shown.extend(letter.escape_debug()),
            _ => shown.push(letter),
        }
    }
    shown
}

/// A line of the player that is no action.
enum Wish {
    Help,
    Expert,
    Quit,
    Act(String),
}

fn play(which: &Which, seed: u64) -> Result<()> {
    let mut environment = which.read()?.make()?;
    let mut turn = environment.reset(seed)?;
    let prompted = io::stdin().is_terminal();
    let task = environment.task().text;
    // Most observations begin with the task.
    let task = if turn.observation.contains(&task) { String::new() } else { format!("{task}\n\n") };
    print(&harmless(&format!(
        "{}\n\nWrite an action, `?` for all actions, `!` for what the expert would do, `q` to leave.\n\n{task}{}\n",
        environment.instructions(),
        turn.observation
    )))?;
    let (mut reward, mut steps) = (0.0, 0);
    let mut input = io::stdin().lock();
    loop {
        if prompted {
            print("> ")?;
            io::stdout().flush()?;
        }
        let Some(line) = line(&mut input)? else { break };
        let action = match wish(&line) {
            Wish::Quit => break,
            Wish::Help => {
                print(&harmless(&actions(&turn)))?;
                continue;
            }
            Wish::Expert => {
                let advice = environment.expert();
                let text = advice.map(|expert| format!("{}\n-> {}\n", expert.think, expert.action));
                print(&harmless(&text.unwrap_or_else(|| "there is no expert here\n".to_owned())))?;
                continue;
            }
            Wish::Act(action) => action,
        };
        let outcome = environment.step(Some(&action), &action)?;
        steps += 1;
        reward += f64::from(outcome.reward);
        let validity = if outcome.valid_action { "" } else { "not a valid action; " };
        let shown =
            format!("{}\n[{validity}reward {}]\n{}\n", outcome.feedback, outcome.reward, outcome.turn.observation);
        print(&harmless(&shown))?;
        if outcome.terminal {
            let end = if outcome.success { "solved" } else { "over" };
            return print(&format!("{end} after {steps} steps, reward {reward:.3}\n"));
        }
        turn = outcome.turn;
    }
    print(&format!("left after {steps} steps, reward {reward:.3}\n"))
}

/// The next line of the input, whatever bytes it holds; none at its end.
fn line(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    let read = input.take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes).context("cannot read the action")?;
    if read as u64 > LONGEST_LINE {
        bail!("an action has at most {} MiB, and this line goes on", LONGEST_LINE >> 20);
    }
    Ok((read > 0).then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

fn wish(line: &str) -> Wish {
    match line.trim() {
        "?" | "" => Wish::Help,
        "!" => Wish::Expert,
        "q" => Wish::Quit,
        action => Wish::Act(action.to_owned()),
    }
}

fn actions(turn: &Turn) -> String {
    if turn.actions.is_empty() {
        return "the environment does not say which actions there are\n".to_owned();
    }
    format!("{}\n", turn.actions.join("\n"))
}

/// An episode that was asked for, and what was played of it.
struct Asked {
    seed: u64,
    copy: u64,
    played: Result<Episode, String>,
}

impl Rollout {
    fn run(self) -> Result<()> {
        let setting = self.which.read()?;
        if self.player == Player::Expert && !setting.traits.expert {
            let supplies = accredit_environments::schema(&setting.name)?["properties"]["supplies"].is_object();
            let other = if supplies { ", or say that it brings one with `--set supplies.expert=true`" } else { "" };
            bail!("this environment has no expert; use `--player random`{other}");
        }
        let mut out = match &self.out {
            Some(path) => {
                Some(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
            }
            None => None,
        };
        let started = Instant::now();
        let mut total = Total::default();
        let mut wanted = (0..self.tasks)
            .flat_map(|task| (0..self.copies).map(move |copy| (task, copy)))
            .map(|(task, copy)| (self.seed.wrapping_add(task), copy));
        let threads = usize::from(self.threads);
        let episodes = usize::try_from(self.tasks * self.copies).unwrap_or(usize::MAX);
        let size = (threads * PER_THREAD).min(episodes);
        let mut pool = Pool::new((0..size).map(|_| setting.make()).collect::<Result<_>>()?, threads)?;
        loop {
            let part: Vec<(u64, u64)> = wanted.by_ref().take(size).collect();
            if part.is_empty() {
                break;
            }
            for episode in self.play(&part, &mut pool, &setting)? {
                total.add(&episode);
                if self.show {
                    print(&harmless(&transcript(&episode)))?;
                }
                if let Some(out) = &mut out {
                    writeln!(out, "{}", record(&episode)).context("cannot write the episodes")?;
                }
            }
        }
        if let Some(mut out) = out {
            out.flush().context("cannot write the episodes")?;
        }
        print(&total.text())?;
        tracing::info!("{:.0} steps per second", total.steps as f64 / started.elapsed().as_secs_f64());
        match total.failure {
            Some(message) => bail!("{} of {} episodes failed; the last: {message}", total.failed, total.episodes),
            None => Ok(()),
        }
    }

    /// Plays a part of the episodes at once. One whose environment breaks is played again, a few times.
    fn play(&self, part: &[(u64, u64)], pool: &mut Pool, setting: &Setting) -> Result<Vec<Asked>> {
        let noise = if self.player == Player::Random { 1.0 } else { self.noise };
        let mut episodes: Vec<Option<Asked>> = part.iter().map(|_| None).collect();
        for attempt in 0..=REPLAYS {
            let left: Vec<usize> = (0..part.len())
                .filter(|index| episodes[*index].as_ref().is_none_or(|episode| episode.played.is_err()))
                .collect();
            let calls = left.iter().map(|index| {
                let (seed, copy) = part[*index];
                let stream = Stream::new(seed, Purpose::Other).with(copy).with(attempt as u64);
                let script = Script { noise, max_steps: self.max_steps as usize, stream };
                (*index, move |environment: &mut dyn Environment| {
                    scripted::play(environment, seed, script, &|think, action| format!("{think}\n{action}"))
                })
            });
            let answers = pool.call_all(calls.collect(), Some(self.timeout_seconds));
            for (index, answer) in left.into_iter().zip(answers) {
                let (seed, copy) = part[index];
                if let Err(failure) = &answer
                    && failure.kind != FailureKind::Error
                {
                    pool.replace(index, setting.make()?)?;
                }
                episodes[index] = Some(Asked { seed, copy, played: answer.map_err(|failure| failure.message) });
            }
        }
        Ok(episodes.into_iter().flatten().collect())
    }
}

/// What came out of all episodes.
#[derive(Default)]
struct Total {
    episodes: u64,
    failed: u64,
    solved: u64,
    steps: u64,
    valid: u64,
    reward: f64,
    /// Why the last episode failed that did.
    failure: Option<String>,
}

impl Total {
    fn add(&mut self, episode: &Asked) {
        self.episodes += 1;
        let turns = match &episode.played {
            Ok(Episode { turns, .. }) => turns,
            Err(message) => {
                self.failed += 1;
                self.failure = Some(message.clone());
                return;
            }
        };
        self.solved += u64::from(turns.last().is_some_and(|turn| turn.outcome.success));
        self.steps += turns.len() as u64;
        self.valid += turns.iter().filter(|turn| turn.outcome.valid_action).count() as u64;
        self.reward += turns.iter().map(|turn| f64::from(turn.outcome.reward)).sum::<f64>();
    }

    fn text(&self) -> String {
        let played = (self.episodes - self.failed).max(1) as f64;
        format!(
            "{} episodes, {} failed: success {:.1}%, reward {:.3}, {:.1} steps, valid actions {:.1}%\n",
            self.episodes,
            self.failed,
            100.0 * self.solved as f64 / played,
            self.reward / played,
            self.steps as f64 / played,
            100.0 * self.valid as f64 / self.steps.max(1) as f64
        )
    }
}

fn transcript(episode: &Asked) -> String {
    let mut text = format!("== seed {}, copy {}\n", episode.seed, episode.copy);
    match &episode.played {
        Err(message) => text.push_str(&format!("failed: {message}\n")),
        Ok(Episode { task, turns }) => {
            if !task.text.is_empty() {
                text.push_str(&format!("{}\n", task.text));
            }
            for turn in turns {
                text.push_str(&format!("{}\n", turn.turn.observation));
                if !turn.think.is_empty() {
                    text.push_str(&format!("   ({})\n", turn.think));
                }
                text.push_str(&format!("-> {}   [reward {}]\n", turn.action, turn.outcome.reward));
            }
            if let Some(last) = turns.last() {
                text.push_str(&format!("{}\n{}\n\n", last.outcome.turn.observation, last.outcome.feedback));
            }
        }
    }
    text
}

/// An episode as a line of a rollout file, with what its player thought beside it.
fn record(episode: &Asked) -> Value {
    let Asked { seed, copy, .. } = episode;
    let (group, trajectory) = (format!("s{seed}"), format!("s{seed}t{copy}"));
    match &episode.played {
        Err(message) => json!({
            "group": group, "trajectory": trajectory, "seed": seed, "status": "failed", "reason": message, "steps": [],
        }),
        Ok(Episode { task, turns }) => {
            let steps: Vec<Value> = turns
                .iter()
                .map(|Scripted { turn, think, action, response, outcome }| {
                    let next = Some(&outcome.turn.state).filter(|_| !outcome.terminal);
                    json!({
                        "observation": turn.observation, "think": think, "response": response, "action": action,
                        "reward": outcome.reward, "terminal": outcome.terminal, "valid_action": outcome.valid_action,
                        "feedback": outcome.feedback, "state": turn.state, "next_state": next,
                    })
                })
                .collect();
            let last = turns.last().map(|turn| &turn.outcome);
            let status = if last.is_some_and(|last| last.terminal) { "completed" } else { "truncated_steps" };
            json!({
                "group": group, "trajectory": trajectory, "seed": seed, "status": status,
                "success": last.is_some_and(|last| last.success), "task": task.text, "answer": task.answer,
                "steps": steps,
            })
        }
    }
}

fn bench(which: &Which, span: Duration) -> Result<()> {
    let setting = which.read()?;
    let started = Instant::now();
    let mut environment = setting.make()?;
    let opened = started.elapsed();
    let mut text = format!("open    {:.1} ms\n", 1e3 * opened.as_secs_f64());

    let (mut resets, started) = (0, Instant::now());
    while started.elapsed() < span {
        environment.reset(resets)?;
        resets += 1;
    }
    let micros = 1e6 * started.elapsed().as_secs_f64() / resets.max(1) as f64;
    text.push_str(&format!("reset   {micros:.1} us, the mean of {resets} tasks\n"));

    for (name, expert) in [("random", false), ("expert", true)] {
        if expert && !setting.traits.expert {
            continue;
        }
        // Only the steps are timed: neither resets nor what the player thinks.
        let (mut steps, mut spent, mut seed) = (0_u64, Duration::ZERO, 0);
        let begun = Instant::now();
        while begun.elapsed() < span {
            let mut turn = environment.reset(seed)?;
            for step in 0..100 {
                let action = if expert {
                    environment.expert().map(|expert| expert.action)
                } else {
                    let draw = Stream::new(seed, Purpose::Other).below(step, turn.actions.len().max(1) as u64);
                    turn.actions.get(draw as usize).cloned()
                };
                let Some(action) = action else { break };
                let started = Instant::now();
                let outcome = environment.step(Some(&action), &action)?;
                spent += started.elapsed();
                steps += 1;
                if outcome.terminal {
                    break;
                }
                turn = outcome.turn;
            }
            seed += 1;
        }
        if steps == 0 {
            text.push_str(&format!("{name}  none: the environment does not say which actions there are\n"));
            continue;
        }
        let rate = steps as f64 / spent.as_secs_f64();
        text.push_str(&format!("{name}  {rate:.0} steps per second, of {steps} steps in {seed} episodes\n"));
    }
    print(&text)
}
