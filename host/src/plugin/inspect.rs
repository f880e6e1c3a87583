//! What a plugin's file says about itself, read without opening it as a library: nothing of it runs.
//!
//! Opening a file that is cut off ends the process, and the system's own words about a library of another machine are
//! "no such file". So every file passes here first.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
};

use accredit_plugin_api::{
    abi::{API_MAJOR, API_MINOR},
    manifest::Manifest,
};
use object::{Object, ObjectSection, ObjectSymbol, elf::ELFMAG, read::ReadCache};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::error::{LoadError, Refusal};

/// What a plugin's file says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspected {
    /// The file, as it was named.
    pub path: PathBuf,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Name of the plugin's package.
    pub name: String,
    /// Version of the plugin's package.
    pub version: String,
    /// Major version of the api that it was built against.
    pub api_major: u32,
    /// Minor version of the api that it was built against.
    pub api_minor: u32,
    /// The oldest minor version of a host that it can live with.
    pub needs_minor: u32,
    /// Version of the accredit-plugin-api package that it was built against.
    pub api_package: String,
    /// Its compiler.
    pub compiler: String,
    /// The target triple that it was built for.
    pub target: String,
    /// It was built without optimisation.
    pub debug: bool,
}

impl Inspected {
    /// The name by which a configuration calls it: the package's, without `accredit-`.
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix("accredit-").unwrap_or(&self.name)
    }
}

/// Reads a plugin's manifest from its file, and refuses what this program cannot load.
pub fn inspect(path: &Path) -> Result<Inspected, LoadError> {
    read(path).map_err(|refusal| refusal.of(path))
}

fn read(path: &Path) -> Result<Inspected, Refusal> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Refusal::Missing,
        _ => Refusal::Unreadable(error),
    })?;
    if metadata.is_dir() {
        return Err(Refusal::Folder);
    }
    // Opening a pipe would wait for a writer.
    if !metadata.is_file() {
        return Err(Refusal::Special);
    }
    let file = File::open(path).map_err(Refusal::Unreadable)?;
    let bytes = metadata.len();
    check_header(&file, bytes)?;
    let manifest = read_manifest(&file)?;
    check_manifest(&manifest)?;
    Ok(Inspected {
        path: path.to_owned(),
        sha256: sha256(&file).map_err(Refusal::Unreadable)?,
        bytes,
        name: Manifest::text(&manifest.name),
        version: Manifest::text(&manifest.version),
        api_major: manifest.api_major,
        api_minor: manifest.api_minor,
        needs_minor: manifest.needs_minor,
        api_package: Manifest::text(&manifest.api_package),
        compiler: Manifest::text(&manifest.compiler),
        target: Manifest::text(&manifest.target),
        debug: manifest.flags & Manifest::DEBUG != 0,
    })
}

/// Size of the header of a 64-bit ELF file.
const HEADER: usize = 64;

/// Refuses what is no complete shared library of this machine, by the first bytes alone.
fn check_header(mut file: &File, bytes: u64) -> Result<(), Refusal> {
    let mut header = Vec::with_capacity(HEADER);
    file.by_ref().take(HEADER as u64).read_to_end(&mut header).map_err(Refusal::Unreadable)?;
    if header.is_empty() {
        return Err(Refusal::Empty);
    }
    let magic = &header[..header.len().min(ELFMAG.len())];
    if !ELFMAG.starts_with(magic) {
        return Err(Refusal::NotALibrary { found: looks_like(&header) });
    }
    let Ok(header) = <[u8; HEADER]>::try_from(header) else {
        return Err(Refusal::Truncated { wanted: HEADER as u64, found: bytes });
    };
    // Places and numbers are those of the ELF specification.
    let swapped = match header[5] {
        1 => cfg!(target_endian = "big"),
        2 => cfg!(target_endian = "little"),
        other => {
            return Err(Refusal::Damaged(format!("its byte order has the number {other}")));
        }
    };
    let u16_at = |at: usize| {
        let raw = u16::from_ne_bytes([header[at], header[at + 1]]);
        if swapped { raw.swap_bytes() } else { raw }
    };
    let machine = machine_name(u16_at(18));
    let found = match header[4] {
        1 => format!("a 32-bit machine ({machine})"),
        2 if swapped => format!("a machine of another byte order ({machine})"),
        2 => machine,
        other => {
            return Err(Refusal::Damaged(format!("its word size has the number {other}")));
        }
    };
    if found != std::env::consts::ARCH {
        return Err(Refusal::OtherMachine { found });
    }
    let found = match u16_at(16) {
        1 => Some("an object file"),
        2 => Some("a program"),
        3 => None,
        4 => Some("a core dump"),
        _ => Some("an ELF file of an unknown kind"),
    };
    if let Some(found) = found {
        return Err(Refusal::OtherKind { found });
    }
    let u64_at = |at: usize| {
        let mut raw = [0; 8];
        raw.copy_from_slice(&header[at..at + 8]);
        u64::from_ne_bytes(raw)
    };
    // The table of sections stands at the end of what a linker writes, so a cut goes through it or removes it.
    let end = |offset: usize, size: usize, count: usize| {
        u64_at(offset).saturating_add(u64::from(u16_at(size)) * u64::from(u16_at(count)))
    };
    let wanted = end(32, 54, 56).max(end(40, 58, 60));
    if wanted > bytes {
        return Err(Refusal::Truncated { wanted, found: bytes });
    }
    Ok(())
}

fn read_manifest(file: &File) -> Result<Manifest, Refusal> {
    let damaged = |error: object::Error| Refusal::Damaged(error.to_string());
    let cache = ReadCache::new(file);
    let library = object::File::parse(&cache).map_err(damaged)?;
    let symbol =
        library.dynamic_symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(Manifest::SYMBOL));
    let Some(symbol) = symbol else {
        return Err(if is_program(&library) { Refusal::OtherKind { found: "a program" } } else { Refusal::NoManifest });
    };
    let section = symbol.section_index().ok_or(Refusal::BadManifest)?;
    let section = library.section_by_index(section).map_err(damaged)?;
    let bytes = section.data_range(symbol.address(), symbol.size()).map_err(damaged)?.ok_or(Refusal::BadManifest)?;
    parse_manifest(bytes).ok_or(Refusal::BadManifest)
}

/// Whether this is a program that may stand anywhere in memory, which has the kind of a library and a flag.
fn is_program<'data>(library: &impl Object<'data>) -> bool {
    const FLAGS_1: u64 = 0x6fff_fffb;
    const PIE: u64 = 0x0800_0000;
    let dynamic = library.section_by_name(".dynamic").and_then(|section| section.data().ok()).unwrap_or_default();
    let (words, _) = dynamic.as_chunks::<8>();
    let (entries, _) = words.as_chunks::<2>();
    entries.iter().any(|[tag, value]| u64::from_ne_bytes(*tag) == FLAGS_1 && u64::from_ne_bytes(*value) & PIE != 0)
}

/// The fields that both sides know: a newer manifest may be longer than ours, an older one shorter.
fn parse_manifest(bytes: &[u8]) -> Option<Manifest> {
    const SIZE: std::ops::Range<usize> = 8..12;
    if !bytes.starts_with(&Manifest::MAGIC) {
        return None;
    }
    let size = u32::from_ne_bytes(bytes.get(SIZE)?.try_into().ok()?) as usize;
    let bytes = &bytes[..bytes.len().min(size)];
    let mut fields = Fields(bytes);
    let manifest = Manifest {
        magic: fields.take()?,
        struct_size: fields.number()?,
        api_major: fields.number()?,
        api_minor: fields.number()?,
        needs_minor: fields.number()?,
        flags: fields.number()?,
        name: fields.take().unwrap_or([0; _]),
        version: fields.take().unwrap_or([0; _]),
        api_package: fields.take().unwrap_or([0; _]),
        compiler: fields.take().unwrap_or([0; _]),
        target: fields.take().unwrap_or([0; _]),
    };
    Some(manifest)
}

/// The bytes of a manifest that are not read yet. Its fields follow each other without gaps, which a test holds.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }
}

fn check_manifest(manifest: &Manifest) -> Result<(), Refusal> {
    if manifest.api_major != API_MAJOR {
        return Err(Refusal::OtherMajor { major: manifest.api_major, minor: manifest.api_minor });
    }
    if manifest.needs_minor > API_MINOR {
        return Err(Refusal::NeedsNewerHost { needs: manifest.needs_minor });
    }
    if manifest.flags & Manifest::PANIC_ABORT != 0 {
        return Err(Refusal::PanicAbort);
    }
    Ok(())
}

fn sha256(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// The name of an ELF machine number, as rustc spells it where it knows it.
fn machine_name(machine: u16) -> String {
    let name = match machine {
        3 => "x86",
        21 => "powerpc64",
        22 => "s390x",
        40 => "arm",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        258 => "loongarch64",
        _ => return format!("machine number {machine}"),
    };
    name.to_owned()
}

/// What a file that is no ELF file looks like.
fn looks_like(start: &[u8]) -> &'static str {
    match start {
        [b'#', b'!', ..] => "a script",
        [b'M', b'Z', ..] => "a Windows program or library",
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => "a macOS program or library",
        [b'!', b'<', b'a', b'r', b'c', b'h', b'>', ..] => "a static library",
        [b'P', b'K', 3, 4, ..] => "a zip archive",
        [0x1f, 0x8b, ..] => "a compressed file",
        [0, b'a', b's', b'm', ..] => "a WebAssembly module",
        // A text may be cut inside a character.
        _ if std::str::from_utf8(start).is_ok_and(|text| !text.contains('\0'))
            || std::str::from_utf8(start).is_err_and(|e| e.error_len().is_none()) =>
        {
            "a text file"
        }
        _ => "a file of an unknown kind",
    }
}
