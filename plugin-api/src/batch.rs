//! The batch as a scheme sees it: groups of trajectories of steps of response tokens, and columns beside them.

use std::ops::Range;

use crate::{
    abi::RawColumn,
    column::{
        Column, Element, TextColumn,
        columns::{GROUP_TRAJECTORIES, LAYOUT, ROW_STEPS, STEP_TOKENS, TRAJECTORY_STEPS},
    },
    error::{Error, Result},
};

/// A read-only view of a batch, or of the part of it that a micro-batch holds.
///
/// Everything is addressed by index: trajectory `t` of the whole batch is element `t` of every trajectory column. The
/// views ([`Group`], [`Trajectory`], [`Step`], [`Row`]) know their index and the ranges below them.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    columns: &'a [RawColumn<'a>],
    offsets: Offsets<'a>,
}

#[derive(Clone, Copy)]
struct Offsets<'a> {
    groups: &'a [u32],
    trajectories: &'a [u32],
    steps: &'a [u32],
    rows: &'a [u32],
}

/// How a batch's rows are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A row is a whole trajectory.
    Trajectory,
    /// A row is one step with its own prompt.
    Step,
}

impl<'a> Batch<'a> {
    /// The view over raw columns.
    ///
    /// # Safety
    /// Each column's pointer and length describe memory that lives and stays unchanged for `'a`, of the type that it
    /// says; booleans are 0 or 1.
    pub(crate) unsafe fn new(columns: &'a [RawColumn<'a>]) -> Result<Self> {
        let none = Offsets { groups: &[0], trajectories: &[0], steps: &[0], rows: &[0] };
        let mut batch = Self { columns, offsets: none };
        batch.offsets = Offsets {
            groups: batch.get(GROUP_TRAJECTORIES)?,
            trajectories: batch.get(TRAJECTORY_STEPS)?,
            steps: batch.get(STEP_TOKENS)?,
            rows: batch.get(ROW_STEPS)?,
        };
        Ok(batch)
    }

    /// A column's elements; an error if the host gave none of this name and type.
    pub fn get<T: Element>(&self, column: Column<T>) -> Result<&'a [T]> {
        self.get_named(column.name())
    }

    /// The elements of a column whose name a parameter says; an error if the host gave none of this name and type. The
    /// scheme declares it with [`Needs::reads_named`](crate::Needs::reads_named).
    pub fn get_named<T: Element>(&self, name: &str) -> Result<&'a [T]> {
        match self.find(name) {
            Some(raw) if raw.dtype == T::DTYPE => {
                // SAFETY: `new`'s contract, and the type was compared.
                Ok(unsafe { std::slice::from_raw_parts(raw.ptr.cast::<T>(), raw.len) })
            }
            Some(raw) => Err(Error::column(format!(
                "column `{name}` holds {}, and {} was wanted",
                raw.dtype.name(),
                T::DTYPE.name()
            ))),
            None => Err(Error::column(format!("column `{name}` is absent"))),
        }
    }

    /// A column's elements, or none if the host gave none of this name and type.
    pub fn get_optional<T: Element>(&self, column: Column<T>) -> Option<&'a [T]> {
        self.get(column).ok()
    }

    /// The single element of a column at the level of the batch.
    pub fn scalar<T: Element>(&self, column: Column<T>) -> Result<T> {
        self.get(column)?.first().copied().ok_or_else(|| Error::column(format!("column `{}` is empty", column.name())))
    }

    /// The texts of a column.
    pub fn texts(&self, column: TextColumn) -> Result<Texts<'a>> {
        let (bytes, offsets) = column.parts();
        Ok(Texts {
            bytes: self.get(Column::<u8>::named(bytes, column.level()))?,
            offsets: self.get(Column::<u64>::named(offsets, column.level()))?,
            name: column.name(),
        })
    }

    /// Whether the host gave a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&'a RawColumn<'a>> {
        self.columns.iter().find(|column| column.name.as_str() == name)
    }

    /// How rows are cut.
    pub fn layout(&self) -> Layout {
        if self.get_optional(LAYOUT).is_some_and(|layout| layout == [1]) { Layout::Step } else { Layout::Trajectory }
    }

    /// The groups, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = Group<'a>> + 'a {
        let offsets = self.offsets;
        (0..offsets.groups.len() - 1).map(move |index| Group { index, offsets })
    }

    /// All trajectories, in order.
    pub fn trajectories(&self) -> impl ExactSizeIterator<Item = Trajectory<'a>> + 'a {
        let offsets = self.offsets;
        (0..offsets.trajectories.len() - 1).map(move |index| Trajectory { index, offsets })
    }

    /// All steps, in order.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step> + 'a {
        let offsets = self.offsets;
        (0..offsets.steps.len() - 1).map(move |index| Step { index, tokens: span(offsets.steps, index) })
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row> + 'a {
        let offsets = self.offsets;
        (0..offsets.rows.len() - 1).map(move |index| {
            let steps = span(offsets.rows, index);
            Row { index, tokens: below(offsets.steps, &steps), steps }
        })
    }

    /// Number of response tokens.
    pub fn token_count(&self) -> usize {
        self.offsets.steps.last().map_or(0, |last| *last as usize)
    }

    /// The trajectory that each step belongs to.
    pub fn trajectory_of_steps(&self) -> Vec<u32> {
        let mut owners = vec![0; self.offsets.steps.len() - 1];
        for trajectory in self.trajectories() {
            owners[trajectory.step_range()].fill(trajectory.index() as u32);
        }
        owners
    }
}

fn span(offsets: &[u32], index: usize) -> Range<usize> {
    offsets[index] as usize..offsets[index + 1] as usize
}

/// The range one level down that a range covers.
fn below(offsets: &[u32], range: &Range<usize>) -> Range<usize> {
    offsets[range.start] as usize..offsets[range.end] as usize
}

/// Trajectories that start from the same task.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    index: usize,
    offsets: Offsets<'a>,
}

impl<'a> Group<'a> {
    /// Its index in the batch.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of trajectories.
    #[expect(clippy::len_without_is_empty, reason = "a group has at least one trajectory")]
    pub fn len(&self) -> usize {
        self.trajectory_range().len()
    }

    /// Indices of its trajectories.
    pub fn trajectory_range(&self) -> Range<usize> {
        span(self.offsets.groups, self.index)
    }

    /// Indices of its steps.
    pub fn step_range(&self) -> Range<usize> {
        below(self.offsets.trajectories, &self.trajectory_range())
    }

    /// Indices of its tokens.
    pub fn token_range(&self) -> Range<usize> {
        below(self.offsets.steps, &self.step_range())
    }

    /// Its trajectories, in order.
    pub fn trajectories(&self) -> impl ExactSizeIterator<Item = Trajectory<'a>> + 'a {
        let offsets = self.offsets;
        self.trajectory_range().map(move |index| Trajectory { index, offsets })
    }

    /// Its steps, trajectory by trajectory.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step> + 'a {
        let offsets = self.offsets;
        self.step_range().map(move |index| Step { index, tokens: span(offsets.steps, index) })
    }
}

/// One episode.
#[derive(Clone, Copy)]
pub struct Trajectory<'a> {
    index: usize,
    offsets: Offsets<'a>,
}

impl<'a> Trajectory<'a> {
    /// Its index in the batch.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Indices of its steps.
    pub fn step_range(&self) -> Range<usize> {
        span(self.offsets.trajectories, self.index)
    }

    /// Indices of its response tokens.
    pub fn tokens(&self) -> Range<usize> {
        below(self.offsets.steps, &self.step_range())
    }

    /// Its steps, in order.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step> + DoubleEndedIterator + 'a {
        let offsets = self.offsets;
        self.step_range().map(move |index| Step { index, tokens: span(offsets.steps, index) })
    }
}

/// One turn.
#[derive(Clone, Debug)]
pub struct Step {
    index: usize,
    tokens: Range<usize>,
}

impl Step {
    /// Its index in the batch.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Indices of its response tokens; empty where the response is.
    pub fn tokens(&self) -> Range<usize> {
        self.tokens.clone()
    }
}

/// What the model sees as one sequence.
#[derive(Clone, Debug)]
pub struct Row {
    index: usize,
    steps: Range<usize>,
    tokens: Range<usize>,
}

impl Row {
    /// Its index in the batch.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Indices of its steps.
    pub fn step_range(&self) -> Range<usize> {
        self.steps.clone()
    }

    /// Indices of its response tokens.
    pub fn tokens(&self) -> Range<usize> {
        self.tokens.clone()
    }
}

/// A column of texts.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    bytes: &'a [u8],
    offsets: &'a [u64],
    name: &'static str,
}

impl<'a> Texts<'a> {
    /// The text of one element.
    pub fn get(&self, index: usize) -> Result<&'a str> {
        let text =
            self.offsets.get(index..index + 2).and_then(|pair| self.bytes.get(pair[0] as usize..pair[1] as usize));
        let bytes = text.ok_or_else(|| Error::column(format!("text column `{}` has no element {index}", self.name)))?;
        std::str::from_utf8(bytes)
            .map_err(|e| Error::column(format!("text column `{}`, element {index}: {e}", self.name)))
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
