//! The search engine: an inverted index in flat arrays, ranked as Lucene's `BM25Similarity` ranks with Anserini's
//! parameters, in its arithmetic of 32-bit floats, so that equal catalogues give equal lists.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::analyser;

/// How many products a search finds at most.
pub(super) const MAX_HITS: usize = 50;

const K1: f32 = 0.9;
const B: f32 = 0.4;

/// The index of a catalogue. Products are called by their place in it.
pub(super) struct Index {
    terms: FxHashMap<String, u32>,
    /// Where the postings of each term begin; one more than there are terms.
    starts: Vec<u32>,
    /// The postings: products in rising order, and how often the term occurs in each.
    products: Vec<u32>,
    frequencies: Vec<u16>,
    /// Per product, what multiplies a term's frequency: long texts count less.
    length_factors: Vec<f32>,
    /// Per product, its place in the order of the names that break ties.
    ties: Vec<u32>,
    /// How many products have any term.
    filled: u32,
}

thread_local! {
    /// Sums of scores and which of them are not 0; all zero between two searches.
    static SUMS: RefCell<(Vec<f64>, Vec<u32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl Index {
    /// Indexes texts. Equal scores are ordered by name.
    pub(super) fn new<'a>(texts: impl IntoIterator<Item = String>, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut terms = FxHashMap::default();
        // Words are stemmed once each.
        let mut known: FxHashMap<String, u32> = FxHashMap::default();
        let mut counted: Vec<(u32, u32, u16)> = Vec::new();
        let mut lengths: Vec<u32> = Vec::new();
        for (product, text) in texts.into_iter().enumerate() {
            let mut ids: Vec<u32> = analyser::words(&text)
                .map(|word| {
                    *known.entry(word).or_insert_with_key(|word| {
                        let next = terms.len() as u32;
                        *terms.entry(super::porter::stem(word)).or_insert(next)
                    })
                })
                .collect();
            lengths.push(ids.len() as u32);
            ids.sort_unstable();
            for same in ids.chunk_by(|a, b| a == b) {
                counted.push((same[0], product as u32, u16::try_from(same.len()).unwrap_or(u16::MAX)));
            }
        }
        counted.sort_unstable();
        let mut starts = vec![0; terms.len() + 1];
        for (term, ..) in &counted {
            starts[*term as usize + 1] += 1;
        }
        for term in 0..terms.len() {
            starts[term + 1] += starts[term];
        }
        let filled = lengths.iter().filter(|length| **length > 0).count();
        let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        let average = (total as f64 / filled.max(1) as f64) as f32;
        let factor = |length: u32| 1.0 / (K1 * ((1.0 - B) + B * stored_length(length) as f32 / average));
        let names: Vec<&str> = names.into_iter().collect();
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        order.sort_by_key(|product| names[*product as usize]);
        let mut ties = vec![0; names.len()];
        for (place, product) in order.into_iter().enumerate() {
            ties[product as usize] = place as u32;
        }
        Self {
            terms,
            starts,
            products: counted.iter().map(|(_, product, _)| *product).collect(),
            frequencies: counted.iter().map(|(.., frequency)| *frequency).collect(),
            length_factors: lengths.into_iter().map(factor).collect(),
            ties,
            filled: filled as u32,
        }
    }

    /// The best products for a query, best first, with their scores.
    pub(super) fn search(&self, query: &str) -> Vec<(u32, f32)> {
        let mut terms: Vec<u32> = analyser::terms(query).filter_map(|term| self.terms.get(&term).copied()).collect();
        terms.sort_unstable();
        SUMS.with_borrow_mut(|(sums, touched)| {
            if sums.len() < self.ties.len() {
                sums.resize(self.ties.len(), 0.0);
            }
            for same in terms.chunk_by(|a, b| a == b) {
                let term = same[0] as usize;
                let postings = self.starts[term] as usize..self.starts[term + 1] as usize;
                let weight = same.len() as f32 * self.rarity(postings.len());
                for (product, frequency) in
                    self.products[postings.clone()].iter().zip(&self.frequencies[postings.clone()])
                {
                    let place = *product as usize;
                    let score = weight - weight / (1.0 + f32::from(*frequency) * self.length_factors[place]);
                    if sums[place] == 0.0 {
                        touched.push(*product);
                    }
                    sums[place] += f64::from(score);
                }
            }
            self.best(sums, touched)
        })
    }

    /// Lucene's idf.
    fn rarity(&self, holders: usize) -> f32 {
        let (all, holders) = (f64::from(self.filled), holders as f64);
        (1.0 + (all - holders + 0.5) / (holders + 0.5)).ln() as f32
    }

    /// The products with the highest sums; empties both.
    fn best(&self, sums: &mut [f64], touched: &mut Vec<u32>) -> Vec<(u32, f32)> {
        // Scores are positive, so their bits are in their order; the name's place counts backwards.
        let key = |product: u32, score: f32| u64::from(score.to_bits()) << 32 | u64::from(!self.ties[product as usize]);
        let mut ranked: Vec<(u64, u32)> = touched
            .drain(..)
            .map(|product| (key(product, std::mem::take(&mut sums[product as usize]) as f32), product))
            .collect();
        if ranked.len() > MAX_HITS {
            ranked.select_nth_unstable_by(MAX_HITS - 1, |a, b| b.cmp(a));
            ranked.truncate(MAX_HITS);
        }
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().map(|(key, product)| (product, f32::from_bits((key >> 32) as u32))).collect()
    }
}

/// A text's length as Lucene stores it in one byte: exactly up to 24, and with the four highest bits of the rest above.
fn stored_length(length: u32) -> u32 {
    const EXACT: u32 = 24;
    let Some(rest) = length.checked_sub(EXACT) else { return length };
    let dropped = rest.checked_ilog2().unwrap_or(0).saturating_sub(3);
    EXACT + (rest >> dropped << dropped)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_are_stored_with_four_bits() {
        for (length, stored) in [(0, 0), (23, 23), (24, 24), (39, 39), (40, 40), (41, 40), (42, 42), (56, 56), (59, 56)]
        {
            assert_eq!(stored_length(length), stored, "{length}");
        }
        assert_eq!(stored_length(1000), 984);
    }

    /// Texts, queries and rankings that another program computed: `search.json`, written by the script beside it.
    #[test]
    fn rankings_are_those_of_the_formula_in_another_language() {
        let golden = include_str!("../../tests/golden/webshop/search.json");
        let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
        let list = |key: &str| -> Vec<String> { serde_json::from_value(golden[key].clone()).unwrap() };
        let (texts, names) = (list("texts"), list("names"));
        let index = Index::new(texts, names.iter().map(String::as_str));
        let queries = golden["queries"].as_array().unwrap();
        assert_eq!(queries.len(), 40);
        for query in queries {
            let hits = index.search(query["query"].as_str().unwrap());
            let expected: Vec<(String, f64)> = serde_json::from_value(query["hits"].clone()).unwrap();
            let found: Vec<String> = hits.iter().map(|(product, _)| names[*product as usize].clone()).collect();
            assert_eq!(found, expected.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), "{query}");
            for ((_, score), (_, expected)) in hits.iter().zip(&expected) {
                assert!((f64::from(*score) - expected).abs() < 2e-5, "{query}: {score} {expected}");
            }
        }
    }

    /// The formula, product by product, in 64-bit floats.
    fn brute_force(texts: &[String], query: &str) -> Vec<f64> {
        let all: Vec<Vec<String>> = texts.iter().map(|text| analyser::terms(text).collect()).collect();
        let filled = all.iter().filter(|terms| !terms.is_empty()).count() as f64;
        let average = all.iter().map(Vec::len).sum::<usize>() as f64 / filled;
        let wanted: Vec<(String, f64)> = analyser::terms(query)
            .map(|term| {
                let holders = all.iter().filter(|terms| terms.contains(&term)).count() as f64;
                (term, (1.0 + (filled - holders + 0.5) / (holders + 0.5)).ln())
            })
            .collect();
        let score = |terms: &Vec<String>| {
            let length = f64::from(stored_length(terms.len() as u32));
            let of_term = |(term, idf): &(String, f64)| {
                let frequency = terms.iter().filter(|other| *other == term).count() as f64;
                idf * frequency / (frequency + 0.9 * (0.6 + 0.4 * length / average))
            };
            wanted.iter().map(of_term).sum()
        };
        all.iter().map(score).collect()
    }

    proptest! {
        #[test]
        fn the_index_finds_what_the_formula_says(
            texts in prop::collection::vec(prop::collection::vec(0..30_u8, 0..40), 1..80),
            query in prop::collection::vec(0..32_u8, 0..6),
        ) {
            let sentence = |words: &Vec<u8>| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
            let texts: Vec<String> = texts.iter().map(sentence).collect();
            let query = sentence(&query);
            let names: Vec<String> = (0..texts.len()).map(|i| format!("{:03}", (i * 37) % 1000)).collect();
            let index = Index::new(texts.clone(), names.iter().map(String::as_str));
            let scores = brute_force(&texts, &query);
            let hits = index.search(&query);
            let matching = scores.iter().filter(|score| **score > 0.0).count();
            prop_assert_eq!(hits.len(), matching.min(MAX_HITS));
            for (product, score) in &hits {
                prop_assert!((f64::from(*score) - scores[*product as usize]).abs() < 1e-4);
            }
            for pair in hits.windows(2) {
                let name = |hit: &(u32, f32)| &names[hit.0 as usize];
                prop_assert!(pair[0].1 > pair[1].1 || pair[0].1 == pair[1].1 && name(&pair[0]) < name(&pair[1]));
            }
            // Nothing better was left out.
            if let Some((_, worst)) = hits.last() {
                for (product, score) in scores.iter().enumerate() {
                    let found = hits.iter().any(|hit| hit.0 == product as u32);
                    prop_assert!(found || *score <= f64::from(*worst) + 1e-4);
                }
            }
            // The sums were left at zero.
            prop_assert_eq!(index.search(&query), hits);
        }
    }
}
