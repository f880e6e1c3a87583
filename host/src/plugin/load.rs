//! Opening a plugin: the system's loader, then a check of every type at the boundary, then its description.
//!
//! abi_stable's own loaders are not used: they keep one module for each Rust type, so that a second plugin would be the
//! first one, and they refuse a plugin that was built for an older minor version. Here the older side is the interface
//! that the newer one must offer, and each load is checked for itself.

use std::{fmt, path::Path, sync::Arc};

use abi_stable::{
    StableAbi,
    abi_stability::abi_checking::{
        AbiInstability, AbiInstabilityErrors, CheckingGlobals, ExpectedFound, check_layout_compatibility_with_globals,
    },
    library::{AbiHeaderRef, LibHeader, ROOT_MODULE_LOADER_NAME_WITH_NUL},
    std_types::{RErr, ROk},
    type_layout::TLFieldOrFunction,
};
use accredit_plugin_api::{
    abi::{API_MINOR, PluginRef},
    host::CallError,
};
use libloading::os::unix;
use serde::{Deserialize, Serialize};

use super::{
    error::{LoadError, Refusal},
    inspect::{Inspected, inspect},
};

/// A plugin's library, opened and checked. Clones are the same library.
#[derive(Clone)]
pub struct Library {
    inspected: Arc<Inspected>,
    description: Arc<Description>,
    module: PluginRef,
}

/// What a library holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Its schemes, in the order in which it exports them.
    pub schemes: Vec<SchemeDescription>,
}

/// One scheme of a library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchemeDescription {
    /// Its name in configurations.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// JSON schema of its parameters.
    pub params: serde_json::Value,
}

impl Library {
    /// Inspects and opens a plugin. `expected_sha256` pins the file, in hexadecimal.
    ///
    /// A file that is opened twice is one library: its schemes share its statics, and nothing else. It stays in memory
    /// until the program ends.
    pub fn load(path: &Path, expected_sha256: Option<&str>) -> Result<Self, LoadError> {
        let inspected = inspect(path)?;
        Self::open(&inspected, expected_sha256)
            .map(|(module, description)| Self {
                inspected: Arc::new(inspected),
                description: Arc::new(description),
                module,
            })
            .map_err(|refusal| refusal.of(path))
    }

    /// What its file says about itself.
    pub fn inspected(&self) -> &Inspected {
        &self.inspected
    }

    /// What it holds.
    pub fn describe(&self) -> &Description {
        &self.description
    }

    pub(super) fn module(&self) -> PluginRef {
        self.module
    }

    fn open(inspected: &Inspected, expected_sha256: Option<&str>) -> Result<(PluginRef, Description), Refusal> {
        if let Some(wanted) = expected_sha256
            && !wanted.eq_ignore_ascii_case(&inspected.sha256)
        {
            return Err(Refusal::OtherHash { wanted: wanted.to_owned(), found: inspected.sha256.clone() });
        }
        // The system looks for a path without a slash in its own folders.
        let path = inspected.path.canonicalize().map_err(Refusal::Unreadable)?;
        // All symbols are bound now, since one that is missing would otherwise end the process at its first call.
        // SAFETY: this runs the library's initialisers, as the user asked; nothing else can be known about them.
        let library = unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | unix::RTLD_LOCAL) }
            .map_err(|error| Refusal::Open(system_words(&error)))?;
        let header = header(&library)?;
        check_layout(header, inspected.api_minor)?;
        // From here on the plugin's code runs, and may leave threads behind: the library stays.
        std::mem::forget(library);
        // SAFETY: the layout was checked just now.
        let module =
            unsafe { header.unchecked_layout::<PluginRef>() }.map_err(|error| Refusal::Entry(error.to_string()))?;
        Ok((module, describe(module)?))
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("inspected", &self.inspected)
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

/// What the system's loader said; the error itself only says which function failed.
fn system_words(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } | libloading::Error::DlSym { source } => source.to_string(),
        other => other.to_string(),
    }
}

/// The entry point that the export macro wrote.
fn header(library: &unix::Library) -> Result<&'static LibHeader, Refusal> {
    // SAFETY: the symbol, if it is there, is a header of abi_stable, whose first bytes `upgrade` checks. What it gives
    // is used only while the library is open, or after it was decided never to close it.
    let header: AbiHeaderRef = *unsafe { library.get::<AbiHeaderRef>(ROOT_MODULE_LOADER_NAME_WITH_NUL) }
        .map_err(|error| Refusal::Entry(system_words(&error)))?;
    header.upgrade().map_err(|error| Refusal::Entry(error.to_string()))
}

fn check_layout(header: &'static LibHeader, minor: u32) -> Result<(), Refusal> {
    let plugin = header.layout().ok_or_else(|| Refusal::Entry("it carries no description of its types".to_owned()))?;
    let host = <PluginRef as StableAbi>::LAYOUT;
    let plugin_is_newer = minor > API_MINOR;
    let (interface, implementation) = if plugin_is_newer { (host, plugin) } else { (plugin, host) };
    // Fresh globals: with shared ones, what an earlier plugin looked like decides about this one.
    check_layout_compatibility_with_globals(interface, implementation, &CheckingGlobals::new()).map_err(|errors| {
        tracing::debug!("all differences at the boundary: {errors}");
        Refusal::OtherLayout { minor, differences: differences(&errors, plugin_is_newer) }
    })
}

/// One line for each difference, and not more than a reader takes in.
fn differences(errors: &AbiInstabilityErrors, plugin_is_newer: bool) -> Vec<String> {
    const SHOWN: usize = 8;
    let mut lines: Vec<String> = Vec::new();
    for error in &errors.errors {
        let path = error
            .stack_trace
            .iter()
            .map(|step| match &step.expected {
                TLFieldOrFunction::Field(field) => field.layout().name(),
                TLFieldOrFunction::Function(function) => function.name.as_str(),
            })
            // Wrappers that say nothing to a reader.
            .filter(|name| !matches!(*name, "PrefixRef" | "AFunctionPointer" | "RResult"))
            .collect::<Vec<_>>()
            .join(" > ");
        for reason in &error.errs {
            let line = format!("{path}: {}", difference(reason, plugin_is_newer));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    if lines.len() > SHOWN + 1 {
        let more = lines.len() - SHOWN;
        lines.truncate(SHOWN);
        lines.push(format!("and {more} more, in the log at level `debug`"));
    }
    lines
}

fn difference(reason: &AbiInstability, plugin_is_newer: bool) -> String {
    let sides = |expected: &dyn fmt::Display, found: &dyn fmt::Display| {
        if plugin_is_newer {
            format!("plugin {found}, host {expected}")
        } else {
            format!("plugin {expected}, host {found}")
        }
    };
    match reason {
        AbiInstability::Name(ExpectedFound { expected, found }) => {
            format!("another type ({})", sides(expected, found))
        }
        AbiInstability::Package(ExpectedFound { expected, found }) => {
            format!("a type of another package ({})", sides(expected, found))
        }
        AbiInstability::PackageVersion(ExpectedFound { expected, found }) => {
            format!("another package version ({})", sides(expected, found))
        }
        AbiInstability::Size(ExpectedFound { expected, found }) => {
            format!("another size in bytes ({})", sides(expected, found))
        }
        AbiInstability::Alignment(ExpectedFound { expected, found }) => {
            format!("another alignment in bytes ({})", sides(expected, found))
        }
        AbiInstability::FieldCountMismatch(ExpectedFound { expected, found }) => {
            format!("another number of fields ({})", sides(expected, found))
        }
        AbiInstability::UnexpectedField(ExpectedFound { expected, found }) => format!(
            "another field ({})",
            sides(&format_args!("`{}`", expected.name()), &format_args!("`{}`", found.name()))
        ),
        AbiInstability::MismatchedPrefixSize(_) => "another number of fields that every version has".to_owned(),
        // The name of the variant says what differs; what stands in it can fill pages.
        other => {
            let text = format!("{other:?}");
            let name = text.split(['(', ' ', '{']).next().unwrap_or("difference");
            name.to_owned()
        }
    }
}

fn describe(module: PluginRef) -> Result<Description, Refusal> {
    let text = match module.describe()() {
        ROk(text) => text,
        RErr(error) => return Err(Refusal::Describe(CallError::of(error))),
    };
    let description: Description = serde_json::from_str(&text).map_err(|e| Refusal::BadDescription(e.to_string()))?;
    if description.schemes.is_empty() {
        return Err(Refusal::BadDescription("it has no scheme".to_owned()));
    }
    Ok(description)
}
