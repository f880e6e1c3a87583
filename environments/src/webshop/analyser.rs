//! How texts become terms: Lucene's `StandardTokenizer` (the words of UAX #29, and emoji), `EnglishPossessiveFilter`,
//! lower case, English stop words, and Porter's stemmer.

use unicode_segmentation::UnicodeSegmentation;

use super::porter::stem;

/// Longer words are cut into pieces of this length.
const MAX_WORD: usize = 255;

/// Lucene's English stop words.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];

/// Pictographs: Unicode 12.1's Extended_Pictographic, which Lucene's tokenizer was made for. Later versions have fewer.
const PICTOGRAPHS: &[(u32, u32)] = &[
    (0x00A9, 0x00A9),
    (0x00AE, 0x00AE),
    (0x203C, 0x203C),
    (0x2049, 0x2049),
    (0x2122, 0x2122),
    (0x2139, 0x2139),
    (0x2194, 0x2199),
    (0x21A9, 0x21AA),
    (0x231A, 0x231B),
    (0x2328, 0x2328),
    (0x2388, 0x2388),
    (0x23CF, 0x23CF),
    (0x23E9, 0x23F3),
    (0x23F8, 0x23FA),
    (0x24C2, 0x24C2),
    (0x25AA, 0x25AB),
    (0x25B6, 0x25B6),
    (0x25C0, 0x25C0),
    (0x25FB, 0x25FE),
    (0x2600, 0x2605),
    (0x2607, 0x2612),
    (0x2614, 0x2685),
    (0x2690, 0x2705),
    (0x2708, 0x2712),
    (0x2714, 0x2714),
    (0x2716, 0x2716),
    (0x271D, 0x271D),
    (0x2721, 0x2721),
    (0x2728, 0x2728),
    (0x2733, 0x2734),
    (0x2744, 0x2744),
    (0x2747, 0x2747),
    (0x274C, 0x274C),
    (0x274E, 0x274E),
    (0x2753, 0x2755),
    (0x2757, 0x2757),
    (0x2763, 0x2767),
    (0x2795, 0x2797),
    (0x27A1, 0x27A1),
    (0x27B0, 0x27B0),
    (0x27BF, 0x27BF),
    (0x2934, 0x2935),
    (0x2B05, 0x2B07),
    (0x2B1B, 0x2B1C),
    (0x2B50, 0x2B50),
    (0x2B55, 0x2B55),
    (0x3030, 0x3030),
    (0x303D, 0x303D),
    (0x3297, 0x3297),
    (0x3299, 0x3299),
    (0x1F000, 0x1F0FF),
    (0x1F10D, 0x1F10F),
    (0x1F12F, 0x1F12F),
    (0x1F16C, 0x1F171),
    (0x1F17E, 0x1F17F),
    (0x1F18E, 0x1F18E),
    (0x1F191, 0x1F19A),
    (0x1F1AD, 0x1F1FF),
    (0x1F201, 0x1F20F),
    (0x1F21A, 0x1F21A),
    (0x1F22F, 0x1F22F),
    (0x1F232, 0x1F23A),
    (0x1F23C, 0x1F23F),
    (0x1F249, 0x1F53D),
    (0x1F546, 0x1F64F),
    (0x1F680, 0x1F6FF),
    (0x1F774, 0x1F77F),
    (0x1F7D5, 0x1F7FF),
    (0x1F80C, 0x1F80F),
    (0x1F848, 0x1F84F),
    (0x1F85A, 0x1F85F),
    (0x1F888, 0x1F88F),
    (0x1F8AE, 0x1F8FF),
    (0x1F90C, 0x1F93A),
    (0x1F93C, 0x1F945),
    (0x1F947, 0x1FFFD),
];

/// The words of a text, in lower case and without a possessive `'s`; stop words are left out.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_word_bounds().filter(|word| is_word(word)).flat_map(pieces).filter_map(|piece| {
        let word = without_possessive(piece).to_lowercase();
        let stop = STOP_WORDS.binary_search(&word.as_str()).is_ok();
        (!stop && !word.is_empty()).then_some(word)
    })
}

/// The terms of a text, in its order.
pub(super) fn terms(text: &str) -> impl Iterator<Item = String> {
    words(text).map(|word| stem(&word))
}

fn is_word(segment: &str) -> bool {
    segment.chars().any(makes_word) || segment.chars().next().is_some_and(is_pictograph)
}

/// Whether this makes a word of what it stands in: a letter that does not only modify another one, or a digit, which
/// words join with letters, as opposed to a number such as ½ or ①.
fn makes_word(letter: char) -> bool {
    let joins = |before: char| [before, letter].iter().collect::<String>().split_word_bounds().count() == 1;
    match letter {
        _ if letter.is_ascii() => letter.is_ascii_alphanumeric(),
        _ if letter.is_alphabetic() => !joins('.'),
        _ => letter.is_numeric() && joins('a'),
    }
}

fn is_pictograph(letter: char) -> bool {
    let code = u32::from(letter);
    let after = PICTOGRAPHS.partition_point(|(first, _)| *first <= code);
    after > 0 && code <= PICTOGRAPHS[after - 1].1
}

fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(MAX_WORD).map_or(rest.len(), |(end, _)| end);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn without_possessive(word: &str) -> &str {
    word.strip_suffix(['s', 'S']).and_then(|stem| stem.strip_suffix(['\'', '’', '＇'])).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(terms(text).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn texts_become_terms() {
        check("Find me Women's dresses, 16×24 inch", &["find", "me", "women", "dress", "16", "24", "inch"]);
        check("non-slip 10.5 12x16 1,299.99", &["non", "slip", "10.5", "12x16", "1,299.99"]);
        check("the cat is on it", &["cat"]);
        check("★ best ❤ gift ™", &["★", "best", "❤", "gift", "™"]);
        check("don't the boss’s", &["don't", "boss"]);
        check("", &[]);
        check(" \u{0} -- [] ", &[]);
        check("½ cup ③ 4² ٣ (ﾟ", &["cup", "4", "٣"]);
        check("東京 tower カメラ", &["東", "京", "tower", "カメラ"]);
        check(&"x".repeat(600), &[&"x".repeat(255), &"x".repeat(255), &"x".repeat(90)]);
    }

    #[test]
    fn tables_are_in_order() {
        assert!(STOP_WORDS.is_sorted());
        assert!(PICTOGRAPHS.iter().all(|(first, last)| first <= last));
        assert!(PICTOGRAPHS.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    proptest! {
        #[test]
        fn no_text_breaks_it_and_terms_are_short(text in "\\PC{0,300}|[a-z' ]{0,300}") {
            for term in terms(&text) {
                prop_assert!(!term.is_empty() && term.chars().count() <= 3 * MAX_WORD);
                prop_assert!(!STOP_WORDS.contains(&term.as_str()) || term.len() < 4);
            }
        }
    }
}
