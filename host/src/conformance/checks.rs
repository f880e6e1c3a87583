//! What every scheme must hold, whatever it computes.

use accredit_plugin_api::{
    ACTION, Hook, Layout, THINK,
    columns::{
        ADVANTAGE, D_ENTROPY, D_LOGPROB, D_TOP_K_LOGPROB, D_VALUE, DECISION, LOSS, NEW_ENTROPY, NEW_LOGPROB,
        NEW_TOP_K_LOGPROB, NEW_VALUE, OLD_LOGPROB, TEACHER_LOGPROB, TEACHER_TOP_K_LOGPROB, WEIGHT,
    },
    host::{Data, Table, known_column},
};

use super::{
    call::{Given, call, call_part},
    poison,
    subject::Subject,
    world::{Nature, Outcomes, Trajectory, World},
};

/// One property.
pub struct Check {
    /// Its name, by which a scheme can be excepted.
    pub name: &'static str,
    /// What must hold.
    pub about: &'static str,
    /// The hooks that it is about.
    pub hooks: &'static [Hook],
    /// Whether it says anything about this scheme.
    pub applies: fn(&Subject) -> bool,
    /// An error says in words what does not hold in a batch.
    pub run: fn(&Subject, Hook, &World) -> Result<(), String>,
}

const ALWAYS: fn(&Subject) -> bool = |_| true;
/// Hooks that write numbers.
const NUMBERS: &[Hook] = &[Hook::Shape, Hook::Advantage, Hook::Weigh, Hook::Refresh, Hook::Objective];

/// All of them, in the order in which they are reported.
pub const ALL: [Check; 11] = [
    Check {
        name: "numbers",
        about: "every number that a hook writes is finite, on ordinary and on hostile batches",
        hooks: &Hook::ALL,
        applies: ALWAYS,
        run: numbers,
    },
    Check {
        name: "declared",
        about: "what it reads is what `needs` says: no other column moves anything",
        hooks: &Hook::ALL,
        applies: ALWAYS,
        run: declared,
    },
    Check {
        name: "gaps",
        about: "NaN in a column of query results, where nothing was asked, reaches no number",
        hooks: NUMBERS,
        applies: |subject| !subject.query_columns().is_empty(),
        run: gaps,
    },
    Check {
        name: "order",
        about: "groups and their trajectories can stand in any order",
        hooks: &[Hook::Select, Hook::Shape, Hook::Advantage, Hook::Weigh, Hook::Refresh, Hook::Objective],
        applies: ALWAYS,
        run: order,
    },
    Check {
        name: "other-groups",
        about: "a group's numbers do not depend on other groups",
        hooks: &[Hook::Shape, Hook::Advantage, Hook::Weigh],
        applies: ALWAYS,
        run: other_groups,
    },
    Check {
        name: "equal-outcomes",
        about: "where nothing tells the trajectories of a group apart, advantages are exactly 0",
        hooks: &[Hook::Advantage],
        applies: |subject| {
            let needs = &subject.needs;
            needs.group_size > 1 && !needs.value_target && !needs.hooks.contains(&Hook::Queries)
        },
        run: equal_outcomes,
    },
    Check {
        name: "cut",
        about: "micro-batches add up to the minibatch, however it is cut",
        hooks: &[Hook::Refresh, Hook::Objective],
        applies: ALWAYS,
        run: cut,
    },
    Check {
        name: "left-out",
        about: "a token of weight 0 gets no derivative and moves no other token, whatever stands in its columns",
        hooks: &[Hook::Objective],
        applies: ALWAYS,
        run: left_out,
    },
    Check {
        name: "derivative",
        about: "the derivatives that it writes are those of the loss that it writes",
        hooks: &[Hook::Objective],
        applies: ALWAYS,
        run: derivative,
    },
    Check {
        name: "coverage",
        about: "with one advantage for all and a policy that has not moved, every token is trained",
        hooks: &[Hook::Weigh, Hook::Refresh, Hook::Objective],
        applies: ALWAYS,
        run: coverage,
    },
    Check {
        name: "state",
        about: "what it saves is all that it remembers: a restored scheme goes on as the one that was saved",
        hooks: &Hook::ALL,
        applies: ALWAYS,
        run: state,
    },
];

fn unchanged(_: &mut Table) {}

fn numbers(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let nature = |outcomes| Nature { outcomes, ..Nature::default() };
    let natures = [
        Nature::default(),
        nature(Outcomes::Equal(0.95)),
        nature(Outcomes::Equal(0.0)),
        nature(Outcomes::Extreme),
        nature(Outcomes::Close),
        Nature { status: 1, ..Nature::default() },
        Nature { status: 2, ..Nature::default() },
        Nature { kind: Some(THINK), ..Nature::default() },
        Nature { kind: Some(ACTION), ..Nature::default() },
    ];
    let first = world.trajectories.first().cloned();
    let alone = |steps: &[usize]| {
        let one = |first: &Trajectory| Trajectory { steps: steps.to_vec(), ..first.clone() };
        world.with(first.iter().map(one).collect())
    };
    // An empty response, and groups of one.
    let mut worlds = vec![world.clone(), alone(&[3]), alone(&[1]), alone(&[0, 2])];
    if world.trajectories.len() > 1 {
        let mut with_gap = world.clone();
        with_gap.trajectories[0].steps.push(0);
        worlds.push(with_gap);
    }
    for mut world in worlds {
        for nature in natures {
            world.nature = nature;
            let place = || if nature == Nature::default() { String::new() } else { format!(" with {nature:?}") };
            let given = call(&mut subject.scheme()?, hook, &world, &unchanged)
                .map_err(|error| format!("{error}{}, {}", place(), world.shape()))?;
            if let Some(what) = given.not_finite() {
                return Err(format!("{what}{}, {}", place(), world.shape()));
            }
            check_range(hook, &given, &world, subject)?;
        }
    }
    Ok(())
}

/// What a hook may say at all.
fn check_range(hook: Hook, given: &Given, world: &World, subject: &Subject) -> Result<(), String> {
    if let Some(decision) = given.column(DECISION.name()).into_iter().find(|decision| *decision > 2.0) {
        return Err(format!("a decision is {decision}, and 0, 1 and 2 are known"));
    }
    if hook == Hook::Weigh
        && let Some(weight) = given.column(WEIGHT.name()).into_iter().find(|weight| *weight < 0.0)
    {
        return Err(format!("a weight is {weight}"));
    }
    let steps: usize = world.trajectories.iter().map(|trajectory| trajectory.steps.len()).sum();
    for query in &given.queries {
        if query.step >= steps {
            return Err(format!("a query is about step {}, and there are {steps}", query.step));
        }
        if !subject.needs.asks.iter().any(|read| read.name == query.column) {
            return Err(format!("a query asks for the column `{}`, which `needs` does not announce", query.column));
        }
    }
    Ok(())
}

fn declared(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let before = call(&mut subject.scheme()?, hook, world, &unchanged)?;
    let names: Vec<String> = world.table(&subject.needs).names().map(str::to_owned).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).filter(|name| poison::can_be(name, subject)).collect();
    let with = |columns: &[&str]| {
        call(&mut subject.scheme()?, hook, world, &|table: &mut Table| poison::columns(table, columns))
    };
    // A scheme may ask for all that it looks at in an order of its own: one after another only where something moved.
    let moved = |columns: &[&str]| -> Result<Option<String>, String> {
        match with(columns) {
            Ok(after) => Ok(before.differs(&after, 0.0)),
            Err(error) => Ok(Some(error)),
        }
    };
    if moved(&all)?.is_none() {
        return Ok(());
    }
    for name in &all {
        if let Some(what) = moved(&[name])? {
            return Err(format!("it reads `{name}`, which `needs` does not name: {what}"));
        }
    }
    Err("it reads columns that `needs` does not name".to_owned())
}

fn gaps(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    for every in [1, 2, 3] {
        let change = |table: &mut Table| {
            for name in subject.query_columns() {
                let each = if name == TEACHER_TOP_K_LOGPROB.name() { subject.needs.top_k.max(1) as usize } else { 1 };
                if let Some(Data::F32(numbers)) = table.get_mut(&name) {
                    for (place, number) in numbers.iter_mut().enumerate() {
                        if (place / each).is_multiple_of(every) {
                            *number = f32::NAN;
                        }
                    }
                }
            }
        };
        let given = call(&mut subject.scheme()?, hook, world, &change)?;
        if let Some(what) = given.not_finite() {
            return Err(what);
        }
    }
    Ok(())
}

fn order(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let before = call(&mut subject.scheme()?, hook, world, &unchanged)?;
    let mut backwards = world.trajectories.clone();
    backwards.reverse();
    // Groups in their order, and their trajectories turned round.
    let mut inside = world.trajectories.clone();
    inside.sort_by_key(|trajectory| (trajectory.group, u64::MAX - trajectory.id));
    for other in [backwards, inside] {
        let after = call(&mut subject.scheme()?, hook, &world.with(other), &unchanged)?;
        if let Some(what) = before.differs(&after, 1e-5) {
            return Err(format!("in another order {what}"));
        }
    }
    Ok(())
}

fn other_groups(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let before = call(&mut subject.scheme()?, hook, world, &unchanged)?;
    let mut groups: Vec<u64> = world.trajectories.iter().map(|trajectory| trajectory.group).collect();
    groups.dedup();
    for group in groups {
        let alone = world.trajectories.iter().filter(|trajectory| trajectory.group == group).cloned().collect();
        let after = call(&mut subject.scheme()?, hook, &world.with(alone), &unchanged)?;
        if let Some(what) = before.differs(&after, 1e-5) {
            return Err(format!("beside other groups and alone {what}"));
        }
    }
    Ok(())
}

fn equal_outcomes(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let Some(first) = world.trajectories.first() else { return Ok(()) };
    // Means of these that are summed up one after another in single precision are not exact.
    for (outcome, size) in [(0.95, 8), (0.1, 10), (0.6, 7), (0.3, 6), (0.0, 4), (1.0, 3)] {
        let mut world = world.with((0..size).map(|id| Trajectory { id, ..first.clone() }).collect());
        world.nature = Nature { outcomes: Outcomes::Equal(outcome), alike: true, ..Nature::default() };
        let given = call(&mut subject.scheme()?, hook, &world, &unchanged)?;
        if let Some(number) = given.column(ADVANTAGE.name()).into_iter().find(|number| *number != 0.0) {
            return Err(format!("every outcome is {outcome}, and an advantage is {number}"));
        }
    }
    Ok(())
}

fn cut(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let whole = call(&mut subject.scheme()?, hook, world, &unchanged)?;
    let all: Vec<usize> = (0..world.trajectories.len()).collect();
    for size in [1, 2, 3] {
        let (mut parts, mut loss) = (Given::default(), 0.0);
        let mut scheme = subject.scheme()?;
        for part in all.chunks(size) {
            let given = call_part(&mut scheme, hook, world, part, &unchanged)?;
            loss += given.batch.get(LOSS.name()).copied().unwrap_or(0.0);
            parts.by_trajectory.extend(given.by_trajectory);
        }
        if whole.batch.contains_key(LOSS.name()) {
            parts.batch.insert(LOSS.name(), loss);
        }
        if let Some(what) = whole.differs(&parts, 1e-5) {
            return Err(format!("whole and in parts of {size} {what}"));
        }
    }
    Ok(())
}

fn left_out(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let out = |place: usize| place % 3 == 1;
    let floats = |table: &mut Table, name: &str, number: &dyn Fn(usize) -> f32| {
        if let Some(Data::F32(numbers)) = table.get_mut(name) {
            numbers.iter_mut().enumerate().filter(|(place, _)| out(*place)).for_each(|(p, n)| *n = number(p));
        }
    };
    let quiet = |table: &mut Table| floats(table, WEIGHT.name(), &|_| 0.0);
    let hostile = |table: &mut Table| {
        quiet(table);
        let far = |place: usize, odd: bool| if place.is_multiple_of(2) == odd { -0.01 } else { -200.0 };
        floats(table, OLD_LOGPROB.name(), &|place| far(place, true));
        floats(table, NEW_LOGPROB.name(), &|place| far(place, false));
        floats(table, ADVANTAGE.name(), &|_| 1e6);
    };
    let before = call(&mut subject.scheme()?, hook, world, &quiet)?;
    let after = call(&mut subject.scheme()?, hook, world, &hostile)?;
    // In the order in which tokens stand, where `out` counts.
    let mut place = 0;
    for Trajectory { id, .. } in &world.trajectories {
        let numbers = |given: &Given| given.by_trajectory[id].get(D_LOGPROB.name()).cloned().unwrap_or_default();
        for (a, b) in numbers(&before).iter().zip(&numbers(&after)) {
            if out(place) && (*a != 0.0 || *b != 0.0) {
                let number = if *a == 0.0 { b } else { a };
                return Err(format!("the derivative of a token of weight 0 is {number}"));
            }
            if !out(place) && ((a - b).abs() > 1e-6 * (1.0 + a.abs()) || b.is_nan()) {
                return Err(format!(
                    "what stands at tokens of weight 0 changes another token's derivative from {a} to {b}"
                ));
            }
            place += 1;
        }
    }
    match (before.batch.get(LOSS.name()), after.batch.get(LOSS.name())) {
        (Some(a), Some(b)) if (a - b).abs() > 1e-6 * (1.0 + a.abs()) || b.is_nan() => {
            Err(format!("what stands at tokens of weight 0 changes the loss from {a} to {b}"))
        }
        _ => Ok(()),
    }
}

fn derivative(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    const STEP: f32 = 2e-3;
    let columns = [
        (NEW_LOGPROB.name(), D_LOGPROB.name()),
        (NEW_ENTROPY.name(), D_ENTROPY.name()),
        (NEW_VALUE.name(), D_VALUE.name()),
        (NEW_TOP_K_LOGPROB.name(), D_TOP_K_LOGPROB.name()),
    ];
    let loss = |column: &str, place: usize, by: f32| -> Result<f64, String> {
        let change = |table: &mut Table| {
            if let Some(Data::F32(numbers)) = table.get_mut(column) {
                numbers[place] += by;
            }
        };
        let given = call(&mut subject.scheme()?, hook, world, &change)?;
        Ok(given.batch.get(LOSS.name()).copied().unwrap_or(f64::NAN))
    };
    let given = call(&mut subject.scheme()?, hook, world, &unchanged)?;
    let here = given.batch.get(LOSS.name()).copied().unwrap_or(f64::NAN);
    for (column, written) in columns {
        // In the order in which tokens stand.
        let reported: Vec<f64> = world
            .trajectories
            .iter()
            .filter_map(|trajectory| given.by_trajectory[&trajectory.id].get(written))
            .flatten()
            .copied()
            .collect();
        let largest = reported.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
        let stride = (reported.len() / 12).max(1);
        for place in (0..reported.len()).step_by(stride) {
            let (above, below) = (loss(column, place, STEP)?, loss(column, place, -STEP)?);
            let step = f64::from(STEP);
            let (forward, backward) = ((above - here) / step, (here - below) / step);
            let (found, expected) = (reported[place], f64::midpoint(forward, backward));
            // Beside a bend, such as where clipping begins, there are two derivatives.
            let bend = (forward - backward).abs() > 0.05 * (forward.abs() + backward.abs()) + 1e-3 * largest;
            let near = (found - expected).abs() <= 0.02 * (found.abs() + expected.abs()) + 2e-3 * largest + 1e-7;
            if !bend && !near {
                return Err(format!(
                    "`{written}` of token {place} is {found}, and the loss changes by {expected} with `{column}`"
                ));
            }
        }
    }
    Ok(())
}

fn coverage(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let change = |table: &mut Table| {
        for (column, number) in [(ADVANTAGE, 0.7), (WEIGHT, 1.0)] {
            if let Some(Data::F32(numbers)) = table.get_mut(column.name()) {
                numbers.fill(number);
            }
        }
        if let Some(old) = table.get(OLD_LOGPROB.name()).cloned() {
            table.set(NEW_LOGPROB.name(), old);
        }
    };
    let given = call(&mut subject.scheme()?, hook, world, &change)?;
    let none_at = |column: &str, numbers: &[f64], each: usize| {
        let missed = numbers.chunks(each).filter(|numbers| numbers.iter().all(|number| *number == 0.0)).count();
        if missed == 0 {
            Ok(())
        } else {
            Err(format!("`{column}` is 0 at {missed} of {} tokens", numbers.len() / each))
        }
    };
    let columns: &[&str] = match hook {
        Hook::Objective => {
            let likeliest = given.column(D_TOP_K_LOGPROB.name());
            if !likeliest.is_empty() {
                // Either way of training a token will do.
                return none_at(D_TOP_K_LOGPROB.name(), &likeliest, subject.needs.top_k.max(1) as usize)
                    .or_else(|_| none_at(D_LOGPROB.name(), &given.column(D_LOGPROB.name()), 1));
            }
            &[D_LOGPROB.name()]
        }
        Hook::Weigh => &[ADVANTAGE.name(), WEIGHT.name()],
        _ => &[ADVANTAGE.name()],
    };
    columns.iter().try_for_each(|column| none_at(column, &given.column(column), 1))
}

fn state(subject: &Subject, hook: Hook, world: &World) -> Result<(), String> {
    let other = World::random(world.seed + 1, world.layout);
    let mut first = subject.scheme()?;
    let said = |error: crate::plugin::SchemeError| error.to_string();
    call(&mut first, hook, &other, &unchanged)?;
    let saved = first.save().map_err(said)?;
    let mut second = subject.scheme()?;
    if !saved.is_empty() {
        second.restore(&saved).map_err(said)?;
        if second.save().map_err(said)? != saved {
            return Err("what a restored scheme saves is not what it was given".to_owned());
        }
    }
    let (a, b) = (call(&mut first, hook, world, &unchanged)?, call(&mut second, hook, world, &unchanged)?);
    match a.differs(&b, 0.0) {
        Some(what) if saved.is_empty() => {
            Err(format!("it saves nothing, and an earlier call moves a later one: {what}"))
        }
        Some(what) => Err(format!("after it was restored {what}")),
        None if first.save().map_err(said)? != second.save().map_err(said)? => {
            Err("the saved and the restored scheme remember other things after the same call".to_owned())
        }
        None => Ok(()),
    }
}

/// Worlds that a check is made in.
pub fn worlds() -> impl Iterator<Item = World> {
    (0..6).flat_map(|seed| [Layout::Trajectory, Layout::Step].map(|layout| World::random(seed, layout)))
}

impl Subject {
    /// Columns that may hold NaN where nothing was asked, and that it reads.
    fn query_columns(&self) -> Vec<String> {
        let reads = self.needs.reads.iter().chain(&self.needs.optional).chain(&self.needs.asks);
        let mut names: Vec<String> = reads
            .map(|read| read.name.clone())
            .filter(|name| {
                known_column(name).is_none()
                    || [TEACHER_LOGPROB.name(), TEACHER_TOP_K_LOGPROB.name()].contains(&name.as_str())
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }
}
