//! An iteration whose update is not done: what was played and credited, and where the update stands. A checkpoint in the
//! middle of an iteration holds it, so that nothing is sampled, scored or credited again.

use std::{fs, path::Path};

use accredit_core::batch::Batch;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    credit::{Credit, Pipeline},
    scoring::Rows,
    telemetry::Metrics,
    update::Update,
};

/// Bytes of the hash that a file begins with.
const HASH: usize = 32;

/// What a scheme pushed: what the run calls it, then name, sum and weight of each metric.
type Pushed = (String, Vec<(String, f64, f64)>);

/// An iteration between credit and its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Unfinished {
    /// All columns that the update reads.
    pub batch: Batch,
    /// The rows as token ids.
    pub rows: Rows,
    /// The credit of every token.
    pub credit: Credit,
    /// The optimiser steps.
    pub update: Update,
    /// Numbers of the iteration so far.
    pub metrics: Metrics,
    /// What schemes pushed so far, by what the run calls them; filled while the iteration is put away.
    schemes: Vec<Pushed>,
}

impl Unfinished {
    /// An iteration that is played and credited.
    pub fn new(batch: Batch, rows: Rows, credit: Credit, update: Update, metrics: Metrics) -> Self {
        Self { batch, rows, credit, update, metrics, schemes: Vec::new() }
    }

    /// The bytes of its file. NaN and every other number come back as they are.
    pub fn put_away(&mut self, pipeline: &Pipeline) -> Result<Vec<u8>> {
        self.schemes = pipeline.schemes().map(|scheme| (scheme.label().to_owned(), scheme.metric_sums())).collect();
        let numbers = postcard::to_stdvec(self).context("the unfinished iteration cannot be written")?;
        let mut bytes = Sha256::digest(&numbers).to_vec();
        bytes.extend(numbers);
        Ok(bytes)
    }

    /// Reads the file of a checkpoint; none if it was made between two iterations.
    pub fn read(file: &Path) -> Result<Option<Self>> {
        if !file.exists() {
            return Ok(None);
        }
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let Some((hash, numbers)) = bytes.split_at_checked(HASH) else {
            bail!("{} breaks off", file.display());
        };
        if *hash != *Sha256::digest(numbers) {
            bail!("{} is damaged: its hash is another one", file.display());
        }
        Ok(Some(postcard::from_bytes(numbers).with_context(|| format!("{} is broken", file.display()))?))
    }

    /// Gives schemes back what they had pushed. What those pushed that are not there any more goes into the numbers of the
    /// iteration.
    pub fn put_back(&mut self, pipeline: &mut Pipeline) {
        for (label, sums) in std::mem::take(&mut self.schemes) {
            if let Some(scheme) = pipeline.schemes_mut().find(|scheme| scheme.label() == label) {
                scheme.put_metric_sums(&sums);
                continue;
            }
            for (name, sum, weight) in sums {
                self.metrics.put(format!("credit/{label}/{name}"), sum / weight);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use accredit_core::episode::{Step, TokenKind, Tokens, Trajectory};

    use super::*;

    fn unfinished() -> Unfinished {
        let tokens = Tokens { kind: vec![TokenKind::Think; 2], token_id: vec![3, 4], ..Tokens::default() };
        let steps = vec![Step { reward: Some(1.0), context: vec![1, 2], tokens, ..Step::default() }];
        let episodes = [Trajectory { group: "g".to_owned(), steps, ..Trajectory::default() }];
        let mut batch = Batch::build(&episodes, &[], &[]).unwrap();
        batch.put_tokens("teacher_logprob", vec![f32::from_bits(0x7fc0_1234), -0.0]);
        let rows = Rows::of(&batch, &episodes);
        let credit = Credit { advantage: vec![0.1, 1e-40], weight: vec![1.0, 0.0], ..Credit::default() };
        let mut metrics = Metrics::default();
        metrics.put("b", 0.1);
        metrics.put("a", f64::NAN);
        Unfinished::new(batch, rows, credit, Update::default(), metrics)
    }

    #[test]
    fn every_number_comes_back_and_a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("unfinished.bin");
        assert!(Unfinished::read(&file).unwrap().is_none());
        let mut before = unfinished();
        let bytes = before.put_away(&Pipeline::default()).unwrap();
        fs::write(&file, &bytes).unwrap();
        let after = Unfinished::read(&file).unwrap().unwrap();
        let bits = |unfinished: &Unfinished| {
            let column = unfinished.batch.table.get("teacher_logprob").and_then(|data| data.as_f32()).unwrap();
            column.iter().map(|number| number.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(&after), bits(&before));
        assert_eq!(bits(&after), [0x7fc0_1234, (-0.0_f32).to_bits()]);
        assert_eq!((after.rows, after.credit, after.metrics), (before.rows, before.credit, before.metrics));
        assert_eq!(after.batch.level("teacher_logprob"), before.batch.level("teacher_logprob"));

        for at in [0, HASH, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            fs::write(&file, damaged).unwrap();
            let error = Unfinished::read(&file).unwrap_err().to_string();
            assert!(error.contains("unfinished.bin is damaged"), "{error}");
        }
        fs::write(&file, &bytes[..5]).unwrap();
        assert!(Unfinished::read(&file).unwrap_err().to_string().contains("breaks off"));
    }
}
