//! The reweighting by hand, what teachers are told, and properties.

mod contexts;
mod properties;
mod weights;
