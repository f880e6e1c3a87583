//! A judge outside the run says in words what was good and bad about episodes. What it says are text columns, which any
//! scheme can read, and stand in rollout files as other texts do.

pub mod question;

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use accredit_core::{
    batch::Role,
    episode::{Status, Trajectory},
};
use accredit_environments::{JudgeSettings, Judges, Question};
use accredit_plugin_api::{
    TextColumn,
    columns::{JUDGEMENT, JUDGEMENT_WITH_SUCCESS},
};
use thiserror::Error;

use crate::{
    config::{self, ConfigError, Loaded},
    credit::Pipeline,
};

/// The columns that a judge fills.
pub const COLUMNS: [TextColumn; 2] = [JUDGEMENT, JUDGEMENT_WITH_SUCCESS];

/// A column's place in an episode.
fn place(column: TextColumn, episode: &mut Trajectory) -> &mut Option<String> {
    if alone(column) { &mut episode.judgement } else { &mut episode.judgement_with_success }
}

/// Whether a column is about an episode without another one beside it.
fn alone(column: TextColumn) -> bool {
    column.name() == JUDGEMENT.name()
}

/// The judge's columns that an active scheme reads.
pub fn wanted(pipeline: &Pipeline, iteration: u64) -> Vec<TextColumn> {
    COLUMNS.into_iter().filter(|column| pipeline.reads(column.name(), iteration)).collect()
}

/// Those of them that no episode of a rollout file has. Some without are no gap: a run asks nothing about episodes that
/// failed or were dropped.
pub fn missing(pipeline: &Pipeline, iteration: u64, episodes: &[Trajectory]) -> Vec<TextColumn> {
    let judged = |episode: &Trajectory, column| {
        if alone(column) { episode.judgement.is_some() } else { episode.judgement_with_success.is_some() }
    };
    let mut columns = wanted(pipeline, iteration);
    columns.retain(|column| !episodes.iter().any(|episode| judged(episode, *column)));
    columns
}

/// Episodes that could not be judged.
#[derive(Debug, Error)]
#[error(
    "{failed} of {asked} questions to the judge failed, more than `judge.max_failed_share` ({share}) allows; the last: \
     {message}"
)]
pub struct TooManyFailed {
    /// Questions that failed.
    failed: usize,
    /// Questions that were asked.
    asked: usize,
    /// The share that is allowed.
    share: f64,
    /// What became of the last one.
    message: String,
}

/// What judging came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Questions that were asked.
    pub asked: usize,
    /// Those of them that have no answer.
    pub failed: usize,
}

/// The judge of a configuration.
pub struct Judge {
    judge: accredit_environments::Judge,
    settings: config::Judge,
}

impl Judge {
    /// The judge of a configuration, if some scheme reads what it says at some time. A program is started here.
    pub fn of(loaded: &Loaded, pipeline: &Pipeline) -> Result<Option<Self>, ConfigError> {
        let reads = |column: &TextColumn| pipeline.schemes().any(|scheme| scheme.reads(column.name()));
        match &loaded.config.judge {
            Some(settings) if COLUMNS.iter().any(reads) => Self::new(loaded, settings).map(Some),
            _ => Ok(None),
        }
    }

    fn new(loaded: &Loaded, settings: &config::Judge) -> Result<Self, ConfigError> {
        let key = match &settings.key_env {
            None => None,
            Some(variable) => Some(std::env::var(variable).map_err(|error| {
                let hint = format!("set it before the run: `export {variable}=...`");
                loaded.error_at("judge.key_env", format!("the variable `{variable}`: {error}"), Some(hint))
            })?),
        };
        let judges = match (&settings.url, &settings.model) {
            (Some(url), Some(model)) => Judges::Chat { url: url.clone(), model: model.clone(), key },
            _ => Judges::Process { command: settings.command.clone() },
        };
        let judge = accredit_environments::Judge::new(JudgeSettings {
            judges,
            settings: settings.settings.clone(),
            workers: settings.workers,
            retries: settings.retries,
            limits: settings.limits.clone(),
        })
        .map_err(|error| {
            let path = error.key.map_or_else(|| "judge".to_owned(), |key| format!("judge.{key}"));
            loaded.error_at(&path, error.message, None)
        })?;
        Ok(Self { judge, settings: settings.clone() })
    }

    /// Fills columns of the episodes that are not dropped, those that failed aside. Where the judge has no answer, and
    /// where there is no successful episode to compare with, the text is empty.
    pub fn fill(
        &self,
        episodes: &mut [Trajectory],
        roles: &[Role],
        columns: &[TextColumn],
    ) -> Result<Judged, TooManyFailed> {
        let takes_part =
            |index: &usize| episodes[*index].status != Status::Failed && roles.get(*index) != Some(&Role::Drop);
        let members: Vec<usize> = (0..episodes.len()).filter(takes_part).collect();
        let mut places = Vec::new();
        let mut questions = Vec::new();
        for column in columns {
            for index in &members {
                let question = if alone(*column) {
                    Some(question::question(&self.settings.prompt, &episodes[*index], None))
                } else {
                    let successful = successful(episodes, &members, *index);
                    let prompt = &self.settings.prompt_with_success;
                    successful.map(|successful| question::question(prompt, &episodes[*index], Some(successful)))
                };
                places.push((*column, *index, question.is_some()));
                questions.extend(question);
            }
        }
        let mut judged = Judged { asked: questions.len(), failed: 0 };
        let mut last_failure = String::new();
        let mut answers = self.ask(&questions).into_iter();
        for (column, index, asked) in places {
            let answer = if asked { answers.next() } else { None };
            let text = match answer {
                Some(Ok(text)) => cut(text.trim(), self.settings.max_characters).to_owned(),
                Some(Err(message)) => {
                    judged.failed += 1;
                    last_failure = message;
                    String::new()
                }
                None => String::new(),
            };
            *place(column, &mut episodes[index]) = Some(text);
        }
        let share = self.settings.max_failed_share;
        if judged.failed as f64 > share * judged.asked as f64 {
            return Err(TooManyFailed { failed: judged.failed, asked: judged.asked, share, message: last_failure });
        }
        if judged.failed > 0 {
            tracing::warn!(
                "{} of {} questions to the judge failed, and what it would have said is left out; the last: {last_failure}",
                judged.failed,
                judged.asked
            );
        }
        Ok(judged)
    }

    /// The answers, in the order of the questions.
    fn ask(&self, questions: &[Question]) -> Vec<Result<String, String>> {
        let next = AtomicUsize::new(0);
        let answers: Vec<Mutex<Result<String, String>>> =
            questions.iter().map(|_| Mutex::new(Err("nobody asked".to_owned()))).collect();
        thread::scope(|scope| {
            for _ in 0..self.settings.workers.min(questions.len()) {
                scope.spawn(|| {
                    while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < questions.len())
                    {
                        *answers[index].lock().unwrap_or_else(PoisonError::into_inner) =
                            self.judge.ask(&questions[index]);
                    }
                });
            }
        });
        answers.into_iter().map(|answer| answer.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// The successful episode that another one of its group is compared with: the fewest steps, then the smallest text. That
/// order, and not the order in which they were played, decides.
fn successful<'a>(episodes: &'a [Trajectory], members: &[usize], of: usize) -> Option<&'a Trajectory> {
    members
        .iter()
        .filter(|index| **index != of)
        .map(|index| &episodes[*index])
        .filter(|episode| episode.group == episodes[of].group && episode.success == Some(true))
        .min_by_key(|episode| (episode.steps.len(), question::steps_in_words(episode)))
}

/// The beginning of a text; 0 characters are all of them.
fn cut(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) if characters > 0 => &text[..end],
        _ => text,
    }
}
