//! The shop against recordings of the original with its small set of products. These are not ours to check in, so the
//! tests play only where `ACCREDIT_WEBSHOP_DATA` names the folder that has them: WebShop's files, `bm25_golden.jsonl`
//! (queries with their terms, and what Lucene finds with what scores), `trace_20_episodes.jsonl` (the original's pages).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::analyser;
use super::reward::OptionMatching;
use super::shop::{Shop, Source};

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("ACCREDIT_WEBSHOP_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("not compared: ACCREDIT_WEBSHOP_DATA names no folder with the original's data");
    }
    folder
}

fn shop(folder: &Path) -> Arc<Shop> {
    let source = Source {
        data: folder.to_string_lossy().into_owned(),
        products: 0,
        catalogue_seed: 0,
        human: false,
        price_seed: 0,
        shuffle_seed: 0,
    };
    Shop::find(&source).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn searches_find_what_lucene_finds() {
    let Some(folder) = folder() else { return };
    let shop = shop(&folder);
    let golden = lines(&folder.join("bm25_golden.jsonl"));
    assert_eq!(golden.len(), 125);
    for line in golden {
        let query = line["q"].as_str().unwrap();
        assert_eq!(line["tokens"], Value::from_iter(analyser::terms(query)), "{query}");
        let hits = shop.index.search(query);
        let names = hits.iter().map(|(product, _)| shop.catalogue.products[*product as usize].asin.clone());
        let expected = line["hits"].as_array().unwrap();
        assert_eq!(Value::from_iter(names), Value::from_iter(expected.iter().map(|hit| hit[0].clone())), "{query}");
        for (hit, expected) in hits.iter().zip(expected) {
            let expected = expected[1].as_f64().unwrap();
            // The recording has four decimals.
            assert!((f64::from(hit.1) - expected).abs() < 6e-5, "{query}: {} {expected}", hit.1);
        }
    }
}

#[test]
fn goals_are_the_originals() {
    let Some(folder) = folder() else { return };
    let shop = shop(&folder);
    assert_eq!(shop.goals.all.len(), 6910);
    assert_eq!(shop.goals.all.iter().filter(|goal| goal.price_upper == 1_000_000.0).count(), 15);
    let count = |matching| shop.reachable(matching).iter().filter(|reachable| !**reachable).count();
    assert_eq!((count(OptionMatching::Original), count(OptionMatching::Corrected)), (458, 0));
}

/// The original's pages and scores, line by line. Its goals are those of verl-agent's first worker, whose seed is 0.
#[test]
fn the_originals_pages_are_played_back() {
    let Some(folder) = folder() else { return };
    let settings = serde_json::json!({ "data": folder, "price_seed": 0, "shuffle_seed": 0, "ranges": "verl" });
    let (mut train, lines) = (None, lines(&folder.join("trace_20_episodes.jsonl")));
    assert_eq!(lines.len(), 90);
    let mut scores = 0;
    for line in &lines {
        let action = line["action"].as_str();
        let (turn, reward, terminal) = match action {
            None => {
                let mut environment = crate::make("webshop", settings.as_object().unwrap()).unwrap();
                let turn = environment.reset(line["goal"].as_u64().unwrap() - 500).unwrap();
                train = Some(environment);
                (turn, 0.0, false)
            }
            Some(_) => {
                let outcome = train.as_mut().unwrap().step(action, "").unwrap();
                (outcome.turn, outcome.reward, outcome.terminal)
            }
        };
        assert_eq!(turn.observation, line["obs"].as_str().unwrap(), "{line}");
        assert_eq!(reward, line["reward"].as_f64().unwrap() as f32, "{line}");
        assert_eq!(terminal, line["done"], "{line}");
        scores += u32::from(terminal);
        if !terminal && turn.actions.len() > 1 {
            let clickables = line["avail"]["clickables"].as_array().unwrap().iter();
            let actions: Vec<String> = clickables.map(|text| format!("click[{}]", text.as_str().unwrap())).collect();
            assert_eq!(turn.actions, actions, "{line}");
        }
    }
    assert_eq!(scores, 10);
}
