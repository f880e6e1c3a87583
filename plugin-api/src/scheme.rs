//! The trait that an author implements: one type with parameters and any of the seven hooks.

use serde::{Deserialize, Serialize};

use crate::{
    abi::DType,
    batch::Batch,
    column::{AnyColumn, Element},
    context::{Context, Host},
    error::{Error, Result},
    outputs::{Advantages, Credit, Loss, Refreshed, Rewards, Selection},
    params::Params,
    query::Queries,
};

/// A function of a scheme that the host calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// After rollout: which trajectories are trained, count as a baseline only, or are dropped.
    Select,
    /// Once a batch: texts to score.
    Queries,
    /// Once a batch: step and token rewards.
    Shape,
    /// Once a batch: advantages, and value targets where there is a critic.
    Advantage,
    /// Once a batch: advantages in place, and loss weights.
    Weigh,
    /// Every micro-batch: advantages in place, knowing fresh log-probabilities.
    Refresh,
    /// Every micro-batch: the loss and its derivatives.
    Objective,
}

impl Hook {
    /// All hooks in the order in which an iteration calls them.
    pub const ALL: [Self; 7] =
        [Self::Select, Self::Queries, Self::Shape, Self::Advantage, Self::Weigh, Self::Refresh, Self::Objective];

    /// Its number at the boundary.
    pub const fn id(self) -> u32 {
        self as u32 + 1
    }

    /// The hook of a number, or none that this version knows.
    pub fn of_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.id() == id)
    }

    /// Its name in configuration, messages and docs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Queries => "queries",
            Self::Shape => "shape",
            Self::Advantage => "advantage",
            Self::Weigh => "weigh",
            Self::Refresh => "refresh",
            Self::Objective => "objective",
        }
    }
}

/// What a scheme with its parameters implements and needs; the host plans the run by it and refuses at the start what
/// cannot work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Needs {
    /// The hooks to call.
    pub hooks: Vec<Hook>,
    /// Columns that must be there.
    pub reads: Vec<Read>,
    /// Columns that are used where they are there.
    #[serde(default)]
    pub optional: Vec<Read>,
    /// `advantage` also writes value targets.
    #[serde(default)]
    pub value_target: bool,
    /// The smallest group that makes sense; 2 for a group-relative scheme.
    #[serde(default)]
    pub group_size: u32,
    /// Columns that the results of its `queries` become; this and later schemes can read them.
    #[serde(default)]
    pub asks: Vec<Read>,
    /// How many of the likeliest tokens at each place it reads; 0 is none.
    #[serde(default)]
    pub top_k: u32,
    /// Some of the tokens, whose number in the minibatch it reads.
    #[serde(default)]
    pub part: Option<Part>,
    /// Properties that schemes hold and this one does not, on purpose.
    #[serde(default)]
    pub exceptions: Vec<Exception>,
}

/// A property that `accredit plugin check` looks for and that a scheme does not have, on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
    /// Name of the check.
    pub check: String,
    /// Why, in words: what stands behind "since".
    pub why: String,
}

/// Some of the tokens: those of certain kinds that have a number in a column. A scheme whose term is a mean over them
/// declares them, and the host counts them over the whole minibatch: `part_tokens`, `part_steps`, `part_rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The kinds; empty means all.
    pub kinds: Vec<u8>,
    /// A column of 32-bit floats in which they have a number, where another token has NaN.
    pub column: Option<String>,
}

impl Part {
    /// Whether a token is in it, by its kind and its number in the column.
    pub fn has(&self, kind: u8, number: f32) -> bool {
        !number.is_nan() && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}

/// A column that a scheme reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The column's name.
    pub name: String,
    /// Type of its elements, as a number of [`DType`].
    pub dtype: u32,
}

impl Needs {
    /// A scheme that implements these hooks.
    pub fn hooks(hooks: &[Hook]) -> Self {
        Self { hooks: hooks.to_vec(), ..Self::default() }
    }

    /// It must have these columns.
    #[must_use]
    pub fn reads(mut self, columns: &[AnyColumn]) -> Self {
        self.reads.extend(columns.iter().map(Read::of));
        self
    }

    /// It must have a column whose name is not known here, for example because a parameter says it. See
    /// [`Batch::get_named`].
    #[must_use]
    pub fn reads_named<T: Element>(mut self, name: &str) -> Self {
        self.reads.push(Read { name: name.to_owned(), dtype: T::DTYPE.0 });
        self
    }

    /// It must have these columns if the condition holds.
    #[must_use]
    pub fn reads_if(self, condition: bool, columns: &[AnyColumn]) -> Self {
        if condition { self.reads(columns) } else { self }
    }

    /// It uses these columns where they are there.
    #[must_use]
    pub fn optional(mut self, columns: &[AnyColumn]) -> Self {
        self.optional.extend(columns.iter().map(Read::of));
        self
    }

    /// The results of its `queries` become these columns.
    #[must_use]
    pub fn asks(mut self, columns: &[AnyColumn]) -> Self {
        self.asks.extend(columns.iter().map(Read::of));
        self
    }

    /// It compares the trajectories of a group: groups of one are refused at the start.
    #[must_use]
    pub fn group_relative(mut self) -> Self {
        self.group_size = 2;
        self
    }

    /// It reads columns of the `k` likeliest tokens at each place.
    #[must_use]
    pub fn top_k(mut self, k: u32) -> Self {
        self.top_k = k;
        self
    }

    /// It reads how many tokens of the minibatch are in this part.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    /// It does not hold what a check of `accredit plugin check` looks for, on purpose: `check` is the name of that, and
    /// `why` says in words what stands behind "since".
    #[must_use]
    pub fn except(mut self, check: &str, why: &str) -> Self {
        self.exceptions.push(Exception { check: check.to_owned(), why: why.to_owned() });
        self
    }

    /// As [`Needs::except`], if the condition holds.
    #[must_use]
    pub fn except_if(self, condition: bool, check: &str, why: &str) -> Self {
        if condition { self.except(check, why) } else { self }
    }

    /// Its `advantage` also writes value targets.
    #[must_use]
    pub fn value_target(mut self) -> Self {
        self.value_target = true;
        self
    }
}

impl Read {
    fn of(column: &AnyColumn) -> Self {
        Self { name: column.name.to_owned(), dtype: column.dtype.0 }
    }

    /// Type of its elements.
    pub fn element(&self) -> DType {
        DType(self.dtype)
    }
}

/// State that survives a resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The author's version of the bytes' meaning.
    pub version: u32,
    /// The state itself.
    pub bytes: Vec<u8>,
}

/// One scheme: a credit-assignment method, a filter, a penalty, or an objective.
///
/// The host calls one scheme from one thread at a time. A panic is caught, reported with its place, and ends the
/// iteration; it never ends the program.
pub trait Scheme: Sized + Send + 'static {
    /// Parameters, as the configuration's `params` table gives them. [`params!`](crate::params!) makes such a type.
    type Params: Params;

    /// The name in configuration files: `plugin = "name"`.
    const NAME: &'static str;
    /// One line for lists.
    const ABOUT: &'static str;

    /// Makes the scheme. An error here is shown beside the configuration's line.
    fn new(params: Self::Params, host: Host) -> Result<Self>;

    /// What it implements and needs, with the parameters that it has.
    fn needs(&self) -> Needs;

    /// Decides which trajectories are trained. Called after every rollout and refill, before any signal is paid.
    fn select(&mut self, _batch: &Batch<'_>, _selection: &mut Selection<'_>, _context: &Context) -> Result<()> {
        Err(missing(Hook::Select))
    }

    /// Asks for texts to be scored.
    fn queries(&mut self, _batch: &Batch<'_>, _queries: &mut Queries, _context: &Context) -> Result<()> {
        Err(missing(Hook::Queries))
    }

    /// Changes rewards in place; the raw ones stay readable in the batch.
    fn shape(&mut self, _batch: &Batch<'_>, _rewards: &mut Rewards<'_>, _context: &Context) -> Result<()> {
        Err(missing(Hook::Shape))
    }

    /// Writes the advantage of every token.
    fn advantage(&mut self, _batch: &Batch<'_>, _advantages: &mut Advantages<'_>, _context: &Context) -> Result<()> {
        Err(missing(Hook::Advantage))
    }

    /// Changes advantages and weights in place.
    fn weigh(&mut self, _batch: &Batch<'_>, _credit: &mut Credit<'_>, _context: &Context) -> Result<()> {
        Err(missing(Hook::Weigh))
    }

    /// Changes a micro-batch's advantages in place, knowing fresh log-probabilities.
    fn refresh(&mut self, _batch: &Batch<'_>, _refreshed: &mut Refreshed<'_>, _context: &Context) -> Result<()> {
        Err(missing(Hook::Refresh))
    }

    /// Writes a micro-batch's share of the loss and its derivatives.
    fn objective(&mut self, _batch: &Batch<'_>, _loss: &mut Loss<'_>, _context: &Context) -> Result<()> {
        Err(missing(Hook::Objective))
    }

    /// State that must survive a resume; none by default.
    fn save(&self) -> Result<Option<State>> {
        Ok(None)
    }

    /// Restores what [`save`](Scheme::save) gave. A version that it does not know is an error: a resume fails rather
    /// than go on with another state.
    fn restore(&mut self, state: State) -> Result<()> {
        Err(Error::new(format!("`{}` has no state to restore, and was given version {}", Self::NAME, state.version)))
    }
}

fn missing(hook: Hook) -> Error {
    Error::new(format!("the hook `{}` is declared in `needs` and not implemented", hook.name()))
}
