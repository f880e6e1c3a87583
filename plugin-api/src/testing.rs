//! Batches from literals, and a scheme called through the same functions that the host uses.
//!
//! ```
//! use accredit_plugin_api::{prelude::*, testing::{TestBatch, TestScheme}};
//! # params! { pub struct Params {} }
//! # struct Twice;
//! # impl Scheme for Twice {
//! #     type Params = Params;
//! #     const NAME: &'static str = "twice";
//! #     const ABOUT: &'static str = "Twice the outcome.";
//! #     fn new(_: Params, _: Host) -> Result<Self> { Ok(Self) }
//! #     fn needs(&self) -> Needs { Needs::hooks(&[Hook::Advantage]) }
//! #     fn advantage(&mut self, batch: &Batch<'_>, out: &mut Advantages<'_>, _: &Context) -> Result<()> {
//! #         let outcome = batch.get(OUTCOME)?;
//! #         for t in batch.trajectories() { out.advantage[t.tokens()].fill(2.0 * outcome[t.index()]); }
//! #         Ok(())
//! #     }
//! # }
//! // One group of two trajectories: the first has steps of 2 and 1 tokens, the second one step of 3.
//! let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2, 1], &[3]]]);
//! batch.set(OUTCOME, vec![1.0, 0.0]);
//! let mut scheme = TestScheme::<Twice>::new("{}").unwrap();
//! assert_eq!(scheme.advantage(&batch).unwrap(), [2.0, 2.0, 2.0, 0.0, 0.0, 0.0]);
//! # use accredit_plugin_api::Layout;
//! ```

use std::{cell::RefCell, collections::BTreeMap, marker::PhantomData};

use abi_stable::{
    prefix_type::PrefixTypeTrait,
    std_types::{RErr, ROk, RStr},
};

use crate::{
    abi::{HostFunctions, RawColumn, RawHost},
    batch::Layout,
    column::{
        Column, Element, TextColumn,
        columns::{
            ADVANTAGE, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, DECISION, GROUP_TRAJECTORIES, ITERATION,
            ITERATIONS, KIND, LAYOUT, LOSS, OUTCOME, RAW_OUTCOME, RAW_REWARD, REWARD, ROW_STEPS, SAMPLE_MORE, STATUS,
            STEP_TOKENS, TERMINAL, TOKEN_REWARD, TOP_K, TRAINED, TRAJECTORY_STEPS, UPDATE, UPDATES, VALUE_TARGET,
            WEIGHT,
        },
    },
    denominators::{Denominators, PartCount},
    host::{CallError, Data, Instance, Table, read_queries},
    query::Query,
    rt,
    scheme::{Hook, Needs, Scheme},
};

/// A batch made from literals.
#[derive(Clone, Debug)]
pub struct TestBatch {
    table: Table,
}

impl TestBatch {
    /// A batch of this shape: `groups[g][t][s]` is the number of response tokens of a step. Rewards and outcomes are
    /// 0, every token is a think token, every trajectory is complete and trained, until [`set`](Self::set).
    pub fn new(layout: Layout, groups: &[&[&[usize]]]) -> Self {
        let (mut group_offsets, mut trajectory_offsets, mut step_offsets) = (vec![0_u32], vec![0_u32], vec![0_u32]);
        let mut terminal = Vec::new();
        for group in groups {
            for trajectory in *group {
                for (s, tokens) in trajectory.iter().enumerate() {
                    step_offsets.push(step_offsets[step_offsets.len() - 1] + *tokens as u32);
                    terminal.push(s + 1 == trajectory.len());
                }
                trajectory_offsets.push(terminal.len() as u32);
            }
            group_offsets.push(trajectory_offsets.len() as u32 - 1);
        }
        let (steps, trajectories) = (terminal.len(), trajectory_offsets.len() - 1);
        let tokens = step_offsets[steps] as usize;
        let mut table = Table::default();
        match layout {
            Layout::Trajectory => table.put(ROW_STEPS, trajectory_offsets.clone()),
            Layout::Step => table.put(ROW_STEPS, (0..=steps as u32).collect()),
        }
        table.put(LAYOUT, vec![u8::from(layout == Layout::Step)]);
        table.put(GROUP_TRAJECTORIES, group_offsets);
        table.put(TRAJECTORY_STEPS, trajectory_offsets);
        table.put(STEP_TOKENS, step_offsets);
        for (column, value) in [(ITERATION, 0), (ITERATIONS, 100), (UPDATE, 0), (UPDATES, 100)] {
            table.put(column, vec![value]);
        }
        for column in [OUTCOME, RAW_OUTCOME] {
            table.put(column, vec![0.0; trajectories]);
        }
        for column in [REWARD, RAW_REWARD] {
            table.put(column, vec![0.0; steps]);
        }
        table.put(TOKEN_REWARD, vec![0.0; tokens]);
        table.put(TERMINAL, terminal);
        table.put(STATUS, vec![0; trajectories]);
        table.put(TRAINED, vec![true; trajectories]);
        table.put(KIND, vec![crate::THINK; tokens]);
        Self { table }
    }

    /// Sets a column. Columns of the likeliest tokens come after `top_k`.
    ///
    /// # Panics
    /// If its length is not that of its level.
    pub fn set<T: Element>(&mut self, column: Column<T>, elements: Vec<T>) -> &mut Self
    where
        Data: From<Vec<T>>,
    {
        let expected = self.count(column.level());
        assert_eq!(elements.len(), expected, "length of `{}`, one for each {}", column.name(), column.level().name());
        self.table.put(column, elements);
        self
    }

    /// Sets a column of texts.
    ///
    /// # Panics
    /// If there is not one text for each element of its level.
    pub fn set_texts<T: AsRef<str>>(&mut self, column: TextColumn, texts: &[T]) -> &mut Self {
        let expected = self.count(column.level());
        assert_eq!(texts.len(), expected, "length of `{}`, one for each {}", column.name(), column.level().name());
        let (mut bytes, mut offsets): (Vec<u8>, Vec<u64>) = (Vec::new(), vec![0]);
        for text in texts {
            bytes.extend(text.as_ref().as_bytes());
            offsets.push(bytes.len() as u64);
        }
        let (bytes_name, offsets_name) = column.parts();
        self.table.set(bytes_name, bytes);
        self.table.set(offsets_name, offsets);
        self
    }

    /// How many elements a column of this level has.
    fn count(&self, level: crate::Level) -> usize {
        let length = |name: &str| self.table.get(name).map_or(0, Data::len);
        match level {
            crate::Level::Batch => 1,
            crate::Level::Group => length(GROUP_TRAJECTORIES.name()) - 1,
            crate::Level::Trajectory => length(STATUS.name()),
            crate::Level::Step => length(TERMINAL.name()),
            crate::Level::Row => length(ROW_STEPS.name()) - 1,
            crate::Level::Token => length(KIND.name()),
            crate::Level::TopK => self.tokens() * self.top_k(),
        }
    }

    /// Number of response tokens.
    pub fn tokens(&self) -> usize {
        self.table.get(KIND.name()).map_or(0, Data::len)
    }

    /// How many of the likeliest tokens stand at each place: the column `top_k`, 0 without it.
    pub fn top_k(&self) -> usize {
        match self.table.get(TOP_K.name()) {
            Some(Data::U32(k)) => k[0] as usize,
            _ => 0,
        }
    }

    /// The table itself.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// What an objective gave back.
#[derive(Clone, Debug, PartialEq)]
pub struct TestLoss {
    /// The loss.
    pub loss: f64,
    /// Derivative with respect to `new_logprob`.
    pub d_logprob: Vec<f32>,
    /// Derivative with respect to `new_entropy`; NaN where the scheme did not write it.
    pub d_entropy: Vec<f32>,
    /// Derivative with respect to `new_value`; NaN where the scheme did not write it.
    pub d_value: Vec<f32>,
    /// Derivative with respect to `new_top_k_logprob`; NaN where the scheme did not write it.
    pub d_top_k_logprob: Vec<f32>,
}

/// A scheme behind the boundary.
pub struct TestScheme<S> {
    instance: Instance,
    scheme: PhantomData<S>,
}

type Result<T> = std::result::Result<T, CallError>;

impl<S: Scheme> TestScheme<S> {
    /// Makes the scheme from parameters in JSON.
    pub fn new(parameters: &str) -> Result<Self> {
        let functions = HostFunctions {
            log,
            metric,
            threads,
            cancelled,
            #[cfg(feature = "next-minor")]
            later: threads,
        };
        let host = RawHost { context: 0, functions: functions.leak_into_prefix() };
        match rt::build::<S>(RStr::from_str(parameters), host) {
            ROk(raw) => Ok(Self { instance: Instance::new(raw), scheme: PhantomData }),
            RErr(error) => Err(CallError::of(error)),
        }
    }

    /// What it implements and needs.
    pub fn needs(&self) -> Result<Needs> {
        self.instance.needs()
    }

    /// Calls any hook with these outputs, and gives them back.
    pub fn call(&mut self, hook: Hook, inputs: &Table, mut outputs: Table) -> Result<Table> {
        let mut raw: Vec<RawColumn<'_>> = Vec::new();
        inputs.raw(&mut raw);
        self.instance.call(hook, &raw, &mut outputs.raw_mut())?;
        Ok(outputs)
    }

    /// Calls `select`: a decision for each trajectory, and whether to sample more.
    pub fn select(&mut self, batch: &TestBatch) -> Result<(Vec<u8>, bool)> {
        let mut outputs = Table::default();
        let trajectories = batch.table.get(STATUS.name()).map_or(0, Data::len);
        outputs.put(DECISION, vec![2; trajectories]);
        outputs.put(SAMPLE_MORE, vec![false]);
        let outputs = self.call(Hook::Select, &batch.table, outputs)?;
        match (outputs.get(DECISION.name()), outputs.get(SAMPLE_MORE.name())) {
            (Some(Data::U8(decisions)), Some(Data::Bool(more))) => Ok((decisions.clone(), more[0])),
            _ => unreachable!("the outputs are those that were put in"),
        }
    }

    /// Calls `queries`.
    pub fn queries(&mut self, batch: &TestBatch) -> Result<Vec<Query>> {
        let mut raw: Vec<RawColumn<'_>> = Vec::new();
        batch.table.raw(&mut raw);
        read_queries(&self.instance.call(Hook::Queries, &raw, &mut [])?)
    }

    /// Calls `shape`: step rewards and token rewards.
    pub fn shape(&mut self, batch: &TestBatch) -> Result<(Vec<f32>, Vec<f32>)> {
        let mut outputs = Table::default();
        for column in [REWARD, TOKEN_REWARD] {
            outputs.put(column, batch.table.f32(column).map(<[f32]>::to_vec).unwrap_or_default());
        }
        let outputs = self.call(Hook::Shape, &batch.table, outputs)?;
        Ok((floats(&outputs, REWARD), floats(&outputs, TOKEN_REWARD)))
    }

    /// Calls `advantage`: the advantages.
    pub fn advantage(&mut self, batch: &TestBatch) -> Result<Vec<f32>> {
        Ok(self.advantage_and_targets(batch)?.0)
    }

    /// Calls `advantage`: the advantages and the value targets, NaN where the scheme did not write them.
    pub fn advantage_and_targets(&mut self, batch: &TestBatch) -> Result<(Vec<f32>, Vec<f32>)> {
        let mut outputs = Table::default();
        outputs.put(ADVANTAGE, vec![f32::NAN; batch.tokens()]);
        outputs.put(VALUE_TARGET, vec![f32::NAN; batch.tokens()]);
        let outputs = self.call(Hook::Advantage, &batch.table, outputs)?;
        Ok((floats(&outputs, ADVANTAGE), floats(&outputs, VALUE_TARGET)))
    }

    /// Calls `weigh`: advantages and weights, from these advantages and from weights of 1.
    pub fn weigh(&mut self, batch: &TestBatch, advantage: Vec<f32>) -> Result<(Vec<f32>, Vec<f32>)> {
        let mut outputs = Table::default();
        outputs.put(WEIGHT, vec![1.0; advantage.len()]);
        outputs.put(ADVANTAGE, advantage);
        let outputs = self.call(Hook::Weigh, &batch.table, outputs)?;
        Ok((floats(&outputs, ADVANTAGE), floats(&outputs, WEIGHT)))
    }

    /// Calls `refresh`: advantages, from these. `new_logprob` must be set in the batch.
    pub fn refresh(&mut self, batch: &TestBatch, advantage: Vec<f32>) -> Result<Vec<f32>> {
        let mut outputs = Table::default();
        outputs.put(ADVANTAGE, advantage);
        let outputs = self.call(Hook::Refresh, &batch.table, outputs)?;
        Ok(floats(&outputs, ADVANTAGE))
    }

    /// Calls `objective` with the whole batch as minibatch and micro-batch. `advantage` and the fresh columns must be
    /// set in the batch; `weight` is 1 unless it is.
    pub fn objective(&mut self, batch: &TestBatch) -> Result<TestLoss> {
        let mut inputs = batch.table.clone();
        let weight = batch.table.f32(WEIGHT).map_or_else(|| vec![1.0; batch.tokens()], <[f32]>::to_vec);
        if let Some(denominators) = Denominators::of(&inputs, &weight) {
            let all: Vec<usize> = (0..denominators.trajectory_tokens.len()).collect();
            denominators.put_into(&mut inputs, &weight, &all);
        }
        if let Some(part) = self.needs()?.part {
            PartCount::of(&inputs, &part).put_into(&mut inputs);
        }
        inputs.put(WEIGHT, weight);
        let mut outputs = Table::default();
        outputs.put(LOSS, vec![f64::NAN]);
        for column in [D_LOGPROB, D_ENTROPY, D_VALUE] {
            outputs.put(column, vec![f32::NAN; batch.tokens()]);
        }
        outputs.put(D_TOP_K_LOGPROB, vec![f32::NAN; batch.tokens() * batch.top_k()]);
        let outputs = self.call(Hook::Objective, &inputs, outputs)?;
        let loss = match outputs.get(LOSS.name()) {
            Some(Data::F64(loss)) => loss[0],
            _ => unreachable!("the outputs are those that were put in"),
        };
        Ok(TestLoss {
            loss,
            d_logprob: floats(&outputs, D_LOGPROB),
            d_entropy: floats(&outputs, D_ENTROPY),
            d_value: floats(&outputs, D_VALUE),
            d_top_k_logprob: floats(&outputs, D_TOP_K_LOGPROB),
        })
    }

    /// Saves its state; empty means none.
    pub fn save(&self) -> Result<Vec<u8>> {
        self.instance.save()
    }

    /// Restores what `save` gave.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.instance.restore(bytes)
    }
}

fn floats(table: &Table, column: Column<f32>) -> Vec<f32> {
    table.f32(column).map(<[f32]>::to_vec).unwrap_or_default()
}

thread_local! {
    static METRICS: RefCell<BTreeMap<String, Vec<(f64, f64)>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The numbers that schemes pushed on this thread since the last call: name, then value and weight of each push.
pub fn take_metrics() -> BTreeMap<String, Vec<(f64, f64)>> {
    METRICS.with(RefCell::take)
}

extern "C" fn log(_context: u64, _level: u32, message: RStr<'_>) {
    eprintln!("{message}");
}

extern "C" fn metric(_context: u64, name: RStr<'_>, value: f64, weight: f64) {
    METRICS.with(|metrics| {
        metrics.borrow_mut().entry(name.to_string()).or_default().push((value, weight));
    });
}

extern "C" fn threads(_context: u64) -> u32 {
    1
}

extern "C" fn cancelled(_context: u64) -> bool {
    false
}
