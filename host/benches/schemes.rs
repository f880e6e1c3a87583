//! What each scheme costs, hook by hook, beside what it costs to read and write its columns once:
//!
//! ```text
//! cargo bench --package accredit --no-default-features --bench schemes [-- NAME...] [-- 'NAME={"parameter": 1}'...]
//! ```
//!
//! One thread, a batch of 16 groups x 8 trajectories x 15 steps x 150 tokens and one of four times as many groups, all
//! schemes of all plugins that are built. For each hook it prints the fastest of its calls, tokens per second, and the ratio
//! to streaming; and time and ratio of the larger batch. The two are timed in turn in one process. `queries`, which writes
//! texts, is left out.
//!
//! Streaming is what no hook can do without: a loop over vectors of the processor's widest kind reads every column that the
//! hook reads, once, and writes every column that it writes, once; those that are changed in place are read and written, the
//! others are not read. It works on the same memory as the hook, and computes nothing. Which columns these are is found out by
//! calling the hook without each of its columns, and with other numbers in it: a column that changes nothing is not streamed.
//!
//! Schemes that read the state of steps are measured without grouping: sorting the steps of each group by state, once, is
//! timed by itself and taken off. A hook that reads and writes no column of tokens takes microseconds, and its ratio says
//! nothing.
#![allow(clippy::unwrap_used)]
#![expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
#![expect(clippy::inline_always, reason = "what a loop calls must become a part of it to be vectorised")]

#[path = "../tests/it/plugins.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod plugins;

use std::{
    collections::BTreeMap,
    env,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use accredit::plugin::{Library, Scheme, SearchPath, Services};
use accredit_plugin_api::{
    Denominators, Hook, Layout, Level, Needs,
    abi::DType,
    columns::{
        ADVANTAGE, ALL, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, DECISION, KIND, LOSS, NEW_ENTROPY, NEW_VALUE,
        NEXT_STATE, OUTCOME, PART_ROWS, PART_STEPS, PART_TOKENS, RAW_OUTCOME, RAW_REWARD, REWARD, SAMPLE_MORE, STATE,
        STATUS, SUCCESS, TERMINAL, TOKEN_REWARD, TRAJECTORY_STEPS, VALID_ACTION, VALUE_TARGET, WEIGHT,
    },
    host::{Data, Table},
    math::{self, Kernel},
    testing::TestBatch,
};
use serde_json::Value;

const GROUP_SIZE: usize = 8;
const STEPS: usize = 15;
const TOKENS: usize = 150;
/// How long each hook is measured.
const BUDGET: Duration = Duration::from_millis(400);
/// How often it is called at least.
const LEAST_CALLS: usize = 3;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let params: BTreeMap<&str, Value> = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .map(|(name, json)| (name, serde_json::from_str(json).unwrap()))
        .collect();
    let wanted = |name: &str| {
        arguments.is_empty() || params.contains_key(name) || arguments.iter().any(|argument| argument == name)
    };
    for folder in Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").read_dir().unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = folder.join("Cargo.toml");
        let is_plugin = std::fs::read_to_string(manifest).is_ok_and(|text| text.contains("\"cdylib\""));
        if is_plugin && name != "golden" {
            plugins::library(&format!("accredit-{name}"));
        }
    }
    let folder = plugins::target_folder().join("release");
    println!(
        "{:<20} {:<10} {:>9} {:>9} {:>9} {:>8}   {:>9} {:>9} {:>8}",
        "scheme", "hook", "ms", "stream", "Mtok/s", "ratio", "ms at x4", "stream", "ratio"
    );
    let batches = [16, 64].map(Case::new);
    for found in SearchPath::of_folders([folder]).available().into_iter().flatten() {
        let library = Library::load(&found.path, None).unwrap();
        for described in &library.describe().schemes {
            if !wanted(&described.name) {
                continue;
            }
            let params = params.get(described.name.as_str()).cloned().unwrap_or_else(|| serde_json::json!({}));
            match Scheme::build(&library, &described.name, &described.name, &params, Services::default()) {
                Ok(mut scheme) => measure(&mut scheme, &batches),
                Err(error) => println!("{:<20} {error}", described.name),
            }
        }
    }
}

fn measure(scheme: &mut Scheme, batches: &[Case]) {
    for hook in scheme.needs().hooks.clone() {
        if hook == Hook::Queries {
            continue;
        }
        let results: Result<Vec<Timed>, String> = Columns::of(scheme, hook, &batches[0])
            .and_then(|columns| batches.iter().map(|batch| batch.time(scheme, hook, &columns)).collect());
        match results {
            Ok(timed) => println!(
                "{:<20} {:<10} {:>9.3} {:>9.3} {:>9.0} {:>8.2}   {:>9.3} {:>9.3} {:>8.2}",
                scheme.name(),
                hook.name(),
                timed[0].scheme * 1e3,
                timed[0].stream * 1e3,
                timed[0].tokens as f64 / timed[0].scheme / 1e6,
                timed[0].scheme / timed[0].stream,
                timed[1].scheme * 1e3,
                timed[1].stream * 1e3,
                timed[1].scheme / timed[1].stream,
            ),
            Err(message) => println!("{:<20} {:<10} {message}", scheme.name(), hook.name()),
        }
    }
}

/// Seconds of the fastest call, without grouping, and of the fastest streaming of the same columns.
struct Timed {
    scheme: f64,
    stream: f64,
    tokens: usize,
}

/// A batch with plausible numbers in every column that the api names.
struct Case {
    table: Table,
    tokens: usize,
}

impl Case {
    fn new(groups: usize) -> Self {
        let steps = [TOKENS; STEPS];
        let trajectories = [steps.as_slice(); GROUP_SIZE];
        let batch = TestBatch::new(Layout::Step, &vec![trajectories.as_slice(); groups]);
        let tokens = batch.tokens();
        let mut table = batch.table().clone();
        let mut noise = 1_u64;
        let mut uniform = move || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 40) as f32 / 16_777_216.0
        };
        let trajectory_count = groups * GROUP_SIZE;
        let step_count = trajectory_count * STEPS;
        for column in ALL {
            let count = match column.level {
                Level::Trajectory => trajectory_count,
                Level::Step => step_count,
                Level::Token => tokens,
                _ => continue,
            };
            if column.dtype == DType::F32 && table.get(column.name).is_none() {
                table.set(column.name, (0..count).map(|_| -2.0 * uniform()).collect::<Vec<f32>>());
            }
        }
        let outcome: Vec<f32> = (0..trajectory_count).map(|_| f32::from(uniform() < 0.4)).collect();
        let ends = |s: usize| s % STEPS == STEPS - 1;
        let reward: Vec<f32> = (0..step_count).map(|s| if ends(s) { outcome[s / STEPS] } else { 0.0 }).collect();
        table.put(SUCCESS, outcome.iter().map(|outcome| *outcome > 0.0).collect());
        table.put(RAW_OUTCOME, outcome.clone());
        table.put(OUTCOME, outcome);
        table.put(RAW_REWARD, reward.clone());
        table.put(REWARD, reward);
        table.put(TOKEN_REWARD, vec![0.0; tokens]);
        table.put(TERMINAL, (0..step_count).map(ends).collect());
        table.put(VALID_ACTION, (0..step_count).map(|_| uniform() < 0.95).collect());
        // Some twenty states in a group, so that most are met again.
        let state: Vec<u32> =
            (0..step_count).map(|s| (s / (GROUP_SIZE * STEPS) * 20) as u32 + (20.0 * uniform()) as u32).collect();
        let next = |s: usize| if ends(s) { accredit_plugin_api::NO_STATE } else { state[s + 1] };
        table.put(NEXT_STATE, (0..step_count).map(next).collect());
        table.put(STATE, state);
        // Thinking first, then a tag, an action and a tag.
        let kind = |token: usize| match token % TOKENS {
            0..=119 => 0,
            125..=147 => 1,
            _ => 2,
        };
        table.put(KIND, (0..tokens).map(kind).collect());
        let weight = vec![1.0; tokens];
        let all: Vec<usize> = (0..trajectory_count).collect();
        Denominators::of(&table, &weight).unwrap().put_into(&mut table, &weight, &all);
        table.put(WEIGHT, weight);
        Self { table, tokens }
    }

    /// What a hook writes, as the host hands it over.
    fn outputs(&self, hook: Hook, scheme: &Scheme) -> Table {
        let Needs { value_target, top_k, .. } = *scheme.needs();
        let mut outputs = Table::default();
        let kept = |outputs: &mut Table, name: &'static str| {
            outputs.set(name, self.table.get(name).unwrap().clone());
        };
        match hook {
            Hook::Select => {
                let trajectories = self.table.get(TRAJECTORY_STEPS.name()).map_or(0, Data::len) - 1;
                outputs.put(DECISION, vec![2; trajectories]);
                outputs.put(SAMPLE_MORE, vec![false]);
            }
            Hook::Shape => {
                kept(&mut outputs, REWARD.name());
                kept(&mut outputs, TOKEN_REWARD.name());
            }
            Hook::Advantage => {
                kept(&mut outputs, ADVANTAGE.name());
                if value_target {
                    kept(&mut outputs, VALUE_TARGET.name());
                }
            }
            Hook::Weigh => {
                kept(&mut outputs, ADVANTAGE.name());
                kept(&mut outputs, WEIGHT.name());
            }
            Hook::Refresh => kept(&mut outputs, ADVANTAGE.name()),
            Hook::Objective => {
                outputs.put(LOSS, vec![0.0]);
                outputs.put(D_LOGPROB, vec![0.0; self.tokens]);
                for (column, of) in [(D_ENTROPY, NEW_ENTROPY), (D_VALUE, NEW_VALUE)] {
                    if scheme.reads(of.name()) {
                        outputs.put(column, vec![0.0; self.tokens]);
                    }
                }
                if top_k > 0 {
                    outputs.put(D_TOP_K_LOGPROB, vec![0.0; top_k as usize * self.tokens]);
                }
            }
            Hook::Queries => {}
        }
        outputs
    }

    /// Columns that only some schemes read: counts of a part of the tokens, lists of the likeliest ones, and the results
    /// of their own queries.
    fn add_what_is_missing(&self, given: &mut Table, scheme: &Scheme) {
        let k = scheme.needs().top_k as usize;
        if scheme.needs().part.is_some() {
            for column in [PART_TOKENS, PART_STEPS, PART_ROWS] {
                given.put(column, vec![self.tokens as f64]);
            }
        }
        for read in &scheme.needs().reads {
            if given.get(&read.name).is_some() {
                continue;
            }
            let column = ALL.iter().find(|column| column.name == read.name);
            match column.map(|column| (column.level, column.dtype)) {
                Some((Level::Batch, DType::U32)) => given.set(read.name.clone(), vec![k as u32]),
                Some((Level::TopK, DType::U32)) => given.set(read.name.clone(), vec![1_u32; k * self.tokens]),
                Some((Level::TopK, _)) => given.set(read.name.clone(), vec![-5.0_f32; k * self.tokens]),
                None => given.set(read.name.clone(), vec![-1.0_f32; self.tokens]),
                Some(_) => {}
            }
        }
    }

    /// The inputs of a call, and the outputs as they stand before it. Outputs that are changed in place are no inputs at
    /// the same time.
    fn tables(&self, scheme: &Scheme, hook: Hook) -> (Table, Table) {
        let outputs = self.outputs(hook, scheme);
        let mut inputs = Table::default();
        for (name, data) in self.table.iter() {
            if name == STATUS.name() || outputs.get(name).is_none() || hook == Hook::Shape {
                inputs.set(name.to_owned(), data.clone());
            }
        }
        self.add_what_is_missing(&mut inputs, scheme);
        (inputs, outputs)
    }

    fn time(&self, scheme: &mut Scheme, hook: Hook, columns: &Columns) -> Result<Timed, String> {
        let (inputs, before) = self.tables(scheme, hook);
        let mut raw = Vec::new();
        inputs.raw(&mut raw);
        let mut outputs = before.clone();
        let (mut best, mut best_stream) = (f64::INFINITY, f64::INFINITY);
        let (mut calls, begin) = (0, Instant::now());
        // The first call is the first to touch its outputs, and long ones would be measured by it alone.
        while calls < LEAST_CALLS || begin.elapsed() < BUDGET {
            calls += 1;
            columns.restore(&before, &mut outputs);
            let start = Instant::now();
            scheme.call(hook, &raw, &mut outputs.raw_mut()).map_err(|error| error.to_string())?;
            best = best.min(start.elapsed().as_secs_f64());
            columns.restore(&before, &mut outputs);
            let start = Instant::now();
            columns.stream(&inputs, &mut outputs);
            best_stream = best_stream.min(start.elapsed().as_secs_f64());
        }
        scheme.take_metrics();
        if let (true, Some(Data::U32(state))) =
            (columns.read.iter().any(|name| name == STATE.name()), inputs.get(STATE.name()))
        {
            best -= grouping(state);
        }
        Ok(Timed { scheme: best, stream: best_stream, tokens: self.tokens })
    }
}

/// The columns that a hook reads and writes.
struct Columns {
    read: Vec<String>,
    written: Vec<String>,
    /// What is written is read first.
    in_place: bool,
}

impl Columns {
    /// Finds them by calling the hook. It reads a column that its scheme names if something else comes out without the
    /// column, or with other numbers in it; it writes what it changes.
    fn of(scheme: &mut Scheme, hook: Hook, case: &Case) -> Result<Self, String> {
        let (mut inputs, before) = case.tables(scheme, hook);
        let found = outcome(scheme, hook, &inputs, &before)?;
        let named: Vec<String> = inputs.names().filter(|name| scheme.reads(name)).map(str::to_owned).collect();
        let mut read = Vec::new();
        for name in named.into_iter().filter(|name| before.get(name).is_none()) {
            let data = inputs.remove(&name).unwrap();
            let mut differs = outcome(scheme, hook, &inputs, &before).as_ref() != Ok(&found);
            if let (false, Data::F32(numbers)) = (differs, &data) {
                inputs.set(name.clone(), numbers.iter().map(|number| number - 0.25).collect::<Vec<f32>>());
                differs = outcome(scheme, hook, &inputs, &before).as_ref() != Ok(&found);
            }
            inputs.set(name.clone(), data);
            if differs {
                read.push(name);
            }
        }
        let written = before.iter().filter(|(name, data)| found.0.get(name) != Some(data));
        let written = written.map(|(name, _)| name.to_owned()).collect();
        Ok(Self { read, written, in_place: matches!(hook, Hook::Shape | Hook::Weigh | Hook::Refresh) })
    }

    /// Puts back what a hook changes in place, so that every call does the same.
    fn restore(&self, before: &Table, outputs: &mut Table) {
        for name in self.written.iter().filter(|_| self.in_place) {
            if let (Some(Data::F32(from)), Some(Data::F32(to))) = (before.get(name), outputs.get_mut(name)) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Reads what is read once, and writes what is written once.
    fn stream(&self, inputs: &Table, outputs: &mut Table) {
        for data in self.read.iter().filter_map(|name| inputs.get(name)) {
            black_box(math::run(ReadOnce(data)));
        }
        for name in &self.written {
            if let Some(Data::F32(column)) = outputs.get_mut(name) {
                math::run(WriteOnce { column, in_place: self.in_place, number: black_box(1.0) });
            }
        }
    }
}

/// Seconds of sorting the steps of each group by state.
fn grouping(state: &[u32]) -> f64 {
    let mut best = f64::INFINITY;
    let mut keys: Vec<u64> = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        for states in state.chunks(GROUP_SIZE * STEPS) {
            keys.clear();
            keys.extend(states.iter().zip(0..).map(|(state, step): (_, u64)| u64::from(*state) << 32 | step));
            keys.sort_unstable();
            black_box(&keys);
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// The outputs and metrics of a call.
fn outcome(
    scheme: &mut Scheme,
    hook: Hook,
    inputs: &Table,
    before: &Table,
) -> Result<(Table, Vec<(String, f64)>), String> {
    let (mut raw, mut outputs) = (Vec::new(), before.clone());
    inputs.raw(&mut raw);
    let result = scheme.call(hook, &raw, &mut outputs.raw_mut()).map_err(|error| error.to_string());
    let metrics = scheme.take_metrics();
    result.map(|_| (outputs, metrics))
}

/// Looks at every element.
struct ReadOnce<'a>(&'a Data);

impl Kernel for ReadOnce<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        match self.0 {
            Data::F32(x) => x.iter().fold(0_u32, |sum, x| sum.wrapping_add(x.to_bits())).into(),
            Data::F64(x) => x.iter().fold(0, |sum, x| sum ^ x.to_bits()),
            Data::U8(x) => x.iter().fold(0_u8, |sum, x| sum.wrapping_add(*x)).into(),
            Data::U32(x) => x.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x)).into(),
            Data::U64(x) => x.iter().fold(0, |sum, x| sum ^ x),
            Data::Bool(x) => x.iter().map(|x| u64::from(*x)).sum(),
        }
    }
}

/// Writes every element; where that is in place, it is read first.
struct WriteOnce<'a> {
    column: &'a mut [f32],
    in_place: bool,
    number: f32,
}

impl Kernel for WriteOnce<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { column, in_place, number } = self;
        if in_place {
            for x in column {
                *x *= number;
            }
        } else {
            column.fill(number);
        }
    }
}
