//! Whether two texts are nearly the same words: `thefuzz.fuzz.token_set_ratio(a, b) > 85`, which is how WebShop compares
//! attributes and options.

/// Ratios are rounded before they are compared with 85, and a half goes to the even number 86.
const ENOUGH: f64 = 85.5;

/// Whether the texts are nearly the same words.
pub(super) fn alike(a: &str, b: &str) -> bool {
    token_set_ratio(&plain(a), &plain(b)) >= ENOUGH
}

/// Words in lower case, of letters in ASCII or beyond Latin-1 (the original drops what is between), and spaces for
/// everything that is neither letter nor digit.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|letter| !('\u{80}'..='\u{ff}').contains(letter))
        .map(|letter| if letter.is_alphanumeric() { letter } else { ' ' })
        .flat_map(char::to_lowercase)
        .collect()
}

/// The ratio, 0 to 100, of two plain texts: 100 where the words of one are among the other's; else the best of what
/// remains of each beside the words that they share.
fn token_set_ratio(a: &str, b: &str) -> f64 {
    let words = |text| {
        let mut words: Vec<&str> = str::split_whitespace(text).collect();
        words.sort_unstable();
        words.dedup();
        words
    };
    let (a, b) = (words(a), words(b));
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    // Letters of the words, with a space between two.
    let letters = |words: &[&str]| words.join(" ").chars().collect::<Vec<char>>();
    let (shared, rest_a): (Vec<&str>, Vec<&str>) = a.iter().partition(|word| b.binary_search(word).is_ok());
    let rest_b: Vec<&str> = b.into_iter().filter(|word| shared.binary_search(word).is_err()).collect();
    if !shared.is_empty() && (rest_a.is_empty() || rest_b.is_empty()) {
        return 100.0;
    }
    let (shared, rest_a, rest_b) = (letters(&shared).len(), letters(&rest_a), letters(&rest_b));
    let gap = usize::from(shared > 0);
    let (whole_a, whole_b) = (shared + gap + rest_a.len(), shared + gap + rest_b.len());
    let ratio = |distance: usize, length: usize| 100.0 - 100.0 * distance as f64 / length as f64;
    let between_wholes = ratio(indel(&rest_a, &rest_b), whole_a + whole_b);
    if shared == 0 {
        return between_wholes;
    }
    between_wholes.max(ratio(gap + rest_a.len(), shared + whole_a)).max(ratio(gap + rest_b.len(), shared + whole_b))
}

/// How many letters must be inserted or deleted to make one of the other.
fn indel(a: &[char], b: &[char]) -> usize {
    // The longest common subsequence, row by row.
    let mut row = vec![0; b.len() + 1];
    for letter in a {
        let mut diagonal = 0;
        for (place, other) in b.iter().enumerate() {
            let above = row[place + 1];
            row[place + 1] = if letter == other { diagonal + 1 } else { above.max(row[place]) };
            diagonal = above;
        }
    }
    a.len() + b.len() - 2 * row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts and thefuzz 0.22.1's ratios of them: written by the script beside the file.
    #[test]
    fn ratios_are_thefuzzs() {
        let lines = include_str!("../../tests/golden/webshop/token_set_ratio.tsv");
        let mut compared = 0;
        for line in lines.lines() {
            let mut fields = line.split('\t');
            let (a, b, expected) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
            let ratio = token_set_ratio(&plain(a), &plain(b)).round_ties_even();
            assert_eq!(ratio, expected.parse::<f64>().unwrap(), "{a:?} {b:?}");
            compared += 1;
        }
        assert_eq!(compared, 2000);
    }

    proptest! {
        #[test]
        fn ratios_are_symmetric_and_bounded(a in "\\PC{0,20}|[abc ]{0,20}", b in "\\PC{0,20}|[abc ]{0,20}") {
            let ratio = token_set_ratio(&plain(&a), &plain(&b));
            prop_assert!((0.0..=100.0).contains(&ratio));
            prop_assert_eq!(ratio, token_set_ratio(&plain(&b), &plain(&a)));
            prop_assert_eq!(indel(&['a'; 3], &['b'; 4]), 7);
        }
    }
}
