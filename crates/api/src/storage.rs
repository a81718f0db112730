//! Claims, volumes and classes of storage.

use std::collections::BTreeMap;

use berth_core::names::{self, Labels, Text};
use berth_core::requirement::{Expression, NodeTerm, Operator};
use berth_core::volume::{StorageClass, Volume, VolumeClaim};

use crate::builtin::storage as wire;
use crate::convert::Converter;
use crate::placement;
use crate::problem::At;

pub(crate) fn read_claim(claim: &wire::Claim<'_>, to: &mut Converter<'_>) -> VolumeClaim {
    VolumeClaim {
        volume: claim.spec.volume_name.as_ref().filter(|name| !name.is_empty()).map(|name| to.text(name)),
        lost: claim.status.phase.as_deref() == Some("Lost"),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        ..unbound_claim(&claim.spec, to)
    }
}

/// A claim that has no volume yet.
pub(crate) fn unbound_claim(spec: &wire::ClaimSpec<'_>, to: &mut Converter<'_>) -> VolumeClaim {
    VolumeClaim {
        storage_class: spec.storage_class_name.as_ref().map(|class| to.text(class)),
        volume: None,
        lost: false,
        deleting: false,
        single_pod: spec.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod"),
    }
}

pub(crate) fn read_volume(volume: &wire::Volume<'_>, to: &mut Converter<'_>) -> Volume {
    let at = At::ROOT.key("spec");
    let at = at.key("nodeAffinity");
    let required = volume.spec.node_affinity.required.as_ref();
    let terms = required
        .and_then(|required| placement::node_terms(&required.node_selector_terms, &at.key("required"), to));
    let labels = to.node_labels(&volume.metadata.labels);
    Volume {
        driver: driver(&volume.spec, to),
        node_affinity: within_labels(terms.unwrap_or_default(), &labels),
        is_local: volume.spec.local.is_some() || volume.spec.host_path.is_some(),
    }
}

/// Labels are how volumes said where they are before they had an affinity. kube-scheduler still holds pods to
/// them, except on nodes that do not say where they are.
fn within_labels(terms: Vec<NodeTerm>, labels: &Labels) -> Vec<NodeTerm> {
    let keys = [names::ZONE, names::REGION];
    let is_there = |key: &str| {
        let values: Vec<Text> = labels.get(key)?.split("__").map(|value| value.trim().into()).collect();
        let expression = Expression::new(key, Operator::In, values).ok()?;
        (!expression.values().iter().any(|value| value.is_empty())).then_some(expression)
    };
    let there: Vec<Expression> = keys.iter().filter_map(|key| is_there(key)).collect();
    if there.is_empty() {
        return terms;
    }
    let unsaid = keys
        .iter()
        .filter_map(|key| Expression::new(*key, Operator::DoesNotExist, Vec::new()).ok())
        .collect();
    let places: [Vec<Expression>; 2] = [there, unsaid];
    if terms.is_empty() {
        return places.map(NodeTerm::new).into();
    }
    let mut narrowed = Vec::new();
    for term in terms {
        if term == NodeTerm::default() {
            // It matches nothing, and must not come to match the place.
            narrowed.push(term);
            continue;
        }
        for place in &places {
            let expressions = term.expressions.iter().chain(place).cloned().collect();
            narrowed.push(NodeTerm { expressions, fields: term.fields.clone() });
        }
    }
    narrowed
}

/// The CSI driver that attaches the volume; volumes of the tree's old plugins have moved to CSI.
fn driver(spec: &wire::VolumeSpec<'_>, to: &mut Converter<'_>) -> Option<Text> {
    if let Some(csi) = &spec.csi {
        return Some(to.text(&csi.driver));
    }
    let in_tree = [
        (spec.aws_elastic_block_store.is_some(), "kubernetes.io/aws-ebs"),
        (spec.gce_persistent_disk.is_some(), "kubernetes.io/gce-pd"),
        (spec.azure_disk.is_some(), "kubernetes.io/azure-disk"),
        (spec.azure_file.is_some(), "kubernetes.io/azure-file"),
        (spec.cinder.is_some(), "kubernetes.io/cinder"),
        (spec.vsphere_volume.is_some(), "kubernetes.io/vsphere-volume"),
        (spec.portworx_volume.is_some(), "kubernetes.io/portworx-volume"),
    ];
    in_tree.into_iter().find(|(used, _)| *used).map(|(_, plugin)| to.text(csi_name(plugin)))
}

/// The CSI driver that took over from an in-tree plugin.
fn csi_name(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        other => other,
    }
}

pub(crate) fn read_class(class: &wire::Class<'_>, to: &mut Converter<'_>) -> StorageClass {
    let waits_for_pod = match class.volume_binding_mode.as_deref() {
        None | Some("Immediate") => false,
        Some("WaitForFirstConsumer") => true,
        Some(other) => {
            let message = format!("`{other}` is not known; it is one of Immediate, WaitForFirstConsumer");
            to.findings.add(&At::ROOT.key("volumeBindingMode"), message);
            false
        }
    };
    let list = At::ROOT.key("allowedTopologies");
    let terms = class.allowed_topologies.iter().enumerate();
    let allowed_topologies = terms.map(|(i, term)| topology_term(term, &list.index(i), to)).collect();
    let annotations = &class.metadata.annotations;
    let is_default = [&annotations.default_class, &annotations.default_class_beta]
        .into_iter()
        .any(|value| value.as_deref() == Some("true"));
    let created = class.metadata.creation_timestamp.as_deref();
    let created = created.and_then(|time| time.parse::<jiff::Timestamp>().ok());
    StorageClass {
        driver: to.text(csi_name(&class.provisioner)),
        waits_for_pod,
        allowed_topologies,
        is_default,
        created: created.map_or(0, jiff::Timestamp::as_second),
    }
}

fn topology_term(term: &wire::TopologyTerm<'_>, at: &At<'_>, to: &mut Converter<'_>) -> NodeTerm {
    let list = at.key("matchLabelExpressions");
    let mut expressions = Vec::with_capacity(term.match_label_expressions.len());
    for (i, expression) in term.match_label_expressions.iter().enumerate() {
        let values = expression.values.iter().map(|value| to.text(value)).collect();
        let key = to.text(names::normalized_key(&expression.key));
        match Expression::new(key, Operator::In, values) {
            Ok(expression) => expressions.push(expression),
            Err(error) => to.findings.add(&list.index(i).key("values"), error.to_string()),
        }
    }
    NodeTerm::new(expressions)
}

/// How many volumes each driver can attach to the node.
pub(crate) fn read_csi_node(node: &wire::CsiNode<'_>, to: &mut Converter<'_>) -> BTreeMap<Text, u32> {
    let spec = At::ROOT.key("spec");
    let list = spec.key("drivers");
    let mut limits = BTreeMap::new();
    for (i, driver) in node.spec.drivers.iter().enumerate() {
        let Some(count) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) else {
            continue;
        };
        if let Ok(count) = u32::try_from(count) {
            limits.insert(to.text(&driver.name), count);
        } else {
            let at = list.index(i);
            let at = at.key("allocatable");
            to.findings.add(&at.key("count"), format!("{count} is out of range; it is 0 or more"));
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::intern::Interner;
    use crate::problem::Findings;
    use crate::tree::Tree;

    fn shown<'a, W: Deserialize<'a>, T: std::fmt::Debug>(
        tree: &'a Tree<'a>,
        read: impl FnOnce(&W, &mut Converter<'_>) -> T,
    ) -> String {
        let wire = W::deserialize(tree).unwrap();
        let (mut findings, mut interner) = (Findings::default(), Interner::default());
        let value = read(&wire, &mut Converter { findings: &mut findings, interner: &mut interner });
        match findings.0.first() {
            None => format!("{value:?}"),
            Some(finding) => format!("{}: {}", finding.path, finding.message),
        }
    }

    #[test]
    fn volumes_say_who_attaches_them_and_whether_they_are_on_a_node() {
        for (spec, expected) in [
            ("{csi: {driver: ebs.csi.aws.com}}", "(Some(\"ebs.csi.aws.com\"), false)"),
            ("{awsElasticBlockStore: {volumeID: v}}", "(Some(\"ebs.csi.aws.com\"), false)"),
            ("{gcePersistentDisk: {}}", "(Some(\"pd.csi.storage.gke.io\"), false)"),
            ("{nfs: {server: s, path: /}}", "(None, false)"),
            ("{hostPath: {path: /}}", "(None, true)"),
            ("{local: {path: /}}", "(None, true)"),
        ] {
            let text = format!("spec: {spec}");
            let tree = Tree::parse(&text).unwrap();
            let actual = shown(&tree, |w, to| {
                let volume = read_volume(w, to);
                (volume.driver, volume.is_local)
            });
            assert_eq!(actual, expected, "{spec}");
        }
    }

    #[test]
    fn volumes_are_where_their_labels_say() {
        let ssd = "{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}";
        let (zone, region) = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region");
        let unsaid = format!("{zone} DoesNotExist and {region} DoesNotExist");
        for (labels, terms, expected) in [
            ("{}", String::new(), String::new()),
            ("{team: a}", ssd.to_owned(), "disk In [ssd]".to_owned()),
            (
                "{failure-domain.beta.kubernetes.io/zone: a}",
                String::new(),
                format!("{zone} In [a]; {unsaid}"),
            ),
            ("{topology.kubernetes.io/zone: b__a}", String::new(), format!("{zone} In [a, b]; {unsaid}")),
            ("{topology.kubernetes.io/zone: a__}", String::new(), String::new()),
            (
                "{topology.kubernetes.io/zone: a, topology.kubernetes.io/region: r}",
                format!("{ssd}, {{}}"),
                format!("disk In [ssd] and {zone} In [a] and {region} In [r]; disk In [ssd] and {unsaid}; "),
            ),
        ] {
            let affinity = if terms.is_empty() {
                String::new()
            } else {
                format!("nodeAffinity: {{required: {{nodeSelectorTerms: [{terms}]}}}}")
            };
            let text = format!("metadata: {{labels: {labels}}}\nspec: {{{affinity}}}");
            let tree = Tree::parse(&text).unwrap();
            let actual = shown(&tree, |w, to| {
                let terms = read_volume(w, to).node_affinity;
                terms.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            });
            assert_eq!(actual, format!("{expected:?}"), "{text}");
        }
    }

    #[test]
    fn classes() {
        let base = "metadata: {name: c, creationTimestamp: '1970-01-01T00:01:00Z', annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}\nprovisioner: kubernetes.io/aws-ebs\n";
        for (more, expected) in [
            ("", "(\"ebs.csi.aws.com\", false, true, 60, 0)"),
            ("volumeBindingMode: WaitForFirstConsumer", "(\"ebs.csi.aws.com\", true, true, 60, 0)"),
            (
                "volumeBindingMode: Never",
                "volumeBindingMode: `Never` is not known; it is one of Immediate, WaitForFirstConsumer",
            ),
            (
                "allowedTopologies: [{matchLabelExpressions: [{key: failure-domain.beta.kubernetes.io/zone, values: [a]}]}]",
                "(\"ebs.csi.aws.com\", false, true, 60, 1)",
            ),
            (
                "allowedTopologies: [{matchLabelExpressions: [{key: zone, values: []}]}]",
                "allowedTopologies[0].matchLabelExpressions[0].values: operator In needs at least one value",
            ),
        ] {
            let text = format!("{base}{more}");
            let tree = Tree::parse(&text).unwrap();
            let actual = shown(&tree, |w, to| {
                let class = read_class(w, to);
                (
                    class.driver,
                    class.waits_for_pod,
                    class.is_default,
                    class.created,
                    class.allowed_topologies.len(),
                )
            });
            assert_eq!(actual, expected, "{more}");
        }
    }
}
