//! A shop: the catalogue with its index and goals, made once and shared by all environments with the same settings.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::catalogue::Catalogue;
use super::goals::{Goal, Goals};
use super::reward::{self, OptionMatching, Target};
use super::search::Index;
use super::splits::{self, Ranges, Split};
use super::{expert, files, generate};

/// The settings that a shop depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The folder of the files; empty for a generated catalogue.
    pub(super) data: String,
    /// How many products at most; 0 for all of the folder's, or the generator's usual number.
    pub(super) products: usize,
    pub(super) catalogue_seed: u64,
    pub(super) human: bool,
    pub(super) price_seed: u64,
    pub(super) shuffle_seed: u64,
}

/// A shop.
pub(super) struct Shop {
    pub(super) catalogue: Catalogue,
    pub(super) index: Index,
    pub(super) goals: Goals,
    /// By way of matching options, which goals have a way to the full score; made when it is first asked for.
    reachable: [OnceLock<Vec<bool>>; 2],
    /// The goals of every split that was asked for.
    tasks: Mutex<Vec<(Selection, Arc<[u32]>)>>,
}

/// Which goals are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) ranges: Ranges,
    pub(super) split: Split,
    /// If goals out of reach are left out: how options are matched.
    pub(super) reachable: Option<OptionMatching>,
}

impl Shop {
    /// The shop of this source, made now if no environment has asked for it before.
    pub(super) fn find(source: &Source) -> Result<Arc<Self>, String> {
        static SHOPS: Mutex<Vec<(Source, Arc<Shop>)>> = Mutex::new(Vec::new());
        // The list is whole even if a thread panicked while it held the lock: a shop is put in when it is made.
        let mut shops = SHOPS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shop)) = shops.iter().find(|(other, _)| other == source) {
            return Ok(Arc::clone(shop));
        }
        let shop = Arc::new(Self::open(source)?);
        shops.push((source.clone(), Arc::clone(&shop)));
        Ok(shop)
    }

    fn open(source: &Source) -> Result<Self, String> {
        let catalogue = if source.data.is_empty() {
            let products = if source.products == 0 { generate::USUAL_PRODUCTS } else { source.products };
            generate::catalogue(products, source.catalogue_seed)?
        } else {
            let limit = if source.products == 0 { usize::MAX } else { source.products };
            files::load(Path::new(&source.data), limit)?
        };
        let products = &catalogue.products;
        let index = Index::new(
            products.iter().map(super::catalogue::Product::indexed_text),
            products.iter().map(|product| product.asin.as_str()),
        );
        let goals = Goals::new(&catalogue, source.human, source.price_seed, source.shuffle_seed)?;
        Ok(Self { catalogue, index, goals, reachable: Default::default(), tasks: Mutex::default() })
    }

    /// The goals that are played, as places in the order of the catalogue.
    pub(super) fn tasks(&self, selection: Selection) -> Arc<[u32]> {
        let mut known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tasks)) = known.iter().find(|(other, _)| *other == selection) {
            return Arc::clone(tasks);
        }
        let is_repeated = |goal: u32| self.goals.is_repeated(&self.catalogue, self.goals.all[goal as usize]);
        let mut tasks = splits::goals(selection.ranges, selection.split, &self.goals, is_repeated);
        if let Some(matching) = selection.reachable {
            let reachable = self.reachable(matching);
            tasks.retain(|goal| reachable[*goal as usize]);
        }
        let tasks: Arc<[u32]> = tasks.into();
        known.push((selection, Arc::clone(&tasks)));
        tasks
    }

    /// Which goals, in the order of the catalogue, have a way to the full score: the search for the title finds the
    /// product, and buying it with the wanted options is worth everything.
    pub(super) fn reachable(&self, matching: OptionMatching) -> &[bool] {
        self.reachable[matching as usize].get_or_init(|| {
            let of_product = |goals: &[Goal]| {
                let product = &self.catalogue.products[goals[0].product as usize];
                let values = expert::values(product);
                let is_found = expert::is_found(self, goals[0].product);
                let is_reachable = |goal: &Goal| {
                    let chosen: Vec<&str> = expert::choices(&values, &self.goals.wanted(&self.catalogue, *goal))
                        .into_iter()
                        .map(|(choice, value)| product.options[choice as usize].values[value as usize].as_str())
                        .collect();
                    is_found && self.score(*goal, goal.product, &chosen, matching) == 1.0
                };
                goals.iter().map(is_reachable).collect::<Vec<bool>>()
            };
            self.goals.all.chunk_by(|a, b| a.product == b.product).flat_map(of_product).collect()
        })
    }

    /// The score of buying a product with these values of its options.
    pub(super) fn score(&self, goal: Goal, product: u32, chosen: &[&str], matching: OptionMatching) -> f64 {
        let target = Target {
            product: &self.catalogue.products[goal.product as usize],
            attributes: self.goals.attributes(&self.catalogue, goal),
            options: &self.goals.wanted(&self.catalogue, goal),
            price_upper: goal.price_upper,
        };
        let place = product as usize;
        reward::score(&target, &self.catalogue.products[place], self.goals.prices[place], chosen, matching)
    }

    /// What a search for this argument finds, best first: the products of a query or a category after `<q>` and `<c>`, as
    /// in the original, else what the index ranks highest.
    pub(super) fn search(&self, argument: &str) -> Vec<u32> {
        let products = self.catalogue.products.iter().zip(0..);
        if let Some(query) = argument.strip_prefix("<q> ") {
            return products.filter(|(product, _)| product.query == query.trim()).map(|(_, place)| place).collect();
        }
        if let Some(category) = argument.strip_prefix("<c> ") {
            let category = category.split(' ').next().unwrap_or_default().trim();
            return products.filter(|(product, _)| product.category == category).map(|(_, place)| place).collect();
        }
        self.index.search(argument).into_iter().map(|(product, _)| product).collect()
    }
}
