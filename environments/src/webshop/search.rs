//! The search engine: an inverted index in flat arrays, ranked as Lucene's `BM25Similarity` ranks with Anserini's
//! parameters, in its arithmetic of 32-bit floats, so that equal catalogues give equal lists.

use std::cell::RefCell;
use std::ops::Range;

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
    /// The postings: products in rising order, and how much the term says about each: its frequency there, times what makes
    /// long texts count less.
    products: Vec<u32>,
    strengths: Vec<f32>,
    /// The largest strength of each term.
    peaks: Vec<f32>,
    /// Per product, its place in the order of the names that break ties.
    ties: Vec<u32>,
    /// How many products have any term.
    filled: u32,
}

/// A term of a query.
struct Wanted {
    postings: Range<usize>,
    /// Its rarity, times how often it is asked for.
    weight: f32,
    /// The most that it can add to a score.
    most: f32,
}

/// What a search works on; empty, and all sums zero, between two searches.
#[derive(Default)]
struct Scratch {
    /// Per product, the sum of its scores so far.
    sums: Vec<f64>,
    /// The products whose sums are not zero.
    touched: Vec<u32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// What rounding may take from a score, and more: a score is a 32-bit float.
const ROUNDING: f64 = 1.0 - 1e-6;

/// Among how many products the best are looked for while terms are added up.
const LOOKED_AT: usize = 4096;

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
        let length_factors: Vec<f32> = lengths.into_iter().map(factor).collect();
        let strengths: Vec<f32> = counted
            .iter()
            .map(|(_, product, frequency)| f32::from(*frequency) * length_factors[*product as usize])
            .collect();
        let peak = |range: &[u32]| strengths[range[0] as usize..range[1] as usize].iter().copied().fold(0.0, f32::max);
        Self {
            peaks: starts.windows(2).map(peak).collect(),
            terms,
            starts,
            products: counted.iter().map(|(_, product, _)| *product).collect(),
            strengths,
            ties,
            filled: filled as u32,
        }
    }

    /// The best products for a query, best first, with their scores.
    ///
    /// Terms that say most come first. They are added up over all their products, until the others together cannot bring a
    /// product that has none of them among the best; from there on the others are looked up for the products that may still
    /// be among the best. Those that are left are summed once more in the order of the terms' numbers, so that no score
    /// depends on what was left out.
    pub(super) fn search(&self, query: &str) -> Vec<(u32, f32)> {
        let mut terms: Vec<u32> = analyser::terms(query).filter_map(|term| self.terms.get(&term).copied()).collect();
        terms.sort_unstable();
        let wanted: Vec<Wanted> = terms.chunk_by(|a, b| a == b).map(|same| self.wanted(same[0], same.len())).collect();
        let mut by_most: Vec<&Wanted> = wanted.iter().collect();
        by_most.sort_by(|a, b| b.most.total_cmp(&a.most));
        // What the terms from each on can give together.
        let mut rest = vec![0.0; by_most.len() + 1];
        for (place, term) in by_most.iter().enumerate().rev() {
            rest[place] = rest[place + 1] + f64::from(term.most);
        }
        let (mut candidates, added) = self.add_up(&by_most, &rest);
        for (term, rest) in by_most[added..].iter().zip(&rest[added + 1..]) {
            self.look_up(term, &mut candidates);
            keep_possible(&mut candidates, *rest);
        }
        for (_, sum) in &mut candidates {
            *sum = 0.0;
        }
        for term in &wanted {
            self.look_up(term, &mut candidates);
        }
        self.best(candidates)
    }

    /// Adds up the first terms over all their products: how many terms, and the sums of the products that may be among the
    /// best, in the order of products.
    fn add_up(&self, terms: &[&Wanted], rest: &[f64]) -> (Vec<(u32, f64)>, usize) {
        SCRATCH.with_borrow_mut(|Scratch { sums, touched }| {
            if sums.len() < self.ties.len() {
                sums.resize(self.ties.len(), 0.0);
            }
            let mut added = 0;
            for term in terms {
                let postings = self.products[term.postings.clone()].iter().zip(&self.strengths[term.postings.clone()]);
                for (product, strength) in postings {
                    let sum = &mut sums[*product as usize];
                    if *sum == 0.0 {
                        touched.push(*product);
                    }
                    *sum += f64::from(term.score(*strength));
                }
                added += 1;
                // The first that were touched have the terms that say most.
                let first = &touched[..touched.len().min(LOOKED_AT)];
                if rest[added] < worst_of_best(first.iter().map(|product| sums[*product as usize])) {
                    break;
                }
            }
            let taken = touched.drain(..).map(|product| (product, std::mem::take(&mut sums[product as usize])));
            let mut candidates = taken.collect();
            keep_possible(&mut candidates, rest[added]);
            candidates.sort_unstable_by_key(|(product, _)| *product);
            (candidates, added)
        })
    }

    /// A term that is asked for so many times.
    fn wanted(&self, term: u32, times: usize) -> Wanted {
        let term = term as usize;
        let postings = self.starts[term] as usize..self.starts[term + 1] as usize;
        let weight = times as f32 * self.rarity(postings.len());
        let most = score(weight, self.peaks[term]);
        Wanted { postings, weight, most }
    }

    /// Adds a term's scores to the sums of products, which are in rising order.
    fn look_up(&self, term: &Wanted, candidates: &mut [(u32, f64)]) {
        let mut products = &self.products[term.postings.clone()];
        let mut strengths = &self.strengths[term.postings.clone()];
        for (product, sum) in candidates {
            // In steps that double, since the next one is mostly near.
            let mut step = 1;
            while step < products.len() && products[step] < *product {
                step *= 2;
            }
            let start = step / 2;
            let within = &products[start..products.len().min(step + 1)];
            let place = start + within.partition_point(|other| other < product);
            (products, strengths) = (&products[place..], &strengths[place..]);
            if products.first() == Some(product) {
                *sum += f64::from(term.score(strengths[0]));
            }
        }
    }

    /// Lucene's idf.
    fn rarity(&self, holders: usize) -> f32 {
        let (all, holders) = (f64::from(self.filled), holders as f64);
        (1.0 + (all - holders + 0.5) / (holders + 0.5)).ln() as f32
    }

    /// The products with the highest sums, best first.
    fn best(&self, candidates: Vec<(u32, f64)>) -> Vec<(u32, f32)> {
        // Scores are positive, so their bits are in their order; the name's place counts backwards.
        let key = |product: u32, score: f32| u64::from(score.to_bits()) << 32 | u64::from(!self.ties[product as usize]);
        let mut ranked: Vec<(u64, u32)> =
            candidates.into_iter().map(|(product, sum)| (key(product, sum as f32), product)).collect();
        if ranked.len() > MAX_HITS {
            ranked.select_nth_unstable_by(MAX_HITS - 1, |a, b| b.cmp(a));
            ranked.truncate(MAX_HITS);
        }
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().map(|(key, product)| (product, f32::from_bits((key >> 32) as u32))).collect()
    }
}

impl Wanted {
    fn score(&self, strength: f32) -> f32 {
        score(self.weight, strength)
    }
}

/// What a term gives to a product's score; it rises with the strength.
fn score(weight: f32, strength: f32) -> f32 {
    weight - weight / (1.0 + strength)
}

/// Leaves out what cannot be among the best any more, where all terms that are left give `rest` at most.
fn keep_possible(candidates: &mut Vec<(u32, f64)>, rest: f64) {
    let worst = worst_of_best(candidates.iter().map(|(_, sum)| *sum));
    candidates.retain(|(_, sum)| sum + rest >= worst);
}

/// The lowest of the best sums, and a little less for what rounding takes; 0 where there are too few.
fn worst_of_best(sums: impl ExactSizeIterator<Item = f64>) -> f64 {
    if sums.len() < MAX_HITS {
        return 0.0;
    }
    let mut sums: Vec<f64> = sums.collect();
    *sums.select_nth_unstable_by(MAX_HITS - 1, |a, b| b.total_cmp(a)).1 * ROUNDING
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

    /// The ranking with every product looked at.
    fn exhaustive(index: &Index, query: &str) -> Vec<(u32, f32)> {
        let mut terms: Vec<u32> = analyser::terms(query).filter_map(|term| index.terms.get(&term).copied()).collect();
        terms.sort_unstable();
        let mut products: Vec<(u32, f64)> = (0..index.ties.len() as u32).map(|product| (product, 0.0)).collect();
        for same in terms.chunk_by(|a, b| a == b) {
            index.look_up(&index.wanted(same[0], same.len()), &mut products);
        }
        products.retain(|(_, sum)| *sum > 0.0);
        index.best(products)
    }

    /// Words of which some are in most texts and some in few.
    fn words(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec((0..12_u8, 0..12_u8).prop_map(|(a, b)| a * b), count)
    }

    proptest! {
        #[test]
        fn what_is_left_out_changes_nothing(
            texts in prop::collection::vec(words(1..30), 100..300),
            queries in prop::collection::vec(words(1..8), 1..10),
        ) {
            let sentence = |words: &Vec<u8>| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ");
            let names: Vec<String> = (0..texts.len()).map(|i| format!("{:03}", (i * 37) % 1000)).collect();
            let index = Index::new(texts.iter().map(sentence), names.iter().map(String::as_str));
            for query in &queries {
                let query = sentence(query);
                prop_assert_eq!(index.search(&query), exhaustive(&index, &query));
            }
        }

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
