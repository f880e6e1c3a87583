//! `webshop`: buy what an instruction asks for, in a shop of text pages, as in WebShop (Yao et al., 2022).
//!
//! The agent searches (`search[words]`) and clicks (`click[text]`): results come in pages of ten, an item has options to
//! choose and pages that tell more, and `click[buy now]` ends the episode with a score between 0 and 1. Search is Lucene's
//! BM25, pages are the original's texts, and the score is the original's with its quirks; what each of these is checked
//! against stands in `environments/tests/golden/webshop/README.md`. There is no limit of steps here: that is the
//! rollout's.
//!
//! Without `data` the shop has products that a generator made up, and every goal can be reached. With `data`, it reads
//! WebShop's files; some of their goals cannot be reached by any purchase (458 of the 6,910 of the small set), and
//! `drop_unreachable` leaves those out.
//!
//! Searching works on every page, as in the original. [`Turn::actions`](crate::Turn) lists what can be clicked; searches
//! are without number, so on the search page, where nothing can be clicked, the one for the instruction stands for them. Of
//! the original's special searches, `<q> query` and `<c> category` are there; `<a>` ends the original's text mode with an
//! error, and `<r>` gives other products on every page, which no key of the state could tell: here both are words like
//! any other.
//!
//! ```toml
//! [environment]
//! name = "webshop"
//! products = 2000
//! split = "train"
//! reward = "score"
//! ```

mod action;
mod analyser;
mod catalogue;
mod expert;
mod files;
mod fuzzy;
mod generate;
mod goals;
mod porter;
mod reward;
mod search;
mod shop;
mod splits;
mod titles;
mod view;
mod visit;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Demonstration, Environment, EnvironmentError, Outcome, Task, Traits, Turn, registry};
use action::Action;
use expert::Plan;
use goals::Goal;
use reward::OptionMatching;
use shop::{Selection, Shop, Source};
use splits::{Ranges, Split};
use view::View;
use visit::{Page, Visit};

/// The most products that are generated: names have room for more, memory may not.
const MAX_PRODUCTS: usize = 1_000_000;

/// The settings of `webshop`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// A folder with WebShop's files: `items_shuffle.json` and `items_ins_v2.json`, or the small set's
    /// `items_shuffle_1000.json` and `items_ins_v2_1000.json`; `items_human_ins.json` for goals that people wrote, and
    /// `items_nouns.json`, lists of the nouns in each title by product, for exactly the original's judgement of titles.
    /// Empty: the products are generated.
    data: String,
    /// How many products: so many are generated, or read from the files at most. 0 means 2,000 generated ones, or all of
    /// the files.
    products: usize,
    /// Which products are generated.
    catalogue_seed: u64,
    /// Whose goals there are.
    goals: GoalSource,
    /// The seed of Python's stream that draws a price from each range of prices, and the bounds of goals. The original
    /// leaves it open; verl-agent has the same seed here and in `shuffle_seed`.
    price_seed: u64,
    /// The seed of Python's stream that shuffles goals; 233 is the original's.
    shuffle_seed: u64,
    /// Whose tasks are played.
    split: Split,
    /// How goals are split.
    ranges: Ranges,
    /// Leave out goals that no purchase of the wanted product reaches.
    drop_unreachable: bool,
    /// How options that are bought are compared with those that are wanted.
    option_matching: OptionMatching,
    /// What the reward of a purchase is.
    reward: Reward,
    /// How pages are shown.
    view: View,
    /// Items have a page of their attributes.
    show_attributes: bool,
}

/// Whose goals there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GoalSource {
    /// Put together from attributes, for every combination of options.
    #[default]
    Synthetic,
    /// Written by people; needs `data` with `items_human_ins.json`.
    Human,
}

/// What the reward of a purchase is. An episode is a success where the score is 1, in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Reward {
    /// The score.
    #[default]
    Score,
    /// verl-agent's: 10 for a full score, else 0.
    Verl,
    /// RAGEN's: 1 for a full score, else 0.
    Ragen,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data: String::new(),
            products: 0,
            catalogue_seed: 0,
            goals: GoalSource::default(),
            price_seed: 233,
            shuffle_seed: 233,
            split: Split::default(),
            ranges: Ranges::default(),
            drop_unreachable: false,
            option_matching: OptionMatching::default(),
            reward: Reward::default(),
            view: View::default(),
            show_attributes: false,
        }
    }
}

impl Settings {
    fn shop(&self) -> Result<Arc<Shop>, EnvironmentError> {
        let source = Source {
            data: self.data.clone(),
            products: self.products,
            catalogue_seed: self.catalogue_seed,
            human: self.goals == GoalSource::Human,
            price_seed: self.price_seed,
            shuffle_seed: self.shuffle_seed,
        };
        let key = if self.data.is_empty() { "products" } else { "data" };
        Shop::find(&source).map_err(|problem| <Self as registry::Settings>::misfit(key, problem))
    }

    /// The goals that are played, as places in the order of the catalogue.
    fn tasks(&self, shop: &Shop) -> Arc<[u32]> {
        // That what is generated can be reached is proved here.
        let reachable = (self.drop_unreachable || self.data.is_empty()).then_some(self.option_matching);
        shop.tasks(Selection { ranges: self.ranges, split: self.split, reachable })
    }
}

impl registry::Settings for Settings {
    const NAME: &'static str = "webshop";
    const SUMMARY: &'static str = "Search a shop of text pages and buy what the instruction asks for.";

    fn check(&self) -> Result<(), EnvironmentError> {
        if self.data.is_empty() && self.products > MAX_PRODUCTS {
            let message = format!("at most {MAX_PRODUCTS} products can be generated, not {}", self.products);
            return Err(Self::misfit("products", message));
        }
        let human = self.goals == GoalSource::Human;
        if human && self.data.is_empty() {
            return Err(Self::misfit("goals", "generated products have no goals that people wrote; `data` is needed"));
        }
        let shop = self.shop()?;
        if human && shop.catalogue.human.is_none() {
            let message = format!("there is no `{}` in {}; {}", files::HUMAN, self.data, files::HINT);
            return Err(Self::misfit("goals", message));
        }
        if shop.goals.all.is_empty() && !self.data.is_empty() {
            let (products, file) =
                (shop.catalogue.products.len(), if human { files::HUMAN } else { "items_ins_v2*.json" });
            let message = format!(
                "none of the {products} products has a goal: `{file}` in {} says nothing about them; {}",
                self.data,
                files::HINT
            );
            return Err(Self::misfit("data", message));
        }
        if self.tasks(&shop).is_empty() {
            let message = format!(
                "this split is empty: the shop has {} goals; `ranges` says how they are split",
                shop.goals.all.len()
            );
            return Err(Self::misfit("split", message));
        }
        Ok(())
    }

    fn traits(&self) -> Traits {
        // `check` has opened the shop before, so it is there.
        let tasks = self.shop().ok().map(|shop| self.tasks(&shop).len() as u64);
        Traits { states: true, expert: true, tasks, ..Traits::default() }
    }

    fn build(self) -> Result<Box<dyn Environment>, EnvironmentError> {
        let shop = self.shop()?;
        let tasks = self.tasks(&shop);
        Ok(Box::new(WebShop { settings: self, shop, tasks, episode: None }))
    }
}

/// What the search engine makes of a query over a folder's products: its terms, and the names and scores of hits.
pub(crate) struct Ranking {
    pub(crate) terms: Vec<String>,
    pub(crate) hits: Vec<(String, f32)>,
}

/// Searches a folder's products.
pub(crate) fn rank(data: &str, query: &str) -> Result<Ranking, EnvironmentError> {
    let shop = Settings { data: data.to_owned(), ..Settings::default() }.shop()?;
    let hits = shop.index.search(query).into_iter();
    Ok(Ranking {
        terms: analyser::terms(query).collect(),
        hits: hits.map(|(product, score)| (shop.catalogue.products[product as usize].asin.clone(), score)).collect(),
    })
}

struct WebShop {
    settings: Settings,
    shop: Arc<Shop>,
    /// The goals of the split.
    tasks: Arc<[u32]>,
    episode: Option<Episode>,
}

struct Episode {
    /// The goal's place in the order of the catalogue, and the goal.
    task: u32,
    goal: Goal,
    instruction: String,
    visit: Visit,
    /// The score of the purchase.
    score: f64,
    /// Made when the expert is first asked.
    plan: Option<Plan>,
}

impl Episode {
    fn is_over(&self) -> bool {
        self.visit.page == Page::Done
    }

    /// What can be done now: everything that can be clicked, and on the search page the search for the instruction.
    fn actions(&self) -> Vec<String> {
        match self.visit.page {
            Page::Search => vec![action::search(&self.instruction)],
            _ => self.visit.clickables.iter().filter_map(|(text, _)| action::click(text)).collect(),
        }
    }

    /// The goal, and everything that decides what the next actions do.
    fn state(&self, shop: &Shop) -> String {
        let visit = &self.visit;
        let page = match visit.page {
            Page::Search => return json!([self.task, "search"]).to_string(),
            Page::Results => return json!([self.task, "results", visit.query, visit.number]).to_string(),
            Page::Item => "item",
            Page::Sub(sub_page) => sub_page.name(),
            Page::Done => "done",
        };
        let asin = &shop.catalogue.products[visit.item as usize].asin;
        json!([self.task, page, visit.query, visit.number, asin, visit.chosen]).to_string()
    }

    fn turn(&self, shop: &Shop, view: View) -> Turn {
        Turn {
            observation: view::show(view, shop, &self.visit, &self.instruction, self.score),
            state: Some(self.state(shop)),
            actions: self.actions(),
        }
    }

    /// Plays an action: what happened, none if it cannot be done here.
    fn play(&mut self, shop: &Shop, action: Action, settings: &Settings) -> Option<String> {
        let visit = &mut self.visit;
        match action {
            Action::Search(words) => {
                visit.search(shop, words);
                Some(format!("{} products found.", visit.hits.len()))
            }
            Action::Click(text) => {
                let chosen = visit.chosen.clone();
                if !visit.click(shop, &text, settings.show_attributes) {
                    return None;
                }
                let product = &shop.catalogue.products[visit.item as usize];
                if visit.page == Page::Done {
                    let values: Vec<&str> = visit.chosen_values(shop).map(|(_, value)| value).collect();
                    self.score = shop.score(self.goal, visit.item, &values, settings.option_matching);
                    return Some(format!("You bought {} for a score of {:.3}.", product.asin, self.score));
                }
                let newly = visit.chosen.iter().zip(&chosen).position(|(now, before)| now != before);
                Some(match newly.filter(|_| visit.page == Page::Item && visit.chosen.len() == chosen.len()) {
                    Some(choice) => format!("You chose {}: {text}.", product.options[choice].name),
                    None => format!("You clicked {text}."),
                })
            }
        }
    }
}

impl Environment for WebShop {
    fn instructions(&self) -> String {
        "You shop in a web shop of text pages for what an instruction asks: the right kind of product, with the wanted \
         attributes, options and price. Search for it, open a product by its code, choose an option by clicking its \
         value, and buy; buying ends the episode, and what you bought is compared with the instruction. Results come in \
         pages of ten. On a product's page, description and features tell more.\n\
         Actions: search[words] looks for words; click[text] clicks a button, a product's code or an option's value that \
         the page shows. Answer with one action."
            .to_owned()
    }

    fn reset(&mut self, seed: u64) -> Result<Turn, EnvironmentError> {
        let place = seed.checked_rem(self.tasks.len() as u64).ok_or_else(|| EnvironmentError::NoTask {
            environment: <Settings as registry::Settings>::NAME,
            seed,
            message: "the split is empty".to_owned(),
        })?;
        let task = self.tasks[place as usize];
        let goal = self.shop.goals.all[task as usize];
        let instruction = self.shop.goals.text(&self.shop.catalogue, goal);
        let episode = Episode { task, goal, instruction, visit: Visit::new(), score: 0.0, plan: None };
        Ok(self.episode.insert(episode).turn(&self.shop, self.settings.view))
    }

    fn step(&mut self, action: Option<&str>, _response: &str) -> Result<Outcome, EnvironmentError> {
        let episode = self.episode.as_mut().ok_or(EnvironmentError::NotStarted)?;
        if episode.is_over() {
            return Err(EnvironmentError::EpisodeOver);
        }
        let played = action.map(action::parse);
        let told = match played {
            None => Err("No action: search[words] or click[text] is needed.".to_owned()),
            Some(None) => Err("Not a valid action: it must be search[words] or click[text].".to_owned()),
            Some(Some(action)) => episode
                .play(&self.shop, action, &self.settings)
                .ok_or_else(|| "Nothing happened: there is no such text to click on this page.".to_owned()),
        };
        let terminal = episode.is_over();
        let success = terminal && episode.score == 1.0;
        let full = f32::from(u8::from(success));
        let reward = match self.settings.reward {
            _ if !terminal => 0.0,
            Reward::Score => episode.score as f32,
            Reward::Verl => 10.0 * full,
            Reward::Ragen => full,
        };
        Ok(Outcome {
            reward,
            terminal,
            success,
            valid_action: told.is_ok(),
            feedback: told.unwrap_or_else(|told| told),
            turn: episode.turn(&self.shop, self.settings.view),
        })
    }

    fn expert(&mut self) -> Option<Demonstration> {
        let shop = &self.shop;
        let episode = self.episode.as_mut()?;
        let plan = episode.plan.get_or_insert_with(|| Plan::new(shop, episode.goal));
        plan.next(shop, episode.goal, &episode.visit)
    }

    fn task(&self) -> Task {
        let text = self.episode.as_ref().map(|episode| episode.instruction.clone()).unwrap_or_default();
        Task { text, answer: None }
    }
}
