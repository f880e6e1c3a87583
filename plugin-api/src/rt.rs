//! What the macros expand to. Not for authors, and not a part of the stable interface.

use std::{
    cell::RefCell,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

pub use abi_stable::{
    library::{__call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult},
    std_types::{RStr, RString},
};
use abi_stable::{
    prefix_type::{PrefixTypeTrait, WithMetadata},
    std_types::{RErr, ROk, RSlice, RVec},
};
pub use schemars;
pub use serde;
pub use serde_json;

pub use crate::params::{ParamsSchema, check_range, missing_param, read_params, to_json};
use crate::{
    abi::{
        Plugin, PluginRef, RawCall, RawError, RawHost, RawReply, RawScheme, Ret, SchemeFunctions, SchemeFunctionsRef,
    },
    batch::Batch,
    context::{Context, Host},
    error::{Error, Result},
    outputs::{Advantages, Credit, Loss, Outputs, Refreshed, Rewards, Selection},
    params::Params,
    query::Queries,
    scheme::{Hook, Scheme, State},
};

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Makes panics on this thread remember their place instead of printing. It is the plugin's own standard library, so
/// the host's panic hook stays as it is.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|l| format!("{}:{}:{}", l.file(), l.line(), l.column()));
            let watched = PLACE.try_with(|slot| match slot.try_borrow_mut() {
                Ok(mut slot) if slot.as_str() == WATCHING => {
                    *slot = place.unwrap_or_default();
                    true
                }
                _ => false,
            });
            if !watched.unwrap_or(false) {
                before(info);
            }
        }));
    });
}

/// What [`PLACE`] holds while a guarded function runs on this thread.
const WATCHING: &str = "(unknown place)";

/// Runs an author's code: an error or a panic becomes a value.
pub fn guard<T>(function: impl FnOnce() -> Result<T>) -> Ret<T> {
    watch_panics();
    PLACE.with(|slot| WATCHING.clone_into(&mut slot.borrow_mut()));
    let outcome = catch_unwind(AssertUnwindSafe(function));
    let place = PLACE.with(|slot| {
        let mut slot = slot.borrow_mut();
        // Keep the buffer: a guarded call that succeeds allocates nothing after the first.
        if outcome.is_ok() {
            slot.clear();
            String::new()
        } else {
            std::mem::take(&mut *slot)
        }
    });
    match outcome {
        Ok(Ok(value)) => ROk(value),
        Ok(Err(error)) => {
            RErr(RawError { kind: error.kind, message: error.message.into(), location: error.location.into() })
        }
        Err(payload) => {
            let message = payload
                .downcast_ref::<&'static str>()
                .map(ToString::to_string)
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "(a payload that is not text)".to_owned());
            // Dropping the payload runs the author's code, which may panic again.
            if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
                std::mem::forget(again);
            }
            RErr(RawError { kind: RawError::PANICKED, message: message.into(), location: place.into() })
        }
    }
}

/// A scheme beside its host, behind the opaque pointer.
struct Instance<S> {
    scheme: S,
    host: Host,
}

struct Shim<S>(PhantomData<S>);

impl<S: Scheme> Shim<S> {
    unsafe extern "C" fn destroy(state: *mut u8) {
        let _ = guard(|| {
            // SAFETY: `state` comes from `build`, and the host calls this once.
            drop(unsafe { Box::from_raw(state.cast::<Instance<S>>()) });
            Ok(())
        });
    }

    unsafe extern "C" fn needs(state: *const u8) -> Ret<RString> {
        guard(|| {
            // SAFETY: `state` comes from `build` and lives.
            let instance = unsafe { &*state.cast::<Instance<S>>() };
            Ok(serde_json::to_string(&instance.scheme.needs())?.into())
        })
    }

    unsafe extern "C" fn call(state: *mut u8, call: RawCall<'_>) -> Ret<RVec<RawReply>> {
        guard(|| {
            // SAFETY: `state` comes from `build` and lives, and the host calls from one thread at a time.
            let instance = unsafe { &mut *state.cast::<Instance<S>>() };
            let inputs = call.inputs.as_slice();
            // SAFETY: the host describes live memory of the types that it says.
            let batch = unsafe { Batch::new(inputs) }?;
            // SAFETY: the same, for memory that nothing else touches during the call.
            let mut outputs = unsafe { Outputs::new(call.outputs.into_mut_slice()) };
            let context = Context::new(instance.host, &batch);
            let scheme = &mut instance.scheme;
            match Hook::of_id(call.hook) {
                Some(Hook::Select) => {
                    scheme.select(&batch, &mut Selection::take(&mut outputs)?, &context)?;
                }
                Some(Hook::Queries) => {
                    let mut queries = Queries::default();
                    scheme.queries(&batch, &mut queries, &context)?;
                    return Ok(queries.into_replies());
                }
                Some(Hook::Shape) => {
                    scheme.shape(&batch, &mut Rewards::take(&mut outputs)?, &context)?;
                }
                Some(Hook::Advantage) => {
                    scheme.advantage(&batch, &mut Advantages::take(&mut outputs)?, &context)?;
                }
                Some(Hook::Weigh) => {
                    scheme.weigh(&batch, &mut Credit::take(&mut outputs)?, &context)?;
                }
                Some(Hook::Refresh) => {
                    scheme.refresh(&batch, &mut Refreshed::take(&mut outputs)?, &context)?;
                }
                Some(Hook::Objective) => {
                    scheme.objective(&batch, &mut Loss::take(&mut outputs)?, &context)?;
                }
                None => {
                    return Err(Error::new(format!("this plugin's api knows no hook number {}", call.hook)));
                }
            }
            Ok(RVec::new())
        })
    }

    unsafe extern "C" fn save(state: *const u8) -> Ret<RVec<u8>> {
        guard(|| {
            // SAFETY: `state` comes from `build` and lives.
            let instance = unsafe { &*state.cast::<Instance<S>>() };
            Ok(instance.scheme.save()?.map_or_else(RVec::new, |state| {
                let mut bytes = state.version.to_le_bytes().to_vec();
                bytes.extend(state.bytes);
                bytes.into()
            }))
        })
    }

    unsafe extern "C" fn restore(state: *mut u8, bytes: RSlice<'_, u8>) -> Ret<()> {
        guard(|| {
            // SAFETY: `state` comes from `build` and lives, and the host calls from one thread at a time.
            let instance = unsafe { &mut *state.cast::<Instance<S>>() };
            let Some((version, bytes)) = bytes.as_slice().split_first_chunk::<4>() else {
                return Err(Error::new("saved state is too short to have a version"));
            };
            instance.scheme.restore(State { version: u32::from_le_bytes(*version), bytes: bytes.to_vec() })
        })
    }

    #[cfg(feature = "next-minor")]
    unsafe extern "C" fn later(_state: *mut u8) -> Ret<()> {
        ROk(())
    }

    abi_stable::staticref!(const FUNCTIONS: WithMetadata<SchemeFunctions> = WithMetadata::new(SchemeFunctions {
        destroy: Self::destroy,
        needs: Self::needs,
        call: Self::call,
        save: Self::save,
        restore: Self::restore,
        #[cfg(feature = "next-minor")]
        later: Self::later,
    }));
    const TABLE: SchemeFunctionsRef = SchemeFunctionsRef(Self::FUNCTIONS.as_prefix());
}

/// Makes a scheme behind the boundary.
pub fn build<S: Scheme>(parameters: RStr<'_>, host: RawHost) -> Ret<RawScheme> {
    guard(|| {
        let host = Host::new(host);
        let scheme = S::new(S::Params::from_json(parameters.as_str())?, host)?;
        let instance = Box::new(Instance { scheme, host });
        Ok(RawScheme { state: Box::into_raw(instance).cast(), functions: Shim::<S>::TABLE })
    })
}

/// The answer to a name that the library does not have.
pub fn unknown(name: RStr<'_>, have: &[&str]) -> Ret<RawScheme> {
    RErr(RawError {
        kind: RawError::PARAMETERS,
        message: format!("this library has no scheme `{name}`; it has: {}", have.join(", ")).into(),
        location: RString::new(),
    })
}

/// The description of one scheme.
pub fn describe<S: Scheme>() -> serde_json::Value {
    serde_json::json!({ "name": S::NAME, "about": S::ABOUT, "params": S::Params::schema() })
}

/// The description of a library.
pub fn describe_all(schemes: &[serde_json::Value]) -> Ret<RString> {
    guard(|| Ok(serde_json::json!({ "schemes": schemes }).to_string().into()))
}

/// The root module of a library.
pub fn module(
    describe: extern "C" fn() -> Ret<RString>,
    build: extern "C" fn(RStr<'_>, RStr<'_>, RawHost) -> Ret<RawScheme>,
) -> PluginRef {
    Plugin { describe, build }.leak_into_prefix()
}

/// Exports the schemes of a library (`crate-type = ["cdylib"]`). Once per library.
#[macro_export]
macro_rules! export_plugin {
    ($($scheme:ty),+ $(,)?) => {
        const _: () = {
            use $crate::{Scheme as _, rt};

            #[unsafe(export_name = "accredit_plugin_manifest")]
            static MANIFEST: $crate::manifest::Manifest = $crate::manifest::Manifest::new(
                env!("CARGO_PKG_NAME"),
                env!("CARGO_PKG_VERSION"),
                (if cfg!(panic = "abort") { $crate::manifest::Manifest::PANIC_ABORT } else { 0 })
                    | (if cfg!(debug_assertions) { $crate::manifest::Manifest::DEBUG } else { 0 }),
            );

            extern "C" fn describe() -> $crate::abi::Ret<rt::RString> {
                match rt::guard(|| $crate::Result::Ok(::std::vec![$(rt::describe::<$scheme>()),+])) {
                    rt::Returned::ROk(schemes) => rt::describe_all(&schemes),
                    rt::Returned::RErr(error) => rt::Returned::RErr(error),
                }
            }

            extern "C" fn build(
                name: rt::RStr<'_>,
                parameters: rt::RStr<'_>,
                host: $crate::abi::RawHost,
            ) -> $crate::abi::Ret<$crate::abi::RawScheme> {
                $(if name.as_str() == <$scheme>::NAME {
                    return rt::build::<$scheme>(parameters, host);
                })+
                rt::unknown(name, &[$(<$scheme>::NAME),+])
            }

            fn module() -> $crate::abi::PluginRef {
                rt::module(describe, build)
            }

            extern "C" fn erased() -> rt::RootModuleResult {
                rt::__call_root_module_loader(module)
            }

            // The name under which abi_stable looks for a library's header; a test in plugin-api holds the two equal.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            static HEADER: rt::LibHeader = unsafe {
                rt::LibHeader::from_constructor::<$crate::abi::PluginRef>(erased, rt::CheckTypeLayout::Yes)
            };
        };
    };
}

pub use abi_stable::std_types::RResult as Returned;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exported_name_is_the_one_that_abi_stable_looks_for() {
        assert_eq!(abi_stable::library::ROOT_MODULE_LOADER_NAME, "_1as_0lib_1header_0root_bmodule_bloader");
    }

    #[test]
    fn a_panic_becomes_an_error_with_its_place() {
        let caught = guard::<()>(|| {
            let empty: Vec<u32> = Vec::new();
            let index = empty.len() + 6;
            let _ = empty[index];
            Ok(())
        });
        let RErr(error) = caught else { panic!("not caught") };
        assert_eq!(error.kind, RawError::PANICKED);
        assert!(error.message.contains("index is 6"), "{}", error.message);
        assert!(error.location.contains("rt.rs:"), "{}", error.location);
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_caught_too() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("second");
            }
        }
        let caught = guard::<()>(|| std::panic::panic_any(Bomb));
        assert!(matches!(caught, RErr(error) if error.message == "(a payload that is not text)"));
    }
}
