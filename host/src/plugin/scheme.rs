//! One scheme with its parameters, as the rest of the host calls it; and what it says when it fails.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use abi_stable::std_types::{RErr, ROk, RStr};
use accredit_plugin_api::{
    Hook, Needs,
    abi::{RawColumn, RawColumnMut, RawReply},
    host::{CallError, CallErrorKind, Instance},
};
use thiserror::Error;

use super::{
    host_functions::{Registration, Services},
    load::Library,
    near::hint,
};

/// The plugin that a scheme comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of its package.
    pub name: String,
    /// Version of its package.
    pub version: String,
    /// Its file.
    pub path: PathBuf,
    /// SHA-256 of its file.
    pub sha256: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, path, sha256: _ } = self;
        write!(f, "plugin {name} {version} ({})", path.display())
    }
}

/// A scheme with its parameters. Calls come from one thread at a time.
pub struct Scheme {
    // Before its registration, since it may speak to the host while it ends.
    instance: Instance,
    registration: Registration,
    origin: Arc<Origin>,
    name: String,
    label: Arc<str>,
    needs: Needs,
    /// What it said when it panicked; its state may be anything since.
    panicked: Option<String>,
    /// Time that its hooks took since it was last asked for.
    spent: Duration,
}

impl Scheme {
    /// Makes a scheme of a library. `name` is the scheme's own, `label` what this run calls it; `params` is a JSON
    /// object.
    pub fn build(
        library: &Library,
        name: &str,
        label: &str,
        params: &serde_json::Value,
        services: Services,
    ) -> Result<Self, SchemeError> {
        let inspected = library.inspected();
        let origin = Arc::new(Origin {
            name: inspected.name.clone(),
            version: inspected.version.clone(),
            path: inspected.path.clone(),
            sha256: inspected.sha256.clone(),
        });
        let label: Arc<str> = label.into();
        let refused = |kind, message, location| SchemeError {
            origin: Arc::clone(&origin),
            label: Arc::clone(&label),
            during: During::Build,
            kind,
            message,
            location,
        };
        let failed = |error: CallError| refused(error.kind.into(), error.message, error.location);
        let names = || library.describe().schemes.iter().map(|s| s.name.as_str());
        if !names().any(|known| known == name) {
            let known: Vec<String> = names().map(|name| format!("`{name}`")).collect();
            let message = format!("it has no scheme `{name}`, but {}.{}", known.join(", "), hint(name, names()));
            return Err(refused(SchemeErrorKind::Unknown, message, String::new()));
        }
        if !params.is_object() {
            let message = format!("expected a table, found `{params}`");
            return Err(refused(SchemeErrorKind::Parameters, message, String::new()));
        }
        let registration = Registration::new(&label, services);
        let params = params.to_string();
        let build = library.module().build();
        let raw = match build(RStr::from(name), RStr::from(&*params), registration.host()) {
            ROk(raw) => raw,
            RErr(error) => return Err(failed(CallError::of(error))),
        };
        let instance = Instance::new(raw);
        let needs = instance.needs().map_err(failed)?;
        Ok(Self {
            instance,
            registration,
            origin,
            name: name.to_owned(),
            label,
            needs,
            panicked: None,
            spent: Duration::ZERO,
        })
    }

    /// The plugin that it comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The scheme's own name in its plugin.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What this run calls it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What it implements and needs, with the parameters that it has.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Whether it reads a column, or would if it were there.
    pub fn reads(&self, name: &str) -> bool {
        self.needs.reads.iter().chain(&self.needs.optional).any(|read| read.name == name)
    }

    /// Calls a hook. `inputs` and `outputs` describe memory that lives during the call; the outputs are for the caller
    /// to fill before and to check after. The replies are columns whose length only the scheme knows.
    ///
    /// After a panic the scheme's state may be anything, so every later call is refused.
    pub fn call<'a>(
        &mut self,
        hook: Hook,
        inputs: &'a [RawColumn<'a>],
        outputs: &'a mut [RawColumnMut<'a>],
    ) -> Result<Vec<RawReply>, SchemeError> {
        let start = Instant::now();
        let result = self.guarded(During::Hook(hook), |instance| instance.call(hook, inputs, outputs));
        self.spent += start.elapsed();
        result
    }

    /// The time that its hooks took since the last call of this.
    pub fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    /// State that must survive a resume; empty means none.
    pub fn save(&mut self) -> Result<Vec<u8>, SchemeError> {
        self.guarded(During::Save, |instance| instance.save())
    }

    /// Restores what [`save`](Self::save) gave.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), SchemeError> {
        self.guarded(During::Restore, |instance| instance.restore(bytes))
    }

    /// The metrics that it pushed since the last call: by name, the mean over its pushes with their weights.
    pub fn take_metrics(&mut self) -> Vec<(String, f64)> {
        self.registration.take_metrics()
    }

    /// What it pushed since the last [`take_metrics`](Self::take_metrics), as sums: name, sum of value times weight, sum of
    /// weights.
    pub fn metric_sums(&self) -> Vec<(String, f64, f64)> {
        self.registration.metric_sums()
    }

    /// Goes on from such sums.
    pub fn put_metric_sums(&mut self, sums: &[(String, f64, f64)]) {
        self.registration.put_metric_sums(sums);
    }

    fn guarded<T>(
        &mut self,
        during: During,
        function: impl FnOnce(&mut Instance) -> Result<T, CallError>,
    ) -> Result<T, SchemeError> {
        let failed = |kind, message, location| SchemeError {
            origin: Arc::clone(&self.origin),
            label: Arc::clone(&self.label),
            during,
            kind,
            message,
            location,
        };
        if let Some(before) = &self.panicked {
            let message = format!("refused, since it panicked before: {before}");
            return Err(failed(SchemeErrorKind::PanickedBefore, message, String::new()));
        }
        function(&mut self.instance).map_err(|error| {
            let kind = error.kind.into();
            let error = failed(kind, error.message, error.location);
            if kind == SchemeErrorKind::Panicked {
                self.panicked = Some(format!("{}, {}", error.during, error.what()));
            }
            error
        })
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheme")
            .field("origin", &self.origin)
            .field("name", &self.name)
            .field("label", &self.label)
            .field("needs", &self.needs)
            .field("panicked", &self.panicked)
            .finish_non_exhaustive()
    }
}

/// What a scheme was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// It was made from its parameters and asked for its needs.
    Build,
    /// A hook ran.
    Hook(Hook),
    /// Its state was saved.
    Save,
    /// Its state was restored.
    Restore,
}

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build => f.write_str("while it was made"),
            Self::Hook(hook) => write!(f, "hook `{}`", hook.name()),
            Self::Save => f.write_str("while its state was saved"),
            Self::Restore => f.write_str("while its state was restored"),
        }
    }
}

/// Kinds of failure of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeErrorKind {
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It panicked in an earlier call, and was not called.
    PanickedBefore,
    /// A parameter does not fit.
    Parameters,
    /// A column that it reads is absent or of another type.
    MissingColumn,
    /// The plugin has no scheme of this name.
    Unknown,
}

impl From<CallErrorKind> for SchemeErrorKind {
    fn from(kind: CallErrorKind) -> Self {
        match kind {
            CallErrorKind::Failed => Self::Failed,
            CallErrorKind::Panicked => Self::Panicked,
            CallErrorKind::Parameters => Self::Parameters,
            CallErrorKind::MissingColumn => Self::MissingColumn,
        }
    }
}

/// A failure of a scheme: whose, where, and in whose words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{origin}, scheme `{label}`, {during}: {}", self.what())]
pub struct SchemeError {
    /// The plugin.
    pub origin: Arc<Origin>,
    /// What the run calls the scheme.
    pub label: Arc<str>,
    /// What it was doing.
    pub during: During,
    /// What kind of failure.
    pub kind: SchemeErrorKind,
    /// In the plugin's words.
    pub message: String,
    /// `file:line:column` of a panic, or the path of a parameter; may be empty.
    pub location: String,
}

impl SchemeError {
    /// The parameter that does not fit, and why: its path inside `params`, which is empty where no single one is at
    /// fault.
    pub fn parameter(&self) -> Option<(&str, &str)> {
        (self.kind == SchemeErrorKind::Parameters).then_some((self.location.as_str(), self.message.as_str()))
    }

    /// What happened, without who and when.
    fn what(&self) -> String {
        let Self { kind, message, location, .. } = self;
        match (kind, location.as_str()) {
            (SchemeErrorKind::Panicked, "") => format!("panicked: {message}"),
            (SchemeErrorKind::Panicked, place) => format!("panicked at {place}: {message}"),
            (SchemeErrorKind::Parameters, "") => format!("its parameters do not fit: {message}"),
            (SchemeErrorKind::Parameters, path) => format!("its parameter `{path}`: {message}"),
            _ => message.clone(),
        }
    }
}
