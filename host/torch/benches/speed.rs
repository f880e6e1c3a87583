//! Tokens per second of sampling and of training, one thread, on a tiny model of about one million weights.
//!
//! `cargo bench -p accredit-torch` prints medians. `host/benches/compare.sh` runs it beside PyTorch, a round each in
//! turn, with `-- sampling FOLDER ROUNDS` and `-- training FOLDER ROUNDS`, which print one number a round;
//! `-- weights FOLDER` writes the model for the other side.

#![expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

use std::path::Path;
use std::time::Instant;

use accredit_core::rng::{Purpose, Stream};
use accredit_torch::{
    AdamW, Derivatives, Device, Generation, Model, ModelConfig, Optimizer, Result, Row, Sampling, Shape, SpecialIds,
    Wanted, set_threads,
};

const VOCABULARY: u64 = 512;

const PROMPTS: usize = 64;
const PROMPT_TOKENS: usize = 32;
const NEW_TOKENS: usize = 128;

const ROWS: usize = 16;
const ROW_TOKENS: usize = 128;

fn main() -> Result<()> {
    set_threads(1);
    // cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let load = |folder: &str| Model::load(Path::new(folder), Device::CPU);
    match arguments.as_slice() {
        ["weights", folder] => new_model()?.save(Path::new(folder))?,
        ["sampling", folder, rounds] => print_all(&sampling(&load(folder)?, parse(rounds))?),
        ["training", folder, rounds] => print_all(&training(load(folder)?, parse(rounds))?),
        _ => {
            println!(
                "sampling, {PROMPTS} prompts, {NEW_TOKENS} new tokens: {:.0} tokens/s",
                median(sampling(&new_model()?, 7)?)
            );
            println!(
                "training, {ROWS} rows of {ROW_TOKENS} tokens: {:.0} tokens/s",
                median(training(new_model()?, 20)?)
            );
        }
    }
    Ok(())
}

fn new_model() -> Result<Model> {
    let shape = Shape { vocab_size: VOCABULARY as usize, intermediate_size: 512, ..Shape::default() };
    Model::create(ModelConfig::new(shape, SpecialIds::default())?, 1, Device::CPU)
}

fn random_ids(rows: usize, length: usize) -> Vec<Vec<u32>> {
    let id = |row: usize, i: usize| Stream::new(0, Purpose::Other).with(row as u64).below(i as u64, VOCABULARY) as u32;
    (0..rows).map(|row| (0..length).map(|i| id(row, i)).collect()).collect()
}

/// Sampled tokens per second of each round, with the preparation of the weights, after a round that is not counted.
fn sampling(model: &Model, rounds: usize) -> Result<Vec<f64>> {
    let prompts = random_ids(PROMPTS, PROMPT_TOKENS);
    let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let round = |round: usize| {
        let stream = Stream::new(0, Purpose::Sampling).with(round as u64);
        let noise: Vec<Stream> = (0..PROMPTS as u64).map(|row| stream.with(row)).collect();
        let start = Instant::now();
        let answers = model.sampler()?.generate(&Generation {
            prompts: &prompts,
            noise: &noise,
            max_new_tokens: &[NEW_TOKENS; PROMPTS],
            stop: &[],
            sampling: Sampling::default(),
            threads: 1,
            cancelled: None,
        })?;
        let tokens: usize = answers.iter().map(|answer| answer.tokens.len()).sum();
        Ok(tokens as f64 / start.elapsed().as_secs_f64())
    };
    round(0)?;
    (1..=rounds).map(round).collect()
}

/// Tokens per second of each step (forward, backward, AdamW), after three steps that are not counted.
fn training(model: Model, rounds: usize) -> Result<Vec<f64>> {
    let model = model.with_gradients()?;
    let mut optimizer = Optimizer::new(&model, AdamW { max_grad_norm: f64::INFINITY, ..AdamW::default() })?;
    let tokens = random_ids(ROWS, ROW_TOKENS);
    let targets: Vec<u32> = (1..ROW_TOKENS as u32).collect();
    let rows: Vec<Row> = tokens.iter().map(|tokens| Row { tokens, targets: &targets }).collect();
    let by_logprob = vec![-1.0 / (ROWS * targets.len()) as f32; ROWS * targets.len()];
    let mut step = || {
        let start = Instant::now();
        optimizer.zero_grad()?;
        let fresh = model.forward(&rows, 1.0, Wanted::default())?;
        fresh.backward(&Derivatives { logprob: &by_logprob, ..Derivatives::default() })?;
        optimizer.step(1e-4)?;
        Ok((ROWS * ROW_TOKENS) as f64 / start.elapsed().as_secs_f64())
    };
    for _ in 0..3 {
        step()?;
    }
    (0..rounds).map(|_| step()).collect()
}

fn parse(rounds: &str) -> usize {
    rounds.parse().expect("ROUNDS is a number")
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn print_all(numbers: &[f64]) {
    for number in numbers {
        println!("{number:.1}");
    }
}
