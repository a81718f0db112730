//! PodDisruptionBudget, PriorityClass, RuntimeClass, LimitRange.

use serde::Deserialize;

use super::pod::Toleration;
use super::{Amounts, CountOrPercent, LabelSelector, Metadata, Str, StrMap};

#[derive(Debug, Deserialize)]
pub(crate) struct DisruptionBudget<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: DisruptionBudgetSpec<'a>,
    #[serde(default)]
    pub(crate) status: DisruptionBudgetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DisruptionBudgetStatus {
    pub(crate) disruptions_allowed: Option<i64>,
    pub(crate) observed_generation: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DisruptionBudgetSpec<'a> {
    #[serde(borrow)]
    pub(crate) selector: Option<LabelSelector<'a>>,
    pub(crate) min_available: Option<CountOrPercent>,
    pub(crate) max_unavailable: Option<CountOrPercent>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PriorityClass {
    pub(crate) value: i64,
    #[serde(default)]
    pub(crate) global_default: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RuntimeClass<'a> {
    #[serde(borrow, default)]
    pub(crate) overhead: RuntimeOverhead<'a>,
    #[serde(default)]
    pub(crate) scheduling: RuntimeScheduling<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuntimeOverhead<'a> {
    #[serde(borrow)]
    pub(crate) pod_fixed: Amounts<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuntimeScheduling<'a> {
    #[serde(borrow)]
    pub(crate) node_selector: StrMap<'a>,
    pub(crate) tolerations: Vec<Toleration<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LimitRange<'a> {
    #[serde(borrow)]
    pub(crate) spec: LimitRangeSpec<'a>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LimitRangeSpec<'a> {
    #[serde(borrow)]
    pub(crate) limits: Vec<LimitRangeItem<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LimitRangeItem<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Str<'a>,
    pub(crate) default: Amounts<'a>,
    pub(crate) default_request: Amounts<'a>,
    pub(crate) max: Amounts<'a>,
    pub(crate) min: Amounts<'a>,
}
