//! The manifest: a static without pointers, so that it can be read from the file without running anything of it.

use crate::abi::{API_MAJOR, API_MINOR};

/// What a plugin file says about itself. The export macro makes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Manifest {
    /// [`Manifest::MAGIC`].
    pub magic: [u8; 8],
    /// Size of this struct when the plugin was built; a later version may be longer.
    pub struct_size: u32,
    /// Api version that it was built against.
    pub api_major: u32,
    /// Api version that it was built against.
    pub api_minor: u32,
    /// The oldest minor version of a host that it can live with.
    pub needs_minor: u32,
    /// [`Manifest::PANIC_ABORT`] and [`Manifest::DEBUG`].
    pub flags: u32,
    /// Name of the package, padded with zeros as all texts here.
    pub name: [u8; 64],
    /// Version of the package.
    pub version: [u8; 32],
    /// Version of this crate.
    pub api_package: [u8; 32],
    /// `rustc --version` of the plugin's compiler.
    pub compiler: [u8; 64],
    /// Target triple.
    pub target: [u8; 48],
}

impl Manifest {
    /// First bytes of every manifest.
    pub const MAGIC: [u8; 8] = *b"ACCREDIT";
    /// The symbol under which a library exports it.
    pub const SYMBOL: &'static str = "accredit_plugin_manifest";
    /// Flag: built with `panic = "abort"`, which the host refuses.
    pub const PANIC_ABORT: u32 = 1;
    /// Flag: built without optimisation.
    pub const DEBUG: u32 = 2;

    /// The manifest of a package built now.
    #[must_use]
    pub const fn new(name: &str, version: &str, flags: u32) -> Self {
        Self {
            magic: Self::MAGIC,
            struct_size: size_of::<Self>() as u32,
            api_major: API_MAJOR,
            api_minor: API_MINOR,
            needs_minor: 0,
            flags,
            name: padded(name),
            version: padded(version),
            api_package: padded(env!("CARGO_PKG_VERSION")),
            compiler: padded(env!("ACCREDIT_RUSTC")),
            target: padded(env!("ACCREDIT_TARGET")),
        }
    }

    /// One of the texts without its padding.
    pub fn text(field: &[u8]) -> String {
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    }
}

const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let (bytes, mut out, mut i) = (text.as_bytes(), [0_u8; N], 0);
    while i < bytes.len() && i < N {
        out[i] = bytes[i];
        i += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_padded_cut_and_read_back() {
        assert_eq!(Manifest::text(&padded::<8>("grpo")), "grpo");
        assert_eq!(Manifest::text(&padded::<4>("actfocus")), "actf");
        assert_eq!(size_of::<Manifest>(), 8 + 5 * 4 + 64 + 32 + 32 + 64 + 48);
    }
}
