//! What is checked after every hook, so that a number that a scheme left unwritten, NaN or infinite never goes further.

use accredit_core::batch::{Address, Batch};
use accredit_plugin_api::{Hook, host::CallError};
use thiserror::Error;

use crate::plugin::{Scheme, SchemeError};

/// Credit that could not be computed.
#[derive(Debug, Error)]
pub enum CreditError {
    /// A scheme returned an error or panicked.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// A scheme left an element unwritten, or wrote NaN or an infinite number.
    #[error(
        "scheme `{label}` ({plugin}), hook `{}`: {count} of {total} elements of `{column}` are not finite numbers; the \
         first is {value} at {address}",
        hook.name()
    )]
    NotFinite {
        /// What the run calls the scheme.
        label: String,
        /// Its plugin.
        plugin: String,
        /// The hook.
        hook: Hook,
        /// The output.
        column: &'static str,
        /// How many are not finite.
        count: usize,
        /// How many there are.
        total: usize,
        /// The first of them, as text.
        value: String,
        /// Where it stands.
        address: Address,
    },
    /// A scheme wrote a number outside its range.
    #[error(
        "scheme `{label}` ({plugin}), hook `{}`: `{column}` is {value} at {address}; {expected}",
        hook.name()
    )]
    Range {
        /// What the run calls the scheme.
        label: String,
        /// Its plugin.
        plugin: String,
        /// The hook.
        hook: Hook,
        /// The output.
        column: &'static str,
        /// The number, as text.
        value: String,
        /// Where it stands.
        address: Address,
        /// What it must be.
        expected: &'static str,
    },
    /// A scheme asked for something that cannot be scored.
    #[error("scheme `{label}` ({plugin}), hook `{}`: {message}", Hook::Queries.name())]
    Query {
        /// What the run calls the scheme.
        label: String,
        /// Its plugin.
        plugin: String,
        /// What is wrong with the request.
        message: String,
    },
    /// What a scheme asked for cannot be read.
    #[error("scheme `{label}`, hook `{}`: {}", hook.name(), error.message)]
    Reply {
        /// What the run calls the scheme.
        label: String,
        /// The hook.
        hook: Hook,
        /// What is wrong with it.
        error: CallError,
    },
    /// A scheme reads a column that this batch does not have.
    #[error("scheme `{label}` reads `{column}`, which these rollouts do not have")]
    Missing {
        /// What the run calls the scheme.
        label: String,
        /// The column.
        column: String,
    },
    /// The advantages of the estimators, each times its `mix`, do not add up to numbers.
    #[error("the sum of the schemes' advantages, each times its `mix`, is {value} at {address}")]
    Sum {
        /// The sum, as text.
        value: String,
        /// Where it stands.
        address: Address,
    },
    /// No scheme gives advantages, and the batch has none.
    #[error("no scheme gives advantages, and these rollouts have no column `advantage`")]
    NoAdvantage,
}

/// How many elements are not finite, and the first of them. One pass without a branch in the common case.
pub fn first_not_finite<T: Into<f64> + Copy>(elements: &[T]) -> Option<(usize, usize, f64)> {
    let finite = |element: &T| (*element).into().is_finite();
    if elements.iter().fold(true, |all, element| all & finite(element)) {
        return None;
    }
    let count = elements.iter().filter(|element| !finite(element)).count();
    let index = elements.iter().position(|element| !finite(element))?;
    Some((count, index, elements[index].into()))
}

/// Refuses elements that are not finite, with the place of the first.
pub fn finite<T: Into<f64> + Copy>(
    scheme: &Scheme,
    hook: Hook,
    column: &'static str,
    elements: &[T],
    address: impl Fn(usize) -> Address,
) -> Result<(), CreditError> {
    match first_not_finite(elements) {
        None => Ok(()),
        Some((count, index, value)) => Err(CreditError::NotFinite {
            label: scheme.label().to_owned(),
            plugin: scheme.origin().to_string(),
            hook,
            column,
            count,
            total: elements.len(),
            value: value.to_string(),
            address: address(index),
        }),
    }
}

/// Refuses negative weights.
pub fn not_negative(scheme: &Scheme, hook: Hook, weights: &[f32], batch: &Batch) -> Result<(), CreditError> {
    match weights.iter().position(|weight| *weight < 0.0) {
        None => Ok(()),
        Some(index) => Err(CreditError::Range {
            label: scheme.label().to_owned(),
            plugin: scheme.origin().to_string(),
            hook,
            column: "weight",
            value: weights[index].to_string(),
            address: batch.address_of_token(index),
            expected: "a weight must not be negative",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_that_is_not_finite_is_found_and_all_are_counted() {
        assert_eq!(first_not_finite(&[1.0_f32, -2.0]), None);
        let found = first_not_finite(&[1.0_f32, f32::INFINITY, 0.0, f32::NAN]);
        assert_eq!(found, Some((2, 1, f64::INFINITY)));
    }
}
