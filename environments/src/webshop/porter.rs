//! Porter's stemmer (Porter, "An algorithm for suffix stripping", 1980) as Lucene has it: with the author's later rules
//! `bli` and `logi`, and with words of one or two letters left alone.

/// What a step may put in the place of a suffix, in the order in which suffixes are tried.
const STEP_2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];
const STEP_3: &[(&str, &str)] =
    &[("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];
const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
];

/// The stem of a word in lower case.
pub(super) fn stem(word: &str) -> String {
    let mut word = Word(word.chars().collect());
    if word.0.len() > 2 {
        word.plurals_and_participles();
        if word.stem_of("y").is_some_and(|stem| word.has_vowel(stem)) {
            word.replace(word.0.len() - 1, "i");
        }
        if word.0.len() > 1 {
            word.replace_first(STEP_2);
        }
        word.replace_first(STEP_3);
        word.strip_suffix();
        word.strip_final();
    }
    word.0.into_iter().collect()
}

struct Word(Vec<char>);

impl Word {
    /// How long the word is without this suffix; none if it does not end so.
    fn stem_of(&self, suffix: &str) -> Option<usize> {
        let start = self.0.len().checked_sub(suffix.len())?;
        self.0[start..].iter().copied().eq(suffix.chars()).then_some(start)
    }

    fn replace(&mut self, stem: usize, suffix: &str) {
        self.0.truncate(stem);
        self.0.extend(suffix.chars());
    }

    /// Whether each of the first `len` letters is a consonant: `y` is one at the start and after a vowel.
    fn consonants(&self, len: usize) -> impl Iterator<Item = bool> {
        self.0[..len].iter().scan(false, |before, letter| {
            *before = match letter {
                'a' | 'e' | 'i' | 'o' | 'u' => false,
                'y' => !*before,
                _ => true,
            };
            Some(*before)
        })
    }

    /// How often a consonant follows a vowel in the first `len` letters: Porter's m.
    fn measure(&self, len: usize) -> usize {
        self.consonants(len).zip(self.consonants(len).skip(1)).filter(|(before, after)| !before && *after).count()
    }

    fn has_vowel(&self, len: usize) -> bool {
        self.consonants(len).any(|consonant| !consonant)
    }

    /// Whether the first `len` letters end with the same consonant twice.
    fn ends_double(&self, len: usize) -> bool {
        len > 1 && self.0[len - 1] == self.0[len - 2] && self.consonants(len).last() == Some(true)
    }

    /// Whether the first `len` letters end with consonant, vowel, and a consonant other than w, x, y.
    fn ends_short(&self, len: usize) -> bool {
        len > 2
            && self.consonants(len).skip(len - 3).eq([true, false, true])
            && !matches!(self.0[len - 1], 'w' | 'x' | 'y')
    }

    fn plurals_and_participles(&mut self) {
        let len = self.0.len();
        if self.stem_of("sses").is_some() {
            self.0.truncate(len - 2);
        } else if let Some(stem) = self.stem_of("ies") {
            self.replace(stem, "i");
        } else if self.stem_of("s").is_some() && self.stem_of("ss").is_none() {
            self.0.truncate(len - 1);
        }
        if let Some(stem) = self.stem_of("eed") {
            if self.measure(stem) > 0 {
                self.0.pop();
            }
            return;
        }
        let Some(stem) = self.stem_of("ed").or_else(|| self.stem_of("ing")) else { return };
        if !self.has_vowel(stem) {
            return;
        }
        self.0.truncate(stem);
        if ["at", "bl", "iz"].iter().any(|end| self.stem_of(end).is_some()) {
            self.0.push('e');
        } else if self.ends_double(stem) {
            if !matches!(self.0[stem - 1], 'l' | 's' | 'z') {
                self.0.pop();
            }
        } else if self.measure(stem) == 1 && self.ends_short(stem) {
            self.0.push('e');
        }
    }

    /// Replaces the first suffix of the table that the word ends with, if enough comes before it.
    fn replace_first(&mut self, table: &[(&str, &str)]) {
        let found = table.iter().find_map(|(suffix, by)| Some((self.stem_of(suffix)?, by)));
        if let Some((stem, by)) = found
            && self.measure(stem) > 0
        {
            self.replace(stem, by);
        }
    }

    fn strip_suffix(&mut self) {
        let fits = |suffix: &str| {
            let stem = self.stem_of(suffix)?;
            // The letter before `ion` must be s or t, else the suffix is not that one.
            (suffix != "ion" || stem > 0 && matches!(self.0[stem - 1], 's' | 't')).then_some(stem)
        };
        if let Some(stem) = STEP_4.iter().find_map(|suffix| fits(suffix))
            && self.measure(stem) > 1
        {
            self.0.truncate(stem);
        }
    }

    fn strip_final(&mut self) {
        let len = self.0.len();
        let measure = self.measure(len);
        if self.stem_of("e").is_some() && (measure > 1 || measure == 1 && !self.ends_short(len - 1)) {
            self.0.pop();
        }
        if self.stem_of("ll").is_some() && measure > 1 {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stems_of_the_paper_and_of_shop_words() {
        let pairs = "caresses caress, ponies poni, ties ti, caress caress, cats cat, feed feed, agreed agre, \
            plastered plaster, bled bled, motoring motor, sing sing, conflated conflat, troubled troubl, sized size, \
            hopping hop, tanned tan, falling fall, hissing hiss, fizzed fizz, failing fail, filing file, happy happi, \
            sky sky, relational relat, conditional condit, rational ration, valenci valenc, digitizer digit, \
            radicalli radic, differentli differ, vileli vile, analogousli analog, vietnamization vietnam, \
            predication predic, operator oper, feudalism feudal, decisiveness decis, hopefulness hope, \
            callousness callous, formaliti formal, sensitiviti sensit, sensibiliti sensibl, triplicate triplic, \
            formative form, formalize formal, electriciti electr, electrical electr, hopeful hope, goodness good, \
            revival reviv, allowance allow, inference infer, airliner airlin, adjustable adjust, defensible defens, \
            irritant irrit, replacement replac, adjustment adjust, dependent depend, adoption adopt, communism commun, \
            activate activ, effective effect, bowdlerize bowdler, probate probat, rate rate, cease ceas, controll control, \
            roll roll, possibly possibl, apology apolog, geology geologi, ion ion, is is, by by, body bodi, toys toi, eyes ey, \
            machine machin, friendly friendli, sleeves sleev, shirts shirt, 4x 4x, café café";
        for pair in pairs.split(", ") {
            let (word, expected) = pair.trim().split_once(' ').unwrap();
            assert_eq!(stem(word), expected, "{word}");
        }
    }

    proptest! {
        #[test]
        fn any_word_has_a_stem_that_is_no_longer(word in "\\PC{0,40}|[aeiouysdnlrtz]{0,30}") {
            let stem = stem(&word);
            prop_assert!(stem.chars().count() <= word.chars().count().max(1));
            prop_assert_eq!(stem.is_empty(), word.is_empty());
        }
    }
}
