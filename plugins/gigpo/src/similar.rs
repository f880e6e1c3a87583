//! Near-duplicate states: which of them count as one.

use std::cmp::Reverse;

use accredit_plugin_api::prelude::*;
use accredit_steps::{Cells, Member};

use crate::ratio::{Pattern, Scratch, Text};

/// Puts together states whose texts are alike.
pub struct Similar {
    threshold: f64,
    autojunk: bool,
    scratch: Scratch,
}

/// A state as the group's steps have it.
struct State<'a> {
    id: u64,
    visits: usize,
    text: &'a str,
}

impl Similar {
    /// Texts whose ratio reaches the threshold are alike.
    pub fn new(threshold: f64, autojunk: bool) -> Self {
        Self { threshold, autojunk, scratch: Scratch::default() }
    }

    /// Renames the states of a group's steps to their clusters. States go through in a fixed order, the most visited
    /// first and equally visited ones by text, so that clusters do not depend on the order of trajectories. Each joins
    /// the first cluster whose first state it is like, or begins one.
    pub fn merge(&mut self, cells: &mut Cells, texts: &Texts<'_>, host: &Host) -> Result<()> {
        let mut states = Vec::new();
        for cell in cells.sorted() {
            states.push(State { id: cell[0].key(), visits: cell.len(), text: texts.get(cell[0].step())? });
        }
        states.sort_unstable_by_key(|state| (Reverse(state.visits), state.text));
        let mut clusters: Vec<Pattern> = Vec::new();
        let mut cluster_of: Vec<(u64, u64)> = Vec::with_capacity(states.len());
        for state in &states {
            if host.cancelled() {
                fail!("stopped while comparing the texts of states");
            }
            let text = Text::new(state.text);
            let alike = |cluster: &Pattern| cluster.matches(&text, self.threshold, &mut self.scratch);
            let cluster = clusters.iter().position(alike).unwrap_or_else(|| {
                clusters.push(Pattern::new(&text, self.autojunk));
                clusters.len() - 1
            });
            cluster_of.push((state.id, cluster as u64));
        }
        cluster_of.sort_unstable();
        cells.rename(|member: &Member| {
            let index = cluster_of.partition_point(|(id, _)| *id < member.key());
            cluster_of[index].1
        });
        Ok(())
    }
}
