//! Berth on a cluster: what it sees there, and what it does.
//!
//! [`Listing`] is all that Berth reads there, once, as manifests. [`Operator`] goes on seeing, and acts.

mod buy;
mod cluster;
mod conditions;
mod desk;
mod journal;
mod leave;
mod life;
mod listing;
mod machines;
mod objects;
mod office;
mod operator;
mod served;
mod sight;
mod tenants;
mod watch;
mod watched;

pub use cluster::{Choice, Cluster, Refused, Unreachable};
pub use journal::{Decision, DecisionKind};
pub use listing::Listing;
pub use office::{CLUSTER_TAG, Clock, Clouds};
pub use operator::{Operator, Settings};
pub use watched::BlindSpot;
