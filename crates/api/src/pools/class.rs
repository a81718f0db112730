//! VPSieNodeClass, as far as it stands alone: what it leaves of VPSie's offers is judged when they are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::{InstanceType, Offering};
use berth_core::names::{self, Text};
use berth_core::reason::{Reason, Refusal};
use berth_core::requirement::{Expression, Operator};

use super::karpenter::not_ready;
use super::vpsie::types_named;
use crate::convert::Converter;
use crate::problem::At;
use crate::resources::berth::VPSieNodeClass;

/// Tags with it are Berth's: by them it knows its machines again.
const OWN_TAGS: &str = "berth.dev/";

/// What of VPSie's offers its pools may buy.
#[derive(Clone, Debug)]
pub(crate) struct VpsieClassObject {
    /// All, if there are none.
    datacenters: Vec<Text>,
    /// Ids or type names; all, if there are none.
    offerings: Vec<String>,
    is_deleting: bool,
    /// What it says of itself. Whoever writes that must not believe it.
    said: Option<String>,
}

pub(crate) fn read_vpsie_class(object: &VPSieNodeClass, to: &mut Converter<'_>) -> VpsieClassObject {
    let (at, spec) = (At::ROOT.key("spec"), &object.spec);
    let tags = at.key("tags");
    for (i, tag) in spec.tags.iter().enumerate().filter(|(_, tag)| tag.starts_with(OWN_TAGS)) {
        let message = format!("`{tag}` cannot be given: tags of berth.dev are set by Berth itself");
        to.findings.add(&tags.index(i), message);
    }
    if let Some(version) = spec.kubernetes_version.as_ref().filter(|version| !version.starts_with('v')) {
        let message = format!("`{version}` has no v before it; write it like v1.34.0");
        to.findings.add(&at.key("kubernetesVersion"), message);
    }
    let conditions = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
    VpsieClassObject {
        datacenters: spec.datacenter_ids.iter().map(|id| to.text(id)).collect(),
        offerings: spec.offering_ids.clone(),
        is_deleting: object.metadata.deletion_timestamp.is_some(),
        said: not_ready(conditions),
    }
}

impl VpsieClassObject {
    /// Why it cannot be used, whatever is offered. What it says of itself counts only where nobody keeps it true.
    pub(crate) fn trouble(&self, is_kept_true: bool) -> Option<String> {
        let deleting = self.is_deleting.then(|| "is being deleted".to_owned());
        deleting.or_else(|| self.said.clone().filter(|_| !is_kept_true))
    }

    /// What pools may buy of a catalog: the field that is to blame if it has not what the class names.
    pub(crate) fn types(
        &self,
        catalog: &[Arc<InstanceType>],
    ) -> Result<Vec<Arc<InstanceType>>, (&'static str, Refusal)> {
        let offerings = || catalog.iter().flat_map(|known| &known.offerings);
        let is_offered = |zone: &Text| offerings().any(|offering: &Offering| offering.zone == *zone);
        if let Some(unknown) = self.datacenters.iter().find(|zone| !is_offered(zone)) {
            let message = format!("nothing is offered in `{unknown}`");
            return Err(("spec.datacenterIDs", Reason::UnknownDatacenter.because(message)));
        }
        if self.offerings.is_empty() {
            return Ok(catalog.to_vec());
        }
        types_named(&self.offerings, catalog).map_err(|refusal| ("spec.offeringIDs", refusal))
    }

    /// What it asks of its pools' nodes.
    pub(crate) fn requirement(&self) -> Option<Expression> {
        if self.datacenters.is_empty() {
            return None;
        }
        Expression::new(names::ZONE, Operator::In, self.datacenters.clone()).ok()
    }
}

/// Why classes cannot be bought from, of those that cannot be; whether or not a pool names them, for whoever writes one
/// wants to know.
pub(crate) fn unfit(
    classes: &BTreeMap<Text, VpsieClassObject>,
    offered: &Result<Vec<Arc<InstanceType>>, String>,
    are_kept_true: bool,
) -> BTreeMap<Text, Refusal> {
    let judged = classes.iter().filter_map(|(name, class)| {
        let trouble = class.trouble(are_kept_true).map(|why| Reason::NodeClassNotReady.because(why));
        let refusal = trouble.or_else(|| match offered {
            Err(why) => Some(Reason::PoolNotReady.because(why.clone())),
            Ok(types) => class
                .types(types)
                .err()
                .map(|(field, Refusal { reason, message })| reason.because(format!("{field}: {message}"))),
        });
        Some((name.clone(), refusal?))
    });
    judged.collect()
}
