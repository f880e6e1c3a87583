//! The texts of pages: the visible texts of the original's HTML, in its order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shop::Shop;
use super::visit::{Page, SubPage, Visit};

/// What stands between the parts of a page.
const SEPARATOR: &str = " [SEP] ";

/// How a page is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    /// All parts of the page, with ` [SEP] ` between them, as in the original's text mode.
    #[default]
    Text,
    /// The parts after the instruction, each in single quotes, with ` [SEP] ` between them, as in verl-agent.
    Quoted,
}

/// The page as the agent sees it. `score` is known once something is bought.
pub(super) fn show(view: View, shop: &Shop, visit: &Visit, instruction: &str, score: f64) -> String {
    let parts = Parts::of(shop, visit, instruction, score).0;
    let after_instruction =
        parts.iter().position(|part| *part == stripped(instruction)).map(|place| &parts[place + 1..]);
    match (view, after_instruction) {
        (View::Quoted, Some(parts)) => parts.iter().map(|part| format!("'{part}'")).collect::<Vec<_>>().join(SEPARATOR),
        _ => parts.join(SEPARATOR),
    }
}

struct Parts(Vec<String>);

impl Parts {
    fn of(shop: &Shop, visit: &Visit, instruction: &str, score: f64) -> Self {
        let mut parts = Self(Vec::with_capacity(40));
        match visit.page {
            Page::Search => {
                parts.add_all(["WebShop", "Instruction:", instruction, "Search"]);
            }
            Page::Results => {
                parts.add_all(["Instruction:", instruction, "Back to Search"]);
                parts.add(&format!("Page {} (Total results: {})", visit.number, visit.hits.len()));
                if visit.number > 1 {
                    parts.add("< Prev");
                }
                parts.add("Next >");
                for hit in visit.shown_hits() {
                    let product = &shop.catalogue.products[*hit as usize];
                    parts.add_all([&product.asin, &product.title, product.price_tag().as_str()]);
                }
            }
            Page::Item => parts.item(shop, visit, instruction),
            Page::Sub(sub_page) => {
                parts.add_all(["Instruction:", instruction, "Back to Search", "< Prev"]);
                let product = &shop.catalogue.products[visit.item as usize];
                match sub_page {
                    SubPage::Description => parts.add(&product.description),
                    // The template has a space before each of these.
                    SubPage::Features => product.bullets.iter().for_each(|bullet| parts.add(&format!(" {bullet}"))),
                    SubPage::Reviews => {}
                    SubPage::Attributes => {
                        product.attributes.iter().for_each(|attribute| parts.add(&format!(" {attribute}")));
                        parts.add_all([product.category.as_str(), &product.query, &product.product_category]);
                    }
                }
            }
            Page::Done => parts.done(shop, visit, score),
        }
        parts
    }

    fn item(&mut self, shop: &Shop, visit: &Visit, instruction: &str) {
        self.add_all(["Instruction:", instruction, "Back to Search", "< Prev"]);
        let product = &shop.catalogue.products[visit.item as usize];
        for choice in &product.options {
            self.add(&choice.name);
            choice.values.iter().for_each(|value| self.add(value));
        }
        self.add(&product.title);
        self.add(&format!("Price: {}", product.price_tag()));
        self.add_all(["Rating: N.A.", "Description", "Features", "Reviews"]);
        if visit.clickables.iter().any(|(text, _)| text == "attributes") {
            self.add("Attributes");
        }
        self.add("Buy Now");
    }

    fn done(&mut self, shop: &Shop, visit: &Visit, score: f64) {
        let product = &shop.catalogue.products[visit.item as usize];
        self.add_all(["Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)"]);
        self.add_all(["Purchased", "asin", &product.asin, "options", &options_text(shop, visit)]);
        self.add_all(["attrs", "None", "category", "None", "query", "None", "product category", "None"]);
        self.add_all(["Target", "asin", "options", "attrs", "price upper", "instuction text", "category"]);
        self.add_all(["product category", "query", "Goal", "None", "Reward", "Your score (min 0.0, max 1.0)"]);
        self.add_all([&format!("{score:?}"), "Reward Details", "None"]);
    }

    fn add_all<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        texts.into_iter().for_each(|text| self.add(text));
    }

    /// Adds a text as the original's HTML parser finds it: nothing where it is empty, and of white space alone nothing if
    /// there is a line end in it, else an empty part.
    fn add(&mut self, text: &str) {
        let blank = text.chars().all(|letter| matches!(letter, ' ' | '\n' | '\t' | '\u{c}' | '\r'));
        if !(blank && (text.is_empty() || text.contains('\n'))) {
            self.0.push(stripped(text).to_owned());
        }
    }
}

/// Python's `strip`, which also takes the separators among the control characters.
fn stripped(text: &str) -> &str {
    text.trim_matches(|letter: char| letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter))
}

/// The chosen options as JSON that is safe in HTML, by rising name.
pub(super) fn options_text(shop: &Shop, visit: &Visit) -> String {
    let mut options: Vec<(&str, &str)> = visit.chosen_values(shop).collect();
    options.sort_unstable();
    let pairs: Vec<String> =
        options.into_iter().map(|(name, value)| format!("{}: {}", json_text(name), json_text(value))).collect();
    format!("{{{}}}", pairs.join(", "))
}

fn json_text(text: &str) -> String {
    let mut written = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            '\u{8}' => written.push_str("\\b"),
            '\u{c}' => written.push_str("\\f"),
            '<' | '>' | '&' | '\'' => written.push_str(&format!("\\u{:04x}", u32::from(letter))),
            ' '..='~' => written.push(letter),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    written.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    written.push('"');
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parts_as_the_parser_sees_them() {
        let mut parts = Parts(Vec::new());
        parts.add_all(["", "\n", " \n ", " ", " a \u{a0}", "\u{a0}", "\u{1f}b"]);
        assert_eq!(parts.0, ["", "a", "", "b"]);
    }

    #[test]
    fn json_is_flasks() {
        assert_eq!(
            json_text("20''x20\" é 😀 \\ <&>\u{7f}"),
            r#""20\u0027\u0027x20\" \u00e9 \ud83d\ude00 \\ \u003c\u0026\u003e\u007f""#
        );
    }
}
