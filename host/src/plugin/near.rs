//! The nearest of some names, for "did you mean".

use crate::config::near::nearest;

/// "Did you mean `name`?" with a leading space, or nothing.
pub(super) fn hint<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, names).map_or_else(String::new, |name| format!(" Did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let names = ["acme", "emphasis", "clip", "q"];
        for (wanted, expected) in [
            ("acem", Some("acme")),
            ("em_phasis", Some("emphasis")),
            ("Clip", Some("clip")),
            ("x", None),
            ("reinforce", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, names), expected, "{wanted}");
        }
    }
}
