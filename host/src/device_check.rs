//! Whether a device computes what the CPU computes, how fast it is, and whether a run goes on there where it stopped.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use accredit_core::rng::{Purpose, Stream};
use accredit_torch::{
    AdamW, Derivatives, Device, Family, Generation, Listed, Model, ModelConfig, Optimizer, Row, Sampling, Shape,
    SpecialIds, Trained, Wanted, matmul_rate, memory,
};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;

pub use accredit_torch::DType;

use crate::telemetry::names;

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it is.
    pub what: String,
    /// The number.
    pub number: f64,
    /// Its unit; empty for a difference.
    pub unit: &'static str,
    /// The most that it may be, where there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

impl Finding {
    fn measured(what: impl Into<String>, number: f64, unit: &'static str) -> Self {
        Self { what: what.into(), number, unit, limit: None }
    }

    fn difference(what: impl Into<String>, number: f64, limit: f64) -> Self {
        Self { what: what.into(), number, unit: "", limit: Some(limit) }
    }

    /// Whether it is as it should be. A number that is none is not.
    pub fn holds(&self) -> bool {
        self.limit.map_or(self.number.is_finite(), |limit| self.number <= limit)
    }
}

/// How large the model is whose speed is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// One million weights
    Small,
    /// The shape of Qwen2.5-0.5B, 494 million weights
    Full,
}

/// What the same small models of every family give on a device and on the CPU: log-probs of the whole vocabulary, the
/// gradient of some loss, and the log-probs after an update.
pub fn agreement(device: Device) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (name, family) in [("qwen2", Family::Qwen2), ("qwen3", Family::Qwen3), ("llama", Family::Llama)] {
        let shape = Shape {
            family,
            vocab_size: 96,
            hidden_size: 64,
            intermediate_size: 160,
            layers: 3,
            heads: 4,
            kv_heads: 2,
            initializer_range: 0.1,
            max_positions: 128,
            ..Shape::default()
        };
        let make = |device, dtype| -> Result<Model> {
            let model = Model::create(ModelConfig::new(shape.clone(), SpecialIds::default())?, 7, Device::CPU)?;
            Ok(model.arranged(device, dtype, &Trained::ALL, Path::new(""), 0)?)
        };
        let expected = numbers_of(&make(Device::CPU, DType::F32)?)?;
        let found = numbers_of(&make(device, DType::F32)?)?;
        let mut compare = |what: &str, found: &[f32], expected: &[f32], limit| -> Result<()> {
            findings.push(Finding::difference(format!("{name}, {what}"), largest(found, expected)?, limit));
            Ok(())
        };
        compare("float32: log-probs of the vocabulary", &found.before, &expected.before, 1e-3)?;
        compare("float32: log-probs after an update", &found.after, &expected.after, 1e-3)?;
        let gradient = distance(&found.gradient, &expected.gradient)?;
        let half = numbers_of(&make(device, DType::BF16)?)?;
        let of_half = distance(&half.gradient, &expected.gradient)?;
        compare("bfloat16: log-probs of the vocabulary", &half.before, &expected.before, 0.25)?;
        findings.push(Finding::difference(format!("{name}, float32: gradient, relative"), gradient, 1e-3));
        findings.push(Finding::difference(format!("{name}, bfloat16: gradient, relative"), of_half, 0.1));
    }
    Ok(findings)
}

struct Numbers {
    before: Vec<f32>,
    gradient: Vec<f32>,
    after: Vec<f32>,
}

/// Changes the model.
fn numbers_of(model: &Model) -> Result<Numbers> {
    let vocabulary = model.config().shape().vocab_size;
    let rows: Vec<Vec<u32>> = (0..6).map(|row| ids(row, 8 + 17 * row, vocabulary)).collect();
    let targets: Vec<Vec<u32>> = rows.iter().map(|row| (1..row.len() as u32).collect()).collect();
    let rows: Vec<Row> = rows.iter().zip(&targets).map(|(tokens, targets)| Row { tokens, targets }).collect();
    let count: usize = targets.iter().map(Vec::len).sum();
    let all: Vec<u32> = (0..count).flat_map(|_| 0..vocabulary as u32).collect();
    let listed = Listed { k: vocabulary, ids: &all };
    let fresh = model.forward_listed(&rows, 1.0, Wanted { entropy: true, ..Wanted::default() }, Some(listed))?;
    let before = fresh.listed().to_vec();
    let noise = Stream::new(1, Purpose::Other);
    let draw = |stream: Stream| -> Vec<f32> {
        (0..count as u64).map(|position| (stream.uniform(position) - 0.5) as f32 / count as f32).collect()
    };
    let (by_logprob, by_entropy) = (draw(noise.with(0)), draw(noise.with(1)));
    let mut optimizer = Optimizer::new(model, AdamW::default())?;
    fresh.backward(&Derivatives { logprob: &by_logprob, entropy: Some(&by_entropy), listed: None })?;
    let gradient = model.gradient()?;
    optimizer.step(1e-3)?;
    let after = model.forward_listed(&rows, 1.0, Wanted::default(), Some(listed))?.listed().to_vec();
    Ok(Numbers { before, gradient, after })
}

fn ids(row: usize, length: usize, vocabulary: usize) -> Vec<u32> {
    let stream = Stream::new(0, Purpose::Other).with(row as u64);
    (0..length as u64).map(|position| stream.below(position, vocabulary as u64) as u32).collect()
}

/// The largest difference; NaN where a number is none.
fn largest(found: &[f32], expected: &[f32]) -> Result<f64> {
    same_length(found, expected)?;
    let differences = found.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs()));
    Ok(differences.fold(0.0, |most: f64, now| if now.is_nan() { now } else { most.max(now) + 0.0 * most }))
}

/// The length of the difference, of that of what is expected.
fn distance(found: &[f32], expected: &[f32]) -> Result<f64> {
    same_length(found, expected)?;
    let square = |number: f64| number * number;
    let (mut of_difference, mut of_expected) = (0.0, 0.0);
    for (a, b) in found.iter().zip(expected) {
        of_difference += square(f64::from(a - b));
        of_expected += square(f64::from(*b));
    }
    Ok((of_difference / of_expected).sqrt())
}

fn same_length(found: &[f32], expected: &[f32]) -> Result<()> {
    if found.len() != expected.len() || found.is_empty() {
        bail!("{} numbers came back, and {} were expected", found.len(), expected.len());
    }
    Ok(())
}

/// How fast a model of random weights samples and trains, beside the fastest product of matrices, and the memory it takes.
pub fn speed(device: Device, dtype: DType, size: Size) -> Result<Vec<Finding>> {
    let (shape, conversations, new_tokens, rows, row_tokens, matrix) = match size {
        Size::Small => {
            let shape = Shape { intermediate_size: 512, layers: 4, ..Shape::default() };
            (shape, 16, 32, 4, 128, 512)
        }
        Size::Full => {
            let shape = Shape {
                vocab_size: 151_936,
                hidden_size: 896,
                intermediate_size: 4864,
                layers: 24,
                heads: 14,
                kv_heads: 2,
                max_positions: 32_768,
                rope_theta: 1e6,
                ..Shape::default()
            };
            (shape, 256, 256, 16, 1024, 8192)
        }
    };
    let rate = matmul_rate(device, dtype, matrix)?;
    let model = Model::create(ModelConfig::new(shape.clone(), SpecialIds::default())?, 1, Device::CPU)?;
    let model = model.arranged(device, dtype, &Trained::ALL, Path::new(""), 0)?.with_gradient_checkpointing(true);
    let weights = model.weight_count() as f64;
    let mut findings = vec![
        Finding::measured(format!("weights, in {dtype}"), weights / 1e6, "million"),
        Finding::measured("best product of two matrices", rate / 1e12, "TFLOP/s"),
    ];

    let prompts: Vec<Vec<u32>> = (0..conversations).map(|row| ids(row, 64, shape.vocab_size)).collect();
    let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let noise: Vec<Stream> = (0..conversations).map(|row| Stream::new(0, Purpose::Sampling).with(row as u64)).collect();
    let generation = Generation {
        prompts: &prompts,
        noise: &noise,
        max_new_tokens: &vec![new_tokens; conversations],
        stop: &[],
        sampling: Sampling::default(),
        threads: 1,
        cancelled: None,
    };
    let sampler = model.sampler()?;
    let (answers, per_second) = fastest(conversations * new_tokens, || Ok(sampler.generate(&generation)?))?;
    let what = format!("sampling, {conversations} at once, {new_tokens} tokens after 64");
    findings.push(Finding::measured(what, per_second, "tokens/s"));
    findings.push(mismatch(&model, &prompts, &answers)?);
    drop(sampler);

    let batch: Vec<Vec<u32>> = (0..rows).map(|row| ids(row, row_tokens, shape.vocab_size)).collect();
    let targets: Vec<u32> = (1..row_tokens as u32).collect();
    let batch: Vec<Row> = batch.iter().map(|tokens| Row { tokens, targets: &targets }).collect();
    let by_logprob = vec![-1.0 / (rows * targets.len()) as f32; rows * targets.len()];
    let mut optimizer = Optimizer::new(&model, AdamW::default())?;
    let (_, per_second) = fastest(rows * row_tokens, || {
        optimizer.zero_grad()?;
        // A row each, as micro-batches are cut.
        for (row, by_logprob) in batch.iter().zip(by_logprob.chunks(targets.len())) {
            let fresh = model.forward(std::slice::from_ref(row), 1.0, Wanted::default())?;
            fresh.backward(&Derivatives { logprob: by_logprob, ..Derivatives::default() })?;
        }
        Ok(optimizer.step(1e-6)?)
    })?;
    let what = format!("training, {rows} rows of {row_tokens} tokens, layers computed twice");
    findings.push(Finding::measured(what, per_second, "tokens/s"));
    // Forward, back twice as much; the second forward is none of the useful work.
    let share = 100.0 * 6.0 * weights * per_second / rate;
    findings.push(Finding::measured("useful arithmetic of training, without attention, of the best", share, "%"));
    if let Some(memory) = memory(device) {
        let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        findings.push(Finding::measured("memory taken", gibibytes(memory.taken), "GiB"));
        findings.push(Finding::measured("memory there is", gibibytes(memory.all), "GiB"));
    }
    Ok(findings)
}

/// What sampling and training say of the same tokens.
fn mismatch(model: &Model, prompts: &[&[u32]], answers: &[accredit_torch::Generated]) -> Result<Finding> {
    let some = prompts.iter().zip(answers).take(16);
    let rows: Vec<Vec<u32>> = some.clone().map(|(prompt, answer)| [prompt, &answer.tokens[..]].concat()).collect();
    let targets: Vec<Vec<u32>> =
        some.clone().map(|(prompt, answer)| (prompt.len() as u32..).take(answer.tokens.len()).collect()).collect();
    let rows: Vec<Row> = rows.iter().zip(&targets).map(|(tokens, targets)| Row { tokens, targets }).collect();
    let scored = model.score(&rows, Wanted { logprob: true, ..Wanted::default() }, 1.0, 2048)?.logprob;
    let sampled: Vec<f32> = some.flat_map(|(_, answer)| answer.logprobs.iter().copied()).collect();
    same_length(&scored, &sampled)?;
    let mean = scored.iter().zip(&sampled).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / sampled.len() as f64;
    Ok(Finding::difference("log-probs of sampling and training, mean difference", mean, 0.05))
}

/// Runs something three times, and gives its last result and `units` a second of the fastest.
fn fastest<T>(units: usize, mut work: impl FnMut() -> Result<T>) -> Result<(T, f64)> {
    let mut best = 0.0_f64;
    let mut timed = || {
        let start = Instant::now();
        let result = work()?;
        best = best.max(units as f64 / start.elapsed().as_secs_f64());
        anyhow::Ok(result)
    };
    timed()?;
    timed()?;
    let result = timed()?;
    Ok((result, best))
}

/// Trains a configuration for three iterations, and the last of them once more from the checkpoint before it, with this
/// program as it is called from a shell. Numbers of one device come back to the last bit on a CPU; kernels of a GPU may
/// add in another order each time.
pub fn resumption(config: &Path, device: Device) -> Result<Vec<Finding>> {
    let folder = tempfile::tempdir().context("no folder for the run can be made")?;
    let program = std::env::current_exe().context("this program does not know where it is")?;
    let run = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {}", program.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last: Vec<&str> = said.lines().rev().take(12).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            bail!("`accredit {}` failed ({}):\n{}", arguments.join(" "), output.status, last.join("\n"));
        }
        Ok(())
    };
    let config = config.to_str().context("the path of the configuration is not UTF-8")?;
    let sets = [
        format!("run.folder={}", folder.path().display()),
        format!("model.device={device}"),
        "iterations=3".to_owned(),
        "checkpoint.every=1".to_owned(),
        "checkpoint.keep=4".to_owned(),
        "evaluation.every=0".to_owned(),
    ];
    let mut arguments = vec!["train", config, "--run-name", "check"];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set.as_str()]));
    let start = Instant::now();
    run(&arguments)?;
    let seconds = start.elapsed().as_secs_f64();
    let folder = folder.path().join("check");
    let first = last_metrics(&folder)?;
    let last = folder.join("checkpoints/iteration_000003");
    fs::remove_dir_all(&last).with_context(|| format!("cannot remove {}", last.display()))?;
    run(&["resume", folder.to_str().context("the path of the run is not UTF-8")?])?;
    let again = last_metrics(&folder)?;

    let number = |name: &str| first.get(name).copied().unwrap_or(f64::NAN);
    let mut findings = vec![
        Finding::measured("three iterations, with all that goes before", seconds, "s"),
        Finding::measured("sampling in the run", number("perf/sampled_tokens_per_second"), "tokens/s"),
        Finding::measured("training in the run", number("perf/trained_tokens_per_second"), "tokens/s"),
    ];
    let what = "the last iteration again from a checkpoint, largest difference";
    let limit = if device == Device::CPU { 0.0 } else { f64::INFINITY };
    findings.push(Finding::difference(what, furthest(&first, &again)?, limit));
    Ok(findings)
}

/// The numbers of a run's last iteration.
fn last_metrics(run: &Path) -> Result<BTreeMap<String, f64>> {
    let file: PathBuf = run.join("metrics.jsonl");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = text.lines().last().with_context(|| format!("{} is empty", file.display()))?;
    let value: Value = serde_json::from_str(line).with_context(|| format!("{} is broken", file.display()))?;
    let fields = value.as_object().with_context(|| format!("{} is broken", file.display()))?;
    Ok(fields.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect())
}

/// The largest difference of numbers that do not tell the time, relative where they are large.
fn furthest(first: &BTreeMap<String, f64>, again: &BTreeMap<String, f64>) -> Result<f64> {
    let mut most = 0.0_f64;
    for (name, a) in first.iter().filter(|(name, _)| !names::is_timing(name)) {
        let Some(b) = again.get(name) else { bail!("the run that went on has no `{name}`") };
        most = most.max((a - b).abs() / a.abs().max(1.0));
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_are_seen() {
        let numbers = [1.0, -2.0, 3.0];
        assert_eq!(largest(&numbers, &numbers).unwrap(), 0.0);
        assert_eq!(largest(&[1.0, -2.5, 3.0], &numbers).unwrap(), 0.5);
        assert!((distance(&[1.0, -2.0, 4.0], &numbers).unwrap() - (1.0_f64 / 14.0).sqrt()).abs() < 1e-12);
        for broken in [[f32::NAN, -2.0, 3.0], [1.0, -2.0, f32::NAN]] {
            let found = largest(&broken, &numbers).unwrap();
            assert!(!Finding::difference("x", found, 1.0).holds(), "{found}");
            let found = distance(&broken, &numbers).unwrap();
            assert!(!Finding::difference("x", found, 1.0).holds(), "{found}");
        }
        assert!(largest(&numbers[..2], &numbers).is_err() && distance(&[], &[]).is_err());
    }

    #[test]
    fn a_finding_holds_up_to_its_limit() {
        assert!(Finding::difference("x", 0.5, 0.5).holds() && !Finding::difference("x", 0.6, 0.5).holds());
        assert!(Finding::measured("x", 1e9, "s").holds() && !Finding::measured("x", f64::NAN, "s").holds());
    }

    #[test]
    fn runs_are_compared_but_for_their_time() {
        let run = |loss: f64, seconds: f64| {
            BTreeMap::from([("actor/loss".to_owned(), loss), ("timing_s/step".to_owned(), seconds)])
        };
        assert_eq!(furthest(&run(0.5, 1.0), &run(0.5, 9.0)).unwrap(), 0.0);
        assert_eq!(furthest(&run(0.5, 1.0), &run(0.25, 1.0)).unwrap(), 0.25);
        assert!(furthest(&run(0.5, 1.0), &BTreeMap::new()).is_err());
    }

    #[test]
    fn the_cpu_agrees_with_itself() {
        accredit_torch::set_threads(1);
        let findings = agreement(Device::CPU).unwrap();
        assert_eq!(findings.len(), 15);
        for finding in findings {
            assert!(finding.holds(), "{finding:?}");
            assert!(!finding.what.contains("float32") || finding.what.contains("bfloat16") || finding.number == 0.0);
            assert!(!finding.what.contains("bfloat16") || finding.number > 1e-4, "{finding:?}");
        }
    }
}
