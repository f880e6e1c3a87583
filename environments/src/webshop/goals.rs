//! Goals: who wants what for how much, in WebShop's order.

use super::catalogue::{Catalogue, Product};
use crate::python_random::PythonRandom;

/// More goals than this of one product mean that its options are not what they should be.
const MAX_OF_PRODUCT: u64 = 1_000_000;
/// The bound of a goal without one.
const NO_BOUND: f64 = 1_000_000.0;

/// What somebody is looking for. Its texts are put together when they are needed, since there are millions of goals in the
/// whole set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    pub(super) product: u32,
    /// Which instruction: of a person's the place in the product's list, else which combination of options.
    variant: u32,
    pub(super) price_upper: f64,
}

/// An option that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    /// The option's name, which people's instructions do not say.
    pub(super) name: Option<&'a str>,
    pub(super) value: &'a str,
}

/// All goals of a catalogue.
pub(super) struct Goals {
    human: bool,
    /// What each product costs; one number of its range.
    pub(super) prices: Vec<f64>,
    /// In the order of the catalogue.
    pub(super) all: Vec<Goal>,
    /// The places of `all` in WebShop's random order.
    pub(super) shuffled: Vec<u32>,
}

impl Goals {
    /// Draws prices and bounds from Python's stream of `price_seed`, and the order from that of `shuffle_seed`.
    pub(super) fn new(catalogue: &Catalogue, human: bool, price_seed: u64, shuffle_seed: u64) -> Result<Self, String> {
        let mut stream = PythonRandom::new(price_seed);
        let price = |product: &Product| match product.prices {
            (price, None) => price,
            (low, Some(high)) => stream.uniform_between(low, high),
        };
        let prices: Vec<f64> = catalogue.products.iter().map(price).collect();
        let mut goals = Self { human, prices, all: Vec::new(), shuffled: Vec::new() };
        if human {
            for (product, instructions) in catalogue.human.iter().flatten() {
                for (variant, instruction) in instructions.iter().enumerate() {
                    if !instruction.instruction_attributes.is_empty() {
                        let price_upper = draw_bound(&mut stream, goals.prices[*product as usize]);
                        goals.all.push(Goal { product: *product, variant: variant as u32, price_upper });
                    }
                }
            }
        } else {
            for product in catalogue.instructions.keys() {
                let price_upper = draw_bound(&mut stream, goals.prices[*product as usize]);
                let variants = combinations(&catalogue.products[*product as usize])?;
                goals.all.extend((0..variants).map(|variant| Goal { product: *product, variant, price_upper }));
            }
        }
        goals.shuffled = (0..goals.all.len() as u32).collect();
        PythonRandom::new(shuffle_seed).shuffle(&mut goals.shuffled);
        Ok(goals)
    }

    /// The instruction without what is said about the price, and without options.
    pub(super) fn request<'a>(&self, catalogue: &'a Catalogue, goal: Goal) -> &'a str {
        let text = if self.human {
            catalogue.human.as_ref().map(|human| &human[&goal.product][goal.variant as usize].instruction)
        } else {
            catalogue.instructions.get(&goal.product).map(|(instruction, _)| instruction)
        };
        let text = text.map_or("", String::as_str);
        if self.human { text.trim_matches('.') } else { text }
    }

    /// The instruction.
    pub(super) fn text(&self, catalogue: &Catalogue, goal: Goal) -> String {
        let mut text = self.request(catalogue, goal).to_owned();
        if !self.human {
            for (place, wanted) in self.wanted(catalogue, goal).iter().enumerate() {
                let before = if place == 0 { " with " } else { ", and " };
                text.push_str(&format!("{before}{}: {}", wanted.name.unwrap_or_default(), wanted.value));
            }
        }
        if goal.price_upper < NO_BOUND {
            text.push_str(&format!(", and price lower than {:.2} dollars", goal.price_upper));
        }
        text
    }

    /// The attributes that are wanted.
    pub(super) fn attributes<'a>(&self, catalogue: &'a Catalogue, goal: Goal) -> &'a [String] {
        let attributes = if self.human {
            catalogue.human.as_ref().map(|human| &human[&goal.product][goal.variant as usize].instruction_attributes)
        } else {
            catalogue.instructions.get(&goal.product).map(|(_, attributes)| attributes)
        };
        attributes.map_or(&[], Vec::as_slice)
    }

    /// The options that are wanted, by rising name.
    pub(super) fn wanted<'a>(&self, catalogue: &'a Catalogue, goal: Goal) -> Vec<Wanted<'a>> {
        if self.human {
            let options = catalogue
                .human
                .as_ref()
                .map_or(&[][..], |human| &human[&goal.product][goal.variant as usize].instruction_options);
            return options.iter().map(|value| Wanted { name: None, value }).collect();
        }
        let mut choices: Vec<_> = catalogue.products[goal.product as usize].options.iter().collect();
        choices.sort_by(|a, b| a.name.cmp(&b.name));
        // The last option changes fastest.
        let mut rest = goal.variant as usize;
        let mut wanted: Vec<Wanted<'a>> = Vec::with_capacity(choices.len());
        for choice in choices.into_iter().rev() {
            wanted.push(Wanted { name: Some(&choice.name), value: &choice.values[rest % choice.values.len()] });
            rest /= choice.values.len();
        }
        wanted.reverse();
        wanted
    }

    /// Whether an earlier goal asks for the same: a product may list a value twice, and people may say the same.
    pub(super) fn is_repeated(&self, catalogue: &Catalogue, goal: Goal) -> bool {
        if self.human {
            let earlier = (0..goal.variant).map(|variant| Goal { variant, ..goal });
            return earlier.into_iter().any(|other| {
                self.request(catalogue, other) == self.request(catalogue, goal)
                    && self.attributes(catalogue, other) == self.attributes(catalogue, goal)
                    && self.wanted(catalogue, other) == self.wanted(catalogue, goal)
            });
        }
        let choices = &catalogue.products[goal.product as usize].options;
        self.wanted(catalogue, goal).iter().any(|wanted| {
            let choice = choices.iter().find(|choice| Some(choice.name.as_str()) == wanted.name);
            // The reference points into the product's own list.
            choice
                .and_then(|choice| choice.values.iter().find(|value| *value == wanted.value))
                .is_some_and(|first| !std::ptr::eq(first.as_str(), wanted.value))
        })
    }
}

/// How many combinations of options a product has.
fn combinations(product: &Product) -> Result<u32, String> {
    let sizes = product.options.iter().map(|choice| choice.values.len() as u64);
    let all = sizes.fold(1_u64, u64::saturating_mul);
    if all > MAX_OF_PRODUCT {
        return Err(format!(
            "product `{}` has {all} combinations of options; more than {MAX_OF_PRODUCT} cannot be meant",
            product.asin
        ));
    }
    Ok(all as u32)
}

/// A bound above the price: the larger of two of the next four multiples of ten, below a thousand.
fn draw_bound(stream: &mut PythonRandom, price: f64) -> f64 {
    let bounds: Vec<f64> = (1..100).map(|tens| 10.0 * f64::from(tens)).filter(|bound| *bound > price).take(4).collect();
    if bounds.len() < 2 {
        return NO_BOUND;
    }
    stream.sample(bounds.len(), 2).into_iter().map(|place| bounds[place]).fold(0.0, f64::max)
}
