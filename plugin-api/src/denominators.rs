//! What an objective divides by: counts and sums of the whole minibatch, and of each row and trajectory in it.

use crate::{
    column::columns::{
        KIND, PART_ROWS, PART_STEPS, PART_TOKENS, ROW_STEPS, ROW_TOKENS, ROW_WEIGHT, STEP_TOKENS, TOTAL_ROWS,
        TOTAL_STEPS, TOTAL_TOKENS, TOTAL_TRAJECTORIES, TOTAL_WEIGHT, TRAJECTORY_ROWS, TRAJECTORY_STEPS,
        TRAJECTORY_TOKENS, TRAJECTORY_WEIGHT,
    },
    host::{Data, Table},
    scheme::Part,
};

/// The denominators of one minibatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Denominators {
    /// Tokens.
    pub tokens: f64,
    /// Sum of the tokens' weights.
    pub weight: f64,
    /// Steps that have a token.
    pub steps: f64,
    /// Rows that have a token.
    pub rows: f64,
    /// Trajectories that have a token.
    pub trajectories: f64,
    /// Tokens of each trajectory of the minibatch.
    pub trajectory_tokens: Vec<f64>,
    /// Sum of the weights of each trajectory of the minibatch.
    pub trajectory_weight: Vec<f64>,
    /// Rows of each trajectory of the minibatch that have a token.
    pub trajectory_rows: Vec<f64>,
}

impl Denominators {
    /// Counts a minibatch: a table with offsets and the tokens' weights. None if a column is missing.
    pub fn of(minibatch: &Table, weight: &[f32]) -> Option<Self> {
        let steps = offsets(minibatch, STEP_TOKENS.name())?;
        let rows = offsets(minibatch, ROW_STEPS.name())?;
        let trajectories = offsets(minibatch, TRAJECTORY_STEPS.name())?;
        let tokens_of = |steps_from: usize, steps_to: usize| (steps[steps_to] - steps[steps_from]) as usize;
        let count = trajectories.len() - 1;
        let mut out = Self {
            tokens: weight.len() as f64,
            weight: weight.iter().map(|w| f64::from(*w)).sum(),
            steps: steps.windows(2).filter(|w| w[1] > w[0]).count() as f64,
            rows: 0.0,
            trajectories: 0.0,
            trajectory_tokens: vec![0.0; count],
            trajectory_weight: vec![0.0; count],
            trajectory_rows: vec![0.0; count],
        };
        for t in 0..count {
            let (from, to) = (trajectories[t] as usize, trajectories[t + 1] as usize);
            let tokens = steps[from] as usize..steps[to] as usize;
            out.trajectory_tokens[t] = tokens.len() as f64;
            out.trajectory_weight[t] = weight[tokens.clone()].iter().map(|w| f64::from(*w)).sum();
            out.trajectories += f64::from(u8::from(!tokens.is_empty()));
        }
        let mut t = 0;
        for row in rows.windows(2) {
            let (from, to) = (row[0] as usize, row[1] as usize);
            if tokens_of(from, to) == 0 {
                continue;
            }
            while t + 1 < count && trajectories[t + 1] as usize <= from {
                t += 1;
            }
            out.rows += 1.0;
            out.trajectory_rows[t] += 1.0;
        }
        Some(out)
    }

    /// Puts the denominators into a micro-batch's table. `trajectories` says which of the minibatch's trajectories the
    /// micro-batch's are.
    pub fn put_into(&self, table: &mut Table, weight: &[f32], trajectories: &[usize]) {
        table.put(TOTAL_TOKENS, vec![self.tokens]);
        table.put(TOTAL_WEIGHT, vec![self.weight]);
        table.put(TOTAL_STEPS, vec![self.steps]);
        table.put(TOTAL_ROWS, vec![self.rows]);
        table.put(TOTAL_TRAJECTORIES, vec![self.trajectories]);
        let pick = |from: &[f64]| trajectories.iter().map(|t| from[*t]).collect::<Vec<_>>();
        table.put(TRAJECTORY_TOKENS, pick(&self.trajectory_tokens));
        table.put(TRAJECTORY_WEIGHT, pick(&self.trajectory_weight));
        table.put(TRAJECTORY_ROWS, pick(&self.trajectory_rows));
        if let (Some(steps), Some(rows)) =
            (offsets(table, STEP_TOKENS.name()).cloned(), offsets(table, ROW_STEPS.name()).cloned())
        {
            let tokens = |row: &[u32]| steps[row[0] as usize] as usize..steps[row[1] as usize] as usize;
            table.put(ROW_TOKENS, rows.windows(2).map(|row| tokens(row).len() as f64).collect());
            let sum = |row: &[u32]| weight[tokens(row)].iter().map(|w| f64::from(*w)).sum();
            table.put(ROW_WEIGHT, rows.windows(2).map(sum).collect());
        }
    }
}

/// How much of a minibatch is in a [`Part`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartCount {
    /// Tokens.
    pub tokens: f64,
    /// Steps that have one.
    pub steps: f64,
    /// Rows that have one.
    pub rows: f64,
}

impl PartCount {
    /// Counts a minibatch. Nothing is in a part whose column is missing, and without kinds only a part of all kinds has
    /// tokens.
    pub fn of(minibatch: &Table, part: &Part) -> Self {
        let (Some(steps), Some(rows)) = (offsets(minibatch, STEP_TOKENS.name()), offsets(minibatch, ROW_STEPS.name()))
        else {
            return Self::default();
        };
        let kinds = match minibatch.get(KIND.name()) {
            Some(Data::U8(kinds)) => Some(kinds),
            _ => None,
        };
        let numbers = part.column.as_ref().map(|column| minibatch.get(column).and_then(Data::as_f32));
        let has = |token: usize| {
            let number = match numbers {
                None => 0.0,
                Some(numbers) => numbers.map_or(f32::NAN, |numbers| numbers[token]),
            };
            // No kind has this number.
            let kind = kinds.map_or(u8::MAX, |kinds| kinds[token]);
            part.has(kind, number)
        };
        let mut count = Self::default();
        for row in rows.windows(2) {
            let before = count.tokens;
            for step in steps[row[0] as usize..=row[1] as usize].windows(2) {
                let own = (step[0] as usize..step[1] as usize).filter(|token| has(*token)).count() as f64;
                count.tokens += own;
                count.steps += f64::from(u8::from(own > 0.0));
            }
            count.rows += f64::from(u8::from(count.tokens > before));
        }
        count
    }

    /// Puts the counts into a micro-batch's table.
    pub fn put_into(self, table: &mut Table) {
        table.put(PART_TOKENS, vec![self.tokens]);
        table.put(PART_STEPS, vec![self.steps]);
        table.put(PART_ROWS, vec![self.rows]);
    }
}

fn offsets<'a>(table: &'a Table, name: &str) -> Option<&'a Vec<u32>> {
    match table.get(name) {
        Some(Data::U32(offsets)) if !offsets.is_empty() => Some(offsets),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_leave_out_what_has_no_token() {
        let mut table = Table::default();
        table.put(TRAJECTORY_STEPS, vec![0, 2, 3, 4]);
        table.put(STEP_TOKENS, vec![0, 2, 2, 5, 5]);
        table.put(ROW_STEPS, vec![0, 1, 2, 3, 4]);
        let weight = [1.0, 0.5, 2.0, 1.0, 1.0];
        let found = Denominators::of(&table, &weight);
        assert_eq!(
            found,
            Some(Denominators {
                tokens: 5.0,
                weight: 5.5,
                steps: 2.0,
                rows: 2.0,
                trajectories: 2.0,
                trajectory_tokens: vec![2.0, 3.0, 0.0],
                trajectory_weight: vec![1.5, 4.0, 0.0],
                trajectory_rows: vec![1.0, 1.0, 0.0],
            })
        );
    }

    #[test]
    fn a_part_is_what_has_the_kind_and_a_number() {
        let mut table = Table::default();
        table.put(STEP_TOKENS, vec![0, 2, 3, 3, 5]);
        table.put(ROW_STEPS, vec![0, 1, 3, 4]);
        table.put(KIND, vec![0, 1, 1, 1, 0]);
        table.set("score", vec![0.5, f32::NAN, -1.0, 2.0, 3.0]);
        let count = |kinds: &[u8], column: Option<&str>| {
            let count = PartCount::of(&table, &Part { kinds: kinds.to_vec(), column: column.map(str::to_owned) });
            [count.tokens, count.steps, count.rows]
        };
        assert_eq!(count(&[], None), [5.0, 3.0, 3.0]);
        assert_eq!(count(&[1], None), [3.0, 3.0, 3.0]);
        assert_eq!(count(&[], Some("score")), [4.0, 3.0, 3.0]);
        assert_eq!(count(&[1], Some("score")), [2.0, 2.0, 2.0]);
        assert_eq!(count(&[2], Some("score")), [0.0, 0.0, 0.0]);
        assert_eq!(count(&[], Some("absent")), [0.0, 0.0, 0.0]);
        table.remove(KIND.name());
        assert_eq!(PartCount::of(&table, &Part { kinds: vec![1], column: None }), PartCount::default());
    }
}
