//! Catalogs: no text panics in any format, and what is exported is imported as the same catalog.

#![no_main]

use std::sync::LazyLock;

use berth_cloud::filter::{Filter, select};
use berth_cloud::{CatalogOptions, builtin, export, import};
use berth_core::catalog::Catalog;
use libfuzzer_sys::fuzz_target;

static KWOK: LazyLock<Catalog> =
    LazyLock::new(|| builtin("kwok", &CatalogOptions::default()).expect("kwok is built in"));

fuzz_target!(|text: &str| {
    let options = CatalogOptions { zones: vec!["a".into(), "b".into()], ..CatalogOptions::default() };
    if let Ok(catalog) = import(text, "fuzz", &options) {
        let exported = export(&catalog).expect("a catalog can be exported");
        assert_eq!(import(&exported, "other", &options).as_ref(), Ok(&catalog));
    }
    if let Ok(filter) = text.parse::<Filter>() {
        let _ = select(&KWOK, &filter);
    }
});
