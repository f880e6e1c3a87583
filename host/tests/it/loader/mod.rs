//! The loader: what it refuses, what it loads, and what a scheme that goes wrong does to the program.

mod bad_files;
mod misbehaviour;
mod new_project;
mod search;
mod several;
mod versions;

use std::path::Path;

use accredit::plugin::{Library, Scheme, SchemeError, Services};
use accredit_plugin_api::{
    Hook, Layout, NO_STATE,
    columns::{
        ADVANTAGE, D_ENTROPY, D_LOGPROB, D_VALUE, DECISION, LOSS, NEW_LOGPROB, NEXT_STATE, OUTCOME, REWARD,
        SAMPLE_MORE, TOKEN_REWARD, TOTAL_TOKENS, WEIGHT,
    },
    host::Table,
    testing::TestBatch,
};
use serde_json::{Value, json};

/// One group of two episodes, with steps of 2 and 1 tokens and a step of 3 tokens; outcomes 1 and 0.
pub fn batch() -> TestBatch {
    let mut batch = TestBatch::new(Layout::Trajectory, &[&[&[2, 1], &[3]]]);
    let tokens = batch.tokens();
    batch.set(OUTCOME, vec![1.0, 0.0]);
    batch.set(NEXT_STATE, vec![0, NO_STATE, NO_STATE]);
    batch.set(ADVANTAGE, vec![1.0; tokens]);
    batch.set(NEW_LOGPROB, vec![-1.0; tokens]);
    batch.set(TOTAL_TOKENS, vec![tokens as f64]);
    batch
}

/// The outputs of a hook, filled as the host fills them.
pub fn outputs(hook: Hook) -> Table {
    let (tokens, steps, trajectories) = (6, 3, 2);
    let unwritten = || vec![f32::NAN; tokens];
    let mut table = Table::default();
    match hook {
        Hook::Select => {
            table.put(DECISION, vec![2; trajectories]);
            table.put(SAMPLE_MORE, vec![false]);
        }
        Hook::Queries => {}
        Hook::Shape => {
            table.put(REWARD, vec![0.0; steps]);
            table.put(TOKEN_REWARD, vec![0.0; tokens]);
        }
        Hook::Advantage => table.put(ADVANTAGE, unwritten()),
        Hook::Weigh => {
            table.put(ADVANTAGE, vec![1.0; tokens]);
            table.put(WEIGHT, vec![1.0; tokens]);
        }
        Hook::Refresh => table.put(ADVANTAGE, vec![1.0; tokens]),
        Hook::Objective => {
            table.put(LOSS, vec![f64::NAN]);
            for column in [D_LOGPROB, D_ENTROPY, D_VALUE] {
                table.put(column, unwritten());
            }
        }
    }
    table
}

/// Calls a hook on [`batch`], and gives the outputs back.
pub fn call(scheme: &mut Scheme, hook: Hook) -> Result<Table, SchemeError> {
    let batch = batch();
    let mut inputs = Vec::new();
    batch.table().raw(&mut inputs);
    let mut outputs = outputs(hook);
    scheme.call(hook, &inputs, &mut outputs.raw_mut())?;
    Ok(outputs)
}

pub fn advantage(scheme: &mut Scheme) -> Vec<f32> {
    let outputs = call(scheme, Hook::Advantage).unwrap();
    outputs.f32(ADVANTAGE).unwrap().to_vec()
}

/// A scheme whose label is its own name.
pub fn scheme(library: &Library, name: &str, params: &Value) -> Scheme {
    Scheme::build(library, name, name, params, Services::default()).unwrap()
}

pub fn misbehave() -> Library {
    Library::load(&crate::plugins::library("accredit-misbehave"), None).unwrap()
}

/// Holds that a library's scheme `harmless` is loaded and works.
pub fn check_harmless(path: &Path) {
    let library = Library::load(path, None).unwrap();
    let mut scheme = scheme(&library, "harmless", &json!({}));
    assert_eq!(advantage(&mut scheme), [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
}

/// Where a library's manifest begins in its file.
pub fn manifest_offset(bytes: &[u8]) -> usize {
    use accredit_plugin_api::manifest::Manifest;
    let mut start = Manifest::MAGIC.to_vec();
    start.extend((size_of::<Manifest>() as u32).to_ne_bytes());
    find(bytes, &start)
}

/// The only place of some bytes in a file.
pub fn find(bytes: &[u8], wanted: &[u8]) -> usize {
    let mut places =
        bytes.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted).map(|(place, _)| place);
    let place = places.next().unwrap();
    assert_eq!(places.next(), None, "{wanted:?} stands more than once");
    place
}
