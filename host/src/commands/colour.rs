//! Responses in the terminal, each token coloured by its credit: advantage times weight, green for praise, red for blame.

use std::{env, io::IsTerminal};

use accredit_core::episode::{TokenKind, Trajectory};
use clap::ValueEnum;

use crate::credit::offline::{ScoredStep, ScoredTrajectory};

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How credit is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colouring {
    /// By colours.
    Colours,
    /// By numbers behind every run of tokens with equal credit.
    Numbers,
}

impl Colouring {
    /// Colours or numbers, as the user and the terminal want it.
    pub fn new(when: When) -> Self {
        let colours = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => env::var_os("NO_COLOR").is_none() && std::io::stdout().is_terminal(),
        };
        if colours { Self::Colours } else { Self::Numbers }
    }
}

/// All trajectories as text.
pub fn coloured(episodes: &[Trajectory], scored: &[ScoredTrajectory], colouring: Colouring) -> String {
    let credit = |step: &ScoredStep| -> Vec<f32> {
        step.advantage.iter().zip(&step.weight).map(|(advantage, weight)| advantage * weight).collect()
    };
    let strongest = scored
        .iter()
        .flat_map(|trajectory| trajectory.steps.iter().flat_map(credit))
        .fold(0.0_f32, |most, credit| most.max(credit.abs()));
    let mut text = String::new();
    for (episode, trajectory) in episodes.iter().zip(scored) {
        let reward: f32 = episode.steps.iter().filter_map(|step| step.reward).sum();
        text.push_str(&format!(
            "{} {}: reward {}{}\n",
            trajectory.group,
            trajectory.trajectory,
            episode.outcome.unwrap_or(reward),
            trajectory.left_out.map(|why| format!(", left out: {why}")).unwrap_or_default()
        ));
        for (number, (step, scored)) in episode.steps.iter().zip(&trajectory.steps).enumerate() {
            let pieces = pieces_of(step, scored.advantage.len());
            text.push_str(&format!("  {number}: "));
            text.push_str(&paint(&pieces, &credit(scored), strongest, colouring));
            text.push('\n');
        }
    }
    text
}

/// The text of each token; where the file has none, what the token is.
fn pieces_of(step: &accredit_core::episode::Step, tokens: usize) -> Vec<String> {
    if step.tokens.text.len() == tokens {
        return step.tokens.text.clone();
    }
    (0..tokens)
        .map(|token| match step.tokens.kind.get(token) {
            Some(TokenKind::Think) => "think ".to_owned(),
            Some(TokenKind::Action) => "action ".to_owned(),
            Some(TokenKind::Format) => "format ".to_owned(),
            Some(TokenKind::Observation) => String::new(),
            None => "token ".to_owned(),
        })
        .collect()
}

fn paint(pieces: &[String], credit: &[f32], strongest: f32, colouring: Colouring) -> String {
    let mut text = String::new();
    let mut start = 0;
    while start < pieces.len() {
        let value = credit.get(start).copied().unwrap_or(0.0);
        let same = |index: &usize| credit.get(*index).copied().unwrap_or(0.0) == value;
        let end = (start..pieces.len()).take_while(same).last().map_or(start + 1, |last| last + 1);
        // A line stays a line, whatever the policy wrote.
        let run = pieces[start..end].concat().escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'");
        if !run.is_empty() {
            match colouring {
                Colouring::Colours => {
                    let (red, green, blue) = colour(value, strongest);
                    text.push_str(&format!("\u{1b}[48;2;{red};{green};{blue}m{run}\u{1b}[0m"));
                }
                Colouring::Numbers => text.push_str(&format!("{run}[{value:+.3}]")),
            }
        }
        start = end;
    }
    text
}

/// A dark background for no credit, towards green for praise and red for blame; small credit stays visible.
fn colour(value: f32, strongest: f32) -> (u8, u8, u8) {
    const BASE: f32 = 40.0;
    if strongest == 0.0 || value == 0.0 {
        return (BASE as u8, BASE as u8, BASE as u8);
    }
    let strength = BASE + (200.0 - BASE) * (value.abs() / strongest).sqrt();
    let rest = BASE as u8;
    if value > 0.0 { (rest, strength as u8, rest) } else { (strength as u8, rest, rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_credit_is_one_run_and_numbers_stand_behind_it() {
        let pieces = ["a", "b", "c\n"].map(str::to_owned);
        let text = paint(&pieces, &[1.0, 1.0, -0.5], 1.0, Colouring::Numbers);
        assert_eq!(text, "ab[+1.000]c\\n[-0.500]");
    }

    #[test]
    fn praise_is_green_and_blame_is_red() {
        assert_eq!(colour(1.0, 1.0), (40, 200, 40));
        assert_eq!(colour(-1.0, 1.0), (200, 40, 40));
        assert_eq!(colour(0.0, 1.0), (40, 40, 40));
        assert_eq!(colour(0.0, 0.0), (40, 40, 40));
    }
}
