//! The plan: schemes loaded, and what they ask for held against what the run can give. What cannot work is refused
//! here, with the configuration's line, and not at iteration 400.

mod critic;

use std::{collections::BTreeSet, path::PathBuf};

use accredit_plugin_api::{
    Hook,
    columns::{
        ADVANTAGE, ALL, ALL_TEXTS, ANSWER, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, DECISION, ENTROPY, LOSS,
        NEW_ENTROPY, NEW_LOGPROB, NEXT_STATE, OLD_LOGPROB, PART_ROWS, PART_STEPS, PART_TOKENS, REF_ENERGY, REF_LOGPROB,
        ROW_TOKENS, ROW_WEIGHT, SAMPLE_MORE, SAMPLER_LOGPROB, STATE, STATE_TEXT, TEACHER_LOGPROB,
        TEACHER_TOP_K_LOGPROB, TOP_K_ID, TOTAL_ROWS, TOTAL_STEPS, TOTAL_TOKENS, TOTAL_TRAJECTORIES, TOTAL_WEIGHT,
        TRAJECTORY_ROWS, TRAJECTORY_TOKENS, TRAJECTORY_WEIGHT, VALUE, VALUE_TARGET, WEIGHT,
    },
};

use super::pipeline::{Pipeline, Stage};
use crate::{
    config::{ConfigError, Loaded, Origin, Parameters, near::nearest},
    judge,
    plugin::{FindError, Library, Scheme, SchemeError, SearchPath, Services},
};

/// What a run can give to its schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supply {
    columns: BTreeSet<&'static str>,
    /// Trajectories in a group, where the configuration decides it.
    group_size: Option<usize>,
}

/// What a run's environment and judge give beside observations and rewards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gives {
    /// Keys of its states.
    pub states: bool,
    /// The known answer of every task.
    pub answers: bool,
    /// What a judge says about every episode.
    pub judgements: bool,
}

impl Supply {
    /// A run that plays: every column that the host computes, and what environment and judge give.
    pub fn playing(gives: Gives, group_size: usize) -> Self {
        let mut columns: BTreeSet<&str> =
            ALL.iter().map(|column| column.name).chain(ALL_TEXTS.iter().map(|text| text.name())).collect();
        // The results of queries are there where a scheme asks.
        for absent in [TEACHER_LOGPROB.name(), TEACHER_TOP_K_LOGPROB.name()] {
            columns.remove(absent);
        }
        if !gives.answers {
            columns.remove(ANSWER.name());
        }
        if !gives.judgements {
            for absent in judge::COLUMNS {
                columns.remove(absent.name());
            }
        }
        if !gives.states {
            for absent in [STATE.name(), NEXT_STATE.name(), STATE_TEXT.name()] {
                columns.remove(absent);
            }
        }
        Self { columns, group_size: Some(group_size) }
    }

    /// Rollouts that were read from a file: their columns are seen when they are read, and query results stand in it.
    pub fn rollouts() -> Self {
        let columns = ALL.iter().map(|column| column.name).chain(ALL_TEXTS.iter().map(|text| text.name())).collect();
        Self { columns, group_size: None }
    }

    fn plays(&self) -> bool {
        self.group_size.is_some()
    }

    fn gives(&self, name: &str) -> bool {
        self.columns.contains(name)
            // A column that this api does not name may come with a rollout file.
            || (!self.plays() && !ALL.iter().any(|column| column.name == name))
    }
}

/// Columns that the host hands to some hooks beside the batch. A column of `refresh` or `objective` alone is none for a
/// scheme that has no such hook.
pub(super) fn given_to_hooks(name: &str, fresh: bool) -> bool {
    let always = [
        ADVANTAGE.name(),
        WEIGHT.name(),
        VALUE_TARGET.name(),
        TOTAL_TOKENS.name(),
        TOTAL_WEIGHT.name(),
        TOTAL_STEPS.name(),
        TOTAL_ROWS.name(),
        TOTAL_TRAJECTORIES.name(),
        ROW_TOKENS.name(),
        ROW_WEIGHT.name(),
        TRAJECTORY_TOKENS.name(),
        TRAJECTORY_WEIGHT.name(),
        TRAJECTORY_ROWS.name(),
        PART_TOKENS.name(),
        PART_STEPS.name(),
        PART_ROWS.name(),
    ];
    always.contains(&name) || (fresh && name == NEW_LOGPROB.name())
}

/// The columns of tokens that a model must compute for these schemes.
#[expect(clippy::struct_excessive_bools, reason = "a set of columns, each there or not")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Log-probabilities under the policy before the update; always there in training.
    pub old_logprob: bool,
    /// Entropies under the policy before the update.
    pub entropy: bool,
    /// Log-probabilities under the reference.
    pub ref_logprob: bool,
    /// Energies under the reference.
    pub ref_energy: bool,
    /// Values before the update.
    pub value: bool,
    /// Entropies in every micro-batch.
    pub new_entropy: bool,
    /// How many of the likeliest tokens are listed at each place; 0 is none.
    pub top_k: usize,
    /// Whether there is a critic.
    pub critic: bool,
}

impl Signals {
    /// What the schemes of a pipeline read.
    pub fn of(pipeline: &Pipeline) -> Self {
        let reads = |name: &str| pipeline.schemes().any(|scheme| scheme.reads(name));
        Self {
            old_logprob: true,
            entropy: reads(ENTROPY.name()),
            ref_logprob: reads(REF_LOGPROB.name()),
            ref_energy: reads(REF_ENERGY.name()),
            value: pipeline.needs_critic() && reads(VALUE.name()),
            critic: pipeline.needs_critic(),
            new_entropy: pipeline.reads_fresh(NEW_ENTROPY.name()),
            top_k: pipeline.schemes().map(|scheme| scheme.needs().top_k as usize).max().unwrap_or(0),
        }
    }

    /// Whether a frozen reference model is needed.
    pub fn reference(self) -> bool {
        self.ref_logprob || self.ref_energy
    }

    /// Names of what is computed once an iteration.
    pub fn names(self) -> Vec<&'static str> {
        [
            (true, SAMPLER_LOGPROB.name()),
            (self.old_logprob, OLD_LOGPROB.name()),
            (self.entropy, ENTROPY.name()),
            (self.ref_logprob, REF_LOGPROB.name()),
            (self.ref_energy, REF_ENERGY.name()),
            (self.value, VALUE.name()),
            (self.top_k > 0, TOP_K_ID.name()),
        ]
        .into_iter()
        .filter_map(|(wanted, name)| wanted.then_some(name))
        .collect()
    }
}

/// Loads the schemes of a configuration and refuses what cannot work. `base` is the folder that relative plugin files
/// are looked up in where the configuration does not say.
pub fn load(
    loaded: &Loaded,
    search: &SearchPath,
    supply: &Supply,
    services: Services,
) -> Result<Pipeline, ConfigError> {
    let mut pipeline = Pipeline::default();
    for (index, entry) in loaded.config.credit.iter().enumerate() {
        let path = format!("credit[{index}]");
        let scheme = open(
            loaded,
            search,
            &path,
            &entry.plugin,
            entry.label(),
            entry.sha256.as_deref(),
            &entry.params,
            services,
        )?;
        let hooks = &scheme.needs().hooks;
        let objective = hooks.contains(&Hook::Objective);
        if hooks.iter().all(|hook| *hook == Hook::Objective || (objective && *hook == Hook::Queries)) {
            let message = format!("`{}` is an objective, and gives no credit", scheme.name());
            return Err(loaded.error_at(
                &format!("{path}.plugin"),
                message,
                Some("name it in `[objective]`".to_owned()),
            ));
        }
        pipeline.stages.push(Stage {
            scheme,
            mix: entry.mix,
            shadow: entry.shadow,
            from: entry.from,
            until: entry.until,
        });
    }
    let objective = &loaded.config.objective;
    let scheme = open(
        loaded,
        search,
        "objective",
        &objective.plugin,
        "objective",
        objective.sha256.as_deref(),
        &objective.params,
        services,
    )?;
    if !scheme.needs().hooks.contains(&Hook::Objective) {
        let message = format!("`{}` is no objective: it has no such hook", scheme.name());
        return Err(loaded.error_at("objective.plugin", message, Some("name it in `[[credit]]`".to_owned())));
    }
    pipeline.objective = Some(scheme);
    let announced = pipeline.announced();
    for (index, stage) in pipeline.stages.iter().enumerate() {
        check_needs(loaded, &format!("credit[{index}].plugin"), &stage.scheme, supply, &announced)?;
    }
    if let Some(scheme) = &pipeline.objective {
        check_needs(loaded, "objective.plugin", scheme, supply, &announced)?;
    }
    check_together(loaded, &pipeline, supply)?;
    if supply.plays() {
        critic::check(loaded, &pipeline)?;
    }
    Ok(pipeline)
}

#[expect(clippy::too_many_arguments, reason = "the keys of an entry, which two kinds of table share")]
fn open(
    loaded: &Loaded,
    search: &SearchPath,
    path: &str,
    plugin: &str,
    label: &str,
    sha256: Option<&str>,
    params: &Parameters,
    services: Services,
) -> Result<Scheme, ConfigError> {
    let base = match loaded.origin(&format!("{path}.plugin")) {
        Origin::File { file, .. } => file.parent().map(PathBuf::from).unwrap_or_default(),
        _ => PathBuf::new(),
    };
    let (library, name): (Library, String) = search
        .open(plugin, &base, sha256)
        .map_err(|error: FindError| loaded.error_at(&format!("{path}.plugin"), error.to_string(), None))?;
    let params = serde_json::Value::Object(params.clone().into_iter().collect());
    Scheme::build(&library, &name, label, &params, services).map_err(|error: SchemeError| match error.parameter() {
        Some((key, message)) if !key.is_empty() => {
            let hint = nearest_param(&library, &name, key);
            loaded.error_at(&format!("{path}.params.{key}"), message, hint)
        }
        Some((_, message)) => loaded.error_at(&format!("{path}.plugin"), message, None),
        None => loaded.error_at(&format!("{path}.plugin"), error.to_string(), None),
    })
}

/// The parameter that somebody who wrote an unknown key may have meant.
fn nearest_param(library: &Library, scheme: &str, key: &str) -> Option<String> {
    let schemes = &library.describe().schemes;
    let params = &schemes.iter().find(|s| s.name == scheme)?.params;
    let known = params.get("properties")?.as_object()?;
    if known.contains_key(key) {
        return None;
    }
    let name = nearest(key, known.keys().map(String::as_str))?;
    Some(format!("did you mean `{name}`?"))
}

/// What one scheme needs against what the run gives.
fn check_needs(
    loaded: &Loaded,
    path: &str,
    scheme: &Scheme,
    supply: &Supply,
    announced: &BTreeSet<String>,
) -> Result<(), ConfigError> {
    let needs = scheme.needs();
    let name = scheme.name();
    let outputs = [
        LOSS.name(),
        D_LOGPROB.name(),
        D_ENTROPY.name(),
        D_VALUE.name(),
        D_TOP_K_LOGPROB.name(),
        DECISION.name(),
        SAMPLE_MORE.name(),
    ];
    for read in &needs.reads {
        if outputs.contains(&read.name.as_str()) || !(supply.gives(&read.name) || announced.contains(&read.name)) {
            let message = format!("`{name}` reads `{}`, which nothing in this run supplies", read.name);
            let hint = if read.name == STATE.name() {
                "the environment gives no states; choose one that does, or a scheme that needs none"
            } else if read.name == ANSWER.name() {
                "the environment knows no answers; choose one that does"
            } else if judge::COLUMNS.iter().any(|column| column.name() == read.name) {
                "it is what a judge says: add `[judge]` with a `command`, or with the `url` of a server and a `model`"
            } else if read.name == TEACHER_LOGPROB.name() {
                "it is the result of queries: add a scheme before it that asks"
            } else {
                "the documentation of plugin-api lists the columns"
            };
            return Err(loaded.error_at(path, message, Some(hint.to_owned())));
        }
    }
    if let Some(size) = supply.group_size.filter(|size| *size < needs.group_size as usize) {
        let message = format!(
            "`{name}` compares the trajectories of a group, at least {}, and `rollout.group_size` is {size}",
            needs.group_size
        );
        return Err(loaded.error_at("rollout.group_size", message, None));
    }
    Ok(())
}

/// What the schemes are together: advantages in every iteration, value targets from at most one.
fn check_together(loaded: &Loaded, pipeline: &Pipeline, supply: &Supply) -> Result<(), ConfigError> {
    let mut lists = pipeline.schemes().filter(|scheme| scheme.needs().top_k > 0);
    if let Some(first) = lists.next()
        && let Some(other) = lists.find(|other| other.needs().top_k != first.needs().top_k)
    {
        let message = format!(
            "`{}` lists the {} likeliest tokens and `{}` the {}; a run lists one number",
            first.label(),
            first.needs().top_k,
            other.label(),
            other.needs().top_k
        );
        return Err(loaded.error_at("credit", message, None));
    }
    for iteration in starts(loaded, pipeline) {
        let active = || pipeline.stages.iter().filter(|stage| !stage.shadow && stage.active(iteration));
        let playing = supply.plays() && pipeline.needs_advantages();
        if playing && !active().any(|stage| stage.scheme.needs().hooks.contains(&Hook::Advantage)) {
            let message = format!("from iteration {iteration} on, no scheme that trains gives advantages");
            let hint = "add one that does, such as `[[credit]]` with an estimator, or change `from` and `until`";
            return Err(loaded.error_at("credit", message, Some(hint.to_owned())));
        }
        let targets: Vec<&str> =
            active().filter(|stage| stage.scheme.needs().value_target).map(|stage| stage.scheme.label()).collect();
        if targets.len() > 1 {
            let message = format!("value targets come from one scheme, and {} give them", targets.join(" and "));
            return Err(loaded.error_at("credit", message, None));
        }
    }
    Ok(())
}

/// The iterations from which on another set of schemes is active.
fn starts(loaded: &Loaded, pipeline: &Pipeline) -> Vec<u64> {
    let iterations = loaded.config.iterations.max(1);
    let mut starts: Vec<u64> = vec![0];
    for stage in &pipeline.stages {
        starts.extend(stage.from);
        starts.extend(stage.until);
    }
    starts.retain(|start| *start < iterations);
    starts.sort_unstable();
    starts.dedup();
    starts
}
