//! Where what was fetched is kept, outside every checkout.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder for libtorch in the cache: in `$ACCREDIT_CACHE`, else `$XDG_CACHE_HOME/accredit`, else
/// `~/.cache/accredit`. `variable` looks up an environment variable.
pub fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = if let Some(own) = set("ACCREDIT_CACHE") {
        std::path::absolute(&own).with_context(|| format!("ACCREDIT_CACHE is set to {}", own.display()))?
    } else if let Some(shared) = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        // The specification of XDG tells to ignore a relative path.
        shared.join("accredit")
    } else {
        let home = set("HOME").context("there is no place for libtorch: set ACCREDIT_CACHE, since HOME is not set")?;
        home.join(".cache/accredit")
    };
    Ok(cache.join("libtorch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(variables: &[(&str, &str)]) -> Result<PathBuf> {
        folder(|wanted| variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn the_most_particular_variable_wins() {
        let all = [("ACCREDIT_CACHE", "/big"), ("XDG_CACHE_HOME", "/cache"), ("HOME", "/home/me")];
        for (variables, expected) in [
            (&all[..], "/big/libtorch"),
            (&all[1..], "/cache/accredit/libtorch"),
            (&all[2..], "/home/me/.cache/accredit/libtorch"),
        ] {
            assert_eq!(folder_with(variables).unwrap(), PathBuf::from(expected));
        }
    }

    #[test]
    fn empty_and_relative_values_do_no_harm() {
        let home = ("HOME", "/home/me");
        let expected = PathBuf::from("/home/me/.cache/accredit/libtorch");
        assert_eq!(folder_with(&[("ACCREDIT_CACHE", ""), ("XDG_CACHE_HOME", ""), home]).unwrap(), expected);
        assert_eq!(folder_with(&[("XDG_CACHE_HOME", "cache"), home]).unwrap(), expected);
        assert!(folder_with(&[("ACCREDIT_CACHE", "cache")]).unwrap().is_absolute());
    }

    #[test]
    fn without_a_home_the_user_is_told_what_to_set() {
        assert!(folder_with(&[]).unwrap_err().to_string().contains("set ACCREDIT_CACHE"));
    }
}
