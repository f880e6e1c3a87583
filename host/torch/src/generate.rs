//! Sampling answers to a batch of prompts, each a conversation of one response.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use accredit_core::rng::Stream;

use crate::decode::Decoder;
use crate::device::set_threads;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::sample::Sampling;
use crate::session::{Ask, Ends, Generated, Session};

/// What to sample. The slices over prompts are of one length.
#[derive(Clone, Copy, Debug)]
pub struct Generation<'a> {
    /// Token ids, none of them empty. What they begin with alike is read once.
    pub prompts: &'a [&'a [u32]],
    /// The noise of each answer: token i of it is drawn with `uniform(i)` of its stream and nothing else.
    pub noise: &'a [Stream],
    /// Longest answer to each prompt.
    pub max_new_tokens: &'a [usize],
    /// Ids that end an answer, and belong to it.
    pub stop: &'a [u32],
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// The prompts are dealt to so many threads in equal parts, in order; each uses one thread in libtorch. Logits may
    /// depend on it in their last bits. On a GPU one is used.
    pub threads: usize,
    /// Looked at before every token; true ends with [`Error::Cancelled`].
    pub cancelled: Option<&'a AtomicBool>,
}

/// Samples from a model as it was when the sampler was made.
#[derive(Debug)]
pub struct Sampler {
    decoder: Decoder,
    made_at: u64,
    version: Arc<AtomicU64>,
}

impl Model {
    /// Prepares the weights for sampling: one pass over them. To be done again after each update.
    pub fn sampler(&self) -> Result<Sampler> {
        let _no_grad = tch::no_grad_guard();
        let weights = self.weights();
        Ok(Sampler { decoder: Decoder::new(self)?, made_at: weights.version(), version: Arc::clone(&weights.version) })
    }
}

impl Sampler {
    /// A session for conversations of several responses, with room for so many at once. It belongs to the thread that
    /// uses it. Errors: sampling settings out of range, no room at all.
    pub fn session<'a>(
        &self,
        places: usize,
        sampling: Sampling,
        stop: &[u32],
        ends: Option<Ends<'a>>,
    ) -> Result<Session<'a>> {
        let decoder = (self.decoder.share(), self.made_at, Arc::clone(&self.version));
        Session::new(decoder, places, sampling, stop, ends)
    }

    /// How many threads sampling can use of so many.
    pub fn threads(&self, threads: usize) -> usize {
        if self.decoder.device().is_cpu() { threads.max(1) } else { 1 }
    }

    /// One answer per prompt, in the order of the prompts.
    ///
    /// Errors: arguments of different lengths or out of range, an empty prompt, an id outside the vocabulary, a prompt
    /// that leaves too few positions, a model that has changed since, logits that are not finite, a cancelled run.
    pub fn generate(&self, generation: &Generation) -> Result<Vec<Generated>> {
        let prompts = generation.prompts.len();
        for (name, len) in [("noise", generation.noise.len()), ("max_new_tokens", generation.max_new_tokens.len())] {
            if len != prompts {
                return Err(Error::argument(name, format!("{len} for {prompts} prompts")));
            }
        }
        if generation.threads == 0 {
            return Err(Error::argument("threads", "must be at least 1"));
        }
        let size = prompts.div_ceil(self.threads(generation.threads)).max(1);
        let shards: Vec<_> = (0..prompts).step_by(size).map(|start| start..prompts.min(start + size)).collect();
        let session = |shard: Range<usize>| {
            let session = self.session(shard.len(), generation.sampling, generation.stop, None)?;
            Ok((shard, session))
        };
        let shards = shards.into_iter().map(session).collect::<Result<Vec<_>>>()?;
        std::thread::scope(|scope| {
            let shards: Vec<_> = shards
                .into_iter()
                .map(|(shard, session)| {
                    scope.spawn(move || {
                        set_threads(1);
                        answer(session, generation, shard)
                    })
                })
                .collect();
            let mut answers = Vec::with_capacity(prompts);
            for shard in shards {
                answers.extend(shard.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(answers)
        })
    }
}

/// The answers to some of the prompts.
fn answer(mut session: Session<'_>, generation: &Generation, prompts: Range<usize>) -> Result<Vec<Generated>> {
    let mut answers = vec![Generated::EMPTY; prompts.len()];
    for conversation in prompts.clone().filter(|prompt| generation.max_new_tokens[*prompt] > 0) {
        session.ask(Ask {
            conversation,
            row: generation.prompts[conversation],
            noise: generation.noise[conversation],
            max_new_tokens: generation.max_new_tokens[conversation],
        })?;
    }
    while session.busy() > 0 {
        if generation.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Err(Error::Cancelled);
        }
        for (conversation, answer) in session.step()? {
            session.close(conversation);
            answers[conversation - prompts.start] = answer;
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use accredit_core::rng::Purpose;

    use super::*;
    use crate::session::StopReason;
    use crate::testing::model;
    use crate::{AdamW, Optimizer, Row, Wanted};

    /// Prompts of different lengths; two groups of three equal ones.
    fn prompts() -> Vec<Vec<u32>> {
        let mut prompts: Vec<Vec<u32>> =
            (0..8).map(|p| (0..2 + 3 * (p % 4)).map(|i| (5 * p + 7 * i) % 23).collect()).collect();
        for group in [1, 5] {
            prompts.splice(group..group, vec![prompts[group].clone(); 2]);
        }
        prompts
    }

    struct Request {
        prompts: Vec<Vec<u32>>,
        noise: Vec<Stream>,
        max_new_tokens: Vec<usize>,
    }

    impl Request {
        fn new() -> Self {
            let prompts = prompts();
            let noise = (0..prompts.len() as u64).map(|i| Stream::new(9, Purpose::Sampling).with(i)).collect();
            let max_new_tokens = (0..prompts.len()).map(|i| [20, 3, 11, 0, 7][i % 5]).collect();
            Self { prompts, noise, max_new_tokens }
        }

        /// The same prompts, noise and limits in another order or fewer.
        fn select(&self, indices: &[usize]) -> Self {
            Self {
                prompts: indices.iter().map(|i| self.prompts[*i].clone()).collect(),
                noise: indices.iter().map(|i| self.noise[*i]).collect(),
                max_new_tokens: indices.iter().map(|i| self.max_new_tokens[*i]).collect(),
            }
        }

        fn try_run(&self, sampler: &Sampler, change: impl Fn(&mut Generation)) -> Result<Vec<Generated>> {
            let prompts: Vec<&[u32]> = self.prompts.iter().map(Vec::as_slice).collect();
            let mut generation = Generation {
                prompts: &prompts,
                noise: &self.noise,
                max_new_tokens: &self.max_new_tokens,
                stop: &[4],
                sampling: Sampling::default(),
                threads: 1,
                cancelled: None,
            };
            change(&mut generation);
            sampler.generate(&generation)
        }

        fn run(&self, sampler: &Sampler) -> Vec<Generated> {
            self.try_run(sampler, |_| ()).unwrap()
        }
    }

    fn check_equal(a: &Generated, b: &Generated) {
        assert_eq!((&a.tokens, a.stop), (&b.tokens, b.stop));
        for (a, b) in a.logprobs.iter().zip(&b.logprobs) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }

    #[test]
    fn an_answer_does_not_depend_on_who_else_is_in_the_batch() {
        let (sampler, request) = (model(true).sampler().unwrap(), Request::new());
        let answers = request.run(&sampler);
        let n = answers.len();
        let orders: [Vec<usize>; 4] =
            [(0..n).rev().collect(), (0..n).map(|i| (5 * i + 3) % n).collect(), (0..n).step_by(3).collect(), vec![7]];
        for order in orders {
            for (answer, index) in request.select(&order).run(&sampler).iter().zip(order) {
                check_equal(answer, &answers[index]);
            }
        }
        for threads in [2, 3, 50] {
            let threaded = request.try_run(&sampler, |generation| generation.threads = threads).unwrap();
            for (a, b) in threaded.iter().zip(&answers) {
                check_equal(a, b);
            }
        }
    }

    #[test]
    fn a_longer_limit_only_adds_tokens() {
        let (sampler, request) = (model(true).sampler().unwrap(), Request::new());
        let (short, long) = (request.run(&sampler), {
            let longer = Request {
                max_new_tokens: vec![30; request.prompts.len()],
                ..request.select(&(0..12).collect::<Vec<_>>())
            };
            longer.run(&sampler)
        });
        for ((short, long), limit) in short.iter().zip(&long).zip(&request.max_new_tokens) {
            let common = short.tokens.len();
            assert_eq!(short.tokens, long.tokens[..common]);
            assert!(common <= *limit);
            assert_eq!(short.stop == StopReason::Stop, short.tokens.last() == Some(&4));
            assert_eq!(short.stop == StopReason::Length, common == *limit && short.tokens.last() != Some(&4));
            assert!(!short.tokens[..common.saturating_sub(1)].contains(&4));
            assert_eq!(short.logprobs.len(), common);
        }
        assert!(long.iter().any(|answer| answer.stop == StopReason::Stop));
    }

    #[test]
    fn sampled_logprobs_are_those_of_the_training_kernels() {
        let (model, request) = (model(true), Request::new());
        for temperature in [1.0, 0.7] {
            let answers = request
                .try_run(&model.sampler().unwrap(), |generation| generation.sampling.temperature = temperature)
                .unwrap();
            let data: Vec<(Vec<u32>, Vec<u32>)> = request
                .prompts
                .iter()
                .zip(&answers)
                .map(|(prompt, answer)| {
                    let tokens = [prompt.as_slice(), &answer.tokens].concat();
                    let targets = (prompt.len() as u32..tokens.len() as u32).collect();
                    (tokens, targets)
                })
                .collect();
            let rows: Vec<Row> = data.iter().map(|(tokens, targets)| Row { tokens, targets }).collect();
            let wanted = Wanted { logprob: true, ..Wanted::default() };
            let scored = model.score(&rows, wanted, temperature, 1000).unwrap().logprob;
            let sampled: Vec<f32> = answers.iter().flat_map(|answer| answer.logprobs.clone()).collect();
            assert_eq!(scored.len(), sampled.len());
            for (a, b) in scored.iter().zip(&sampled) {
                assert!((a - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }

    #[test]
    fn greedy_is_the_likeliest_token_with_certainty() {
        let (sampler, request) = (model(true).sampler().unwrap(), Request::new());
        let greedy = request.try_run(&sampler, |generation| generation.sampling.temperature = 0.0).unwrap();
        let best = request.try_run(&sampler, |generation| generation.sampling.top_k = Some(1)).unwrap();
        assert_eq!(greedy, best);
        assert!(greedy.iter().flat_map(|answer| &answer.logprobs).all(|logprob| *logprob == 0.0));
    }

    #[test]
    fn bad_requests_are_refused_with_their_place() {
        let (model, request) = (model(true), Request::new());
        let sampler = model.sampler().unwrap();
        let error = |change: &dyn Fn(&mut Request)| {
            let mut request = Request::new();
            change(&mut request);
            request.run_error(&sampler)
        };
        assert_eq!(error(&|r| r.prompts[2].clear()), "row: that of conversation 2 is empty");
        assert_eq!(error(&|r| r.prompts[2][1] = 23), "row 2, position 1: token id 23 is outside the vocabulary of 23");
        assert_eq!(error(&|r| r.max_new_tokens[0] = 2047), "row 0: 2049 tokens, but the model has 2048 positions");
        assert_eq!(error(&|r| r.noise.truncate(11)), "noise: 11 for 12 prompts");
        let cancelled = AtomicBool::new(true);
        let stopped = request.try_run(&sampler, |generation| generation.threads = 0).unwrap_err();
        assert_eq!(stopped.to_string(), "threads: must be at least 1");
        let prompts: Vec<&[u32]> = request.prompts.iter().map(Vec::as_slice).collect();
        let generation = Generation {
            prompts: &prompts,
            noise: &request.noise,
            max_new_tokens: &request.max_new_tokens,
            stop: &[],
            sampling: Sampling::default(),
            threads: 2,
            cancelled: Some(&cancelled),
        };
        assert!(matches!(sampler.generate(&generation), Err(Error::Cancelled)));
    }

    impl Request {
        fn run_error(&self, sampler: &Sampler) -> String {
            self.try_run(sampler, |_| ()).unwrap_err().to_string()
        }
    }

    #[test]
    fn a_sampler_from_before_an_update_is_refused() {
        let model = model(true).with_gradients().unwrap();
        let sampler = model.sampler().unwrap();
        Optimizer::new(&model, AdamW::default()).unwrap().step(1e-3).unwrap();
        assert_eq!(
            Request::new().run_error(&sampler),
            "the weights have changed since this sampler was made: make it anew"
        );
        assert_eq!(Request::new().run(&model.sampler().unwrap()).len(), 12);
    }

    #[test]
    fn logits_that_are_not_finite_are_refused_with_their_place() {
        let model = model(true);
        let _ = model.layers()[0].second_norm.shallow_clone().fill_(f64::NAN);
        let error = Request::new().run_error(&model.sampler().unwrap());
        assert!(error.ends_with("new token 0: the logits hold NaN or infinity"), "{error}");
    }

    #[test]
    fn no_prompts_give_no_answers() {
        assert_eq!(Request::new().select(&[]).run(&model(true).sampler().unwrap()), []);
    }
}
