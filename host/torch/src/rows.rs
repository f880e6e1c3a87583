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

/// Puts rows of similar lengths together, so that the tokens of each pass are at most `tokens_per_pass`.
///
/// Longest first, a row is never split (one that is longer than the limit goes alone), and rows of length 0 are left
/// out. Returns the indices of the rows of each pass. A function of the lengths alone.
pub fn passes(lengths: &[usize], tokens_per_pass: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).filter(|row| lengths[*row] > 0).collect();
    order.sort_by_key(|row| Reverse(lengths[*row]));
    let mut passes: Vec<Vec<usize>> = Vec::new();
    let mut tokens = 0;
    for row in order {
        tokens += lengths[row];
        match passes.last_mut() {
            Some(pass) if tokens <= tokens_per_pass => pass.push(row),
            _ => {
                tokens = lengths[row];
                passes.push(vec![row]);
            }
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

/// Rows next to each other of which attention makes one operation: padded at the right to the longest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) rows: i64,
    pub(crate) length: i64,
}

/// Cuts rows of these lengths into blocks, each with at most `padding` tokens of padding. A row is always in a block with
/// its neighbours, so rows that lie in the order of their lengths need little.
fn blocks(lengths: &[usize], padding: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut tokens = 0;
    for length in lengths {
        if let Some(block) = blocks.last_mut() {
            let longest = (block.length as usize).max(*length);
            let added = tokens + length;
            if longest * (block.rows as usize + 1) <= added + padding {
                (block.rows, block.length, tokens) = (block.rows + 1, longest as i64, added);
                continue;
            }
        }
        blocks.push(Block { rows: 1, length: *length as i64 });
        tokens = *length;
    }
    blocks
}

/// Rows as tensors: P tokens in a row, blocks of rows one after another, with N targets in all, row by row.
#[derive(Debug)]
pub(crate) struct Batch {
    /// `[P]`. Padding holds id 0; under a causal mask nothing before it sees it.
    pub(crate) ids: Tensor,
    /// `[P]`: where each stands in its row.
    pub(crate) positions: Tensor,
    pub(crate) blocks: Vec<Block>,
    /// `[N]`: index of the token that predicts the target.
    pub(crate) sources: Tensor,
    /// `[N]`: id of the target.
    pub(crate) targets: Tensor,
}

impl Batch {
    /// Rows must be checked, and at least one must have a target. Tokens from the last target on are left out. Up to
    /// `padding` tokens of padding are cheaper than another block.
    pub(crate) fn new<'a>(
        rows: impl ExactSizeIterator<Item = Row<'a>> + Clone,
        padding: usize,
        device: Device,
    ) -> Result<Self> {
        let lengths: Vec<usize> = rows.clone().map(|row| row.input_len()).collect();
        let blocks = blocks(&lengths, padding);
        let places = blocks.iter().flat_map(|block| std::iter::repeat_n(block.length as usize, block.rows as usize));
        let (mut ids, mut positions) = (Vec::new(), Vec::new());
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for (row, place) in rows.zip(places) {
            let start = ids.len();
            ids.extend(row.tokens[..row.input_len()].iter().map(|id| i64::from(*id)));
            ids.resize(start + place, 0);
            positions.extend(0..place as i64);
            sources.extend(row.targets.iter().map(|target| (start + *target as usize - 1) as i64));
            targets.extend(row.targets.iter().map(|target| i64::from(row.tokens[*target as usize])));
        }
        let tensor = |values: &[i64]| Tensor::f_from_slice(values)?.f_to_device(device.0);
        Ok(Self {
            ids: tensor(&ids)?,
            positions: tensor(&positions)?,
            blocks,
            sources: tensor(&sources)?,
            targets: tensor(&targets)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_hold_similar_lengths_within_the_limit() {
        assert_eq!(passes(&[3, 9, 0, 8, 3, 4], 18), [vec![1, 3], vec![5, 0, 4]]);
        assert_eq!(passes(&[3, 9, 0, 8, 3, 4], 20), [vec![1, 3], vec![5, 0, 4]]);
        assert_eq!(passes(&[3, 9, 0, 8, 3, 4], 21), [vec![1, 3, 5], vec![0, 4]]);
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
    fn blocks_hold_neighbours_with_little_padding() {
        let block = |rows, length| Block { rows, length };
        assert_eq!(blocks(&[9, 9, 8, 8, 3], 0), [block(2, 9), block(2, 8), block(1, 3)]);
        assert_eq!(blocks(&[9, 9, 8, 8, 3], 2), [block(4, 9), block(1, 3)]);
        assert_eq!(blocks(&[9, 9, 8, 8, 3], 8), [block(5, 9)]);
        assert_eq!(blocks(&[3, 9], 5), [block(1, 3), block(1, 9)]);
        assert_eq!(blocks(&[3, 9], 6), [block(2, 9)]);
    }

    #[test]
    fn a_batch_pads_within_blocks_and_points_before_each_target() {
        let rows = [
            Row { tokens: &[1, 2, 3, 4], targets: &[1, 2] },
            Row { tokens: &[5, 6, 7, 8], targets: &[3] },
            Row { tokens: &[9, 8], targets: &[1] },
        ];
        let batch = Batch::new(rows.into_iter(), 1, Device::CPU).unwrap();
        let read = |tensor: &Tensor| Vec::<i64>::try_from(tensor).unwrap();
        assert_eq!(batch.blocks, [Block { rows: 2, length: 3 }, Block { rows: 1, length: 1 }]);
        assert_eq!(read(&batch.ids), [1, 2, 0, 5, 6, 7, 9]);
        assert_eq!(read(&batch.positions), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(read(&batch.sources), [0, 1, 5, 6]);
        assert_eq!(read(&batch.targets), [2, 3, 8, 8]);
    }
}
