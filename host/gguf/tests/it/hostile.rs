//! Files that lie: nothing panics, and no allocation is larger than the file gives reason for.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fs,
    path::Path,
};

use accredit_gguf::{Error, Gguf, Plan, describe};
use proptest::prelude::*;

use crate::writer::{Value::U32, Writer};

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Remembers the largest allocation of each thread.
struct Watched;

// SAFETY: everything is passed on to the system's allocator as it came.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no place to remember in, and nothing to remember.
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Reads a file as far as it can be. Whatever it says, nothing is allocated beyond a fixed multiple of its size.
fn read(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).unwrap();
    LARGEST.set(0);
    let result = Gguf::open(path).and_then(|gguf| Plan::new(&gguf).map(drop));
    let _ = describe(path);
    let largest = LARGEST.get();
    assert!(largest < 64 * bytes.len() + 65_536, "{largest} bytes at once for a file of {}", bytes.len());
    result
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error_that_names_it() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("model.gguf");
    for (architecture, pre) in [("llama", "smollm"), ("qwen3", "qwen2")] {
        let bytes = Writer::model(architecture, pre).bytes();
        read(&path, &bytes).unwrap();
        let data = Gguf::open(&path).unwrap().tensors()[0].offset;
        // What follows the last tensor fills the file up to a multiple of 32.
        let ends = (data..bytes.len() - 32).step_by(31);
        for end in (0..data).chain(ends).rev() {
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(end as u64).unwrap();
            let error = Gguf::open(&path).unwrap_err().to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
    }
}

#[test]
fn numbers_that_lie_are_errors_that_name_the_place() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("model.gguf");
    let bytes = Writer::model("llama", "smollm").bytes();
    let at = |name: &str| bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap() + name.len();
    let (key, tokens, tensor) = (at("general.architecture"), at("tokenizer.ggml.tokens"), at("blk.0.attn_norm.weight"));
    let [huge, many] = [u64::MAX, 1 << 40].map(u64::to_le_bytes);
    for (place, new, expected) in [
        (0, &b"GGML"[..], "does not begin with the letters GGUF"),
        (4, &[1, 0, 0, 0], "byte 4: version: 1, expected 2 or 3; a newer llama.cpp can convert"),
        (4, &[0, 0, 0, 3], "big endian"),
        (4, &[4, 0, 0, 0], "byte 4: version: 4, expected 2 or 3"),
        (8, &huge, "byte 8: number of tensors: 18446744073709551615 do not fit"),
        (16, &many, "byte 16: number of keys: 1099511627776 do not fit"),
        (24, &huge, "byte 24: length of a key"),
        (24, &[0; 8], "a key: 0 bytes long"),
        (key, &[13, 0, 0, 0], "general.architecture: 13 is no type of a value"),
        (key + 4, &huge, "length of general.architecture"),
        (key + 12, &[0xff], "general.architecture: not valid UTF-8"),
        (tokens + 8, &many, "number of elements of tokenizer.ggml.tokens"),
        (tokens + 4, &[9, 0, 0, 0], "tokenizer.ggml.tokens"),
        (tensor, &[5, 0, 0, 0], "blk.0.attn_norm.weight: 5 dimensions, expected 1 to 4"),
        (tensor + 4, &huge, "blk.0.attn_norm.weight"),
        (tensor + 4, &[0; 8], "has no weights"),
        (tensor + 4, &many, "lie outside the file"),
        (tensor + 12, &[99, 0, 0, 0], "its type 99 is not known"),
        (tensor + 12, &[12, 0, 0, 0], "rows of 8 are not whole blocks of 256 (Q4_K)"),
        (tensor + 16, &[1, 0, 0, 0, 0, 0, 0, 0], "offset 1 is not a multiple of the alignment, 32"),
        (tensor + 16, &[0; 8], "inside of tensor"),
        (tensor + 16, &(1_u64 << 50).to_le_bytes(), "lie outside the file"),
    ] {
        let mut bytes = bytes.clone();
        bytes[place..place + new.len()].copy_from_slice(new);
        let error = read(&path, &bytes).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()) && error.contains(expected), "{error}\n{expected}");
    }
    let mut twice = Writer::model("llama", "smollm");
    twice.keys.push(("general.architecture".to_owned(), U32(1)));
    assert!(read(&path, &twice.bytes()).unwrap_err().to_string().ends_with("the key is there twice"));
    let mut twice = Writer::model("llama", "smollm");
    twice.tensors.push(twice.tensors[0].clone());
    assert!(read(&path, &twice.bytes()).unwrap_err().to_string().ends_with("the tensor is there twice"));
    for alignment in [0, 3] {
        let mut writer = Writer::model("llama", "smollm");
        let error = read(&path, &writer.set("general.alignment", U32(alignment)).bytes()).unwrap_err().to_string();
        assert!(error.contains("`general.alignment`"), "{error}");
    }
}

proptest! {
    #[test]
    fn flipped_bytes_neither_panic_nor_allocate(flips in prop::collection::vec((0.0..1.0, any::<u8>()), 1..8)) {
        let scratch = tempfile::tempdir().unwrap();
        let mut bytes = Writer::model("qwen2", "llama-bpe").bytes();
        // What lies before the weights; the first half of it more often, where counts and lengths are.
        let end = bytes.len() / 2;
        for (share, byte) in flips {
            bytes[(share * share * end as f64) as usize] = byte;
        }
        // Many flips are harmless; that nothing panics is the test.
        let _ = read(&scratch.path().join("model.gguf"), &bytes);
    }

    #[test]
    fn any_bytes_after_the_magic_neither_panic_nor_allocate(rest in prop::collection::vec(any::<u8>(), 0..512)) {
        let scratch = tempfile::tempdir().unwrap();
        let bytes = [b"GGUF\x03\0\0\0", rest.as_slice()].concat();
        let _ = read(&scratch.path().join("model.gguf"), &bytes);
    }
}
