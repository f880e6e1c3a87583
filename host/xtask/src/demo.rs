//! What accredit is, without libtorch: the same rollouts and the same binary, two ways to give credit.

use anyhow::{Result, bail};

use crate::checkout::Checkout;
use crate::command;
use crate::workspace::Workspace;

const ROLLOUTS: &str = "configs/demo/rollouts.jsonl";
const BEFORE: &str = "configs/demo/grpo.toml";
const AFTER: &str = "configs/demo/grpo-actfocus.toml";

/// Builds the program and its plugins without libtorch, and gives credit to one file under two configurations.
pub fn run(checkout: &Checkout) -> Result<()> {
    // A profile that builds soonest: the demo computes next to nothing.
    command::run(&mut checkout.cargo(["build", "--profile", "demo", "--no-default-features"]))?;
    let program = Workspace::read(checkout)?.program("demo")?;
    let hash = || {
        let mut command = checkout.program("sha256sum");
        let text = command::read(command.arg(&program))?;
        eprintln!("$ {}\n{}", command::line(&command), text.trim_end());
        anyhow::Ok(text)
    };
    let credit = |configuration: &str| {
        let mut command = checkout.program(&program);
        command::run(command.args(["credit", "--config", configuration, "--rollouts", ROLLOUTS, "--color", "always"]))
    };

    eprintln!("\n== The binary");
    let before = hash()?;
    eprintln!("\n== Credit by grpo");
    credit(BEFORE)?;
    eprintln!("\n== What changes: the configuration");
    let mut diff = checkout.program("diff");
    let status = command::status(diff.args(["-u", BEFORE, AFTER]))?;
    match status.code() {
        Some(1) => {}
        Some(0) => bail!("{BEFORE} and {AFTER} are equal, so there is nothing to show"),
        _ => bail!("`{}` failed ({status})", command::line(&diff)),
    }
    eprintln!("\n== Credit by grpo and actfocus");
    credit(AFTER)?;
    eprintln!("\n== The binary again");
    if hash()? != before {
        bail!("the binary has changed while the demo ran");
    }
    eprintln!("The same file: the algorithm is in the plugins and the configuration.");
    Ok(())
}
