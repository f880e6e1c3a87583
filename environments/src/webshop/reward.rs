//! What a purchase is worth: WebShop's score, its quirks included.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::catalogue::Product;
use super::fuzzy::alike;
use super::goals::Wanted;
use super::titles;

/// How bought options are compared with the wanted ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OptionMatching {
    /// As the original does: of goals that were put together from options, the text of the pair of name and value is
    /// compared with the value that was bought. Only the latter is reduced to a colour that it contains, so some values
    /// never match, and goals with them cannot be reached.
    #[default]
    Original,
    /// Values with values, both reduced to the colour that they contain.
    Corrected,
}

/// The words for colours, of which the first in a value stands for all of it.
static COLOURS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel \
    camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry \
    cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green \
    grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot \
    midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple \
    rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan \
    taupe teal tiger turquoise violet walnut wheat white wine yellow"
        .split(' ')
        .collect()
});

/// A goal, as far as the score depends on it.
pub(super) struct Target<'a> {
    pub(super) product: &'a Product,
    pub(super) attributes: &'a [String],
    pub(super) options: &'a [Wanted<'a>],
    pub(super) price_upper: f64,
}

/// The score, 0 to 1, of buying a product at a price with these values of its options.
pub(super) fn score(
    target: &Target<'_>,
    product: &Product,
    price: f64,
    chosen: &[&str],
    matching: OptionMatching,
) -> f64 {
    let attributes = target.attributes.iter().filter(|attribute| has_attribute(product, attribute)).count();
    let bought: Vec<&str> = chosen.iter().map(|value| colour_in(value).unwrap_or(value)).collect();
    let is_bought = |wanted: &&Wanted<'_>| {
        let wanted = compared_text(**wanted, matching);
        bought.iter().any(|value| alike(value, &wanted))
    };
    let options = target.options.iter().filter(is_bought).count();
    let cheap = usize::from(price <= target.price_upper);
    let all = target.attributes.len() + target.options.len() + 1;
    (attributes + options + cheap) as f64 / all as f64 * type_factor(target.product, product)
}

fn has_attribute(product: &Product, attribute: &str) -> bool {
    product.attributes.iter().any(|other| alike(other, attribute))
        || product.title.to_lowercase().contains(attribute)
        || product.bullets.join(" ").to_lowercase().contains(attribute)
        || product.description.to_lowercase().contains(attribute)
}

/// The colour that stands for a value.
fn colour_in(value: &str) -> Option<&'static str> {
    COLOURS.iter().copied().find(|colour| value.contains(colour))
}

/// What bought values are compared with.
fn compared_text(wanted: Wanted<'_>, matching: OptionMatching) -> String {
    let colour = match (wanted.name, matching) {
        (Some(name), OptionMatching::Original) => {
            COLOURS.iter().copied().find(|colour| [name, wanted.value].contains(colour))
        }
        _ => colour_in(wanted.value),
    };
    match (colour, wanted.name, matching) {
        (Some(colour), ..) => colour.to_owned(),
        (None, Some(name), OptionMatching::Original) => {
            format!("({}, {})", python_text(name), python_text(wanted.value))
        }
        _ => wanted.value.to_owned(),
    }
}

/// How Python writes a text inside a tuple.
fn python_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut written = String::from(quote);
    for letter in text.chars() {
        let code = u32::from(letter);
        match letter {
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            _ if letter == quote => written.extend(['\\', letter]),
            ' '..='~' => written.push(letter),
            // What cannot be printed is the same for Rust, which writes it as `\u{..}`.
            _ if letter.is_alphanumeric() || !letter.escape_debug().eq(letter.escape_unicode()) => written.push(letter),
            _ if code < 0x100 => written.push_str(&format!("\\x{code:02x}")),
            _ if code < 0x1_0000 => written.push_str(&format!("\\u{code:04x}")),
            _ => written.push_str(&format!("\\U{code:08x}")),
        }
    }
    written.push(quote);
    written
}

/// How much of the score is left if the product is of another kind than the wanted one.
fn type_factor(wanted: &Product, bought: &Product) -> f64 {
    let similarity = titles::similarity(bought, wanted);
    if similarity == 0.0 {
        0.0
    } else if similarity < 0.1 {
        0.1
    } else if similarity > 0.2 || bought.query == wanted.query || shares_categories(wanted, bought) {
        1.0
    } else {
        0.5
    }
}

/// Whether two different categories of the path are the same.
fn shares_categories(a: &Product, b: &Product) -> bool {
    let path = |product: &Product| product.product_category.split('›').map(|part| part.trim().to_owned()).collect();
    let (a, b): (BTreeSet<String>, BTreeSet<String>) = (path(a), path(b));
    a.intersection(&b).count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webshop::catalogue::Choice;

    fn shirt() -> Product {
        Product {
            asin: "B000000001".to_owned(),
            title: "Acme Slim Fit Cotton Oxford Office Shirt".to_owned(),
            description: "For daily wear.".to_owned(),
            bullets: vec!["Machine".to_owned(), "wash".to_owned()],
            category: "fashion".to_owned(),
            query: "men's shirts".to_owned(),
            product_category: "Clothing › Men › Shirts".to_owned(),
            prices: (20.0, None),
            options: vec![Choice { name: "color".to_owned(), values: vec!["navy blue".to_owned()] }],
            attributes: vec!["long sleeve".to_owned()],
            nouns: None,
        }
    }

    fn wanted(value: &str) -> [Wanted<'_>; 1] {
        [Wanted { name: Some("color"), value }]
    }

    fn check(attributes: &[&str], option: &str, chosen: &[&str], matching: OptionMatching, expected: f64) {
        let attributes: Vec<String> = attributes.iter().map(|text| (*text).to_owned()).collect();
        let options = wanted(option);
        let shirt = shirt();
        let target = Target { product: &shirt, attributes: &attributes, options: &options, price_upper: 30.0 };
        assert_eq!(score(&target, &shirt, 20.0, chosen, matching), expected, "{attributes:?} {option} {chosen:?}");
    }

    #[test]
    fn a_score_is_the_share_of_what_was_wanted() {
        use OptionMatching::{Corrected, Original};
        for matching in [Original, Corrected] {
            check(&["long sleeves"], "navy blue", &["navy blue"], matching, 1.0);
            check(&["long sleeve", "slim fit", "machine wash", "daily wear"], "red", &["red"], matching, 1.0);
            check(&["long sleeve", "waterproof"], "navy blue", &["navy blue"], matching, 0.75);
            check(&["long sleeve"], "navy blue", &[], matching, 2.0 / 3.0);
        }
        // The quirk: the bought value is reduced to its colour, the wanted pair is not.
        check(&["long sleeve"], "r.brown2060", &["r.brown2060"], Original, 2.0 / 3.0);
        check(&["long sleeve"], "r.brown2060", &["r.brown2060"], Corrected, 1.0);
        // Another: words of the name count.
        check(&["long sleeve"], "x-large", &["large"], Original, 1.0);
    }

    #[test]
    fn another_kind_of_product_is_worth_less() {
        let (shirt, mut lamp) = (shirt(), shirt());
        lamp.query = "lamps".to_owned();
        lamp.product_category = "Home › Lamps".to_owned();
        let factor = |title: &str, lamp: &mut Product| {
            title.clone_into(&mut lamp.title);
            type_factor(&shirt, lamp)
        };
        assert_eq!(factor("Glow Lamp", &mut lamp), 0.0);
        assert_eq!(factor("Cotton Lamp", &mut lamp), 0.5);
        assert_eq!(factor("Acme Cotton Lamp", &mut lamp), 1.0);
        lamp.product_category = "Clothing › Men".to_owned();
        assert_eq!(factor("Cotton Lamp", &mut lamp), 1.0);
        lamp.nouns = Some(Vec::new());
        assert_eq!(factor("Cotton Lamp", &mut lamp), 0.0);
    }

    #[test]
    fn texts_are_written_as_python_writes_them() {
        for (text, expected) in [
            ("a'b", "\"a'b\""),
            ("a'\"", "'a\\'\"'"),
            ("é 東★", "'é 東★'"),
            ("\u{a0}\u{200b}\u{7}\n", "'\\xa0\\u200b\\x07\\n'"),
        ] {
            assert_eq!(python_text(text), expected);
        }
    }
}
