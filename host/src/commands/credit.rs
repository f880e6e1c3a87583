//! `accredit credit`: the schemes of a configuration on rollouts from a file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use accredit_core::episode::Trajectory;
use anyhow::{Context, Result, bail};
use clap::Args;

use super::{
    PluginPath,
    colour::{Colouring, When, coloured},
    print,
};
use crate::{
    config::Loaded,
    credit::{
        Counters, Supply,
        offline::{ScoredTrajectory, by_iteration, score},
        plan,
    },
    judge::{self, Judge},
    plugin::{SearchPath, Services},
    rollout::file,
};

#[derive(Debug, Args)]
pub struct Credit {
    /// Configuration files; later ones win
    #[arg(long, required = true, num_args = 1..)]
    config: Vec<PathBuf>,
    /// Set any key, such as `credit.NAME.params.KEY=0.3`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The rollout file: one JSON object per line
    #[arg(long)]
    rollouts: PathBuf,
    /// Where to write the credit of every token: one JSON object per trajectory
    #[arg(long)]
    out: Option<PathBuf>,
    /// Show the responses with each token coloured by its credit
    #[arg(long)]
    show: bool,
    /// When to use colours; without them, `--show` writes numbers
    #[arg(long, value_enum, default_value_t = When::Auto)]
    color: When,
    #[command(flatten)]
    plugins: PluginPath,
}

impl Credit {
    pub fn run(self) -> Result<()> {
        let loaded = Loaded::read(&self.config, &self.sets)?;
        let search = SearchPath::new(self.plugins.folders.into_iter().chain(loaded.config.plugins.path.clone()));
        let mut pipeline = plan::load(&loaded, &search, &Supply::rollouts(), Services::default())?;
        if let Some(out) = &self.out
            && same_file(out, &self.rollouts)
        {
            bail!("{}: the credit would be written over the rollouts; choose another `--out`", out.display());
        }
        let episodes = file::read(&self.rollouts)?;
        let places = places_by_iteration(&episodes);
        let mut lines: Vec<Option<ScoredTrajectory>> = vec![None; episodes.len()];
        let mut judge = None;
        for (iteration, mut episodes) in by_iteration(episodes) {
            let missing = judge::missing(&pipeline, iteration, &episodes);
            if !missing.is_empty() {
                if judge.is_none() {
                    judge = Judge::of(&loaded, &pipeline)?;
                }
                let Some(judge) = &judge else {
                    bail!(
                        "{}: no trajectory of iteration {iteration} has `{}`, which a scheme reads; add `[judge]` to the \
                         configuration, or take the rollouts of a run that had one",
                        self.rollouts.display(),
                        missing[0].name()
                    );
                };
                judge.fill(&mut episodes, &[], &missing)?;
            }
            let counters = Counters { iteration, iterations: loaded.config.iterations, ..Counters::default() };
            let scored =
                score(&mut pipeline, &episodes, counters).with_context(|| format!("{}", self.rollouts.display()))?;
            let trajectories = scored.trajectories(&episodes);
            if self.show || self.out.is_none() {
                print(&coloured(&episodes, &trajectories, Colouring::new(self.color)))?;
            }
            print(&summary(iteration, &trajectories, &scored))?;
            for (place, trajectory) in places.get(&iteration).into_iter().flatten().zip(trajectories) {
                lines[*place] = Some(trajectory);
            }
        }
        match &self.out {
            Some(path) => {
                write(path, lines.iter().flatten()).with_context(|| format!("cannot write {}", path.display()))
            }
            None => Ok(()),
        }
    }
}

/// Whether two paths are one file, through links too.
fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Where the episodes of each iteration stand in the file.
fn places_by_iteration(episodes: &[Trajectory]) -> BTreeMap<u64, Vec<usize>> {
    let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, episode) in episodes.iter().enumerate() {
        places.entry(episode.iteration).or_default().push(place);
    }
    places
}

/// Writes the credit, one line for each trajectory.
fn write<'a>(path: &Path, trajectories: impl Iterator<Item = &'a ScoredTrajectory>) -> Result<()> {
    let mut writer = BufWriter::new(File::create(path)?);
    for trajectory in trajectories {
        serde_json::to_writer(&mut writer, trajectory)?;
        writer.write_all(b"\n")?;
    }
    Ok(writer.flush()?)
}

fn summary(iteration: u64, trajectories: &[ScoredTrajectory], scored: &crate::credit::offline::Scored) -> String {
    let left_out = scored.left_out();
    let mut text = format!(
        "iteration {iteration}: {} trajectories, {} tokens",
        trajectories.len() - left_out.total(),
        scored.batch.tokens()
    );
    for (count, what) in [
        (left_out.failed, "failed"),
        (left_out.unscored, "not scored"),
        (left_out.empty, "without a response token"),
        (left_out.dropped, "dropped"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if let Some((_, evaluated)) = &scored.objective {
        text.push_str(&format!(", loss {}", evaluated.loss));
    }
    text.push('\n');
    text
}
