//! The grammar of actions, which is the original's: `search[words]` and `click[text]`.

/// What the agent wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Look for these words.
    Search(String),
    /// Click what has this text.
    Click(String),
}

/// Reads an action. The original matches `(.+)\[(.+)\]` from the start, where each part takes as much as it can and none
/// goes beyond a line; what stands after the last bracket does not count. The argument is taken in lower case. Names may
/// be written in any case, since some of the original's users lower the whole answer.
pub(super) fn parse(text: &str) -> Option<Action> {
    let line = text.trim().split_once('\n').map_or(text.trim(), |(line, _)| line);
    let close = line.rfind(']')?;
    // The last opening bracket with something before it, and something between it and the last closing one.
    let open = line[..close].rmatch_indices('[').map(|(open, _)| open).find(|open| *open > 0 && close - open > 1)?;
    let argument = line[open + 1..close].to_lowercase();
    let name = &line[..open];
    if name.eq_ignore_ascii_case("search") {
        Some(Action::Search(argument))
    } else if name.eq_ignore_ascii_case("click") {
        Some(Action::Click(argument))
    } else {
        None
    }
}

/// The text that clicks this, if there is one: brackets and line ends in it may be in the grammar's way.
pub(super) fn click(text: &str) -> Option<String> {
    let action = format!("click[{text}]");
    (text != "search" && matches!(parse(&action), Some(Action::Click(read)) if read == text)).then_some(action)
}

/// The text that searches these words, without what the grammar cannot take.
pub(super) fn search(words: &str) -> String {
    let plain = words.replace(['[', ']', '\n', '\r'], " ");
    let words: Vec<&str> = plain.split_whitespace().collect();
    format!("search[{}]", words.join(" ").to_lowercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search_for(words: &str) -> Action {
        Action::Search(words.to_owned())
    }

    fn click_on(text: &str) -> Action {
        Action::Click(text.to_owned())
    }

    #[test]
    fn actions_are_read_as_the_original_reads_them() {
        for (text, expected) in [
            ("search[Red shoes]", Some(search_for("red shoes"))),
            (" Click[Buy Now] please", Some(click_on("buy now"))),
            ("click[a] and click[b]", None),
            ("click[x]]", Some(click_on("x]"))),
            ("click[[x]", None),
            ("search[ ]", Some(search_for(" "))),
            ("click[x]\nsearch[y]", Some(click_on("x"))),
            ("click[x\ny]", None),
            ("click[]", None),
            ("[x]", None),
            ("click[", None),
            ("]click[", None),
            ("", None),
            ("buy[x]", None),
            ("i click[x]", None),
            ("click[x][]", Some(click_on("x]["))),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_what_reads_back_can_be_clicked() {
        assert_eq!(click("buy now").as_deref(), Some("click[buy now]"));
        for text in ["search", "", "12 [pack of 2]", "a\nb", "Red"] {
            assert_eq!(click(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn anything_can_be_read(text in "\\PC{0,60}|[\\[\\]clik \n]{0,40}|(click|search)\\[[^\\[]{0,20}\\]{1,2}") {
            if let Some(Action::Click(read)) = parse(&text) {
                prop_assert!(!read.is_empty() && !read.contains('\n'));
            }
            let searched = parse(&search(&format!("{text}x")));
            prop_assert!(matches!(searched, Some(Action::Search(_))));
        }
    }
}
