//! The dialects' custom resources, and the one parser from raw objects to core types.
//!
//! [`read`] takes files and streams and gives [`Manifests`]: every object by itself, checked.
//! [`assemble`] puts them together with the catalogs into a snapshot, which is what the planner sees.

pub mod admission;
pub mod claims;
pub mod crds;
pub mod duration;
pub mod held;
pub mod ledger;
pub mod resources;
pub mod vpsie;

mod adoption;
mod ahead;
mod assemble;
mod budgets;
mod buffers;
mod builtin;
mod convert;
mod disruption;
mod documents;
mod intern;
mod kinds;
mod locate;
mod manifests;
mod nodes;
mod objects;
mod observed;
mod piece;
mod placement;
mod pod_resources;
mod pods;
mod policies;
mod pools;
mod problem;
mod schedule;
mod source;
mod spreading;
mod storage;
mod template;
mod tree;
mod usage;
mod workloads;

pub use assemble::{Assembled, ClassKind, Context, assemble, name_taken};
pub use buffers::{SCALABLE, buffer_of};
pub use jiff::Timestamp;
pub use kinds::{Collection, collections, services};
pub use manifests::{Manifests, object_name, read};
pub use objects::{Object, objects};
pub use observed::Observed;
pub use pools::node_bounds;
pub use problem::Problem;
pub use source::Source;
pub use spreading::SchedulerConfig;
pub use template::{CREATED_FOR, GroupDefaults, GroupTemplate};
pub use usage::{Measured, UsageSample, UsageSamples};
