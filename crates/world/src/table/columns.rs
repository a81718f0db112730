//! The columns of the built-in kinds, described as the API describes the fields they show.

use super::networking;
use crate::kinds::Resource;

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) format: &'static str,
    pub(super) description: &'static str,
    /// Columns above 0 are shown only when more is asked for.
    pub(super) priority: u8,
}

/// The columns of a built-in kind, in the order of its cells. `None` where only name and age are shown.
pub(super) fn of(resource: &Resource) -> Option<&'static [Column]> {
    let columns = match (&*resource.group, &*resource.kind) {
        ("", "Pod") => POD,
        ("", "PodTemplate") => POD_TEMPLATE,
        ("", "ReplicationController") => REPLICATION_CONTROLLER,
        ("", "Service") => SERVICE,
        ("", "Endpoints") => ENDPOINTS,
        ("", "Node") => NODE,
        ("" | "events.k8s.io", "Event") => EVENT,
        ("", "Namespace") => NAMESPACE,
        ("", "Secret") => SECRET,
        ("", "ServiceAccount") => SERVICE_ACCOUNT,
        ("", "PersistentVolume") => PERSISTENT_VOLUME,
        ("", "PersistentVolumeClaim") => PERSISTENT_VOLUME_CLAIM,
        ("", "ConfigMap") => CONFIG_MAP,
        ("", "ResourceQuota") => RESOURCE_QUOTA,
        ("apps", "ReplicaSet") => REPLICA_SET,
        ("apps", "DaemonSet") => DAEMON_SET,
        ("apps", "StatefulSet") => STATEFUL_SET,
        ("apps", "Deployment") => DEPLOYMENT,
        ("apps", "ControllerRevision") => CONTROLLER_REVISION,
        ("batch", "Job") => JOB,
        ("batch", "CronJob") => CRON_JOB,
        ("autoscaling", "HorizontalPodAutoscaler") => HORIZONTAL_POD_AUTOSCALER,
        ("policy", "PodDisruptionBudget") => POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "RoleBinding") => ROLE_BINDING,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => CLUSTER_ROLE_BINDING,
        ("coordination.k8s.io", "Lease") => LEASE,
        ("storage.k8s.io", "StorageClass") => STORAGE_CLASS,
        ("storage.k8s.io", "CSINode") => CSI_NODE,
        ("storage.k8s.io", "VolumeAttachment") => VOLUME_ATTACHMENT,
        ("scheduling.k8s.io", "PriorityClass") => PRIORITY_CLASS,
        ("networking.k8s.io", "Ingress") => networking::INGRESS,
        ("networking.k8s.io", "IngressClass") => networking::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => networking::NETWORK_POLICY,
        ("node.k8s.io", "RuntimeClass") => RUNTIME_CLASS,
        ("discovery.k8s.io", "EndpointSlice") => ENDPOINT_SLICE,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => WEBHOOKS,
        _ => return None,
    };
    Some(columns)
}

pub(super) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { priority: 1, ..text(name, description) }
}

const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { kind: "integer", ..text(name, description) }
}

const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column { kind: "boolean", ..text(name, description) }
}

pub(super) const NAME: Column = Column {
    format: "name",
    ..text(
        "Name",
        "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    )
};
pub(super) const AGE: Column = text("Age", CREATED);
pub(super) const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
/// What kinds without columns of their own show.
pub(super) const DEFAULT: &[Column] = &[NAME, Column { kind: "date", ..text("Created At", CREATED) }];

const CONTAINERS: Column = wide("Containers", "Names of each container in the template.");
const IMAGES: Column = wide("Images", "Images referenced by each container in the template.");

const POD: &[Column] = &[
    NAME,
    text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    text("Status", "The aggregate status of the containers in this pod."),
    text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
    ),
    AGE,
    wide(
        "IP",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
    ),
    wide(
        "Node",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
    ),
    wide(
        "Nominated Node",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right away as preemption victims receive their graceful termination periods. This field does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is scheduled.",
    ),
    wide(
        "Readiness Gates",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers are ready AND all conditions specified in the readiness gates have status equal to \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
    ),
];

const POD_TEMPLATE: &[Column] = &[
    NAME,
    text("Containers", "Names of each container in the template."),
    text("Images", "Images referenced by each container in the template."),
    text("Pod Labels", "The labels for the pod template."),
];

const REPLICATION_CONTROLLER: &[Column] = &[
    NAME,
    integer(
        "Desired",
        "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    integer(
        "Current",
        "Replicas is the most recently observed number of replicas. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    integer("Ready", "The number of ready replicas for this replication controller."),
    AGE,
    CONTAINERS,
    IMAGES,
    wide(
        "Selector",
        "Selector is a label query over pods that should match the Replicas count. If Selector is empty, it is defaulted to the labels present on the Pod template. Label keys and values that must match in order to be controlled by this replication controller, if empty defaulted to labels on Pod template. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const SERVICE: &[Column] = &[
    NAME,
    text(
        "Type",
        "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are ExternalName, ClusterIP, NodePort, and LoadBalancer. \"ClusterIP\" allocates a cluster-internal IP address for load-balancing to endpoints. Endpoints are determined by the selector or if that is not specified, by manual construction of an Endpoints object or EndpointSlice objects. If clusterIP is \"None\", no virtual IP is allocated and the endpoints are published as a set of endpoints rather than a virtual IP. \"NodePort\" builds on ClusterIP and allocates a port on every node which routes to the same endpoints as the clusterIP. \"LoadBalancer\" builds on NodePort and creates an external load-balancer (if supported in the current cloud) which routes to the same endpoints as the clusterIP. \"ExternalName\" aliases this service to the specified externalName. Several other fields do not apply to ExternalName services. More info: https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
    ),
    text(
        "Cluster-IP",
        "clusterIP is the IP address of the service and is usually assigned randomly. If an address is specified manually, is in-range (as per system configuration), and is not in use, it will be allocated to the service; otherwise creation of the service will fail. This field may not be changed through updates unless the type field is also being changed to ExternalName (which requires this field to be blank) or the type field is being changed from ExternalName (in which case this field may optionally be specified, as describe above).  Valid values are \"None\", empty string (\"\"), or a valid IP address. Setting this to \"None\" makes a \"headless service\" (no virtual IP), which is useful when direct endpoint connections are preferred and proxying is not required.  Only applies to types ClusterIP, NodePort, and LoadBalancer. If this field is specified when creating a Service of type ExternalName, creation will fail. This field will be wiped when updating a Service to type ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
    ),
    text(
        "External-IP",
        "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.  These IPs are not managed by Kubernetes.  The user is responsible for ensuring that traffic arrives at a node with this IP.  A common example is external load-balancers that are not part of the Kubernetes system.",
    ),
    text(
        "Port(s)",
        "The list of ports that are exposed by this service. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
    ),
    AGE,
    wide(
        "Selector",
        "Route service traffic to pods with label keys and values matching this selector. If empty or not present, the service is assumed to have an external process managing its endpoints, which Kubernetes will not modify. Only applies to types ClusterIP, NodePort, and LoadBalancer. Ignored if type is ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/",
    ),
];

const ENDPOINTS: &[Column] = &[
    NAME,
    text(
        "Endpoints",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they share. A single address with multiple ports, some of which are ready and some of which are not (because they come from different containers) will result in the address being displayed in different subsets for the different ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
    ),
    AGE,
];

const NODE: &[Column] = &[
    NAME,
    text("Status", "The status of the node"),
    text("Roles", "The roles of the node"),
    AGE,
    text("Version", "Kubelet Version reported by the node."),
    wide(
        "Internal-IP",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
    ),
    wide(
        "External-IP",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
    ),
    wide(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
    ),
    wide(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
    ),
    wide(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
    ),
];

const EVENT: &[Column] = &[
    text("Last Seen", "The time at which the most recent occurrence of this event was recorded."),
    text("Type", "Type of this event (Normal, Warning), new types could be added in the future"),
    text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
    ),
    text("Object", "The object that this event is about."),
    wide(
        "Subobject",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
    ),
    wide("Source", "The component reporting this event. Should be a short machine understandable string."),
    text("Message", "A human-readable description of the status of this operation."),
    wide(
        "First Seen",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
    ),
    wide("Count", "The number of times this event has occurred."),
    Column { priority: 1, ..NAME },
];

const NAMESPACE: &[Column] = &[NAME, text("Status", "The status of the namespace"), AGE];

const SECRET: &[Column] = &[
    NAME,
    text(
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    ),
    text(
        "Data",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
    ),
    AGE,
];

const SERVICE_ACCOUNT: &[Column] = &[NAME, AGE];

const PERSISTENT_VOLUME: &[Column] = &[
    NAME,
    text(
        "Capacity",
        "capacity is the description of the persistent volume's resources and capacity. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity",
    ),
    text(
        "Access Modes",
        "accessModes contains all ways the volume can be mounted. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes",
    ),
    text(
        "Reclaim Policy",
        "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete (default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must be supported by the volume plugin underlying this PersistentVolume. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
    ),
    text(
        "Status",
        "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
    ),
    text(
        "Claim",
        "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim. Expected to be non-nil when bound. claim.VolumeName is the authoritative bind between PV and PVC. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding",
    ),
    text("StorageClass", "StorageClass of the pv"),
    text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    text(
        "Reason",
        "reason is a brief CamelCase string that describes any failure and is meant for machine parsing and tidy display in the CLI.",
    ),
    AGE,
    wide(
        "VolumeMode",
        "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in raw block state. Value of Filesystem is implied when not included in spec.",
    ),
];

const PERSISTENT_VOLUME_CLAIM: &[Column] = &[
    NAME,
    text("Status", "phase represents the current phase of PersistentVolumeClaim."),
    text("Volume", "volumeName is the binding reference to the PersistentVolume backing this claim."),
    text("Capacity", "capacity represents the actual resources of the underlying volume."),
    text(
        "Access Modes",
        "accessModes contains the actual access modes the volume backing the PVC has. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
    ),
    text("StorageClass", "StorageClass of the pvc"),
    text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    wide(
        "VolumeMode",
        "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied when not included in claim spec.",
    ),
];

const CONFIG_MAP: &[Column] = &[
    NAME,
    text(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process.",
    ),
    AGE,
];

const RESOURCE_QUOTA: &[Column] = &[
    NAME,
    text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
    text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
    ),
    AGE,
];

const REPLICA_SET: &[Column] = &[
    NAME,
    integer(
        "Desired",
        "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    integer(
        "Current",
        "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    integer(
        "Ready",
        "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    wide(
        "Selector",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const DAEMON_SET: &[Column] = &[
    NAME,
    integer(
        "Desired",
        "The total number of nodes that should be running the daemon pod (including nodes correctly running the daemon pod). More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    integer(
        "Current",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    integer(
        "Ready",
        "numberReady is the number of nodes that should be running the daemon pod and have one or more of the daemon pod running with a Ready Condition.",
    ),
    integer("Up-to-date", "The total number of nodes that are running updated daemon pod"),
    integer(
        "Available",
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and available (ready for at least spec.minReadySeconds)",
    ),
    text(
        "Node Selector",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a node's labels for the pod to be scheduled on that node. More info: https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    wide(
        "Selector",
        "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const STATEFUL_SET: &[Column] =
    &[NAME, text("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES];

const DEPLOYMENT: &[Column] = &[
    NAME,
    text("Ready", "Number of the pod with ready state"),
    text(
        "Up-to-date",
        "Total number of non-terminating pods targeted by this deployment that have the desired template spec.",
    ),
    text(
        "Available",
        "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    wide(
        "Selector",
        "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by this deployment. It must match the pod template's labels.",
    ),
];

const CONTROLLER_REVISION: &[Column] = &[
    NAME,
    text("Controller", "Controller of the object"),
    text("Revision", "Revision indicates the revision of the state represented by Data."),
    AGE,
];

const JOB: &[Column] = &[
    NAME,
    text("Status", "Status of the job."),
    text(
        "Completions",
        "The number of pods which reached phase Succeeded. The value increases monotonically for a given spec. However, it may decrease in reaction to scale down of elastic indexed jobs.",
    ),
    text("Duration", "Time required to complete the job."),
    AGE,
    CONTAINERS,
    IMAGES,
    wide(
        "Selector",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const CRON_JOB: &[Column] = &[
    NAME,
    text("Schedule", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
    text(
        "Timezone",
        "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If not specified, this will default to the time zone of the kube-controller-manager process. The set of valid time zone names and the time zone offset is loaded from the system-wide time zone database by the API server during CronJob validation and the controller manager during execution. If no system-wide time zone database can be found a bundled version of the database is used instead. If the time zone name becomes invalid during the lifetime of a CronJob or due to a change in host configuration, the controller will stop creating new new Jobs and will create a system event with the reason UnknownTimeZone. More information can be found in https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
    ),
    boolean(
        "Suspend",
        "This flag tells the controller to suspend subsequent executions, it does not apply to already started executions.  Defaults to false.",
    ),
    integer("Active", "A list of pointers to currently running jobs."),
    text("Last Schedule", "Information when was the last time the job was successfully scheduled."),
    AGE,
    CONTAINERS,
    IMAGES,
    wide(
        "Selector",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const HORIZONTAL_POD_AUTOSCALER: &[Column] = &[
    NAME,
    text(
        "Reference",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be collected, as well as to actually change the replica count.",
    ),
    text(
        "Targets",
        "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the individual metric source types for more information about how each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.",
    ),
    text(
        "MinPods",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is active as long as at least one metric value is available.",
    ),
    text(
        "MaxPods",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less that minReplicas.",
    ),
    text(
        "Replicas",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.",
    ),
    AGE,
];

const POD_DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    text("Min Available", "The minimum number of pods that must be available."),
    text("Max Unavailable", "The maximum number of pods that may be unavailable."),
    integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
    AGE,
];

const ROLE_BINDING: &[Column] = &[
    NAME,
    text(
        "Role",
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE,
    wide("Users", "Users in the roleBinding"),
    wide("Groups", "Groups in the roleBinding"),
    wide("ServiceAccounts", "ServiceAccounts in the roleBinding"),
];

const CLUSTER_ROLE_BINDING: &[Column] = &[
    NAME,
    text(
        "Role",
        "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE,
    wide("Users", "Users in the clusterRoleBinding"),
    wide("Groups", "Groups in the clusterRoleBinding"),
    wide("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding"),
];

const LEASE: &[Column] = &[
    NAME,
    text(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
    ),
    AGE,
];

const STORAGE_CLASS: &[Column] = &[
    NAME,
    text("Provisioner", "provisioner indicates the type of the provisioner."),
    text(
        "ReclaimPolicy",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class. Defaults to Delete.",
    ),
    text(
        "VolumeBindingMode",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the VolumeScheduling feature.",
    ),
    text("AllowVolumeExpansion", "allowVolumeExpansion shows whether the storage class allow volume expand."),
    AGE,
];

const CSI_NODE: &[Column] =
    &[NAME, integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), AGE];

const VOLUME_ATTACHMENT: &[Column] = &[
    NAME,
    text(
        "Attacher",
        "attacher indicates the name of the volume driver that MUST handle this request. This is the name returned by GetPluginName().",
    ),
    text("PV", "persistentVolumeName represents the name of the persistent volume to attach."),
    text("Node", "nodeName represents the node that the volume should be attached to."),
    boolean(
        "Attached",
        "attached indicates the volume is successfully attached. This field must only be set by the entity completing the attach operation, i.e. the external-attacher.",
    ),
    AGE,
];

const PRIORITY_CLASS: &[Column] = &[
    NAME,
    integer(
        "Value",
        "value represents the integer value of this priority class. This is the actual priority that pods receive when they have the name of this class in their pod spec.",
    ),
    boolean(
        "Global-Default",
        "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class. Only one PriorityClass can be marked as `globalDefault`. However, if more than one PriorityClasses exists with their `globalDefault` field set to true, the smallest value of such global default PriorityClasses will be used as the default priority.",
    ),
    AGE,
    text(
        "PreemptionPolicy",
        "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
    ),
];

const RUNTIME_CLASS: &[Column] = &[NAME, text("Handler", ""), AGE];

const ENDPOINT_SLICE: &[Column] = &[
    NAME,
    text(
        "AddressType",
        "addressType specifies the type of address carried by this EndpointSlice. All addresses in this slice must be the same type. This field is immutable after creation. The following address types are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 Address. * FQDN: Represents a Fully Qualified Domain Name. (Deprecated) The EndpointSlice controller only generates, and kube-proxy only processes, slices of addressType \"IPv4\" and \"IPv6\". No semantics are defined for the \"FQDN\" type.",
    ),
    text(
        "Ports",
        "ports specifies the list of network ports exposed by each endpoint in this slice. Each port must have a unique name. Each slice may include a maximum of 100 ports. Services always have at least 1 port, so EndpointSlices generated by the EndpointSlice controller will likewise always have at least 1 port. EndpointSlices used for other purposes may have an empty ports list.",
    ),
    text(
        "Endpoints",
        "endpoints is a list of unique endpoints in this slice. Each slice may include a maximum of 1000 endpoints.",
    ),
    AGE,
];

const WEBHOOKS: &[Column] = &[
    NAME,
    integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
    AGE,
];
