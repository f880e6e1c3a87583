//! Whether a plugin keeps its promises: properties that every scheme must hold, on made-up batches, without a model.
//!
//! | file | what |
//! | --- | --- |
//! | [`checks`] | the properties; start reading there |
//! | [`world`] | made-up batches, and [`poison`] for columns that nobody should look at |
//! | [`call`] | one call of a hook, and what it gave |
//! | [`report`] | what came out, in words and as JSON |

mod call;
mod checks;
mod poison;
mod report;
mod subject;
mod world;

use serde_json::Value;

pub use report::{Report, Verdict};
use subject::Subject;
use world::World;

use crate::plugin::{Library, SchemeError};

/// Checks a scheme of a library with these parameters, a JSON object.
pub fn check(library: &Library, scheme: &str, parameters: &Value) -> Result<Report, SchemeError> {
    let subject = Subject::new(library, scheme, parameters)?;
    let mut report = Report { scheme: scheme.to_owned(), verdicts: Vec::new() };
    for check in &checks::ALL {
        let hooks = check.hooks.iter().filter(|hook| subject.needs.hooks.contains(hook));
        for hook in hooks.filter(|_| (check.applies)(&subject)) {
            let failed = checks::worlds().find_map(|world| {
                let why = (check.run)(&subject, *hook, &world).err()?;
                Some(smallest(world, why, |world| (check.run)(&subject, *hook, world).err()))
            });
            let exception = subject.needs.exceptions.iter().find(|exception| exception.check == check.name);
            report.verdicts.push(Verdict {
                check: check.name,
                about: check.about,
                hook: hook.name(),
                failed: failed.as_ref().map(|(_, why)| why.clone()),
                batch: failed.map(|(world, _)| world.shape()),
                exception: exception.map(|exception| exception.why.clone()),
            });
        }
    }
    for exception in &subject.needs.exceptions {
        if !checks::ALL.iter().any(|check| check.name == exception.check) {
            report.verdicts.push(Verdict {
                check: "exceptions",
                about: "exceptions name checks that there are",
                hook: "needs",
                failed: Some(format!("there is no check `{}`", exception.check)),
                batch: None,
                exception: None,
            });
        }
    }
    Ok(report)
}

/// Takes away from a batch what can go while the check still fails.
fn smallest(mut world: World, mut why: String, fails: impl Fn(&World) -> Option<String>) -> (World, String) {
    let mut tries = 300;
    loop {
        let smaller = candidates(&world).into_iter().find_map(|candidate| {
            tries -= 1;
            (tries > 0).then(|| fails(&candidate).map(|why| (candidate, why))).flatten()
        });
        match smaller {
            Some((candidate, reason)) => (world, why) = (candidate, reason),
            None => return (world, why),
        }
    }
}

/// Batches that are a little smaller.
fn candidates(world: &World) -> Vec<World> {
    let mut all = Vec::new();
    for index in 0..world.trajectories.len() {
        if world.trajectories.len() > 1 {
            let mut fewer = world.clone();
            fewer.trajectories.remove(index);
            all.push(fewer);
        }
        let steps = &world.trajectories[index].steps;
        if steps.len() > 1 {
            let mut shorter = world.clone();
            shorter.trajectories[index].steps.pop();
            all.push(shorter);
        }
        for (step, tokens) in steps.iter().enumerate().filter(|(_, tokens)| **tokens > 1) {
            let mut shorter = world.clone();
            shorter.trajectories[index].steps[step] = tokens / 2;
            all.push(shorter);
        }
    }
    all
}
