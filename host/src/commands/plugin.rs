//! `accredit plugin`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use super::{PluginPath, print};
use crate::plugin::{SearchPath, create_project, inspect, inspect_json, inspect_text, list_text};

#[derive(Debug, Subcommand)]
pub enum Plugin {
    /// List the plugins of the search path
    List {
        #[command(flatten)]
        path: PluginPath,
    },
    /// Show what a plugin file says about itself; nothing of it is run
    Inspect {
        /// The shared library
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a new plugin project into a folder of its name
    New {
        /// Its name, in lower case with hyphens
        name: String,
        /// The folder to write, in place of NAME
        #[arg(long)]
        folder: Option<PathBuf>,
        /// The folder of accredit-plugin-api, in place of the published crate
        #[arg(long)]
        api_path: Option<PathBuf>,
    },
}

impl Plugin {
    pub fn run(self) -> Result<()> {
        match self {
            Self::List { path } => print(&list_text(&SearchPath::new(path.folders).available())),
            Self::Inspect { file, json } => {
                let inspected = inspect(&file)?;
                if json {
                    print(&format!("{:#}\n", inspect_json(&inspected)))
                } else {
                    print(&inspect_text(&inspected))
                }
            }
            Self::New { name, folder, api_path } => {
                let folder = folder.unwrap_or_else(|| PathBuf::from(&name));
                create_project(&folder, &name, api_path.as_deref())?;
                print(&format!(
                    "{} is a complete plugin; next: cd {} && cargo test && cargo build --release\n",
                    folder.display(),
                    folder.display()
                ))
            }
        }
    }
}
