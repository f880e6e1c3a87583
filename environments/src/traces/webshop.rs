//! Traces of WebShop's text mode, and of its search engine. Both are of the products in the files beside them.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Format, Trace, TraceError};
use crate::webshop::rank;
use crate::{Environment, make};

/// The file that says which words of titles are nouns.
const NOUNS: &str = "items_nouns.json";

/// Pages: a line per reset, with a null `action`, and one per action.
pub(super) const PAGES: Format =
    Format { recognises: |first| first.has(&["ep", "goal", "action", "obs", "avail"]), replay: pages };

/// Searches: a line per query, with its terms and what was found with what scores.
pub(super) const SEARCHES: Format =
    Format { recognises: |first| first.has(&["q", "tokens", "hits"]), replay: searches };

fn folder(path: &Path) -> String {
    path.parent().unwrap_or(Path::new(".")).to_string_lossy().into_owned()
}

/// Goals are recorded by their place in the shuffled list of verl-agent's first worker, whose seed is 0.
fn pages(trace: &Trace, path: &Path) -> Result<(), TraceError> {
    let folder = folder(path);
    let has_nouns = Path::new(&folder).join(NOUNS).is_file();
    let mut episode: Option<Box<dyn Environment>> = None;
    for line in &trace.lines {
        let action = line.value("action").as_str();
        let Some(action) = action else {
            let goal = line.whole("goal")?;
            let (split, first) = if goal < 500 { ("validation", 0) } else { ("train", 500) };
            let settings = [
                ("data", json!(folder)),
                ("price_seed", json!(0)),
                ("shuffle_seed", json!(0)),
                ("ranges", json!("verl")),
                ("split", json!(split)),
            ];
            let settings = Map::from_iter(settings.map(|(key, value)| (key.to_owned(), value)));
            let mut environment = line.place(make("webshop", &settings))?;
            let turn = line.place(environment.reset(goal - first))?;
            line.compare("obs", turn.observation)?;
            episode = Some(environment);
            continue;
        };
        let environment = episode.as_mut().ok_or_else(|| line.misses("action", "null in the first line"))?;
        let outcome = line.place(environment.step(Some(action), action))?;
        line.compare("done", outcome.terminal)?;
        let (recorded, found) = (line.value("reward").as_f64(), f64::from(outcome.reward));
        if outcome.terminal && !has_nouns && recorded.is_some_and(|recorded| differs_in_kind_only(recorded, found)) {
            continue;
        }
        line.compare("reward", outcome.reward)?;
        line.compare("obs", outcome.turn.observation)?;
        // The list after a purchase is of the next episode.
        if !outcome.terminal {
            line.compare("avail", available(&outcome.turn.actions))?;
        }
    }
    Ok(())
}

/// What the original says about the actions: on the search page, which lists one search here, that there is a bar.
fn available(actions: &[String]) -> Value {
    let text =
        |action: &String| action.strip_prefix("click[").and_then(|text| text.strip_suffix(']')).map(str::to_owned);
    match actions.iter().map(text).collect::<Option<Vec<String>>>() {
        Some(texts) => json!({ "has_search_bar": false, "clickables": texts }),
        None => json!({ "has_search_bar": true, "clickables": ["search"] }),
    }
}

/// Whether two scores may be of the same purchase, judged to be of another kind: without the nouns that the original saw
/// in titles, that is a guess. The kind is worth 0, 0.1, 0.5 or 1.
fn differs_in_kind_only(recorded: f64, found: f64) -> bool {
    let ratios = [0.1, 0.2, 0.5, 2.0, 5.0, 10.0];
    recorded != found
        && (recorded == 0.0 || found == 0.0 || ratios.iter().any(|ratio| (recorded / found - ratio).abs() < 1e-5))
}

fn searches(trace: &Trace, path: &Path) -> Result<(), TraceError> {
    let folder = folder(path);
    for line in &trace.lines {
        let query = line.value("q").as_str().ok_or_else(|| line.misses("q", "a text"))?;
        let ranking = line.place(rank(&folder, query))?;
        line.compare("tokens", ranking.terms)?;
        let expected = line.value("hits").as_array().ok_or_else(|| line.misses("hits", "a list"))?;
        // Scores are recorded with four decimals: what is that near is the same.
        let found = ranking.hits.into_iter().enumerate().map(|(place, (name, score))| {
            let recorded = expected.get(place).and_then(|hit| hit.get(1)).and_then(Value::as_f64).unwrap_or(f64::NAN);
            let score = if (recorded - f64::from(score)).abs() < 6e-5 { recorded } else { f64::from(score) };
            json!([name, score])
        });
        line.compare("hits", found.collect::<Value>())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_one_purchase_differ_by_what_the_kind_is_worth() {
        for (recorded, found, expected) in
            [(0.02, 0.0, true), (0.2, 0.02, true), (0.6, 0.3, true), (0.3, 0.3, false), (0.8, 0.6, false)]
        {
            assert_eq!(differs_in_kind_only(recorded, found), expected, "{recorded} {found}");
        }
    }
}
