//! The tokenizer of a model folder: text to ids, ids to bytes, and which ids end a response.
//!
//! Sampled ids are the record and are never made again from text. Text of an environment is encoded as plain text: a
//! special token that it spells stays text.

use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;
use tokenizers::{
    AddedToken, DecoderWrapper, PreTokenizerWrapper, Tokenizer as HuggingFace,
    models::{
        TrainerWrapper,
        bpe::{BPE, BpeTrainerBuilder},
    },
    pre_tokenizers::{
        byte_level::ByteLevel,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
    tokenizer::SplitDelimiterBehavior,
};

use super::chat::{CHAT_TEMPLATE_FILE, CHATML, ChatError, ChatTemplate, Piece};

/// A tokenizer that cannot be used.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// A file of the model folder cannot be read or written.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Its tokens are not bytes.
    #[error("{}: its tokens are not byte-level, so that their bytes are not known; Qwen, Llama 3 and GPT-2 tokenizers are", path.display())]
    NotByteLevel {
        /// The file.
        path: PathBuf,
    },
    /// Nothing ends a response.
    #[error("{}: neither generation_config.json nor tokenizer_config.json names an end-of-turn token", folder.display())]
    NoStop {
        /// The model folder.
        folder: PathBuf,
    },
    /// An id that the model has no row for.
    #[error("{}: {what} has the id {id}, but the model has {rows} ids: `vocab_size` in config.json", path.display())]
    OutsideVocabulary {
        /// The file that names the id.
        path: PathBuf,
        /// What has it.
        what: String,
        /// The id.
        id: u32,
        /// The model's ids.
        rows: usize,
    },
    /// The chat template does not work.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The library refused.
    #[error("tokenizer: {0}")]
    Library(String),
}

/// Token that starts a message in tokenizers made here.
const START: &str = "<|im_start|>";
/// Token that ends a message in tokenizers made here.
const END: &str = "<|im_end|>";
/// Padding token in tokenizers made here.
const PAD: &str = "<|endoftext|>";
/// A tokenizer with its chat template.
pub struct Tokenizer {
    /// Reads special tokens as such: for the text of the template.
    inner: HuggingFace,
    /// Reads special tokens as plain text: for the text of the environment.
    plain: HuggingFace,
    /// Bytes of each id.
    bytes: Vec<Box<[u8]>>,
    special: Vec<bool>,
    specials: Vec<String>,
    stop: Vec<u32>,
    /// The chat template.
    pub chat: ChatTemplate,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocabulary", &self.bytes.len())
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads the tokenizer of a model folder, for a model with `rows` ids. Errors: a file that is missing or broken, ids
    /// that the model does not have, text that it loses, and what the variants of [`TokenizerError`] say.
    pub fn load(folder: &Path, rows: usize) -> Result<Self, TokenizerError> {
        // Threads are the host's business.
        tokenizers::utils::parallelism::set_parallelism(false);
        let path = folder.join("tokenizer.json");
        let inner = HuggingFace::from_file(&path)
            .map_err(|error| TokenizerError::File { path: path.clone(), message: error.to_string() })?;
        let config = read_json(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
        let generation_path = folder.join("generation_config.json");
        let generation = read_json(&generation_path)?.unwrap_or_default();
        let chat = ChatTemplate::load(folder, &config)?;
        let vocabulary = inner.get_vocab(true);
        if let Some((token, id)) = vocabulary.iter().max_by_key(|(_, id)| **id).filter(|(_, id)| **id as usize >= rows)
        {
            return Err(TokenizerError::OutsideVocabulary { path, what: format!("{token:?}"), id: *id, rows });
        }
        let mut stop = ids(&generation["eos_token_id"]).ok_or_else(|| TokenizerError::File {
            path: generation_path.clone(),
            message: format!("`eos_token_id`: {} is not a token id or a list of them", generation["eos_token_id"]),
        })?;
        if let Some(id) = stop.iter().copied().find(|id| *id as usize >= rows) {
            let what = "an `eos_token_id`".to_owned();
            return Err(TokenizerError::OutsideVocabulary { path: generation_path, what, id, rows });
        }
        let named = config["eos_token"].as_str().or(config["eos_token"]["content"].as_str());
        if let Some(id) = named.and_then(|token| inner.token_to_id(token)).filter(|id| !stop.contains(id)) {
            stop.push(id);
        }
        if stop.is_empty() {
            return Err(TokenizerError::NoStop { folder: folder.to_owned() });
        }
        let tokenizer =
            Self::new(inner, chat, stop).ok_or_else(|| TokenizerError::NotByteLevel { path: path.clone() })?;
        tokenizer.keeps_text().map_err(|message| TokenizerError::File { path, message })?;
        Ok(tokenizer)
    }

    /// A vocabulary without tokens for some bytes drops what it cannot say, silently.
    fn keeps_text(&self) -> Result<(), String> {
        let text: String = ('!'..='~').chain([' ', '\n', '0']).collect();
        let ids = self.encode_plain(&text).map_err(|error| error.to_string())?;
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.bytes(*id)).copied().collect();
        // Some put a space before a text.
        if bytes.ends_with(text.as_bytes()) {
            return Ok(());
        }
        let lost: String = text.chars().filter(|character| !bytes.contains(&(*character as u8))).collect();
        Err(format!("plain text does not come back from its ids as it was; it has no tokens for {lost:?}"))
    }

    fn new(inner: HuggingFace, chat: ChatTemplate, stop: Vec<u32>) -> Option<Self> {
        let decoder = serde_json::to_value(inner.get_decoder()).unwrap_or_default();
        if !decoder.to_string().contains("ByteLevel") {
            return None;
        }
        let added = inner.get_added_tokens_decoder();
        let count = inner.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1);
        let table = byte_table();
        let (mut bytes, mut special) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for id in 0..count as u32 {
            let (text, is_special): (Box<[u8]>, bool) = match added.get(&id) {
                Some(token) => (token.content.as_bytes().into(), token.special),
                None => (of_byte_level(&inner.id_to_token(id).unwrap_or_default(), &table), false),
            };
            bytes.push(text);
            special.push(is_special);
        }
        let specials = added.values().filter(|token| token.special).map(|token| token.content.clone()).collect();
        let mut plain = inner.clone();
        plain.set_encode_special_tokens(true);
        Some(Self { inner, plain, bytes, special, specials, stop, chat })
    }

    /// Trains a small byte-level tokenizer on texts and writes it into a model folder, with a ChatML template. `tags`
    /// (such as `<think>`) become tokens of their own. Words stand with the space before them; every other character
    /// stands alone, so that a map's cells are tokens.
    pub fn create(folder: &Path, texts: &[String], tags: &[String], vocabulary: usize) -> Result<Self, TokenizerError> {
        tokenizers::utils::parallelism::set_parallelism(false);
        let library = |error: tokenizers::Error| TokenizerError::Library(error.to_string());
        let mut inner = HuggingFace::new(BPE::default());
        let pieces = Split::new(
            SplitPattern::Regex(r" ?[A-Za-z][a-z]+|\d| ?\|\||[^\s]| |\s".to_owned()),
            SplitDelimiterBehavior::Isolated,
            false,
        )
        .map_err(library)?;
        let splits: Vec<PreTokenizerWrapper> = vec![pieces.into(), ByteLevel::new(false, true, false).into()];
        inner.with_pre_tokenizer(Some(Sequence::new(splits)));
        inner.with_decoder(Some(DecoderWrapper::from(ByteLevel::new(false, true, false))));
        let special = [PAD, START, END].map(|token| AddedToken::from(token, true));
        let trainer = BpeTrainerBuilder::new()
            .vocab_size(vocabulary)
            .min_frequency(2)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .special_tokens(special.to_vec())
            .build();
        let mut trainer = TrainerWrapper::from(trainer);
        inner.train(&mut trainer, texts.iter()).map_err(library)?;
        inner
            .add_tokens(tags.iter().map(|tag| AddedToken::from(tag.as_str(), false).normalized(false)))
            .map_err(library)?;

        write(&folder.join("tokenizer.json"), &inner.to_string(true).map_err(library)?)?;
        let config = serde_json::json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": false,
            "chat_template": CHATML,
        });
        write(&folder.join("tokenizer_config.json"), &format!("{config:#}\n"))?;
        write(&folder.join(CHAT_TEMPLATE_FILE), CHATML)?;
        let id = |token| inner.token_to_id(token).unwrap_or(0);
        let generation = serde_json::json!({ "eos_token_id": [id(END)], "pad_token_id": id(PAD) });
        write(&folder.join("generation_config.json"), &format!("{generation:#}\n"))?;
        let rows = inner.get_vocab_size(true);
        Self::load(folder, rows)
    }

    /// Number of ids.
    pub fn vocabulary(&self) -> usize {
        self.bytes.len()
    }

    /// The ids that end a response. The first is the one that the host adds to a response that was cut.
    pub fn stop(&self) -> &[u32] {
        &self.stop
    }

    /// Id of a token by its text.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The padding token's id, where the tokenizers made here have one.
    pub fn pad(&self) -> Option<u32> {
        self.id(PAD)
    }

    /// The bytes that an id stands for; none for an id that is not in the vocabulary.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize).map_or(&[], |bytes| bytes)
    }

    /// Whether an id is a special token, which is no part of a response's text.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// Encodes text in which special tokens count as such.
    pub fn encode_template(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        encode(&self.inner, text)
    }

    /// Encodes plain text: special tokens that it spells stay text.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        encode(&self.plain, text)
    }

    /// Texts of the special tokens.
    pub fn specials(&self) -> &[String] {
        &self.specials
    }

    /// Encodes a rendered conversation piece by piece; one in which no message spells a special token is one piece, and
    /// encoded exactly as transformers does it.
    pub fn encode_pieces(&self, pieces: &[Piece]) -> Result<Vec<u32>, TokenizerError> {
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(match piece {
                Piece::Template(text) => self.encode_template(text)?,
                Piece::Content(text) => self.encode_plain(text)?,
            });
        }
        Ok(all)
    }
}

fn encode(tokenizer: &HuggingFace, text: &str) -> Result<Vec<u32>, TokenizerError> {
    let encoding = tokenizer.encode_fast(text, false).map_err(|error| TokenizerError::Library(error.to_string()))?;
    Ok(encoding.get_ids().to_vec())
}

fn write(path: &Path, text: &str) -> Result<(), TokenizerError> {
    std::fs::write(path, text)
        .map_err(|error| TokenizerError::File { path: path.to_owned(), message: error.to_string() })
}

fn read_json(path: &Path) -> Result<Option<Value>, TokenizerError> {
    let file = |message: String| TokenizerError::File { path: path.to_owned(), message };
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| file(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file(error.to_string())),
    }
}

/// One id or several; none at all where it says nothing. None if it says anything else.
fn ids(value: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(id).collect(),
        other => Some(vec![id(other)?]),
    }
}

/// The characters by which byte-level tokenizers write bytes (GPT-2's table): printable ones stand for themselves, the
/// others are moved behind U+0100.
fn byte_table() -> std::collections::HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut moved = 0;
    (0..=255_u8)
        .map(|byte| {
            if printable(byte) {
                return (char::from(byte), byte);
            }
            moved += 1;
            (char::from_u32(0xFF + moved).unwrap_or('\u{FFFD}'), byte)
        })
        .collect()
}

fn of_byte_level(token: &str, table: &std::collections::HashMap<char, u8>) -> Box<[u8]> {
    token.chars().filter_map(|c| table.get(&c).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::chat::Conversation;

    fn made() -> (tempfile::TempDir, Tokenizer) {
        let folder = tempfile::tempdir().unwrap();
        let texts = vec!["P__O\n_G__ go Down, near Left floor Left edge".to_owned(); 4];
        let tags = ["<think>", "</think>", "<answer>", "</answer>"].map(str::to_owned);
        let tokenizer = Tokenizer::create(folder.path(), &texts, &tags, 320).unwrap();
        (folder, tokenizer)
    }

    fn text(tokenizer: &Tokenizer, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.bytes(*id)).copied().collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn cells_words_and_tags_are_tokens() {
        let (_folder, tokenizer) = made();
        let split = |text: &str| -> Vec<String> {
            let ids = tokenizer.encode_plain(text).unwrap();
            ids.iter().map(|id| String::from_utf8_lossy(tokenizer.bytes(*id)).into_owned()).collect()
        };
        assert_eq!(split("P__O\n"), ["P", "_", "_", "O", "\n"]);
        assert_eq!(split("<think> near Left</think>"), ["<think>", " near", " Left", "</think>"]);
    }

    #[test]
    fn every_text_comes_back_from_its_ids() {
        let (_folder, tokenizer) = made();
        for sample in ["", "héllo, 世界 🙂", "\u{0}\u{7f} tab\t", "P__O\n<answer>Left</answer>"] {
            assert_eq!(text(&tokenizer, &tokenizer.encode_plain(sample).unwrap()), sample);
        }
    }

    #[test]
    fn a_special_token_that_an_observation_spells_stays_text() {
        let (_folder, tokenizer) = made();
        let end = tokenizer.stop()[0];
        assert!(tokenizer.is_special(end));
        assert!(tokenizer.encode_template("<|im_end|>").unwrap().contains(&end));
        assert!(!tokenizer.encode_plain("<|im_end|>").unwrap().contains(&end));
        let kwargs = serde_json::Map::new();
        let conversation =
            Conversation { system: None, user: "a <|im_end|> b", kwargs: &kwargs, specials: tokenizer.specials() };
        let pieces = tokenizer.chat.prompt(conversation).unwrap();
        let ids = tokenizer.encode_pieces(&pieces).unwrap();
        assert_eq!(ids.iter().filter(|id| **id == end).count(), 1);
        assert_eq!(text(&tokenizer, &ids), "<|im_start|>user\na <|im_end|> b<|im_end|>\n<|im_start|>assistant\n");
    }

    #[test]
    fn training_a_tokenizer_is_a_function_of_its_texts() {
        let ((a, _), (b, _)) = (made(), made());
        let read = |folder: &tempfile::TempDir| std::fs::read(folder.path().join("tokenizer.json")).unwrap();
        assert_eq!(read(&a), read(&b));
    }

    #[test]
    fn ids_outside_the_model_and_texts_that_get_lost_are_refused() {
        let (folder, tokenizer) = made();
        let rows = tokenizer.vocabulary();
        let error = |rows: usize| Tokenizer::load(folder.path(), rows).unwrap_err().to_string();
        assert!(error(rows - 1).contains(&format!("has the id {}, but the model has {} ids", rows - 1, rows - 1)));
        let generation = folder.path().join("generation_config.json");
        for (ids, expected) in [
            ("[\"2\"]", "`eos_token_id`: [\"2\"] is not a token id or a list of them"),
            ("-5", "`eos_token_id`: -5 is not"),
            ("2.5", "`eos_token_id`: 2.5 is not"),
            ("[2, 99999]", "an `eos_token_id` has the id 99999, but the model has"),
        ] {
            std::fs::write(&generation, format!("{{\"eos_token_id\": {ids}}}")).unwrap();
            assert!(error(rows).contains(expected), "{}", error(rows));
        }
        for (ids, stop) in [("[2, 7]", vec![2, 7]), ("null", vec![2]), ("[]", vec![2]), ("2", vec![2])] {
            std::fs::write(&generation, format!("{{\"eos_token_id\": {ids}}}")).unwrap();
            assert_eq!(Tokenizer::load(folder.path(), rows).unwrap().stop(), stop);
        }
        let path = folder.path().join("tokenizer.json");
        let mut json: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
        vocabulary.remove("q");
        std::fs::write(&path, json.to_string()).unwrap();
        assert!(error(rows).ends_with("it has no tokens for \"q\""), "{}", error(rows));
        json["model"]["vocab"]["q"] = 4_000_000_000_u32.into();
        std::fs::write(&path, json.to_string()).unwrap();
        assert!(error(rows).contains("tokenizer.json: \"q\" has the id 4000000000, but the model has"));
    }

    #[test]
    fn a_folder_without_a_tokenizer_or_an_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Tokenizer::load(folder.path(), 1 << 20), Err(TokenizerError::File { .. })));
        let (made, _) = made();
        std::fs::remove_file(made.path().join("generation_config.json")).unwrap();
        std::fs::write(made.path().join("tokenizer_config.json"), "{}").unwrap();
        assert!(matches!(Tokenizer::load(made.path(), 1 << 20), Err(TokenizerError::NoStop { .. })));
    }
}
