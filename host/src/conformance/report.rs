//! What came out of the checks.

use serde::Serialize;

/// What a scheme holds.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scheme.
    pub scheme: String,
    /// A verdict for each check and hook that it is about.
    pub verdicts: Vec<Verdict>,
}

/// Whether a property holds in a hook.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The check.
    pub check: &'static str,
    /// What must hold.
    pub about: &'static str,
    /// The hook.
    pub hook: &'static str,
    /// What does not hold, in words.
    pub failed: Option<String>,
    /// The smallest batch that was found in which it does not.
    pub batch: Option<String>,
    /// Why the scheme need not hold it, as it declares.
    pub exception: Option<String>,
}

impl Verdict {
    /// Whether it counts against the scheme: it fails and is not excepted.
    pub fn is_bad(&self) -> bool {
        self.failed.is_some() && self.exception.is_none()
    }
}

impl Report {
    /// How many verdicts count against the scheme.
    pub fn bad(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.is_bad()).count()
    }

    /// In words.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.scheme);
        for verdict in &self.verdicts {
            let Verdict { check, about, hook, failed, batch, exception } = verdict;
            let outcome = match (failed, exception) {
                (None, _) => "ok",
                (Some(_), Some(_)) => "excepted",
                (Some(_), None) => "FAILED",
            };
            text.push_str(&format!("  {check:<15} {hook:<10} {outcome}\n"));
            if verdict.is_bad() {
                text.push_str(&format!("      {about}\n"));
            }
            let said = failed.as_deref().map(|failed| format!("      {failed}\n"));
            let place = batch.as_deref().map(|batch| format!("      in a batch of {batch}\n"));
            let why = exception.as_deref().map(|why| format!("      since {why}\n"));
            let lines =
                if exception.is_some() { [None, None, why.filter(|_| failed.is_some())] } else { [said, place, None] };
            lines.into_iter().flatten().for_each(|line| text.push_str(&line));
        }
        text
    }
}
