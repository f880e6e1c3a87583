//! The scripted expert: it searches for what the instruction says, opens the product that is meant, chooses the wanted
//! options, and buys.

use super::action;
use super::catalogue::Product;
use super::fuzzy::alike;
use super::goals::Goal;
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
        let wish = wish(shop, goal);
        let title = &shop.catalogue.products[goal.product as usize].title;
        let finds = |search: &String| match action::parse(search) {
            Some(action::Action::Search(words)) => shop.search(&words).contains(&goal.product),
            _ => false,
        };
        let searches = [action::search(&wish), action::search(title)];
        let [first, _] = &searches;
        let search = searches.iter().find(|search| finds(search)).unwrap_or(first).clone();
        Self { search, choices: choices(shop, goal) }
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

/// The instruction without its price.
fn wish(shop: &Shop, goal: Goal) -> String {
    let text = shop.goals.text(&shop.catalogue, goal);
    text.rsplit_once(", and price lower than ").map_or(text.clone(), |(wish, _)| wish.to_owned())
}

/// What to choose on the page of the wanted product, as places of options and values: for each wanted option the value
/// that is the same, or else alike. Where two are values of the same option, the later one holds. What cannot be clicked
/// is left out.
pub(super) fn choices(shop: &Shop, goal: Goal) -> Vec<(u32, u32)> {
    let clickables = visit::item_clickables(&shop.catalogue.products[goal.product as usize], true);
    let values: Vec<(&str, (u32, u32))> = clickables
        .iter()
        .filter(|(text, _)| action::click(text).is_some() && !visit::is_button(text))
        .filter_map(|(text, element)| match element {
            Element::Value(choice, value) => Some((text.as_str(), (*choice, *value))),
            _ => None,
        })
        .collect();
    let mut chosen: Vec<(u32, u32)> = Vec::new();
    for wanted in shop.goals.wanted(&shop.catalogue, goal) {
        let same = values.iter().find(|(text, _)| *text == wanted.value.to_lowercase());
        let found = same.or_else(|| values.iter().find(|(text, _)| alike(text, wanted.value)));
        if let Some((_, (choice, value))) = found {
            chosen.retain(|(other, _)| other != choice);
            chosen.push((*choice, *value));
        }
    }
    chosen
}
