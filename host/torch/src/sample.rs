//! One token out of one distribution, with one uniform number.

use crate::error::{Error, Result};

/// How a token is drawn from logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the likeliest token.
    pub temperature: f32,
    /// Only so many likeliest tokens.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens that together reach this share, after `top_k`.
    pub top_p: Option<f32>,
    /// Only tokens that are at least this many times as likely as the likeliest, after `top_p`.
    pub min_p: Option<f32>,
}

impl Default for Sampling {
    /// From the model's own distribution.
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: None, min_p: None }
    }
}

/// Probabilities that are added up at a time; 16 sums run side by side within.
const BLOCK: usize = 256;

impl Sampling {
    pub(crate) fn check(&self) -> Result<()> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(Error::argument("temperature", format!("{} must not be negative", self.temperature)));
        }
        if self.top_k == Some(0) {
            return Err(Error::argument("top_k", "0 leaves no token"));
        }
        if let Some(top_p) = self.top_p
            && !(top_p > 0.0 && top_p <= 1.0)
        {
            return Err(Error::argument("top_p", format!("{top_p} must lie in (0, 1]")));
        }
        if let Some(min_p) = self.min_p
            && !(0.0..=1.0).contains(&min_p)
        {
            return Err(Error::argument("min_p", format!("{min_p} must lie in [0, 1]")));
        }
        Ok(())
    }

    pub(crate) fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// A token and its log-prob under the distribution that it was drawn from: `probabilities` cut by top-k, top-p, min-p.
    /// `uniform` lies in `[0, 1)`. None where the probabilities are not finite.
    pub(crate) fn draw(&self, probabilities: &[f32], uniform: f64) -> Option<(u32, f32)> {
        let cut = self.top_k.is_some_and(|k| k < probabilities.len())
            || self.top_p.is_some_and(|p| p < 1.0)
            || self.min_p.is_some_and(|p| p > 0.0);
        if cut { self.draw_cut(probabilities, uniform) } else { draw_all(probabilities, uniform) }
    }

    fn draw_cut(&self, probabilities: &[f32], uniform: f64) -> Option<(u32, f32)> {
        if !total(&block_sums(probabilities)).is_finite() {
            return None;
        }
        // Likeliest first, and the lower id first among equals.
        let likelier =
            |a: &u32, b: &u32| probabilities[*b as usize].total_cmp(&probabilities[*a as usize]).then(a.cmp(b));
        let sum = |ids: &[u32]| ids.iter().map(|id| f64::from(probabilities[*id as usize])).sum::<f64>();
        let mut ids: Vec<u32> = (0..probabilities.len() as u32).collect();
        if let Some(k) = self.top_k.filter(|k| *k < ids.len()) {
            ids.select_nth_unstable_by(k - 1, likelier);
            ids.truncate(k);
        }
        if let Some(top_p) = self.top_p {
            let whole = sum(&ids);
            // All tokens below this together weigh less than what top-p leaves out, so none of them is kept.
            let least = f64::from(1.0 - top_p) * whole / ids.len() as f64;
            ids.retain(|id| f64::from(probabilities[*id as usize]) >= least);
            ids.sort_unstable_by(likelier);
            let mut reached = 0.0;
            let last = ids.iter().position(|id| {
                reached += f64::from(probabilities[*id as usize]);
                reached >= f64::from(top_p) * whole
            });
            ids.truncate(last.map_or(ids.len(), |last| last + 1));
        } else {
            ids.sort_unstable_by(likelier);
        }
        if let (Some(min_p), Some(likeliest)) = (self.min_p, ids.first()) {
            let least = min_p * probabilities[*likeliest as usize];
            ids.retain(|id| probabilities[*id as usize] >= least);
        }
        let whole = sum(&ids);
        let mut left = uniform * whole;
        let mut drawn = None;
        for id in ids {
            let p = f64::from(probabilities[id as usize]);
            if p > 0.0 {
                drawn = Some((id, (p / whole).ln() as f32));
                if left < p {
                    break;
                }
            }
            left -= p;
        }
        drawn
    }
}

/// The first id at which the cumulative probability exceeds `uniform`, by sums over blocks first.
fn draw_all(probabilities: &[f32], uniform: f64) -> Option<(u32, f32)> {
    let sums = block_sums(probabilities);
    let whole = total(&sums);
    if !whole.is_finite() {
        return None;
    }
    let mut left = uniform * whole;
    let mut block = 0;
    while block + 1 < sums.len() && left >= sums[block] {
        left -= sums[block];
        block += 1;
    }
    // Rounding may leave a rest at the end of the last block: its last possible token then.
    let mut drawn = None;
    for (id, p) in probabilities.iter().enumerate().skip(block * BLOCK) {
        if *p > 0.0 {
            drawn = Some((id as u32, *p));
            if left < f64::from(*p) {
                break;
            }
            left -= f64::from(*p);
        }
    }
    // A last block of zeros, reached by rounding: the last possible token of all.
    let drawn = drawn.or_else(|| {
        let id = probabilities.iter().rposition(|p| *p > 0.0)?;
        Some((id as u32, probabilities[id]))
    });
    drawn.map(|(id, p)| (id, (f64::from(p) / whole).ln() as f32))
}

fn block_sums(probabilities: &[f32]) -> Vec<f64> {
    let sum = |block: &[f32]| {
        let mut lanes = [0.0_f32; 16];
        let (whole, rest) = block.as_chunks::<16>();
        for chunk in whole {
            for (lane, p) in lanes.iter_mut().zip(chunk) {
                *lane += p;
            }
        }
        f64::from(lanes.iter().sum::<f32>() + rest.iter().sum::<f32>())
    };
    probabilities.chunks(BLOCK).map(sum).collect()
}

fn total(sums: &[f64]) -> f64 {
    sums.iter().sum()
}

/// The likeliest token, the lowest id among equals. None where the logits are not finite.
pub(crate) fn argmax(logits: &[f32]) -> Option<u32> {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if *logit > logits[best] {
            best = id;
        }
    }
    logits.get(best).filter(|logit| logit.is_finite()).map(|_| best as u32)
}

#[cfg(test)]
mod tests {
    use accredit_core::rng::{Purpose, Stream};

    use super::*;

    const PLAIN: Sampling = Sampling { temperature: 1.0, top_k: None, top_p: None, min_p: None };

    /// 1000 probabilities, some of them 0.
    fn distribution() -> Vec<f32> {
        let weights: Vec<f32> =
            (0..1000_u16).map(|i| if i % 7 == 3 { 0.0 } else { 1.0 / f32::from(i % 50 + 1) }).collect();
        let sum: f32 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    fn check_frequencies(sampling: Sampling, expected: &[f64]) {
        let (stream, draws, distribution) = (Stream::new(3, Purpose::Other), 20_000, distribution());
        let mut counts = vec![0.0; expected.len()];
        for i in 0..draws {
            let (id, logprob) = sampling.draw(&distribution, stream.uniform(i)).unwrap();
            counts[id as usize] += 1.0;
            assert!((f64::from(logprob) - expected[id as usize].ln()).abs() < 1e-4);
        }
        // Pearson's statistic has mean n and variance 2 n.
        let cells = expected.iter().filter(|p| **p > 0.0).count() as f64;
        let statistic: f64 = counts
            .iter()
            .zip(expected)
            .filter(|(_, p)| **p > 0.0)
            .map(|(count, p)| (count - p * draws as f64).powi(2) / (p * draws as f64))
            .sum();
        assert!((statistic - cells).abs() < 5.0 * (2.0 * cells).sqrt(), "{statistic} for {cells} cells");
    }

    #[test]
    fn tokens_come_as_often_as_they_should() {
        check_frequencies(PLAIN, &distribution().iter().map(|p| f64::from(*p)).collect::<Vec<_>>());
    }

    /// The distribution with only the likeliest `count` tokens.
    fn cut(count: usize) -> Vec<f64> {
        let all = distribution();
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by(|a, b| all[*b].total_cmp(&all[*a]).then(a.cmp(b)));
        let sum: f64 = order[..count].iter().map(|i| f64::from(all[*i])).sum();
        let mut kept = vec![0.0; all.len()];
        for i in &order[..count] {
            kept[*i] = f64::from(all[*i]) / sum;
        }
        kept
    }

    #[test]
    fn top_k_and_top_p_cut_and_renormalise() {
        check_frequencies(Sampling { top_k: Some(30), ..PLAIN }, &cut(30));
        // 17 tokens are the likeliest.
        let likeliest = cut(1000).into_iter().fold(0.0, f64::max);
        check_frequencies(Sampling { top_k: Some(17), top_p: Some(0.5), ..PLAIN }, &cut(9));
        check_frequencies(Sampling { top_p: Some(16.5 * likeliest as f32), ..PLAIN }, &cut(17));
        // Weights are 1, 1/2, ... 1/50: the first three are at least 0.3 times the likeliest.
        let kept = distribution().iter().filter(|p| f64::from(**p) >= 0.3 * likeliest).count();
        assert!(kept > 17 && kept < 100, "{kept}");
        check_frequencies(Sampling { min_p: Some(0.3), ..PLAIN }, &cut(kept));
        check_frequencies(Sampling { top_k: Some(30), min_p: Some(0.9), ..PLAIN }, &cut(17));
    }

    #[test]
    fn the_ends_of_the_unit_interval_give_possible_tokens() {
        let mut p = vec![0.0; 600];
        p[5] = 0.25;
        p[300] = 0.75;
        assert_eq!(PLAIN.draw(&p, 0.0).unwrap().0, 5);
        assert_eq!(PLAIN.draw(&p, 0.2499).unwrap().0, 5);
        assert_eq!(PLAIN.draw(&p, 0.25).unwrap().0, 300);
        assert_eq!(PLAIN.draw(&p, 1.0_f64.next_down()).unwrap().0, 300);
    }

    #[test]
    fn numbers_that_are_not_finite_give_no_token() {
        for sampling in [PLAIN, Sampling { top_k: Some(1), ..PLAIN }] {
            assert_eq!(sampling.draw(&[0.5, f32::NAN], 0.1), None);
        }
        assert_eq!(argmax(&[0.0, f32::NAN]), None);
        assert_eq!(argmax(&[0.0, f32::INFINITY]), None);
        assert_eq!(argmax(&[0.5, 2.0, 2.0]), Some(1));
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let error = |sampling: Sampling| sampling.check().unwrap_err().to_string();
        assert_eq!(error(Sampling { temperature: -1.0, ..PLAIN }), "temperature: -1 must not be negative");
        assert_eq!(error(Sampling { top_k: Some(0), ..PLAIN }), "top_k: 0 leaves no token");
        assert_eq!(error(Sampling { top_p: Some(1.5), ..PLAIN }), "top_p: 1.5 must lie in (0, 1]");
        assert_eq!(error(Sampling { min_p: Some(-0.5), ..PLAIN }), "min_p: -0.5 must lie in [0, 1]");
    }
}
