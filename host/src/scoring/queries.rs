//! Queries: what schemes asked to be scored, as rows of the model, and the answers as token columns.
//!
//! A query's row is the row of its step up to the response, with the added text at the end of the user turn, and then
//! the response or the target. Everything before that user turn is the record, token by token; the turn itself is
//! encoded again, which can join the end of the observation and the beginning of the added text into other tokens.

use std::collections::BTreeSet;

use accredit_core::{
    batch::Batch,
    episode::{Step, Trajectory},
};
use accredit_plugin_api::{
    Query, QueryPolicy,
    columns::{STEP_TOKENS, TEACHER_LOGPROB, TEACHER_TOP_K_LOGPROB, TOP_K_ID},
    host::Data,
};
use accredit_torch::{Listed, Model, Row, Wanted};
use thiserror::Error;

use super::Teachers;
use crate::rollout::{
    prompt::Prompter,
    tokenizer::{Tokenizer, TokenizerError},
};

/// Queries that could not be answered.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] accredit_torch::Error),
    /// A prompt could not be made.
    #[error(transparent)]
    Prompt(#[from] TokenizerError),
    /// Two queries of one step have one column.
    #[error("two queries fill the column `{column}` at {address}: a step can be asked about once in each column")]
    Twice {
        /// The column.
        column: String,
        /// The step.
        address: accredit_core::batch::Address,
    },
}

/// What became of an iteration's queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Queries that were scored.
    pub scored: usize,
    /// Queries whose row is longer than the model can read. Their columns hold NaN, as if they had not been asked.
    pub too_long: usize,
    /// Tokens that were scored, prompts included.
    pub tokens: usize,
}

/// Who scores, and how.
#[derive(Clone, Copy, Debug)]
pub struct Scorers<'a> {
    /// The policy before the update.
    pub policy: &'a Model,
    /// Its copies and averages.
    pub teachers: &'a Teachers,
    /// That of training.
    pub temperature: f32,
    /// The most tokens of a pass.
    pub tokens_per_pass: usize,
}

/// A query's row, and where its result goes.
struct Asked<'a> {
    query: &'a Query,
    tokens: Vec<u32>,
    targets: Vec<u32>,
}

/// Answers queries: each announced column is put into the batch, NaN where nothing was asked.
pub fn answer(
    batch: &mut Batch,
    episodes: &[Trajectory],
    queries: &[Query],
    announced: &BTreeSet<String>,
    scorers: Scorers<'_>,
    tokenizer: &Tokenizer,
    prompter: &Prompter,
) -> Result<Answered, QueryError> {
    let sources = batch.step_sources();
    let limit = scorers.policy.config().shape().max_positions;
    let mut answered = Answered::default();
    let mut asked = Vec::with_capacity(queries.len());
    for query in queries {
        let (episode, step) = sources[query.step];
        let row = row_of(query, &episodes[episode], step, tokenizer, prompter)?;
        if row.tokens.len() > limit {
            answered.too_long += 1;
        } else if !row.targets.is_empty() {
            answered.scored += 1;
            answered.tokens += row.tokens.len();
            asked.push(row);
        }
    }
    let mut columns: Vec<(&str, Vec<f32>)> = announced
        .iter()
        .filter(|name| *name != TEACHER_TOP_K_LOGPROB.name())
        .map(|name| (name.as_str(), vec![f32::NAN; batch.tokens()]))
        .collect();
    let mut policies: Vec<QueryPolicy> = Vec::new();
    for row in &asked {
        if !policies.contains(&row.query.policy) {
            policies.push(row.query.policy);
        }
    }
    let lists = announced.contains(TEACHER_TOP_K_LOGPROB.name()) && batch.top_k() > 0;
    let mut listed = vec![f32::NAN; if lists { batch.top_k() * batch.tokens() } else { 0 }];
    let offsets = batch.offsets(STEP_TOKENS);
    for policy in policies {
        let rows: Vec<&Asked<'_>> = asked.iter().filter(|row| row.query.policy == policy).collect();
        let inputs: Vec<Row<'_>> = rows.iter().map(|row| Row { tokens: &row.tokens, targets: &row.targets }).collect();
        let wanted = Wanted { logprob: true, ..Wanted::default() };
        let model = scorers.teachers.scorer(policy, scorers.policy);
        let scores = model.score(&inputs, wanted, scorers.temperature, scorers.tokens_per_pass)?;
        if lists {
            let taught: Vec<&Asked<'_>> = rows.iter().copied().filter(|row| row.lists()).collect();
            score_lists(batch, &taught, model, scorers, &mut listed)?;
        }
        let mut rest = scores.logprob.as_slice();
        for row in rows {
            let (numbers, after) = rest.split_at(row.targets.len());
            rest = after;
            let Some((_, column)) = columns.iter_mut().find(|(name, _)| *name == row.query.column) else { continue };
            let step = row.query.step;
            let place = &mut column[offsets[step] as usize..offsets[step + 1] as usize];
            if place.iter().any(|number| !number.is_nan()) {
                return Err(QueryError::Twice {
                    column: row.query.column.clone(),
                    address: batch.address_of_step(step),
                });
            }
            if row.query.target.is_some() {
                let sum: f64 = numbers.iter().map(|number| f64::from(*number)).sum();
                place.fill((sum / numbers.len() as f64) as f32);
            } else {
                place.copy_from_slice(numbers);
            }
        }
    }
    for (name, column) in columns {
        batch.put_tokens(name, column);
    }
    if lists {
        batch.put_top_k(TEACHER_TOP_K_LOGPROB, listed);
    }
    Ok(answered)
}

impl Asked<'_> {
    /// Whether the teacher's numbers for the likeliest tokens at each place are wanted too.
    fn lists(&self) -> bool {
        self.query.target.is_none() && self.query.column == TEACHER_LOGPROB.name()
    }
}

/// Scores the likeliest tokens at each place of these rows' responses, and puts the numbers in their places.
fn score_lists(
    batch: &Batch,
    rows: &[&Asked<'_>],
    model: &Model,
    scorers: Scorers<'_>,
    listed: &mut [f32],
) -> Result<(), QueryError> {
    let Some(Data::U32(all)) = batch.table.get(TOP_K_ID.name()) else { return Ok(()) };
    let (k, offsets) = (batch.top_k(), batch.offsets(STEP_TOKENS));
    let places = |row: &Asked<'_>| {
        let step = row.query.step;
        k * offsets[step] as usize..k * offsets[step + 1] as usize
    };
    let inputs: Vec<Row<'_>> = rows.iter().map(|row| Row { tokens: &row.tokens, targets: &row.targets }).collect();
    let ids: Vec<u32> = rows.iter().flat_map(|row| &all[places(row)]).copied().collect();
    let scores = model.score_listed(&inputs, Listed { k, ids: &ids }, scorers.temperature, scorers.tokens_per_pass)?;
    let mut rest = scores.as_slice();
    for row in rows {
        let place = &mut listed[places(row)];
        let (numbers, after) = rest.split_at(place.len());
        place.copy_from_slice(numbers);
        rest = after;
    }
    Ok(())
}

/// The row of one query.
fn row_of<'a>(
    query: &'a Query,
    episode: &Trajectory,
    step: usize,
    tokenizer: &Tokenizer,
    prompter: &Prompter,
) -> Result<Asked<'a>, TokenizerError> {
    let mut tokens = Vec::new();
    // Where the row of the step begins, and what it begins with if that is the middle of the episode.
    let begins = |step: &Step| prompter.step_rows() || step.begins_row;
    let first = episode.steps[..=step].iter().rposition(begins).unwrap_or(0);
    for step in &episode.steps[first..step] {
        tokens.extend(&step.context);
        tokens.extend(&step.tokens.token_id);
    }
    tokens.extend(&episode.steps[step].context[..episode.steps[step].history]);
    let user = format!("{}{}", episode.steps[step].prompt, query.added);
    let ended = |ids: &[u32]| ids.last().copied().filter(|id| tokenizer.stop().contains(id));
    let ended = episode.steps[..step].last().and_then(|step| ended(&step.tokens.token_id));
    tokens.extend(prompter.context(tokenizer, &user, step, ended)?);
    let start = tokens.len() as u32;
    match &query.target {
        None => tokens.extend(&episode.steps[step].tokens.token_id),
        Some(target) => tokens.extend(tokenizer.encode_plain(target)?),
    }
    Ok(Asked { query, targets: (start..tokens.len() as u32).collect(), tokens })
}

#[cfg(test)]
mod tests {
    use accredit_core::episode::{Layout, Step, TokenKind, Tokens};
    use accredit_torch::{Device, ModelConfig, Shape, SpecialIds};

    use super::*;
    use crate::{
        config::{Context, Prompt, Rollout},
        rollout::kinds::Tags,
        scoring::Rows,
    };

    const COLUMN: &str = "teacher_logprob";

    struct Case {
        _folder: tempfile::TempDir,
        tokenizer: Tokenizer,
        prompter: Prompter,
        model: Model,
        episodes: [Trajectory; 1],
    }

    /// An episode of two steps, of which the first response was cut and the second ended itself.
    fn case(context: Context) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let texts = ["go Down now".to_owned()];
        let tokenizer = Tokenizer::create(folder.path(), &texts, &Tags::new("think", "answer").all(), 300).unwrap();
        let config = Rollout { prompt: Prompt::Bare, context, ..Rollout::default() };
        let prompter = Prompter::new(&config, &tokenizer.chat, "Reach G.").unwrap();
        let mut steps: Vec<Step> = Vec::new();
        for (user, ends) in [("P_G", false), ("_PG", true)] {
            let mut response = tokenizer.encode_plain("go Down").unwrap();
            if ends {
                response.push(tokenizer.stop()[0]);
            }
            steps.push(Step {
                reward: Some(0.0),
                prompt: user.to_owned(),
                context: prompter.context(&tokenizer, user, steps.len(), None).unwrap(),
                tokens: Tokens {
                    kind: vec![TokenKind::Think; response.len()],
                    token_id: response,
                    ..Tokens::default()
                },
                ..Step::default()
            });
        }
        let layout = if prompter.step_rows() { Layout::Step } else { Layout::Trajectory };
        let episodes = [Trajectory { layout, group: "g".to_owned(), steps, ..Trajectory::default() }];
        let shape = Shape {
            vocab_size: 300,
            hidden_size: 16,
            intermediate_size: 16,
            initializer_range: 0.3,
            max_positions: 120,
            ..Shape::default()
        };
        let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
        let model = Model::create(config, 5, Device::CPU).unwrap();
        Case { _folder: folder, tokenizer, prompter, model, episodes }
    }

    fn query(step: usize, added: &str, target: Option<&str>) -> Query {
        Query {
            step,
            added: added.to_owned(),
            target: target.map(str::to_owned),
            policy: QueryPolicy::Current,
            column: COLUMN.to_owned(),
        }
    }

    fn ask(case: &Case, queries: &[Query]) -> Result<(Vec<f32>, Answered), QueryError> {
        let mut batch = Batch::build(&case.episodes, &[], &[]).unwrap();
        let scorers =
            Scorers { policy: &case.model, teachers: &Teachers::default(), temperature: 1.0, tokens_per_pass: 0 };
        let announced = BTreeSet::from([COLUMN.to_owned()]);
        let answered =
            answer(&mut batch, &case.episodes, queries, &announced, scorers, &case.tokenizer, &case.prompter)?;
        let column = batch.table.get(COLUMN).and_then(accredit_plugin_api::host::Data::as_f32).unwrap().to_vec();
        Ok((column, answered))
    }

    #[test]
    fn with_nothing_added_a_query_scores_the_row_as_it_was_played() {
        for context in [Context::Concat, Context::Window] {
            let case = case(context);
            let batch = Batch::build(&case.episodes, &[], &[]).unwrap();
            let rows = Rows::of(&batch, &case.episodes);
            let wanted = Wanted { logprob: true, ..Wanted::default() };
            let played = case.model.score(&rows.all(), wanted, 1.0, 0).unwrap().logprob;
            let (column, answered) = ask(&case, &[query(1, "", None), query(0, "", None)]).unwrap();
            assert_eq!(answered.scored, 2);
            for (asked, played) in column.iter().zip(&played) {
                assert!((asked - played).abs() < 1e-5, "{column:?} {played:?}");
            }
        }
    }

    #[test]
    fn a_row_that_begins_in_the_middle_is_asked_about_as_it_was_played() {
        let mut case = case(Context::Concat);
        let steps = &mut case.episodes[0].steps;
        let before = [steps[0].context.as_slice(), &steps[1].tokens.token_id].concat();
        let added = case.prompter.context(&case.tokenizer, "__P", 2, Some(case.tokenizer.stop()[0])).unwrap();
        let third = Step {
            begins_row: true,
            history: before.len(),
            context: [before, added].concat(),
            prompt: "__P".to_owned(),
            ..steps[1].clone()
        };
        steps.push(third);
        let batch = Batch::build(&case.episodes, &[], &[]).unwrap();
        let rows = Rows::of(&batch, &case.episodes);
        assert_eq!(rows.all().len(), 2);
        let wanted = Wanted { logprob: true, ..Wanted::default() };
        let played = case.model.score(&rows.all(), wanted, 1.0, 0).unwrap().logprob;
        let (column, _) = ask(&case, &[query(2, "", None), query(1, "", None), query(0, "", None)]).unwrap();
        for (asked, played) in column.iter().zip(&played) {
            assert!((asked - played).abs() < 1e-5, "{column:?} {played:?}");
        }
    }

    #[test]
    fn what_is_added_changes_the_score_and_what_was_not_asked_is_not_there() {
        let case = case(Context::Concat);
        let (plain, _) = ask(&case, &[query(1, "", None)]).unwrap();
        let (column, _) = ask(&case, &[query(1, "\n\ngo Down is right", None)]).unwrap();
        let first = case.episodes[0].steps[0].tokens.token_id.len();
        assert!(column[..first].iter().all(|number| number.is_nan()));
        assert!(column[first..].iter().all(|number| *number < 0.0));
        assert_ne!(plain[first..], column[first..]);
    }

    #[test]
    fn a_target_has_one_number_for_its_step() {
        let case = case(Context::Concat);
        let (column, _) = ask(&case, &[query(0, "", Some("go Down"))]).unwrap();
        let (response, _) = ask(&case, &[query(0, "", None)]).unwrap();
        let first = case.episodes[0].steps[0].tokens.token_id.len();
        let mean = response[..first].iter().sum::<f32>() / first as f32;
        assert!(column[..first].iter().all(|number| (number - mean).abs() < 1e-5), "{column:?} {mean}");
        assert!(column[first..].iter().all(|number| number.is_nan()));
    }

    #[test]
    fn a_row_that_is_too_long_is_counted_and_a_second_question_refused() {
        let case = case(Context::Concat);
        let (column, answered) = ask(&case, &[query(0, &" go".repeat(200), None)]).unwrap();
        assert_eq!((answered.scored, answered.too_long), (0, 1));
        assert!(column.iter().all(|number| number.is_nan()));
        let error = ask(&case, &[query(0, "", None), query(0, "go", None)]).unwrap_err().to_string();
        assert!(error.contains("teacher_logprob") && error.contains("step 0"), "{error}");
    }
}
