//! The nearest of some names, for "did you mean".

/// The name that `wanted` most likely means, or none if nothing is near: at most one edit in three letters.
pub(super) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let wanted = plain(wanted);
    let limit = (wanted.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        // A name of one or two letters is near to every other one.
        .filter(|(edits, name)| *edits <= limit && *edits < name.chars().count())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// "Did you mean `name`?" with a leading space, or nothing.
pub(super) fn hint<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wanted, names).map_or_else(String::new, |name| format!(" Did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let names = ["grpo", "actfocus", "clip", "q"];
        for (wanted, expected) in [
            ("grop", Some("grpo")),
            ("act_focus", Some("actfocus")),
            ("Clip", Some("clip")),
            ("x", None),
            ("reinforce", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, names), expected, "{wanted}");
        }
    }
}
