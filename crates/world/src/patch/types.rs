//! The built-in types, with those of their fields that are merged or owned in parts.
//!
//! Facts of Kubernetes 1.36: the list and map types and the patch strategies of its OpenAPI documents, and
//! which fields its Go types always hold.

use super::shape::{Field, Key, KeyDefault, Merge, Of, Type};

pub(super) fn of_kind(group: &str, kind: &str) -> &'static Type {
    let row = KINDS.iter().find(|(of_group, of_kind, _)| *of_group == group && *of_kind == kind);
    row.map_or(&ONLY_METADATA, |row| row.2)
}

/// Kinds that are not here have nothing of interest but their metadata.
const KINDS: &[(&str, &str, &Type)] = &[
    ("", "ConfigMap", &CONFIG_MAP),
    ("", "Event", &CORE_EVENT),
    ("", "LimitRange", &LIMIT_RANGE),
    ("", "Namespace", &NAMESPACE),
    ("", "Node", &NODE),
    ("", "PersistentVolume", &PERSISTENT_VOLUME),
    ("", "PersistentVolumeClaim", &PERSISTENT_VOLUME_CLAIM),
    ("", "Pod", &POD),
    ("", "PodTemplate", &POD_TEMPLATE),
    ("", "ReplicationController", &REPLICATION_CONTROLLER),
    ("", "ResourceQuota", &RESOURCE_QUOTA),
    ("", "Secret", &SECRET),
    ("", "Service", &SERVICE),
    ("", "ServiceAccount", &SERVICE_ACCOUNT),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", &MUTATING_WEBHOOK_CONFIGURATION),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", &VALIDATING_WEBHOOK_CONFIGURATION),
    ("apiextensions.k8s.io", "CustomResourceDefinition", &CUSTOM_RESOURCE_DEFINITION),
    ("apps", "ControllerRevision", &CONTROLLER_REVISION),
    ("apps", "DaemonSet", &DAEMON_SET),
    ("apps", "Deployment", &DEPLOYMENT),
    ("apps", "ReplicaSet", &REPLICA_SET),
    ("apps", "StatefulSet", &STATEFUL_SET),
    ("autoscaling", "HorizontalPodAutoscaler", &HORIZONTAL_POD_AUTOSCALER),
    ("batch", "CronJob", &CRON_JOB),
    ("batch", "Job", &JOB),
    ("coordination.k8s.io", "Lease", &LEASE),
    ("events.k8s.io", "Event", &EVENTS_EVENT),
    ("networking.k8s.io", "Ingress", &INGRESS),
    ("networking.k8s.io", "IngressClass", &INGRESS_CLASS),
    ("networking.k8s.io", "NetworkPolicy", &NETWORK_POLICY),
    ("node.k8s.io", "RuntimeClass", &RUNTIME_CLASS),
    ("policy", "PodDisruptionBudget", &POD_DISRUPTION_BUDGET),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &CLUSTER_ROLE_BINDING),
    ("rbac.authorization.k8s.io", "RoleBinding", &ROLE_BINDING),
    ("storage.k8s.io", "CSINode", &CSI_NODE),
    ("storage.k8s.io", "StorageClass", &STORAGE_CLASS),
];

const METADATA: Field = object("metadata", &OBJECT_META).solid();

const fn object(name: &'static str, of: &'static Type) -> Field {
    field(name, Of::Object(of))
}

const fn map(name: &'static str) -> Field {
    field(name, Of::Map)
}

const fn any(name: &'static str) -> Field {
    field(name, Of::Any)
}

const fn set(name: &'static str) -> Field {
    field(name, Of::Set)
}

const fn keyed(name: &'static str, keys: &'static [Key], of: &'static Type) -> Field {
    field(name, Of::Keyed(keys, of))
}

const fn field(name: &'static str, of: Of) -> Field {
    Field { name, of, merge: Merge::Usual, solid: false }
}

impl Field {
    const fn solid(self) -> Self {
        Self { solid: true, ..self }
    }

    /// Merged by strategic merge patches too: by the first key, or as scalars.
    const fn merged(self) -> Self {
        let merge = match self.of {
            Of::Keyed([first, ..], _) => Merge::By(first.name),
            _ => Merge::Scalars,
        };
        Self { merge, ..self }
    }

    /// One thing for apply, merged by strategic merge patches.
    const fn merged_by(self, key: &'static str) -> Self {
        Self { merge: Merge::By(key), ..self }
    }

    const fn replaced(self) -> Self {
        Self { merge: Merge::Replace, ..self }
    }
}

const BY_UID: &[Key] = &[Key { name: "uid", default: KeyDefault::Text("") }];
const BY_TYPE: &[Key] = &[Key { name: "type", default: KeyDefault::Text("") }];
const BY_NAME: &[Key] = &[Key { name: "name", default: KeyDefault::Text("") }];
const BY_IP: &[Key] = &[Key { name: "ip", default: KeyDefault::Text("") }];
const BY_TOPOLOGY_KEY: &[Key] = &[
    Key { name: "topologyKey", default: KeyDefault::Text("") },
    Key { name: "whenUnsatisfiable", default: KeyDefault::Text("") },
];
const BY_CONTAINER_PORT: &[Key] = &[
    Key { name: "containerPort", default: KeyDefault::Zero },
    Key { name: "protocol", default: KeyDefault::Text("TCP") },
];
const BY_DEVICE_PATH: &[Key] = &[Key { name: "devicePath", default: KeyDefault::Text("") }];
const BY_MOUNT_PATH: &[Key] = &[Key { name: "mountPath", default: KeyDefault::Text("") }];
const BY_PORT: &[Key] = &[
    Key { name: "port", default: KeyDefault::Zero },
    Key { name: "protocol", default: KeyDefault::Text("TCP") },
];
const BY_NEEDED_NAME: &[Key] = &[Key { name: "name", default: KeyDefault::Missing }];

/// Nothing but scalars, lists that are replaced, and objects of those.
pub(super) static PLAIN: Type = Type { atomic: false, fields: &[] };

pub(super) static ATOMIC: Type = Type { atomic: true, fields: &[] };

static ONLY_METADATA: Type = Type { atomic: false, fields: &[METADATA] };

static CONFIG_MAP: Type = Type { atomic: false, fields: &[METADATA, map("binaryData"), map("data")] };

pub(super) static OBJECT_META: Type = Type {
    atomic: false,
    fields: &[
        map("annotations"),
        set("finalizers").merged(),
        map("labels"),
        keyed("ownerReferences", BY_UID, &ATOMIC).merged(),
    ],
};

static CORE_EVENT: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("involvedObject", &ATOMIC),
        object("related", &ATOMIC),
        object("source", &PLAIN).solid(),
    ],
};

static LIMIT_RANGE: Type = Type { atomic: false, fields: &[METADATA, object("spec", &PLAIN).solid()] };

static NAMESPACE: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &PLAIN).solid(), object("status", &WITH_CONDITIONS).solid()],
};

static WITH_CONDITIONS: Type =
    Type { atomic: false, fields: &[keyed("conditions", BY_TYPE, &PLAIN).merged()] };

static NODE: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &NODE_SPEC).solid(), object("status", &NODE_STATUS).solid()],
};

static NODE_SPEC: Type = Type { atomic: false, fields: &[set("podCIDRs").merged()] };

static NODE_STATUS: Type = Type {
    atomic: false,
    fields: &[
        keyed("addresses", BY_TYPE, &PLAIN).merged(),
        map("allocatable"),
        map("capacity"),
        keyed("conditions", BY_TYPE, &PLAIN).merged(),
        object("daemonEndpoints", &NODE_DAEMON_ENDPOINTS).solid(),
        object("nodeInfo", &PLAIN).solid(),
    ],
};

static NODE_DAEMON_ENDPOINTS: Type =
    Type { atomic: false, fields: &[object("kubeletEndpoint", &PLAIN).solid()] };

static PERSISTENT_VOLUME: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &PERSISTENT_VOLUME_SPEC).solid(), object("status", &PLAIN).solid()],
};

static PERSISTENT_VOLUME_SPEC: Type = Type {
    atomic: false,
    fields: &[
        map("capacity"),
        object("cephfs", &WITH_SECRET),
        object("cinder", &WITH_SECRET),
        object("csi", &CSI_PERSISTENT_VOLUME),
        object("flexVolume", &FLEX_VOLUME),
        object("iscsi", &WITH_SECRET),
        object("nodeAffinity", &VOLUME_NODE_AFFINITY),
        object("rbd", &WITH_SECRET),
        object("scaleIO", &WITH_SECRET),
        object("storageos", &WITH_SECRET),
    ],
};

static WITH_SECRET: Type = Type { atomic: false, fields: &[object("secretRef", &ATOMIC)] };

static CSI_PERSISTENT_VOLUME: Type = Type {
    atomic: false,
    fields: &[
        object("controllerExpandSecretRef", &ATOMIC),
        object("controllerPublishSecretRef", &ATOMIC),
        object("nodeExpandSecretRef", &ATOMIC),
        object("nodePublishSecretRef", &ATOMIC),
        object("nodeStageSecretRef", &ATOMIC),
        map("volumeAttributes"),
    ],
};

static FLEX_VOLUME: Type = Type { atomic: false, fields: &[map("options"), object("secretRef", &ATOMIC)] };

static VOLUME_NODE_AFFINITY: Type = Type { atomic: false, fields: &[object("required", &ATOMIC)] };

static PERSISTENT_VOLUME_CLAIM: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &PERSISTENT_VOLUME_CLAIM_SPEC).solid(),
        object("status", &PERSISTENT_VOLUME_CLAIM_STATUS).solid(),
    ],
};

static PERSISTENT_VOLUME_CLAIM_SPEC: Type = Type {
    atomic: false,
    fields: &[
        object("dataSource", &ATOMIC),
        object("resources", &VOLUME_RESOURCE_REQUIREMENTS).solid(),
        object("selector", &ATOMIC),
    ],
};

static VOLUME_RESOURCE_REQUIREMENTS: Type = Type { atomic: false, fields: &[map("limits"), map("requests")] };

static PERSISTENT_VOLUME_CLAIM_STATUS: Type = Type {
    atomic: false,
    fields: &[
        map("allocatedResourceStatuses"),
        map("allocatedResources"),
        map("capacity"),
        keyed("conditions", BY_TYPE, &PLAIN).merged(),
    ],
};

static POD: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &POD_SPEC).solid(), object("status", &POD_STATUS).solid()],
};

static POD_SPEC: Type = Type {
    atomic: false,
    fields: &[
        object("affinity", &AFFINITY),
        keyed("containers", BY_NAME, &CONTAINER).merged().solid(),
        keyed("ephemeralContainers", BY_NAME, &CONTAINER).merged(),
        keyed("hostAliases", BY_IP, &PLAIN).merged(),
        keyed("imagePullSecrets", BY_NAME, &ATOMIC).merged(),
        keyed("initContainers", BY_NAME, &CONTAINER).merged(),
        object("nodeSelector", &ATOMIC),
        map("overhead"),
        keyed("resourceClaims", BY_NAME, &PLAIN).merged(),
        object("resources", &RESOURCE_REQUIREMENTS),
        keyed("schedulingGates", BY_NAME, &PLAIN).merged(),
        keyed("topologySpreadConstraints", BY_TOPOLOGY_KEY, &TOPOLOGY_SPREAD_CONSTRAINT).merged(),
        keyed("volumes", BY_NAME, &VOLUME).merged(),
    ],
};

static AFFINITY: Type = Type { atomic: false, fields: &[object("nodeAffinity", &NODE_AFFINITY)] };

static NODE_AFFINITY: Type =
    Type { atomic: false, fields: &[object("requiredDuringSchedulingIgnoredDuringExecution", &ATOMIC)] };

static CONTAINER: Type = Type {
    atomic: false,
    fields: &[
        keyed("env", BY_NAME, &ENV_VAR).merged(),
        keyed("ports", BY_CONTAINER_PORT, &PLAIN).merged(),
        object("resources", &RESOURCE_REQUIREMENTS).solid(),
        keyed("volumeDevices", BY_DEVICE_PATH, &PLAIN).merged(),
        keyed("volumeMounts", BY_MOUNT_PATH, &PLAIN).merged(),
    ],
};

static ENV_VAR: Type = Type { atomic: false, fields: &[object("valueFrom", &ENV_VAR_SOURCE)] };

static ENV_VAR_SOURCE: Type = Type {
    atomic: false,
    fields: &[
        object("configMapKeyRef", &ATOMIC),
        object("fieldRef", &ATOMIC),
        object("fileKeyRef", &ATOMIC),
        object("resourceFieldRef", &ATOMIC),
        object("secretKeyRef", &ATOMIC),
    ],
};

static RESOURCE_REQUIREMENTS: Type =
    Type { atomic: false, fields: &[keyed("claims", BY_NAME, &PLAIN), map("limits"), map("requests")] };

static TOPOLOGY_SPREAD_CONSTRAINT: Type = Type { atomic: false, fields: &[object("labelSelector", &ATOMIC)] };

static VOLUME: Type = Type {
    atomic: false,
    fields: &[
        object("cephfs", &WITH_SECRET),
        object("cinder", &WITH_SECRET),
        object("csi", &CSI_VOLUME),
        object("ephemeral", &EPHEMERAL_VOLUME),
        object("flexVolume", &FLEX_VOLUME),
        object("iscsi", &WITH_SECRET),
        object("rbd", &WITH_SECRET),
        object("scaleIO", &WITH_SECRET),
        object("storageos", &WITH_SECRET),
    ],
};

static CSI_VOLUME: Type =
    Type { atomic: false, fields: &[object("nodePublishSecretRef", &ATOMIC), map("volumeAttributes")] };

static EPHEMERAL_VOLUME: Type =
    Type { atomic: false, fields: &[object("volumeClaimTemplate", &PERSISTENT_VOLUME_CLAIM_TEMPLATE)] };

static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Type =
    Type { atomic: false, fields: &[METADATA, object("spec", &PERSISTENT_VOLUME_CLAIM_SPEC).solid()] };

static POD_STATUS: Type = Type {
    atomic: false,
    fields: &[
        map("allocatedResources"),
        keyed("conditions", BY_TYPE, &PLAIN).merged(),
        object("hostIPs", &PLAIN).merged_by("ip"),
        keyed("podIPs", BY_IP, &PLAIN).merged(),
        keyed("resourceClaimStatuses", BY_NAME, &PLAIN).merged(),
        object("resources", &RESOURCE_REQUIREMENTS),
    ],
};

static POD_TEMPLATE: Type =
    Type { atomic: false, fields: &[METADATA, object("template", &POD_TEMPLATE_SPEC).solid()] };

static POD_TEMPLATE_SPEC: Type =
    Type { atomic: false, fields: &[METADATA, object("spec", &POD_SPEC).solid()] };

static REPLICATION_CONTROLLER: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &REPLICATION_CONTROLLER_SPEC).solid(),
        object("status", &WITH_CONDITIONS).solid(),
    ],
};

static REPLICATION_CONTROLLER_SPEC: Type =
    Type { atomic: false, fields: &[object("selector", &ATOMIC), object("template", &POD_TEMPLATE_SPEC)] };

static RESOURCE_QUOTA: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &RESOURCE_QUOTA_SPEC).solid(),
        object("status", &RESOURCE_QUOTA_STATUS).solid(),
    ],
};

static RESOURCE_QUOTA_SPEC: Type =
    Type { atomic: false, fields: &[map("hard"), object("scopeSelector", &ATOMIC)] };

static RESOURCE_QUOTA_STATUS: Type = Type { atomic: false, fields: &[map("hard"), map("used")] };

static SECRET: Type = Type { atomic: false, fields: &[METADATA, map("data"), map("stringData")] };

static SERVICE: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &SERVICE_SPEC).solid(), object("status", &SERVICE_STATUS).solid()],
};

static SERVICE_SPEC: Type =
    Type { atomic: false, fields: &[keyed("ports", BY_PORT, &PLAIN).merged(), object("selector", &ATOMIC)] };

static SERVICE_STATUS: Type = Type {
    atomic: false,
    fields: &[keyed("conditions", BY_TYPE, &PLAIN).merged(), object("loadBalancer", &PLAIN).solid()],
};

static SERVICE_ACCOUNT: Type =
    Type { atomic: false, fields: &[METADATA, keyed("secrets", BY_NEEDED_NAME, &ATOMIC).merged()] };

static MUTATING_WEBHOOK_CONFIGURATION: Type =
    Type { atomic: false, fields: &[METADATA, keyed("webhooks", BY_NAME, &WEBHOOK).merged()] };

static WEBHOOK: Type = Type {
    atomic: false,
    fields: &[
        object("clientConfig", &PLAIN).solid(),
        keyed("matchConditions", BY_NAME, &PLAIN).merged(),
        object("namespaceSelector", &ATOMIC),
        object("objectSelector", &ATOMIC),
    ],
};

static VALIDATING_WEBHOOK_CONFIGURATION: Type =
    Type { atomic: false, fields: &[METADATA, keyed("webhooks", BY_NAME, &WEBHOOK).merged()] };

static CUSTOM_RESOURCE_DEFINITION: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &CUSTOM_RESOURCE_DEFINITION_SPEC).solid(),
        object("status", &CUSTOM_RESOURCE_DEFINITION_STATUS).solid(),
    ],
};

static CUSTOM_RESOURCE_DEFINITION_SPEC: Type =
    Type { atomic: false, fields: &[object("names", &PLAIN).solid()] };

static CUSTOM_RESOURCE_DEFINITION_STATUS: Type = Type {
    atomic: false,
    fields: &[object("acceptedNames", &PLAIN).solid(), keyed("conditions", BY_TYPE, &PLAIN).solid()],
};

static CONTROLLER_REVISION: Type = Type { atomic: false, fields: &[METADATA, any("data")] };

static DAEMON_SET: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &WITH_TEMPLATE_AND_STRATEGY).solid(),
        object("status", &WITH_CONDITIONS).solid(),
    ],
};

static WITH_TEMPLATE_AND_STRATEGY: Type = Type {
    atomic: false,
    fields: &[
        object("selector", &ATOMIC),
        object("template", &POD_TEMPLATE_SPEC).solid(),
        object("updateStrategy", &PLAIN).solid(),
    ],
};

static DEPLOYMENT: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &DEPLOYMENT_SPEC).solid(), object("status", &WITH_CONDITIONS).solid()],
};

static DEPLOYMENT_SPEC: Type = Type {
    atomic: false,
    fields: &[
        object("selector", &ATOMIC),
        object("strategy", &PLAIN).solid(),
        object("template", &POD_TEMPLATE_SPEC).solid(),
    ],
};

static REPLICA_SET: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &WITH_TEMPLATE).solid(), object("status", &WITH_CONDITIONS).solid()],
};

static WITH_TEMPLATE: Type = Type {
    atomic: false,
    fields: &[object("selector", &ATOMIC), object("template", &POD_TEMPLATE_SPEC).solid()],
};

static STATEFUL_SET: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &WITH_TEMPLATE_AND_STRATEGY).solid(),
        object("status", &WITH_CONDITIONS).solid(),
    ],
};

static HORIZONTAL_POD_AUTOSCALER: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &HORIZONTAL_POD_AUTOSCALER_SPEC).solid(),
        object("status", &WITH_CONDITIONS).solid(),
    ],
};

static HORIZONTAL_POD_AUTOSCALER_SPEC: Type =
    Type { atomic: false, fields: &[object("scaleTargetRef", &PLAIN).solid()] };

static CRON_JOB: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &CRON_JOB_SPEC).solid(), object("status", &PLAIN).solid()],
};

static CRON_JOB_SPEC: Type =
    Type { atomic: false, fields: &[object("jobTemplate", &JOB_TEMPLATE_SPEC).solid()] };

static JOB_TEMPLATE_SPEC: Type =
    Type { atomic: false, fields: &[METADATA, object("spec", &WITH_TEMPLATE).solid()] };

static JOB: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &WITH_TEMPLATE).solid(), object("status", &JOB_STATUS).solid()],
};

static JOB_STATUS: Type = Type {
    atomic: false,
    fields: &[
        object("conditions", &PLAIN).merged_by("type"),
        object("uncountedTerminatedPods", &UNCOUNTED_TERMINATED_PODS),
    ],
};

static UNCOUNTED_TERMINATED_PODS: Type = Type { atomic: false, fields: &[set("failed"), set("succeeded")] };

static LEASE: Type = Type { atomic: false, fields: &[METADATA, object("spec", &PLAIN).solid()] };

static EVENTS_EVENT: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("deprecatedSource", &PLAIN).solid(),
        object("regarding", &ATOMIC),
        object("related", &ATOMIC),
    ],
};

static INGRESS: Type = Type {
    atomic: false,
    fields: &[METADATA, object("spec", &INGRESS_SPEC).solid(), object("status", &INGRESS_STATUS).solid()],
};

static INGRESS_SPEC: Type = Type { atomic: false, fields: &[object("defaultBackend", &INGRESS_BACKEND)] };

static INGRESS_BACKEND: Type =
    Type { atomic: false, fields: &[object("resource", &ATOMIC), object("service", &INGRESS_SERVICE)] };

static INGRESS_SERVICE: Type = Type { atomic: false, fields: &[object("port", &ATOMIC).solid()] };

static INGRESS_STATUS: Type = Type { atomic: false, fields: &[object("loadBalancer", &PLAIN).solid()] };

static INGRESS_CLASS: Type = Type { atomic: false, fields: &[METADATA, object("spec", &PLAIN).solid()] };

static NETWORK_POLICY: Type =
    Type { atomic: false, fields: &[METADATA, object("spec", &NETWORK_POLICY_SPEC).solid()] };

static NETWORK_POLICY_SPEC: Type = Type { atomic: false, fields: &[object("podSelector", &ATOMIC).solid()] };

static RUNTIME_CLASS: Type = Type {
    atomic: false,
    fields: &[METADATA, object("overhead", &OVERHEAD), object("scheduling", &SCHEDULING)],
};

static OVERHEAD: Type = Type { atomic: false, fields: &[map("podFixed")] };

static SCHEDULING: Type = Type { atomic: false, fields: &[object("nodeSelector", &ATOMIC)] };

static POD_DISRUPTION_BUDGET: Type = Type {
    atomic: false,
    fields: &[
        METADATA,
        object("spec", &POD_DISRUPTION_BUDGET_SPEC).solid(),
        object("status", &POD_DISRUPTION_BUDGET_STATUS).solid(),
    ],
};

static POD_DISRUPTION_BUDGET_SPEC: Type =
    Type { atomic: false, fields: &[object("selector", &ATOMIC).replaced()] };

static POD_DISRUPTION_BUDGET_STATUS: Type =
    Type { atomic: false, fields: &[keyed("conditions", BY_TYPE, &PLAIN).merged(), map("disruptedPods")] };

static CLUSTER_ROLE_BINDING: Type = Type { atomic: false, fields: &[METADATA, object("roleRef", &ATOMIC)] };

static ROLE_BINDING: Type = Type { atomic: false, fields: &[METADATA, object("roleRef", &ATOMIC)] };

static CSI_NODE: Type = Type { atomic: false, fields: &[METADATA, object("spec", &CSI_NODE_SPEC).solid()] };

static CSI_NODE_SPEC: Type =
    Type { atomic: false, fields: &[keyed("drivers", BY_NAME, &PLAIN).merged().solid()] };

static STORAGE_CLASS: Type = Type { atomic: false, fields: &[METADATA, map("parameters")] };
