//! A catalogue from a folder with WebShop's files.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::BufReader;
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, SeqAccess, Visitor};

use super::catalogue::{Annotation, Catalogue, HumanInstruction, Product, Record};
use crate::data;

/// Products and what is said about them: the whole set, and the small one.
const PAIRS: [(&str, &str); 2] =
    [("items_shuffle.json", "items_ins_v2.json"), ("items_shuffle_1000.json", "items_ins_v2_1000.json")];
pub(super) const HUMAN: &str = "items_human_ins.json";
/// The nouns of titles by product, where somebody has computed them.
const NOUNS: &str = "items_nouns.json";
pub(super) const HINT: &str = "WebShop's `setup.sh -d small` and `setup.sh -d all` (github.com/princeton-nlp/WebShop) fetch the \
                    files; without `data` the shop has generated products";

/// Reads the folder's catalogue, at most `limit` records of it.
pub(super) fn load(folder: &Path, limit: usize) -> Result<Catalogue, String> {
    let [whole, small] = PAIRS;
    data::check_folder(folder, HINT)?;
    let found = PAIRS.into_iter().find(|(products, _)| data::is_there(&folder.join(products)));
    let (products, annotations) = found
        .ok_or_else(|| format!("there is neither `{}` nor `{}` in {}; {HINT}", whole.0, small.0, folder.display()))?;
    let (products_file, annotations_file) = (folder.join(products), folder.join(annotations));
    let products: Vec<Product> = read(&products_file, Products(limit), "a list of products")?;
    let annotations: BTreeMap<String, Annotation> =
        read_map(&annotations_file, "an object of objects with `attributes` by product")?;
    let human = folder.join(HUMAN);
    let human: Option<BTreeMap<String, Vec<HumanInstruction>>> = data::is_there(&human)
        .then(|| read_map(&human, "an object of lists of instructions by product"))
        .transpose()?;
    let nouns = folder.join(NOUNS);
    let nouns =
        data::is_there(&nouns).then(|| read_map(&nouns, "an object of lists of words by product")).transpose()?;
    if products.is_empty() {
        return Err(format!("{} holds no product; {HINT}", products_file.display()));
    }
    Catalogue::new(products, annotations, human, nouns.unwrap_or_default())
        .map_err(|problem| format!("{}: {problem}; {HINT}", annotations_file.display()))
}

fn read_map<T: DeserializeOwned>(path: &Path, expected: &str) -> Result<BTreeMap<String, T>, String> {
    read(path, std::marker::PhantomData, expected)
}

fn read<'de, S: DeserializeSeed<'de>>(path: &Path, seed: S, expected: &str) -> Result<S::Value, String> {
    let file = data::open(path, HINT)?;
    let mut text = serde_json::Deserializer::from_reader(BufReader::new(file));
    let mut track = serde_path_to_error::Track::new();
    let read = seed.deserialize(serde_path_to_error::Deserializer::new(&mut text, &mut track));
    read.and_then(|value| text.end().map(|()| value)).map_err(|error| {
        let place = track.path().to_string();
        let place = if place == "." { String::new() } else { format!(", at `{place}`") };
        let cut = if error.is_eof() { " (is the file cut?)" } else { "" };
        format!("{}{place}: {error}{cut}; expected {expected}; {HINT}", path.display())
    })
}

/// Reads a list of records into products, so that no record is kept. Reads so many records at most.
struct Products(usize);

impl<'de> DeserializeSeed<'de> for Products {
    type Value = Vec<Product>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Products {
    type Value = Vec<Product>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of products")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut records: A) -> Result<Self::Value, A::Error> {
        let (mut products, mut names) = (Vec::new(), HashSet::new());
        let mut read = 0;
        while read < self.0
            && let Some(record) = records.next_element::<Record>()?
        {
            read += 1;
            if !record.is_nameless() && names.insert(record.asin.clone()) {
                products.push(record.product().map_err(A::Error::custom)?);
            }
        }
        while records.next_element::<IgnoredAny>()?.is_some() {}
        Ok(products)
    }
}
