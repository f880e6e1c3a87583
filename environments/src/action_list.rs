//! Several actions in one answer, as RAGEN has them.

/// What stands between the actions of one answer.
pub(crate) const SEPARATOR: &str = "||";

/// The actions of an answer, and whether it holds nothing else. With more than one action allowed, parts that are empty
/// do not count, those beyond `max_actions` are not read, and those that mean nothing are left out.
pub(crate) fn parse<'a, T>(
    text: Option<&'a str>,
    max_actions: usize,
    action: impl Fn(&'a str) -> Option<T>,
) -> (Vec<T>, bool) {
    let text = text.unwrap_or_default();
    if max_actions == 1 {
        let actions = Vec::from_iter(action(text.trim()));
        let valid = !actions.is_empty();
        return (actions, valid);
    }
    let (mut actions, mut valid) = (Vec::new(), true);
    for part in text.split(SEPARATOR).map(str::trim).filter(|part| !part.is_empty()).take(max_actions) {
        match action(part) {
            Some(action) => actions.push(action),
            None => valid = false,
        }
    }
    valid &= !actions.is_empty();
    (actions, valid)
}

/// What an agent must know about the number of its actions.
pub(crate) fn instruction(max_actions: usize) -> String {
    match max_actions {
        1 => "Answer with one action.".to_owned(),
        n => format!("Answer with 1 to {n} actions, separated by {SEPARATOR}; they are played in order."),
    }
}
