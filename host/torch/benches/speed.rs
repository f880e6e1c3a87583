//! Tokens per second of sampling and of training, one thread, on a tiny model (one million weights) and on a middle one
//! (vocabulary 32,000, width 512, 8 layers).
//!
//! `cargo bench -p accredit-torch` prints medians for the tiny one. `host/benches/compare.sh` runs it beside PyTorch, a
//! round each in turn: `-- WORK FOLDER ROUNDS` prints one number a round, and `-- weights tiny|middle FOLDER` writes the
//! model for the other side. The kinds of work:
//!
//! | | |
//! | --- | --- |
//! | `sampling` | 64 prompts of 32 tokens, 128 new tokens each |
//! | `uneven` | 256 prompts of 32 tokens, lengths geometric with mean 40 and at most 256, 64 at once |
//! | `turns` | 64 conversations in groups of 8 with one prompt of 256 tokens, 5 turns of 32 new tokens, 32 tokens between |
//! | `training` | a step on 16 rows of 128 tokens, all of them trained |
//! | `rollouts` | a step on 32 rows: a prompt of 64 tokens, and responses as in `uneven`, which alone are trained |
//!
//! Training prints the peak of resident memory in MiB behind each number. `-- scaling tiny|middle` prints time and
//! arithmetic per token, over lengths and over batches.

#![expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]

use std::path::Path;
use std::time::Instant;

use accredit_core::rng::{Purpose, Stream};
use accredit_torch::{
    AdamW, Ask, Derivatives, Device, Model, ModelConfig, Optimizer, Result, Row, Sampling, Shape, SpecialIds, Wanted,
    set_threads,
};

const AT_ONCE: usize = 64;
const GROUP: usize = 8;
const TURNS: usize = 5;

fn main() -> Result<()> {
    set_threads(1);
    // cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["weights", size, folder] => new_model(size)?.save(Path::new(folder)),
        ["scaling", size] => scaling(size),
        [work, folder, rounds] => {
            let model = Model::load(Path::new(folder), Device::CPU)?;
            for number in run(work, model, rounds.parse().expect("ROUNDS is a number"))? {
                println!("{number:.1} {}", peak_memory());
            }
            Ok(())
        }
        _ => {
            for work in ["sampling", "uneven", "turns", "training", "rollouts"] {
                let mut numbers = run(work, new_model("tiny")?, 5)?;
                numbers.sort_by(f64::total_cmp);
                println!("{work}: {:.0} tokens/s", numbers[numbers.len() / 2]);
            }
            Ok(())
        }
    }
}

fn new_model(size: &str) -> Result<Model> {
    let shape = match size {
        "middle" => Shape {
            vocab_size: 32_000,
            hidden_size: 512,
            intermediate_size: 1408,
            layers: 8,
            heads: 8,
            kv_heads: 4,
            ..Shape::default()
        },
        _ => Shape { intermediate_size: 512, ..Shape::default() },
    };
    Model::create(ModelConfig::new(shape, SpecialIds::default())?, 1, Device::CPU)
}

/// Tokens per second of each round, after one that is not counted.
fn run(work: &str, model: Model, rounds: usize) -> Result<Vec<f64>> {
    let vocabulary = model.config().shape().vocab_size as u64;
    let mut round: Box<dyn FnMut(usize) -> Result<usize>> = match work {
        "sampling" => Box::new(move |_| sampling(&model, &random_ids(AT_ONCE, 32, vocabulary), &[128; AT_ONCE])),
        "uneven" => {
            Box::new(move |_| sampling(&model, &random_ids(4 * AT_ONCE, 32, vocabulary), &lengths(4 * AT_ONCE)))
        }
        "turns" => Box::new(move |_| turns(&model)),
        "training" => {
            let rows = random_ids(16, 128, vocabulary);
            training(model, rows, &[1; 16])?
        }
        "rollouts" => {
            let all = random_ids(32, 64 + 256, vocabulary);
            let rows = all.into_iter().zip(lengths(32)).map(|(row, length)| row[..64 + length].to_vec()).collect();
            training(model, rows, &[64; 32])?
        }
        other => panic!("no such work: {other}"),
    };
    round(0)?;
    let timed = |number| {
        let start = Instant::now();
        let tokens = round(number)?;
        Ok(tokens as f64 / start.elapsed().as_secs_f64())
    };
    (1..=rounds).map(timed).collect()
}

fn random_ids(rows: usize, length: usize, vocabulary: u64) -> Vec<Vec<u32>> {
    let id = |row: usize, i: usize| Stream::new(0, Purpose::Other).with(row as u64).below(i as u64, vocabulary) as u32;
    (0..rows).map(|row| (0..length).map(|i| id(row, i)).collect()).collect()
}

/// Geometric with mean 40, at most 256: the quantiles of the distribution in a mixed order, the same for both sides.
fn lengths(count: usize) -> Vec<usize> {
    let quantile = |i: usize| {
        let share = (i as f64 + 0.5) / count as f64;
        ((1.0 - share).ln() / (1.0 - 1.0 / 40.0_f64).ln()).ceil().clamp(1.0, 256.0) as usize
    };
    (0..count).map(|i| quantile((i * 37) % count)).collect()
}

fn sampling(model: &Model, prompts: &[Vec<u32>], max_new_tokens: &[usize]) -> Result<usize> {
    let sampler = model.sampler()?;
    let mut tokens = 0;
    let mut session = sampler.session(AT_ONCE, Sampling::default(), &[], None)?;
    for (conversation, (row, max_new_tokens)) in prompts.iter().zip(max_new_tokens).enumerate() {
        let noise = Stream::new(0, Purpose::Sampling).with(conversation as u64);
        session.ask(Ask { conversation, row, noise, max_new_tokens: *max_new_tokens })?;
    }
    while session.busy() > 0 {
        for (conversation, answer) in session.step()? {
            tokens += answer.tokens.len();
            session.close(conversation);
        }
    }
    Ok(tokens)
}

fn turns(model: &Model) -> Result<usize> {
    let vocabulary = model.config().shape().vocab_size as u64;
    let prompts = random_ids(AT_ONCE / GROUP, 256, vocabulary);
    let between = random_ids(AT_ONCE, 32, vocabulary);
    let sampler = model.sampler()?;
    let mut session = sampler.session(AT_ONCE, Sampling::default(), &[], None)?;
    let mut rows: Vec<Vec<u32>> = (0..AT_ONCE).map(|conversation| prompts[conversation / GROUP].clone()).collect();
    let mut turns = [0; AT_ONCE];
    let ask = |conversation: usize, row: &[u32], turn: usize, session: &mut accredit_torch::Session| {
        let noise = Stream::new(0, Purpose::Sampling).with(conversation as u64).with(turn as u64);
        session.ask(Ask { conversation, row, noise, max_new_tokens: 32 })
    };
    for (conversation, row) in rows.iter().enumerate() {
        ask(conversation, row, 0, &mut session)?;
    }
    let mut tokens = 0;
    while session.busy() > 0 {
        for (conversation, answer) in session.step()? {
            tokens += answer.tokens.len();
            turns[conversation] += 1;
            if turns[conversation] < TURNS {
                rows[conversation].extend(answer.tokens.iter().chain(&between[conversation]));
                ask(conversation, &rows[conversation], turns[conversation], &mut session)?;
            } else {
                session.close(conversation);
            }
        }
    }
    Ok(tokens)
}

/// A training step on these rows, in which the tokens from an index on are trained. Counts all tokens.
fn training(model: Model, rows: Vec<Vec<u32>>, trained_from: &[u32]) -> Result<Box<dyn FnMut(usize) -> Result<usize>>> {
    let targets: Vec<Vec<u32>> =
        rows.iter().zip(trained_from).map(|(row, from)| (*from..row.len() as u32).collect()).collect();
    let count: usize = targets.iter().map(Vec::len).sum();
    let model = model.with_gradients()?;
    let mut optimizer = Optimizer::new(&model, AdamW { max_grad_norm: f64::INFINITY, ..AdamW::default() })?;
    Ok(Box::new(move |_| {
        // Longest first, so that rows of like lengths stand together.
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|row| std::cmp::Reverse(rows[*row].len()));
        let batch: Vec<Row> = order.iter().map(|row| Row { tokens: &rows[*row], targets: &targets[*row] }).collect();
        optimizer.zero_grad()?;
        let fresh = model.forward(&batch, 1.0, Wanted::default())?;
        let by_logprob = vec![-1.0 / count as f32; count];
        fresh.backward(&Derivatives { logprob: &by_logprob, ..Derivatives::default() })?;
        optimizer.step(1e-4)?;
        Ok(rows.iter().map(Vec::len).sum())
    }))
}

/// Prints a table: how the time of a token goes with what it needs, when rows get longer or more.
fn scaling(size: &str) -> Result<()> {
    println!(
        "| | rows | tokens of a row | us a token | Mflop a token | Gflop/s |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    for (rows, length) in [(64, 64), (16, 256), (4, 1024), (2, 2048), (1, 128), (4, 128), (16, 128), (64, 128)] {
        let model = new_model(size)?;
        // A way back is twice the way there, and attention computes its scores once more.
        let (matrices, attention) = arithmetic(&model, length as f64, length as f64);
        let flops = 3.0 * matrices + 3.5 * attention;
        let vocabulary = model.config().shape().vocab_size as u64;
        let mut step = training(model, random_ids(rows, length, vocabulary), &vec![1; rows])?;
        print_scaling("training", rows, length, flops, || step(0))?;
    }
    for (rows, prompt) in [(16, 32), (16, 224), (16, 960), (1, 32), (4, 32), (64, 32), (256, 32)] {
        let model = new_model(size)?;
        let (matrices, attention) = arithmetic(&model, f64::from(prompt + 64), 64.0);
        let flops = matrices + attention;
        let prompts = random_ids(rows, prompt as usize, model.config().shape().vocab_size as u64);
        let sampler = model.sampler()?;
        print_scaling("sampling 64 tokens", rows, prompt as usize + 64, flops, || {
            let mut session = sampler.session(rows, Sampling::default(), &[], None)?;
            for (conversation, row) in prompts.iter().enumerate() {
                let noise = Stream::new(0, Purpose::Sampling).with(conversation as u64);
                session.ask(Ask { conversation, row, noise, max_new_tokens: 64 })?;
            }
            while session.busy() > 0 {
                session.step()?.iter().for_each(|(conversation, _)| session.close(*conversation));
            }
            Ok(0)
        })?;
    }
    Ok(())
}

/// Additions and multiplications of a way forward through a row, of whose tokens so many have logits: those of products
/// with weights, and those of attention.
fn arithmetic(model: &Model, length: f64, logits: f64) -> (f64, f64) {
    let shape = model.config().shape();
    let head = (shape.vocab_size * shape.hidden_size) as f64;
    let body = model.weight_count() as f64 - head;
    let attention = 4.0 * (shape.layers * shape.heads * shape.head_dim()) as f64;
    (2.0 * body * length + 2.0 * head * logits, attention * length * length / 2.0)
}

fn print_scaling(
    what: &str,
    rows: usize,
    length: usize,
    flops: f64,
    mut work: impl FnMut() -> Result<usize>,
) -> Result<()> {
    work()?;
    let (mut best, mut rounds) = (f64::INFINITY, 0);
    let begin = Instant::now();
    while rounds < 3 || begin.elapsed().as_secs_f64() < 1.0 {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
        rounds += 1;
    }
    let (time, each) = (best / (rows * length) as f64, flops / length as f64);
    println!("| {what} | {rows} | {length} | {:.0} | {:.1} | {:.0} |", time * 1e6, each / 1e6, each / time / 1e9);
    Ok(())
}

/// The peak of this process's resident memory in MiB; 0 where the system does not say it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) / 1024
}
