//! Every check of the repository, in stages that stop at the first failure.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::checkout::Checkout;
use crate::{command, libtorch};

/// A part of the checks: commands of cargo under one heading.
#[derive(Debug)]
struct Stage {
    name: &'static str,
    commands: Vec<Vec<String>>,
}

/// What decides which checks are run.
struct Scope<'a> {
    /// Whether libtorch may be used.
    torch: bool,
    /// Only tests whose name contains this.
    filter: Option<&'a str>,
    /// Whether cargo nextest is installed.
    nextest: bool,
    /// Whether this checkout has the test of an older plugin in a newer host.
    older_plugin: bool,
}

/// Runs the checks; see `cargo xtask help test`.
pub fn run(checkout: &Checkout, torch: bool, filter: Option<&str>) -> Result<()> {
    if filter.is_none() {
        for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
            if !command::works(&mut checkout.cargo([tool, "--version"])) {
                bail!("`cargo {tool}` is not installed; `rustup component add {component}` installs it");
            }
        }
    }
    let scope = Scope {
        torch,
        filter,
        nextest: command::works(&mut checkout.cargo(["nextest", "--version"])),
        older_plugin: checkout.root.join("host/tests/older_plugin.rs").is_file(),
    };
    let stages = plan(&scope);
    let mut names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
    if torch {
        names.insert(0, "libtorch");
    }
    let mut seconds = Vec::new();
    let result = run_stages(checkout, torch, &stages, &mut seconds);
    eprint!("\n{}", summary(&names, &seconds, result.is_ok()));
    if let Some(filter) = filter {
        eprintln!("Only tests with `{filter}` in their name; formatting and lints were left out.");
    }
    if !torch {
        eprintln!("What needs libtorch was left out.");
    }
    result
}

fn run_stages(checkout: &Checkout, torch: bool, stages: &[Stage], seconds: &mut Vec<Duration>) -> Result<()> {
    let mut timed = |name: &str, stage: &dyn Fn() -> Result<()>| {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let result = stage();
        seconds.push(start.elapsed());
        eprintln!("   {name}: {:.1} s", start.elapsed().as_secs_f64());
        result
    };
    if torch {
        timed("libtorch", &|| libtorch::ensure(checkout, false))?;
    }
    for stage in stages {
        timed(stage.name, &|| {
            stage.commands.iter().try_for_each(|arguments| {
                // Tests need not ask cargo for the libraries that they load: an own stage has built them.
                command::run(checkout.cargo(arguments).env("ACCREDIT_PLUGINS_BUILT", "1"))
            })
        })?;
    }
    Ok(())
}

fn plan(scope: &Scope) -> Vec<Stage> {
    let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    let members =
        if scope.torch { "--workspace" } else { "--workspace --exclude accredit-torch --no-default-features" };
    let mut stages = Vec::new();
    let mut add = |name, commands| stages.push(Stage { name, commands });

    if scope.filter.is_none() {
        add("formatting", vec![words("fmt --all --check")]);
    }
    // Tests load plugins as files, which cargo builds only when it is told to. The same members and kinds of targets as
    // in the tests, so that cargo unites the same features and builds nothing twice.
    add("build", vec![words(&format!("build {members} --lib --bins --tests"))]);
    if scope.filter.is_none() {
        add("lints", vec![words(&format!("clippy {members} --all-targets -- -D warnings"))]);
    }
    let mut tests = if scope.nextest {
        vec![words(&format!("nextest run {members}")), words(&format!("test --doc {members}"))]
    } else {
        vec![words(&format!("test {members}"))]
    };
    for command in &mut tests {
        command.extend(scope.filter.map(String::from));
    }
    add("tests", tests);
    if scope.filter.is_none() && scope.older_plugin {
        // The host of the next minor version loads the plugins of this one, which stand built from before.
        let command = "test --package accredit --no-default-features --features next-minor --test older_plugin";
        add("older plugin", vec![words(command)]);
    }
    stages
}

/// A line per stage. The last of `seconds` belongs to the stage that failed, if one did.
fn summary(names: &[&str], seconds: &[Duration], passed: bool) -> String {
    let mut lines = vec!["== summary".to_string()];
    for (i, name) in names.iter().enumerate() {
        let outcome = match seconds.get(i) {
            None => "not run".to_string(),
            Some(_) if !passed && i + 1 == seconds.len() => "FAILED".to_string(),
            Some(time) => format!("ok {:>8.1} s", time.as_secs_f64()),
        };
        lines.push(format!("   {name:<14} {outcome}"));
    }
    let total: Duration = seconds.iter().sum();
    lines.push(format!("   {:<14} {:>11.1} s", "total", total.as_secs_f64()));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(scope: &Scope) -> Vec<String> {
        plan(scope).iter().flat_map(|stage| &stage.commands).map(|command| command.join(" ")).collect()
    }

    #[test]
    fn everything_is_checked_and_plugins_are_built_before_tests() {
        let all = Scope { torch: true, filter: None, nextest: true, older_plugin: true };
        let expected = [
            "fmt --all --check",
            "build --workspace --lib --bins --tests",
            "clippy --workspace --all-targets -- -D warnings",
            "nextest run --workspace",
            "test --doc --workspace",
            "test --package accredit --no-default-features --features next-minor --test older_plugin",
        ];
        assert_eq!(lines(&all), expected);
        let without_nextest = lines(&Scope { nextest: false, older_plugin: false, ..all });
        assert!(without_nextest.contains(&"test --workspace".to_string()), "{without_nextest:?}");
        assert!(!without_nextest.iter().any(|line| line.contains("nextest") || line.contains("older_plugin")));
    }

    #[test]
    fn without_torch_nothing_that_needs_it_is_built() {
        for line in lines(&Scope { torch: false, filter: None, nextest: true, older_plugin: false }) {
            let whole = line.contains("--workspace");
            assert_eq!(whole, line.contains("--exclude accredit-torch"), "{line}");
            assert_eq!(whole, line.contains("--no-default-features"), "{line}");
        }
    }

    #[test]
    fn a_filter_reaches_the_tests_and_leaves_out_the_rest() {
        let filtered = Scope { torch: true, filter: Some("loader"), nextest: true, older_plugin: true };
        let expected = [
            "build --workspace --lib --bins --tests",
            "nextest run --workspace loader",
            "test --doc --workspace loader",
        ];
        assert_eq!(lines(&filtered), expected);
    }

    #[test]
    fn the_summary_names_what_failed_and_what_was_not_run() {
        let times = [Duration::from_millis(1_500), Duration::from_secs(2)];
        let text = summary(&["formatting", "tests", "golden"], &times, false);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["formatting", "ok", "1.5", "s"]);
        assert_eq!(words[2], ["tests", "FAILED"]);
        assert_eq!(words[3], ["golden", "not", "run"]);
        assert_eq!(words[4], ["total", "3.5", "s"]);
        assert!(!summary(&["tests"], &times[..1], true).contains("FAILED"));
    }
}
