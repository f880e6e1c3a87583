//! Values by hand, cases that broke other trainers, and properties, of each scheme.

mod grpo;
mod rloo;

use accredit_plugin_api::{
    Layout,
    prelude::*,
    testing::{TestBatch, TestScheme},
};

/// A group as outcomes with the numbers of steps; every step has two tokens.
pub type Group<'a> = &'a [(f32, usize)];

pub fn batch(layout: Layout, groups: &[Group<'_>]) -> TestBatch {
    let steps: Vec<Vec<Vec<usize>>> =
        groups.iter().map(|group| group.iter().map(|(_, steps)| vec![2; *steps]).collect()).collect();
    let trajectories: Vec<Vec<&[usize]>> =
        steps.iter().map(|group| group.iter().map(Vec::as_slice).collect()).collect();
    let groups_of_steps: Vec<&[&[usize]]> = trajectories.iter().map(Vec::as_slice).collect();
    let mut batch = TestBatch::new(layout, &groups_of_steps);
    let outcomes: Vec<f32> = groups.iter().flat_map(|g| g.iter().map(|t| t.0)).collect();
    batch.set(RAW_OUTCOME, outcomes.clone()).set(OUTCOME, outcomes);
    batch
}

/// The advantage of each trajectory, after checking that it is the same on all its tokens.
pub fn advantages<S: Scheme>(layout: Layout, params: &str, groups: &[Group<'_>]) -> Vec<f32> {
    let tokens = TestScheme::<S>::new(params).unwrap().advantage(&batch(layout, groups)).unwrap();
    let mut next = 0;
    let mut out = Vec::new();
    for (_, steps) in groups.iter().flat_map(|group| group.iter()) {
        let own = &tokens[next..next + 2 * steps];
        assert!(own.iter().all(|a| a.to_bits() == own[0].to_bits()), "{own:?}");
        out.push(own[0]);
        next += 2 * steps;
    }
    out
}

/// Trajectories of groups, tagged and shuffled inside the groups and with the groups.
pub fn shuffle<T>(groups: &mut [Vec<T>], seed: u64) {
    let mut state = seed;
    let mut key = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    for group in groups.iter_mut() {
        group.sort_by_cached_key(|_| key());
    }
    groups.sort_by_cached_key(|_| key());
}

pub fn views(groups: &[Vec<(f32, usize)>]) -> Vec<Group<'_>> {
    groups.iter().map(Vec::as_slice).collect()
}

/// Checks that a permutation of trajectories and groups permutes the advantages and changes no bit of them.
pub fn check_order<S: Scheme>(layout: Layout, params: &str, groups: &[Vec<(f32, usize)>], seed: u64) {
    let before = advantages::<S>(layout, params, &views(groups));
    let mut next = before.iter();
    let mut tagged: Vec<Vec<((f32, usize), f32)>> =
        groups.iter().map(|group| group.iter().map(|t| (*t, *next.next().unwrap())).collect()).collect();
    shuffle(&mut tagged, seed);
    let shuffled: Vec<Vec<(f32, usize)>> = tagged.iter().map(|group| group.iter().map(|(t, _)| *t).collect()).collect();
    let after = advantages::<S>(layout, params, &views(&shuffled));
    let expected = tagged.iter().flatten().map(|(_, a)| a.to_bits());
    assert!(after.iter().map(|a| a.to_bits()).eq(expected));
}
