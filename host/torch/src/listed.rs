//! Lists of tokens at each target: the likeliest ones, and the log-probs of given ones, without gradients.

use tch::Tensor;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::head::Head;
use crate::model::Model;
use crate::rows::{self, Row};
use crate::score::{check_temperature, in_passes};

/// The same number of token ids at each target of some rows.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// How many; at least 1.
    pub k: usize,
    /// `k` ids for each target, the targets in the order of the rows.
    pub ids: &'a [u32],
}

impl Listed<'_> {
    /// Refuses another number of ids than `k` for each of `targets` targets, and ids outside the vocabulary.
    pub(crate) fn check(&self, targets: usize, vocabulary: usize) -> Result<()> {
        if self.k == 0 || self.ids.len() != self.k * targets {
            let message = format!("{} ids for {targets} targets with {} each", self.ids.len(), self.k);
            return Err(Error::argument("listed", message));
        }
        match self.ids.iter().find(|id| **id as usize >= vocabulary) {
            Some(id) => Err(Error::argument("listed", format!("id {id} in a vocabulary of {vocabulary}"))),
            None => Ok(()),
        }
    }

    /// The ids as a tensor `[N, k]`.
    pub(crate) fn tensor(&self, device: Device) -> Result<Tensor> {
        let ids: Vec<i64> = self.ids.iter().map(|id| i64::from(*id)).collect();
        Ok(Tensor::f_from_slice(&ids)?.f_view([-1, self.k as i64])?.f_to_device(device.0)?)
    }
}

impl Model {
    /// The `k` likeliest tokens at each target, the likeliest first; `k` ids for each target, in the order of the rows.
    ///
    /// Errors: rows that are not valid, `k` outside 1..=vocabulary.
    pub fn likeliest(&self, rows: &[Row], k: usize, tokens_per_pass: usize) -> Result<Vec<u32>> {
        let shape = self.config().shape();
        rows::check(rows, shape)?;
        if k == 0 || k > shape.vocab_size {
            return Err(Error::argument("k", format!("{k} is outside 1..={}", shape.vocab_size)));
        }
        let _no_grad = tch::no_grad_guard();
        let head = Head::new(self.head(), 1.0, self.dtype())?;
        // Ids are exact in 32-bit floats up to 2^24.
        let [ids] = in_passes(rows, tokens_per_pass, self.trunk(), |batch, _| {
            Ok([head.likeliest(&self.hidden_of_targets(batch)?, k as i64)?])
        })?;
        Ok(ids.into_iter().map(|id| id as u32).collect())
    }

    /// ln p of each listed token, p = softmax(logits / temperature), in the order of the list, without recording
    /// gradients.
    ///
    /// Errors: rows that are not valid, a temperature that is not positive, a list that does not fit the rows.
    pub fn score_listed(
        &self,
        rows: &[Row],
        listed: Listed<'_>,
        temperature: f32,
        tokens_per_pass: usize,
    ) -> Result<Vec<f32>> {
        let shape = self.config().shape();
        rows::check(rows, shape)?;
        check_temperature(temperature)?;
        let starts: Vec<usize> = rows
            .iter()
            .scan(0, |next, row| {
                let start = *next;
                *next += row.targets.len();
                Some(start)
            })
            .collect();
        let targets = rows.iter().map(|row| row.targets.len()).sum();
        listed.check(targets, shape.vocab_size)?;
        let _no_grad = tch::no_grad_guard();
        let head = Head::new(self.head(), f64::from(temperature), self.dtype())?;
        let [logprob] = in_passes(rows, tokens_per_pass, self.trunk(), |batch, pass| {
            let places = pass.iter().map(|row| starts[*row]..starts[*row] + rows[*row].targets.len());
            let ids: Vec<u32> =
                places.flat_map(|range| &listed.ids[range.start * listed.k..range.end * listed.k]).copied().collect();
            let ids = Listed { k: listed.k, ids: &ids }.tensor(self.device())?;
            Ok([head.listed(&self.hidden_of_targets(batch)?, &ids)?])
        })?;
        Ok(logprob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Derivatives;
    use crate::{ModelConfig, Shape, SpecialIds, TrunkGradient, Wanted};

    const VOCABULARY: usize = 13;

    fn model() -> Model {
        let shape = Shape {
            vocab_size: VOCABULARY,
            hidden_size: 16,
            intermediate_size: 24,
            initializer_range: 0.3,
            ..Shape::default()
        };
        let config = ModelConfig::new(shape, SpecialIds::default()).unwrap();
        Model::create(config, 5, Device::CPU).unwrap().with_gradients().unwrap()
    }

    const ROWS: [Row<'static>; 3] = [
        Row { tokens: &[1, 2, 3, 4, 5], targets: &[2, 4] },
        Row { tokens: &[7, 7], targets: &[] },
        Row { tokens: &[9, 8, 7], targets: &[1, 2] },
    ];

    #[test]
    fn the_likeliest_are_the_head_of_the_sorted_distribution() {
        let model = model();
        let all: Vec<u32> = (0..4).flat_map(|_| 0..VOCABULARY as u32).collect();
        let every = model.score_listed(&ROWS, Listed { k: VOCABULARY, ids: &all }, 0.8, 3).unwrap();
        let ids = model.likeliest(&ROWS, 3, 3).unwrap();
        let listed = model.score_listed(&ROWS, Listed { k: 3, ids: &ids }, 0.8, 1000).unwrap();
        for target in 0..4 {
            let row = &every[target * VOCABULARY..(target + 1) * VOCABULARY];
            let total: f32 = row.iter().map(|logprob| logprob.exp()).sum();
            assert!((total - 1.0).abs() < 1e-5, "{total}");
            let mut sorted = row.to_vec();
            sorted.sort_by(|a, b| b.total_cmp(a));
            for (found, expected) in listed[target * 3..].iter().zip(&sorted[..3]) {
                assert!((found - expected).abs() < 1e-5, "{listed:?} {sorted:?}");
            }
        }
    }

    #[test]
    fn a_list_that_does_not_fit_is_refused() {
        let model = model();
        let message = |k, ids: &[u32]| model.score_listed(&ROWS, Listed { k, ids }, 1.0, 0).unwrap_err().to_string();
        assert!(message(2, &[0; 7]).contains("7 ids for 4 targets"));
        assert!(message(1, &[0, 1, 2, 13]).contains("id 13"));
        assert!(model.likeliest(&ROWS, 14, 0).unwrap_err().to_string().contains("1..=13"));
    }

    /// The list is the targets: its derivatives are then those of the log-probs.
    #[test]
    fn the_way_back_from_a_list_is_that_from_the_targets() {
        let by = [0.3, -1.0, 0.5, 2.0];
        let entropy = [0.1, 0.2, -0.4, 0.0];
        for with_entropy in [false, true] {
            let wanted = Wanted { logprob: true, entropy: with_entropy, energy: false };
            let gradient = |through_list: bool| {
                let model = model();
                let ids = [3, 5, 8, 7];
                let listed = Listed { k: 1, ids: &ids };
                let fresh = model.forward_listed(&ROWS, 0.7, wanted, Some(listed)).unwrap();
                for (listed, target) in fresh.listed().iter().zip(fresh.logprob()) {
                    assert!((listed - target).abs() < 1e-6);
                }
                let zeros = [0.0; 4];
                let (logprob, listed) = if through_list { (&zeros, &by) } else { (&by, &zeros) };
                let entropy = with_entropy.then_some(entropy.as_slice());
                let derivatives = Derivatives { logprob, entropy, listed: Some(listed) };
                fresh.backward_with(&derivatives, TrunkGradient::default()).unwrap();
                model.gradient().unwrap()
            };
            let (listed, targets) = (gradient(true), gradient(false));
            assert!(targets.iter().any(|g| g.abs() > 1e-3));
            for (a, b) in listed.iter().zip(&targets) {
                assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
        }
    }
}
