//! `accredit config`.

use anyhow::Result;
use clap::Subcommand;

use super::{ConfigArgs, print};
use crate::config::json_schema;

#[derive(Debug, Subcommand)]
pub enum Config {
    /// Show a configuration with all defaults and the origin of every value
    Show {
        #[command(flatten)]
        config: ConfigArgs,
        /// Leave the origins out, so that the output is a configuration file
        #[arg(long)]
        plain: bool,
    },
    /// Print the JSON schema of a configuration
    Schema,
}

impl Config {
    pub fn run(self) -> Result<()> {
        match self {
            Self::Show { config, plain } => {
                let loaded = config.load()?;
                print(&if plain { loaded.to_toml() } else { loaded.show() })
            }
            Self::Schema => print(&format!("{:#}\n", json_schema())),
        }
    }
}
