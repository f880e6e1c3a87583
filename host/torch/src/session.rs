//! Sampling responses in many conversations side by side.
//!
//! A conversation keeps its place in the cache from one response to the next, so only what is new is read. Every pass over
//! the model reads the last token of each response that is being sampled, and beside them what conversations that have
//! just asked are still to read. Where a response ends, its conversation or the next one that waits goes on in the next
//! pass: none waits for the slowest. What two rows begin with alike is read once and copied.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use accredit_core::rng::Stream;
use tch::{Kind, Tensor};

use crate::cache::Cache;
use crate::decode::{Decoder, Tokens};
use crate::error::{Error, Result};
use crate::head::extend;
use crate::rotary::Rotary;
use crate::rows::check_tokens;
use crate::sample::{Sampling, argmax};
use crate::shim::InferenceMode;

/// A row waits for another one to be read, where that saves it so many tokens.
const WORTH_WAITING: usize = 16;

/// Says whether a response that has these tokens is over, beside the stop tokens: for texts that end one.
pub type Ends<'a> = &'a (dyn Fn(&[u32]) -> bool + Sync);

/// A response that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Which conversation it belongs to; one response of it at a time.
    pub conversation: usize,
    /// All ids that stand before the response, at least one.
    pub row: &'a [u32],
    /// Token i of the response is drawn with `uniform(i)` of it and nothing else.
    pub noise: Stream,
    /// The most tokens of the response, at least one.
    pub max_new_tokens: usize,
}

/// Why a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A stop token, which is its last token.
    Stop,
    /// What [`Ends`] says.
    Text,
    /// The limit of new tokens.
    Length,
}

/// A response.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The sampled ids.
    pub tokens: Vec<u32>,
    /// ln of the probability that each had when it was drawn: with temperature, top-k, top-p and min-p; 0 for
    /// temperature 0.
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub stop: StopReason,
}

impl Generated {
    pub(crate) const EMPTY: Self = Self { tokens: Vec::new(), logprobs: Vec::new(), stop: StopReason::Length };
}

/// Conversations with a model as it was when its sampler was made.
pub struct Session<'a> {
    decoder: Decoder,
    made_at: u64,
    version: Arc<AtomicU64>,
    sampling: Sampling,
    stop: Vec<u32>,
    ends: Option<Ends<'a>>,
    cache: Cache,
    rotary: Rotary,
    places: Vec<Place>,
    /// Conversations that have asked and have no place yet, with what they asked.
    queue: VecDeque<(usize, Job)>,
    /// Positions that the rows need.
    room: usize,
}

/// A row of the cache.
#[derive(Default)]
struct Place {
    conversation: Option<usize>,
    /// The ids whose keys and values it holds.
    read: Vec<u32>,
    /// A place whose row begins alike, and how many positions of it.
    shared: Option<(usize, usize)>,
    job: Option<Job>,
}

/// A response that is being sampled.
struct Job {
    /// All ids up to now, the sampled ones too.
    row: Vec<u32>,
    answer: Generated,
    noise: Stream,
    limit: usize,
    /// Whether its place holds all that it can take over from others.
    begun: bool,
}

impl<'a> Session<'a> {
    /// A session with room for so many conversations at once; more wait until one is closed. Errors: sampling settings
    /// out of range, no room at all.
    pub(crate) fn new(
        (decoder, made_at, version): (Decoder, u64, Arc<AtomicU64>),
        places: usize,
        sampling: Sampling,
        stop: &[u32],
        ends: Option<Ends<'a>>,
    ) -> Result<Self> {
        sampling.check()?;
        if places == 0 {
            return Err(Error::argument("places", "must be at least 1"));
        }
        let _inference = InferenceMode::enter()?;
        let cache = Cache::new(decoder.shape(), places, 0, decoder.device(), decoder.dtype())?;
        let rotary = Rotary::new(decoder.shape(), 0, decoder.device())?;
        let places = (0..places).map(|_| Place::default()).collect();
        let (stop, queue) = (stop.to_vec(), VecDeque::new());
        Ok(Self { decoder, made_at, version, sampling, stop, ends, cache, rotary, places, queue, room: 0 })
    }

    /// Asks for a response. Its conversation keeps its place afterwards, until [`Session::close`].
    ///
    /// Errors: an empty row, an id outside the vocabulary, a row that leaves too few positions, a conversation whose last
    /// response is not over.
    pub fn ask(&mut self, ask: Ask<'_>) -> Result<()> {
        let Ask { conversation, row, noise, max_new_tokens } = ask;
        let shape = self.decoder.shape();
        if row.is_empty() {
            return Err(Error::argument("row", format!("that of conversation {conversation} is empty")));
        }
        if max_new_tokens == 0 {
            return Err(Error::argument("max_new_tokens", format!("0 in conversation {conversation}")));
        }
        check_tokens(conversation, row, shape)?;
        let tokens = row.len().saturating_add(max_new_tokens);
        if tokens > shape.max_positions {
            return Err(Error::TooLong { row: conversation, tokens, max_positions: shape.max_positions });
        }
        let asked = self.queue.iter().any(|(waiting, _)| *waiting == conversation);
        let place = self.places.iter_mut().find(|place| place.conversation == Some(conversation));
        if asked || place.as_ref().is_some_and(|place| place.job.is_some()) {
            return Err(Error::argument("conversation", format!("{conversation} has asked already")));
        }
        self.room = self.room.max(tokens);
        let job = Job { row: row.to_vec(), answer: Generated::EMPTY, noise, limit: max_new_tokens, begun: false };
        match place {
            Some(place) => place.job = Some(job),
            None => self.queue.push_back((conversation, job)),
        }
        Ok(())
    }

    /// Gives a conversation's place to others. What it was asked and has not answered is dropped.
    pub fn close(&mut self, conversation: usize) {
        self.queue.retain(|(waiting, _)| *waiting != conversation);
        for place in self.places.iter_mut().filter(|place| place.conversation == Some(conversation)) {
            place.conversation = None;
            place.job = None;
        }
    }

    /// Responses that are asked for and not over. Those that wait for a place count only while there is one: a place is
    /// kept by its conversation until that is closed.
    pub fn busy(&self) -> usize {
        let free = self.places.iter().filter(|place| place.conversation.is_none()).count();
        self.places.iter().filter(|place| place.job.is_some()).count() + self.queue.len().min(free)
    }

    /// One pass over the model. Gives the responses that are over, with their conversations.
    ///
    /// Errors: a model that has changed since the sampler was made, logits that are not finite.
    pub fn step(&mut self) -> Result<Vec<(usize, Generated)>> {
        if self.version.load(Ordering::Acquire) != self.made_at {
            return Err(Error::Stale { what: "sampler" });
        }
        let _no_grad = tch::no_grad_guard();
        let _inference = InferenceMode::enter()?;
        self.make_room()?;
        self.admit();
        let (tokens, sampled) = self.plan()?;
        if tokens.ids.is_empty() {
            return Ok(Vec::new());
        }
        for (id, row) in tokens.ids.iter().zip(&tokens.rows) {
            self.places[*row as usize].read.push(*id as u32);
        }
        // None are wanted where rows are longer than a pass, and nothing is to be drawn yet.
        let logits = self.decoder.read(&tokens, &self.cache, &self.rotary)?;
        self.draw(&logits, &sampled)
    }

    fn make_room(&mut self) -> Result<()> {
        if self.room > self.cache.room() {
            let grown = self.room.max(self.cache.room() * 3 / 2).min(self.decoder.shape().max_positions);
            self.cache.grow(grown)?;
            self.rotary = Rotary::new(self.decoder.shape(), grown, self.decoder.device())?;
        }
        Ok(())
    }

    /// Gives free places to conversations that wait.
    fn admit(&mut self) {
        for place in self.places.iter_mut().filter(|place| place.conversation.is_none()) {
            let Some((conversation, job)) = self.queue.pop_front() else { return };
            place.conversation = Some(conversation);
            place.job = Some(job);
        }
    }

    /// The tokens of the next pass, and the places for which a token will be drawn.
    fn plan(&mut self) -> Result<(Tokens, Vec<usize>)> {
        for place in 0..self.places.len() {
            self.begin(place)?;
        }
        let (mut tokens, mut sampled) = (Tokens::default(), Vec::new());
        let begun = |place: &Place| place.job.as_ref().filter(|job| job.begun).map(|job| job.row.len());
        let ahead = |place: &Place| begun(place).map(|length| length - place.read.len());
        let going_on = self.places.iter().filter(|place| ahead(place) == Some(1)).count();
        // New rows come in beside those that go on, a part at a time, so that nobody waits for long.
        let mut left = self.decoder.tokens_per_pass().saturating_sub(going_on).max(WORTH_WAITING);
        // Those that share a beginning stand together, so that it is read from memory once.
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|index| (self.places[*index].shared.map_or(*index, |(from, _)| from), *index));
        for index in order {
            let place = &self.places[index];
            let (Some(job), Some(ahead)) = (&place.job, ahead(place)) else { continue };
            let count = if ahead == 1 { 1 } else { ahead.min(left) };
            if ahead > 1 {
                left -= count;
            }
            let start = place.read.len();
            for (position, id) in job.row.iter().enumerate().skip(start).take(count) {
                tokens.push(*id, index, position, place.shared.unwrap_or((index, 0)));
            }
            if count == ahead {
                tokens.want_last();
                sampled.push(index);
            }
        }
        Ok((tokens, sampled))
    }

    /// Lets a place take over what it, or another one, has read of the row that it is asked to go on from; puts that off
    /// where another one is about to read more of it.
    fn begin(&mut self, place: usize) -> Result<()> {
        let Some(job) = self.places[place].job.as_ref().filter(|job| !job.begun) else {
            return Ok(());
        };
        // The last token is always read: the next one is predicted from it.
        let useful = &job.row[..job.row.len() - 1];
        let own = common(&self.places[place].read, useful);
        let mut best = (own, place);
        if useful.len() - own > WORTH_WAITING {
            for (index, other) in self.places.iter().enumerate().filter(|(index, _)| *index != place) {
                let read = common(&other.read, useful);
                if read > best.0 {
                    best = (read, index);
                }
                if let Some(job) = other.job.as_ref().filter(|job| job.begun && other.read.len() < job.row.len()) {
                    let soon = common(&job.row, useful);
                    if soon > best.0 + WORTH_WAITING && soon > read {
                        return Ok(());
                    }
                }
            }
        }
        let (length, from) = best;
        if from != place {
            self.cache.copy(from, place, length)?;
            self.places[place].read = self.places[from].read[..length].to_vec();
            let source = self.places[from].shared.filter(|(_, alike)| *alike >= length);
            self.places[place].shared = Some((source.map_or(from, |(source, _)| source), length));
        }
        for (index, other) in self.places.iter_mut().enumerate() {
            if let Some((source, alike)) = &mut other.shared {
                // What is beyond is no longer the same: of the row itself it is cut off, of a source read anew.
                if index == place {
                    *alike = length.min(*alike);
                } else if *source == place {
                    *alike = own.min(*alike);
                }
            }
            other.shared = other.shared.filter(|(_, alike)| *alike >= WORTH_WAITING);
        }
        let place = &mut self.places[place];
        place.read.truncate(length);
        if let Some(job) = &mut place.job {
            job.begun = true;
        }
        Ok(())
    }

    /// Draws the next token of these places from the logits `[places, V]`. Gives the responses that are over.
    fn draw(&mut self, logits: &Tensor, places: &[usize]) -> Result<Vec<(usize, Generated)>> {
        let vocab_size = self.decoder.shape().vocab_size;
        let mut numbers = Vec::new();
        let temperature = self.sampling.temperature;
        if self.sampling.is_greedy() {
            extend(&mut numbers, logits)?;
        } else if temperature == 1.0 {
            extend(&mut numbers, &logits.f_softmax(-1, Kind::Float)?)?;
        } else {
            let scaled = logits.f_div_scalar(f64::from(temperature))?;
            extend(&mut numbers, &scaled.f_softmax(-1, Kind::Float)?)?;
        }
        let mut over = Vec::new();
        for (place, numbers) in places.iter().zip(numbers.chunks_exact(vocab_size)) {
            let place = &mut self.places[*place];
            let (Some(conversation), Some(job)) = (place.conversation, &mut place.job) else { continue };
            let position = job.answer.tokens.len();
            let drawn = if self.sampling.is_greedy() {
                argmax(numbers).map(|id| (id, 0.0))
            } else {
                self.sampling.draw(numbers, job.noise.uniform(position as u64))
            };
            let (id, logprob) = drawn.ok_or(Error::Logits { prompt: conversation, position })?;
            job.row.push(id);
            job.answer.tokens.push(id);
            job.answer.logprobs.push(logprob);
            let stop = if self.stop.contains(&id) {
                Some(StopReason::Stop)
            } else if self.ends.is_some_and(|ends| ends(&job.answer.tokens)) {
                Some(StopReason::Text)
            } else {
                (job.answer.tokens.len() == job.limit).then_some(StopReason::Length)
            };
            if let Some(stop) = stop
                && let Some(job) = place.job.take()
            {
                over.push((conversation, Generated { stop, ..job.answer }));
            }
        }
        Ok(over)
    }
}

/// How many ids two rows begin with alike.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use accredit_core::rng::Purpose;

    use super::*;
    use crate::Sampler;
    use crate::testing::model;

    const STOP: u32 = 4;

    /// What conversation `c` is told before its response `turn`.
    fn told(c: usize, turn: usize) -> Vec<u32> {
        // Groups of four begin alike, and one conversation is longer than a pass.
        let length = if c == 5 && turn == 0 { 700 } else { 30 + 7 * (c / 4) + 3 * turn };
        (0..length).map(|i| ((5 * (c / 4) + 7 * i + turn * c) % 23) as u32).collect()
    }

    fn noise(c: usize, turn: usize) -> Stream {
        Stream::new(9, Purpose::Sampling).with(c as u64).with(turn as u64)
    }

    /// Plays conversations of several responses, each told something after each response; gives all responses.
    fn play(sampler: &Sampler, conversations: &[usize], places: usize, turns: usize) -> Vec<Vec<Generated>> {
        let mut session = sampler.session(places, Sampling::default(), &[STOP], None).unwrap();
        let mut rows: Vec<Vec<u32>> = conversations.iter().map(|c| told(*c, 0)).collect();
        let mut answers: Vec<Vec<Generated>> = vec![Vec::new(); rows.len()];
        let ask = |session: &mut Session, index: usize, row: &[u32], turn: usize| {
            let c = conversations[index];
            let noise = noise(c, turn);
            session.ask(Ask { conversation: index, row, noise, max_new_tokens: 5 + 6 * (c % 3) }).unwrap();
        };
        for (index, row) in rows.iter().enumerate() {
            ask(&mut session, index, row, 0);
        }
        while session.busy() > 0 {
            for (index, answer) in session.step().unwrap() {
                rows[index].extend(&answer.tokens);
                answers[index].push(answer);
                let turn = answers[index].len();
                if turn == turns {
                    session.close(index);
                } else {
                    rows[index].extend(told(conversations[index], turn));
                    ask(&mut session, index, &rows[index], turn);
                }
            }
        }
        answers
    }

    fn check_equal(a: &[Vec<Generated>], b: &[Vec<Generated>]) {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
            assert_eq!((&a.tokens, a.stop), (&b.tokens, b.stop));
            for (a, b) in a.logprobs.iter().zip(&b.logprobs) {
                assert!((a - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }

    #[test]
    fn a_response_depends_on_its_conversation_alone() {
        let sampler = model(true).sampler().unwrap();
        let all: Vec<usize> = (0..12).collect();
        let together = play(&sampler, &all, 12, 3);
        assert!(together.iter().all(|answers| answers.len() == 3));
        assert!(together.iter().flatten().any(|answer| answer.stop == StopReason::Stop));
        assert!(together.iter().flatten().any(|answer| answer.stop == StopReason::Length));
        for places in [1, 3, 5] {
            check_equal(&play(&sampler, &all, places, 3), &together);
        }
        for c in &all {
            check_equal(&play(&sampler, &[*c], 1, 3), &together[*c..=*c]);
        }
    }

    /// Passes and tokens that a session of `count` equal prompts reads until each has its first token.
    #[test]
    fn what_rows_begin_with_alike_is_read_once_and_what_was_read_is_kept() {
        let sampler = model(true).sampler().unwrap();
        let mut session = sampler.session(4, Sampling::default(), &[], None).unwrap();
        let row: Vec<u32> = (0..100).map(|i| i % 23).collect();
        let read = |session: &mut Session| {
            session.make_room().unwrap();
            session.admit();
            session.plan().unwrap().0.ids.len()
        };
        for conversation in 0..4 {
            let noise = noise(conversation, 0);
            session.ask(Ask { conversation, row: &row, noise, max_new_tokens: 2 }).unwrap();
        }
        // One reads the row; the others take it over and read its last token, while the first goes on.
        assert_eq!(read(&mut session), 100);
        session.step().unwrap();
        assert_eq!(read(&mut session), 1 + 3);
        let mut answers = Vec::new();
        while session.busy() > 0 {
            answers.extend(session.step().unwrap());
        }
        // Then only what is new is read: the last token of the response, and what came after it.
        let row = [row.as_slice(), &answers[0].1.tokens, &[7, 8, 9]].concat();
        let conversation = answers[0].0;
        session.ask(Ask { conversation, row: &row, noise: noise(0, 1), max_new_tokens: 2 }).unwrap();
        assert_eq!(read(&mut session), 1 + 3);
    }

    /// Every place that shares a beginning with another one holds the same ids as far as that.
    fn check_shared(session: &Session) -> usize {
        let mut shared = 0;
        for (index, place) in session.places.iter().enumerate() {
            let Some((source, alike)) = place.shared else { continue };
            assert_ne!(source, index);
            assert_eq!(place.read[..alike], session.places[source].read[..alike]);
            shared += alike;
        }
        shared
    }

    #[test]
    fn what_is_shared_is_the_same_while_places_change_hands() {
        let sampler = model(true).sampler().unwrap();
        let mut session = sampler.session(5, Sampling::default(), &[], None).unwrap();
        // Prompts of three kinds that begin alike in part, of different lengths, two responses each.
        let row = |c: usize| -> Vec<u32> {
            let length = 40 + 9 * (c % 4);
            (0..length).map(|i| if i < 20 { i % 23 } else { (i * (1 + c % 3)) % 23 } as u32).collect()
        };
        let mut rows: Vec<Vec<u32>> = (0..24).map(row).collect();
        let mut turns = [0; 24];
        let ask = |session: &mut Session, c: usize, row: &[u32], turn: usize| {
            let max_new_tokens = 2 + (5 * c + turn) % 7;
            session.ask(Ask { conversation: c, row, noise: noise(c, turn), max_new_tokens }).unwrap();
        };
        for (c, row) in rows.iter().enumerate() {
            ask(&mut session, c, row, 0);
        }
        let mut most = 0;
        while session.busy() > 0 {
            for (c, answer) in session.step().unwrap() {
                turns[c] += 1;
                if turns[c] == 2 {
                    session.close(c);
                    continue;
                }
                // Some go on from what they said, and some from an earlier place.
                if c % 2 == 0 {
                    rows[c].extend(&answer.tokens);
                } else {
                    rows[c].truncate(25);
                }
                rows[c].extend([1, 2, 3]);
                ask(&mut session, c, &rows[c], 1);
            }
            most = most.max(check_shared(&session));
        }
        assert!(turns.iter().all(|turns| *turns == 2) && most >= 80, "{most}");
    }

    #[test]
    fn a_text_can_end_a_response() {
        let sampler = model(true).sampler().unwrap();
        let twice = |tokens: &[u32]| tokens.len() >= 2 && tokens[tokens.len() - 1] == tokens[tokens.len() - 2];
        let mut session = sampler.session(1, Sampling::default(), &[], Some(&twice)).unwrap();
        session.ask(Ask { conversation: 0, row: &[1], noise: noise(0, 0), max_new_tokens: 500 }).unwrap();
        let mut answers = Vec::new();
        while session.busy() > 0 {
            answers.extend(session.step().unwrap());
        }
        let (_, answer) = &answers[0];
        assert_eq!(answer.stop, StopReason::Text);
        assert!(twice(&answer.tokens));
        assert!((2..answer.tokens.len()).all(|end| !twice(&answer.tokens[..end])));
    }

    #[test]
    fn bad_asks_are_refused_with_their_place() {
        let sampler = model(true).sampler().unwrap();
        assert_eq!(
            sampler.session(0, Sampling::default(), &[], None).err().map(|error| error.to_string()).unwrap(),
            "places: must be at least 1"
        );
        let mut session = sampler.session(1, Sampling::default(), &[], None).unwrap();
        let mut error = |conversation, row: &[u32], max_new_tokens| {
            let ask = Ask { conversation, row, noise: noise(0, 0), max_new_tokens };
            session.ask(ask).err().map(|error| error.to_string())
        };
        assert_eq!(error(3, &[], 1).unwrap(), "row: that of conversation 3 is empty");
        assert_eq!(error(3, &[1], 0).unwrap(), "max_new_tokens: 0 in conversation 3");
        assert_eq!(error(3, &[23], 1).unwrap(), "row 3, position 0: token id 23 is outside the vocabulary of 23");
        assert_eq!(error(3, &[1], 2048).unwrap(), "row 3: 2049 tokens, but the model has 2048 positions");
        assert_eq!(error(3, &[1], 4), None);
        assert_eq!(error(3, &[1], 4).unwrap(), "conversation: 3 has asked already");
    }
}
