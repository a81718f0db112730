//! What NodeGroups are made from for pods that no pool could hold: the AutoscalerConfig's `nodeGroupDefaults`, and where
//! they say nothing, what flags, the Secret and the cluster say.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::catalog::InstanceType;
use berth_core::founding::{Demand, Founding, Template};
use berth_core::names::Text;
use berth_core::pool::Pool;
use berth_core::reason::{Reason, Refusal};
use berth_core::snapshot::{SharedLimit, Snapshot};
use berth_core::units::Price;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::claims::digest;
use crate::intern::Interner;
use crate::manifests::Refused;
use crate::piece;
use crate::pools::vpsie::{NodeGroupObject, merged, read_node_group, types_of};
use crate::resources::scalar::Whole;
use crate::resources::shared::Taint;
use crate::resources::vpsie::{NodeGroup, NodeGroupDefaults, NodeGroupSpec};
use crate::vpsie::{CREATION_REASON, FOR_DEMAND, MANAGED, OFFERING};

/// On a group that was made for pods: for which.
pub const CREATED_FOR: &str = "berth.dev/created-for";
/// A group names no more offerings.
const OFFERINGS_MAX: usize = 100;
/// Labels that are not a pod's to ask for: VPSie's own, and those that groups must not set.
const RESERVED: [&str; 3] = ["autoscaler.vpsie.com/", "kubernetes.io/", "k8s.io/"];

/// What is said of new groups besides the AutoscalerConfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDefaults {
    pub datacenter: Option<String>,
    pub offerings: Vec<String>,
    /// The cluster's id at VPSie.
    pub cluster: Option<String>,
    pub project: Option<String>,
    pub kubernetes_version: Option<String>,
    pub kube_size: Option<u32>,
}

impl GroupDefaults {
    /// Why nothing is bought for a group of this cluster: machines join the one that Berth works for, and a group of another
    /// would never know its nodes.
    pub(crate) fn refuses(&self, cluster: &str) -> Option<Refusal> {
        let own = self.cluster.as_deref().filter(|own| *own != cluster)?;
        let message = format!("it names the cluster `{cluster}` at VPSie, and Berth buys for `{own}`");
        Some(Reason::OtherCluster.because(message))
    }

    /// Fills in where the cluster is, as far as that is not said.
    pub fn complete_with(&mut self, other: &Self) {
        let pairs = [
            (&mut self.datacenter, &other.datacenter),
            (&mut self.cluster, &other.cluster),
            (&mut self.project, &other.project),
        ];
        for (known, said) in pairs {
            if known.is_none() {
                known.clone_from(said);
            }
        }
    }
}

/// What new groups start from, and what they would be among.
#[derive(Clone, Debug)]
pub struct GroupTemplate {
    namespace: String,
    spec: NodeGroupSpec,
    /// What they may sell: each offering as it is written, with its types.
    offerings: Vec<(String, Vec<Arc<InstanceType>>)>,
    surroundings: Surroundings,
}

/// What is so for every new group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// Why it would not grow now, if so.
    pub(crate) blocked: Option<Refusal>,
    /// How many nodes all groups may have together.
    pub(crate) nodes_max: Option<u32>,
    pub(crate) node_cost: Price,
}

impl GroupTemplate {
    /// `None` if no groups are to be made: without an AutoscalerConfig that has to be asked for by naming offerings.
    pub(crate) fn new(
        config: Option<&NewGroups>,
        said: &GroupDefaults,
        catalog: impl FnOnce() -> Result<Vec<Arc<InstanceType>>, String>,
        surroundings: Surroundings,
    ) -> Option<Result<Self, Refusal>> {
        let defaults = match config {
            Some(NewGroups { is_wanted: false, .. }) => return None,
            Some(NewGroups { defaults, .. }) => defaults.clone(),
            None if said.offerings.is_empty() => return None,
            None => NodeGroupDefaults::default(),
        };
        let namespace = defaults.namespace.clone();
        Some(spec(defaults, said).and_then(|mut spec| {
            let catalog = catalog().map_err(|why| Reason::PoolNotReady.because(why))?;
            if spec.offering_ids.is_empty() {
                spec.offering_ids = offered_in(&spec.datacenter_id, &catalog);
            }
            let of_catalog = |id: &String| (id.clone(), types_of(id, &catalog));
            let offerings = spec.offering_ids.iter().map(of_catalog);
            let offerings: Vec<_> = offerings.filter(|(_, types)| !types.is_empty()).collect();
            if offerings.is_empty() {
                let ids = if spec.offering_ids.is_empty() {
                    "nothing".to_owned()
                } else {
                    spec.offering_ids.join(", ")
                };
                let message =
                    format!("VPSie offers none of what new groups may buy in {}: {ids}", spec.datacenter_id);
                return Err(Reason::NoOffering.because(message));
            }
            Ok(Self { namespace, spec, offerings, surroundings })
        }))
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The group that is wanted, made for these pods.
    pub fn group(&self, wanted: &Founding, pods: &str) -> NodeGroup {
        let rank = |types: &[Arc<InstanceType>]| {
            let ranks =
                types.iter().filter_map(|sold| wanted.types.iter().position(|name| *name == sold.name));
            ranks.min()
        };
        let fitting = self.offerings.iter().filter_map(|(id, types)| Some((rank(types)?, id)));
        let mut fitting: Vec<(usize, &String)> = fitting.collect();
        fitting.sort();
        fitting.truncate(OFFERINGS_MAX);
        let mut group = self.object(&wanted.demand, fitting.into_iter().map(|(_, id)| id.clone()).collect());
        let why = [(CREATION_REASON, FOR_DEMAND), (CREATED_FOR, pods)];
        let why = why.map(|(key, value)| (key.to_owned(), value.to_owned()));
        group.metadata.annotations = Some(BTreeMap::from(why));
        group
    }

    /// Its name says what it is for, so that it cannot be made twice.
    fn object(&self, demand: &Demand, offering_ids: Vec<String>) -> NodeGroup {
        let mut spec = NodeGroupSpec { offering_ids, ..self.spec.clone() };
        spec.labels.extend(demand.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())));
        spec.taints.extend(demand.taints.iter().map(Taint::from));
        let mut sold = spec.offering_ids.clone();
        sold.sort();
        let purpose = json!([spec.datacenter_id, sold, spec.labels, spec.taints]).to_string();
        let name = format!("auto-{}-{:08x}", dns_part(&spec.datacenter_id), digest(&purpose) & 0xffff_ffff);
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.clone()),
            labels: Some(BTreeMap::from([(MANAGED.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        };
        NodeGroup { metadata, spec, status: None }
    }
}

impl Template for GroupTemplate {
    fn pool(&self, demand: &Demand) -> Result<Pool, Refusal> {
        if let Some(key) =
            demand.labels.keys().find(|key| RESERVED.iter().any(|prefix| key.starts_with(prefix)))
        {
            let message =
                format!("no new group can be made for the label {key}: it is not a group's to give");
            return Err(Reason::RestrictedLabel.because(message));
        }
        let object = self.object(demand, self.offerings.iter().map(|(id, _)| id.clone()).collect());
        let name = Text::from(object.metadata.name.as_deref().unwrap_or_default());
        let read = piece::convert_with(&mut Interner::default(), |to| read_node_group(&object, name, to));
        let NodeGroupObject { pool, .. } = read.map_err(unusable)?;
        let types = self.offerings.iter().flat_map(|(_, types)| types.clone()).collect();
        let Surroundings { blocked, node_cost, .. } = &self.surroundings;
        Ok(Pool { types: merged(types).into(), blocked: blocked.clone(), node_cost: *node_cost, ..pool })
    }

    fn join(&self, pool: Pool, snapshot: &mut Snapshot) {
        if let Some(nodes_max) = self.surroundings.nodes_max {
            // There is one at most: that of all groups.
            if let Some(shared) = snapshot.shared_limits.first_mut() {
                shared.pools.push(pool.name.clone());
                shared.pools.sort();
            } else {
                let pools = vec![pool.name.clone()];
                snapshot.shared_limits.push(SharedLimit { pools, nodes_max });
            }
        }
        snapshot.pools.push(pool);
        snapshot.pools.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// What the AutoscalerConfig says of groups that are made for pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewGroups {
    pub(crate) is_wanted: bool,
    pub(crate) defaults: NodeGroupDefaults,
}

/// What a new group is before anything is asked of it; its offerings may be none yet, and then are all.
fn spec(defaults: NodeGroupDefaults, said: &GroupDefaults) -> Result<NodeGroupSpec, Refusal> {
    let or = |own: Option<String>, other: &Option<String>| {
        own.filter(|own| !own.is_empty()).or_else(|| other.clone())
    };
    let given = [
        (
            or(defaults.datacenter_id, &said.datacenter),
            "datacenterID (or --default-datacenter-id, or `datacenterId` of the Secret)",
        ),
        (
            or(defaults.resource_identifier, &said.cluster),
            "resourceIdentifier (or --resource-identifier, or `resourceIdentifier` of the Secret)",
        ),
        (or(defaults.project, &said.project), "project (or `projectId` of the Secret)"),
        (
            or(defaults.kubernetes_version, &said.kubernetes_version),
            "kubernetesVersion (or --kubernetes-version)",
        ),
    ];
    let missing: Vec<&str> =
        given.iter().filter(|(value, _)| value.is_none()).map(|(_, field)| *field).collect();
    if !missing.is_empty() {
        let fields = missing.join(", ");
        let message = format!("spec.nodeGroupDefaults of the AutoscalerConfig `default` lacks {fields}");
        return Err(Reason::TemplateIncomplete.because(message));
    }
    let [datacenter_id, resource_identifier, project, version] =
        given.map(|(value, _)| value.unwrap_or_default());
    if let Some(Refusal { reason, message }) = said.refuses(&resource_identifier) {
        let field = "spec.nodeGroupDefaults.resourceIdentifier of the AutoscalerConfig `default`";
        return Err(reason.because(format!("{field}: {message}")));
    }
    let own_size = defaults.kube_size_id.and_then(|size| u32::try_from(size).ok());
    let offering_ids =
        if defaults.offering_ids.is_empty() { &said.offerings } else { &defaults.offering_ids };
    Ok(NodeGroupSpec {
        min_nodes: defaults.min_nodes,
        max_nodes: Whole::clamped(defaults.max_nodes.get()),
        datacenter_id,
        offering_ids: offering_ids.clone(),
        resource_identifier,
        project,
        os_image_id: defaults.os_image_id,
        // A group's begins with a `v`, and people forget it.
        kubernetes_version: if version.starts_with('v') { version } else { format!("v{version}") },
        kube_size_id: own_size.or(said.kube_size).filter(|size| *size > 0).map(Whole::clamped),
        preferred_instance_type: None,
        allow_mixed_instances: true,
        labels: defaults.labels,
        taints: defaults.taints,
        scale_up_policy: defaults.scale_up_policy,
        scale_down_policy: defaults.scale_down_policy,
        ssh_key_ids: defaults.ssh_key_ids,
        tags: defaults.tags,
        notes: defaults.notes,
        spot_config: defaults.spot_config,
        multi_region: None,
        cost_optimization: defaults.cost_optimization,
    })
}

/// All that can be bought in a datacenter, each as its id, or else its name.
fn offered_in(datacenter: &str, catalog: &[Arc<InstanceType>]) -> Vec<String> {
    let mut ids = Vec::new();
    for sold in catalog {
        for offering in sold.offerings.iter().filter(|offering| *offering.zone == *datacenter) {
            ids.push(offering.labels.get(OFFERING).unwrap_or(&sold.name).to_string());
        }
    }
    ids.sort();
    ids.dedup();
    ids
}

fn unusable(refused: Refused) -> Refusal {
    let findings = match refused {
        Refused::Wrong(findings) => findings,
        Refused::Json(_) | Refused::Replaced => Vec::new(),
    };
    let words = findings.iter().map(|finding| format!("{}: {}", finding.path, finding.message));
    let words = words.collect::<Vec<_>>().join("; ");
    Reason::TemplateIncomplete.because(format!("a new group would be wrong: {words}"))
}

/// A datacenter's id, as a part of a name.
fn dns_part(text: &str) -> String {
    const CHARS_MAX: usize = 30;
    let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let part: String = text.chars().take(CHARS_MAX).map(part).collect();
    part.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use berth_core::names::Labels;
    use berth_core::pod::{self, TaintEffect};

    use super::*;

    fn said() -> GroupDefaults {
        GroupDefaults {
            datacenter: Some("DC_East".to_owned()),
            offerings: Vec::new(),
            cluster: Some("c-1".to_owned()),
            project: Some("p-1".to_owned()),
            kubernetes_version: Some("v1.34.0".to_owned()),
            kube_size: None,
        }
    }

    fn template(defaults: NodeGroupDefaults) -> GroupTemplate {
        let spec = spec(defaults, &said()).unwrap();
        let (namespace, surroundings) = ("default".to_owned(), Surroundings::default());
        GroupTemplate { namespace, spec, offerings: Vec::new(), surroundings }
    }

    #[test]
    fn a_group_is_called_by_what_it_is_for() {
        let demand = |labels: &[(&str, &str)], taints: &[&str]| Demand {
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect::<Labels>(),
            taints: taints.iter().map(|key| pod::Taint::new(key, "", TaintEffect::NoSchedule)).collect(),
        };
        let name = |demand: &Demand, offerings: &[&str]| {
            let offerings = offerings.iter().map(|id| (*id).to_owned()).collect();
            template(NodeGroupDefaults::default()).object(demand, offerings).metadata.name.unwrap()
        };
        let first = name(&demand(&[("team", "quay")], &[]), &["1", "2"]);
        assert!(first.starts_with("auto-dc-east-") && first.len() == "auto-dc-east-".len() + 8, "{first}");
        assert_eq!(first, name(&demand(&[("team", "quay")], &[]), &["2", "1"]), "prices may change");
        for (other, offerings) in [
            (demand(&[("team", "ship")], &[]), &["1", "2"][..]),
            (demand(&[("team", "quay"), ("disk", "ssd")], &[]), &["1", "2"]),
            (demand(&[("team", "quay")], &["gpu"]), &["1", "2"]),
            (demand(&[("team", "quay")], &[]), &["1"]),
        ] {
            assert_ne!(first, name(&other, offerings), "{other:?} {offerings:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        type Change = fn(&mut GroupDefaults);
        let cases: [(Change, &str); 5] = [
            (|_| (), ""),
            (|said| said.datacenter = None, "datacenterID (or --default-datacenter-id"),
            (|said| said.cluster = None, "resourceIdentifier (or --resource-identifier"),
            (|said| said.project = None, "project (or `projectId`"),
            (|said| said.kubernetes_version = None, "kubernetesVersion (or --kubernetes-version)"),
        ];
        for (change, missing) in cases {
            let mut said = said();
            change(&mut said);
            match spec(NodeGroupDefaults::default(), &said) {
                Ok(_) => assert_eq!(missing, ""),
                Err(refusal) => {
                    assert_eq!(refusal.reason, Reason::TemplateIncomplete);
                    assert!(!missing.is_empty() && refusal.message.contains(missing), "{refusal}");
                }
            }
        }
    }

    #[test]
    fn groups_are_made_for_the_own_cluster_only() {
        for (named, known, is_refused) in [
            ("c-1", Some("c-1"), false),
            ("c-2", Some("c-1"), true),
            ("c-2", None, false),
            ("", Some("c-1"), false),
        ] {
            let said = GroupDefaults { cluster: known.map(str::to_owned), ..said() };
            let defaults = NodeGroupDefaults {
                resource_identifier: Some(named.to_owned()),
                ..NodeGroupDefaults::default()
            };
            let refusal = spec(defaults, &said).err();
            assert_eq!(refusal.is_some(), is_refused, "{named} {known:?}");
            if let Some(Refusal { reason, message }) = refusal {
                assert_eq!(reason, Reason::OtherCluster);
                for part in ["nodeGroupDefaults.resourceIdentifier", "`c-2`", "`c-1`"] {
                    assert!(message.contains(part), "{message}");
                }
            }
        }
    }

    #[test]
    fn what_the_configuration_says_comes_first() {
        let defaults = NodeGroupDefaults {
            datacenter_id: Some("west".to_owned()),
            project: Some(String::new()),
            kubernetes_version: Some("1.33.1".to_owned()),
            kube_size_id: Some(7),
            max_nodes: Whole::clamped(5000),
            ..NodeGroupDefaults::default()
        };
        let spec = template(defaults).spec;
        assert_eq!(
            (&*spec.datacenter_id, &*spec.project, &*spec.kubernetes_version),
            ("west", "p-1", "v1.33.1")
        );
        assert_eq!((spec.kube_size_id.map(Whole::get), spec.max_nodes.get()), (Some(7), 1000));
        assert_eq!(spec.min_nodes.get(), 1, "as VPSie's autoscaler has it");
    }

    #[test]
    fn what_is_not_a_groups_to_give_is_not_asked_for() {
        for (label, expected) in [
            ("team", Reason::TemplateIncomplete),
            ("autoscaler.vpsie.com/nodegroup", Reason::RestrictedLabel),
            ("kubernetes.io/role", Reason::RestrictedLabel),
        ] {
            let labels = Labels::from([(label.into(), "x".into())]);
            let pool = template(NodeGroupDefaults::default()).pool(&Demand { labels, taints: Vec::new() });
            // The first is refused because this template sells nothing.
            assert_eq!(pool.unwrap_err().reason, expected, "{label}");
        }
    }
}
