//! Steps put together by a key, such as the state that they start from.

/// Steps with a key each; those with equal keys are a cell. Keys are sorted, not hashed, and the memory is used again
/// for the next group.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    members: Vec<Member>,
}

/// A step in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    key: u64,
    step: u32,
}

impl Member {
    /// Its key.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Its index in the batch.
    pub fn step(&self) -> usize {
        self.step as usize
    }
}

impl Cells {
    /// Forgets all steps and keeps the memory.
    pub fn clear(&mut self) {
        self.members.clear();
    }

    /// Adds a step.
    pub fn push(&mut self, key: u64, step: usize) {
        self.members.push(Member { key, step: step as u32 });
    }

    /// Gives every step another key.
    pub fn rename(&mut self, key: impl Fn(&Member) -> u64) {
        for member in &mut self.members {
            member.key = key(member);
        }
    }

    /// The cells by rising key; inside a cell, the steps by rising index.
    pub fn sorted(&mut self) -> impl Iterator<Item = &[Member]> {
        self.members.sort_unstable();
        self.members.chunk_by(|a, b| a.key == b.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_one_cell() {
        let mut cells = Cells::default();
        for (step, key) in [7, 2, 7, 9, 2].into_iter().enumerate() {
            cells.push(key, step);
        }
        let steps = |cells: &mut Cells| -> Vec<Vec<usize>> {
            cells.sorted().map(|cell| cell.iter().map(Member::step).collect()).collect()
        };
        assert_eq!(steps(&mut cells), [vec![1, 4], vec![0, 2], vec![3]]);
        cells.rename(|member| member.key() / 7);
        assert_eq!(steps(&mut cells), [vec![1, 4], vec![0, 2, 3]]);
        cells.clear();
        assert_eq!(cells.sorted().count(), 0);
    }
}
