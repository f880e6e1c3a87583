//! A catalogue that a generator makes up, in the form of WebShop's files, for a shop without them.
//!
//! Every goal over it can be reached, under both ways of matching options; a split takes only goals of which that was
//! checked.

mod vocabulary;

use std::collections::{BTreeMap, HashSet};

use accredit_core::rng::{Purpose, Stream};
use serde_json::{Map, Value, json};

use super::catalogue::{Annotation, Catalogue, Product, Record};
use vocabulary::{DEPARTMENTS, Department, Kind, PRAISE, SYLLABLES};

/// How many products there are if no setting says.
pub(super) const USUAL_PRODUCTS: usize = 2000;

/// How many brands there are.
const BRANDS: usize = 160;

/// Makes up products, and instructions for half of them.
pub(super) fn catalogue(products: usize, seed: u64) -> Result<Catalogue, String> {
    let (records, annotations) = records(products, seed);
    let products = records.into_iter().map(Record::product).collect::<Result<Vec<Product>, String>>()?;
    Catalogue::new(products, annotations, None, BTreeMap::new())
}

fn records(products: usize, seed: u64) -> (Vec<Record>, BTreeMap<String, Annotation>) {
    let stream = Stream::new(seed, Purpose::Environment);
    let (mut records, mut annotations) = (Vec::with_capacity(products), BTreeMap::new());
    let (mut names, mut titles) = (HashSet::new(), HashSet::new());
    let mut attempt = 0;
    while records.len() < products {
        let mut draw = Draw { stream: stream.with(attempt), position: 0 };
        attempt += 1;
        let (record, annotation) = draw.product(stream);
        // A name that was drawn before is drawn again; there are billions of them.
        if titles.insert(record.name.clone()) && names.insert(record.asin.clone()) {
            annotations.insert(record.asin.clone(), annotation);
            records.push(record);
        }
    }
    (records, annotations)
}

/// Draws one after the other.
struct Draw {
    stream: Stream,
    position: u64,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.position += 1;
        self.stream.below(self.position, n as u64) as usize
    }

    fn one<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// `from..=to` items, in their order.
    fn some<'a>(&mut self, items: &[&'a str], from: usize, to: usize) -> Vec<&'a str> {
        let count = (from + self.below(to - from + 1)).min(items.len());
        self.position += 1;
        let mut places: Vec<usize> = (0..items.len()).collect();
        self.stream.with(self.position).shuffle(&mut places);
        places.truncate(count);
        places.sort_unstable();
        places.into_iter().map(|place| items[place]).collect()
    }

    fn product(&mut self, root: Stream) -> (Record, Annotation) {
        let department: &Department = &DEPARTMENTS[self.below(DEPARTMENTS.len())];
        let kind: &Kind = &department.kinds[self.below(department.kinds.len())];
        let brand = u64::MAX - self.below(BRANDS) as u64;
        let brand = Draw { stream: root.with(brand), position: 0 }.name();
        let model = self.name();
        let before = self.some(kind.before, 2, 4);
        let with = self.some(kind.with, 1, 3);
        let uses = self.some(kind.uses, 1, 2);
        let title = self.title(&format!("{brand} {model}"), kind, &before, &with, uses[0]);
        let record = Record {
            asin: self.asin(),
            name: Some(title),
            full_description: Some(self.description(kind, &before, &with, &uses)),
            small_description: json!(self.bullets(kind, &before, &with, &uses)),
            pricing: Some(self.price(kind)),
            customization_options: self.options(kind),
            category: department.category.to_owned(),
            query: kind.query.to_owned(),
            product_category: kind.path.to_owned(),
        };
        let attributes = [&before[..], &with[..], &uses[..]].concat();
        let mut annotation = Annotation {
            attributes: Some(attributes.into_iter().map(str::to_owned).collect()),
            ..Annotation::default()
        };
        if self.below(2) == 0 {
            let (before, with) = (self.some(&before, 1, 2), self.some(&with, 1, 2));
            let uses = self.some(&uses, 0, 1);
            let purpose = uses.first().map(|what| format!(" for {what}")).unwrap_or_default();
            annotation.instruction =
                Some(format!("Find me {} {} with {}{purpose}", before.join(", "), kind.query, with.join(", ")));
            let wanted = [&before[..], &with[..], &uses[..]].concat();
            annotation.instruction_attributes = Some(wanted.into_iter().map(str::to_owned).collect());
        }
        (record, annotation)
    }

    /// A made-up name of two or three syllables.
    fn name(&mut self) -> String {
        let syllables = 2 + self.below(2);
        let name: String = (0..syllables).map(|_| self.one(SYLLABLES)).collect();
        capital(&name)
    }

    fn asin(&mut self) -> String {
        const LETTERS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let letters = (0..8).map(|_| char::from(LETTERS[self.below(LETTERS.len())]));
        "B0".chars().chain(letters).collect()
    }

    fn title(&mut self, name: &str, kind: &Kind, before: &[&str], with: &[&str], purpose: &str) -> String {
        let before = words_capital(self.one(before));
        let with = words_capital(self.one(with));
        match self.below(3) {
            0 => format!("{name} {before} {} with {with} for {}", kind.noun, words_capital(purpose)),
            1 => format!("{name} {} for {}, {before}, {with}", kind.noun, words_capital(purpose)),
            _ => format!("{name} {before} {}, {with} {}", kind.noun, words_capital(kind.query)),
        }
    }

    fn description(&mut self, kind: &Kind, before: &[&str], with: &[&str], uses: &[&str]) -> String {
        // Real shops have products without one.
        if self.below(8) == 0 {
            return String::new();
        }
        let noun = kind.noun.to_lowercase();
        let praise = self.some(PRAISE, 1, 3).join(" ").replace("{noun}", &noun);
        format!("Our {noun} is {}. It comes with {} and suits {}. {praise}", list(before), list(with), list(uses))
    }

    fn bullets(&mut self, kind: &Kind, before: &[&str], with: &[&str], uses: &[&str]) -> Vec<String> {
        let noun = kind.noun.to_lowercase();
        let last = self.one(PRAISE).replace("{noun}", &noun);
        vec![
            format!("{}: {} ", self.one(&["FEATURES", "WHAT YOU GET", "QUALITY"]), capital(&list(with))),
            format!("{}: this {noun} is {} ", self.one(&["MADE TO LAST", "CARE", "DETAILS"]), list(before)),
            format!("{}: {} ", self.one(&["OCCASIONS", "IDEAL FOR", "USE IT FOR"]), list(uses)),
            format!("{last} "),
        ]
    }

    fn price(&mut self, kind: &Kind) -> String {
        let (low, high) = kind.price;
        let cents = self.one(&["99", "95", "50", "49"]);
        let price = low + self.below((high - low) as usize) as u64;
        match self.below(3) {
            0 => format!("${price}.{cents} - ${}.{cents}", price + 1 + self.below(1 + price as usize / 3) as u64),
            _ => format!("${price}.{cents}"),
        }
    }

    fn options(&mut self, kind: &Kind) -> Value {
        let mut options = Map::new();
        if self.below(5) == 0 {
            return json!("");
        }
        for (name, values) in kind.options {
            let values = self.some(values, 2, 5).into_iter().map(|value| json!({ "value": value }));
            options.insert((*name).to_owned(), values.collect());
        }
        Value::Object(options)
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn words_capital(text: &str) -> String {
    text.split(' ').map(capital).collect::<Vec<_>>().join(" ")
}

/// `a`, `a and b`, `a, b and c`.
fn list(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::webshop::files;
    use crate::webshop::reward::OptionMatching;
    use crate::webshop::shop::{Shop, Source};

    #[test]
    fn every_goal_can_be_reached_whatever_the_seed() {
        for catalogue_seed in 0..3 {
            let source = Source {
                data: String::new(),
                products: 500,
                catalogue_seed,
                human: false,
                price_seed: catalogue_seed,
                shuffle_seed: 233,
            };
            let shop = Shop::find(&source).unwrap();
            assert!(shop.goals.all.len() > 1000, "{}", shop.goals.all.len());
            for matching in [OptionMatching::Original, OptionMatching::Corrected] {
                let reachable = shop.reachable(matching);
                let lost = reachable.iter().position(|reachable| !reachable);
                let lost = lost.map(|goal| shop.goals.text(&shop.catalogue, shop.goals.all[goal]));
                assert_eq!(lost, None, "{matching:?}");
            }
        }
    }

    #[test]
    fn names_and_titles_are_of_one_product_only() {
        let (records, _) = records(3000, 4);
        let titles: HashSet<_> = records.iter().map(|record| &record.name).collect();
        let names: HashSet<_> = records.iter().map(|record| &record.asin).collect();
        assert_eq!((titles.len(), names.len()), (3000, 3000));
        assert!(names.iter().all(|name| name.len() == 10));
        // All departments are there, and a smaller shop is the beginning of a larger one.
        assert_eq!(records.iter().map(|record| &record.category).collect::<HashSet<_>>().len(), DEPARTMENTS.len());
        let fewer = super::records(10, 4).0;
        assert!(fewer.iter().zip(&records).all(|(few, many)| few.asin == many.asin && few.name == many.name));
        assert_ne!(super::records(10, 5).0[0].name, records[0].name);
    }

    #[test]
    fn written_as_files_the_catalogue_is_read_back() {
        let (records, annotations) = records(50, 1);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("items_shuffle.json"), serde_json::to_string(&records).unwrap()).unwrap();
        fs::write(folder.path().join("items_ins_v2.json"), serde_json::to_string(&annotations).unwrap()).unwrap();
        let (made, read) = (catalogue(50, 1).unwrap(), files::load(folder.path(), 40).unwrap());
        assert_eq!(read.products, made.products[..40]);
        let instructions = made.instructions.into_iter().filter(|(product, _)| *product < 40);
        assert_eq!(read.instructions, instructions.collect());
    }
}
