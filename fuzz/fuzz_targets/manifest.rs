//! Manifests: no text panics on its way to a snapshot and a plan, and every plan passes the checker.

#![no_main]

use std::sync::{Arc, LazyLock};

use berth_api::{Context, Source, Timestamp, assemble, read};
use berth_cloud::{CatalogOptions, builtin};
use berth_core::catalog::Catalog;
use berth_core::check::check;
use berth_core::provision;
use berth_core::snapshot::Policy;
use berth_core::units::Price;
use libfuzzer_sys::fuzz_target;

static KWOK: LazyLock<Arc<Catalog>> =
    LazyLock::new(|| Arc::new(builtin("kwok", &CatalogOptions::default()).expect("kwok is built in")));

/// A manifest of a few bytes can ask for a million replicas, which is legal and takes its time.
const PODS_MAX: usize = 50;

fuzz_target!(|text: &str| {
    let source = Source::Text { name: "fuzz".to_owned(), text: text.to_owned() };
    let context = Context { now: Timestamp::UNIX_EPOCH, node_cost: Price::ZERO };
    let assembled = assemble(read(&[source], &mut |_, _| {}), &context, &mut |_| Ok(Arc::clone(&KWOK)));
    if assembled.snapshot.pods.len() <= PODS_MAX {
        let policy = Policy { unavailable: assembled.unavailable, ..Policy::default() };
        let plan = provision::plan(&assembled.snapshot, &policy);
        let violations = check(&assembled.snapshot, &policy, &plan);
        assert!(violations.is_empty(), "{violations:?}");
    }
});
