//! Berth on a cluster: what it sees there, and what it does.
//!
//! [`Listing`] is all that Berth reads there, once, as manifests. [`Operator`] goes on seeing, and acts. [`page`] shows
//! what it does.

mod acts;
mod asking;
mod beforehand;
mod buy;
mod checks;
mod claim;
mod cluster;
mod conditions;
mod desk;
mod dialect;
mod discovery;
mod drain;
mod follow;
mod found;
mod hints;
mod journal;
mod kwok;
mod lease;
mod leave;
mod life;
mod listing;
mod lives;
mod machines;
mod metrics;
mod objects;
mod office;
mod operator;
mod orphans;
mod pace;
pub mod page;
mod planning;
mod planted;
mod portrait;
mod probes;
pub mod rbac;
mod report;
mod served;
mod sight;
mod tally;
mod tenants;
mod upkeep;
mod usage;
mod vpsie;
mod watched;
mod webhook;

pub use beforehand::{Undertaking, Unfit, beforehand};
pub use cluster::{Choice, Cluster, Refused, Unreachable};
pub use journal::{Decision, DecisionKind};
pub use kwok::kwok_cloud;
pub use lease::{Elector, Terms, Wish, newest_epoch};
pub use listing::Listing;
pub use metrics::table::{Kind as MetricKind, Metric, TABLE as METRICS};
pub use metrics::{CONTENT_TYPE as METRICS_CONTENT_TYPE, Metrics};
pub use office::{CLUSTER_TAG, Clock, Clouds};
pub use operator::{Lead, Mode, Operator, Settings, alone};
pub use planted::PlantedBug;
pub use probes::{PROGRESS_MAX, health_router, metrics_router};
pub use report::{CostPoint, Course, Report};
pub use vpsie::{VpsieAccess, Whereabouts, vpsie_cloud};
pub use watched::BlindSpot;
pub use webhook::{PairFiles, Readiness, Webhook};
