//! The batch: columns over groups, trajectories, steps and response tokens, built once from episodes and read-only from
//! then on. What does not fit together is refused here, with its address, so that no scheme computes with it.

use std::fmt;

use accredit_plugin_api::{
    Column, Level, NO_STATE, TextColumn,
    columns::{
        ACTION_TEXT, FEEDBACK, GROUP_TRAJECTORIES, JUDGEMENT, JUDGEMENT_WITH_SUCCESS, KIND, LAYOUT, NEW_TOP_K_LOGPROB,
        NEXT_STATE, OBSERVATION, OBSERVATION_TOKENS, OUTCOME, PROMPT, RAW_OUTCOME, RAW_REWARD, RESPONSE, REWARD,
        ROW_STEPS, STATE, STATE_TEXT, STATUS, STEP_TOKENS, SUCCESS, TASK, TEACHER_TOP_K_LOGPROB, TERMINAL, TOKEN_ID,
        TOKEN_REWARD, TOP_K, TOP_K_ID, TRAINED, TRAJECTORY_STEPS, VALID_ACTION,
    },
    host::{Data, Table, known_column, may_have_gaps},
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::{
    episode::{Layout, Status, Step, TokenKind, Trajectory},
    top_k::TopKColumns,
};

/// Where something stands, in the words of the rollout: shown in every error about data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The trajectory's name.
    pub trajectory: String,
    /// Which of its steps, from 0.
    pub step: Option<usize>,
    /// Which of the step's tokens, from 0.
    pub token: Option<usize>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trajectory `{}`", self.trajectory)?;
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        if let Some(token) = self.token {
            write!(f, ", token {token}")?;
        }
        Ok(())
    }
}

/// Episodes that do not make a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A column is shorter or longer than its siblings.
    #[error("{address}: column `{column}` has {found} tokens where `{other}` has {expected}")]
    Length {
        /// Where.
        address: Address,
        /// The column that does not fit.
        column: String,
        /// Its length.
        found: usize,
        /// The column that it is compared with.
        other: String,
        /// That one's length.
        expected: usize,
    },
    /// A number is NaN or infinite.
    #[error("{address}: `{column}` is {value}; every number must be finite")]
    NotFinite {
        /// Where.
        address: Address,
        /// The column.
        column: String,
        /// The number, as text.
        value: String,
    },
    /// The lists of the likeliest tokens differ in length, or are empty.
    #[error(
        "{address}: `{column}` lists {found} of the likeliest tokens where others list {expected}; all list one \
         number, at least 1"
    )]
    TopK {
        /// Where.
        address: Address,
        /// The column.
        column: String,
        /// How many it lists.
        found: usize,
        /// How many the first list has.
        expected: usize,
    },
    /// A column is there in one place and absent in another.
    #[error("{address}: column `{column}` is absent, and other steps have it")]
    Absent {
        /// Where.
        address: Address,
        /// The column.
        column: String,
    },
    /// Two trajectories of the batch have one name.
    #[error("two trajectories are called `{name}` in group `{group}`; every name may stand once")]
    Duplicate {
        /// The name.
        name: String,
        /// Their group.
        group: String,
    },
    /// Rows are cut in two ways.
    #[error(
        "{address}: its layout is `{found:?}`, and that of the first trajectory is `{expected:?}`; a batch has one"
    )]
    Layout {
        /// Where.
        address: Address,
        /// Its layout.
        found: Layout,
        /// The layout of the first trajectory.
        expected: Layout,
    },
    /// A column's name is taken by something that the host computes itself.
    #[error("{address}: a token column may not be called `{column}`: the name belongs to another level of the batch")]
    Reserved {
        /// Where.
        address: Address,
        /// The column.
        column: String,
    },
}

/// What was counted and left out before any scheme sees the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The environment broke.
    pub failed: usize,
    /// A reward is missing.
    pub unscored: usize,
    /// No response token.
    pub empty: usize,
    /// `select` dropped it.
    pub dropped: usize,
}

impl LeftOut {
    /// All of them.
    pub fn total(&self) -> usize {
        self.failed + self.unscored + self.empty + self.dropped
    }
}

/// What `select` decided about one of the episodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Trained, and counts in statistics.
    Train,
    /// Only counts in statistics.
    BaselineOnly,
    /// Left out.
    Drop,
}

/// A batch, with the way back to the episodes that it was built from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The columns, offsets included.
    pub table: Table,
    /// Which episode each trajectory of the batch is: an index into the list that it was built from.
    pub episodes: Vec<usize>,
    /// What was left out.
    pub left_out: LeftOut,
    /// How rows are cut.
    pub layout: Layout,
    names: Vec<String>,
    levels: FxHashMap<String, Level>,
}

impl Batch {
    /// Builds a batch. Trajectories of one group are put next to each other, in the order in which the groups first
    /// appear. `roles` has one entry for each episode, or is empty: then all are trained. `texts` says which text
    /// columns to fill.
    pub fn build(episodes: &[Trajectory], roles: &[Role], texts: &[TextColumn]) -> Result<Self, BatchError> {
        Builder::new(episodes, roles)?.build(texts)
    }

    /// Number of trajectories.
    pub fn trajectories(&self) -> usize {
        self.episodes.len()
    }

    /// Number of response tokens.
    pub fn tokens(&self) -> usize {
        self.offsets(STEP_TOKENS).last().map_or(0, |last| *last as usize)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets(ROW_STEPS).len().saturating_sub(1)
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.offsets(GROUP_TRAJECTORIES).len().saturating_sub(1)
    }

    /// How many of the likeliest tokens stand at each place; 0 where there are no such columns.
    pub fn top_k(&self) -> usize {
        match self.table.get(TOP_K.name()) {
            Some(Data::U32(k)) => k.first().map_or(0, |k| *k as usize),
            _ => 0,
        }
    }

    /// A column of offsets.
    pub fn offsets(&self, column: Column<u32>) -> &[u32] {
        match self.table.get(column.name()) {
            Some(Data::U32(offsets)) => offsets,
            _ => &[],
        }
    }

    /// Adds a column of 32-bit floats, one for each response token.
    ///
    /// # Panics
    /// If it has another length: the caller computed it for these tokens.
    pub fn put_tokens(&mut self, name: &str, elements: Vec<f32>) {
        assert_eq!(elements.len(), self.tokens(), "column `{name}` has one element for each token");
        self.levels.insert(name.to_owned(), Level::Token);
        self.table.set(name.to_owned(), elements);
    }

    /// Adds the ids of the `k` likeliest tokens at each place, `k` for each response token.
    ///
    /// # Panics
    /// If there is another number of them: the caller computed them for these tokens.
    pub fn put_likeliest(&mut self, k: usize, ids: Vec<u32>) {
        assert_eq!(ids.len(), k * self.tokens(), "{k} ids for each token");
        self.levels.insert(TOP_K.name().to_owned(), Level::Batch);
        self.levels.insert(TOP_K_ID.name().to_owned(), Level::TopK);
        self.table.put(TOP_K, vec![k as u32]);
        self.table.put(TOP_K_ID, ids);
    }

    /// Adds a column with a number for each of the likeliest tokens at each place.
    ///
    /// # Panics
    /// If it has another length: the caller computed it for these tokens.
    pub fn put_top_k(&mut self, column: Column<f32>, elements: Vec<f32>) {
        assert_eq!(elements.len(), self.top_k() * self.tokens(), "`{}` has k elements for each token", column.name());
        self.levels.insert(column.name().to_owned(), Level::TopK);
        self.table.put(column, elements);
    }

    /// Adds a column at the level of the batch, or replaces it.
    pub fn put_scalar(&mut self, column: Column<u64>, value: u64) {
        self.levels.insert(column.name().to_owned(), Level::Batch);
        self.table.put(column, vec![value]);
    }

    /// What one element of a column belongs to.
    pub fn level(&self, name: &str) -> Option<Level> {
        self.levels.get(name).copied()
    }

    /// Where a token stands.
    pub fn address_of_token(&self, token: usize) -> Address {
        let steps = self.offsets(STEP_TOKENS);
        let step = steps.partition_point(|offset| *offset as usize <= token).saturating_sub(1);
        let mut address = self.address_of_step(step);
        address.token = steps.get(step).map(|first| token - *first as usize);
        address
    }

    /// Where a step stands.
    pub fn address_of_step(&self, step: usize) -> Address {
        let trajectories = self.offsets(TRAJECTORY_STEPS);
        let trajectory = trajectories.partition_point(|offset| *offset as usize <= step).saturating_sub(1);
        let mut address = self.address_of_trajectory(trajectory);
        address.step = trajectories.get(trajectory).map(|first| step - *first as usize);
        address
    }

    /// Where a trajectory stands.
    pub fn address_of_trajectory(&self, trajectory: usize) -> Address {
        Address { trajectory: self.names.get(trajectory).cloned().unwrap_or_default(), step: None, token: None }
    }

    /// The episode and the step in it of each step of the batch.
    pub fn step_sources(&self) -> Vec<(usize, usize)> {
        let trajectories = self.offsets(TRAJECTORY_STEPS);
        let mut sources = Vec::with_capacity(*trajectories.last().unwrap_or(&0) as usize);
        for (t, episode) in self.episodes.iter().enumerate() {
            sources.extend((0..(trajectories[t + 1] - trajectories[t]) as usize).map(|step| (*episode, step)));
        }
        sources
    }

    /// Copies token columns back into the episodes that the batch was built from, so that a rollout file holds what
    /// the schemes saw. Columns that are not there are left out.
    pub fn write_back(&self, episodes: &mut [Trajectory], names: &[&str]) {
        let offsets = self.offsets(STEP_TOKENS);
        for name in names {
            let Some(column) = self.table.get(name).and_then(Data::as_f32) else { continue };
            for (s, (episode, step)) in self.step_sources().into_iter().enumerate() {
                let tokens = column[offsets[s] as usize..offsets[s + 1] as usize].to_vec();
                episodes[episode].steps[step].tokens.columns.insert((*name).to_owned(), tokens);
            }
        }
    }

    /// Rows that are trained: those of trained trajectories that have a token.
    pub fn trained_rows(&self) -> Vec<usize> {
        let (rows, steps) = (self.offsets(ROW_STEPS), self.offsets(STEP_TOKENS));
        let trajectories = self.offsets(TRAJECTORY_STEPS);
        let trained = match self.table.get(TRAINED.name()) {
            Some(Data::Bool(trained)) => trained.as_slice(),
            _ => &[],
        };
        let mut t = 0;
        (0..self.rows())
            .filter(|row| {
                let (from, to) = (rows[*row] as usize, rows[row + 1] as usize);
                while t + 1 < trained.len() && trajectories[t + 1] as usize <= from {
                    t += 1;
                }
                trained.get(t).copied().unwrap_or(false) && steps[to] > steps[from]
            })
            .collect()
    }
}

/// Name of an episode in messages and output: its own, or its place in the list.
pub fn name_of(episode: &Trajectory, index: usize) -> String {
    if episode.trajectory.is_empty() { format!("#{}", index + 1) } else { episode.trajectory.clone() }
}

/// Number of response tokens of a step, or none if the step carries no token data at all.
fn token_count(step: &Step) -> Option<usize> {
    let tokens = &step.tokens;
    if !tokens.kind.is_empty() {
        return Some(tokens.kind.len());
    }
    if !tokens.token_id.is_empty() {
        return Some(tokens.token_id.len());
    }
    let top_k = &tokens.top_k;
    let lists = [top_k.id.len(), top_k.new_logprob.len(), top_k.teacher_logprob.len()];
    tokens.columns.values().next().map(Vec::len).or(lists.into_iter().find(|length| *length > 0))
}

struct Builder<'a> {
    episodes: &'a [Trajectory],
    /// Chosen episodes, group by group.
    chosen: Vec<usize>,
    roles: &'a [Role],
    group_offsets: Vec<u32>,
    left_out: LeftOut,
    layout: Layout,
    /// No episode carries token data: each step then counts as one token.
    bare: bool,
}

impl<'a> Builder<'a> {
    fn new(episodes: &'a [Trajectory], roles: &'a [Role]) -> Result<Self, BatchError> {
        let bare = episodes.iter().flat_map(|e| &e.steps).all(|step| token_count(step).is_none());
        let layout = episodes.first().map_or(Layout::Trajectory, |e| e.layout);
        let mut left_out = LeftOut::default();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_of: FxHashMap<&str, usize> = FxHashMap::default();
        let mut seen: FxHashSet<(&str, &str)> = FxHashSet::default();
        for (index, episode) in episodes.iter().enumerate() {
            let address = || Address { trajectory: name_of(episode, index), ..Address::default() };
            if episode.layout != layout {
                return Err(BatchError::Layout { address: address(), found: episode.layout, expected: layout });
            }
            if !episode.trajectory.is_empty() && !seen.insert((&episode.group, &episode.trajectory)) {
                return Err(BatchError::Duplicate { name: episode.trajectory.clone(), group: episode.group.clone() });
            }
            check_episode(episode, index)?;
            let group = *group_of.entry(episode.group.as_str()).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            if episode.status == Status::Failed {
                left_out.failed += 1;
            } else if episode.outcome.is_none() && episode.steps.iter().any(|step| step.reward.is_none()) {
                left_out.unscored += 1;
            } else if episode.steps.is_empty() || (!bare && episode.steps.iter().all(|s| response_len(s) == 0)) {
                left_out.empty += 1;
            } else if roles.get(index) == Some(&Role::Drop) {
                left_out.dropped += 1;
            } else {
                groups[group].push(index);
            }
        }
        let mut chosen = Vec::new();
        let mut group_offsets = vec![0];
        for group in groups.iter().filter(|group| !group.is_empty()) {
            chosen.extend(group);
            group_offsets.push(chosen.len() as u32);
        }
        Ok(Self { episodes, chosen, roles, group_offsets, left_out, layout, bare })
    }

    fn build(self, texts: &[TextColumn]) -> Result<Batch, BatchError> {
        let mut trajectory_steps = vec![0_u32];
        let mut row_steps = vec![0_u32];
        let mut step_tokens = vec![0_u32];
        let mut observation_tokens = Vec::new();
        let (mut rewards, mut outcomes) = (Vec::new(), Vec::new());
        let (mut terminal, mut valid_action) = (Vec::new(), Vec::new());
        let (mut status, mut success, mut trained) = (Vec::new(), Vec::new(), Vec::new());
        for index in &self.chosen {
            let episode = &self.episodes[*index];
            let mut sum = 0.0_f64;
            let mut before = 0;
            for (index, step) in episode.steps.iter().enumerate() {
                let tokens = if self.bare { 1 } else { response_len(step) };
                if index > 0 && (self.layout == Layout::Step || step.begins_row) {
                    row_steps.push(rewards.len() as u32);
                    before = 0;
                }
                let kinds = &step.tokens.kind;
                let leading = kinds.iter().take_while(|kind| **kind == TokenKind::Observation).count();
                let all = kinds.iter().filter(|kind| **kind == TokenKind::Observation).count();
                observation_tokens.push((before + step.context.len() + leading) as u32);
                before += step.context.len() + all;
                step_tokens.push(step_tokens[step_tokens.len() - 1] + tokens as u32);
                let reward = step.reward.unwrap_or(0.0);
                sum += f64::from(reward);
                rewards.push(reward);
                terminal.push(step.terminal);
                valid_action.push(step.valid_action);
            }
            trajectory_steps.push(rewards.len() as u32);
            row_steps.push(rewards.len() as u32);
            outcomes.push(episode.outcome.unwrap_or(sum as f32));
            success.push(episode.success.unwrap_or(false));
            status.push(match episode.status {
                Status::Completed | Status::Failed => 0_u8,
                Status::TruncatedSteps => 1,
                Status::TruncatedLength => 2,
            });
            trained.push(self.roles.get(*index) != Some(&Role::BaselineOnly));
        }
        let tokens = step_tokens[step_tokens.len() - 1] as usize;

        let mut table = Table::default();
        table.put(GROUP_TRAJECTORIES, self.group_offsets.clone());
        table.put(TRAJECTORY_STEPS, trajectory_steps);
        table.put(STEP_TOKENS, step_tokens);
        table.put(ROW_STEPS, row_steps);
        table.put(LAYOUT, vec![u8::from(self.layout == Layout::Step)]);
        table.put(RAW_OUTCOME, outcomes.clone());
        table.put(OUTCOME, outcomes);
        table.put(STATUS, status);
        table.put(TRAINED, trained);
        if self.chosen.iter().all(|index| self.episodes[*index].success.is_some()) {
            table.put(SUCCESS, success);
        }
        table.put(RAW_REWARD, rewards.clone());
        table.put(REWARD, rewards);
        table.put(TERMINAL, terminal);
        table.put(VALID_ACTION, valid_action);
        table.put(OBSERVATION_TOKENS, observation_tokens);
        table.put(TOKEN_REWARD, vec![0.0; tokens]);
        self.intern_states(&mut table);
        self.token_columns(&mut table)?;
        for column in texts {
            self.text_column(&mut table, *column);
        }
        let levels = table
            .names()
            .map(|name| (name.to_owned(), known_column(name).map_or(Level::Token, |column| column.level)))
            .collect();
        let names = self.chosen.iter().map(|index| name_of(&self.episodes[*index], *index)).collect();
        Ok(Batch { table, episodes: self.chosen, left_out: self.left_out, layout: self.layout, names, levels })
    }

    fn steps(&self) -> impl Iterator<Item = &'a Step> {
        self.chosen.iter().flat_map(|index| &self.episodes[*index].steps)
    }

    /// Gives equal states of one group one id; no two groups share an id. Needs a state before every step.
    fn intern_states(&self, table: &mut Table) {
        if self.chosen.is_empty() || self.steps().any(|step| step.state.is_none()) {
            return;
        }
        let (mut states, mut next_states) = (Vec::new(), Vec::new());
        let mut next_id = 0_u32;
        for group in self.group_offsets.windows(2) {
            let mut ids: FxHashMap<&str, u32> = FxHashMap::default();
            let mut id_of = |state: &'a str| {
                *ids.entry(state).or_insert_with(|| {
                    next_id += 1;
                    next_id - 1
                })
            };
            for index in &self.chosen[group[0] as usize..group[1] as usize] {
                for step in &self.episodes[*index].steps {
                    states.push(step.state.as_deref().map_or(NO_STATE, &mut id_of));
                    next_states.push(step.next_state.as_deref().map_or(NO_STATE, &mut id_of));
                }
            }
        }
        table.put(STATE, states);
        table.put(NEXT_STATE, next_states);
    }

    /// Copies the token columns without the environment's tokens. A column that one step has, every step must have.
    fn token_columns(&self, table: &mut Table) -> Result<(), BatchError> {
        let with_tokens = || self.steps().filter(|step| response_len(step) > 0);
        if with_tokens().any(|step| !step.tokens.kind.is_empty()) {
            let mut kinds = Vec::new();
            self.each_step(|step, address| {
                require(!step.tokens.kind.is_empty(), KIND.name(), address)?;
                kinds.extend(step.tokens.kind.iter().filter(|k| **k != TokenKind::Observation).map(|k| *k as u8));
                Ok(())
            })?;
            table.put(KIND, kinds);
        }
        if with_tokens().any(|step| !step.tokens.token_id.is_empty()) {
            let mut ids = Vec::new();
            self.each_step(|step, address| {
                require(!step.tokens.token_id.is_empty(), TOKEN_ID.name(), address)?;
                ids.extend(response_indices(step).map(|i| step.tokens.token_id[i]));
                Ok(())
            })?;
            table.put(TOKEN_ID, ids);
        }
        let mut names: Vec<&str> = Vec::new();
        for name in with_tokens().flat_map(|step| step.tokens.columns.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        for name in names {
            let mut elements = Vec::new();
            self.each_step(|step, address| {
                let column = step.tokens.columns.get(name);
                require(column.is_some(), name, address)?;
                elements.extend(column.into_iter().flat_map(|column| response_indices(step).map(|i| column[i])));
                Ok(())
            })?;
            table.set(name.to_owned(), elements);
        }
        let mut top_k = TopKColumns::of(with_tokens());
        if !top_k.is_empty() {
            self.each_step(|step, address| top_k.push(step, response_indices(step), address))?;
            top_k.put_into(table);
        }
        Ok(())
    }

    /// Calls a function for every chosen step that has a response token.
    fn each_step(
        &self,
        mut function: impl FnMut(&'a Step, &dyn Fn() -> Address) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        for index in &self.chosen {
            let episode = &self.episodes[*index];
            for (s, step) in episode.steps.iter().enumerate().filter(|(_, step)| response_len(step) > 0) {
                function(step, &|| Address { trajectory: name_of(episode, *index), step: Some(s), token: None })?;
            }
        }
        Ok(())
    }

    fn text_column(&self, table: &mut Table, column: TextColumn) {
        let mut bytes: Vec<u8> = Vec::new();
        let mut offsets = vec![0_u64];
        let mut push = |text: &str| {
            bytes.extend(text.as_bytes());
            offsets.push(bytes.len() as u64);
        };
        match column.level() {
            Level::Group => {
                for group in self.group_offsets.windows(2) {
                    let first = &self.episodes[self.chosen[group[0] as usize]];
                    push(if column.name() == TASK.name() {
                        &first.task
                    } else {
                        first.answer.as_deref().unwrap_or("")
                    });
                }
            }
            Level::Trajectory => {
                for index in &self.chosen {
                    push(trajectory_text(&self.episodes[*index], column).unwrap_or(""));
                }
            }
            _ => {
                for step in self.steps() {
                    push(step_text(step, column).unwrap_or(""));
                }
            }
        }
        let (bytes_name, offsets_name) = column.parts();
        table.set(bytes_name, bytes);
        table.set(offsets_name, offsets);
    }
}

fn step_text(step: &Step, column: TextColumn) -> Option<&str> {
    let texts: [(TextColumn, Option<&str>); 6] = [
        (STATE_TEXT, step.state.as_deref()),
        (PROMPT, Some(&step.prompt)),
        (OBSERVATION, Some(&step.observation)),
        (RESPONSE, Some(&step.response)),
        (ACTION_TEXT, step.action.as_deref()),
        (FEEDBACK, Some(&step.feedback)),
    ];
    texts.into_iter().find(|(name, _)| name.name() == column.name()).and_then(|(_, text)| text)
}

fn trajectory_text(trajectory: &Trajectory, column: TextColumn) -> Option<&str> {
    let texts: [(TextColumn, &Option<String>); 2] =
        [(JUDGEMENT, &trajectory.judgement), (JUDGEMENT_WITH_SUCCESS, &trajectory.judgement_with_success)];
    texts.into_iter().find(|(name, _)| name.name() == column.name()).and_then(|(_, text)| text.as_deref())
}

fn require(there: bool, column: &str, address: &dyn Fn() -> Address) -> Result<(), BatchError> {
    if there { Ok(()) } else { Err(BatchError::Absent { address: address(), column: column.to_owned() }) }
}

/// Indices of the response tokens of a step; the environment's tokens are skipped.
fn response_indices(step: &Step) -> impl Iterator<Item = usize> + '_ {
    let count = token_count(step).unwrap_or(0);
    (0..count).filter(|i| step.tokens.kind.get(*i) != Some(&TokenKind::Observation))
}

fn response_len(step: &Step) -> usize {
    response_indices(step).count()
}

/// Columns of one length, numbers finite wherever they count.
fn check_episode(episode: &Trajectory, index: usize) -> Result<(), BatchError> {
    let address =
        |step: Option<usize>, token: Option<usize>| Address { trajectory: name_of(episode, index), step, token };
    let finite = |value: f32, column: &str, step, token| {
        if value.is_finite() {
            return Ok(());
        }
        Err(BatchError::NotFinite {
            address: address(step, token),
            column: column.to_owned(),
            value: value.to_string(),
        })
    };
    if let Some(outcome) = episode.outcome {
        finite(outcome, OUTCOME.name(), None, None)?;
    }
    for (s, step) in episode.steps.iter().enumerate() {
        if let Some(reward) = step.reward {
            finite(reward, REWARD.name(), Some(s), None)?;
        }
        let Some(expected) = token_count(step) else {
            continue;
        };
        let tokens = &step.tokens;
        let other = if !tokens.kind.is_empty() {
            KIND.name()
        } else if !tokens.token_id.is_empty() {
            TOKEN_ID.name()
        } else {
            tokens.columns.keys().next().map_or(TOP_K_ID.name(), String::as_str)
        };
        let fits = |column: &str, found: usize| {
            if found == expected {
                return Ok(());
            }
            Err(BatchError::Length {
                address: address(Some(s), None),
                column: column.to_owned(),
                found,
                other: other.to_owned(),
                expected,
            })
        };
        if !tokens.token_id.is_empty() {
            fits(TOKEN_ID.name(), tokens.token_id.len())?;
        }
        if !tokens.text.is_empty() {
            fits("text", tokens.text.len())?;
        }
        for (column, length) in [
            (TOP_K_ID.name(), tokens.top_k.id.len()),
            (NEW_TOP_K_LOGPROB.name(), tokens.top_k.new_logprob.len()),
            (TEACHER_TOP_K_LOGPROB.name(), tokens.top_k.teacher_logprob.len()),
        ] {
            if length > 0 {
                fits(column, length)?;
            }
        }
        for (name, column) in &tokens.columns {
            if known_column(name).is_some_and(|known| known.level != Level::Token) {
                return Err(BatchError::Reserved { address: address(Some(s), None), column: name.clone() });
            }
            fits(name, column.len())?;
            let gaps = may_have_gaps(name);
            for token in response_indices(step).filter(|token| !(gaps && column[*token].is_nan())) {
                finite(column[token], name, Some(s), Some(token))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use accredit_plugin_api::columns::ANSWER;

    use super::*;
    use crate::episode::Tokens;

    fn step(reward: f32, kinds: &[TokenKind], old: &[f32]) -> Step {
        Step {
            reward: Some(reward),
            tokens: Tokens {
                kind: kinds.to_vec(),
                columns: BTreeMap::from([("old_logprob".to_owned(), old.to_vec())]),
                ..Tokens::default()
            },
            ..Step::default()
        }
    }

    fn episode(group: &str, name: &str, steps: Vec<Step>) -> Trajectory {
        Trajectory { group: group.to_owned(), trajectory: name.to_owned(), steps, ..Trajectory::default() }
    }

    use TokenKind::{Action, Observation, Think};

    fn simple(group: &str, name: &str, reward: f32) -> Trajectory {
        episode(group, name, vec![step(reward, &[Think, Action], &[-0.5, -0.25])])
    }

    #[test]
    fn groups_are_gathered_in_order_of_first_appearance() {
        let episodes = [simple("a", "1", 1.0), simple("b", "2", 2.0), simple("a", "3", 3.0), simple("b", "4", 4.0)];
        let batch = Batch::build(&episodes, &[], &[]).unwrap();
        assert_eq!(batch.episodes, [0, 2, 1, 3]);
        assert_eq!(batch.offsets(GROUP_TRAJECTORIES), [0, 2, 4]);
        assert_eq!(batch.table.f32(OUTCOME), Some(&[1.0, 3.0, 2.0, 4.0][..]));
    }

    #[test]
    fn what_is_failed_unscored_or_empty_is_counted_and_left_out() {
        let mut failed = simple("a", "1", 1.0);
        failed.status = Status::Failed;
        let mut unscored = simple("a", "2", 1.0);
        unscored.steps[0].reward = None;
        let empty = episode("a", "3", vec![step(10.0, &[], &[])]);
        let only_observations = episode("a", "4", vec![step(10.0, &[Observation], &[0.0])]);
        let kept = simple("a", "5", 0.0);
        let batch = Batch::build(&[failed, unscored, empty, only_observations, kept], &[], &[]).unwrap();
        assert_eq!(batch.left_out, LeftOut { failed: 1, unscored: 1, empty: 2, dropped: 0 });
        assert_eq!(batch.episodes, [4]);
    }

    #[test]
    fn a_conversation_that_went_on_without_its_oldest_turns_is_several_rows() {
        let context = |mut step: Step, length: usize, begins_row| {
            (step.context, step.begins_row) = (vec![7; length], begins_row);
            step
        };
        let one = || step(1.0, &[Think, Action], &[-0.5, -0.25]);
        let steps = vec![context(one(), 3, false), context(one(), 2, false), context(one(), 6, true), one()];
        let batch = Batch::build(&[simple("a", "1", 1.0), episode("a", "2", steps)], &[], &[]).unwrap();
        assert_eq!(batch.offsets(ROW_STEPS), [0, 1, 3, 5]);
        assert_eq!(batch.offsets(TRAJECTORY_STEPS), [0, 1, 5]);
        assert_eq!(batch.trained_rows(), [0, 1, 2]);
        assert_eq!(batch.table.get(OBSERVATION_TOKENS.name()), Some(&Data::U32(vec![0, 3, 5, 6, 6])));
    }

    #[test]
    fn observation_tokens_are_skipped_with_whatever_they_hold() {
        let episodes = [episode(
            "a",
            "1",
            vec![
                step(0.0, &[Think, Observation, Action], &[1.0, f32::NAN, 3.0]),
                step(1.0, &[Observation, Action], &[f32::INFINITY, 4.0]),
            ],
        )];
        let batch = Batch::build(&episodes, &[], &[]).unwrap();
        assert_eq!(batch.table.get("old_logprob"), Some(&Data::F32(vec![1.0, 3.0, 4.0])));
        assert_eq!(batch.offsets(STEP_TOKENS), [0, 2, 3]);
        assert_eq!(batch.table.get("observation_tokens"), Some(&Data::U32(vec![0, 2])));
    }

    #[test]
    fn the_environments_tokens_count_before_the_response_that_follows_them() {
        let kinds: [&[TokenKind]; 3] =
            [&[Observation, Think, Observation, Observation], &[Action, Observation], &[Observation, Action]];
        let steps: Vec<Step> = kinds.iter().map(|kinds| step(0.0, kinds, &vec![0.0; kinds.len()])).collect();
        let mut episodes = [episode("a", "1", steps)];
        let counts = |episodes: &[Trajectory]| {
            let batch = Batch::build(episodes, &[], &[]).unwrap();
            batch.table.get("observation_tokens").cloned()
        };
        assert_eq!(counts(&episodes), Some(Data::U32(vec![1, 3, 5])));
        episodes[0].layout = Layout::Step;
        assert_eq!(counts(&episodes), Some(Data::U32(vec![1, 0, 1])));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_address() {
        let check = |episodes: &[Trajectory], message: &str| {
            assert_eq!(Batch::build(episodes, &[], &[]).err().map(|e| e.to_string()).as_deref(), Some(message));
        };
        check(
            &[episode("a", "x", vec![step(0.0, &[Think, Action], &[1.0])])],
            "trajectory `x`, step 0: column `old_logprob` has 1 tokens where `kind` has 2",
        );
        check(
            &[episode("a", "", vec![step(0.0, &[Think, Action], &[1.0, f32::NAN])])],
            "trajectory `#1`, step 0, token 1: `old_logprob` is NaN; every number must be finite",
        );
        check(
            &[episode("a", "x", vec![step(f32::INFINITY, &[], &[])])],
            "trajectory `x`, step 0: `reward` is inf; every number must be finite",
        );
        let mut without = simple("a", "y", 0.0);
        without.steps[0].tokens.columns.clear();
        check(
            &[simple("a", "x", 0.0), without],
            "trajectory `y`, step 0: column `old_logprob` is absent, and other steps have it",
        );
        check(
            &[simple("a", "x", 0.0), simple("a", "x", 1.0)],
            "two trajectories are called `x` in group `a`; every name may stand once",
        );
        let mut cut = simple("a", "y", 0.0);
        cut.layout = Layout::Step;
        check(
            &[simple("a", "x", 0.0), cut],
            "trajectory `y`: its layout is `Step`, and that of the first trajectory is `Trajectory`; a batch has one",
        );
        let mut reserved = simple("a", "y", 0.0);
        reserved.steps[0].tokens.columns.insert("reward".to_owned(), vec![0.0, 0.0]);
        check(
            &[reserved],
            "trajectory `y`, step 0: a token column may not be called `reward`: the name belongs to another level of the batch",
        );
    }

    #[test]
    fn states_are_equal_inside_a_group_and_never_across() {
        let with_state = |group: &str, name: &str, state: &str, next: Option<&str>| {
            let mut episode = simple(group, name, 0.0);
            episode.steps[0].state = Some(state.to_owned());
            episode.steps[0].next_state = next.map(str::to_owned);
            episode
        };
        let episodes = [
            with_state("a", "1", "s", Some("t")),
            with_state("a", "2", "t", None),
            with_state("b", "3", "s", Some("s")),
        ];
        let batch = Batch::build(&episodes, &[], &[]).unwrap();
        assert_eq!(batch.table.get("state"), Some(&Data::U32(vec![0, 1, 2])));
        assert_eq!(batch.table.get("next_state"), Some(&Data::U32(vec![1, NO_STATE, 2])));
    }

    #[test]
    fn an_outcome_beside_the_steps_wins_over_their_sum() {
        let mut given = simple("a", "1", 1.0);
        given.outcome = Some(5.0);
        let batch = Batch::build(&[given, simple("a", "2", 2.0)], &[], &[]).unwrap();
        assert_eq!(batch.table.f32(OUTCOME), Some(&[5.0, 2.0][..]));
        assert_eq!(batch.table.f32(REWARD), Some(&[1.0, 2.0][..]));
    }

    #[test]
    fn a_file_without_token_data_has_one_token_for_each_step() {
        let bare = |name: &str| Trajectory {
            group: "g".to_owned(),
            trajectory: name.to_owned(),
            steps: vec![Step { reward: Some(1.0), ..Step::default() }, Step { reward: Some(0.0), ..Step::default() }],
            ..Trajectory::default()
        };
        let batch = Batch::build(&[bare("1"), bare("2")], &[], &[]).unwrap();
        assert_eq!(batch.tokens(), 4);
        assert_eq!(batch.table.f32(OUTCOME), Some(&[1.0, 1.0][..]));
    }

    #[test]
    fn addresses_name_the_place_of_a_token() {
        let episodes = [
            simple("a", "1", 0.0),
            episode("a", "2", vec![step(0.0, &[], &[]), step(0.0, &[Think, Action], &[1.0, 2.0])]),
        ];
        let batch = Batch::build(&episodes, &[], &[]).unwrap();
        assert_eq!(batch.address_of_token(3).to_string(), "trajectory `2`, step 1, token 1");
        assert_eq!(batch.address_of_token(0).to_string(), "trajectory `1`, step 0, token 0");
    }

    #[test]
    fn signals_are_written_back_to_the_steps_that_they_belong_to() {
        let mut failed = simple("a", "1", 0.0);
        failed.status = Status::Failed;
        let mut episodes = [failed, simple("b", "2", 1.0), simple("a", "3", 0.0)];
        let mut batch = Batch::build(&episodes, &[], &[]).unwrap();
        batch.put_tokens("entropy", vec![1.0, 2.0, 3.0, 4.0]);
        batch.write_back(&mut episodes, &["entropy", "ref_energy"]);
        let written = |episode: usize| episodes[episode].steps[0].tokens.columns.get("entropy").cloned();
        // Group `a` appears first, although its first episode is left out.
        assert_eq!([written(0), written(1), written(2)], [None, Some(vec![3.0, 4.0]), Some(vec![1.0, 2.0])]);
    }

    #[test]
    fn texts_cross_as_bytes_and_offsets() {
        let mut one = simple("a", "1", 0.0);
        one.steps[0].response = "héllo".to_owned();
        one.task = "walk".to_owned();
        let batch = Batch::build(&[one, simple("a", "2", 0.0)], &[], &[RESPONSE, TASK, ANSWER]).unwrap();
        assert_eq!(batch.table.get("response.bytes"), Some(&Data::U8("héllo".into())));
        assert_eq!(batch.table.get("response.offsets"), Some(&Data::U64(vec![0, 6, 6])));
        assert_eq!(batch.table.get("task.bytes"), Some(&Data::U8("walk".into())));
    }
}
