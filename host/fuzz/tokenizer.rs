//! Tokens made of data, with the two questions that the parser asks of a tokenizer.

/// Stands between tokens in the data; no text has this byte.
const BETWEEN: u8 = 0xFF;
/// Begins a special token in the data; no text has this byte.
const SPECIAL: u8 = 0xFE;
/// Tags and pieces of them, which the data name by a byte, from 0.
const PIECES: [&str; 8] = ["<think>", "</think>", "<answer>", "</answer>", "<", "</", "answer>", "🙂"];

/// A vocabulary: the id of a token is its place.
pub struct Tokenizer(Vec<Token>);

struct Token {
    bytes: Vec<u8>,
    is_special: bool,
}

impl Tokenizer {
    /// The tokens that the data hold.
    pub fn of_data(data: &[u8]) -> Self {
        let token = |data: &[u8]| {
            let (is_special, data) = data.strip_prefix(&[SPECIAL]).map_or((false, data), |data| (true, data));
            let bytes = data.iter().flat_map(|byte| match PIECES.get(usize::from(*byte)) {
                Some(piece) => piece.as_bytes().to_vec(),
                None => vec![*byte],
            });
            Token { bytes: bytes.collect(), is_special }
        };
        Self(data.split(|byte| *byte == BETWEEN).map(token).collect())
    }

    /// A token for each byte.
    pub fn of_bytes(text: &[u8]) -> Self {
        Self(text.iter().map(|byte| Token { bytes: vec![*byte], is_special: false }).collect())
    }

    /// All ids, in order.
    pub fn ids(&self) -> Vec<u32> {
        (0..self.0.len() as u32).collect()
    }

    /// The bytes of a token; none for an id that is no token's.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.0.get(id as usize).map_or(&[], |token| &token.bytes)
    }

    /// Whether a token is none of the text's.
    pub fn is_special(&self, id: u32) -> bool {
        self.0.get(id as usize).is_some_and(|token| token.is_special)
    }

    /// What a token adds to the text.
    pub fn text(&self, id: u32) -> &[u8] {
        if self.is_special(id) { &[] } else { self.bytes(id) }
    }
}
