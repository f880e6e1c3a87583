//! `accredit plugin`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use super::{PluginPath, print};
use crate::{
    conformance::{self, Report},
    plugin::{Library, SearchPath, create_project, inspect, inspect_json, inspect_text, list_text},
};

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
    /// Check what every scheme must hold: finite numbers, any order of trajectories, derivatives of the loss, what it says
    /// that it reads, and more. Needs no model and takes seconds
    Check {
        /// The shared library, or the name of a plugin of the search path
        plugin: PathBuf,
        /// Only this scheme of the library
        #[arg(long)]
        scheme: Option<String>,
        /// Parameters as a JSON object, in place of the defaults
        #[arg(long, value_name = "JSON", default_value = "{}")]
        params: String,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        path: PluginPath,
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
            Self::Check { plugin, scheme, params, json, path } => {
                check(&plugin, scheme.as_deref(), &params, json, path.folders)
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

fn check(plugin: &Path, scheme: Option<&str>, params: &str, json: bool, folders: Vec<PathBuf>) -> Result<()> {
    let params: serde_json::Value = serde_json::from_str(params).context("`--params` is no JSON")?;
    let name = plugin.to_str().context("the name of the plugin is not UTF-8")?;
    let found =
        if plugin.is_file() { plugin.to_owned() } else { SearchPath::new(folders).find(name, Path::new(""))?.path };
    let library = Library::load(&found, None)?;
    let all = library.describe().schemes.iter().map(|described| described.name.clone());
    let schemes: Vec<String> = scheme.map_or_else(|| all.collect(), |scheme| vec![scheme.to_owned()]);
    let reports: Vec<Report> =
        schemes.iter().map(|scheme| conformance::check(&library, scheme, &params)).collect::<Result<_, _>>()?;
    let text =
        if json { format!("{:#}\n", serde_json::json!(reports)) } else { reports.iter().map(Report::text).collect() };
    print(&text)?;
    match reports.iter().map(Report::bad).sum::<usize>() {
        0 => Ok(()),
        bad => bail!("{bad} checks of {} failed", found.display()),
    }
}
