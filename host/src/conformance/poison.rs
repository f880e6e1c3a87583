//! Changing columns that a scheme says it does not read.

use accredit_plugin_api::{
    ACTION, FORMAT, Hook, NO_STATE, THINK,
    columns::{
        ADVANTAGE, ALL_TEXTS, GROUP_TRAJECTORIES, ITERATION, ITERATIONS, KIND, LAYOUT, NEXT_STATE, REWARD, ROUND,
        ROUND_GROUPS, ROUNDS, ROW_STEPS, STATE, STEP_TOKENS, TOKEN_REWARD, TOP_K, TRAJECTORY_STEPS, UPDATE, UPDATES,
        WEIGHT,
    },
    host::{Data, Table},
};

use super::subject::Subject;

/// What every scheme may look at: how the batch is cut, where the run stands, and what the hook itself is given.
const OPEN: [&str; 15] = [
    GROUP_TRAJECTORIES.name(),
    TRAJECTORY_STEPS.name(),
    STEP_TOKENS.name(),
    ROW_STEPS.name(),
    LAYOUT.name(),
    ITERATION.name(),
    ITERATIONS.name(),
    UPDATE.name(),
    UPDATES.name(),
    ROUND.name(),
    ROUNDS.name(),
    ROUND_GROUPS.name(),
    ADVANTAGE.name(),
    WEIGHT.name(),
    TOP_K.name(),
];

/// Whether a column may be changed under a scheme that does what it says.
pub fn can_be(name: &str, subject: &Subject) -> bool {
    // Offsets of texts stand with their bytes.
    let column = name.strip_suffix(".bytes").unwrap_or(name);
    if OPEN.contains(&column) || name.ends_with(".offsets") {
        return false;
    }
    // What `shape` changes stands in its outputs as well.
    let in_place = [REWARD.name(), TOKEN_REWARD.name()].contains(&column) && subject.needs.hooks.contains(&Hook::Shape);
    let needs = &subject.needs;
    let part = needs.part.as_ref();
    let counted = part.is_some_and(|part| part.column.as_deref() == Some(column))
        || (column == KIND.name() && part.is_some_and(|part| !part.kinds.is_empty()));
    let likeliest = needs.top_k > 0 && column.contains("top_k");
    let named = needs.reads.iter().chain(&needs.optional).chain(&needs.asks).any(|read| read.name == column);
    !(in_place || named || counted || likeliest)
}

/// Puts other values into columns, as possible as those that stood there.
pub fn columns(table: &mut Table, names: &[&str]) {
    for name in names {
        let Some(data) = table.get_mut(name) else { continue };
        match data {
            Data::F32(numbers) => numbers.iter_mut().for_each(|number| *number = 1.5 * *number - 0.37),
            Data::F64(numbers) => numbers.iter_mut().for_each(|number| *number = 1.5 * *number + 1.0),
            Data::Bool(flags) => flags.iter_mut().for_each(|flag| *flag = !*flag),
            Data::U8(kinds) if *name == KIND.name() => kinds.iter_mut().for_each(|kind| {
                *kind = match *kind {
                    THINK => ACTION,
                    ACTION => FORMAT,
                    _ => THINK,
                }
            }),
            Data::U8(bytes) if ALL_TEXTS.iter().any(|text| text.parts().0 == *name) => bytes.fill(b'y'),
            Data::U8(numbers) => numbers.iter_mut().for_each(|number| *number = (*number + 1) % 3),
            Data::U32(ids) if *name == STATE.name() || *name == NEXT_STATE.name() => {
                // Other states, which no two groups share.
                let known = ids.iter_mut().enumerate().filter(|(_, id)| **id != NO_STATE);
                known.for_each(|(place, id)| *id = 8 * (*id / 8) + (place as u32 * 5) % 8);
            }
            Data::U32(numbers) => numbers.iter_mut().for_each(|number| *number += 1),
            Data::U64(numbers) => numbers.iter_mut().for_each(|number| *number += 1),
        }
    }
}
