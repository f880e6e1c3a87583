//! The likeliest tokens at each place: lists of one length in a rollout file, flat columns in the batch.

use accredit_plugin_api::{
    columns::{NEW_TOP_K_LOGPROB, TEACHER_TOP_K_LOGPROB, TOP_K, TOP_K_ID},
    host::Table,
};

use crate::{
    batch::{Address, BatchError},
    episode::Step,
};

/// Columns of the likeliest tokens, filled step by step.
#[derive(Default)]
pub(crate) struct TopKColumns {
    k: Option<usize>,
    id: Vec<u32>,
    new_logprob: Vec<f32>,
    teacher_logprob: Vec<f32>,
    wanted: [bool; 3],
}

impl TopKColumns {
    /// For steps of which some may have these columns: all of a batch must have what one has.
    pub fn of<'a>(steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut columns = Self::default();
        for top_k in steps.map(|step| &step.tokens.top_k) {
            let there = [top_k.id.is_empty(), top_k.new_logprob.is_empty(), top_k.teacher_logprob.is_empty()];
            for (wanted, empty) in columns.wanted.iter_mut().zip(there) {
                *wanted |= !empty;
            }
        }
        columns
    }

    /// Whether no step has such a column.
    pub fn is_empty(&self) -> bool {
        self.wanted == [false; 3]
    }

    /// Adds the tokens of a step, without those of the environment.
    pub fn push(
        &mut self,
        step: &Step,
        tokens: impl Iterator<Item = usize>,
        address: &dyn Fn() -> Address,
    ) -> Result<(), BatchError> {
        let top_k = &step.tokens.top_k;
        let [id, new_logprob, teacher_logprob] = self.wanted;
        for (wanted, empty, name) in [
            (id, top_k.id.is_empty(), TOP_K_ID.name()),
            (new_logprob, top_k.new_logprob.is_empty(), NEW_TOP_K_LOGPROB.name()),
            (teacher_logprob, top_k.teacher_logprob.is_empty(), TEACHER_TOP_K_LOGPROB.name()),
        ] {
            if wanted && empty {
                return Err(BatchError::Absent { address: address(), column: name.to_owned() });
            }
        }
        for token in tokens {
            let place = || Address { token: Some(token), ..address() };
            if id {
                self.fits(TOP_K_ID.name(), top_k.id[token].len(), place)?;
                self.id.extend(&top_k.id[token]);
            }
            if new_logprob {
                let list = &top_k.new_logprob[token];
                self.fits(NEW_TOP_K_LOGPROB.name(), list.len(), place)?;
                finite(NEW_TOP_K_LOGPROB.name(), list, place)?;
                self.new_logprob.extend(list);
            }
            if teacher_logprob {
                match &top_k.teacher_logprob[token] {
                    Some(list) => {
                        self.fits(TEACHER_TOP_K_LOGPROB.name(), list.len(), place)?;
                        finite(TEACHER_TOP_K_LOGPROB.name(), list, place)?;
                        self.teacher_logprob.extend(list);
                    }
                    None => match self.k {
                        Some(k) => self.teacher_logprob.extend(std::iter::repeat_n(f32::NAN, k)),
                        None => {
                            return Err(BatchError::Absent {
                                address: place(),
                                column: format!("{}` or `{}", TOP_K_ID.name(), NEW_TOP_K_LOGPROB.name()),
                            });
                        }
                    },
                }
            }
        }
        Ok(())
    }

    /// Refuses a list that is shorter or longer than the first.
    fn fits(&mut self, column: &str, found: usize, address: impl Fn() -> Address) -> Result<(), BatchError> {
        let expected = *self.k.get_or_insert(found);
        if found == expected && found > 0 {
            return Ok(());
        }
        Err(BatchError::TopK { address: address(), column: column.to_owned(), found, expected })
    }

    /// Puts the columns into the batch's table.
    pub fn put_into(self, table: &mut Table) {
        table.put(TOP_K, vec![self.k.unwrap_or(0) as u32]);
        let [id, new_logprob, teacher_logprob] = self.wanted;
        if id {
            table.put(TOP_K_ID, self.id);
        }
        if new_logprob {
            table.put(NEW_TOP_K_LOGPROB, self.new_logprob);
        }
        if teacher_logprob {
            table.put(TEACHER_TOP_K_LOGPROB, self.teacher_logprob);
        }
    }
}

fn finite(column: &str, list: &[f32], address: impl Fn() -> Address) -> Result<(), BatchError> {
    match list.iter().find(|number| !number.is_finite()) {
        None => Ok(()),
        Some(number) => {
            Err(BatchError::NotFinite { address: address(), column: column.to_owned(), value: number.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use accredit_plugin_api::{columns::STEP_TOKENS, host::Data};

    use crate::{
        Slice,
        batch::Batch,
        episode::{Layout, Step, TokenKind, Tokens, TopK, Trajectory},
    };

    /// A step whose tokens have ids from `first` on, two at each place; the token before it is the environment's.
    fn step(first: u32, tokens: u32) -> Step {
        let numbers = |token: u32| vec![-(first as f32) - token as f32, -9.0];
        let mut kind = vec![TokenKind::Action; tokens as usize + 1];
        kind[0] = TokenKind::Observation;
        let ids = (0..tokens).map(|token| vec![first + token, 0]);
        let top_k = TopK {
            id: [vec![]].into_iter().chain(ids).collect(),
            new_logprob: [vec![]].into_iter().chain((0..tokens).map(numbers)).collect(),
            teacher_logprob: [None].into_iter().chain((0..tokens).map(|t| (t > 0).then(|| numbers(t)))).collect(),
        };
        Step { reward: Some(1.0), tokens: Tokens { kind, top_k, ..Tokens::default() }, ..Step::default() }
    }

    fn episode(steps: Vec<Step>) -> Trajectory {
        Trajectory { layout: Layout::Step, group: "g".to_owned(), steps, ..Trajectory::default() }
    }

    fn error(steps: Vec<Step>) -> String {
        Batch::build(&[episode(steps)], &[], &[]).unwrap_err().to_string()
    }

    #[test]
    fn lists_become_flat_columns_and_are_cut_with_their_tokens() {
        let batch =
            Batch::build(&[episode(vec![step(1, 2), step(5, 1)]), episode(vec![step(7, 1)])], &[], &[]).unwrap();
        assert_eq!(batch.offsets(STEP_TOKENS), [0, 2, 3, 4]);
        assert_eq!(batch.table.get("top_k"), Some(&Data::U32(vec![2])));
        assert_eq!(batch.table.get("top_k_id"), Some(&Data::U32(vec![1, 0, 2, 0, 5, 0, 7, 0])));
        let Some(Data::F32(teacher)) = batch.table.get("teacher_top_k_logprob") else { panic!("no teacher") };
        assert!(teacher[..2].iter().all(|number| number.is_nan()));
        assert_eq!(teacher[2..4], [-2.0, -9.0]);
        let slice = Slice::of(&batch, &[0, 2]);
        assert_eq!(slice.column("top_k"), Some(&Data::U32(vec![2])));
        assert_eq!(slice.column("top_k_id"), Some(&Data::U32(vec![1, 0, 2, 0, 7, 0])));
        let expected = Data::F32(vec![-1.0, -9.0, -2.0, -9.0, -7.0, -9.0]);
        assert_eq!(slice.column("new_top_k_logprob"), Some(&expected));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_address() {
        let mut short = step(1, 2);
        short.tokens.top_k.id[2] = vec![4];
        assert_eq!(
            error(vec![short]),
            "trajectory `#1`, step 0, token 2: `top_k_id` lists 1 of the likeliest tokens where others list 2; all list \
             one number, at least 1"
        );
        let mut few = step(1, 2);
        few.tokens.top_k.id.pop();
        assert_eq!(error(vec![few]), "trajectory `#1`, step 0: column `top_k_id` has 2 tokens where `kind` has 3");
        let mut absent = step(1, 2);
        absent.tokens.top_k.new_logprob.clear();
        assert_eq!(
            error(vec![step(1, 2), absent]),
            "trajectory `#1`, step 1: column `new_top_k_logprob` is absent, and other steps have it"
        );
        let mut odd = step(1, 2);
        odd.tokens.top_k.new_logprob[1][1] = f32::INFINITY;
        assert_eq!(
            error(vec![odd]),
            "trajectory `#1`, step 0, token 1: `new_top_k_logprob` is inf; every number must be finite"
        );
    }
}
