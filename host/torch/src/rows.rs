//! Rows: what the model sees as one sequence, and how rows are put together for one pass over the model.

use std::cmp::Reverse;

use tch::Tensor;

use crate::config::Shape;
use crate::device::Device;
use crate::error::{Error, Result};

/// One sequence with the tokens in it that are to be scored or trained.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The ids.
    pub tokens: &'a [u32],
    /// Ascending indices into `tokens` of the response tokens, each at least 1: the logits at `index - 1` predict it.
    pub targets: &'a [u32],
}

impl Row<'_> {
    /// How many tokens the model has to read: those before the last target.
    pub fn input_len(&self) -> usize {
        self.targets.last().map_or(0, |last| *last as usize)
    }
}

/// Puts rows of similar lengths together, so that `rows * longest length` of each pass is at most `tokens_per_pass`.
///
/// Longest first, a row is never split (one that is longer than the limit goes alone), and rows of length 0 are left
/// out. Returns the indices of the rows of each pass. A function of the lengths alone.
pub fn passes(lengths: &[usize], tokens_per_pass: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).filter(|row| lengths[*row] > 0).collect();
    order.sort_by_key(|row| Reverse(lengths[*row]));
    let mut passes: Vec<Vec<usize>> = Vec::new();
    for row in order {
        match passes.last_mut() {
            Some(pass) if (pass.len() + 1) * lengths[pass[0]] <= tokens_per_pass => pass.push(row),
            _ => passes.push(vec![row]),
        }
    }
    passes
}

/// Refuses ids outside the vocabulary, targets out of place and rows that are too long.
pub(crate) fn check(rows: &[Row], shape: &Shape) -> Result<()> {
    for (index, row) in rows.iter().enumerate() {
        check_tokens(index, row.tokens, shape)?;
        if row.tokens.len() > shape.max_positions {
            let (tokens, max_positions) = (row.tokens.len(), shape.max_positions);
            return Err(Error::TooLong { row: index, tokens, max_positions });
        }
        let mut before = 0;
        for target in row.targets {
            if *target <= before || *target as usize >= row.tokens.len() {
                return Err(Error::Target { row: index, target: *target, tokens: row.tokens.len() });
            }
            before = *target;
        }
    }
    Ok(())
}

pub(crate) fn check_tokens(row: usize, tokens: &[u32], shape: &Shape) -> Result<()> {
    match tokens.iter().position(|id| *id as usize >= shape.vocab_size) {
        Some(position) => Err(Error::Token { row, position, id: tokens[position], vocab_size: shape.vocab_size }),
        None => Ok(()),
    }
}

/// Rows as tensors: B rows, padded at the right to T tokens, with N targets in all, row by row.
#[derive(Debug)]
pub(crate) struct Batch {
    /// `[B, T]`. Padding holds id 0; under a causal mask nothing before it sees it.
    pub(crate) ids: Tensor,
    /// `[N]`: index into the `B * T` positions of the one that predicts the target.
    pub(crate) sources: Tensor,
    /// `[N]`: id of the target.
    pub(crate) targets: Tensor,
}

impl Batch {
    /// Rows must be checked, and at least one must have a target. Tokens from the last target on are left out.
    pub(crate) fn new<'a>(rows: impl ExactSizeIterator<Item = Row<'a>> + Clone, device: Device) -> Result<Self> {
        let length = rows.clone().map(|row| row.input_len()).max().unwrap_or(0);
        let mut ids = vec![0_i64; rows.len() * length];
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        let shape = [rows.len() as i64, length as i64];
        for (index, row) in rows.enumerate() {
            let start = index * length;
            for (id, token) in ids[start..].iter_mut().zip(&row.tokens[..row.input_len()]) {
                *id = i64::from(*token);
            }
            sources.extend(row.targets.iter().map(|target| (start + *target as usize - 1) as i64));
            targets.extend(row.targets.iter().map(|target| i64::from(row.tokens[*target as usize])));
        }
        let tensor = |values: &[i64]| Tensor::f_from_slice(values)?.f_to_device(device.0);
        Ok(Self { ids: tensor(&ids)?.f_view(shape)?, sources: tensor(&sources)?, targets: tensor(&targets)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_hold_similar_lengths_within_the_limit() {
        assert_eq!(passes(&[3, 9, 0, 8, 3, 4], 18), [vec![1, 3], vec![5, 0, 4]]);
        assert_eq!(passes(&[3, 9], 0), [vec![1], vec![0]]);
        assert_eq!(passes(&[0, 0], 10), Vec::<Vec<usize>>::new());
    }

    fn error(tokens: &[u32], targets: &[u32]) -> String {
        let shape = Shape { vocab_size: 10, max_positions: 4, ..Shape::default() };
        let good = Row { tokens: &[1, 2], targets: &[1] };
        check(&[good, Row { tokens, targets }], &shape).unwrap_err().to_string()
    }

    #[test]
    fn bad_rows_are_refused_with_their_place() {
        assert_eq!(error(&[1, 2, 10], &[1]), "row 1, position 2: token id 10 is outside the vocabulary of 10");
        assert_eq!(error(&[1, 2, 3], &[0]), "row 1: target 0 must lie in 1..3 and after the target before it");
        assert_eq!(error(&[1, 2, 3], &[3]), "row 1: target 3 must lie in 1..3 and after the target before it");
        assert_eq!(error(&[1, 2, 3], &[2, 1]), "row 1: target 1 must lie in 1..3 and after the target before it");
        assert_eq!(error(&[1, 2, 3, 4, 5], &[1]), "row 1: 5 tokens, but the model has 4 positions");
    }

    #[test]
    fn a_batch_pads_and_points_before_each_target() {
        let rows = [Row { tokens: &[1, 2, 3, 4], targets: &[1, 2] }, Row { tokens: &[5, 6, 7, 8], targets: &[3] }];
        let batch = Batch::new(rows.into_iter(), Device::CPU).unwrap();
        assert_eq!(Vec::<Vec<i64>>::try_from(&batch.ids).unwrap(), [[1, 2, 0], [5, 6, 7]]);
        assert_eq!(Vec::<i64>::try_from(&batch.sources).unwrap(), [0, 1, 5]);
        assert_eq!(Vec::<i64>::try_from(&batch.targets).unwrap(), [2, 3, 8]);
    }
}
