//! Berth on a cluster: what it sees there, and what it does.
//!
//! [`Listing`] is all that Berth reads there, once, as manifests. [`Operator`] goes on seeing, and acts.

mod asking;
mod buy;
mod cluster;
mod conditions;
mod desk;
mod follow;
mod hints;
mod journal;
mod leave;
mod life;
mod listing;
mod lives;
mod machines;
mod objects;
mod office;
mod operator;
mod planning;
pub mod rbac;
mod report;
mod served;
mod sight;
mod tenants;
mod watched;

pub use cluster::{Choice, Cluster, Refused, Unreachable};
pub use journal::{Decision, DecisionKind};
pub use listing::Listing;
pub use office::{CLUSTER_TAG, Clock, Clouds};
pub use operator::{Lead, Mode, Operator, Settings, alone};
pub use report::{CostPoint, Course, Report};
pub use watched::BlindSpot;
