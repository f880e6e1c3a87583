//! Running what a study still lacks: each run is a process of this program, so that a crash loses one run and runs stand
//! side by side.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::Study;
use crate::{
    checkpoint::{self, Checkpoint},
    config::Loaded,
    run::stop,
    telemetry::{Progress, RunFolder, metrics},
};

/// Name of the runs that make the policies, before their seed.
pub const START: &str = "start";
/// How often the runs are looked at.
const POLL: Duration = Duration::from_millis(200);
/// Lines of a failed run's output that are shown.
const SHOWN: usize = 12;

/// A run of a study.
struct Job {
    name: String,
    loaded: Loaded,
    arguments: Vec<String>,
    folder: RunFolder,
}

/// Runs all runs that are not done, `side_by_side` at a time.
pub fn run(study: &Study, side_by_side: Option<usize>, plugin_path: &[PathBuf]) -> Result<()> {
    let starts = study.starts()?;
    let policies: Vec<Option<PathBuf>> =
        study.seeds.iter().enumerate().map(|(index, _)| starts.get(index).map(Job::policy)).collect();
    // Seed by seed, so that a study that was stopped has compared all arms on some seeds.
    let mut jobs = Vec::new();
    for (seed, policy) in study.seeds.iter().zip(&policies) {
        for (index, arm) in study.arms.iter().enumerate() {
            let name = run_name(&arm.name, *seed);
            jobs.push(study.job(&format!("arm[{index}]"), &arm.config, &arm.sets, name, *seed, policy.as_deref())?);
        }
    }
    for job in starts.iter().chain(&jobs) {
        job.check()?;
    }
    fs::create_dir_all(study.path()).with_context(|| format!("cannot make {}", study.path().display()))?;
    play_all(starts, side_by_side, plugin_path, Job::has_policy)?;
    if !stop::asked() {
        play_all(jobs, side_by_side, plugin_path, Job::is_done)?;
    }
    Ok(())
}

/// The name of an arm's run with a seed.
pub fn run_name(arm: &str, seed: u64) -> String {
    format!("{arm}-s{seed}")
}

impl Study {
    /// The runs that make the policies, one for each seed; none where each run makes its own.
    fn starts(&self) -> Result<Vec<Job>> {
        let Some(start) = &self.start else { return Ok(Vec::new()) };
        let job = |seed: &u64| {
            // The policy is needed as it was before the first iteration, which has to be there nevertheless.
            let sets: Vec<String> = start
                .sets
                .iter()
                .cloned()
                .chain(["iterations=1".to_owned(), "evaluation.every=0".to_owned()])
                .collect();
            self.job("start", &start.config, &sets, run_name(START, *seed), *seed, None)
        };
        self.seeds.iter().map(job).collect()
    }

    fn job(
        &self,
        whose: &str,
        config: &Path,
        sets: &[String],
        name: String,
        seed: u64,
        policy: Option<&Path>,
    ) -> Result<Job> {
        let mut loaded = self.load(whose, config, sets, &name, seed)?;
        let mut arguments = vec!["train".to_owned(), config.display().to_string()];
        let own = self.own_sets(&name, seed);
        for set in self.sets.iter().chain(sets).chain(&own) {
            arguments.extend(["--set".to_owned(), set.clone()]);
        }
        if let Some(policy) = policy {
            loaded = loaded.with_policy(policy)?;
            arguments.extend(["--from".to_owned(), policy.display().to_string()]);
        }
        loaded.for_training()?;
        Ok(Job { folder: RunFolder::at(&self.path().join(&name)), name, loaded, arguments })
    }
}

impl Job {
    /// Refuses a run that was made with other settings under this name.
    fn check(&self) -> Result<()> {
        let Ok(text) = fs::read_to_string(self.folder.config()) else { return Ok(()) };
        let keys = self.loaded.differences(&text)?;
        if keys.is_empty() {
            return Ok(());
        }
        bail!(
            "{} was made with other settings of {}; give the study another `name`, or remove the run",
            self.folder.path().display(),
            keys.join(", ")
        );
    }

    /// Iterations that are written down.
    fn iterations_done(&self) -> u64 {
        metrics::read(&self.folder.metrics()).map_or(0, |lines| lines.len() as u64)
    }

    fn is_done(&self) -> bool {
        self.iterations_done() >= self.loaded.config.iterations
    }

    /// The folder of the policy before the first iteration.
    fn policy(&self) -> PathBuf {
        checkpoint::model_of(&self.folder.checkpoints(), 0)
    }

    fn has_policy(&self) -> bool {
        self.policy().is_dir() && self.is_done()
    }

    /// Starts the run, or goes on with it.
    fn start(&self, plugin_path: &[PathBuf]) -> Result<Child> {
        let mut arguments = self.arguments.clone();
        if self.folder.path().exists() {
            if Checkpoint::latest(&self.folder.checkpoints()).is_ok() {
                arguments = vec!["resume".to_owned(), self.folder.path().display().to_string()];
            } else {
                // Killed while it was set up: there is nothing to go on from.
                self.folder.remove()?;
            }
        }
        for folder in plugin_path {
            arguments.extend(["--plugin-path".to_owned(), folder.display().to_string()]);
        }
        let output =
            File::create(self.output()).with_context(|| format!("cannot write {}", self.output().display()))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C reaches the study alone, which passes it on once.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start the run {}", self.name))
    }

    /// What the run prints.
    fn output(&self) -> PathBuf {
        self.folder.path().with_extension("out")
    }
}

/// Runs what is not done. A run that fails is reported at the end, after the others.
fn play_all(
    jobs: Vec<Job>,
    side_by_side: Option<usize>,
    plugin_path: &[PathBuf],
    done: fn(&Job) -> bool,
) -> Result<()> {
    let side_by_side = side_by_side.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = jobs.iter().map(|job| job.loaded.config.run.threads).max().unwrap_or(1);
        (cores / threads).max(1)
    });
    let iterations: u64 = jobs.iter().map(|job| job.loaded.config.iterations).sum();
    let mut before: u64 = jobs.iter().filter(|job| done(job)).map(|job| job.loaded.config.iterations).sum();
    let mut waiting: Vec<Job> = jobs.into_iter().filter(|job| !done(job)).rev().collect();
    if waiting.is_empty() {
        return Ok(());
    }
    let mut progress = Progress::new("study", before, iterations);
    progress.say(&format!("{} runs to do, {side_by_side} at a time", waiting.len()));
    let mut running: Vec<(Job, Child)> = Vec::new();
    let mut failed: Vec<Job> = Vec::new();
    let mut told = false;
    while !running.is_empty() || !(waiting.is_empty() || stop::asked()) {
        while running.len() < side_by_side && !stop::asked() {
            let Some(job) = waiting.pop() else { break };
            let child = job.start(plugin_path)?;
            running.push((job, child));
        }
        if stop::asked() && !told {
            told = true;
            for (_, child) in &running {
                // One that has just ended needs no signal.
                let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
            }
        }
        std::thread::sleep(POLL);
        let mut still = Vec::new();
        for (job, mut child) in running {
            match child.try_wait().with_context(|| format!("cannot wait for {}", job.name))? {
                None => still.push((job, child)),
                Some(status) if status.success() && (told || done(&job)) => {
                    before += job.iterations_done();
                    let how = if done(&job) { "done" } else { "stopped, and can go on" };
                    progress.say(&format!("{} is {how}", job.name));
                }
                Some(_) => {
                    progress.say(&format!("{} failed; see {}", job.name, job.output().display()));
                    failed.push(job);
                }
            }
        }
        running = still;
        let now: u64 = running.iter().map(|(job, _)| job.iterations_done()).sum();
        let names: Vec<&str> = running.iter().map(|(job, _)| job.name.as_str()).collect();
        progress.at(before + now, &names.join(", "));
    }
    progress.finish();
    let Some(job) = failed.first() else { return Ok(()) };
    let text = fs::read_to_string(job.output()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let names: Vec<&str> = failed.iter().map(|job| job.name.as_str()).collect();
    bail!(
        "{} of the runs failed: {}; the end of {}:\n{}",
        failed.len(),
        names.join(", "),
        job.output().display(),
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    );
}
