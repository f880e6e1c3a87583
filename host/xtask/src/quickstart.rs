//! The main job on a fresh machine: fetch, build, train.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::workspace::Workspace;
use crate::{command, libtorch};

/// The configuration that the quickstart trains, relative to the root of the checkout.
const CONFIGURATION: &str = "configs/quickstart.toml";

/// Fetches libtorch, builds the program and its plugins in release, and becomes `accredit train`.
pub fn run(checkout: &Checkout, cuda: bool, arguments: &[String]) -> Result<()> {
    libtorch::ensure(checkout, cuda)?;
    command::run(&mut checkout.cargo(["build", "--release"]))?;
    let program = Workspace::read(checkout)?.program("release")?;
    let mut train = checkout.program(program);
    train.args(["train", CONFIGURATION]).args(arguments);
    let line = command::line(&train);
    eprintln!("$ {line}");
    // In place of this process, so that Ctrl-C reaches only the program that saves before it stops.
    let error = train.exec();
    Err(error).with_context(|| format!("cannot start `{line}`"))
}
