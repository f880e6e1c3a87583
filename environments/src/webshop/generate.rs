//! A catalogue that a generator makes up, in the form of WebShop's files, for a shop without them.
//!
//! Every goal over it can be reached, under both ways of matching options; a split takes only goals of which that was
//! checked.

mod vocabulary;

use std::collections::{BTreeMap, HashSet};

use accredit_core::rng::{Purpose, Stream};
use serde_json::{Map, Value, json};

use super::catalogue::{Annotation, Catalogue, Product, Record};
use vocabulary::{Kind, Vocabulary};

/// How many products there are if no setting says.
pub(super) const USUAL_PRODUCTS: usize = 2000;

/// How many brands there are.
const BRANDS: usize = 160;

/// Makes up products, and instructions for half of them.
pub(super) fn catalogue(products: usize, seed: u64) -> Result<Catalogue, String> {
    let (records, annotations) = records(products, seed)?;
    let products = records.into_iter().map(Record::product).collect::<Result<Vec<Product>, String>>()?;
    Catalogue::new(products, annotations, None, BTreeMap::new())
}

type Records = (Vec<Record>, BTreeMap<String, Annotation>);

fn records(products: usize, seed: u64) -> Result<Records, String> {
    let vocabulary = Vocabulary::read()?;
    let stream = Stream::new(seed, Purpose::Environment);
    let (mut records, mut annotations) = (Vec::with_capacity(products), BTreeMap::new());
    let (mut names, mut titles) = (HashSet::new(), HashSet::new());
    let mut attempt = 0;
    while records.len() < products {
        let mut draw = Draw { vocabulary: &vocabulary, stream: stream.with(attempt), position: 0 };
        attempt += 1;
        let (record, annotation) = draw.product(stream)?;
        // A name that was drawn before is drawn again; there are billions of them.
        if titles.insert(record.name.clone()) && names.insert(record.asin.clone()) {
            annotations.insert(record.asin.clone(), annotation);
            records.push(record);
        }
    }
    Ok((records, annotations))
}

/// Draws one after the other.
struct Draw<'a> {
    vocabulary: &'a Vocabulary,
    stream: Stream,
    position: u64,
}

impl<'a> Draw<'a> {
    fn below(&mut self, n: usize) -> usize {
        self.position += 1;
        self.stream.below(self.position, n as u64) as usize
    }

    fn one<'b>(&mut self, items: &[&'b str]) -> &'b str {
        items[self.below(items.len())]
    }

    /// `from..=to` items, in their order.
    fn some<'b>(&mut self, items: &'b [impl AsRef<str>], from: usize, to: usize) -> Vec<&'b str> {
        let count = from + self.below(to - from + 1);
        self.position += 1;
        let mut places: Vec<usize> = (0..items.len()).collect();
        self.stream.with(self.position).shuffle(&mut places);
        places.truncate(count);
        places.sort_unstable();
        places.into_iter().map(|place| items[place].as_ref()).collect()
    }

    fn product(&mut self, root: Stream) -> Result<(Record, Annotation), String> {
        let kind = &self.vocabulary.kinds[self.below(self.vocabulary.kinds.len())];
        let brand = u64::MAX - self.below(BRANDS) as u64;
        let brand = Draw { vocabulary: self.vocabulary, stream: root.with(brand), position: 0 }.name();
        let model = self.name();
        let attributes = self.vocabulary.attributes(kind)?;
        let before = self.some(&attributes.before, 2, 4);
        let with = self.some(&attributes.with, 1, 3);
        let uses = self.some(&attributes.uses, 1, 2);
        let record = Record {
            asin: self.asin(),
            name: Some(self.title(&format!("{brand} {model}"), kind, &before, &with, &uses)),
            full_description: Some(self.description(kind, &before, &with, &uses)),
            small_description: json!(self.bullets(kind, &before, &with, &uses)),
            pricing: Some(self.price(kind)),
            customization_options: self.options(kind)?,
            category: kind.category.clone(),
            query: kind.query.clone(),
            product_category: kind.path.clone(),
        };
        let owned = |lists: [&[&str]; 3]| Some(lists.concat().into_iter().map(str::to_owned).collect());
        let mut annotation = Annotation { attributes: owned([&before, &with, &uses]), ..Annotation::default() };
        if self.below(2) == 0 {
            let (before, with) = (self.some(&before, 1, 2), self.some(&with, 1, 2));
            let uses = self.some(&uses, 0, 1);
            let purpose = uses.first().map(|purpose| format!(" for {purpose}")).unwrap_or_default();
            let (wanted, having) = (before.join(", "), with.join(", "));
            annotation.instruction = Some(format!("Find me {wanted} {} with {having}{purpose}", kind.query));
            annotation.instruction_attributes = owned([&before, &with, &uses]);
        }
        Ok((record, annotation))
    }

    /// A made-up name of two or three syllables.
    fn name(&mut self) -> String {
        let syllables: &'a [String] = &self.vocabulary.syllables;
        let count = 2 + self.below(2);
        capital(&(0..count).map(|_| syllables[self.below(syllables.len())].as_str()).collect::<String>())
    }

    fn asin(&mut self) -> String {
        const LETTERS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let letters = (0..8).map(|_| char::from(LETTERS[self.below(LETTERS.len())]));
        "B0".chars().chain(letters).collect()
    }

    fn title(&mut self, name: &str, kind: &Kind, before: &[&str], with: &[&str], uses: &[&str]) -> String {
        let [before, with, purpose] = [before, with, uses].map(|words| words_capital(self.one(words)));
        let noun = &kind.noun;
        match self.below(3) {
            0 => format!("{name} {before} {noun} with {with} for {purpose}"),
            1 => format!("{name} {noun} for {purpose}, {before}, {with}"),
            _ => format!("{name} {before} {noun}, {with} {}", words_capital(&kind.query)),
        }
    }

    fn praise(&mut self, kind: &Kind, from: usize, to: usize) -> String {
        let sentences = self.some(&self.vocabulary.praise, from, to).join(" ");
        sentences.replace("{noun}", &kind.noun.to_lowercase())
    }

    fn description(&mut self, kind: &Kind, before: &[&str], with: &[&str], uses: &[&str]) -> String {
        // Real shops have products without one.
        if self.below(8) == 0 {
            return String::new();
        }
        let (noun, praise) = (kind.noun.to_lowercase(), self.praise(kind, 1, 3));
        format!("Our {noun} is {}. It comes with {} and suits {}. {praise}", list(before), list(with), list(uses))
    }

    fn bullets(&mut self, kind: &Kind, before: &[&str], with: &[&str], uses: &[&str]) -> [String; 4] {
        let noun = kind.noun.to_lowercase();
        [
            format!("{}: {} ", self.one(&["FEATURES", "WHAT YOU GET", "QUALITY"]), capital(&list(with))),
            format!("{}: this {noun} is {} ", self.one(&["MADE TO LAST", "CARE", "DETAILS"]), list(before)),
            format!("{}: {} ", self.one(&["OCCASIONS", "IDEAL FOR", "USE IT FOR"]), list(uses)),
            format!("{} ", self.praise(kind, 1, 1)),
        ]
    }

    fn price(&mut self, kind: &Kind) -> String {
        let (low, high) = kind.price;
        let cents = self.one(&["99", "95", "50", "49"]);
        let price = low + self.below(high - low);
        match self.below(3) {
            0 => format!("${price}.{cents} - ${}.{cents}", price + 1 + self.below(1 + price / 3)),
            _ => format!("${price}.{cents}"),
        }
    }

    fn options(&mut self, kind: &Kind) -> Result<Value, String> {
        if self.below(5) == 0 {
            return Ok(json!(""));
        }
        let mut options = Map::new();
        for choice in self.vocabulary.options(kind)? {
            let values = self.some(&choice.values, 2, 5).into_iter().map(|value| json!({ "value": value }));
            options.insert(choice.name.clone(), values.collect());
        }
        Ok(Value::Object(options))
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
        let (records, _) = records(3000, 4).unwrap();
        let titles: HashSet<_> = records.iter().map(|record| &record.name).collect();
        let names: HashSet<_> = records.iter().map(|record| &record.asin).collect();
        assert_eq!((titles.len(), names.len()), (3000, 3000));
        assert!(names.iter().all(|name| name.len() == 10));
        // All kinds are there, and a smaller shop is the beginning of a larger one.
        let kinds: HashSet<_> = records.iter().map(|record| &record.query).collect();
        assert_eq!(kinds.len(), Vocabulary::read().unwrap().kinds.len());
        let fewer = super::records(10, 4).unwrap().0;
        assert!(fewer.iter().zip(&records).all(|(few, many)| few.asin == many.asin && few.name == many.name));
        assert_ne!(super::records(10, 5).unwrap().0[0].name, records[0].name);
    }

    #[test]
    fn written_as_files_the_catalogue_is_read_back() {
        let (records, annotations) = records(50, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("items_shuffle.json"), serde_json::to_string(&records).unwrap()).unwrap();
        fs::write(folder.path().join("items_ins_v2.json"), serde_json::to_string(&annotations).unwrap()).unwrap();
        let (made, read) = (catalogue(50, 1).unwrap(), files::load(folder.path(), 40).unwrap());
        assert_eq!(read.products, made.products[..40]);
        let instructions = made.instructions.into_iter().filter(|(product, _)| *product < 40);
        assert_eq!(read.instructions, instructions.collect());
    }
}
