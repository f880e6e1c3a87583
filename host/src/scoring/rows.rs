//! The rows of a batch as token ids: what the model reads, and which of the tokens are responses.

use accredit_core::{batch::Batch, episode::Trajectory};
use accredit_plugin_api::columns::ROW_STEPS;
use accredit_torch::Row;
use serde::{Deserialize, Serialize};

/// The rows of a batch, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    tokens: Vec<Vec<u32>>,
    targets: Vec<Vec<u32>>,
}

impl Rows {
    /// Puts the rows of a batch together from the episodes that it was built from.
    pub fn of(batch: &Batch, episodes: &[Trajectory]) -> Self {
        let sources = batch.step_sources();
        let offsets = batch.offsets(ROW_STEPS);
        let mut rows = Self::default();
        for row in offsets.windows(2) {
            let (mut tokens, mut targets) = (Vec::new(), Vec::new());
            for (episode, step) in &sources[row[0] as usize..row[1] as usize] {
                let step = &episodes[*episode].steps[*step];
                tokens.extend(&step.context);
                targets.extend((tokens.len() as u32..).take(step.tokens.token_id.len()));
                tokens.extend(&step.tokens.token_id);
            }
            rows.tokens.push(tokens);
            rows.targets.push(targets);
        }
        rows
    }

    /// One row.
    pub fn get(&self, index: usize) -> Row<'_> {
        Row { tokens: &self.tokens[index], targets: &self.targets[index] }
    }

    /// All rows.
    pub fn all(&self) -> Vec<Row<'_>> {
        (0..self.tokens.len()).map(|index| self.get(index)).collect()
    }

    /// Number of tokens of a row, prompts included.
    pub fn len_of(&self, index: usize) -> usize {
        self.tokens[index].len()
    }

    /// Number of tokens of all rows, prompts included.
    pub fn token_count(&self) -> usize {
        self.tokens.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use accredit_core::episode::{Layout, Step, TokenKind, Tokens};

    use super::*;

    fn episode(layout: Layout) -> Trajectory {
        let step = |context: &[u32], response: &[u32]| Step {
            reward: Some(0.0),
            context: context.to_vec(),
            tokens: Tokens {
                token_id: response.to_vec(),
                kind: vec![TokenKind::Think; response.len()],
                ..Tokens::default()
            },
            ..Step::default()
        };
        Trajectory {
            layout,
            group: "g".to_owned(),
            steps: vec![step(&[1, 2], &[3, 4]), step(&[5], &[6])],
            ..Trajectory::default()
        }
    }

    #[test]
    fn a_trajectory_row_is_the_conversation_and_a_step_row_its_own_prompt() {
        let check = |layout, expected: &[(&[u32], &[u32])]| {
            let episodes = [episode(layout)];
            let rows = Rows::of(&Batch::build(&episodes, &[], &[]).unwrap(), &episodes);
            let found: Vec<(&[u32], &[u32])> = rows.all().iter().map(|row| (row.tokens, row.targets)).collect();
            assert_eq!(found, expected);
        };
        check(Layout::Trajectory, &[(&[1, 2, 3, 4, 5, 6], &[2, 3, 5])]);
        check(Layout::Step, &[(&[1, 2, 3, 4], &[2, 3]), (&[5, 6], &[1])]);
    }
}
