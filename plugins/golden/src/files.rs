//! The files of a folder with golden numbers: rollouts in `inputs/`, and per algorithm and case what some implementation
//! made of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Results of one algorithm on one case.
#[derive(Debug, Deserialize)]
pub struct GoldenFile {
    schema: String,
    /// The algorithm.
    pub algorithm: String,
    /// The case.
    pub case: String,
    /// The rollouts, as a path in the folder.
    pub input: PathBuf,
    /// Results, each with its settings.
    pub variants: Vec<Variant>,
}

/// The results of one implementation with its settings.
#[derive(Debug, Deserialize)]
pub struct Variant {
    /// Its name.
    #[serde(rename = "variant")]
    pub name: String,
    /// Where it comes from.
    pub provenance: Provenance,
    /// What it was run with.
    pub settings: Map<String, Value>,
    /// How rows are cut: `traj`, a row is a trajectory with the environment's tokens; `step`, a row is a step without
    /// them; `dist`, the input is distributions.
    pub layout: String,
    /// What it was computed in.
    #[serde(default)]
    pub dtype: String,
    /// The numbers by field.
    pub expected: BTreeMap<String, Value>,
}

/// The field that lists rows whose numbers rounding decides.
pub const ROWS_TO_SKIP: &str = "rows_where_f32_rounding_decides";

impl Variant {
    /// Rows that are not compared, because upstream's rounding in 32 bits decides what they are.
    pub fn rows_to_skip(&self) -> Result<BTreeSet<usize>> {
        let Some(rows) = self.expected.get(ROWS_TO_SKIP) else {
            return Ok(BTreeSet::new());
        };
        serde_json::from_value(rows.clone()).with_context(|| format!("{}, {ROWS_TO_SKIP}: {rows}", self.name))
    }
}

/// Where numbers come from.
#[derive(Debug, Deserialize)]
pub struct Provenance {
    /// The function that was run; none where the numbers were made without the authors' code.
    pub function: Option<String>,
}

/// Rollouts.
#[derive(Debug, Deserialize)]
pub struct Input {
    schema: String,
    /// Groups of trajectories from one task.
    pub groups: Vec<InputGroup>,
}

/// Trajectories from one task.
#[derive(Debug, Deserialize)]
pub struct InputGroup {
    /// Its name.
    pub group_id: String,
    /// Its trajectories.
    pub trajectories: Vec<InputTrajectory>,
}

/// One episode.
#[derive(Debug, Deserialize)]
pub struct InputTrajectory {
    /// Its name.
    pub traj_id: String,
    /// A limit ended it.
    pub truncated: bool,
    /// The reward of the whole, which need not be the sum of its steps'.
    pub outcome_reward: f64,
    /// Its steps.
    pub steps: Vec<InputStep>,
}

/// One turn.
#[derive(Debug, Deserialize)]
pub struct InputStep {
    /// The state before the response.
    pub state_key: String,
    /// The state after it; none after the last.
    pub next_state_key: Option<String>,
    /// The step's reward.
    pub reward: f64,
    /// The environment ended the episode.
    pub done: bool,
    /// Its tokens.
    pub tokens: InputTokens,
}

/// The tokens of a turn, the environment's among them.
#[derive(Debug, Deserialize)]
pub struct InputTokens {
    /// What each token is.
    pub kind: Vec<accredit_core::episode::TokenKind>,
    /// Numbers by name.
    #[serde(flatten)]
    pub columns: BTreeMap<String, Vec<f32>>,
}

/// Distributions over a small vocabulary, which stand for no rollouts.
#[derive(Debug, Deserialize)]
pub struct DistributionInput {
    schema: String,
    /// Whether each row has a teacher: 1 or 0.
    pub self_distillation_mask: Vec<u8>,
    /// The rows.
    pub rows: Vec<DistributionRow>,
}

/// Distributions at the places of one row.
#[derive(Debug, Deserialize)]
pub struct DistributionRow {
    /// Raw logits of the policy, one list for each place.
    pub student_logits: Vec<Vec<f64>>,
    /// Raw logits of the teacher.
    pub teacher_logits: Vec<Vec<f64>>,
    /// The sampled tokens.
    pub token_ids: Vec<usize>,
    /// What the policy's log-probability of the sampled token was before the update, minus what it is now.
    pub old_logprob_minus_student_logprob: Vec<f64>,
    /// Whether each place is trained: 1 or 0.
    pub response_mask: Vec<u8>,
}

/// A folder with golden numbers.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A folder that exists.
    pub fn open(path: &Path) -> Result<Self> {
        ensure!(path.is_dir(), "{} is no folder", path.display());
        Ok(Self { path: path.to_owned() })
    }

    /// The golden files of these algorithms, or of all, by algorithm and case.
    pub fn golden_files(&self, algorithms: &[String]) -> Result<Vec<GoldenFile>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).with_context(|| self.path.display().to_string())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let parts: Vec<&str> = name.split('.').collect();
            if let [algorithm, _case, "json"] = parts[..]
                && (algorithms.is_empty() || algorithms.iter().any(|wanted| wanted == algorithm))
            {
                names.push(name);
            }
        }
        names.sort();
        let files = names
            .iter()
            .map(|name| {
                let file: GoldenFile = self.read(Path::new(name))?;
                check_schema(name, &file.schema, "accredit-golden/1")?;
                Ok(file)
            })
            .collect::<Result<Vec<_>>>()?;
        for wanted in algorithms {
            if !files.iter().any(|file| file.algorithm == *wanted) {
                bail!("{} has no file {wanted}.CASE.json", self.path.display());
            }
        }
        ensure!(!files.is_empty(), "{} has no file ALGORITHM.CASE.json", self.path.display());
        Ok(files)
    }

    /// The golden file of an algorithm and a case.
    pub fn golden_file(&self, algorithm: &str, case: &str) -> Result<GoldenFile> {
        self.read(Path::new(&format!("{algorithm}.{case}.json")))
    }

    /// The rollouts of a golden file.
    pub fn input(&self, path: &Path) -> Result<Input> {
        let input: Input = self.read(path)?;
        check_schema(&path.to_string_lossy(), &input.schema, "accredit-rollout/1")?;
        Ok(input)
    }

    /// The distributions of a golden file.
    pub fn distributions(&self, path: &Path) -> Result<DistributionInput> {
        let input: DistributionInput = self.read(path)?;
        check_schema(&path.to_string_lossy(), &input.schema, "accredit-dist/1")?;
        Ok(input)
    }

    fn read<T: DeserializeOwned>(&self, name: &Path) -> Result<T> {
        let path = self.path.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }
}

fn check_schema(name: &str, found: &str, expected: &str) -> Result<()> {
    ensure!(found == expected, "{name}: schema `{found}`, and `{expected}` was expected");
    Ok(())
}
