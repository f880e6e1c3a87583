//! A visit to the shop: which page is open, what is chosen, and what clicking does.

use rustc_hash::FxHashMap;

use super::catalogue::Product;
use super::shop::Shop;

/// The buttons of an item's page; `attributes` is there by a setting only.
const ITEM_BUTTONS: [&str; 7] =
    ["back to search", "< prev", "description", "features", "reviews", "attributes", "buy now"];

/// Products on a page of results.
pub(super) const PAGE: usize = 10;

/// The kinds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Search,
    Results,
    Item,
    Sub(SubPage),
    Done,
}

/// What is told about a product on a page of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubPage {
    Description,
    Features,
    Reviews,
    Attributes,
}

impl SubPage {
    const ALL: [Self; 4] = [Self::Description, Self::Features, Self::Reviews, Self::Attributes];

    /// The text of its button.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Description => "Description",
            Self::Features => "Features",
            Self::Reviews => "Reviews",
            Self::Attributes => "Attributes",
        }
    }
}

/// What stands behind a text that can be clicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Button,
    /// A product in the results.
    Product(u32),
    /// A value of an option of the item: the places of both.
    Value(u32, u32),
}

/// Where the agent is and what it has done.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) page: Page,
    /// The argument of the last search; empty before the first.
    pub(super) query: String,
    /// What it found.
    pub(super) hits: Vec<u32>,
    /// The page of results, from 1.
    pub(super) number: usize,
    /// The product whose page is open, or was opened last from these results.
    pub(super) item: u32,
    /// Per option of the item, the place of the value that is chosen.
    pub(super) chosen: Vec<Option<u32>>,
    /// What can be clicked now, in the page's order.
    pub(super) clickables: Vec<(String, Element)>,
}

impl Visit {
    pub(super) fn new() -> Self {
        let mut visit = Self {
            page: Page::Search,
            query: String::new(),
            hits: Vec::new(),
            number: 0,
            item: 0,
            chosen: Vec::new(),
            clickables: Vec::new(),
        };
        visit.home();
        visit
    }

    /// The products on the page of results that is open.
    pub(super) fn shown_hits(&self) -> &[u32] {
        let start = self.hits.len().min(PAGE * (self.number.saturating_sub(1)));
        &self.hits[start..self.hits.len().min(start + PAGE)]
    }

    /// The values that are chosen, by the option's place.
    pub(super) fn chosen_values<'a>(&'a self, shop: &'a Shop) -> impl Iterator<Item = (&'a str, &'a str)> {
        let options = &shop.catalogue.products[self.item as usize].options;
        self.chosen.iter().zip(options).filter_map(|(value, choice)| {
            value.map(|value| (choice.name.as_str(), choice.values[value as usize].as_str()))
        })
    }

    /// Searches and opens the first page of results; works on every page, as in the original.
    pub(super) fn search(&mut self, shop: &Shop, argument: String) {
        self.hits = shop.search(&argument);
        self.query = argument;
        self.open_results(shop, 1);
    }

    /// Clicks on the text. Whether there is such a thing to click.
    pub(super) fn click(&mut self, shop: &Shop, text: &str, with_attributes: bool) -> bool {
        let found = self.clickables.iter().find(|(other, _)| other == text && text != "search");
        let Some((_, element)) = found else { return false };
        let sub_page = SubPage::ALL.into_iter().find(|sub_page| sub_page.name().to_lowercase() == text);
        // Buttons are known by their text, also where an option has a value that reads the same.
        match (text, self.page, *element, sub_page) {
            ("buy now", Page::Item, ..) => {
                self.page = Page::Done;
                self.clickables.clear();
            }
            ("back to search", ..) => self.home(),
            ("next >", Page::Results, ..) => self.open_results(shop, self.number.saturating_add(1)),
            ("< prev", Page::Results, ..) => self.open_results(shop, self.number.saturating_sub(1).max(1)),
            ("< prev", Page::Item, ..) => self.open_results(shop, self.number),
            ("< prev", Page::Sub(_), ..) => self.open_item(shop, with_attributes),
            (_, Page::Item, _, Some(sub_page)) => {
                self.page = Page::Sub(sub_page);
                self.clickables = buttons(&["back to search", "< prev"]);
            }
            (_, _, Element::Product(product), _) => {
                self.item = product;
                self.chosen = vec![None; shop.catalogue.products[product as usize].options.len()];
                self.open_item(shop, with_attributes);
            }
            (_, _, Element::Value(choice, value), _) => self.chosen[choice as usize] = Some(value),
            (_, _, Element::Button, _) => return false,
        }
        true
    }

    fn home(&mut self) {
        self.page = Page::Search;
        self.query.clear();
        self.hits.clear();
        self.number = 0;
        self.chosen.clear();
        self.clickables = buttons(&["search"]);
    }

    fn open_results(&mut self, shop: &Shop, number: usize) {
        self.page = Page::Results;
        self.number = number;
        self.chosen.clear();
        self.clickables =
            buttons(if number > 1 { &["back to search", "< prev", "next >"] } else { &["back to search", "next >"] });
        let name = |product: u32| shop.catalogue.products[product as usize].asin.to_lowercase();
        let hits: Vec<_> = self.shown_hits().iter().map(|hit| (name(*hit), Element::Product(*hit))).collect();
        add(&mut self.clickables, hits.into_iter());
    }

    fn open_item(&mut self, shop: &Shop, with_attributes: bool) {
        self.page = Page::Item;
        self.clickables = item_clickables(&shop.catalogue.products[self.item as usize], with_attributes);
    }
}

/// What can be clicked on the page of an item.
pub(super) fn item_clickables(product: &Product, with_attributes: bool) -> Vec<(String, Element)> {
    let names = ITEM_BUTTONS.iter().filter(|name| with_attributes || **name != "attributes");
    let mut clickables: Vec<(String, Element)> = names.map(|name| ((*name).to_owned(), Element::Button)).collect();
    let values = product.options.iter().zip(0..).flat_map(|(choice, place)| {
        choice.values.iter().zip(0..).map(move |(value, at)| (value.clone(), Element::Value(place, at)))
    });
    add(&mut clickables, values);
    clickables
}

/// Whether a text is that of a button of an item's page, whatever an option's value says.
pub(super) fn is_button(text: &str) -> bool {
    ITEM_BUTTONS.contains(&text)
}

fn buttons(names: &[&str]) -> Vec<(String, Element)> {
    names.iter().map(|name| ((*name).to_owned(), Element::Button)).collect()
}

/// Adds what can be clicked. A text that is there already keeps its place and gets the new meaning.
fn add(clickables: &mut Vec<(String, Element)>, elements: impl Iterator<Item = (String, Element)>) {
    let mut places: FxHashMap<String, usize> =
        clickables.iter().enumerate().map(|(place, (text, _))| (text.clone(), place)).collect();
    for (text, element) in elements {
        if let Some(place) = places.get(&text) {
            clickables[*place].1 = element;
        } else {
            places.insert(text.clone(), clickables.len());
            clickables.push((text, element));
        }
    }
}
