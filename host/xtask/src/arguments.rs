//! What can be asked of `cargo xtask`: the tasks, their flags and their help.

use std::ffi::OsString;
use std::fmt;

/// A task with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    /// Print this text.
    Help(String),
    /// Ensure libtorch; with `cuda`, the full one.
    Libtorch { cuda: bool },
    /// Build in release and run the main job; `arguments` go to `accredit train` as they are.
    Quickstart { cuda: bool, arguments: Vec<String> },
    /// Every check; without `torch`, those that need no libtorch; with a filter, only the tests whose name contains it.
    Test { torch: bool, filter: Option<String> },
    /// Compare the plugins with golden numbers in a folder; no algorithm means all.
    Golden { folder: String, algorithms: Vec<String> },
    /// Play the recorded traces in a folder back.
    Traces { folder: String },
    /// Two ways to give credit to the same rollouts, by the same binary.
    Demo,
    /// Make what checks the GPU of another machine, and check the device of this one.
    GpuCheck,
}

/// A command line that asks for something that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What the help says about a task, and which flags it takes.
struct Page {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    /// Flag and meaning.
    flags: &'static [(&'static str, &'static str)],
    details: &'static str,
}

const CUDA: (&str, &str) = ("--cuda", "the full libtorch with CUDA: 2.7 GB to fetch, 4.7 GB on disk");

const PAGES: &[Page] = &[
    Page {
        name: "quickstart",
        usage: "quickstart [--cuda] [-- ARGUMENT...]",
        about: "fetch libtorch, build in release, and train an agent",
        flags: &[CUDA],
        details: "Runs `accredit train configs/quickstart.toml`; what stands after `--` is added to that command.",
    },
    Page {
        name: "test",
        usage: "test [--no-torch] [FILTER]",
        about: "fetch libtorch, then formatting, lints and every test",
        flags: &[("--no-torch", "leave out everything that needs libtorch, and do not fetch it")],
        details: "Uses cargo nextest where it is installed. With FILTER only the tests whose name contains it are run, and\n\
                  formatting, lints and golden numbers are left out.",
    },
    Page {
        name: "demo",
        usage: "demo",
        about: "show one rollout file under two credit schemes; needs no libtorch",
        flags: &[],
        details: "Builds accredit without libtorch, then gives credit to configs/demo/rollouts.jsonl twice with the same\n\
                  binary: once as configs/demo/grpo.toml says, once as configs/demo/grpo-actfocus.toml says.",
    },
    Page {
        name: "golden",
        usage: "golden FOLDER [ALGORITHM...]",
        about: "compare the plugins with numbers of other implementations",
        flags: &[],
        details: "Needs no libtorch. The numbers of this repository are in plugins/golden/data.",
    },
    Page {
        name: "traces",
        usage: "traces FOLDER",
        about: "play recorded traces of the original environments back",
        flags: &[],
        details: "Needs no libtorch. Every *.jsonl and *.jsonl.gz of the folder is played; those of this repository are in\n\
                  environments/tests/golden.",
    },
    Page {
        name: "gpu-check",
        usage: "gpu-check",
        about: "make a folder that checks another machine's GPU, and check this machine's device",
        flags: &[],
        details: "The folder, gpu-check beside cargo's release folder, needs neither Rust nor a network: copy it to a machine\n\
                  with a GPU and run ./run.sh PYTHON there, the Python that has torch 2.11.0 with CUDA. Here it runs\n\
                  `accredit device check` on the GPU, or on the CPU where there is none.",
    },
    Page {
        name: "libtorch",
        usage: "libtorch [--cuda]",
        about: "only fetch libtorch and link the checkout to it",
        flags: &[CUDA],
        details: "It is kept in $ACCREDIT_CACHE, else $XDG_CACHE_HOME/accredit, else ~/.cache/accredit, for all checkouts;\n\
                  .libtorch is a link to it. A LIBTORCH of your own is checked and used instead. pip's own settings (PIP_*\n\
                  variables, pip.conf) apply. To go back from the full libtorch to the small one, remove .libtorch.",
    },
    Page { name: "help", usage: "help [TASK]", about: "show this, or the help of a task", flags: &[], details: "" },
];

/// Reads a command line, without the program's name.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Task, UsageError> {
    let mut words = Vec::new();
    for argument in arguments {
        let word = argument
            .into_string()
            .map_err(|argument| UsageError(format!("the argument {} is not UTF-8", argument.display())))?;
        words.push(word);
    }
    let (words, passed_on) = match words.iter().position(|word| word == "--") {
        Some(place) => (&words[..place], Some(words[place + 1..].to_vec())),
        None => (&words[..], None),
    };
    let Some((name, words)) = words.split_first() else {
        return Err(UsageError(format!("which task?\n\n{}", overview())));
    };
    if name == "--help" || name == "-h" {
        return Ok(Task::Help(overview()));
    }
    let page = page(name)?;
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Task::Help(page.text()));
    }
    let (flags, words): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with('-'));
    for flag in &flags {
        page.check_flag(flag)?;
    }
    let has = |flag: &str| flags.iter().any(|word| *word == flag);
    if passed_on.is_some() && page.name != "quickstart" {
        return Err(page.wrong("takes nothing after `--`"));
    }
    let words: Vec<String> = words.into_iter().cloned().collect();
    match (page.name, words.as_slice()) {
        ("help", []) => Ok(Task::Help(overview())),
        ("help", [topic]) => Ok(Task::Help(self::page(topic)?.text())),
        ("libtorch", []) => Ok(Task::Libtorch { cuda: has("--cuda") }),
        ("quickstart", []) => Ok(Task::Quickstart { cuda: has("--cuda"), arguments: passed_on.unwrap_or_default() }),
        ("test", [] | [_]) => Ok(Task::Test { torch: !has("--no-torch"), filter: words.first().cloned() }),
        ("golden", []) => Err(page.wrong("needs the folder with the golden numbers")),
        ("golden", [folder, algorithms @ ..]) => {
            Ok(Task::Golden { folder: folder.clone(), algorithms: algorithms.to_vec() })
        }
        ("traces", []) => Err(page.wrong("needs the folder with the traces")),
        ("traces", [folder]) => Ok(Task::Traces { folder: folder.clone() }),
        ("demo", []) => Ok(Task::Demo),
        ("gpu-check", []) => Ok(Task::GpuCheck),
        (_, [.., last]) => Err(page.wrong(&format!("has no place for the argument `{last}`"))),
        (_, []) => Err(page.wrong("cannot be run")),
    }
}

fn page(name: &str) -> Result<&'static Page, UsageError> {
    PAGES.iter().find(|page| page.name == name).ok_or_else(|| {
        let kind = if name.starts_with('-') { "flag" } else { "task" };
        let nearest = nearest(name, PAGES.iter().map(|page| page.name));
        UsageError(format!("there is no {kind} `{name}`{}; `cargo xtask help` lists the tasks", did_you_mean(nearest)))
    })
}

impl Page {
    fn check_flag(&self, flag: &str) -> Result<(), UsageError> {
        let names = self.flags.iter().map(|(name, _)| *name);
        if names.clone().any(|name| name == flag) {
            return Ok(());
        }
        let nearest = did_you_mean(nearest(flag, names.chain(["--help"])));
        Err(self.wrong(&format!("has no flag `{flag}`{nearest}")))
    }

    fn wrong(&self, what: &str) -> UsageError {
        UsageError(format!("`cargo xtask {}` {what}\n\nusage: cargo xtask {}", self.name, self.usage))
    }

    fn text(&self) -> String {
        let mut lines = vec![self.about.to_string(), String::new(), format!("usage: cargo xtask {}", self.usage)];
        if !self.flags.is_empty() {
            lines.push(String::new());
            lines.extend(self.flags.iter().map(|(flag, meaning)| format!("  {flag:<12} {meaning}")));
        }
        if !self.details.is_empty() {
            lines.extend([String::new(), self.details.to_string()]);
        }
        lines.join("\n") + "\n"
    }
}

fn overview() -> String {
    let mut lines = vec!["usage: cargo xtask TASK".to_string(), String::new()];
    lines.extend(PAGES.iter().map(|page| format!("  {:<38} {}", page.usage, page.about)));
    lines.push(
        "\n`cargo xtask TASK --help` says more about a task. Exit codes: 0 done, 1 failed, 2 wrong usage.".to_string(),
    );
    lines.join("\n") + "\n"
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}

/// The candidate that is fewest edits away from `word`, where that is few enough to be a slip.
fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (edits(word, candidate), candidate))
        .min()
        .filter(|(edits, candidate)| *edits * 2 <= candidate.chars().count())
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance: insertions, deletions and replacements that turn `from` into `to`.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Task, UsageError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn check_error(line: &str, expected: &str) {
        let message = read(line).unwrap_err().to_string();
        assert!(message.contains(expected), "{line}: {message}");
    }

    #[test]
    fn tasks_are_read_with_their_arguments() {
        assert_eq!(read("libtorch"), Ok(Task::Libtorch { cuda: false }));
        assert_eq!(read("libtorch --cuda"), Ok(Task::Libtorch { cuda: true }));
        assert_eq!(read("demo"), Ok(Task::Demo));
        assert_eq!(read("gpu-check"), Ok(Task::GpuCheck));
        assert_eq!(read("test"), Ok(Task::Test { torch: true, filter: None }));
        let filter = Some("loader".to_string());
        assert_eq!(read("test --no-torch loader"), Ok(Task::Test { torch: false, filter: filter.clone() }));
        assert_eq!(read("test loader --no-torch"), Ok(Task::Test { torch: false, filter }));
        let algorithms = vec!["grpo".to_string(), "kl".to_string()];
        assert_eq!(read("traces data"), Ok(Task::Traces { folder: "data".to_string() }));
        assert_eq!(read("golden data grpo kl"), Ok(Task::Golden { folder: "data".to_string(), algorithms }));
    }

    #[test]
    fn what_follows_two_dashes_is_passed_on_unread() {
        let arguments = ["--set", "seed=3", "--help"].map(String::from).to_vec();
        assert_eq!(read("quickstart --cuda -- --set seed=3 --help"), Ok(Task::Quickstart { cuda: true, arguments }));
        assert_eq!(read("quickstart --"), Ok(Task::Quickstart { cuda: false, arguments: Vec::new() }));
        check_error("test -- x", "takes nothing after `--`");
    }

    #[test]
    fn wrong_words_get_the_nearest_name() {
        check_error("tset", "there is no task `tset`, did you mean `test`?");
        check_error("--demo", "there is no flag `--demo`, did you mean `demo`?");
        check_error("help quikstart", "did you mean `quickstart`?");
        check_error("test --no-toch", "has no flag `--no-toch`, did you mean `--no-torch`?");
        check_error("demo --halp", "did you mean `--help`?");
        check_error("frobnicate", "there is no task `frobnicate`; `cargo xtask help`");
    }

    #[test]
    fn wrong_numbers_of_arguments_show_the_usage() {
        check_error("", "usage: cargo xtask TASK");
        check_error("golden", "usage: cargo xtask golden FOLDER [ALGORITHM...]");
        check_error("traces", "usage: cargo xtask traces FOLDER");
        check_error("traces a b", "has no place for the argument `b`");
        check_error("demo now", "has no place for the argument `now`");
        check_error("test a b", "has no place for the argument `b`");
        check_error("quickstart seed=3", "usage: cargo xtask quickstart [--cuda] [-- ARGUMENT...]");
    }

    #[test]
    fn every_task_has_help_and_is_in_the_overview() {
        for page in PAGES {
            let expected = Task::Help(page.text());
            assert_eq!(read(&format!("{} --help", page.name)), Ok(expected));
            assert_eq!(read(&format!("help {}", page.name)), Ok(Task::Help(page.text())));
            assert!(overview().contains(page.usage));
            assert!(page.flags.iter().all(|(flag, _)| page.text().contains(flag)));
        }
        assert_eq!(read("--help"), Ok(Task::Help(overview())));
        assert_eq!(read("help"), read("-h"));
    }

    #[cfg(unix)]
    #[test]
    fn an_argument_that_is_not_text_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let broken = OsString::from_vec(vec![b't', 0xFF]);
        assert!(parse([broken].into_iter()).unwrap_err().to_string().contains("not UTF-8"));
    }

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("demo", "demo"), 0);
    }
}
