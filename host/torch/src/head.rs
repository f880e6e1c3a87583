//! The output layer: from hidden states to log-prob, entropy and energy of target tokens, and from their derivatives
//! back to the hidden states.
//!
//! Logits are vocabulary times larger than anything else, so they are made a chunk of targets at a time. The way back
//! is written out, since the derivatives have closed forms; autograd would keep several copies of the logits.
//!
//! With logits z, temperature τ, p = softmax(z / τ), target t and entropy H = -Σ p ln p:
//!
//! ```text
//! ∂ ln p_t / ∂ z_j = ([j = t] - p_j) / τ
//! ∂ H      / ∂ z_j = -p_j (ln p_j + H) / τ
//! ```
//!
//! Axes: N targets, D hidden size, V vocabulary.

use tch::{Kind, Tensor};

use crate::dtype::DType;
use crate::error::Result;
use crate::linear::converted;
use crate::score::{Scores, Wanted};

/// Logits made at a time: 64 MiB.
const LOGITS_PER_CHUNK: i64 = 1 << 24;
/// Log-probabilities of the whole vocabulary that a forward pass may keep for its backward pass: 256 MiB. Beyond that
/// they are made a second time.
const LOGITS_KEPT: i64 = 1 << 26;

/// The output layer at a temperature.
#[derive(Debug)]
pub(crate) struct Head {
    /// `[V, D]`, of the hidden states' type.
    weight: Tensor,
    temperature: f64,
    targets_per_chunk: i64,
    logits_kept: i64,
}

impl Head {
    /// For hidden states of this type. Logits and what is made of them are f32.
    pub(crate) fn new(weight: &Tensor, temperature: f64, dtype: DType) -> Result<Self> {
        let targets_per_chunk = (LOGITS_PER_CHUNK / weight.size()[0]).max(1);
        let weight = converted(weight, dtype.kind())?;
        Ok(Self { weight, temperature, targets_per_chunk, logits_kept: LOGITS_KEPT })
    }

    /// Starts and lengths of the chunks of `n` targets.
    fn chunks(&self, n: i64) -> impl Iterator<Item = (i64, i64)> {
        let size = self.targets_per_chunk;
        (0..n).step_by(size as usize).map(move |start| (start, size.min(n - start)))
    }

    /// `[n, D]` to ln softmax(logits / τ), `[n, V]`.
    fn log_probabilities(&self, logits_nv: Tensor) -> Result<Tensor> {
        let scaled = if self.temperature == 1.0 { logits_nv } else { logits_nv.f_div_scalar(self.temperature)? };
        Ok(scaled.f_log_softmax(-1, Kind::Float)?)
    }

    fn logits(&self, hidden_nd: &Tensor) -> Result<Tensor> {
        converted(&hidden_nd.f_linear(&self.weight, None::<Tensor>)?, Kind::Float)
    }

    /// The wanted columns of the targets `[N]` that the hidden states `[N, D]` predict. Records no gradients: call it
    /// with detached tensors.
    pub(crate) fn columns(&self, hidden_nd: &Tensor, targets_n: &Tensor, wanted: Wanted) -> Result<Scores> {
        let mut scores = Scores::default();
        for (start, length) in self.chunks(targets_n.size()[0]) {
            let logits = self.logits(&hidden_nd.f_narrow(0, start, length)?)?;
            if wanted.energy {
                extend(&mut scores.energy, &logits.f_logsumexp(-1, false)?.f_neg()?)?;
            }
            if wanted.logprob || wanted.entropy {
                let log_p = self.log_probabilities(logits)?;
                self.extend_columns(&mut scores, &log_p, &targets_n.f_narrow(0, start, length)?, wanted)?;
            }
        }
        Ok(scores)
    }

    /// The ids of the `k` likeliest tokens at each of the hidden states `[N, D]`, as numbers, the likeliest first.
    pub(crate) fn likeliest(&self, hidden_nd: &Tensor, k: i64) -> Result<Vec<f32>> {
        let mut ids = Vec::new();
        for (start, length) in self.chunks(hidden_nd.size()[0]) {
            let logits = self.logits(&hidden_nd.f_narrow(0, start, length)?)?;
            let (_, found) = logits.f_topk(k, -1, true, true)?;
            extend(&mut ids, &found.f_to_kind(Kind::Float)?)?;
        }
        Ok(ids)
    }

    /// Log-probabilities of the tokens `[N, k]` that are listed for the hidden states `[N, D]`.
    pub(crate) fn listed(&self, hidden_nd: &Tensor, ids_nk: &Tensor) -> Result<Vec<f32>> {
        let mut listed = Vec::new();
        for (start, length) in self.chunks(hidden_nd.size()[0]) {
            let log_p = self.log_probabilities(self.logits(&hidden_nd.f_narrow(0, start, length)?)?)?;
            extend(&mut listed, &log_p.f_gather(-1, &ids_nk.f_narrow(0, start, length)?, false)?)?;
        }
        Ok(listed)
    }

    /// As [`Head::columns`], with the log-probabilities of the listed tokens `[N, k]`, and keeps the log-probabilities
    /// of each chunk unless they are too large.
    pub(crate) fn columns_for_backward(
        &self,
        hidden_nd: &Tensor,
        targets_n: &Tensor,
        wanted: Wanted,
        ids_nk: Option<&Tensor>,
    ) -> Result<(Scores, Vec<f32>, Vec<Tensor>)> {
        let n = targets_n.size()[0];
        let keep = n * self.weight.size()[0] <= self.logits_kept;
        let (mut scores, mut listed, mut kept) = (Scores::default(), Vec::new(), Vec::new());
        for (start, length) in self.chunks(n) {
            let log_p = self.log_probabilities(self.logits(&hidden_nd.f_narrow(0, start, length)?)?)?;
            self.extend_columns(&mut scores, &log_p, &targets_n.f_narrow(0, start, length)?, wanted)?;
            if let Some(ids) = ids_nk {
                extend(&mut listed, &log_p.f_gather(-1, &ids.f_narrow(0, start, length)?, false)?)?;
            }
            if keep {
                kept.push(log_p);
            }
        }
        Ok((scores, listed, kept))
    }

    #[expect(clippy::unused_self, reason = "reads as a part of the two methods above")]
    fn extend_columns(&self, scores: &mut Scores, log_p_nv: &Tensor, targets_n: &Tensor, wanted: Wanted) -> Result<()> {
        if wanted.logprob {
            extend(&mut scores.logprob, &log_p_nv.f_gather(-1, &targets_n.f_unsqueeze(-1)?, false)?)?;
        }
        if wanted.entropy {
            let mut terms = log_p_nv.f_exp()?;
            let _same = terms.f_mul_(log_p_nv)?;
            extend(&mut scores.entropy, &terms.f_sum_dim_intlist(-1, false, Kind::Float)?.f_neg()?)?;
        }
        Ok(())
    }

    /// Derivative `[N, D]` of Σ column × derivative with respect to the hidden states. Adds the one with respect to the
    /// output layer to `weight_gradient` `[V, D]`, in f32, where that layer is trained. `kept` is what [`Head::columns_for_backward`] kept.
    pub(crate) fn backward(
        &self,
        hidden_nd: &Tensor,
        targets_n: &Tensor,
        columns: &ColumnsBack,
        kept: Vec<Tensor>,
        weight_gradient: Option<&Tensor>,
    ) -> Result<Tensor> {
        let gradient = hidden_nd.f_empty_like()?;
        let mut kept = kept.into_iter();
        for (start, length) in self.chunks(targets_n.size()[0]) {
            let hidden = hidden_nd.f_narrow(0, start, length)?;
            let targets = targets_n.f_narrow(0, start, length)?.f_unsqueeze(-1)?;
            let part = |column: &Tensor| column.f_narrow(0, start, length)?.f_unsqueeze(-1);
            let by_logprob = part(&columns.logprob)?.f_div_scalar(self.temperature)?;
            let listed = match &columns.listed {
                Some((by_listed, ids)) => Some((
                    by_listed.f_narrow(0, start, length)?.f_div_scalar(self.temperature)?,
                    ids.f_narrow(0, start, length)?,
                )),
                None => None,
            };
            // What every probability is multiplied with: the derivatives of all log-probabilities at this place.
            let together = match &listed {
                Some((by_listed, _)) => by_logprob.f_add(&by_listed.f_sum_dim_intlist(-1, true, Kind::Float)?)?,
                None => by_logprob.shallow_clone(),
            };
            let mut log_p = match kept.next() {
                Some(log_p) => log_p,
                None => self.log_probabilities(self.logits(&hidden)?)?,
            };
            let mut back = if let Some((by_entropy, entropy)) = &columns.entropy {
                let by_entropy = part(by_entropy)?.f_div_scalar(self.temperature)?;
                let p = log_p.f_exp()?;
                let constant = part(entropy)?.f_mul(&by_entropy)?.f_add(&together)?;
                let _same = log_p.f_mul_(&by_entropy)?.f_add_(&constant)?.f_mul_(&p)?;
                log_p
            } else {
                let _same = log_p.f_exp_()?.f_mul_(&together)?;
                log_p
            };
            let _same = back.f_neg_()?.f_scatter_add_(-1, &targets, &by_logprob)?;
            if let Some((by_listed, ids)) = &listed {
                let _same = back.f_scatter_add_(-1, ids, by_listed)?;
            }
            let back = converted(&back, hidden.f_kind()?)?;
            gradient.f_narrow(0, start, length)?.f_copy_(&back.f_mm(&self.weight)?)?;
            let Some(to) = weight_gradient else { continue };
            let _same = if hidden.f_kind()? == Kind::Float {
                to.shallow_clone().f_addmm_(&back.f_tr()?, &hidden)?
            } else {
                to.shallow_clone().f_add_(&back.f_tr()?.f_mm(&hidden)?)?
            };
        }
        Ok(gradient)
    }
}

/// Derivatives of the loss with respect to the columns, each `[N]`.
pub(crate) struct ColumnsBack {
    pub(crate) logprob: Tensor,
    /// With respect to the entropy, and the entropy itself.
    pub(crate) entropy: Option<(Tensor, Tensor)>,
    /// With respect to the log-probabilities of the listed tokens, `[N, k]`, and the tokens' ids.
    pub(crate) listed: Option<(Tensor, Tensor)>,
}

/// Adds the numbers of a tensor to a column.
pub(crate) fn extend(column: &mut Vec<f32>, values: &Tensor) -> Result<()> {
    let start = column.len();
    column.resize(start + values.numel(), 0.0);
    let values = values.f_to_device(tch::Device::Cpu)?.f_contiguous()?;
    Ok(values.f_copy_data(&mut column[start..], values.numel())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Wanted = Wanted { logprob: true, entropy: true, energy: true };

    fn random(shape: [i64; 2]) -> Tensor {
        Tensor::randn(shape, (Kind::Double, tch::Device::Cpu)).to_kind(Kind::Float)
    }

    fn close(a: &[f32], b: &Tensor, tolerance: f64) {
        let difference = (Tensor::from_slice(a) - b.view([-1])).abs().max().double_value(&[]);
        assert!(difference < tolerance, "{difference}");
    }

    #[test]
    fn columns_are_their_definitions() {
        let (hidden, weight) = (random([7, 5]), random([13, 5]));
        let targets = Tensor::from_slice(&[0_i64, 12, 3, 3, 5, 7, 1]);
        let logits = hidden.matmul(&weight.tr());
        let log_p = (&logits / 0.7).log_softmax(-1, Kind::Float);
        let scores = Head { targets_per_chunk: 3, ..Head::new(&weight, 0.7, DType::F32).unwrap() }
            .columns(&hidden, &targets, ALL)
            .unwrap();
        close(&scores.logprob, &log_p.gather(-1, &targets.unsqueeze(-1), false), 1e-5);
        close(&scores.entropy, &-(log_p.exp() * &log_p).sum_dim_intlist(-1, false, Kind::Float), 1e-5);
        close(&scores.energy, &-logits.logsumexp(-1, false), 1e-5);
    }

    /// The written derivatives against autograd's, with and without entropy, kept or made again, in chunks or at once.
    #[test]
    fn the_way_back_is_autograds() {
        let (n, d, v) = (7, 5, 13);
        let targets = Tensor::from_slice(&[0_i64, 12, 3, 3, 5, 7, 1]);
        let (a, b) = (random([n, 1]).view([-1]), random([n, 1]).view([-1]));
        for (with_entropy, temperature) in [(false, 1.0), (true, 1.0), (true, 0.6)] {
            let hidden = random([n, d]).set_requires_grad(true);
            let weight = random([v, d]).set_requires_grad(true);
            let log_p = (hidden.matmul(&weight.tr()) / temperature).log_softmax(-1, Kind::Float);
            let mut loss = (log_p.gather(-1, &targets.unsqueeze(-1), false).view([-1]) * &a).sum(Kind::Float);
            if with_entropy {
                loss -= ((log_p.exp() * &log_p).sum_dim_intlist(-1, false, Kind::Float) * &b).sum(Kind::Float);
            }
            loss.backward();
            let (plain_hidden, plain_weight) = (hidden.detach(), weight.detach());
            for (targets_per_chunk, logits_kept) in [(100, 1000), (3, 1000), (3, 0)] {
                let head = Head { weight: plain_weight.shallow_clone(), temperature, targets_per_chunk, logits_kept };
                let wanted = Wanted { energy: false, ..ALL };
                let (scores, _, kept) = head.columns_for_backward(&plain_hidden, &targets, wanted, None).unwrap();
                assert_eq!(kept.is_empty(), logits_kept == 0);
                let columns = ColumnsBack {
                    logprob: a.shallow_clone(),
                    entropy: with_entropy.then(|| (b.shallow_clone(), Tensor::from_slice(&scores.entropy))),
                    listed: None,
                };
                let weight_gradient = weight.zeros_like();
                let gradient = head.backward(&plain_hidden, &targets, &columns, kept, Some(&weight_gradient)).unwrap();
                let off = |x: &Tensor, y: &Tensor| (x - y).abs().max().double_value(&[]);
                assert!(off(&gradient, &hidden.grad()) < 1e-5, "{}", off(&gradient, &hidden.grad()));
                assert!(off(&weight_gradient, &weight.grad()) < 1e-5, "{}", off(&weight_gradient, &weight.grad()));
            }
        }
    }
}
