//! Distributions over a small vocabulary as episodes of the host: one row is one step, and a place is a token with the
//! log-probabilities of the likeliest tokens there.

use accredit_core::episode::{Layout, Step, TokenKind, Tokens, Trajectory};
use anyhow::{Result, ensure};

use crate::{
    files::{DistributionInput, DistributionRow},
    plan::Places,
};

/// The episodes that a run is made on.
pub fn episodes(input: &DistributionInput, places: Places) -> Vec<Trajectory> {
    let rows = input.rows.iter().zip(&input.self_distillation_mask);
    rows.map(|(row, mask)| {
        let step = Step { reward: Some(0.0), tokens: tokens(row, *mask != 0, places), ..Step::default() };
        Trajectory { layout: Layout::Step, group: "rows".to_owned(), steps: vec![step], ..Trajectory::default() }
    })
    .collect()
}

fn tokens(row: &DistributionRow, has_teacher: bool, places: Places) -> Tokens {
    let mut tokens = Tokens::default();
    let (mut new, mut old, mut teachers) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..row.token_ids.len() {
        let student = log_softmax(&row.student_logits[place]);
        let teacher = log_softmax(&row.teacher_logits[place]);
        let trained = places.unmasked || row.response_mask[place] != 0;
        tokens.kind.push(if trained { TokenKind::Action } else { TokenKind::Observation });
        let id = row.token_ids[place];
        new.push(student[id] as f32);
        old.push((student[id] + row.old_logprob_minus_student_logprob[place]) as f32);
        let ids = likeliest(&row.student_logits[place], places.k);
        let at = |logprobs: &[f64]| ids.iter().map(|id| logprobs[*id] as f32).collect::<Vec<_>>();
        tokens.top_k.new_logprob.push(at(&student));
        let taught = has_teacher || places.unmasked;
        teachers.push(if taught { teacher[id] as f32 } else { f32::NAN });
        tokens.top_k.teacher_logprob.push(taught.then(|| at(&teacher)));
        tokens.top_k.id.push(ids.iter().map(|id| *id as u32).collect());
    }
    let columns = [("new_logprob", new), ("old_logprob", old), ("teacher_logprob", teachers)];
    tokens.columns = columns.map(|(name, column)| (name.to_owned(), column)).into();
    tokens
}

/// Derivatives with respect to the logits, from those with respect to the log-probabilities of the likeliest tokens:
/// `d_j - p_j sum(d)`, and 0 at a place that is not trained.
pub fn logit_slopes(input: &DistributionInput, places: Places, slopes: &[f64]) -> Result<Vec<f64>> {
    let mut out = Vec::new();
    let mut slopes = slopes.iter().copied();
    for row in &input.rows {
        for (place, logits) in row.student_logits.iter().enumerate() {
            let mut found = vec![0.0; logits.len()];
            if places.unmasked || row.response_mask[place] != 0 {
                for id in likeliest(logits, places.k) {
                    found[id] = slopes.next().unwrap_or(f64::NAN);
                }
                let sum: f64 = found.iter().sum();
                for (found, logprob) in found.iter_mut().zip(log_softmax(logits)) {
                    *found -= logprob.exp() * sum;
                }
            }
            out.extend(found);
        }
    }
    ensure!(slopes.next().is_none(), "more derivatives than places have tokens");
    Ok(out)
}

fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().fold(f64::NEG_INFINITY, |largest, logit| largest.max(*logit));
    let sum: f64 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    logits.iter().map(|logit| logit - largest - sum.ln()).collect()
}

/// The ids of the largest logits, in descending order.
fn likeliest(logits: &[f64], k: Option<usize>) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    ids.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    ids.truncate(k.unwrap_or(logits.len()));
    ids
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input() -> DistributionInput {
        serde_json::from_value(json!({
            "schema": "accredit-dist/1",
            "self_distillation_mask": [1, 0],
            "rows": [
                {"student_logits": [[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]], "teacher_logits": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
                 "token_ids": [2, 0], "old_logprob_minus_student_logprob": [0.5, 0.0], "response_mask": [1, 0]},
                {"student_logits": [[3.0, 2.0, 1.0]], "teacher_logits": [[0.0, 0.0, 0.0]],
                 "token_ids": [0], "old_logprob_minus_student_logprob": [0.0], "response_mask": [1]},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn places_become_tokens_with_lists() {
        let masked = episodes(&input(), Places { k: Some(2), unmasked: false });
        let tokens = &masked[0].steps[0].tokens;
        assert_eq!(tokens.kind, [TokenKind::Action, TokenKind::Observation]);
        assert_eq!(tokens.top_k.id[0], [1, 2]);
        let difference = tokens.columns["old_logprob"][0] - tokens.columns["new_logprob"][0];
        assert!((difference - 0.5).abs() < 1e-6);
        let untaught = &masked[1].steps[0].tokens;
        assert!(untaught.columns["teacher_logprob"][0].is_nan());
        assert_eq!(untaught.top_k.teacher_logprob, [None]);
        let all = episodes(&input(), Places { k: None, unmasked: true });
        assert_eq!(all[0].steps[0].tokens.kind, [TokenKind::Action; 2]);
        assert!(all[1].steps[0].tokens.top_k.teacher_logprob[0].is_some());
    }

    #[test]
    fn slopes_pass_through_the_softmax() {
        let places = Places { k: Some(2), unmasked: false };
        let found = logit_slopes(&input(), places, &[1.0, 0.5, 0.0, 0.0]).unwrap();
        assert_eq!(found.len(), 9);
        let probability = |logit: f64| logit.exp() / (1.0 + 2.0_f64.exp() + 1.0_f64.exp());
        let expected = [-1.5 * probability(0.0), 1.0 - 1.5 * probability(2.0), 0.5 - 1.5 * probability(1.0)];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12);
        }
        assert!(found[3..].iter().all(|slope| *slope == 0.0));
        assert!(logit_slopes(&input(), places, &[0.0; 5]).is_err());
    }
}
