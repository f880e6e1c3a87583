//! `accredit device`.

use std::path::PathBuf;

use accredit_torch::{select, set_threads};
use anyhow::{Result, bail};
use clap::Subcommand;
use serde_json::json;

use super::print;
use crate::{
    device_check::{self, DType, Finding, Size},
    telemetry::progress,
};

#[derive(Debug, Subcommand)]
pub enum Device {
    /// Compare a device with the CPU, measure it, and train and resume there
    Check {
        /// A configuration to train for three iterations, the last of them once more from a checkpoint
        config: Option<PathBuf>,
        /// The device: `auto`, `cpu`, `cuda` or `cuda:N`
        #[arg(long, default_value = "auto")]
        device: String,
        /// Size of the model of random weights whose speed is measured; `full` on a GPU and `small` on a CPU, if not said
        #[arg(long, value_enum)]
        size: Option<Size>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

impl Device {
    pub fn run(self) -> Result<()> {
        let Self::Check { config, device, size, json } = self;
        let selection = select(&device)?;
        if let Some(notice) = &selection.notice {
            tracing::warn!("{notice}");
        }
        let device = selection.device;
        let on_cpu = device == accredit_torch::Device::CPU;
        let size = size.unwrap_or(if on_cpu { Size::Small } else { Size::Full });
        // Operations of the CPU are then the same each time.
        set_threads(1);
        let mut parts = Vec::new();
        progress::line(&format!("{device} beside the CPU ..."));
        parts.push(("agreement", device_check::agreement(device)?));
        progress::line("speed ...");
        parts.push(("speed", device_check::speed(device, DType::of_device(device), size)?));
        if let Some(config) = &config {
            progress::line(&format!("{} trained and resumed ...", config.display()));
            parts.push(("run", device_check::resumption(config, device)?));
        }
        print(&if json { as_json(&device.to_string(), &parts) } else { as_text(&parts) })?;
        let failed = parts.iter().flat_map(|(_, findings)| findings).filter(|finding| !finding.holds()).count();
        if failed > 0 {
            bail!("{failed} numbers of {device} are not as they should be");
        }
        Ok(())
    }
}

type Parts = [(&'static str, Vec<Finding>)];

fn as_json(device: &str, parts: &Parts) -> String {
    let parts: serde_json::Map<_, _> = parts.iter().map(|(name, findings)| ((*name).into(), json!(findings))).collect();
    format!("{:#}\n", json!({ "device": device, "parts": parts }))
}

fn as_text(parts: &Parts) -> String {
    let mut text = String::new();
    for (name, findings) in parts {
        text.push_str(&format!("{name}\n"));
        for finding in findings {
            let Finding { what, number, unit, limit } = finding;
            let number = if unit.is_empty() { format!("{number:.2e}") } else { short(*number) };
            let limit = match limit {
                Some(limit) if limit.is_finite() => format!(" (at most {limit})"),
                _ => String::new(),
            };
            let wrong = if finding.holds() { "" } else { "  WRONG" };
            text.push_str(&format!("  {what:<66} {number:>10} {unit}{limit}{wrong}\n"));
        }
    }
    text
}

/// Three digits or more.
fn short(number: f64) -> String {
    match number.abs() {
        large if large >= 100.0 => format!("{number:.0}"),
        middle if middle >= 1.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_marked() {
        let finding = |number, limit| Finding { what: "x".to_owned(), number, unit: "", limit };
        let parts = [("agreement", vec![finding(1e-6, Some(1e-3)), finding(1e-2, Some(1e-3)), finding(1.0, None)])];
        let text = as_text(&parts);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("1.00e-6  (at most 0.001)"), "{text}");
        assert!(lines[2].ends_with("(at most 0.001)  WRONG") && lines[3].ends_with("1.00e0 "), "{text}");
        assert!(as_json("cpu", &parts).contains("\"device\": \"cpu\""));
        assert_eq!([1234.5, 12.34, 0.1234].map(short), ["1234", "12.3", "0.123"]);
    }
}
