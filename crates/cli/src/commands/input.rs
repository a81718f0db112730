//! From files and clusters to what the planner sees, for every command that plans.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_api::{Assembled, ClassKind, Measured, Problem, Source};
use berth_cloud::LoadError;
use berth_core::catalog::Catalog;
use berth_core::disruption::DisruptionPolicy;
use berth_core::plan::Skipped;
use berth_core::snapshot::{Policy, Snapshot};
use berth_operator::Listing;

use super::Failure;
use crate::args::{CatalogChoice, Input};
use crate::out;
use crate::progress;
use crate::render::view::counted;

/// What is to be judged.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) snapshot: Snapshot,
    pub(crate) policy: Policy,
    pub(crate) skipped: Vec<Skipped>,
    /// Something is wrong with the input, and has been reported.
    pub(crate) incomplete: bool,
    /// Objects were left out, so nothing may be removed.
    pub(crate) is_partial: bool,
    /// What is hardly meant that way; of interest to who wants to remove nodes.
    remarks: Vec<Problem>,
}

impl Judged {
    /// Tells what has to be known before nodes are removed, and whether they may be.
    pub(crate) fn may_remove(&self) -> bool {
        for remark in &self.remarks {
            out::problem(&format_args!("{remark} (a remark, not an error)"));
        }
        if self.is_partial {
            out::problem(&"berth: objects were left out, and they may need the nodes: none is taken away");
        }
        !self.is_partial
    }
}

/// Reads all that was named and reports what is wrong with it. `None` if that leaves nothing to judge:
/// a plan for half of the input is only made for who asked for it.
pub(crate) fn read(input: &Input, worth: DisruptionPolicy) -> Result<Option<Judged>, Failure> {
    let mut catalogs = catalogs(&input.catalog)?;
    let files = input.paths.iter().map(|path| source(path, input.catalog.catalog.as_deref()));
    let choice = input.cluster.choice();
    let scheduler = &input.judging.scheduler_config;
    let services = scheduler.needs_services().then(berth_api::services);
    let reach = |_: &_| choice.as_ref().map(|choice| Listing::begin(choice, services)).transpose();
    let mut listing = progress::during("Reaching the cluster", reach)?;
    let what = if listing.is_some() { "Reading the cluster" } else { "Reading manifests" };
    let (assembled, unmeasured) = progress::during(what, |counter| {
        let sources = files.chain(listing.iter_mut().flatten());
        let mut manifests = berth_api::read(sources, &mut |_bytes, objects| counter.set(objects));
        manifests.scheduler = scheduler.clone();
        let usage = listing.map_or(Ok(Measured::Never), Listing::usage);
        let unmeasured = usage.map(|usage| manifests.usage = usage).err();
        (berth_api::assemble(manifests, &input.context(), &mut catalogs), unmeasured)
    });
    if let Some(why) = unmeasured {
        out::problem(&format_args!(
            "metrics.k8s.io: {why}; what pods ask for counts instead (a remark, not an error)"
        ));
    }
    for problem in &assembled.problems {
        out::problem(problem);
    }
    let incomplete = !assembled.problems.is_empty();
    if incomplete && !input.keep_going {
        let problems = counted(assembled.problems.len(), "problem");
        out::problem(&format_args!("berth: {problems}; nothing was judged (--keep-going judges the rest)"));
        return Ok(None);
    }
    let mut policy = input.judging.policy(worth);
    let Assembled { snapshot, is_partial, unavailable, skipped, remarks, .. } = assembled;
    policy.unavailable.extend(unavailable);
    Ok(Some(Judged { snapshot, policy, skipped, incomplete, is_partial, remarks }))
}

/// The file that is the catalog may lie among the manifests.
pub(super) fn source(path: &Path, catalog: Option<&str>) -> Source {
    if path == Path::new("-") {
        return Source::Stdin;
    }
    Source::Path { path: path.to_owned(), but: catalog.map(PathBuf::from) }
}

/// The catalog that was named, for every class; or else the one that is built in for the class.
fn catalogs(
    choice: &CatalogChoice,
) -> Result<impl FnMut(ClassKind) -> Result<Arc<Catalog>, String> + use<>, LoadError> {
    let options = choice.offers.options();
    let named =
        choice.catalog.as_ref().map(|name| berth_cloud::load(name, &options)).transpose()?.map(Arc::new);
    Ok(move |class| match (&named, class) {
        (Some(catalog), _) => Ok(Arc::clone(catalog)),
        (None, ClassKind::Kwok) => built_in("kwok", &options),
        (None, ClassKind::Ec2) => built_in("aws-us-east-1", &options),
        (None, ClassKind::Vpsie | ClassKind::Gardener) => {
            Err("no catalog is built in for this cloud; name a file of its prices with --catalog".to_owned())
        }
    })
}

fn built_in(name: &str, options: &berth_cloud::CatalogOptions) -> Result<Arc<Catalog>, String> {
    berth_cloud::load(name, options).map(Arc::new).map_err(|error| error.to_string())
}
