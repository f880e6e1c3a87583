//! What an action says: a number and a cell, in the forms that RAGEN reads.

use std::sync::LazyLock;

use regex::Regex;

/// The forms, in the order in which they are looked for; each is looked for anywhere in the text.
static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"place\s+([0-9]+)\s+at\s+row\s+([0-9]+)\s+col\s+([0-9]+)",
        r"place\s+([0-9]+)\s+at\s+\(([0-9]+),\s*([0-9]+)\)",
        r"place\s+([0-9]+)\s+at\s+([0-9]+),\s*([0-9]+)",
        r"([0-9]+)\s+at\s+([0-9]+),\s*([0-9]+)",
        r"\(([0-9]+),\s*([0-9]+),\s*([0-9]+)\)",
        r"([0-9]+),\s*([0-9]+),\s*([0-9]+)",
    ]
    .iter()
    .filter_map(|form| Regex::new(form).ok())
    .collect()
});

/// How much of a text that says nothing is given back.
const QUOTED: usize = 200;

/// A number for a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) number: u8,
    /// From 0.
    pub(super) row: usize,
    /// From 0.
    pub(super) col: usize,
}

/// What the text asks for on a grid of this size, or what is wrong with it, in RAGEN's words.
pub(super) fn parse(text: &str, size: usize) -> Result<Placement, String> {
    let text = text.trim().to_lowercase();
    let Some([first, second, third]) = listed(&text).or_else(|| numbers(&text)) else {
        let quoted: String = text.chars().take(QUOTED).collect();
        return Err(format!(
            "Could not parse action: '{quoted}'. Expected format: 'place 5 at row 2 col 3' or '2,3,5'"
        ));
    };
    // The words decide which number is meant, whatever the form.
    let number_first = text.contains("place") || text.contains("at");
    let [number, row, col] = if number_first { [first, second, third] } else { [third, first, second] };
    for (name, value) in [("Row", row), ("Column", col), ("Number", number)] {
        if !(1..=size as u64).contains(&value) {
            return Err(format!("{name} {value} is out of range (1-{size})"));
        }
    }
    Ok(Placement { number: number as u8, row: row as usize - 1, col: col as usize - 1 })
}

/// The numbers of an action as it is listed, which is the first form and nothing beside it: found without a search.
fn listed(text: &str) -> Option<[u64; 3]> {
    let (number, place) = text.strip_prefix("place ")?.split_once(" at row ")?;
    let (row, col) = place.split_once(" col ")?;
    let read = |digits: &str| {
        let is_short = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_short.then(|| digits.parse().ok())?
    };
    Some([read(number)?, read(row)?, read(col)?])
}

/// The three numbers of the first form that fits.
fn numbers(text: &str) -> Option<[u64; 3]> {
    let found = FORMS.iter().find_map(|form| form.captures(text))?;
    let (_, digits) = found.extract::<3>();
    // More digits than a number of 64 bits has are out of every range.
    Some(digits.map(|digits| digits.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let expected = Ok(Placement { number: 3, row: 0, col: 1 });
        for text in [
            "place 3 at row 1 col 2",
            "  PLACE  3  at\nrow 1 col 2 ",
            "place 3 at (1, 2)",
            "place 3 at 1,2",
            "3 at 1,2",
            "(1,2,3)",
            "1, 2,3",
            "I will place 3 at row 1 col 2 now",
            // "at" makes the first number the value, whatever the form.
            "that is (3,1,2)",
            "003 at 01,2",
        ] {
            assert_eq!(parse(text, 4), expected, "{text}");
        }
        // The forms come in order: the first one wins wherever it stands.
        assert_eq!(parse("1,1,1 place 3 at (1,2)", 4), expected);
        assert_eq!(parse("16,16,16", 16), Ok(Placement { number: 16, row: 15, col: 15 }));
    }

    #[test]
    fn listed_actions_are_read_as_by_the_forms() {
        for text in ["place 3 at row 1 col 2", "place 16 at row 10 col 09", "place 0 at row 1 col 99"] {
            assert!(listed(text).is_some() && listed(text) == numbers(text), "{text}");
        }
        for text in [
            "place  at row 1 col 2",
            "place 3 at row 1 col 2 now",
            "place 300 at row 1 col 2",
            "place ３ at row 1 col 2",
        ] {
            assert_eq!(listed(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_ragens_words() {
        let check = |text: &str, expected: &str| assert_eq!(parse(text, 4).unwrap_err(), expected);
        check("0,1,1", "Row 0 is out of range (1-4)");
        check("1,5,1", "Column 5 is out of range (1-4)");
        check("9,9,9", "Row 9 is out of range (1-4)");
        check("place 7 at 1,1", "Number 7 is out of range (1-4)");
        check("place 99999999999999999999999 at 1,1", "Number 18446744073709551615 is out of range (1-4)");
        let hint = "Expected format: 'place 5 at row 2 col 3' or '2,3,5'";
        check("Up", &format!("Could not parse action: 'up'. {hint}"));
        // Only ASCII digits are digits, and a long text is cut.
        check("\u{663},\u{661},\u{662}", &format!("Could not parse action: '\u{663},\u{661},\u{662}'. {hint}"));
        let long = parse(&"x".repeat(10_000), 4).unwrap_err();
        assert_eq!(long, format!("Could not parse action: '{}'. {hint}", "x".repeat(QUOTED)));
    }

    #[test]
    fn all_forms_are_valid_patterns() {
        assert_eq!(FORMS.len(), 6);
    }
}
