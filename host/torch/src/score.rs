//! Columns of numbers per target token, without gradients.

use crate::error::{Error, Result};
use crate::head::Head;
use crate::model::{Model, Trunk};
use crate::rows::{self, Batch, Row};

/// Which columns to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// ln p of the target, p = softmax(logits / temperature).
    pub logprob: bool,
    /// -Σ p ln p, in nats.
    pub entropy: bool,
    /// -ln Σ exp(logits): the raw logits, without temperature.
    pub energy: bool,
}

/// Columns over the targets of all rows, in the order of the rows; those that were not wanted are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// ln p of each target.
    pub logprob: Vec<f32>,
    /// Entropy of the distribution that each target was drawn from.
    pub entropy: Vec<f32>,
    /// Free energy of the logits that predict each target.
    pub energy: Vec<f32>,
}

impl Scores {
    pub(crate) fn into_columns(self) -> [Vec<f32>; 3] {
        [self.logprob, self.entropy, self.energy]
    }

    pub(crate) fn of_columns([logprob, entropy, energy]: [Vec<f32>; 3]) -> Self {
        Self { logprob, entropy, energy }
    }
}

impl Model {
    /// The wanted columns of all targets, in the order of the rows, without recording gradients.
    ///
    /// Rows of similar lengths share a pass of at most `tokens_per_pass` tokens; what a row's numbers are depends on
    /// that in their last bits. Errors: rows that are not valid, a temperature that is not positive.
    pub fn score(&self, rows: &[Row], wanted: Wanted, temperature: f32, tokens_per_pass: usize) -> Result<Scores> {
        rows::check(rows, self.config().shape())?;
        check_temperature(temperature)?;
        let _no_grad = tch::no_grad_guard();
        let head = Head::new(self.head(), f64::from(temperature), self.dtype())?;
        let columns = in_passes(rows, tokens_per_pass, self.trunk(), |batch, _| {
            Ok(head.columns(&self.hidden_of_targets(batch)?, &batch.targets, wanted)?.into_columns())
        })?;
        Ok(Scores::of_columns(columns))
    }
}

/// Columns over the targets of all rows, in the order of the rows, from what `columns` gives for each pass in the order
/// of its rows, which it is told. A column that it leaves empty is empty; one may have several numbers for each target.
pub(crate) fn in_passes<const COLUMNS: usize>(
    rows: &[Row],
    tokens_per_pass: usize,
    trunk: &Trunk,
    mut columns: impl FnMut(&Batch, &[usize]) -> Result<[Vec<f32>; COLUMNS]>,
) -> Result<[Vec<f32>; COLUMNS]> {
    let mut starts = Vec::with_capacity(rows.len());
    let mut total = 0;
    for row in rows {
        starts.push(total);
        total += row.targets.len();
    }
    let mut all = [const { Vec::new() }; COLUMNS];
    let lengths: Vec<usize> = rows.iter().map(Row::input_len).collect();
    for pass in rows::passes(&lengths, tokens_per_pass) {
        let batch = trunk.batch(pass.iter().map(|row| rows[*row]))?;
        let targets: usize = pass.iter().map(|row| rows[*row].targets.len()).sum();
        for (column, part) in all.iter_mut().zip(columns(&batch, &pass)?) {
            if part.is_empty() {
                continue;
            }
            let width = part.len() / targets;
            column.resize(total * width, 0.0);
            let mut read = 0;
            for row in &pass {
                let (start, count) = (starts[*row] * width, rows[*row].targets.len() * width);
                column[start..start + count].copy_from_slice(&part[read..read + count]);
                read += count;
            }
        }
    }
    Ok(all)
}

pub(crate) fn check_temperature(temperature: f32) -> Result<()> {
    if temperature.is_finite() && temperature > 0.0 {
        return Ok(());
    }
    Err(Error::argument("temperature", format!("{temperature} must be positive")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    const ALL: Wanted = Wanted { logprob: true, entropy: true, energy: true };

    #[test]
    fn columns_come_in_the_order_of_the_rows_however_they_are_passed() {
        let model = model(true);
        let tokens: Vec<Vec<u32>> =
            (0..6).map(|row| (0..4 + 3 * (row % 4)).map(|i| (7 * row + 5 * i) % 23).collect()).collect();
        let targets: Vec<Vec<u32>> = tokens.iter().map(|t| (1..t.len() as u32).step_by(2).collect()).collect();
        let mut rows: Vec<Row> = tokens.iter().zip(&targets).map(|(t, g)| Row { tokens: t, targets: g }).collect();
        rows.insert(2, Row { tokens: &tokens[0], targets: &[] });
        let one_by_one: Vec<Scores> = rows.iter().map(|row| model.score(&[*row], ALL, 0.8, 0).unwrap()).collect();
        for tokens_per_pass in [0, 20, 1000] {
            let scores = model.score(&rows, ALL, 0.8, tokens_per_pass).unwrap();
            let check = |got: &[f32], expected: Vec<f32>| {
                assert_eq!(got.len(), expected.len());
                for (a, b) in got.iter().zip(&expected) {
                    assert!((a - b).abs() < 1e-5, "{a} {b}");
                }
            };
            check(&scores.logprob, one_by_one.iter().flat_map(|s| s.logprob.clone()).collect());
            check(&scores.entropy, one_by_one.iter().flat_map(|s| s.entropy.clone()).collect());
            check(&scores.energy, one_by_one.iter().flat_map(|s| s.energy.clone()).collect());
        }
    }

    #[test]
    fn what_is_not_wanted_is_empty_and_no_rows_give_no_numbers() {
        let model = model(true);
        let row = Row { tokens: &[1, 2, 3], targets: &[1, 2] };
        let only = model.score(&[row], Wanted { energy: true, ..Wanted::default() }, 1.0, 100).unwrap();
        assert_eq!((only.logprob.len(), only.entropy.len(), only.energy.len()), (0, 0, 2));
        assert_eq!(model.score(&[], ALL, 1.0, 100).unwrap(), Scores::default());
    }

    #[test]
    fn a_temperature_must_be_positive() {
        for temperature in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(matches!(
                model(true).score(&[], ALL, temperature, 1),
                Err(Error::Argument { name: "temperature", .. })
            ));
        }
    }
}
