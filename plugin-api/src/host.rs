//! The host's side of the boundary: tables of columns that it owns, and calls of a scheme.

use std::borrow::Cow;

use abi_stable::std_types::{RErr, ROk, RSlice, RSliceMut, RStr};
use serde::{Deserialize, Serialize};

use crate::{
    abi::{DType, RawCall, RawColumn, RawColumnMut, RawError, RawReply, RawScheme},
    column::{AnyColumn, Column, Element},
    query::{Query, QueryPolicy},
    scheme::{Hook, Needs},
};

/// The elements of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Data {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// Bytes.
    U8(Vec<u8>),
    /// 32-bit unsigned integers.
    U32(Vec<u32>),
    /// 64-bit unsigned integers.
    U64(Vec<u64>),
    /// Booleans.
    Bool(Vec<bool>),
}

macro_rules! data {
    ($($type:ty => $variant:ident $dtype:ident),*) => {
        $(impl From<Vec<$type>> for Data {
            fn from(elements: Vec<$type>) -> Self {
                Self::$variant(elements)
            }
        })*

        impl Data {
            /// Type of the elements.
            pub fn dtype(&self) -> DType {
                match self { $(Self::$variant(_) => DType::$dtype),* }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Self::$variant(elements) => elements.len()),* }
            }

            fn pointer(&self) -> *const u8 {
                match self { $(Self::$variant(elements) => elements.as_ptr().cast()),* }
            }

            fn pointer_mut(&mut self) -> *mut u8 {
                match self { $(Self::$variant(elements) => elements.as_mut_ptr().cast()),* }
            }

            /// The elements at these indices.
            #[must_use]
            pub fn gather(&self, indices: &[usize]) -> Self {
                match self { $(Self::$variant(elements) => Self::$variant(indices.iter().map(|i| elements[*i]).collect())),* }
            }
        }
    };
}
data!(f32 => F32 F32, f64 => F64 F64, u8 => U8 U8, u32 => U32 U32, u64 => U64 U64, bool => Bool BOOL);

impl Data {
    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as 32-bit floats, if they are.
    pub fn as_f32(&self) -> Option<&[f32]> {
        if let Self::F32(elements) = self { Some(elements) } else { None }
    }
}

/// Columns by name, owned by the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    columns: Vec<(Cow<'static, str>, Data)>,
}

impl Table {
    /// Puts a column in, in place of one of the same name.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, data: impl Into<Data>) {
        let (name, data) = (name.into(), data.into());
        match self.columns.iter_mut().find(|(n, _)| *n == name) {
            Some((_, slot)) => *slot = data,
            None => self.columns.push((name, data)),
        }
    }

    /// Puts a column of a known name and type in.
    pub fn put<T: Element>(&mut self, column: Column<T>, elements: Vec<T>)
    where
        Data: From<Vec<T>>,
    {
        self.set(column.name(), elements);
    }

    /// Takes a column out.
    pub fn remove(&mut self, name: &str) -> Option<Data> {
        let index = self.columns.iter().position(|(n, _)| n == name)?;
        Some(self.columns.swap_remove(index).1)
    }

    /// A column by name.
    pub fn get(&self, name: &str) -> Option<&Data> {
        self.columns.iter().find(|(n, _)| n == name).map(|(_, data)| data)
    }

    /// A column by name, to change.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Data> {
        self.columns.iter_mut().find(|(n, _)| n == name).map(|(_, data)| data)
    }

    /// A column of 32-bit floats.
    pub fn f32(&self, column: Column<f32>) -> Option<&[f32]> {
        self.get(column.name()).and_then(Data::as_f32)
    }

    /// The names, in the order in which they were put in.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_ref())
    }

    /// All columns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Data)> {
        self.columns.iter().map(|(name, data)| (name.as_ref(), data))
    }

    /// Describes all columns for a call, appended to `into`.
    pub fn raw<'a>(&'a self, into: &mut Vec<RawColumn<'a>>) {
        into.extend(self.columns.iter().map(|(name, data)| RawColumn {
            name: RStr::from_str(name),
            dtype: data.dtype(),
            ptr: data.pointer(),
            len: data.len(),
        }));
    }

    /// Describes all columns for a call that writes them.
    pub fn raw_mut(&mut self) -> Vec<RawColumnMut<'_>> {
        self.columns
            .iter_mut()
            .map(|(name, data)| RawColumnMut {
                name: RStr::from_str(name),
                dtype: data.dtype(),
                len: data.len(),
                ptr: data.pointer_mut(),
            })
            .collect()
    }
}

/// What a call of a scheme gave back when it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// What kind of failure.
    pub kind: CallErrorKind,
    /// In the plugin's words.
    pub message: String,
    /// `file:line:column` of a panic, or the path of a parameter; may be empty.
    pub location: String,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallErrorKind {
    /// The scheme returned an error.
    Failed,
    /// The scheme panicked.
    Panicked,
    /// A parameter does not fit.
    Parameters,
    /// A column that it reads is absent or of another type.
    MissingColumn,
}

impl CallError {
    /// A failure as it came over the boundary.
    pub fn of(raw: RawError) -> Self {
        let kind = match raw.kind {
            RawError::PANICKED => CallErrorKind::Panicked,
            RawError::PARAMETERS => CallErrorKind::Parameters,
            RawError::MISSING_COLUMN => CallErrorKind::MissingColumn,
            _ => CallErrorKind::Failed,
        };
        Self { kind, message: raw.message.into_string(), location: raw.location.into_string() }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self { kind: CallErrorKind::Failed, message: message.into(), location: String::new() }
    }
}

/// A scheme behind the boundary, owned by the host.
pub struct Instance {
    raw: RawScheme,
}

// SAFETY: `Scheme: Send`, and `&mut self` keeps calls on one thread at a time.
unsafe impl Send for Instance {}

impl Instance {
    /// Takes over what a library's `build` gave.
    pub fn new(raw: RawScheme) -> Self {
        Self { raw }
    }

    /// What the scheme implements and needs.
    pub fn needs(&self) -> Result<Needs, CallError> {
        // SAFETY: the state belongs to these functions.
        let text = match unsafe { self.raw.functions.needs()(self.raw.state) } {
            ROk(text) => text,
            RErr(error) => return Err(CallError::of(error)),
        };
        serde_json::from_str(&text).map_err(|e| CallError::failed(format!("its needs cannot be read: {e}")))
    }

    /// Calls a hook. `inputs` and `outputs` describe live memory for the time of the call.
    pub fn call<'a>(
        &mut self,
        hook: Hook,
        inputs: &'a [RawColumn<'a>],
        outputs: &'a mut [RawColumnMut<'a>],
    ) -> Result<Vec<RawReply>, CallError> {
        let call = RawCall {
            hook: hook.id(),
            inputs: RSlice::from_slice(inputs),
            outputs: RSliceMut::from_mut_slice(outputs),
        };
        // SAFETY: the state belongs to these functions; the columns come from slices that outlive the call.
        match unsafe { self.raw.functions.call()(self.raw.state, call) } {
            ROk(replies) if replies.is_empty() => Ok(Vec::new()),
            ROk(replies) => Ok(replies.into_vec()),
            RErr(error) => Err(CallError::of(error)),
        }
    }

    /// State that must survive a resume; empty means none.
    pub fn save(&self) -> Result<Vec<u8>, CallError> {
        // SAFETY: the state belongs to these functions.
        match unsafe { self.raw.functions.save()(self.raw.state) } {
            ROk(bytes) => Ok(bytes.into_vec()),
            RErr(error) => Err(CallError::of(error)),
        }
    }

    /// Restores what `save` gave.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        // SAFETY: the state belongs to these functions.
        match unsafe { self.raw.functions.restore()(self.raw.state, RSlice::from_slice(bytes)) } {
            ROk(()) => Ok(()),
            RErr(error) => Err(CallError::of(error)),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the state belongs to these functions, and this is the only call of `destroy`.
        unsafe { self.raw.functions.destroy()(self.raw.state) }
    }
}

/// Reads what `queries` asked for.
pub fn read_queries(replies: &[RawReply]) -> Result<Vec<Query>, CallError> {
    if replies.is_empty() {
        return Ok(Vec::new());
    }
    let find = |name: &str| {
        replies
            .iter()
            .find(|reply| reply.name == name)
            .map(|reply| reply.bytes.as_slice())
            .ok_or_else(|| CallError::failed(format!("its queries have no column `{name}`")))
    };
    let steps: Vec<u32> = find("query.step")?.as_chunks::<4>().0.iter().map(|c| u32::from_ne_bytes(*c)).collect();
    let policies = find("query.policy")?;
    let rates: Vec<f64> =
        find("query.policy_parameter")?.as_chunks::<8>().0.iter().map(|c| f64::from_ne_bytes(*c)).collect();
    let has_target = find("query.has_target")?;
    let texts = |name: &str| -> Result<Vec<String>, CallError> {
        let bytes = find(&format!("{name}.bytes"))?;
        let offsets: Vec<usize> = find(&format!("{name}.offsets"))?
            .as_chunks::<8>()
            .0
            .iter()
            .map(|c| u64::from_ne_bytes(*c) as usize)
            .collect();
        offsets
            .windows(2)
            .map(|pair| {
                let text = bytes.get(pair[0]..pair[1]).ok_or_else(|| CallError::failed("query texts are cut off"))?;
                String::from_utf8(text.to_vec()).map_err(|e| CallError::failed(format!("a query text: {e}")))
            })
            .collect()
    };
    let (added, targets, columns) = (texts("query.added")?, texts("query.target")?, texts("query.column")?);
    let count = steps.len();
    let lengths = [policies.len(), rates.len(), has_target.len(), added.len(), targets.len(), columns.len()];
    if lengths.iter().any(|length| *length != count) {
        return Err(CallError::failed("the columns of its queries have different lengths"));
    }
    (0..count)
        .map(|i| {
            let policy = match policies[i] {
                0 => QueryPolicy::Current,
                1 => QueryPolicy::Copy { every: rates[i] as u64 },
                2 => QueryPolicy::MovingAverage { rate: rates[i] },
                other => {
                    return Err(CallError::failed(format!("a query names policy {other}, which is unknown here")));
                }
            };
            Ok(Query {
                step: steps[i] as usize,
                added: added[i].clone(),
                target: (has_target[i] != 0).then(|| targets[i].clone()),
                policy,
                column: columns[i].clone(),
            })
        })
        .collect()
}

/// Whether a token column may hold NaN, which stands where no query asked: those of query results, by the name that this
/// api has for them or by one that a scheme chose.
pub fn may_have_gaps(name: &str) -> bool {
    known_column(name).is_none() || name == crate::column::columns::TEACHER_LOGPROB.name()
}

/// The known column of a name, if this api has one.
pub fn known_column(name: &str) -> Option<AnyColumn> {
    let texts = crate::column::columns::ALL_TEXTS.iter().map(|text| text.any());
    crate::column::columns::ALL.iter().copied().chain(texts).find(|column| column.name == name)
}
