//! Everything that crosses the boundary between the host and a plugin. Authors never see it.
//!
//! Rules of growth, held by the loader's tests:
//! 1. Plain `#[repr(C)]` structs are frozen for ever. 2. The tables of functions (prefix types) gain fields only at the
//! end; `last_prefix_field` never moves. 3. No type, field, function parameter or the crate is ever renamed. 4. Open
//! sets are numbers or names, never Rust enums. 5. Descriptions and parameters are JSON text: keys may be added.
//! 6. An addition is a new minor version; anything else is a new major one.

#![expect(clippy::expl_impl_clone_on_copy, reason = "abi_stable's derive writes these impls")]

use abi_stable::{
    StableAbi,
    library::RootModule,
    sabi_types::VersionStrings,
    std_types::{RResult, RSlice, RSliceMut, RStr, RString, RVec},
};

/// Major version of the api: plugins of another one are refused.
pub const API_MAJOR: u32 = 1;
/// Minor version of the api: it counts additions.
pub const API_MINOR: u32 = if cfg!(feature = "next-minor") { 1 } else { 0 };

/// Type of a column's elements.
#[repr(transparent)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct DType(pub u32);

impl DType {
    /// 32-bit float.
    pub const F32: Self = Self(1);
    /// Byte.
    pub const U8: Self = Self(2);
    /// 32-bit unsigned integer.
    pub const U32: Self = Self(3);
    /// 64-bit unsigned integer.
    pub const U64: Self = Self(4);
    /// 64-bit float.
    pub const F64: Self = Self(5);
    /// Boolean, one byte, 0 or 1.
    pub const BOOL: Self = Self(6);

    /// The type's name in messages.
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "f32",
            2 => "u8",
            3 => "u32",
            4 => "u64",
            5 => "f64",
            6 => "bool",
            _ => "a type that this api does not know",
        }
    }
}

/// A named column that the callee reads.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct RawColumn<'a> {
    /// Its name.
    pub name: RStr<'a>,
    /// Type of its elements.
    pub dtype: DType,
    /// First element; never null, dangling where `len` is 0.
    pub ptr: *const u8,
    /// Number of elements.
    pub len: usize,
}

/// A named column that the callee writes.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawColumnMut<'a> {
    /// Its name.
    pub name: RStr<'a>,
    /// Type of its elements.
    pub dtype: DType,
    /// First element; null means that the callee has taken it.
    pub ptr: *mut u8,
    /// Number of elements.
    pub len: usize,
}

/// One call of a hook.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawCall<'a> {
    /// Which hook: [`crate::Hook::id`].
    pub hook: u32,
    /// What it reads.
    pub inputs: RSlice<'a, RawColumn<'a>>,
    /// What it writes.
    pub outputs: RSliceMut<'a, RawColumnMut<'a>>,
}

/// A column that the callee made and the caller frees: results whose length the caller cannot know.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawReply {
    /// Its name.
    pub name: RString,
    /// Type of its elements.
    pub dtype: DType,
    /// The elements' bytes in native order.
    pub bytes: RVec<u8>,
}

/// What went wrong.
#[repr(C)]
#[derive(StableAbi, Debug)]
pub struct RawError {
    /// One of the constants.
    pub kind: u32,
    /// In words.
    pub message: RString,
    /// A place: `file:line:column` of a panic, the path of a parameter; may be empty.
    pub location: RString,
}

impl RawError {
    /// The hook returned an error.
    pub const FAILED: u32 = 1;
    /// The plugin panicked.
    pub const PANICKED: u32 = 2;
    /// A parameter does not fit.
    pub const PARAMETERS: u32 = 3;
    /// A column that the scheme reads is absent or of another type.
    pub const MISSING_COLUMN: u32 = 4;
}

/// What every function that crosses returns.
pub type Ret<T> = RResult<T, RawError>;

/// The host's functions, as a plugin sees them.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = HostFunctionsRef, prefix_fields = HostFunctionsPrefix)))]
pub struct HostFunctions {
    /// Log line: level 1 error, 2 warning, 3 information, 4 detail.
    pub log: extern "C" fn(context: u64, level: u32, message: RStr<'_>),
    /// Named number; the host reports the mean, weighted by `weight`, of what one iteration pushed.
    pub metric: extern "C" fn(context: u64, name: RStr<'_>, value: f64, weight: f64),
    /// How many threads a plugin may use.
    pub threads: extern "C" fn(context: u64) -> u32,
    /// The user asked to stop.
    #[sabi(last_prefix_field)]
    pub cancelled: extern "C" fn(context: u64) -> bool,
    /// A made-up addition of a later minor version.
    #[cfg(feature = "next-minor")]
    pub later: extern "C" fn(context: u64) -> u32,
}

/// The host, for one scheme.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct RawHost {
    /// Which scheme calls; opaque to the plugin.
    pub context: u64,
    /// The host's functions.
    pub functions: HostFunctionsRef,
}

/// The functions of one kind of scheme.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = SchemeFunctionsRef, prefix_fields = SchemeFunctionsPrefix)))]
pub struct SchemeFunctions {
    /// Ends the scheme. Once.
    pub destroy: unsafe extern "C" fn(state: *mut u8),
    /// What this scheme, with its parameters, implements and needs: JSON text.
    pub needs: unsafe extern "C" fn(state: *const u8) -> Ret<RString>,
    /// Calls a hook.
    pub call: unsafe extern "C" fn(state: *mut u8, call: RawCall<'_>) -> Ret<RVec<RawReply>>,
    /// State that must survive a resume: its version in the first four bytes (little endian), then the bytes; empty
    /// means none.
    pub save: unsafe extern "C" fn(state: *const u8) -> Ret<RVec<u8>>,
    /// Restores what `save` gave.
    #[sabi(last_prefix_field)]
    pub restore: unsafe extern "C" fn(state: *mut u8, bytes: RSlice<'_, u8>) -> Ret<()>,
    /// A made-up addition of a later minor version.
    #[cfg(feature = "next-minor")]
    pub later: unsafe extern "C" fn(state: *mut u8) -> Ret<()>,
}

/// One scheme with its parameters.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawScheme {
    /// Opaque; handed back to every function.
    pub state: *mut u8,
    /// The scheme's functions.
    pub functions: SchemeFunctionsRef,
}

/// What a library exports.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginRef, prefix_fields = PluginPrefix)))]
pub struct Plugin {
    /// The schemes in this library: JSON text.
    pub describe: extern "C" fn() -> Ret<RString>,
    /// Makes a scheme from its name and its parameters (JSON text).
    #[sabi(last_prefix_field)]
    pub build: extern "C" fn(scheme: RStr<'_>, parameters: RStr<'_>, host: RawHost) -> Ret<RawScheme>,
}

impl RootModule for PluginRef {
    abi_stable::declare_root_module_statics! {PluginRef}
    const BASE_NAME: &'static str = "accredit_plugin";
    const NAME: &'static str = "accredit_plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}
