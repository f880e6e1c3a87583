//! Steps put together by a key, such as the state that they start from.

/// Steps with a key each; those with equal keys are a cell. Keys are sorted, not hashed, and the memory is used again
/// for the next group.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    members: Vec<Member>,
}

/// A step in a cell.
/// One number, so that two of them are compared without a jump: the key, and below it the index of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member(u128);

impl Member {
    fn new(key: u64, step: u32) -> Self {
        Self(u128::from(key) << 32 | u128::from(step))
    }

    /// Its key.
    pub fn key(&self) -> u64 {
        (self.0 >> 32) as u64
    }

    /// Its index in the batch.
    pub fn step(&self) -> usize {
        self.0 as u32 as usize
    }
}

impl Cells {
    /// Forgets all steps and keeps the memory.
    pub fn clear(&mut self) {
        self.members.clear();
    }

    /// Adds a step.
    pub fn push(&mut self, key: u64, step: usize) {
        self.members.push(Member::new(key, step as u32));
    }

    /// Gives every step another key.
    pub fn rename(&mut self, key: impl Fn(&Member) -> u64) {
        for member in &mut self.members {
            *member = Member::new(key(member), member.step() as u32);
        }
    }

    /// The cells by rising key; inside a cell, the steps by rising index.
    pub fn sorted(&mut self) -> impl Iterator<Item = &[Member]> {
        self.sort();
        self.cells()
    }

    /// Brings the steps of a cell together.
    pub fn sort(&mut self) {
        self.members.sort_unstable();
    }

    /// The cells as they stand after [`sort`](Self::sort) or [`split`](Self::split).
    pub fn cells(&self) -> impl Iterator<Item = &[Member]> {
        self.members.chunk_by(|a, b| a.key() == b.key())
    }

    /// Takes out the steps that `keep` does not want, and splits the cells by a second number. `of` gives the number of a
    /// step's cell and the second one.
    pub fn split(&mut self, keep: impl Fn(&Member) -> bool, of: impl Fn(&Member) -> [u32; 2]) {
        self.members.retain(keep);
        self.rename(|member| {
            let [cell, second] = of(member);
            u64::from(cell) << 32 | u64::from(second)
        });
        for cell in self.members.chunk_by_mut(|a, b| a.key() >> 32 == b.key() >> 32) {
            cell.sort_unstable();
        }
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
        let number = |member: &Member| [u32::from(member.step() > 1), member.step() as u32 % 2];
        cells.split(|member| member.step() != 4, number);
        let found: Vec<Vec<usize>> = cells.cells().map(|cell| cell.iter().map(Member::step).collect()).collect();
        assert_eq!(found, [vec![0], vec![1], vec![2], vec![3]]);
        cells.clear();
        assert_eq!(cells.sorted().count(), 0);
    }
}
