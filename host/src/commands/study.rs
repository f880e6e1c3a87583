//! `accredit study`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::{PluginPath, print};
use crate::{
    run::{stop, watch_for_stop},
    study,
};

#[derive(Debug, Args)]
pub struct Study {
    /// The file that lists configurations and seeds, such as `configs/studies/first-look.toml`
    #[arg(value_name = "STUDY")]
    file: PathBuf,
    /// How many runs stand side by side; left out, as many as the cores can hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Run nothing, and report what is there
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    plugins: PluginPath,
}

impl Study {
    pub fn run(self) -> Result<()> {
        let study = study::Study::read(&self.file)?;
        if !self.report {
            watch_for_stop();
            study::runs::run(&study, self.jobs.map(usize::from), &self.plugins.folders)?;
        }
        if stop::asked() {
            anyhow::bail!("stopped; the same command goes on with what is not done");
        }
        print(&study::report::write(&study)?)
    }
}
