//! Which goals are whose: training, validation, test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::goals::Goals;
use crate::python_random::PythonRandom;

/// What the tasks are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Split {
    /// To train on.
    #[default]
    Train,
    /// To choose by.
    Validation,
    /// To report.
    Test,
}

/// How goals are split. All ranges are places in the shuffled goals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ranges {
    /// The first tenth for test, the second for validation, the rest for training. Goals that ask for the same as an
    /// earlier one are left out, so that no task is in two splits.
    #[default]
    Tenths,
    /// WebShop's: 500 for test, the next 1,000 for validation, the rest for training.
    Original,
    /// RAGEN's: WebShop's ranges, of goals that are shuffled once more.
    Ragen,
    /// verl-agent's: 500 for validation, the rest for training. With its `shuffle_seed` and `price_seed`, which it
    /// takes from the place of a worker, one split of theirs.
    Verl,
}

/// The goals of a split, as places in the order of the catalogue.
pub(super) fn goals(ranges: Ranges, split: Split, goals: &Goals, is_repeated: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut order = goals.shuffled.clone();
    match ranges {
        Ranges::Tenths => order.retain(|goal| !is_repeated(*goal)),
        Ranges::Ragen => {
            let mut places: Vec<u32> = (0..order.len() as u32).collect();
            PythonRandom::new(42).shuffle(&mut places);
            order = places.into_iter().map(|place| order[place as usize]).collect();
        }
        Ranges::Original | Ranges::Verl => {}
    }
    let all = order.len();
    let range = match (ranges, split) {
        (Ranges::Tenths, Split::Test) => 0..all / 10,
        (Ranges::Tenths, Split::Validation) => all / 10..all / 5,
        (Ranges::Tenths, Split::Train) => all / 5..all,
        (Ranges::Original | Ranges::Ragen, Split::Test) | (Ranges::Verl, Split::Validation) => 0..500,
        (Ranges::Original | Ranges::Ragen, Split::Validation) => 500..1500,
        (Ranges::Original | Ranges::Ragen, Split::Train) => 1500..all,
        (Ranges::Verl, Split::Test) => 0..0,
        (Ranges::Verl, Split::Train) => 500..all,
    };
    order.get(range.start.min(all)..range.end.min(all)).map_or(Vec::new(), <[u32]>::to_vec)
}
