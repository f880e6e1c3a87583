//! Products: how a record of WebShop's files becomes one, and the catalogue of all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A product as `items_shuffle.json` has it; keys that the shop does not use are skipped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) asin: String,
    pub(super) name: Option<String>,
    pub(super) full_description: Option<String>,
    /// A list of texts, or a text.
    pub(super) small_description: Value,
    pub(super) pricing: Option<String>,
    /// Lists of objects with a `value` by the option's name; an empty text where there are no options.
    pub(super) customization_options: Value,
    pub(super) category: String,
    pub(super) query: String,
    pub(super) product_category: String,
}

/// What `items_ins_v2.json` says about a product.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Annotation {
    pub(super) attributes: Option<Vec<String>>,
    pub(super) instruction: Option<String>,
    pub(super) instruction_attributes: Option<Vec<String>>,
}

/// An instruction that a person wrote, as in `items_human_ins.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HumanInstruction {
    pub(super) instruction: String,
    pub(super) instruction_attributes: Vec<String>,
    pub(super) instruction_options: Vec<String>,
}

/// What is for sale.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Product {
    pub(super) asin: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) bullets: Vec<String>,
    pub(super) category: String,
    pub(super) query: String,
    pub(super) product_category: String,
    /// The price, or the ends of its range.
    pub(super) prices: (f64, Option<f64>),
    pub(super) options: Vec<Choice>,
    pub(super) attributes: Vec<String>,
    /// The nouns of the title, where a file gives them.
    pub(super) nouns: Option<Vec<String>>,
}

/// Something to choose: a name and its values, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// Everything that is for sale, and what people may be looking for.
pub(super) struct Catalogue {
    pub(super) products: Vec<Product>,
    /// By product, the instruction that was put together from its attributes, and these attributes.
    pub(super) instructions: BTreeMap<u32, (String, Vec<String>)>,
    /// By product, what people wrote. None where the file is not there.
    pub(super) human: Option<BTreeMap<u32, Vec<HumanInstruction>>>,
}

impl Record {
    /// Whether the shop leaves a record with this name out.
    pub(super) fn is_nameless(&self) -> bool {
        self.asin == "nan" || self.asin.chars().count() > 10
    }

    /// The product; what is wrong with the record otherwise.
    pub(super) fn product(self) -> Result<Product, String> {
        let place = |problem: String| format!("product `{}`: {problem}", self.asin);
        let prices = prices(self.pricing.as_deref().unwrap_or_default()).map_err(place)?;
        let options = match &self.customization_options {
            Value::Object(options) => choices(options).map_err(place)?,
            Value::Null => Vec::new(),
            Value::String(text) if text.is_empty() => Vec::new(),
            other => {
                return Err(place(format!(
                    "`customization_options`: expected an object of lists, or an empty text, not {other}"
                )));
            }
        };
        let bullets = match self.small_description {
            Value::String(text) => vec![text],
            Value::Null => vec![String::new()],
            Value::Array(ref texts) => texts
                .iter()
                .map(|text| text.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or_else(|| place("`small_description`: expected a list of texts".to_owned()))?,
            ref other => {
                return Err(place(format!("`small_description`: expected a list of texts, or a text, not {other}")));
            }
        };
        Ok(Product {
            title: self.name.unwrap_or_default(),
            description: self.full_description.unwrap_or_default(),
            bullets,
            category: self.category,
            query: self.query.to_lowercase().trim().to_owned(),
            product_category: self.product_category,
            prices,
            options,
            attributes: vec!["DUMMY_ATTR".to_owned()],
            nouns: None,
            asin: self.asin,
        })
    }
}

impl Product {
    /// The price as pages show it: Python's text of the number.
    pub(super) fn price_tag(&self) -> String {
        match self.prices {
            (price, None) => format!("${price:?}"),
            (low, Some(high)) => format!("${low:?} to ${high:?}"),
        }
    }

    /// What the search engine reads.
    pub(super) fn indexed_text(&self) -> String {
        let options: Vec<String> =
            self.options.iter().map(|choice| format!("{}: {}", choice.name, choice.values.join(", "))).collect();
        let bullet = self.bullets.first().map_or("", String::as_str);
        [&self.title, &self.description, bullet, &options.join(", and ")].join(" ").to_lowercase()
    }
}

/// The numbers of a price text: each begins at a dollar sign and is its digits and dots. A text that is missing means
/// 100 dollars, which is WebShop's rule.
fn prices(text: &str) -> Result<(f64, Option<f64>), String> {
    if text.is_empty() {
        return Ok((100.0, None));
    }
    let mut numbers = text.split('$').skip(1).map(|piece| {
        let digits: String = piece.chars().filter(|letter| letter.is_ascii_digit() || *letter == '.').collect();
        let price = digits.parse().ok().filter(|price: &f64| price.is_finite());
        price.ok_or_else(|| format!("`pricing`: expected a price after each `$`, not {text:?}"))
    });
    let first = numbers.next().ok_or_else(|| format!("`pricing`: expected a text such as \"$12.99\", not {text:?}"))?;
    Ok((first?, numbers.next().transpose()?))
}

/// The options of a record. Names that differ only in case are one, and the later values hold.
fn choices(options: &Map<String, Value>) -> Result<Vec<Choice>, String> {
    let mut choices: Vec<Choice> = Vec::new();
    for (name, values) in options {
        let wrong = |found: &Value| {
            format!("`customization_options`, `{name}`: expected a list of objects with a text `value`, not {found}")
        };
        let values = match values {
            Value::Null => continue,
            Value::Array(values) => values
                .iter()
                .map(|value| {
                    let text = value.get("value").and_then(Value::as_str).ok_or_else(|| wrong(value))?;
                    Ok(text.trim().replace('/', " | ").to_lowercase())
                })
                .collect::<Result<Vec<_>, String>>()?,
            other => return Err(wrong(other)),
        };
        let name = name.to_lowercase();
        match choices.iter_mut().find(|choice| choice.name == name) {
            Some(choice) => choice.values = values,
            None => choices.push(Choice { name, values }),
        }
    }
    Ok(choices)
}

impl Catalogue {
    /// Puts the parts together; says what is wrong where they do not fit.
    pub(super) fn new(
        mut products: Vec<Product>,
        mut annotations: BTreeMap<String, Annotation>,
        mut human: Option<BTreeMap<String, Vec<HumanInstruction>>>,
        mut nouns: BTreeMap<String, Vec<String>>,
    ) -> Result<Self, String> {
        let mut instructions = BTreeMap::new();
        let mut written = human.as_ref().map(|_| BTreeMap::new());
        for (place, product) in products.iter_mut().enumerate() {
            product.nouns = nouns.remove(&product.asin);
            let annotation = annotations.remove(&product.asin).unwrap_or_default();
            if let Some(attributes) = annotation.attributes {
                product.attributes = attributes;
            }
            if let Some(instruction) = annotation.instruction {
                let attributes = annotation.instruction_attributes.unwrap_or_default();
                if attributes.is_empty() {
                    return Err(format!("`{}` has an `instruction` but no `instruction_attributes`", product.asin));
                }
                instructions.insert(place as u32, (instruction, attributes));
            }
            if let (Some(human), Some(written)) = (&mut human, &mut written)
                && let Some(texts) = human.remove(&product.asin)
            {
                written.insert(place as u32, texts);
            }
        }
        Ok(Self { products, instructions, human: written })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(changes: &Value) -> Record {
        let mut record = json!({
            "asin": "B000000001", "name": "A Cup", "full_description": "To drink from.", "category": "garden",
            "small_description": ["Blue or red.", "Holds tea."], "pricing": "$1,299.5", "query": " Tea Cups ",
            "product_category": "Home › Cups", "customization_options": "", "average_rating": 4.5,
        });
        for (key, value) in changes.as_object().unwrap() {
            record[key] = value.clone();
        }
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_record_becomes_a_product() {
        let options = json!({ "Color": [{ "value": " Blue/Red " }, { "value": "RED", "image": "x" }], "size": null,
            "COLOR ": [], "color": [{ "value": "gold" }] });
        let product = record(&json!({ "customization_options": options })).product().unwrap();
        let named = |name: &str, values: &[&str]| Choice {
            name: name.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        assert_eq!(product.options, [named("color", &["gold"]), named("color ", &[])]);
        assert_eq!((product.query.as_str(), product.price_tag().as_str()), ("tea cups", "$1299.5"));
        assert_eq!(product.indexed_text(), "a cup to drink from. blue or red. color: gold, and color : ");
    }

    #[test]
    fn prices_are_read_as_webshop_reads_them() {
        for (text, tag) in
            [("", "$100.0"), ("$5", "$5.0"), ("$1.50 - $2.25", "$1.5 to $2.25"), ("€ $3 $4 $5", "$3.0 to $4.0")]
        {
            assert_eq!(record(&json!({ "pricing": text })).product().unwrap().price_tag(), tag, "{text}");
        }
        for text in ["12.99", "$", "$1.2.3", "$5 to $", &format!("$1{}", "0".repeat(400))] {
            let error = record(&json!({ "pricing": text })).product().unwrap_err();
            assert!(error.starts_with("product `B000000001`: `pricing`: expected a"), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let check = |changes: Value, expected: &str| {
            let error = record(&changes).product().unwrap_err();
            assert_eq!(error, format!("product `B000000001`: {expected}"));
        };
        check(json!({ "small_description": [1] }), "`small_description`: expected a list of texts");
        check(json!({ "small_description": {} }), "`small_description`: expected a list of texts, or a text, not {}");
        check(
            json!({ "customization_options": ["x"] }),
            "`customization_options`: expected an object of lists, or an empty text, not [\"x\"]",
        );
        check(
            json!({ "customization_options": { "size": [{ "image": "" }] } }),
            "`customization_options`, `size`: expected a list of objects with a text `value`, not {\"image\":\"\"}",
        );
    }
}
