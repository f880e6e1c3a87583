//! What `accredit plugin list` and `accredit plugin inspect` print.

use std::fmt::Write as _;

use super::{error::LoadError, inspect::Inspected};

/// One line for each plugin that can be loaded, then a paragraph for each file that cannot.
pub fn list_text(available: &[Result<Inspected, LoadError>]) -> String {
    let plugins: Vec<[String; 4]> = available
        .iter()
        .flatten()
        .map(|plugin| {
            [
                plugin.short_name().to_owned(),
                plugin.version.clone(),
                format!("api {}.{}", plugin.api_major, plugin.api_minor),
                plugin.path.display().to_string(),
            ]
        })
        .collect();
    let mut text = String::new();
    if plugins.is_empty() {
        text.push_str("No plugin is in the plugin path.\n");
    }
    let widths = [0, 1, 2].map(|column| {
        let lengths = plugins.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    });
    for [name, version, api, path] in &plugins {
        let [name_width, version_width, api_width] = widths;
        let _ = writeln!(text, "{name:name_width$}  {version:version_width$}  {api:api_width$}  {path}");
    }
    for error in available.iter().filter_map(|found| found.as_ref().err()) {
        let _ = writeln!(text, "\nnot usable: {error}");
    }
    text
}

/// All that a plugin's file says about itself, one fact a line.
pub fn inspect_text(plugin: &Inspected) -> String {
    let facts = [
        ("plugin", plugin.short_name().to_owned()),
        ("package", format!("{} {}", plugin.name, plugin.version)),
        ("file", plugin.path.display().to_string()),
        ("size", format!("{} bytes", plugin.bytes)),
        ("sha256", plugin.sha256.clone()),
        ("plugin api", format!("{}.{}", plugin.api_major, plugin.api_minor)),
        ("needs", format!("a host with plugin api {}.{} or later", plugin.api_major, plugin.needs_minor)),
        ("built with", format!("accredit-plugin-api {}, {}", plugin.api_package, plugin.compiler)),
        ("for", plugin.target.clone()),
        ("profile", if plugin.debug { "debug" } else { "optimised" }.to_owned()),
    ];
    facts.iter().fold(String::new(), |mut text, (name, fact)| {
        let _ = writeln!(text, "{name:10}  {fact}");
        text
    })
}

/// The same as JSON, with the names of [`Inspected`]'s fields.
pub fn inspect_json(plugin: &Inspected) -> serde_json::Value {
    serde_json::json!(plugin)
}

#[cfg(test)]
mod tests {
    use super::super::error::Refusal;
    use super::*;

    fn plugin(name: &str) -> Inspected {
        Inspected {
            path: format!("/opt/{name}.so").into(),
            sha256: "ab".repeat(32),
            bytes: 12,
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            api_major: 1,
            api_minor: 0,
            needs_minor: 0,
            api_package: "1.0.0".to_owned(),
            compiler: "rustc 1.95.0".to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
            debug: true,
        }
    }

    #[test]
    fn a_list_has_columns_and_then_what_is_not_usable() {
        let list =
            [Ok(plugin("accredit-grpo")), Err(Refusal::Empty.of("/opt/libaccredit_x.so".as_ref())), Ok(plugin("mine"))];
        assert_eq!(
            list_text(&list),
            "grpo  0.1.0  api 1.0  /opt/accredit-grpo.so\n\
             mine  0.1.0  api 1.0  /opt/mine.so\n\
             \n\
             not usable: /opt/libaccredit_x.so: the file is empty. Build or copy the plugin again\n"
        );
        assert_eq!(list_text(&[]), "No plugin is in the plugin path.\n");
    }

    #[test]
    fn inspection_shows_every_fact_in_both_forms() {
        let plugin = plugin("accredit-grpo");
        let text = inspect_text(&plugin);
        let json = inspect_json(&plugin);
        for fact in json.as_object().unwrap().values() {
            let shown = match fact {
                serde_json::Value::String(fact) => fact.clone(),
                serde_json::Value::Bool(_) => "debug".to_owned(),
                other => other.to_string(),
            };
            assert!(text.contains(&shown), "{shown} in\n{text}");
        }
    }
}
