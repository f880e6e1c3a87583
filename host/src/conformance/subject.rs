//! The scheme that is checked.

use accredit_plugin_api::Needs;
use serde_json::Value;

use crate::plugin::{Library, Scheme, Services};

/// A scheme of a library with its parameters, of which new instances can be made.
pub struct Subject {
    library: Library,
    /// Its name in the library.
    pub name: String,
    parameters: Value,
    /// What it says that it needs.
    pub needs: Needs,
}

impl Subject {
    /// Builds it once. Errors: the scheme refuses its parameters.
    pub fn new(library: &Library, name: &str, parameters: &Value) -> Result<Self, crate::plugin::SchemeError> {
        let scheme = Scheme::build(library, name, name, parameters, Services::default())?;
        Ok(Self {
            library: library.clone(),
            name: name.to_owned(),
            parameters: parameters.clone(),
            needs: scheme.needs().clone(),
        })
    }

    /// A new instance, which remembers nothing.
    pub fn scheme(&self) -> Result<Scheme, String> {
        Scheme::build(&self.library, &self.name, &self.name, &self.parameters, Services::default())
            .map_err(|error| error.to_string())
    }
}
