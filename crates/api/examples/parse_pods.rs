//! Writes a list of pods as JSON, as `kubectl get pods -A -o json` would, reads it back, and says how
//! long that took and how much memory.
//!
//! `cargo run --release -p berth-api --example parse_pods -- 150000`

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use berth_api::{Source, assemble, read};
use berth_core::catalog::Catalog;

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
    let before = peak_kib();
    let (start, cpu_start) = (Instant::now(), cpu_ms());
    let manifests = read(&[Source::Path(path.clone())], &mut |_, _| {});
    let (reading, cpu_reading) = (start.elapsed(), cpu_ms() - cpu_start);
    let peak_reading = peak_kib();
    let assembled =
        assemble(manifests, &mut |_| Ok(Arc::new(Catalog { name: "none".into(), types: Vec::new() })));
    let total = start.elapsed();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "pods       {} ({} bytes each)",
        assembled.snapshot.pods.len(),
        bytes / count.max(1) as u64
    )?;
    writeln!(out, "problems   {}", assembled.problems.len())?;
    for problem in assembled.problems.iter().take(3) {
        writeln!(out, "           {problem}")?;
    }
    writeln!(out, "file       {} MB", bytes / 1_000_000)?;
    writeln!(out, "read       {} ms ({cpu_reading} on the CPU)", reading.as_millis())?;
    let cpu_assembling = cpu_ms() - cpu_start - cpu_reading;
    writeln!(out, "assemble   {} ms ({cpu_assembling} on the CPU)", total.saturating_sub(reading).as_millis())?;
    writeln!(
        out,
        "peak RSS   {} MB ({} before, {} after reading)",
        mb(peak_kib()),
        mb(before),
        mb(peak_reading)
    )?;
    Ok(())
}

/// What the process has had of the CPU, which other processes do not change.
fn cpu_ms() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: u64 = schedstat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    nanos / 1_000_000
}

/// The process's peak resident memory, as Linux counts it.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn mb(kib: u64) -> u64 {
    kib * 1024 / 1_000_000
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
            "status": {{"phase": "Running", "podIP": "10.0.0.1"}}
        }}{separator}
"#
        )?;
    }
    writeln!(out, "    ],\n    \"kind\": \"List\",\n    \"metadata\": {{\"resourceVersion\": \"\"}}\n}}")?;
    out.flush()
}
