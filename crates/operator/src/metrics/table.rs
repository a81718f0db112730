//! Every metric, defined once: what is counted, what a scrape says and `docs/metrics.md` all come from here.
//!
//! Names that begin with `karpenter_` are Karpenter's and mean what they mean there. No label names a pod: their number
//! has no bound.

/// A metric, as it is told to whoever scrapes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The name of something that is counted, with so many labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter<const LABELS: usize>(pub(crate) &'static str);

/// The name of something that has a value now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge<const LABELS: usize>(pub(crate) &'static str);

/// The name of something that takes time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Histogram<const LABELS: usize>(pub(crate) &'static str);

macro_rules! table {
    ($($id:ident = $kind:ident $name:literal [$($label:literal)*] $help:literal;)*) => {
        $(pub(crate) const $id: $kind<{ const LABELS: &[&str] = &[$($label),*]; LABELS.len() }> = $kind($name);)*

        /// All of them.
        pub const TABLE: &[Metric] = &[
            $(Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help },)*
        ];
    };
}

table! {
    CLAIMS_CREATED = Counter "karpenter_nodeclaims_created_total" ["nodepool" "reason" "min_values_relaxed"]
        "Claims made, by why: provisioned, or the reason of the disruption that they replace nodes for";
    CLAIMS_TERMINATED = Counter "karpenter_nodeclaims_terminated_total" ["nodepool" "capacity_type" "zone"]
        "Claims that are gone, and their machines with them";
    CLAIMS_DISRUPTED = Counter "karpenter_nodeclaims_disrupted_total" ["nodepool" "reason" "capacity_type"]
        "Claims deleted, by why";
    CLAIMS_UNHEALTHY = Counter "karpenter_nodeclaims_unhealthy_disrupted_total"
        ["condition" "nodepool" "capacity_type" "image_id"]
        "Claims deleted because a condition of their node was bad for too long, by which; images are not known";
    CLAIMS_TERMINATION = Histogram "karpenter_nodeclaims_termination_duration_seconds" ["nodepool"]
        "From a claim's deletion until it is gone";
    MACHINES_TERMINATION = Histogram "karpenter_nodeclaims_instance_termination_duration_seconds" ["nodepool"]
        "From the end of a node's drain until the cloud has no machine any more";

    NODES_CREATED = Counter "karpenter_nodes_created_total" ["nodepool"]
        "Nodes that joined for a claim";
    NODES_TERMINATED = Counter "karpenter_nodes_terminated_total" ["nodepool"]
        "Nodes that were taken away";
    NODES_DRAINED = Counter "karpenter_nodes_drained_total" ["nodepool"]
        "Nodes from which all pods that had to leave have left";
    NODES_TERMINATION = Histogram "karpenter_nodes_termination_duration_seconds" ["nodepool"]
        "From a claim's deletion until its node is gone";
    NODES_LIFETIME = Histogram "karpenter_nodes_lifetime_duration_seconds" ["nodepool"]
        "How long nodes that were taken away had lived";
    NODES_AGE = Gauge "karpenter_nodes_current_lifetime_seconds"
        ["node_name" "nodepool" "instance_type" "capacity_type" "zone" "arch" "os"]
        "How long ago a node joined";
    NODES_ALLOCATABLE = Gauge "karpenter_nodes_allocatable"
        ["node_name" "nodepool" "instance_type" "capacity_type" "zone" "arch" "os" "resource_type"]
        "What pods can have of a node";
    NODES_POD_REQUESTS = Gauge "karpenter_nodes_total_pod_requests"
        ["node_name" "nodepool" "instance_type" "capacity_type" "zone" "arch" "os" "resource_type"]
        "What the pods of a node ask for, those of DaemonSets among them";
    NODES_DAEMON_REQUESTS = Gauge "karpenter_nodes_total_daemon_requests"
        ["node_name" "nodepool" "instance_type" "capacity_type" "zone" "arch" "os" "resource_type"]
        "What DaemonSets' pods of a node ask for";
    NODES_OVERHEAD = Gauge "karpenter_nodes_system_overhead"
        ["node_name" "nodepool" "instance_type" "capacity_type" "zone" "arch" "os" "resource_type"]
        "What a node has and pods cannot have";

    PODS_STATE = Gauge "karpenter_pods_state"
        ["namespace" "phase" "nodepool" "instance_type" "capacity_type" "zone" "arch"]
        "How many pods are alike in all of these; Karpenter has a series for each pod, with the same sums";
    PODS_DECISION = Histogram "karpenter_pods_scheduling_decision_duration_seconds" []
        "From when a pod was first seen to wait until it was first planned for";
    PODS_BOUND = Histogram "karpenter_pods_bound_duration_seconds" []
        "From a pod's creation until it was seen to have a node; only of pods that were seen to wait";
    PODS_STARTUP = Histogram "karpenter_pods_startup_duration_seconds" []
        "From a pod's creation until it was seen to run; only of pods that were seen to wait";
    PODS_PROVISIONING_BOUND = Histogram "karpenter_pods_provisioning_bound_duration_seconds" []
        "From the first plan that had a place for a pod until it was seen to have a node";
    PODS_PROVISIONING_STARTUP = Histogram "karpenter_pods_provisioning_startup_duration_seconds" []
        "From the first plan that had a place for a pod until it was seen to run";
    PODS_EVICTIONS = Counter "karpenter_pods_eviction_requests_total" ["code"]
        "Evictions asked for, by the API's answer; 429 is a PodDisruptionBudget's no, or an API without time";
    PODS_DRAINED = Counter "karpenter_pods_drained_total" ["reason"]
        "Pods that were evicted or deleted because their node goes, by why it does";

    POOLS_LIMIT = Gauge "karpenter_nodepools_limit" ["nodepool" "resource_type"]
        "What a pool may have at most";
    POOLS_USAGE = Gauge "karpenter_nodepools_usage" ["nodepool" "resource_type"]
        "What a pool's nodes have, those on their way among them";
    POOLS_COST = Gauge "karpenter_nodepools_cost_total" ["nodepool"]
        "What a pool's nodes cost, in dollars an hour";
    POOLS_ALLOWED = Gauge "karpenter_nodepools_allowed_disruptions" ["nodepool" "reason"]
        "How many more of a pool's nodes may go now, by its budgets";
    POOLS_CONSUMING = Gauge "karpenter_nodepools_nodes_consuming_budgets" ["nodepool"]
        "How many of a pool's nodes are going";

    SCHEDULING = Histogram "karpenter_scheduler_scheduling_duration_seconds" []
        "How long a plan for pods without a place took";
    QUEUE_DEPTH = Gauge "karpenter_scheduler_queue_depth" []
        "How many pods wait for a place";
    UNFINISHED = Gauge "karpenter_scheduler_unfinished_work_seconds" []
        "For how long the plan that is being made has been made";
    ZONAL_PODS = Gauge "karpenter_scheduler_pending_pods_by_effective_zone_count" ["zone"]
        "How many pods wait for a place, by the only zone where they may be, going by their node selectors, node affinity \
         and volumes: flexible if they may be in several, none if in no zone where there are nodes or could be any";
    IGNORED_PODS = Gauge "karpenter_scheduler_ignored_pods_count" []
        "How many pods wait that are not planned for, because something holds them back";
    UNSCHEDULABLE_PODS = Gauge "karpenter_scheduler_unschedulable_pods_count" []
        "How many pods wait for which there is no place, and none can be bought";

    EVALUATION = Histogram "karpenter_voluntary_disruption_decision_evaluation_duration_seconds" []
        "How long a plan that may take nodes away took";
    DISRUPTIONS = Counter "karpenter_voluntary_disruption_decisions_total" ["decision" "reason" "consolidation_type"]
        "Steps decided that take nodes away: delete, or replace; of those that save money, whether they take empty nodes \
         (empty), one (single) or several (multi)";
    POOL_DISRUPTIONS = Counter "karpenter_voluntary_disruption_decisions_by_nodepool_total"
        ["nodepool" "decision" "reason" "consolidation_type"]
        "The same, for each pool whose nodes a step takes away";
    ELIGIBLE_NODES = Gauge "karpenter_voluntary_disruption_eligible_nodes" ["reason"]
        "How many nodes no rule kept when it was last asked which could go, by why they would";
    FAILED_VALIDATIONS = Counter "karpenter_voluntary_disruption_failed_validations_total"
        ["reason" "consolidation_type"]
        "Nodes that stay after all, because something has changed since it was decided that they go";
    QUEUE_FAILURES = Counter "karpenter_voluntary_disruption_queue_failures_total"
        ["decision" "reason" "consolidation_type"]
        "Nodes that stay after all, because what was bought for them was lost or did not come up in time";
    CONSOLIDATION_MOVES = Counter "karpenter_consolidation_moves_total" ["decision" "nodepool" "policy"]
        "What plans weighed in pools that ask for balance: steps that they have (approved), nodes that stay because too \
         little would be saved for the disruption (rejected)";
    CONSOLIDATION_SCORE = Histogram "karpenter_consolidation_score" ["decision" "nodepool" "policy"]
        "The part of a pool's cost that such a step saves, divided by its part of the pool's disruption; only of those \
         that are approved, since others are not weighed one by one";

    STATE_NODES = Gauge "karpenter_cluster_state_node_count" []
        "How many nodes there are, those on their way among them";
    STATE_SYNCED = Gauge "karpenter_cluster_state_synced" []
        "1 if everything is seen, and lately; else nothing is taken away";
    STATE_UNSYNCED = Gauge "karpenter_cluster_state_unsynced_time_seconds" []
        "For how long not everything has been seen";
    UTILIZATION = Gauge "karpenter_cluster_utilization_percent" ["resource_type"]
        "What pods ask for, of all that nodes can give";

    CLOUD_DURATION = Histogram "karpenter_cloudprovider_duration_seconds" ["provider" "method"]
        "How long clouds take to answer";
    CLOUD_ERRORS = Counter "karpenter_cloudprovider_errors_total" ["provider" "method" "error"]
        "What clouds refuse, by why";

    BUILD = Gauge "karpenter_build_info" ["version"]
        "1, with the version of Berth";
    MASTER = Gauge "leader_election_master_status" ["name"]
        "1 if this replica leads, else 0";

    PLAN_DURATION = Histogram "berth_plan_duration_seconds" ["kind"]
        "How long a plan took: provision, or disrupt for one that may take nodes away";
    PLAN_GAP = Gauge "berth_plan_gap_ratio" []
        "How much dearer the last plan is than the lower bound at most, as a part of its cost";
    LEDGER_COMMITS = Counter "berth_ledger_commits_total" ["result"]
        "Writes to pools' ledgers: committed, conflict if somebody else was faster, or failed";
    WATCH_AGE = Gauge "berth_watch_age_seconds" ["kind"]
        "How long ago something was last heard of objects of a kind; over 60 nothing is taken away";
    ROUND_AGE = Gauge "berth_round_age_seconds" []
        "How long ago the last look at the cluster ended";
    COST = Gauge "berth_cost_per_hour" ["pool"]
        "What a pool's nodes cost, in dollars an hour";
    LOWER_BOUND = Gauge "berth_lower_bound_per_hour" []
        "What the cluster would cost at least, in dollars an hour; none while that is not known of its pods as they are";
    NAMESPACE_COST = Gauge "berth_namespace_cost_per_hour" ["namespace"]
        "A namespace's part of what nodes cost, by what its pods ask for: half by CPU, half by memory";
    IDLE_COST = Gauge "berth_idle_cost_per_hour" []
        "The part of what nodes cost that no pod asks for";
    COULD_HAVE_SAVED = Gauge "berth_could_have_saved_dollars" []
        "What would have been saved since the start, had everything planned been done at once";
    DECISIONS = Counter "berth_decisions_total" ["kind" "reason"]
        "What was decided, by what and why; with --shadow, what would have been";
    UNREADABLE = Gauge "berth_unreadable_objects" []
        "How many objects, and parts of clouds' answers, cannot be read and are left out";

    GROUP_DESIRED = Gauge "vpsie_autoscaler_nodegroup_desired_nodes" ["nodegroup" "namespace"]
        "How many nodes a group should have";
    GROUP_CURRENT = Gauge "vpsie_autoscaler_nodegroup_current_nodes" ["nodegroup" "namespace"]
        "How many nodes a group has, those on their way among them";
    GROUP_READY = Gauge "vpsie_autoscaler_nodegroup_ready_nodes" ["nodegroup" "namespace"]
        "How many nodes of a group are ready";
    GROUP_MIN = Gauge "vpsie_autoscaler_nodegroup_min_nodes" ["nodegroup" "namespace"]
        "How many nodes a group has to have";
    GROUP_MAX = Gauge "vpsie_autoscaler_nodegroup_max_nodes" ["nodegroup" "namespace"]
        "How many nodes a group may have";
    GROUP_COST = Gauge "vpsie_autoscaler_nodegroup_cost_hourly" ["nodegroup" "namespace"]
        "What a group's nodes cost, in dollars an hour";
    VPSIE_PHASE = Gauge "vpsie_autoscaler_vpsienode_phase" ["phase" "nodegroup" "namespace"]
        "How many VPSieNodes of a group are in a phase";
    VPSIE_PHASE_TRANSITIONS = Counter "vpsie_autoscaler_vpsienode_phase_transitions_total"
        ["from_phase" "to_phase" "nodegroup" "namespace"]
        "How often VPSieNodes went from one phase to another";
    VPSIE_TTL_DELETIONS = Counter "vpsie_autoscaler_vpsienode_ttl_deletions_total" ["nodegroup" "namespace"]
        "VPSieNodes that had failed and were deleted when their time was over";
    VPSIE_PROVISIONING = Histogram "vpsie_autoscaler_node_provisioning_duration_seconds" ["nodegroup" "namespace"]
        "From a VPSieNode's creation until its node is ready";
    VPSIE_TERMINATION = Histogram "vpsie_autoscaler_node_termination_duration_seconds" ["nodegroup" "namespace"]
        "From a VPSieNode's deletion until it is gone";
    SCALE_UPS = Counter "vpsie_autoscaler_scale_up_total" ["nodegroup" "namespace"]
        "How often a group grew";
    SCALE_UP_NODES = Histogram "vpsie_autoscaler_scale_up_nodes_added" ["nodegroup" "namespace"]
        "By how many nodes a group grew at once";
    SCALE_DOWNS = Counter "vpsie_autoscaler_scale_down_total" ["nodegroup" "namespace"]
        "How often a group shrank";
    SCALE_DOWN_NODES = Histogram "vpsie_autoscaler_scale_down_nodes_removed" ["nodegroup" "namespace"]
        "By how many nodes a group shrank at once";
    SCALE_UP_DECISIONS = Counter "vpsie_autoscaler_scale_up_decisions_total" ["nodegroup" "namespace" "result"]
        "What became of pods' wish that a group grows: executed; or, once for each time that pods are told, \
         skipped_cooldown where it rests and skipped_max_capacity where it is as large as it may be; \
         skipped_provisioning for each node that pods await";
    SCALING_DECISIONS = Counter "vpsie_autoscaler_scaling_decisions_total"
        ["nodegroup" "namespace" "decision" "reason"]
        "Decisions about a group: scale_up for unschedulable_pods or as replacement, scale_down by why, or no_action by \
         what was skipped";
    SAVINGS = Gauge "vpsie_autoscaler_cost_savings_estimated_monthly" ["nodegroup" "namespace" "source"]
        "What a group's nodes that could go would save, in dollars a month: by consolidation or rebalancing, which buys \
         cheaper ones";
    REBALANCES = Counter "vpsie_autoscaler_rebalancer_operations_total"
        ["nodegroup" "namespace" "operation" "result"]
        "Nodes that go for others: replace, with started, success or failure";
    REBALANCED_NODES = Counter "vpsie_autoscaler_rebalancer_nodes_replaced_total"
        ["nodegroup" "namespace" "strategy"]
        "Nodes that went for others, by the strategy of their group";
    REBALANCED_SAVINGS = Counter "vpsie_autoscaler_rebalancer_cost_savings_total" ["nodegroup" "namespace"]
        "What the replacements that were begun save, in dollars a month; of several groups each has its part by what its nodes \
         cost";
    RECONCILE = Histogram "vpsie_autoscaler_controller_reconcile_duration_seconds" ["controller"]
        "How long work on an object took: nodegroup or vpsienode";
    RECONCILES = Counter "vpsie_autoscaler_controller_reconcile_total" ["controller" "result"]
        "How often objects were worked on: success, requeue or error";
    RECONCILE_ERRORS = Counter "vpsie_autoscaler_controller_reconcile_errors_total" ["controller" "error_type"]
        "What went wrong: conflict, kubernetes_api, vpsie_api, no_cloud or timeout";
    RECONCILE_QUEUE = Gauge "vpsie_autoscaler_reconciliation_queue_depth" ["controller"]
        "How many objects are worked on, or wait for it";
    EVENT_BUFFER = Gauge "vpsie_autoscaler_event_buffer_size" []
        "How many changes the last look took in together";
    EVENTS_DROPPED = Counter "vpsie_autoscaler_event_buffer_dropped_total" []
        "None: every look sees all that there is";
    SCALE_UP_REQUESTED = Histogram "vpsie_autoscaler_scale_up_decision_nodes_requested" ["nodegroup" "namespace"]
        "How many nodes were asked for at once";
    SCALE_DOWN_BLOCKED = Counter "vpsie_autoscaler_scale_down_blocked_total" ["nodegroup" "namespace" "reason"]
        "How often a node turned out to stay: cooldown, min_nodes, local_storage, capacity, affinity, protected_node, pdb, \
         safety_check or policy_constraint";
    VPSIE_UNSCHEDULABLE = Counter "vpsie_autoscaler_unschedulable_pods_total" ["constraint" "namespace"]
        "How often pods were told why they have no place: cpu, memory, pods, taint, affinity, anti_affinity, node_selector \
         or unknown";
    VPSIE_EVENTS = Counter "vpsie_autoscaler_events_emitted_total" ["event_type" "reason" "object_kind"]
        "Events written, by the kind of object that they are about";
    VPSIE_AUDIT = Counter "vpsie_autoscaler_audit_events_total" ["event_type" "category" "severity"]
        "What cannot be taken back and was done, by what it was done to: claim, pod, machine or orphan";
    DYNAMIC_GROUPS = Counter "vpsie_autoscaler_dynamic_nodegroup_creations_total" ["result" "namespace"]
        "Groups made for pods that no group fits: success, or failure";
    SCALE_DOWN_ERRORS = Counter "vpsie_autoscaler_scale_down_errors_total" ["nodegroup" "namespace" "error_type"]
        "Nodes that were to go and stayed: drain_failed if a pod would not leave, drain_timeout if it took too long";
    NODE_DRAIN = Histogram "vpsie_autoscaler_node_drain_duration_seconds" ["nodegroup" "namespace" "result"]
        "How long pods took to leave a node, by what came of it: success, timeout or error";
    NODE_DRAIN_PODS = Histogram "vpsie_autoscaler_node_drain_pods_evicted" ["nodegroup" "namespace"]
        "How many pods of a node were asked to leave at once";
    DISCOVERIES = Counter "vpsie_autoscaler_vpsienode_discovery_strategy_used_total" ["strategy"]
        "Nodes that joined, by what their machine was known by: provider_id, hostname_pattern or ip_matching";
    DISCOVERIES_FAILED = Counter "vpsie_autoscaler_vpsienode_discovery_failures_total" ["reason"]
        "Machines whose node was not found in time (timeout), or could not be made their own: claim_conflict if \
         somebody else changed it, api_error; and requests of another autoscaler that came to no machine: not_found";
    DISCOVERY = Histogram "vpsie_autoscaler_vpsienode_discovery_duration_seconds" []
        "From the launch of a machine until its node was found";
    NODE_CPU = Gauge "vpsie_autoscaler_node_utilization_cpu_percent" ["node" "nodegroup" "namespace"]
        "What a node uses of its CPU most of the time, where that is measured";
    NODE_MEMORY = Gauge "vpsie_autoscaler_node_utilization_memory_percent" ["node" "nodegroup" "namespace"]
        "What a node uses of its memory most of the time, where that is measured";
    CHECK_FAILURES = Counter "vpsie_autoscaler_safety_check_failures_total" ["check_type" "nodegroup" "namespace"]
        "How often a check found that a node has to stay: local_storage, rescheduling, system_pods, affinity, capacity or \
         protection";
    VPSIE_PENDING = Gauge "vpsie_autoscaler_pending_pods_current" ["namespace"]
        "How many pods of a namespace wait for a place";
    VPSIE_REQUESTS = Counter "vpsie_autoscaler_vpsie_api_requests_total" ["method" "status"]
        "Requests to VPSie, by the answer's status";
    VPSIE_REQUEST = Histogram "vpsie_autoscaler_vpsie_api_request_duration_seconds" ["method"]
        "How long VPSie takes to answer";
    VPSIE_ERRORS = Counter "vpsie_autoscaler_vpsie_api_errors_total" ["method" "error_type"]
        "Requests to VPSie that failed, by how: unauthorized, forbidden, client_error or server_error by the answer's status; \
         request_failed without an answer; circuit_open for those that were not sent, because VPSie is taken to be down";
    VPSIE_LIMITED = Counter "vpsie_autoscaler_vpsie_api_rate_limited_total" ["method"]
        "Requests that waited, so that VPSie is not asked too often";
    VPSIE_LIMITED_FOR = Histogram "vpsie_autoscaler_vpsie_api_rate_limit_wait_duration_seconds" ["method"]
        "How long they waited";
    VPSIE_BREAKER = Gauge "vpsie_autoscaler_vpsie_api_circuit_breaker_state" ["state"]
        "1 for what the breaker between Berth and VPSie does now: closed lets all through, open none, half_open one";
    VPSIE_BREAKER_OPENED = Counter "vpsie_autoscaler_vpsie_api_circuit_breaker_opened_total" []
        "How often VPSie was taken to be down";
    VPSIE_BREAKER_CHANGES = Counter "vpsie_autoscaler_vpsie_api_circuit_breaker_state_changes_total"
        ["from_state" "to_state"]
        "How often the breaker changed";
    VPSIE_PROBES = Counter "vpsie_autoscaler_vpsie_api_circuit_breaker_half_open_attempts_total" []
        "How often it was tried whether VPSie is back";
    VPSIE_PROBES_WELL = Counter "vpsie_autoscaler_vpsie_api_circuit_breaker_half_open_successes_total" []
        "How often it was";
    VPSIE_PROBES_ILL = Counter "vpsie_autoscaler_vpsie_api_circuit_breaker_half_open_failures_total" []
        "How often it was not";
    VPSIE_WITHHELD = Counter "vpsie_autoscaler_vpsie_api_circuit_breaker_half_open_rejected_total" []
        "Requests that were not sent while one found out whether VPSie is back";
    ROTATIONS = Counter "vpsie_autoscaler_credential_rotation_attempts_total" []
        "How often the Secret had changed";
    ROTATIONS_WELL = Counter "vpsie_autoscaler_credential_rotation_successes_total" []
        "How often VPSie took what it said then";
    ROTATIONS_ILL = Counter "vpsie_autoscaler_credential_rotation_failures_total" []
        "How often it did not, and what was in use stayed in use";
    ROTATION = Histogram "vpsie_autoscaler_credential_rotation_duration_seconds" []
        "How long it took to find out";
    CREDENTIAL_EXPIRES = Gauge "vpsie_autoscaler_credential_expires_at_timestamp" []
        "When the token runs out, in seconds since 1970; it is renewed before";
    CREDENTIAL_VALID = Gauge "vpsie_autoscaler_credential_valid" []
        "1 if VPSie took the credentials when they were last tried";
    WEBHOOK_VALIDATION = Histogram "vpsie_autoscaler_webhook_validation_duration_seconds"
        ["resource" "operation" "result"]
        "How long the webhook took to judge an object: allowed, denied, or error for what it could not read";
    NAMESPACE_REJECTIONS = Counter "vpsie_autoscaler_webhook_namespace_validation_rejections_total"
        ["resource_type" "namespace"]
        "None: objects of any namespace are taken";

    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "CPU time of this process, in seconds";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" []
        "Memory of this process";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" []
        "Address space of this process";
    PROCESS_FDS = Gauge "process_open_fds" []
        "Files and connections that this process has open";
    PROCESS_FDS_MAX = Gauge "process_max_fds" []
        "How many it may have open";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "When this process began, in seconds since 1970";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;
    use std::{env, fs};

    use super::*;

    /// Run with `BERTH_UPDATE=1` to write the file anew.
    #[test]
    fn the_document_has_all_of_them() {
        let mut text = "# Metrics\n\n\
             What `berth run` says at `/metrics`, in the OpenMetrics format. Names that begin with `karpenter_` are\n\
             Karpenter's and mean what they mean there, so that its dashboards and alerts go on working. No label names a\n\
             pod. Those that begin with `vpsie_autoscaler_` are those that the\n\
             code of VPSie's autoscaler exports; its documents have other names for some of them, such as\n\
             `scale_up_operations_total` for `scale_up_total` and `pending_pods_gauge` for `pending_pods_current`. Money is in dollars, CPU in cores, memory in bytes. Written from the code by `cargo xtask generate`.\n\n\
             | metric | kind | labels | meaning |\n|---|---|---|---|\n"
            .to_owned();
        for Metric { name, kind, labels, help } in TABLE {
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(text, "| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", ")).unwrap();
        }
        text += "\n\
             Of Karpenter's, these are not here: the gauges of single pods (`karpenter_pods_*_time_seconds`), whose number has\n\
             no bound; limits of pods (`*_limits`), which nothing is decided by; `consolidation_timeouts_total`, since no plan\n\
             is given up for lack of time; `nodepools_cost_tracker_errors_total`, since costs are not tracked but worked out\n\
             anew from what is seen; `pods_disruption_initiated_total`, which no release of Karpenter has yet; and those of\n\
             its controllers, queues and clients, and of the conditions of objects (`operator_*`), which kube-state-metrics\n\
             tells of any object. Its durations of pods are summaries, and histograms here. Labels that it has\n\
             and Berth has not: `controller` and `scheduling_id`, since one loop does everything; `reason` and\n\
             `consolidation_type` of `decision_evaluation_duration_seconds`, since one plan is made for all reasons.\n\
             \n\
             What VPSie's autoscaler tells, and Berth does not or otherwise:\n\
             \n\
             | VPSie's | here |\n|---|---|\n\
             | `vpsie_rebalancing_*` | not: the package that has them never runs; `rebalancer_*` tell of it |\n\
             | `vpsie_cost_*`, `vpsie_nodegroup_cost_*` | not, for the same reason; `nodegroup_cost_hourly` and `cost_savings_estimated_monthly` tell of it |\n\
             | `strategy` `unclaimed_k8s_node_ip` and `unclaimed_k8s_node` of `vpsienode_discovery_strategy_used_total` | never: a Node is not taken for a machine's because it is young and nobody's; one that is known by its address counts as `ip_matching`, whoever told the address |\n\
             | `webhook_namespace_validation_rejections_total`, `event_buffer_dropped_total` | always 0 |\n\
             | labels longer than 128 characters are cut | no label can be longer: they are names of Kubernetes and words of Berth's |\n";
        let path = "../../docs/metrics.md";
        if env::var_os("BERTH_UPDATE").is_some() {
            fs::write(path, &text).unwrap();
        }
        let found = fs::read_to_string(path).unwrap_or_default();
        assert!(found == text, "docs/metrics.md is stale; run the tests with BERTH_UPDATE=1");
    }

    #[test]
    fn metrics_are_named_as_prometheus_wants_them() {
        let names: BTreeSet<&str> = TABLE.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), TABLE.len(), "each once");
        for Metric { name, kind, labels, help } in TABLE {
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total") && *name != POOLS_COST.0, "{name}");
            // Some of VPSie's count nodes or pods.
            let counts = [SCALE_UP_NODES.0, SCALE_DOWN_NODES.0, SCALE_UP_REQUESTED.0, NODE_DRAIN_PODS.0];
            let is_other = counts.contains(name) || *name == CONSOLIDATION_SCORE.0;
            if *kind == Kind::Histogram && !is_other {
                assert!(name.ends_with("_seconds"), "{name}");
            }
            assert!(!help.is_empty() && !help.ends_with('.'), "{name}");
            let forbidden = ["pod", "pod_name", "name"];
            let named = labels.iter().filter(|label| forbidden.contains(label));
            assert_eq!(named.count(), usize::from(*name == MASTER.0), "{name}");
        }
    }
}
