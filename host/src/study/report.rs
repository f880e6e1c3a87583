//! What came out of a study: tables in Markdown, and the numbers of every run as JSON beside them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::{Study, interval::Interval, runs::run_name};
use crate::{
    config::{Loaded, near::nearest},
    telemetry::{Metrics, RunFolder, metrics, names},
};

/// One run, in numbers.
#[derive(Serialize)]
struct Outcome {
    arm: String,
    seed: u64,
    /// Held-out success before training and after each evaluation, by iterations done.
    success: BTreeMap<u64, f64>,
    iterations: usize,
    episodes: f64,
    sampled_tokens: f64,
    /// Seconds of all iterations, without evaluations.
    seconds: f64,
    #[serde(skip)]
    lines: Vec<Metrics>,
}

impl Outcome {
    /// None of a run that is not done.
    fn read(study: &Study, arm: &str, seed: u64) -> Result<Option<Self>> {
        let folder = RunFolder::at(&study.path().join(run_name(arm, seed)));
        if !folder.metrics().exists() {
            return Ok(None);
        }
        let lines = metrics::read(&folder.metrics())?;
        let iterations = Loaded::read(&[folder.config()], &[])?.config.iterations;
        if (lines.len() as u64) < iterations {
            return Ok(None);
        }
        let mut success = BTreeMap::new();
        for (done, line) in (1..).zip(&lines) {
            if let Some(before) = line.get(&format!("{}{}", names::BEFORE, names::EVAL_SUCCESS)) {
                success.insert(done - 1, before);
            }
            if let Some(share) = line.get(names::EVAL_SUCCESS) {
                success.insert(done, share);
            }
        }
        let sum = |name: &str| lines.iter().filter_map(|line| line.get(name)).sum::<f64>();
        let timing = |part: &str| sum(&format!("{}{part}", names::TIMING));
        Ok(Some(Self {
            arm: arm.to_owned(),
            seed,
            success,
            iterations: lines.len(),
            episodes: sum(names::EPISODES),
            sampled_tokens: sum(names::SAMPLED_TOKENS),
            seconds: timing("step") - timing("eval"),
            lines,
        }))
    }

    /// Held-out success at the end.
    fn last(&self) -> f64 {
        self.success.values().next_back().copied().unwrap_or(f64::NAN)
    }

    /// How far the end is below the best evaluation.
    fn drop(&self) -> f64 {
        self.success.values().copied().fold(f64::NAN, f64::max) - self.last()
    }

    /// A metric over the iterations.
    fn series(&self, name: &str) -> Vec<f64> {
        self.lines.iter().filter_map(|line| line.get(name)).collect()
    }

    /// Shares of the iterations' time, without evaluations, by part.
    fn shares(&self) -> BTreeMap<String, f64> {
        let mut shares: BTreeMap<String, f64> = BTreeMap::new();
        for (name, value) in self.lines.iter().flat_map(Metrics::iter) {
            if let Some(part) = name.strip_prefix(names::TIMING).filter(|part| !["step", "eval"].contains(part)) {
                *shares.entry(part.to_owned()).or_default() += value / self.seconds;
            }
        }
        shares
    }
}

/// Writes `report.md` and `results.json` into the study's folder, and gives the text.
pub fn write(study: &Study) -> Result<String> {
    let mut arms = Vec::new();
    for arm in &study.arms {
        let mut outcomes = Vec::new();
        for seed in &study.seeds {
            outcomes.extend(Outcome::read(study, &arm.name, *seed)?);
        }
        arms.push(outcomes);
    }
    if arms.iter().all(Vec::is_empty) {
        bail!("{} holds no run of this study that is done", study.path().display());
    }
    let text = text(study, &arms);
    let all: Vec<&Outcome> = arms.iter().flatten().collect();
    for (name, content) in
        [("report.md", text.clone()), ("results.json", format!("{:#}\n", serde_json::to_value(&all)?))]
    {
        let path = study.path().join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(text)
}

fn text(study: &Study, arms: &[Vec<Outcome>]) -> String {
    let mut text = format!("# {}\n\n", study.name);
    let missing = study.arms.len() * study.seeds.len() - arms.iter().map(Vec::len).sum::<usize>();
    if missing > 0 {
        let _ = writeln!(text, "{missing} runs are not done and take no part.\n");
    }
    for table in [success(study, arms), curves(study, arms), followed(study, arms), shares(study, arms)] {
        text.push_str(&table);
    }
    text
}

/// A table in Markdown.
fn table(caption: &str, head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> = head.iter().map(|_| "---".to_owned()).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{caption}\n\n{}{}{body}\n", line(head), line(&rule))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn of(outcomes: &[Outcome], number: impl Fn(&Outcome) -> f64) -> Interval {
    Interval::of(&outcomes.iter().map(number).collect::<Vec<f64>>())
}

fn success(study: &Study, arms: &[Vec<Outcome>]) -> String {
    let rows = study.arms.iter().zip(arms).map(|(arm, outcomes)| {
        let difference = arm.baseline.as_ref().and_then(|baseline| {
            let at = study.arms.iter().position(|arm| arm.name == *baseline)?;
            let pairs = outcomes.iter().filter_map(|outcome| {
                let other = arms[at].iter().find(|other| other.seed == outcome.seed)?;
                Some(outcome.last() - other.last())
            });
            Some(format!("{} ({baseline})", Interval::of(&pairs.collect::<Vec<f64>>()).percent()))
        });
        vec![
            arm.name.clone(),
            outcomes.len().to_string(),
            of(outcomes, Outcome::last).percent(),
            difference.unwrap_or_default(),
            of(outcomes, Outcome::drop).percent(),
            format!("{:.0}", of(outcomes, |outcome| outcome.episodes).mean),
            format!("{:.0}", of(outcomes, |outcome| outcome.sampled_tokens / 1000.0).mean),
            format!("{:.0}", of(outcomes, |outcome| outcome.seconds).mean),
        ]
    });
    let head = words(&[
        "arm",
        "seeds",
        "held-out success, %",
        "less the baseline's, seed by seed",
        "peak to final, points",
        "episodes",
        "sampled tokens, thousands",
        "seconds",
    ]);
    table(
        "Held-out success at the end: mean over seeds ± half of Student's 95 % interval.",
        &head,
        &rows.collect::<Vec<_>>(),
    )
}

fn curves(study: &Study, arms: &[Vec<Outcome>]) -> String {
    let mut at: Vec<u64> = arms.iter().flatten().flat_map(|outcome| outcome.success.keys().copied()).collect();
    at.sort_unstable();
    at.dedup();
    let mut head = words(&["arm"]);
    head.extend(at.iter().map(u64::to_string));
    let rows = study.arms.iter().zip(arms).map(|(arm, outcomes)| {
        let mut row = vec![arm.name.clone()];
        row.extend(at.iter().map(|at| {
            let there: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.success.get(at).copied()).collect();
            format!("{:.1}", 100.0 * Interval::of(&there).mean)
        }));
        row
    });
    table("Held-out success by iterations done, %: mean over seeds.", &head, &rows.collect::<Vec<_>>())
}

fn followed(study: &Study, arms: &[Vec<Outcome>]) -> String {
    let mut text = String::new();
    for metric in &study.metrics {
        let mut rows = Vec::new();
        for (arm, outcomes) in study.arms.iter().zip(arms) {
            let series: Vec<Vec<f64>> =
                outcomes.iter().map(|outcome| outcome.series(metric)).filter(|series| !series.is_empty()).collect();
            if series.is_empty() {
                continue;
            }
            let each = |number: fn(&[f64]) -> f64| {
                let interval = Interval::of(&series.iter().map(|series| number(series)).collect::<Vec<f64>>());
                format!("{} ± {}", short(interval.mean), short(interval.half))
            };
            rows.push(vec![
                arm.name.clone(),
                each(mean),
                each(|series| mean(&series[..series.len().div_ceil(4)])),
                each(|series| mean(&series[series.len() - series.len().div_ceil(4)..])),
                each(|series| {
                    let variance =
                        mean(&series.iter().map(|number| number * number).collect::<Vec<f64>>()) - mean(series).powi(2);
                    variance.max(0.0).sqrt()
                }),
            ]);
        }
        if rows.is_empty() {
            let known = arms.iter().flatten().flat_map(|outcome| &outcome.lines).flat_map(Metrics::iter);
            let near = nearest(metric, known.map(|(name, _)| name).collect::<BTreeSet<_>>());
            let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
            let _ = writeln!(text, "`{metric}`: no run has this metric{near}\n");
        } else {
            let head = words(&["arm", "mean", "first quarter", "last quarter", "deviation over iterations"]);
            text.push_str(&table(&format!("`{metric}`"), &head, &rows));
        }
    }
    text
}

fn shares(study: &Study, arms: &[Vec<Outcome>]) -> String {
    let rows = study.arms.iter().zip(arms).filter(|(_, outcomes)| !outcomes.is_empty()).map(|(arm, outcomes)| {
        let mut mean: BTreeMap<String, f64> = BTreeMap::new();
        for (part, share) in outcomes.iter().flat_map(Outcome::shares) {
            *mean.entry(part).or_default() += share / outcomes.len() as f64;
        }
        let mut parts: Vec<(String, f64)> = mean.into_iter().collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let parts: Vec<String> = parts.iter().map(|(part, share)| format!("{part} {}", short(100.0 * share))).collect();
        vec![arm.name.clone(), parts.join(", ")]
    });
    let caption = "Share of an iteration's time by part, without evaluations, %; a scheme's time is part of another's.";
    table(caption, &words(&["arm", "parts"]), &rows.collect::<Vec<_>>())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// Three digits that matter.
fn short(number: f64) -> String {
    if number.is_nan() {
        "-".to_owned()
    } else if number == 0.0 || (0.001..10_000.0).contains(&number.abs()) {
        let decimals = if number == 0.0 { 0 } else { (2 - number.abs().log10().floor() as i32).max(0) as usize };
        format!("{number:.decimals$}")
    } else {
        format!("{number:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A study of two arms with two seeds, whose runs are written down as given: held-out success after each of two
    /// iterations.
    fn study(folder: &Path, runs: &[(&str, u64, [f64; 2])]) -> Study {
        for (arm, seed, success) in runs {
            let run = folder.join("pairs").join(run_name(arm, *seed));
            fs::create_dir_all(&run).unwrap();
            fs::write(run.join("config.resolved.toml"), "iterations = 2").unwrap();
            let line = |done: usize| {
                serde_json::json!({
                    "iteration": done, "val/success_rate": success[done], "actor/entropy": done + 1,
                    "timing_s/step": 4.0, "timing_s/eval": 2.0, "timing_s/gen": 1.5, "timing_s/scheme/grpo": 1e-9,
                    "episode/count": 8, "rollout/sampled_tokens": 500,
                })
            };
            fs::write(run.join("metrics.jsonl"), format!("{}\n{}\n{{\"iter", line(0), line(1))).unwrap();
        }
        let file = folder.join("pairs.toml");
        let text = format!(
            "folder = {:?}\nseeds = [1, 2]\nmetrics = [\"actor/entropy\"]\n[[arm]]\nconfig = \"a.toml\"\n\
             [[arm]]\nconfig = \"b.toml\"\nbaseline = \"a\"",
            folder.display().to_string()
        );
        fs::write(&file, text).unwrap();
        Study::read(&file).unwrap()
    }

    #[test]
    fn arms_are_compared_seed_by_seed_and_their_metrics_followed() {
        let folder = tempfile::tempdir().unwrap();
        let runs = [("a", 1, [0.6, 0.5]), ("a", 2, [0.3, 0.3]), ("b", 1, [0.5, 0.7]), ("b", 2, [0.4, 0.5])];
        let study = study(folder.path(), &runs);
        let text = write(&study).unwrap();
        assert_eq!(fs::read_to_string(study.path().join("report.md")).unwrap(), text);
        for expected in [
            "| a | 2 | 40.0 ± 127.1 |  | 5.0 ± 63.5 | 16 | 1 | 4 |\n",
            "| b | 2 | 60.0 ± 127.1 | 20.0 ± 0.0 (a) | 0.0 ± 0.0 | 16 | 1 | 4 |\n",
            "| a | 45.0 | 40.0 |\n",
            "`actor/entropy`\n\n| arm | mean |",
            "| b | 1.50 ± 0 | 1.00 ± 0 | 2.00 ± 0 | 0.500 ± 0 |\n",
            "| a | gen 75.0, scheme/grpo 5.00e-8 |\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        let results: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(study.path().join("results.json")).unwrap()).unwrap();
        assert_eq!(results[2]["success"], serde_json::json!({ "1": 0.5, "2": 0.7 }));
    }

    #[test]
    fn runs_that_are_missing_are_said() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(&study(folder.path(), &[])).unwrap_err().to_string().contains("holds no run"));
        let study = study(folder.path(), &[("a", 2, [0.5, 0.5]), ("b", 2, [0.5, 0.5])]);
        fs::write(study.path().join("a-s2/config.resolved.toml"), "iterations = 3").unwrap();
        let text = write(&study).unwrap();
        assert!(text.contains("3 runs are not done") && text.contains("| a | 0 | - |"), "{text}");
        assert!(text.contains("| b | 1 | 50.0 | - (a) |"), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [1234.4, 0.012_345, -5.678, 1e-9, 0.0, f64::NAN].map(short);
        assert_eq!(texts, ["1234", "0.0123", "-5.68", "1.00e-9", "0", "-"]);
    }
}
