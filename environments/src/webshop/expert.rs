//! The scripted expert: it searches for what the instruction says, opens the product that is meant, chooses the wanted
//! options, and buys.

use super::action::{self, Action};
use super::catalogue::Product;
use super::fuzzy::alike;
use super::goals::{Goal, Wanted};
use super::shop::Shop;
use super::visit::{self, Element, PAGE, Page, Visit};
use crate::Demonstration;

/// How a goal is reached.
pub(super) struct Plan {
    /// The action that searches: for the instruction, or, where that does not find the product, for its title.
    search: String,
    /// What must be chosen, as places of options and values.
    choices: Vec<(u32, u32)>,
}

impl Plan {
    pub(super) fn new(shop: &Shop, goal: Goal) -> Self {
        let product = &shop.catalogue.products[goal.product as usize];
        let searches = [action::search(&wish(shop, goal)), action::search(&product.title)];
        let [first, title] = &searches;
        let search = if finds(shop, first, goal.product) || !finds(shop, title, goal.product) { first } else { title };
        let wanted = shop.goals.wanted(&shop.catalogue, goal);
        Self { search: search.clone(), choices: choices(&values(product), &wanted) }
    }

    /// What to think and do now.
    pub(super) fn next(&self, shop: &Shop, goal: Goal, visit: &Visit) -> Option<Demonstration> {
        let product = &shop.catalogue.products[goal.product as usize];
        let place = visit.hits.iter().position(|hit| *hit == goal.product);
        let (think, action) = match visit.page {
            Page::Search => (format!("wanted: {}; search for it", wish(shop, goal)), self.search.clone()),
            Page::Results => match place.map(|place| place / PAGE + 1) {
                None => ("nothing here is meant; search again".to_owned(), "click[back to search]".to_owned()),
                Some(page) if page == visit.number => (
                    format!("{} is {}, {}; open it", product.asin, product.title, product.price_tag()),
                    format!("click[{}]", product.asin.to_lowercase()),
                ),
                Some(page) if page > visit.number => {
                    (format!("nothing on page {} is meant; go on", visit.number), "click[next >]".to_owned())
                }
                Some(_) => (format!("nothing on page {} is meant; go back", visit.number), "click[< prev]".to_owned()),
            },
            Page::Item if visit.item != goal.product => {
                ("this is not what is wanted; go back".to_owned(), "click[< prev]".to_owned())
            }
            Page::Item => self.choose_or_buy(product, visit),
            Page::Sub(_) => ("enough read; go back to the item".to_owned(), "click[< prev]".to_owned()),
            Page::Done => return None,
        };
        Some(Demonstration { think, action })
    }

    fn choose_or_buy(&self, product: &Product, visit: &Visit) -> (String, String) {
        let missing = self.choices.iter().find(|(choice, value)| visit.chosen[*choice as usize] != Some(*value));
        match missing {
            Some((choice, value)) => {
                let choice = &product.options[*choice as usize];
                let value = &choice.values[*value as usize];
                (format!("{} must be {value}; choose it", choice.name), format!("click[{value}]"))
            }
            None if self.choices.is_empty() => {
                (format!("nothing to choose, the price is {}; buy", product.price_tag()), "click[buy now]".to_owned())
            }
            None => (format!("all is chosen, the price is {}; buy", product.price_tag()), "click[buy now]".to_owned()),
        }
    }
}

/// Whether the search for its title finds a product.
pub(super) fn is_found(shop: &Shop, product: u32) -> bool {
    finds(shop, &action::search(&shop.catalogue.products[product as usize].title), product)
}

fn finds(shop: &Shop, search: &str, product: u32) -> bool {
    matches!(action::parse(search), Some(Action::Search(words)) if shop.search(&words).contains(&product))
}

/// The instruction without its price.
fn wish(shop: &Shop, goal: Goal) -> String {
    let text = shop.goals.text(&shop.catalogue, goal);
    text.rsplit_once(", and price lower than ").map_or(text.clone(), |(wish, _)| wish.to_owned())
}

/// The values on a product's page that can be chosen, with the places of their options and their own.
pub(super) fn values(product: &Product) -> Vec<(String, (u32, u32))> {
    let clickables = visit::item_clickables(product, true).into_iter();
    clickables
        .filter(|(text, _)| action::click(text).is_some() && !visit::is_button(text))
        .filter_map(|(text, element)| match element {
            Element::Value(choice, value) => Some((text, (choice, value))),
            _ => None,
        })
        .collect()
}

/// What to choose of these values, as places: for each wanted option the value that is the same, or else alike. Where
/// two are values of the same option, the later one holds.
pub(super) fn choices(values: &[(String, (u32, u32))], wanted: &[Wanted<'_>]) -> Vec<(u32, u32)> {
    let mut chosen: Vec<(u32, u32)> = Vec::new();
    for wanted in wanted {
        let same = values.iter().find(|(text, _)| *text == wanted.value.to_lowercase());
        let found = same.or_else(|| values.iter().find(|(text, _)| alike(text, wanted.value)));
        if let Some((_, (choice, value))) = found {
            chosen.retain(|(other, _)| other != choice);
            chosen.push((*choice, *value));
        }
    }
    chosen
}
