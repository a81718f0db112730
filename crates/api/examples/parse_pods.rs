//! Writes a list of pods as JSON, as `kubectl get pods -A -o json` would, reads it back, and prints one
//! line of JSON: how long that took, and the most memory that the process had.
//!
//! `cargo run --release -p berth-api --example parse_pods -- 150000`; `cargo xtask bench provision` runs it
//! as part of its tables.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use berth_api::{Context, Source, Timestamp, assemble, read};
use berth_core::catalog::Catalog;
use berth_core::units::Price;

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(150_000), |text| text.parse())?;
    let path = std::env::temp_dir().join(format!("berth-parse-pods-{}.json", std::process::id()));
    let outcome = measure(&path, count);
    std::fs::remove_file(&path)?;
    outcome
}

fn measure(path: &PathBuf, count: usize) -> Result<(), Box<dyn Error>> {
    write_pods(path, count)?;
    let bytes = std::fs::metadata(path)?.len();
    let start = Instant::now();
    let manifests = read(&[Source::Path { path: path.clone(), but: None }], &mut |_, _| {});
    let reading = start.elapsed();
    let context = Context { now: Timestamp::now(), node_cost: Price::ZERO };
    let catalog = Arc::new(Catalog { name: "none".into(), types: Vec::new() });
    let assembled = assemble(manifests, &context, &mut |_| Ok(catalog.clone()));
    let total = start.elapsed();
    let measured = serde_json::json!({
        "pods": assembled.snapshot.pods.len(),
        "bytes": bytes,
        "microseconds": u64::try_from(total.as_micros())?,
        "microsecondsReading": u64::try_from(reading.as_micros())?,
        "peakKiB": peak_kib(),
        "problems": assembled.problems.len(),
        "firstProblem": assembled.problems.first().map(ToString::to_string),
    });
    writeln!(std::io::stdout(), "{measured}")?;
    Ok(())
}

/// The process's peak resident memory, as Linux counts it.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// Pods of three hundred Deployments on a thousand nodes, with what a cluster adds to each.
fn write_pods(path: &Path, count: usize) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "{{\n    \"apiVersion\": \"v1\",\n    \"items\": [")?;
    for i in 0..count {
        let separator = if i + 1 == count { "" } else { "," };
        let (app, hash) = (i % 300, 1_000_000 + (i % 300) * 7919);
        let (team, cpu, node) = (app % 20, 50 * (1 + app % 10), i % 1000);
        write!(
            out,
            r#"        {{
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {{
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "generateName": "app-{app}-{hash:x}-",
                "labels": {{
                    "app.kubernetes.io/name": "app-{app}",
                    "team": "team-{team}",
                    "pod-template-hash": "{hash:x}"
                }},
                "name": "app-{app}-{hash:x}-{i:06x}",
                "namespace": "team-{team}",
                "ownerReferences": [
                    {{"apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true, "kind": "ReplicaSet", "name": "app-{app}-{hash:x}", "uid": "5d2c7e6e-0000-4000-8000-{i:012}"}}
                ],
                "resourceVersion": "{i}",
                "uid": "5d2c7e6e-1111-4000-8000-{i:012}"
            }},
            "spec": {{
                "affinity": {{"podAntiAffinity": {{"preferredDuringSchedulingIgnoredDuringExecution": [{{"podAffinityTerm": {{"labelSelector": {{"matchLabels": {{"app.kubernetes.io/name": "app-{app}"}}}}, "topologyKey": "kubernetes.io/hostname"}}, "weight": 100}}]}}}},
                "containers": [
                    {{"image": "registry.example.com/app-{app}:v1.2.3", "name": "app", "env": [{{"name": "A", "value": "\"quoted\""}}],
                     "resources": {{"limits": {{"memory": "512Mi"}}, "requests": {{"cpu": "{cpu}m", "memory": "256Mi"}}}},
                     "volumeMounts": [{{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-{i:05x}", "readOnly": true}}]}}
                ],
                "nodeName": "node-{node}",
                "priority": 0,
                "schedulerName": "default-scheduler",
                "tolerations": [
                    {{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}},
                    {{"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}}
                ],
                "volumes": [{{"name": "kube-api-access-{i:05x}", "projected": {{"defaultMode": 420}}}}]
            }},
            "status": {{
                "conditions": [{{"lastTransitionTime": "2026-01-01T00:00:10Z", "status": "True", "type": "Ready"}}],
                "phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:01Z"
            }}
        }}{separator}
"#
        )?;
    }
    writeln!(out, "    ],\n    \"kind\": \"List\",\n    \"metadata\": {{\"resourceVersion\": \"\"}}\n}}")?;
    out.flush()
}
