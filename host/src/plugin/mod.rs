//! Plugins: found, inspected, loaded, and called.
//!
//! [`inspect`](inspect()) reads what a file says about itself and runs nothing of it. [`Library::load`] opens it, after
//! that has passed. [`SearchPath`] turns a name into a file. [`Scheme`] is one scheme with its parameters, which the
//! rest of the host calls; nothing outside this module knows how a call crosses the boundary.
//!
//! A library is never unloaded: threads and thread-local values of a plugin may outlive every instance.

mod error;
mod host_functions;
mod inspect;
mod load;
mod near;
mod new;
mod report;
mod scheme;
mod search;

pub use error::{LoadError, Refusal};
pub use host_functions::{Services, cancel, cancelled};
pub use inspect::{Inspected, inspect};
pub use load::{Description, Library, SchemeDescription};
pub use new::{NewError, create_project};
pub use report::{inspect_json, inspect_text, list_text};
pub use scheme::{During, Origin, Scheme, SchemeError, SchemeErrorKind};
pub use search::{FindError, Found, SearchPath};
