//! A part of a batch: the rows of a minibatch or a micro-batch, with all columns cut to them. Rows are never split.

use accredit_plugin_api::{
    Column, Level,
    columns::{GROUP_TRAJECTORIES, ROW_STEPS, STEP_TOKENS, TRAJECTORY_STEPS},
    host::{Data, Table},
};

use crate::batch::Batch;

/// Some rows of a batch.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The columns, offsets included, cut to the rows. Text columns are left out.
    pub table: Table,
    /// Which of the batch's rows these are, ascending.
    pub rows: Vec<usize>,
    /// Which of the batch's trajectories these are.
    pub trajectories: Vec<usize>,
    /// Which of the batch's tokens these are.
    pub tokens: Vec<usize>,
}

impl Slice {
    /// Cuts a batch to some of its rows. Their order is that of the batch, whatever the order of `rows`.
    pub fn of(batch: &Batch, rows: &[usize]) -> Self {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows.dedup();
        let row_steps = batch.offsets(ROW_STEPS);
        let steps: Vec<usize> =
            rows.iter().flat_map(|row| row_steps[*row] as usize..row_steps[row + 1] as usize).collect();
        let (tokens, step_tokens) = cut(&steps, batch.offsets(STEP_TOKENS));
        let (trajectories, trajectory_steps) = owners(&steps, batch.offsets(TRAJECTORY_STEPS));
        let (groups, group_trajectories) = owners(&trajectories, batch.offsets(GROUP_TRAJECTORIES));
        let mut offset = 0;
        let mut new_row_steps = vec![0];
        for row in &rows {
            offset += row_steps[row + 1] - row_steps[*row];
            new_row_steps.push(offset);
        }

        let k = batch.top_k();
        let likeliest: Vec<usize> = tokens.iter().flat_map(|token| token * k..(token + 1) * k).collect();
        let mut table = Table::default();
        table.put(GROUP_TRAJECTORIES, group_trajectories);
        table.put(TRAJECTORY_STEPS, trajectory_steps);
        table.put(STEP_TOKENS, step_tokens);
        table.put(ROW_STEPS, new_row_steps);
        for (name, data) in batch.table.iter() {
            let is_offsets = [GROUP_TRAJECTORIES, TRAJECTORY_STEPS, STEP_TOKENS, ROW_STEPS]
                .iter()
                .any(|column: &Column<u32>| column.name() == name);
            let is_text = matches!(name.rsplit_once('.'), Some((_, "bytes" | "offsets")));
            let indices = match batch.level(name) {
                _ if is_offsets || is_text => continue,
                Some(Level::Batch) => {
                    table.set(name.to_owned(), data.clone());
                    continue;
                }
                Some(Level::Group) => &groups,
                Some(Level::Trajectory) => &trajectories,
                Some(Level::Step) => &steps,
                Some(Level::Row) => &rows,
                Some(Level::Token) | None => &tokens,
                Some(Level::TopK) => &likeliest,
            };
            table.set(name.to_owned(), data.gather(indices));
        }
        Self { table, rows, trajectories, tokens }
    }

    /// A column of the whole batch, one element for each token, cut to these tokens.
    pub fn gather(&self, column: &[f32]) -> Vec<f32> {
        self.tokens.iter().map(|token| column[*token]).collect()
    }

    /// A column of this slice, by name.
    pub fn column(&self, name: &str) -> Option<&Data> {
        self.table.get(name)
    }
}

/// The elements one level down of some elements, and their offsets.
fn cut(elements: &[usize], offsets: &[u32]) -> (Vec<usize>, Vec<u32>) {
    let (mut below, mut new_offsets) = (Vec::new(), vec![0]);
    for element in elements {
        below.extend(offsets[*element] as usize..offsets[element + 1] as usize);
        new_offsets.push(below.len() as u32);
    }
    (below, new_offsets)
}

/// The elements one level up that own some ascending elements, and the offsets of these in them.
fn owners(elements: &[usize], offsets: &[u32]) -> (Vec<usize>, Vec<u32>) {
    let (mut found, mut new_offsets): (Vec<usize>, Vec<u32>) = (Vec::new(), vec![0]);
    for (count, element) in elements.iter().enumerate() {
        let owner = offsets.partition_point(|offset| *offset as usize <= *element) - 1;
        if found.last() != Some(&owner) {
            found.push(owner);
            if count > 0 {
                new_offsets.push(count as u32);
            }
        }
    }
    if !elements.is_empty() {
        new_offsets.push(elements.len() as u32);
    }
    (found, new_offsets)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use accredit_plugin_api::columns::{OUTCOME, REWARD};

    use super::*;
    use crate::episode::{Layout, Step, TokenKind, Tokens, Trajectory};

    fn episodes(layout: Layout) -> Vec<Trajectory> {
        let mut value = 0.0;
        let mut list = Vec::new();
        for (group, steps) in [("a", 2), ("a", 1), ("b", 3)] {
            let steps = (0..steps)
                .map(|_| {
                    value += 1.0;
                    Step {
                        reward: Some(value),
                        tokens: Tokens {
                            kind: vec![TokenKind::Think, TokenKind::Action],
                            columns: BTreeMap::from([("old_logprob".to_owned(), vec![value, value + 0.5])]),
                            ..Tokens::default()
                        },
                        ..Step::default()
                    }
                })
                .collect();
            list.push(Trajectory { layout, group: group.to_owned(), steps, ..Trajectory::default() });
        }
        list
    }

    #[test]
    fn all_rows_are_the_batch_itself() {
        for layout in [Layout::Trajectory, Layout::Step] {
            let batch = Batch::build(&episodes(layout), &[], &[]).unwrap();
            let all: Vec<usize> = (0..batch.rows()).collect();
            let slice = Slice::of(&batch, &all);
            for (name, data) in batch.table.iter() {
                assert_eq!(slice.column(name), Some(data), "{name}");
            }
        }
    }

    #[test]
    fn step_rows_may_cut_a_trajectory_and_keep_its_columns() {
        let batch = Batch::build(&episodes(Layout::Step), &[], &[]).unwrap();
        let slice = Slice::of(&batch, &[5, 1, 3]);
        assert_eq!(slice.rows, [1, 3, 5]);
        assert_eq!(slice.trajectories, [0, 2]);
        assert_eq!(slice.column("trajectory_steps"), Some(&Data::U32(vec![0, 1, 3])));
        assert_eq!(slice.column("group_trajectories"), Some(&Data::U32(vec![0, 1, 2])));
        assert_eq!(slice.table.f32(REWARD), Some(&[2.0, 4.0, 6.0][..]));
        assert_eq!(slice.table.f32(OUTCOME), Some(&[3.0, 15.0][..]));
        assert_eq!(slice.column("old_logprob"), Some(&Data::F32(vec![2.0, 2.5, 4.0, 4.5, 6.0, 6.5])));
    }

    #[test]
    fn no_rows_are_an_empty_slice() {
        let batch = Batch::build(&episodes(Layout::Trajectory), &[], &[]).unwrap();
        let slice = Slice::of(&batch, &[]);
        assert_eq!(slice.column("group_trajectories"), Some(&Data::U32(vec![0])));
        assert_eq!(slice.tokens.len(), 0);
    }
}
