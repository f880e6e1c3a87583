//! Odd answers, drawn from a stream: actions of all games and pieces of them, tags in tags, control and combining
//! characters, huge repetitions, random bytes, and actions that are listed.

use accredit_core::rng::{Purpose, Stream};
use serde_json::{Value, json};

use super::play::{BETWEEN, LISTED};

/// Every environment that is built in, with settings that differ in how answers are read.
pub fn games() -> [(&'static str, Value); 11] {
    [
        ("frozen-lake", json!({})),
        ("frozen-lake", json!({ "max_actions_per_turn": 3 })),
        ("sokoban", json!({})),
        ("sokoban", json!({ "max_actions_per_turn": 1000, "view": "grid_coord" })),
        ("sokoban", json!({ "grammar": "verl_agent", "view": "tabbed", "max_steps": 15 })),
        ("sudoku", json!({})),
        ("sudoku", json!({ "size": 9, "max_actions_per_turn": 5, "difficulty": "hard" })),
        ("alfworld", json!({})),
        (
            "alfworld",
            json!({ "house": "small", "commands": "quoted", "ignore_case": true, "reward": "goal_conditions" }),
        ),
        ("webshop", json!({})),
        ("webshop", json!({ "products": 300, "show_attributes": true, "view": "quoted", "reward": "verl" })),
    ]
}

const PARTS: &[&str] = &[
    "Up",
    "down",
    "LEFT",
    "right",
    "still",
    "||",
    "|",
    " ",
    "\n",
    "\r",
    "\t",
    "\0",
    "\u{1b}[2J",
    "\u{7f}",
    "\u{85}",
    "\u{feff}",
    "\u{200d}",
    "√",
    "é",
    "\u{202e}",
    "<answer>",
    "</answer>",
    "<action>",
    "<think>",
    "</think>",
    "<|im_end|>",
    "<",
    ">",
    "place",
    "at",
    "row",
    "col",
    "(",
    ")",
    ",",
    "0",
    "1",
    "2",
    "9",
    "99999999999999999999999",
    "-1",
    "１",
    "𝟙",
    "💥",
    "👩‍👩‍👧",
    "e\u{301}",
    "\u{130}",
    "ß",
    "\u{3a3}",
    "\u{10ffff}",
    "search[",
    "click[",
    "Click[",
    "]",
    "[",
    "<q> ",
    "<c> ",
    "<a> ",
    "<r> ",
    "red shirt ",
    "buy now",
    "next >",
    "< prev",
    "back to search",
    "description",
    "B0",
    "go to ",
    "cabinet 1",
    "take ",
    " from ",
    "move ",
    " to ",
    "open ",
    "look",
    "help",
    "inventory",
    "examine ",
    "{o.name}",
    "%s",
    "'",
    "\"",
    "\\",
];

/// A stream of answers.
pub struct Texts {
    stream: Stream,
    drawn: u64,
    longest: usize,
}

impl Texts {
    /// Repetitions have `longest` bytes at most.
    pub fn new(seed: u64, longest: usize) -> Self {
        Self { stream: Stream::new(seed, Purpose::Other), drawn: 0, longest }
    }

    fn below(&mut self, n: usize) -> usize {
        self.drawn += 1;
        self.stream.below(self.drawn, n as u64) as usize
    }

    fn part(&mut self) -> &'static str {
        PARTS[self.below(PARTS.len())]
    }

    /// The answers of an episode, 1 to 31.
    pub fn episode(&mut self) -> Vec<u8> {
        let mut data = Vec::new();
        for answer in 0..=self.below(31) {
            if answer > 0 {
                data.push(BETWEEN);
            }
            self.answer(&mut data);
        }
        data
    }

    fn answer(&mut self, data: &mut Vec<u8>) {
        match self.below(64) {
            0..32 => data.extend([LISTED, self.below(250) as u8]),
            32..38 => {
                data.extend([LISTED, self.below(250) as u8]);
                data.extend(self.part().bytes());
            }
            38..56 => {
                for _ in 0..self.below(30) {
                    data.extend(self.part().bytes());
                }
            }
            56..61 => data.extend((0..self.below(40)).map(|_| self.below(250) as u8).collect::<Vec<u8>>()),
            61 => {
                let (head, part) = (self.part(), self.part());
                let times = self.below(self.longest / part.len());
                data.extend(head.bytes());
                data.extend(part.repeat(times).bytes());
            }
            62 => {
                let part = self.part();
                data.extend(format!("search[{}]", part.repeat(self.below(200))).bytes());
            }
            // Nothing at all.
            _ => {}
        }
    }
}
