//! The environments against recordings of the originals.

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::command;

/// Builds the program that plays traces back, and runs it on a folder.
pub fn run(checkout: &Checkout, folder: &str) -> Result<()> {
    // The program runs in the root of the checkout, the user may stand elsewhere.
    let folder = std::path::absolute(folder).with_context(|| format!("the folder `{folder}`"))?;
    let arguments = ["run", "--quiet", "--package", "accredit-environments", "--bin", "accredit-traces", "--"];
    command::run(checkout.cargo(arguments).arg(folder))
}
