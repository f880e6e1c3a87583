//! How alike two texts are: the ratio of Python's `difflib.SequenceMatcher`, number for number.
//!
//! Ratcliff and Obershelp (1988): take the longest block that both texts have, then do the same on its left and on its
//! right; the ratio is `2 M / T`, with `M` characters in such blocks and `T` in both texts. The first of several longest
//! blocks counts, in the first text and then in the second. The ratio is not symmetric.
//!
//! Python also has a rule against slow runs, `autojunk`: in a second text of 200 characters or more, one that stands
//! there more than `length / 100 + 1` times is "popular". No block starts from popular characters; a block may grow over
//! them.

use std::ops::Range;

/// The second text of comparisons, with its characters indexed.
pub struct Pattern {
    chars: Vec<char>,
    /// All characters in order, for the bound.
    sorted: Vec<char>,
    /// Characters that are not popular, with their places, in order.
    places: Vec<(char, u32)>,
}

/// The first text of comparisons.
pub struct Text {
    chars: Vec<char>,
    sorted: Vec<char>,
}

/// Memory that comparisons share.
#[derive(Default)]
pub struct Scratch {
    /// For each character of the first text, where in the pattern's places it stands.
    ranges: Vec<Range<usize>>,
    /// Lengths of blocks that end before the current character of the first text, by the end's place in the pattern.
    before: Vec<u32>,
    /// The same that end with it.
    with: Vec<u32>,
    /// Pairs of spans still to be compared.
    spans: Vec<(Range<usize>, Range<usize>)>,
}

/// A longest common block.
struct Block {
    a: usize,
    b: usize,
    length: usize,
}

impl Pattern {
    /// Indexes a text, with or without the rule for popular characters.
    pub fn new(text: &Text, autojunk: bool) -> Self {
        let chars = text.chars.clone();
        let mut places: Vec<(char, u32)> = chars.iter().copied().zip(0..).collect();
        places.sort_unstable();
        if autojunk && chars.len() >= 200 {
            let most = chars.len() / 100 + 1;
            let runs = places.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() <= most);
            places = runs.flatten().copied().collect();
        }
        Self { chars, sorted: text.sorted.clone(), places }
    }

    /// Where the places of a character stand.
    fn range(&self, char: char) -> Range<usize> {
        let start = self.places.partition_point(|place| place.0 < char);
        start..start + self.places[start..].partition_point(|place| place.0 == char)
    }

    /// Whether the ratio with a first text is at least this.
    pub fn matches(&self, text: &Text, threshold: f64, scratch: &mut Scratch) -> bool {
        // Blocks hold no more characters than the shorter text, and no more than the texts have in common in any order.
        let reaches = |matched: usize| ratio(matched, text.chars.len() + self.chars.len()) >= threshold;
        reaches(text.chars.len().min(self.chars.len()))
            && reaches(common(&text.sorted, &self.sorted))
            && reaches(self.matched(text, scratch))
    }

    /// Number of characters in common blocks.
    fn matched(&self, text: &Text, scratch: &mut Scratch) -> usize {
        let Scratch { ranges, before, with, spans } = scratch;
        ranges.clear();
        ranges.extend(text.chars.iter().map(|char| self.range(*char)));
        for lengths in [&mut *before, &mut *with] {
            lengths.clear();
            lengths.resize(self.chars.len() + 1, 0);
        }
        spans.clear();
        spans.push((0..text.chars.len(), 0..self.chars.len()));
        let mut matched = 0;
        while let Some((a, b)) = spans.pop() {
            let block = self.longest(&text.chars, ranges, a.clone(), b.clone(), before, with);
            if block.length > 0 {
                matched += block.length;
                spans.push((a.start..block.a, b.start..block.b));
                spans.push((block.a + block.length..a.end, block.b + block.length..b.end));
            }
        }
        matched
    }

    /// The longest block in two spans. `before` and `with` are 0 everywhere, and are left so. In them a block that ends
    /// with the pattern's character `j` stands at `j + 1`.
    fn longest(
        &self,
        text: &[char],
        ranges: &[Range<usize>],
        a: Range<usize>,
        b: Range<usize>,
        before: &mut Vec<u32>,
        with: &mut Vec<u32>,
    ) -> Block {
        let places = |i: usize| {
            let all = &self.places[ranges[i].clone()];
            let from = all.partition_point(|place| (place.1 as usize) < b.start);
            all[from..].iter().map(|place| place.1 as usize).take_while(|j| *j < b.end)
        };
        let mut best = Block { a: a.start, b: b.start, length: 0 };
        for i in a.clone() {
            for j in places(i) {
                let length = before[j] + 1;
                with[j + 1] = length;
                let length = length as usize;
                if length > best.length {
                    best = Block { a: i + 1 - length, b: j + 1 - length, length };
                }
            }
            if i > a.start {
                places(i - 1).for_each(|j| before[j + 1] = 0);
            }
            std::mem::swap(before, with);
        }
        if !a.is_empty() {
            places(a.end - 1).for_each(|j| before[j + 1] = 0);
        }
        while best.a > a.start && best.b > b.start && text[best.a - 1] == self.chars[best.b - 1] {
            best = Block { a: best.a - 1, b: best.b - 1, length: best.length + 1 };
        }
        while best.a + best.length < a.end
            && best.b + best.length < b.end
            && text[best.a + best.length] == self.chars[best.b + best.length]
        {
            best.length += 1;
        }
        best
    }
}

impl Text {
    /// Reads a text.
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut sorted = chars.clone();
        sorted.sort_unstable();
        Self { chars, sorted }
    }
}

/// Number of elements that two sorted lists have in common.
fn common(a: &[char], b: &[char]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                (i, j, count) = (i + 1, j + 1, count + 1);
            }
        }
    }
    count
}

/// The ratio; that of two empty texts is 1.
fn ratio(matched: usize, total: usize) -> f64 {
    if total == 0 { 1.0 } else { 2.0 * matched as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(a: &str, b: &str, autojunk: bool) -> f64 {
        let (a, b) = (Text::new(a), Text::new(b));
        let pattern = Pattern::new(&b, autojunk);
        let mut scratch = Scratch::default();
        let found = ratio(pattern.matched(&a, &mut scratch), a.chars.len() + b.chars.len());
        assert!(scratch.before.iter().chain(&scratch.with).all(|length| *length == 0), "the memory is left clean");
        assert!(pattern.matches(&a, found, &mut scratch));
        assert!(!pattern.matches(&a, found + 1e-9, &mut scratch));
        found
    }

    /// The ratios in these tests are those of `difflib.SequenceMatcher(None, a, b).ratio()` in Python 3.11.
    #[test]
    fn short_texts_have_the_ratio_of_difflib() {
        let x = "x".repeat(250);
        for (a, b, expected) in [
            ("", "", 1.0),
            ("", "a", 0.0),
            ("abcd", "bcde", 0.75),
            ("tide", "diet", 0.25),
            ("diet", "tide", 0.5),
            ("private Thread currentThread;", "private volatile Thread currentThread;", 0.865_671_641_791_044_7),
            ("世界 é", "世界", 0.666_666_666_666_666_6),
            (" abcd", "abcd abcd", 0.714_285_714_285_714_3),
            (&x, &x, 1.0),
            (&format!("{x}y"), &format!("y{x}"), 0.003_984_063_745_019_92),
            ("xxxxx", &format!("y{x}"), 0.0),
        ] {
            assert_eq!(of(a, b, true), expected, "{a} {b}");
        }
    }

    /// The generator of Knuth's MMIX, so that Python can make the same texts.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % end
        }
    }

    #[test]
    fn long_texts_have_the_ratio_of_difflib() {
        const FEW: &str = "etaoin shrdlu";
        const MANY: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,;:-é世";
        let mut numbers = Numbers(7);
        // Length, edits, characters; the ratio, that of the texts the other way round, and that without `autojunk`.
        for (length, edits, letters, expected) in [
            (20, 3, FEW, [0.95, 0.95, 0.95]),
            (60, 10, FEW, [0.881_355_932_203_389_8, 0.881_355_932_203_389_8, 0.881_355_932_203_389_8]),
            (150, 12, FEW, [0.956_228_956_228_956_2, 0.956_228_956_228_956_2, 0.956_228_956_228_956_2]),
            (199, 20, FEW, [0.940_298_507_462_686_6, 0.089_552_238_805_970_14, 0.940_298_507_462_686_6]),
            (199, 20, MANY, [0.938_461_538_461_538_5, 0.938_461_538_461_538_5, 0.938_461_538_461_538_5]),
            (200, 20, FEW, [0.060_301_507_537_688_44, 0.949_748_743_718_593, 0.949_748_743_718_593]),
            (230, 20, FEW, [0.008_676_789_587_852_495, 0.008_676_789_587_852_495, 0.950_108_459_869_848_2]),
            (230, 20, MANY, [0.930_131_004_366_812_2, 0.930_131_004_366_812_2, 0.938_864_628_820_960_7]),
            (400, 60, MANY, [0.836_228_287_841_191_1, 0.801_488_833_746_898_3, 0.905_707_196_029_776_7]),
            (450, 5, MANY, [0.992_248_062_015_503_9, 0.992_248_062_015_503_9, 0.992_248_062_015_503_9]),
            (700, 40, FEW, [0.007_067_137_809_187_279, 0.007_067_137_809_187_279, 0.966_784_452_296_819_8]),
            (1200, 90, MANY, [0.500_417_710_944_026_8, 0.231_411_862_990_810_35, 0.949_039_264_828_738_5]),
            (150, 1000, FEW, [0.248_484_848_484_848_48, 0.242_424_242_424_242_43, 0.248_484_848_484_848_48]),
            (300, 2000, MANY, [0.021_238_938_053_097_345, 0.049_557_522_123_893_805, 0.035_398_230_088_495_575]),
        ] {
            let letters: Vec<char> = letters.chars().collect();
            let b: Vec<char> = (0..length).map(|_| letters[numbers.below(letters.len())]).collect();
            let mut a = b.clone();
            for _ in 0..edits {
                let (kind, place) = (numbers.below(3), numbers.below(a.len() + 1));
                let letter = letters[numbers.below(letters.len())];
                match kind {
                    0 => a.insert(place, letter),
                    1 if place < a.len() => a[place] = letter,
                    2 if place < a.len() => {
                        a.remove(place);
                    }
                    _ => {}
                }
            }
            let (a, b): (String, String) = (a.into_iter().collect(), b.into_iter().collect());
            assert_eq!([of(&a, &b, true), of(&b, &a, true), of(&a, &b, false)], expected, "{length} {edits}");
        }
    }
}
