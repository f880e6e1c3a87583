//! `accredit plugin`.

use std::path::{Path, PathBuf};

use accredit_plugin_api::Read;
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::{PluginPath, print, settings};
use crate::{
    conformance::{self, Report},
    plugin::{Library, Scheme, SearchPath, Services, create_project, inspect, inspect_json, inspect_text, list_text},
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
    /// Show what a plugin's schemes do: parameters, hooks, columns that they read
    Doc {
        /// The shared library, or the name of a plugin of the search path
        plugin: PathBuf,
        /// Only this scheme of the library
        #[arg(long)]
        scheme: Option<String>,
        /// Parameters as a JSON object, in place of the defaults: what a scheme needs can depend on them
        #[arg(long, value_name = "JSON", default_value = "{}")]
        params: String,
        #[command(flatten)]
        path: PluginPath,
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
            Self::Doc { plugin, scheme, params, path } => {
                let (library, schemes) = schemes(&plugin, scheme, path.folders)?;
                let params = object(&params)?;
                let pages = schemes.iter().map(|scheme| doc(&library, scheme, &params));
                print(&pages.collect::<Result<Vec<_>>>()?.join("\n"))
            }
            Self::Check { plugin, scheme, params, json, path } => {
                let (library, schemes) = schemes(&plugin, scheme, path.folders)?;
                check(&library, &schemes, &object(&params)?, json)
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

/// Opens a plugin, by its file or its name, and chooses its schemes.
fn schemes(plugin: &Path, scheme: Option<String>, folders: Vec<PathBuf>) -> Result<(Library, Vec<String>)> {
    let name = plugin.to_str().context("the name of the plugin is not UTF-8")?;
    let found =
        if plugin.is_file() { plugin.to_owned() } else { SearchPath::new(folders).find(name, Path::new(""))?.path };
    let library = Library::load(&found, None)?;
    let all = library.describe().schemes.iter().map(|described| described.name.clone());
    let schemes = scheme.map_or_else(|| all.collect(), |scheme| vec![scheme]);
    Ok((library, schemes))
}

fn object(params: &str) -> Result<Value> {
    serde_json::from_str(params).context("`--params` is no JSON")
}

fn doc(library: &Library, name: &str, params: &Value) -> Result<String> {
    let scheme = Scheme::build(library, name, name, params, Services::default())?;
    let described = library.describe().schemes.iter().find(|described| described.name == name);
    let described = described.with_context(|| format!("the plugin does not describe `{name}`"))?;
    let needs = scheme.needs();
    let columns = |reads: &[Read]| reads.iter().map(|read| read.name.as_str()).collect::<Vec<_>>().join(", ");
    let hooks: Vec<&str> = needs.hooks.iter().map(|hook| hook.name()).collect();
    let facts = [
        ("hooks", hooks.join(", ")),
        ("reads", columns(&needs.reads)),
        ("uses, if there", columns(&needs.optional)),
        ("asks for", columns(&needs.asks)),
        ("groups", if needs.group_size > 1 { format!("of at least {}", needs.group_size) } else { String::new() }),
        ("writes", if needs.value_target { "value targets, for a critic".to_owned() } else { String::new() }),
    ];
    let mut text = format!("{name}: {}\n\n", described.about);
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        text.push_str(&format!("{name:<14}  {fact}\n"));
    }
    for exception in &needs.exceptions {
        text.push_str(&format!("{:<14}  from the check `{}`, since {}\n", "excepted", exception.check, exception.why));
    }
    let parameters = settings::describe(&described.params, params.as_object().unwrap_or(&Map::new()));
    text.push_str(&format!("\nparameters\n{}", if parameters.is_empty() { "  none\n" } else { &parameters }));
    Ok(text)
}

fn check(library: &Library, schemes: &[String], params: &Value, json: bool) -> Result<()> {
    let reports =
        schemes.iter().map(|scheme| conformance::check(library, scheme, params)).collect::<Result<Vec<_>, _>>()?;
    print(&if json { format!("{:#}\n", json!(reports)) } else { reports.iter().map(Report::text).collect() })?;
    match reports.iter().map(Report::bad).sum::<usize>() {
        0 => Ok(()),
        bad => bail!("{bad} checks of {} failed", library.inspected().path.display()),
    }
}
