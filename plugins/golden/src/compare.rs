//! The numbers of a field against those that were expected.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The largest relative difference that 32-bit columns may make.
pub const LIMIT: f64 = 1e-5;
/// The same where upstream itself computed in 32 bits.
pub const LIMIT_OF_FLOAT32: f64 = 2e-4;

/// The limit of a field, by what its variant says it was computed in: `float32`, or a sentence in which a field may be
/// named, as in `float64 (row_group_std: float32)`.
pub fn limit(dtype: &str, field: &str) -> f64 {
    if dtype == "float32" || dtype.contains(&format!("{field}: float32")) { LIMIT_OF_FLOAT32 } else { LIMIT }
}

/// The numbers of a field, row after row.
pub fn flatten(value: &Value) -> Result<Vec<f64>> {
    let mut out = Vec::new();
    push(value, &mut out)?;
    Ok(out)
}

fn push(value: &Value, out: &mut Vec<f64>) -> Result<()> {
    match value {
        Value::Number(number) => out.extend(number.as_f64()),
        Value::Array(values) => {
            for value in values {
                push(value, out)?;
            }
        }
        other => bail!("{other} is no number"),
    }
    Ok(())
}

/// A list of names as their places among all names.
pub fn places(value: &Value, names: &[&str]) -> Result<Vec<f64>> {
    let place = |value: &Value| {
        let place = names.iter().position(|name| value.as_str() == Some(name));
        place.map(|place| place as f64).with_context(|| format!("{value} is not among {}", names.join(", ")))
    };
    value.as_array().with_context(|| format!("{value} is no list"))?.iter().map(place).collect()
}

/// Both without the rows that are not compared; each then has one number for each row.
pub fn without(found: &[f64], expected: &[f64], rows: &BTreeSet<usize>) -> Result<(Vec<f64>, Vec<f64>)> {
    ensure!(found.len() == expected.len(), "{} numbers, and {} were expected", found.len(), expected.len());
    if let Some(row) = rows.last() {
        ensure!(*row < expected.len(), "row {row} is not compared, and there are {} numbers", expected.len());
    }
    let keep = |numbers: &[f64]| -> Vec<f64> {
        numbers.iter().enumerate().filter(|(row, _)| !rows.contains(row)).map(|(_, number)| *number).collect()
    };
    Ok((keep(found), keep(expected)))
}

/// The largest difference, divided by the largest expected size where that is above 1.
pub fn difference(found: &[f64], expected: &[f64]) -> Result<f64> {
    ensure!(found.len() == expected.len(), "{} numbers, and {} were expected", found.len(), expected.len());
    let scale = expected.iter().fold(1.0_f64, |scale, e| scale.max(e.abs()));
    let mut largest = 0.0_f64;
    for (found, expected) in found.iter().zip(expected) {
        let difference = (found - expected).abs();
        ensure!(!difference.is_nan(), "{found}, and {expected} was expected");
        largest = largest.max(difference);
    }
    Ok(largest / scale)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_relative_above_one() {
        let check = |found: &[f64], expected: &[f64], value: f64| {
            assert!((difference(found, expected).unwrap() - value).abs() < 1e-15);
        };
        check(&[0.5, 0.25], &[0.5, 0.125], 0.125);
        check(&[8.5, 1.0], &[8.0, 1.0], 0.0625);
        check(&[], &[], 0.0);
        assert!(difference(&[1.0], &[1.0, 2.0]).is_err());
        assert!(difference(&[f64::NAN], &[1.0]).is_err());
    }

    #[test]
    fn rows_that_rounding_decides_are_left_out() {
        let skip = |rows: &[usize]| without(&[1.0, 2.0, 3.0], &[1.0, 9.0, 3.5], &rows.iter().copied().collect());
        assert_eq!(skip(&[1]).unwrap(), (vec![1.0, 3.0], vec![1.0, 3.5]));
        assert_eq!(skip(&[]).unwrap().1, [1.0, 9.0, 3.5]);
        assert!(skip(&[3]).is_err());
    }

    #[test]
    fn rows_are_read_one_after_the_other() {
        assert_eq!(flatten(&json!([[1, 2.5], [], [-3]])).unwrap(), [1.0, 2.5, -3.0]);
        assert_eq!(flatten(&json!(4)).unwrap(), [4.0]);
        assert!(flatten(&json!([["x"]])).is_err());
    }

    #[test]
    fn names_are_compared_by_their_places() {
        assert_eq!(places(&json!(["c", "a"]), &["a", "b", "c"]).unwrap(), [2.0, 0.0]);
        assert!(places(&json!(["d"]), &["a"]).is_err());
        assert!(places(&json!("a"), &["a"]).is_err());
    }

    #[test]
    fn fields_in_32_bits_have_their_own_limit() {
        assert_eq!(limit("float64", "loss"), LIMIT);
        assert_eq!(limit("float32", "loss"), LIMIT_OF_FLOAT32);
        let mixed = "float64 (row_group_std: float32)";
        assert_eq!(limit(mixed, "row_group_std"), LIMIT_OF_FLOAT32);
        assert_eq!(limit(mixed, "row_advantages"), LIMIT);
    }
}
