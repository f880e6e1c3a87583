//! Behaviour cloning: the mean log-probability of demonstrated responses, raised by the same forward and backward passes
//! as everything else.

use accredit_core::rng::Stream;
use accredit_torch::{Derivatives, Error, Model, Optimizer, Row, Wanted, passes};

use super::{cosine, learning_rate};
use crate::config::WarmStart;

/// Clones demonstrations. `progress` is told the step and the loss after each; it says whether to go on.
pub fn imitate(
    model: &Model,
    optimizer: &mut Optimizer,
    rows: &[Row<'_>],
    config: &WarmStart,
    tokens_per_pass: usize,
    order: Stream,
    mut progress: impl FnMut(u64, f64) -> bool,
) -> Result<f64, Error> {
    let schedule = cosine(config.lr, config.warmup_updates, config.min_lr_share);
    let mut queue: Vec<usize> = Vec::new();
    let mut epoch = 0;
    let mut loss = f64::NAN;
    for update in 0..config.updates {
        let mut picked = Vec::with_capacity(config.batch_rows);
        while picked.len() < config.batch_rows.min(rows.len()) {
            if queue.is_empty() {
                queue = (0..rows.len()).collect();
                order.with(epoch).shuffle(&mut queue);
                epoch += 1;
            }
            picked.extend(queue.pop());
        }
        let tokens: usize = picked.iter().map(|row| rows[*row].targets.len()).sum();
        let lengths: Vec<usize> = picked.iter().map(|row| rows[*row].tokens.len()).collect();
        optimizer.zero_grad()?;
        loss = 0.0;
        for pass in passes(&lengths, tokens_per_pass) {
            let inputs: Vec<Row<'_>> = pass.iter().map(|index| rows[picked[*index]]).collect();
            let forward = model.forward(&inputs, 1.0, Wanted { logprob: true, ..Wanted::default() })?;
            let share = 1.0 / tokens.max(1) as f64;
            loss -= forward.logprob().iter().map(|logprob| f64::from(*logprob)).sum::<f64>() * share;
            let derivative = vec![-(share as f32); forward.logprob().len()];
            forward.backward(&Derivatives { logprob: &derivative, ..Derivatives::default() })?;
        }
        optimizer.step(learning_rate(&schedule, update, config.updates))?;
        if !progress(update, loss) {
            break;
        }
    }
    Ok(loss)
}
