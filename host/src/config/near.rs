//! The nearest valid name, for "did you mean".

/// The candidate that `wanted` most likely means, or none if nothing is near: the same but for case and dashes, or a
/// beginning of it, or at most one edit in three letters away.
pub(crate) fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    let wanted = plain(wanted);
    let limit = (wanted.chars().count() / 3).max(1);
    let distance = |candidate: &str| {
        let candidate = plain(candidate);
        if candidate.starts_with(&wanted) && wanted.chars().count() >= 3 {
            return usize::from(candidate != wanted);
        }
        let edits = strsim::damerau_levenshtein(&wanted, &candidate);
        // A name of one or two letters is near to every other one.
        if candidate.chars().count() <= edits { usize::MAX } else { edits }
    };
    candidates
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "`a`, `b` and 3 more": names for an error message, no more than fit on a line.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    // "and 1 more" would be no shorter than the name itself.
    if names.len() <= SHOWN + 1 {
        names.join(", ")
    } else {
        format!("{} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let names = ["groups", "group_size", "temperature", "lr", "top_p"];
        for (wanted, expected) in [
            ("gruops", Some("groups")),
            ("group", Some("groups")),
            ("group-size", Some("group_size")),
            ("temp", Some("temperature")),
            ("LR", Some("lr")),
            ("l", Some("lr")),
            ("tpo_p", Some("top_p")),
            ("xy", None),
            ("learning_rate", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, names), expected, "{wanted}");
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(list(["a", "b"]), "`a`, `b`");
        let many: Vec<String> = (0..11).map(|i| i.to_string()).collect();
        assert_eq!(list(many.iter().map(String::as_str)), "`0`, `1`, `2`, `3`, `4`, `5`, `6`, `7` and 3 more");
    }
}
