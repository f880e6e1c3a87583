//! `cargo xtask`: the tasks of this repository, in Rust so that they need nothing but cargo.
//!
//! The crate knows no libtorch; it fetches it for the others ([`libtorch`]). Start reading at [`arguments`], which lists
//! the tasks; each task is a file of its own. Exit codes: 0 done, 1 failed, 2 asked for something that does not exist.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod checkout;
mod command;
mod demo;
mod golden;
mod gpu_check;
mod libtorch;
mod quickstart;
mod test;
mod traces;
mod workspace;

use std::io::{self, Write};
use std::process::ExitCode;

use arguments::Task;
use checkout::Checkout;

fn main() -> ExitCode {
    let task = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(task) => task,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            return ExitCode::from(2);
        }
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let checkout = Checkout::find()?;
    match task {
        Task::Help(text) => Ok(io::stdout().write_all(text.as_bytes())?),
        Task::Libtorch { cuda } => libtorch::ensure(&checkout, cuda),
        Task::Quickstart { cuda, arguments } => quickstart::run(&checkout, cuda, &arguments),
        Task::Test { torch, filter } => test::run(&checkout, torch, filter.as_deref()),
        Task::Golden { folder, algorithms } => golden::run(&checkout, &folder, &algorithms),
        Task::Traces { folder } => traces::run(&checkout, &folder),
        Task::Demo => demo::run(&checkout),
        Task::GpuCheck => gpu_check::run(&checkout),
    }
}
