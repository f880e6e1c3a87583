//! A GGUF file: its metadata, and where its tensors lie. Everything that the file claims about itself is checked when it
//! is opened.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
};

use memmap2::Mmap;

use crate::{
    cursor::Cursor,
    error::{Error, Result},
    metadata::{Keys, Metadata},
    tensor_type::TensorType,
};

const MAGIC: &[u8] = b"GGUF";
const ALIGNMENT: u64 = 32;
const MOST_DIMENSIONS: u32 = 4;
/// More tensors than any file has.
const MOST_TENSORS: usize = 65_536;

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its shape, outermost first, as Hugging Face has it.
    pub shape: Vec<u64>,
    /// The type of its weights.
    pub kind: TensorType,
    /// Number of weights.
    pub weights: u64,
    /// Its first byte, counted from the start of the file.
    pub offset: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// An open GGUF file.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    map: Mmap,
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

impl Gguf {
    /// Opens a file. Errors: no such file, no GGUF file of version 2 or 3, or one that contradicts itself.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let about = file.metadata().map_err(|e| Error::io(path, e))?;
        if !about.is_file() {
            return Err(Error::file(path, "not a file, expected a GGUF file"));
        }
        // SAFETY: the map is only read. A file that another program cuts while it is read ends this program with a
        // signal, as it does every program that maps files.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(path, e))?;
        let mut cursor = Cursor { path, bytes: &map, at: 0 };
        let (version, metadata, tensors) = read(&mut cursor)?;
        let by_name = tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.clone(), index)).collect();
        Ok(Self { path: path.to_owned(), map, version, metadata, tensors, by_name })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format's version.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).and_then(|index| self.tensors.get(*index))
    }

    pub(crate) fn keys(&self) -> Keys<'_> {
        Keys { path: &self.path, bytes: &self.map, metadata: &self.metadata }
    }

    /// The bytes of a tensor.
    pub(crate) fn bytes(&self, tensor: &TensorInfo) -> &[u8] {
        &self.map[tensor.offset..tensor.offset + tensor.bytes]
    }
}

fn read(cursor: &mut Cursor) -> Result<(u32, Metadata, Vec<TensorInfo>)> {
    if !cursor.bytes.starts_with(MAGIC) {
        return Err(Error::file(cursor.path, "not a GGUF file: it does not begin with the letters GGUF"));
    }
    cursor.at = MAGIC.len();
    let at = cursor.at;
    let version = cursor.u32("version")?;
    match version {
        2 | 3 => {}
        0 | 1 => {
            let message = format!("{version}, expected 2 or 3; a newer llama.cpp can convert the model again");
            return Err(cursor.error(at, "version", message));
        }
        // A small number with its bytes the other way round.
        _ if version.trailing_zeros() >= 16 => {
            return Err(cursor.error(at, "version", "the file is big endian, expected a little-endian one"));
        }
        _ => return Err(cursor.error(at, "version", format!("{version}, expected 2 or 3"))),
    }
    // A tensor needs a name's length, a number of dimensions, a type and an offset; a key its length, a type and a byte.
    let tensors_at = cursor.at;
    let tensor_count = cursor.count(24, "number of tensors")?;
    let key_count = cursor.count(13, "number of keys")?;
    if tensor_count > MOST_TENSORS {
        let message = format!("{tensor_count}, expected at most {MOST_TENSORS}");
        return Err(cursor.error(tensors_at, "number of tensors", message));
    }
    let metadata = Metadata::read(cursor, key_count)?;
    let keys = Keys { path: cursor.path, bytes: cursor.bytes, metadata: &metadata };
    let alignment = keys.optional_size("general.alignment")?.unwrap_or(ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > u64::from(u32::MAX) {
        return Err(keys.error("general.alignment", format!("{alignment} is no power of two")));
    }
    if let Some(parts) = keys.optional_size("split.count")?.filter(|parts| *parts > 1) {
        let message = format!("the model is split into {parts} files; `llama-gguf-split --merge` makes one of them");
        return Err(keys.error("split.count", message));
    }
    let mut tensors = Vec::new();
    let mut names = HashMap::new();
    for index in 0..tensor_count {
        let at = cursor.at;
        let tensor = read_tensor(cursor, alignment)?;
        if names.insert(tensor.name.clone(), index).is_some() {
            return Err(cursor.error(at, &tensor.name, "the tensor is there twice"));
        }
        tensors.push(tensor);
    }
    place(cursor, alignment as usize, &mut tensors)?;
    Ok((version, metadata, tensors))
}

/// Reads what is said about a tensor. Its offset still counts from the start of the data.
fn read_tensor(cursor: &mut Cursor, alignment: u64) -> Result<TensorInfo> {
    let name = cursor.name("name of a tensor")?;
    let at = cursor.at;
    let dimensions = cursor.u32(name)?;
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        let message = format!("{dimensions} dimensions, expected 1 to {MOST_DIMENSIONS}");
        return Err(cursor.error(at, name, message));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(cursor.u64(name)?);
    }
    let type_at = cursor.at;
    let id = cursor.u32(name)?;
    let kind =
        TensorType::of(id).ok_or_else(|| cursor.error(type_at, name, format!("its type {id} is not known here")))?;
    let row = shape[0];
    shape.reverse();
    let shape_text = format!("shape {shape:?}");
    let weights =
        shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size)).filter(|weights| *weights > 0);
    let weights = weights.ok_or_else(|| cursor.error(at, name, format!("{shape_text} has no weights, or too many")))?;
    if !row.is_multiple_of(kind.block as u64) {
        let message = format!("{shape_text}: rows of {row} are not whole blocks of {} ({})", kind.block, kind.name);
        return Err(cursor.error(at, name, message));
    }
    let bytes = (weights / kind.block as u64).checked_mul(kind.bytes as u64).and_then(|n| usize::try_from(n).ok());
    let bytes = bytes.ok_or_else(|| cursor.error(at, name, format!("{shape_text} is larger than any memory")))?;
    let offset_at = cursor.at;
    let offset = cursor.u64(name)?;
    if !offset.is_multiple_of(alignment) {
        let message = format!("offset {offset} is not a multiple of the alignment, {alignment}");
        return Err(cursor.error(offset_at, name, message));
    }
    let offset = usize::try_from(offset)
        .map_err(|_| cursor.error(offset_at, name, format!("offset {offset} is larger than any memory")))?;
    Ok(TensorInfo { name: name.to_owned(), shape, kind, weights, offset, bytes })
}

/// Counts offsets from the start of the file, and checks that tensors lie inside it and apart.
fn place(cursor: &Cursor, alignment: usize, tensors: &mut [TensorInfo]) -> Result<()> {
    let start = cursor.at.next_multiple_of(alignment);
    let size = cursor.bytes.len();
    for tensor in tensors.iter_mut() {
        let end = start.checked_add(tensor.offset).and_then(|offset| offset.checked_add(tensor.bytes));
        if end.is_none_or(|end| end > size) {
            let message = format!(
                "{} bytes at {start} + {} lie outside the file of {size} bytes; is it cut short?",
                tensor.bytes, tensor.offset
            );
            return Err(Error::tensor(cursor.path, &tensor.name, message));
        }
        tensor.offset += start;
    }
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    for pair in order.windows(2) {
        if let [one, next] = pair
            && one.offset + one.bytes > next.offset
        {
            let message = format!("begins at byte {}, inside of tensor `{}`", next.offset, one.name);
            return Err(Error::tensor(cursor.path, &next.name, message));
        }
    }
    Ok(())
}
