//! Plugins that were built for another minor version of the api, and plugins that say they were not.

use std::fs;

use accredit::plugin::{Library, Refusal};
use accredit_plugin_api::abi::API_MINOR;

use super::{check_harmless, find};
use crate::plugins;

#[test]
fn a_newer_minor_loads_in_any_order_with_an_equal_one() {
    let (equal, newer) = (plugins::library("accredit-misbehave"), plugins::next_minor_library("accredit-misbehave"));
    for path in [&newer, &equal, &newer] {
        check_harmless(path);
    }
    let minor = |path| Library::load(path, None).unwrap().inspected().api_minor;
    assert_eq!((minor(&equal), minor(&newer)), (API_MINOR, 1));
}

#[test]
fn a_library_with_other_types_than_its_version_says_is_refused_with_the_difference() {
    let mut bytes = fs::read(plugins::library("accredit-misbehave")).unwrap();
    // A field of the struct that describes one call, as the library's own description names it.
    let place = find(&bytes, b"hook;inputs;outputs;");
    bytes[place + 5] = b'x';
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libaccredit_other.so");
    fs::write(&path, bytes).unwrap();
    let error = Library::load(&path, None).unwrap_err();
    let Refusal::OtherLayout { differences, .. } = &error.refusal else {
        panic!("{error}");
    };
    assert!(differences.len() <= 9, "{differences:?}");
    let text = error.to_string();
    assert!(text.contains("plugin `xnputs`, host `inputs`"), "{text}");
    assert!(text.contains("RawCall"), "{text}");
    assert!(text.len() < 2000, "{} bytes: {text}", text.len());
}
