//! A run. THE loop is [`Run::train`]: collect, score, credit ([`Run::experience`]), update, evaluate, report, save. Start
//! reading there.

mod changes;
mod policy;
mod start;
pub mod stop;
mod summary;
mod unfinished;
mod warm_start;

pub use policy::{adapter, tokenizer_folder};
pub use start::{Options, evaluate_model, plan_text};
use stop::Phase;
pub use stop::watch_for_stop;
use unfinished::Unfinished;

use std::{fs::File, time::Instant};

use accredit_core::{
    batch::Batch,
    episode::Trajectory,
    rng::{Purpose, Stream},
};
use accredit_plugin_api::{
    Hook,
    columns::{ROUND, ROUND_GROUPS, ROUNDS},
};
use accredit_torch::{Model, Optimizer};
use anyhow::{Context, Result};

use crate::{
    checkpoint::{self, Writer},
    config::{Config, KeepRollouts},
    credit::{Counters, Credit, Pipeline, offline::wanted_texts, plan::Signals},
    critic::Learner,
    judge::{self, Judge, Judged},
    rollout::{
        collect::{Collector, Play, Played},
        file,
        prompt::Prompter,
        tasks::Tasks,
        tokenizer::Tokenizer,
    },
    scoring::{self, Answered, Models, Rows, Scored, Scorers, Teachers},
    telemetry::{Metrics, MetricsFile, Progress, RunFolder, names},
    update::{Learners, Pace, Update},
};

/// A run that is set up: everything that the loop works with.
pub struct Run {
    config: Config,
    /// The same as text, for checkpoints.
    resolved: String,
    folder: RunFolder,
    /// Held while this process works in the folder.
    _lock: File,
    tokenizer: Tokenizer,
    prompter: Prompter,
    collector: Collector,
    /// Plays the held-out tasks, where their environment has other settings.
    evaluator: Option<Collector>,
    tasks: Tasks,
    judge: Option<Judge>,
    policy: Model,
    reference: Option<Model>,
    teachers: Teachers,
    critic: Option<Learner>,
    optimizer: Optimizer,
    pipeline: Pipeline,
    signals: Signals,
    metrics: MetricsFile,
    writer: Writer,
    /// Seconds for which saving held the loop up since the last iteration began.
    saving: f64,
    /// An iteration that is under way, where the run stopped in its middle.
    unfinished: Option<Unfinished>,
    iteration: u64,
    update: u64,
    updates: u64,
}

impl Run {
    /// Plays, credits and updates until the planned iterations are done, or until the user asks to stop.
    pub fn train(&mut self) -> Result<()> {
        let mut progress = Progress::new("train", self.iteration, self.config.iterations);
        progress.say(&self.begins());
        let mut before = Metrics::default();
        if self.iteration == 0 && self.unfinished.is_none() && self.config.evaluation.every > 0 {
            before = self.evaluate()?;
            progress.say(&summary::evaluation(None, &before));
        }
        while self.iteration < self.config.iterations && !stop::asked() {
            self.writer.check()?;
            let mut clock = Clock::new();
            let mut work = match self.unfinished.take() {
                Some(unfinished) => unfinished,
                None => self.experience(std::mem::take(&mut before), &mut clock)?,
            };
            self.update(&mut work)?;
            clock.lap(&mut work.metrics, "update_actor");
            if self.stops_within(&work) {
                clock.total(&mut work.metrics);
                self.unfinished = Some(work);
                break;
            }

            let mut metrics = work.metrics;
            summary::schemes(&mut metrics, &mut self.pipeline);
            summary::update(&mut metrics, &work.update.updated(), self.update);
            self.iteration += 1;
            let evaluated = self.evaluate_if_due(&mut metrics)?;
            clock.lap(&mut metrics, "eval");
            clock.total(&mut metrics);
            summary::rates(&mut metrics);
            self.metrics.write(self.iteration - 1, &metrics)?;
            let line = summary::line(&metrics);
            tracing::info!("iteration {}: {line}", self.iteration);
            progress.step(&line);
            if evaluated {
                let line = summary::evaluation(Some(self.iteration), &metrics);
                tracing::info!("{line}");
                progress.say(&line);
            }
            self.save_if_due(metrics.get(names::EVAL_SUCCESS).filter(|_| evaluated))?;
        }
        progress.finish();
        if self.iteration < self.config.iterations {
            self.save()?;
        }
        self.writer.wait()?;
        progress.say(&self.ends());
        Ok(())
    }

    /// Plays an iteration, scores it and asks the schemes for its credit: all that an update needs.
    fn experience(&mut self, before: Metrics, clock: &mut Clock) -> Result<Unfinished> {
        let mut metrics = before.prefixed(names::BEFORE);
        metrics.put(names::SAVING, std::mem::take(&mut self.saving));
        stop::enter(Phase::Playing);
        let mut rollout = self.collect()?;
        clock.lap(&mut metrics, "gen");
        let judged = self.judge(&mut rollout)?;
        clock.lap(&mut metrics, "judge");
        let (mut batch, rows, scored) = self.score(&rollout.played.episodes, &rollout.roles)?;
        batch.write_back(&mut rollout.played.episodes, &self.signals.names());
        clock.lap(&mut metrics, "score");
        let answered = self.ask(&mut batch, &rollout.played.episodes)?;
        clock.lap(&mut metrics, "query");
        let credit = self.credit(&mut batch)?;
        clock.lap(&mut metrics, "adv");

        summary::rollout(&mut metrics, &rollout.played);
        summary::judge(&mut metrics, judged);
        summary::signals(&mut metrics, scored, &batch);
        summary::queries(&mut metrics, answered);
        summary::credit(&mut metrics, &batch, &credit);
        summary::values(&mut metrics, &batch, &credit);
        self.keep_rollouts(&rollout.played)?;
        let order = Stream::new(self.config.seed, Purpose::Minibatch).with(self.iteration);
        let update = Update::new(&batch, &self.config.update, order);
        Ok(Unfinished::new(batch, rows, credit, update, metrics))
    }

    /// What is said when the loop begins.
    fn begins(&self) -> String {
        let (folder, iterations) = (self.folder.path().display(), self.config.iterations);
        match (self.iteration, &self.unfinished) {
            (0, None) => format!("run folder {folder}"),
            (done, None) => format!("{folder}: going on after iteration {done} of {iterations}"),
            (done, Some(work)) => {
                let (steps, all) = work.update.position();
                format!(
                    "{folder}: going on in iteration {} of {iterations}, after {steps} of its {all} optimiser steps",
                    done + 1
                )
            }
        }
    }

    /// What is said when it ends.
    fn ends(&self) -> String {
        let folder = self.folder.path().display();
        let go_on = format!("go on with `accredit resume {folder}`");
        match &self.unfinished {
            _ if self.iteration == self.config.iterations => format!("done; everything is in {folder}"),
            None => format!("stopped after iteration {}; {go_on}", self.iteration),
            Some(work) => {
                let (steps, all) = work.update.position();
                let (now, rollouts) = (self.iteration + 1, "its rollouts are kept, and none is sampled again");
                format!("stopped in iteration {now}, after {steps} of its {all} optimiser steps; {rollouts}; {go_on}")
            }
        }
    }

    /// Whether the user asked to stop, and ending the iteration would take long.
    fn stops_within(&self, work: &Unfinished) -> bool {
        stop::asked() && (!work.update.is_over() || self.evaluation_due(self.iteration + 1))
    }

    fn counters(&self) -> Counters {
        Counters {
            iteration: self.iteration,
            iterations: self.config.iterations,
            update: self.update,
            updates: self.updates,
        }
    }

    /// Plays the iteration's groups, and more where a scheme asks for them.
    fn collect(&mut self) -> Result<Rollout> {
        let mut rollout = Rollout::default();
        // What a judge says is asked for once it is known which episodes count.
        let mut texts = wanted_texts(&self.pipeline);
        texts.retain(|text| judge::COLUMNS.iter().all(|column| column.name() != text.name()));
        for round in 0..=self.config.rollout.refill_rounds as u64 {
            let plays = self.draw(round)?;
            let noise = Stream::new(self.config.seed, Purpose::Sampling).with(self.iteration).with(round);
            self.collector.set_iteration(self.iteration);
            let sampler = self.policy.sampler()?;
            let limits = start::limits(&self.config, &self.policy);
            let played = self.collector.play(&sampler, &self.tokenizer, &self.prompter, &plays, &limits, noise)?;
            rollout.add(played);
            if !self.pipeline.has(Hook::Select, self.iteration) {
                break;
            }
            let mut batch = Batch::build(&rollout.played.episodes, &[], &texts)?;
            self.counters().put_into(&mut batch);
            batch.put_scalar(ROUND, round);
            batch.put_scalar(ROUNDS, self.config.rollout.refill_rounds as u64 + 1);
            batch.put_scalar(ROUND_GROUPS, self.config.rollout.groups as u64);
            let selected = self.pipeline.select(&batch, rollout.played.episodes.len(), self.iteration)?;
            rollout.roles = selected.roles;
            if !selected.sample_more {
                break;
            }
        }
        Ok(rollout)
    }

    /// The tasks of one round of an iteration.
    fn draw(&mut self, round: u64) -> Result<Vec<Play>> {
        let stream = Stream::new(self.config.seed, Purpose::Task).with(self.iteration).with(round);
        let groups = self.config.rollout.groups as u64;
        let mut plays = Vec::with_capacity(self.config.rollout.groups * self.config.rollout.group_size);
        for group in 0..groups {
            let seed = self.tasks.draw(stream.with(group))?;
            let members = 0..self.config.rollout.group_size as u64;
            plays.extend(members.map(|member| Play { group: round * groups + group, member, seed }));
        }
        Ok(plays)
    }

    /// Asks the judge about the episodes, where a scheme reads what it says.
    fn judge(&self, rollout: &mut Rollout) -> Result<Judged> {
        let columns = judge::wanted(&self.pipeline, self.iteration);
        match &self.judge {
            Some(judge) if !columns.is_empty() => {
                Ok(judge.fill(&mut rollout.played.episodes, &rollout.roles, &columns)?)
            }
            _ => Ok(Judged::default()),
        }
    }

    /// Builds the batch and computes the signals that the schemes read.
    fn score(&self, episodes: &[Trajectory], roles: &[accredit_core::batch::Role]) -> Result<(Batch, Rows, Scored)> {
        let mut batch = Batch::build(episodes, roles, &wanted_texts(&self.pipeline))?;
        self.counters().put_into(&mut batch);
        let rows = Rows::of(&batch, episodes);
        let models = Models {
            policy: &self.policy,
            reference: self.reference.as_ref(),
            critic: self.critic.as_ref().map(Learner::critic),
        };
        let scored = scoring::signals(
            &mut batch,
            &rows,
            models,
            self.signals,
            self.temperature(),
            self.config.update.micro_batch_tokens,
        )?;
        Ok((batch, rows, scored))
    }

    /// Asks the schemes which texts to score, and scores them.
    fn ask(&mut self, batch: &mut Batch, episodes: &[Trajectory]) -> Result<Answered> {
        let announced = self.pipeline.announced();
        if announced.is_empty() {
            return Ok(Answered::default());
        }
        let queries = self.pipeline.queries(batch, self.iteration)?;
        self.teachers.make(&queries, &self.policy)?;
        let scorers = Scorers {
            policy: &self.policy,
            teachers: &self.teachers,
            temperature: self.temperature(),
            tokens_per_pass: self.config.update.micro_batch_tokens,
        };
        Ok(scoring::answer(batch, episodes, &queries, &announced, scorers, &self.tokenizer, &self.prompter)?)
    }

    /// Asks the schemes for the credit of every token.
    fn credit(&mut self, batch: &mut Batch) -> Result<Credit> {
        Ok(self.pipeline.credit(batch, self.iteration)?)
    }

    /// Makes the iteration's optimiser steps; where the user asks to stop, some are left.
    fn update(&mut self, work: &mut Unfinished) -> Result<()> {
        stop::enter(Phase::Updating);
        while !work.update.is_over() && !stop::asked() {
            let (temperature, counters) = (self.temperature(), self.counters());
            let pace = Pace { update: &self.config.update, optimizer: &self.config.optimizer, temperature };
            let learners = Learners {
                policy: &self.policy,
                optimizer: &mut self.optimizer,
                teachers: &mut self.teachers,
                critic: self.critic.as_mut(),
            };
            let batch = (&mut work.batch, &work.rows, &work.credit);
            self.update += work.update.step(learners, &mut self.pipeline, batch, pace, counters)?;
        }
        Ok(())
    }

    /// The temperature of training: that of sampling, or 1 where sampling is greedy.
    fn temperature(&self) -> f32 {
        let temperature = self.config.rollout.temperature as f32;
        if temperature > 0.0 { temperature } else { 1.0 }
    }

    fn evaluation_due(&self, iteration: u64) -> bool {
        let every = self.config.evaluation.every;
        every > 0 && (iteration.is_multiple_of(every) || iteration == self.config.iterations)
    }

    fn evaluate_if_due(&mut self, metrics: &mut Metrics) -> Result<bool> {
        let due = self.evaluation_due(self.iteration);
        if due {
            let evaluation = self.evaluate()?;
            for (name, value) in evaluation.iter() {
                metrics.put(name, value);
            }
        }
        Ok(due)
    }

    /// Plays the held-out tasks once each.
    fn evaluate(&mut self) -> Result<Metrics> {
        stop::enter(Phase::Evaluating);
        start::evaluate(
            &self.config,
            &self.policy,
            &self.tokenizer,
            &self.prompter,
            self.evaluator.as_mut().unwrap_or(&mut self.collector),
            self.tasks.held_out(),
        )
    }

    /// Writes the iteration's rollouts, as many as the configuration says.
    fn keep_rollouts(&self, played: &Played) -> Result<()> {
        let path = self.folder.rollouts_of(self.iteration);
        match self.config.run.rollouts {
            KeepRollouts::All => file::write(&path, &played.episodes)?,
            KeepRollouts::Sample => file::write(&path, &summary::best_and_worst(&played.episodes))?,
            KeepRollouts::None => {}
        }
        Ok(())
    }

    /// Saves what is due after an iteration: a checkpoint, and the policy where its evaluation is the best so far.
    fn save_if_due(&mut self, success: Option<f64>) -> Result<()> {
        let last = self.iteration == self.config.iterations;
        let due = last || self.iteration.is_multiple_of(self.config.checkpoint.every);
        let best = success.filter(|_| self.config.checkpoint.best);
        self.write(due, best.map(|success| checkpoint::Best { iteration: self.iteration, success }))
    }

    /// Writes a checkpoint.
    fn save(&mut self) -> Result<()> {
        self.write(true, None)
    }

    /// Copies what is to be written, and writes it on another thread where the configuration says so.
    fn write(&mut self, checkpoint: bool, best: Option<checkpoint::Best>) -> Result<()> {
        let began = Instant::now();
        if checkpoint || best.is_some() {
            // The best so far is read, and there is one copy of the numbers at a time.
            self.writer.wait()?;
        }
        let best = best.filter(|best| best.is_better(&self.folder.best()));
        if checkpoint || best.is_some() {
            let background = self.config.checkpoint.background;
            let policy = self.policy.snapshot(background)?;
            let numbers = if checkpoint { Some(self.numbers(background)?) } else { None };
            let (folder, keep) = (self.folder.clone(), self.config.checkpoint.keep);
            let write = move || {
                if let Some(best) = best {
                    let kept = best.keep(&folder.best(), &policy, &folder.tokenizer());
                    kept.context("the best policy could not be written")?;
                }
                if let Some(numbers) = numbers {
                    let written =
                        checkpoint::write(&policy, &numbers, &folder.checkpoints(), keep, &folder.tokenizer());
                    written.context("the checkpoint could not be written")?;
                }
                Ok(())
            };
            if background { self.writer.start(write)? } else { write()? }
        }
        self.saving += began.elapsed().as_secs_f64();
        Ok(())
    }

    /// All of a checkpoint but the policy.
    fn numbers(&mut self, copied: bool) -> Result<checkpoint::Numbers> {
        let unfinished = match &mut self.unfinished {
            Some(work) => Some((work.update.position().0, work.put_away(&self.pipeline)?)),
            None => None,
        };
        Ok(checkpoint::Numbers {
            optimizer: self.optimizer.snapshot(copied)?,
            teachers: self.teachers.snapshot(copied)?,
            critic: self.critic.as_ref().map(|critic| critic.snapshot(copied)).transpose()?,
            progress: checkpoint::Progress::of(self.iteration, self.update, &mut self.pipeline)?,
            unfinished,
            config: self.resolved.clone(),
        })
    }
}

/// What an iteration played.
#[derive(Default)]
struct Rollout {
    played: Played,
    roles: Vec<accredit_core::batch::Role>,
}

impl Rollout {
    fn add(&mut self, more: Played) {
        self.played.episodes.extend(more.episodes);
        self.played.sampled_tokens += more.sampled_tokens;
        self.played.cut_responses += more.cut_responses;
        self.played.failed_attempts += more.failed_attempts;
        self.played.overlong.add(more.overlong);
    }
}

/// Measures the parts of an iteration, beside what was measured before it was interrupted.
struct Clock {
    started: Instant,
    lap: Instant,
}

impl Clock {
    fn new() -> Self {
        Self { started: Instant::now(), lap: Instant::now() }
    }

    fn lap(&mut self, metrics: &mut Metrics, part: &str) {
        metrics.add(format!("{}{part}", names::TIMING), self.lap.elapsed().as_secs_f64());
        self.lap = Instant::now();
    }

    fn total(&self, metrics: &mut Metrics) {
        metrics.add(format!("{}step", names::TIMING), self.started.elapsed().as_secs_f64());
    }
}
