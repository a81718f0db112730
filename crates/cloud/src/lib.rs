//! What clouds offer: the built-in catalogs, catalogs read from files, and how to search them; and what
//! Berth asks of a cloud, whichever it is (`provider::Cloud`).
//!
//! Every catalog from here lists its types in the order of their names, each name once, and the offerings
//! of a type in the order of zone, capacity type and labels, each once.

mod aws;
mod draft;
mod error;
mod field;
pub mod filter;
mod import;
pub mod kwok;
pub mod machine;
pub mod provider;
mod quoting;
pub mod vpsie;

use std::fs;
use std::io;
use std::path::Path;

use berth_core::catalog::Catalog;
use berth_core::names::Text;

pub use crate::error::{CatalogError, Place, Problem};
pub use crate::import::{export, import};
pub use crate::provider::Cloud;
pub use crate::quoting::QuotingCloud;

/// By this name those who are asked know this program.
pub const USER_AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

/// What a price list does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogOptions {
    /// Where types can be had whose list names no zones. Empty: the built-in catalogs' own zones, and
    /// `a`, `b` and `c` of each region of a list that names regions.
    pub zones: Vec<Text>,
    /// How much cheaper than on-demand spot is assumed to be where a list has no spot prices. At 0 there
    /// is no reason to take spot, and none is offered; more than 100 counts as 100.
    pub spot_discount_percent: u8,
}

impl Default for CatalogOptions {
    fn default() -> Self {
        Self { zones: Vec::new(), spot_discount_percent: 60 }
    }
}

impl CatalogOptions {
    /// In order and each zone once, so that the order of flags changes nothing.
    fn normalized(&self) -> Self {
        let mut options = self.clone();
        options.zones.sort();
        options.zones.dedup();
        options
    }
}

const BUILTIN: [&str; 2] = ["aws-us-east-1", "kwok"];

pub fn builtin_names() -> &'static [&'static str] {
    &BUILTIN
}

/// A catalog that is part of the program, or `None` if there is none of this name.
pub fn builtin(name: &str, options: &CatalogOptions) -> Option<Catalog> {
    let options = options.normalized();
    match name {
        "kwok" => Some(kwok::catalog(&options.zones)),
        "aws-us-east-1" => aws::catalog(&options),
        _ => None,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("there is no catalog `{name}`: it is neither a file nor built in; built in are {names}", names = BUILTIN.join(", "))]
    Unknown { name: String },
    #[error("{path}: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error("{path}: {error}")]
    Invalid { path: String, error: CatalogError },
}

/// The built-in catalog of this name, or else the file at this path in whichever format it is.
pub fn load(name_or_path: &str, options: &CatalogOptions) -> Result<Catalog, LoadError> {
    if let Some(catalog) = builtin(name_or_path, options) {
        return Ok(catalog);
    }
    let path = || name_or_path.to_owned();
    let text = fs::read_to_string(name_or_path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LoadError::Unknown { name: path() },
        _ => LoadError::Unreadable { path: path(), error },
    })?;
    let stem = Path::new(name_or_path).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name_or_path);
    import(&text, stem, options).map_err(|error| LoadError::Invalid { path: path(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_name_is_a_catalog_of_that_name() {
        for name in builtin_names() {
            let catalog = builtin(name, &CatalogOptions::default()).unwrap();
            assert_eq!(&*catalog.name, *name);
            assert_eq!(load(name, &CatalogOptions::default()).unwrap(), catalog);
        }
        assert_eq!(builtin("gcp", &CatalogOptions::default()), None);
    }

    #[test]
    fn what_is_neither_built_in_nor_a_file() {
        let error = load("no-such-catalog", &CatalogOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no catalog `no-such-catalog`: it is neither a file nor built in; built in are aws-us-east-1, kwok"
        );
        let directory = load("data", &CatalogOptions::default()).unwrap_err();
        assert!(matches!(directory, LoadError::Unreadable { .. }), "{directory}");
        let table = "data/aws-us-east-1.csv";
        let without_zones = load(table, &CatalogOptions::default()).unwrap_err();
        assert!(without_zones.to_string().ends_with("(--zones)"), "{without_zones}");
        let options = CatalogOptions { zones: vec!["z".into()], ..CatalogOptions::default() };
        assert_eq!(load(table, &options).unwrap().types.len(), 1345);
    }
}
