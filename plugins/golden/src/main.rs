//! `accredit-golden`: the plugins against the numbers of other people's implementations.
//!
//! A folder holds rollouts and, per algorithm and case, what some implementation made of them with some settings.
//! [`mapping`] says which plugins and parameters stand for a variant, [`rollouts`] makes episodes for the host,
//! [`evaluate`] runs them through the shared libraries, [`compare`] holds the numbers together. What cannot be expressed
//! stands in `not_expressed.toml` with a reason, and nothing else is passed over.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod compare;
mod distributions;
mod evaluate;
mod exceptions;
mod files;
mod mapping;
mod plan;
mod rollouts;
mod settings;

use std::{
    collections::BTreeMap,
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use accredit::plugin::SearchPath;
use anyhow::{Result, bail};
use clap::Parser;

use crate::{
    evaluate::Evaluator,
    exceptions::Exceptions,
    files::{DistributionInput, Folder, GoldenFile, Input, ROWS_TO_SKIP, Variant},
    plan::{Given, Plan, Run, Source},
    rollouts::Gae,
    settings::Inexpressible,
};

/// Compares the plugins with golden numbers, through their shared libraries.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The folder: `inputs/CASE.json` and `ALGORITHM.CASE.json`.
    folder: PathBuf,
    /// The algorithms; none means all that the folder has.
    algorithms: Vec<String>,
    /// Folders with plugins, before those that are always searched.
    #[arg(long = "plugins")]
    plugins: Vec<PathBuf>,
}

/// How often what came out.
#[derive(Default)]
struct Counts {
    compared: usize,
    failed: usize,
    not_expressed: usize,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(counts) if counts.failed == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<Counts> {
    let folder = Folder::open(&arguments.folder)?;
    let files = folder.golden_files(&arguments.algorithms)?;
    let exceptions = Exceptions::checked_in()?;
    let mut evaluator = Evaluator::new(SearchPath::new(arguments.plugins.iter().cloned()));
    let mut counts = Counts::default();
    for file in &files {
        let mut inputs = Inputs { folder: &folder, file, input: None, distributions: None, gae: None };
        for variant in &file.variants {
            let name = format!("{} {} {}", file.algorithm, file.case, variant.name);
            let planned = mapping::plan(&file.algorithm, variant);
            let listed = exceptions.variant(&file.algorithm, &variant.name);
            match (planned, listed) {
                (Err(_), Some(reason)) => {
                    counts.not_expressed += 1;
                    print(&name, &format!("not expressed: {reason}"))?;
                }
                (Err(Inexpressible(reason)), None) => {
                    counts.failed += 1;
                    print(&name, &format!("FAIL {reason}; not in not_expressed.toml"))?;
                }
                (Ok(_), Some(_)) => {
                    counts.failed += 1;
                    print(&name, "FAIL can be expressed, and is in not_expressed.toml")?;
                }
                (Ok(plan), None) => {
                    let results = compare_variant(&mut evaluator, &mut inputs, variant, &plan);
                    report(&mut counts, &exceptions, file, variant, &name, results)?;
                }
            }
        }
    }
    for entry in exceptions.unused(&files) {
        counts.failed += 1;
        print("not_expressed.toml", &format!("FAIL stands for nothing: {entry}"))?;
    }
    writeln!(
        stdout(),
        "{} compared, {} failed, {} variants not expressed",
        counts.compared,
        counts.failed,
        counts.not_expressed
    )?;
    Ok(counts)
}

/// The rollouts of a golden file, read when they are first needed.
struct Inputs<'a> {
    folder: &'a Folder,
    file: &'a GoldenFile,
    input: Option<Input>,
    distributions: Option<DistributionInput>,
    gae: Option<Gae>,
}

impl Inputs<'_> {
    /// Reads what a run is made on, if it was not read before.
    fn read_for(&mut self, run: &Run) -> Result<()> {
        if run.distributions.is_some() {
            if self.distributions.is_none() {
                self.distributions = Some(self.folder.distributions(&self.file.input)?);
            }
        } else if self.input.is_none() {
            self.input = Some(self.folder.input(&self.file.input)?);
        }
        if matches!(run.given, Given::Gae | Given::Returns) && self.gae.is_none() {
            let file = self.folder.golden_file("ppo_gae", &self.file.case)?;
            self.gae = Some(Gae::of(&file)?);
        }
        Ok(())
    }
}

/// The difference of each field that a variant expects and the plan gives.
fn compare_variant(
    evaluator: &mut Evaluator,
    inputs: &mut Inputs<'_>,
    variant: &Variant,
    plan: &Plan,
) -> Result<BTreeMap<String, Result<f64>>> {
    let skipped = variant.rows_to_skip()?;
    let mut differences = BTreeMap::new();
    for run in &plan.runs {
        inputs.read_for(run)?;
        let episodes = match (run.distributions, &inputs.distributions, &inputs.input) {
            (Some(places), Some(input), _) => distributions::episodes(input, places),
            (None, _, Some(input)) => rollouts::episodes(input, plan.layout, run, inputs.gae.as_ref())?,
            _ => bail!("the input was read"),
        };
        let mut wanted = run.clone();
        wanted.fields.retain(|(field, _)| variant.expected.contains_key(field));
        let found = evaluator.evaluate(&wanted, &episodes)?;
        for ((field, source), mut found) in wanted.fields.iter().zip(found) {
            if let (Source::LogitSlopes, Some(places), Some(input)) = (source, run.distributions, &inputs.distributions)
            {
                found = distributions::logit_slopes(input, places, &found)?;
            }
            let value = &variant.expected[field];
            let expected = match (source, &inputs.input) {
                (Source::KeptGroups, Some(input)) => {
                    let names: Vec<&str> = input.groups.iter().map(|group| group.group_id.as_str()).collect();
                    compare::places(value, &names)
                }
                _ => compare::flatten(value),
            };
            let difference = expected
                .and_then(|expected| compare::without(&found, &expected, &skipped))
                .and_then(|(found, expected)| compare::difference(&found, &expected));
            differences.insert(field.clone(), difference);
        }
    }
    Ok(differences)
}

/// Prints a line for each expected field.
fn report(
    counts: &mut Counts,
    exceptions: &Exceptions,
    file: &GoldenFile,
    variant: &Variant,
    name: &str,
    results: Result<BTreeMap<String, Result<f64>>>,
) -> Result<()> {
    let mut results = match results {
        Ok(results) => results,
        Err(error) => {
            counts.failed += 1;
            return print(name, &format!("FAIL {error:#}"));
        }
    };
    for field in variant.expected.keys().filter(|field| *field != ROWS_TO_SKIP) {
        let listed = exceptions.field(&file.algorithm, &variant.name, field);
        let name = format!("{name} {field}");
        let line = match (results.remove(field), listed) {
            (Some(Ok(difference)), None) => {
                counts.compared += 1;
                if difference <= compare::limit(&variant.dtype, field) {
                    format!("{difference:.1e} ok")
                } else {
                    counts.failed += 1;
                    format!("{difference:.1e} FAIL")
                }
            }
            (None, Some(reason)) => format!("not compared: {reason}"),
            (Some(Err(error)), None) => {
                counts.failed += 1;
                format!("FAIL {error:#}")
            }
            (None, None) => {
                counts.failed += 1;
                "FAIL nothing gives this field, and it is not in not_expressed.toml".to_owned()
            }
            (Some(_), Some(_)) => {
                counts.failed += 1;
                "FAIL can be compared, and is in not_expressed.toml".to_owned()
            }
        };
        print(&name, &line)?;
    }
    Ok(())
}

fn print(name: &str, line: &str) -> Result<()> {
    Ok(writeln!(stdout(), "{name:<78} {line}")?)
}
