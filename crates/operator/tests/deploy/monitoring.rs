//! The dashboard and the alerts ask for metrics that there are, with labels that they have.

use std::collections::BTreeSet;
use std::fs;

use berth_operator::{METRICS, Metric, MetricKind};
use serde_json::Value;

use crate::{objects, root};

/// Labels that Prometheus adds, and that of a histogram's buckets.
const ADDED: [&str; 3] = ["instance", "job", "le"];

#[test]
fn metrics_are_known() {
    let asked = expressions();
    assert!(asked.len() > 30, "only {} expressions", asked.len());
    for (place, expression) in asked {
        let known = metrics_in(&expression).into_iter().map(|(name, matched)| {
            let metric = metric(name).unwrap_or_else(|why| panic!("{place}: {why} in {expression}"));
            let labels: BTreeSet<&str> = metric.labels.iter().chain(&ADDED).copied().collect();
            for label in matched {
                assert!(labels.contains(label), "{place}: {name} has no label {label}");
            }
            labels
        });
        let labels: BTreeSet<&str> = known.flatten().collect();
        for label in grouped_by(&expression) {
            assert!(labels.contains(label), "{place}: nothing has a label {label} in {expression}");
        }
    }
}

/// Each termination ends with a machine that is not found: nobody is woken for that.
#[test]
fn machines_that_are_gone_are_no_alarm() {
    let asked = expressions();
    let of_clouds = asked.iter().find(|(place, _)| place == "alert BerthCloudRefuses");
    let (_, expression) = of_clouds.expect("there is such an alert");
    assert!(expression.contains("{error!=\"NodeClaimNotFoundError\"}"), "{expression}");
}

/// The metric that a series belongs to.
fn metric(series: &str) -> Result<&'static Metric, String> {
    let of = |name: &str| METRICS.iter().find(|metric| metric.name == name);
    let parts = ["_bucket", "_sum", "_count"].iter().find_map(|part| series.strip_suffix(part));
    match (of(series), parts.and_then(of)) {
        (Some(metric), _) if metric.kind != MetricKind::Histogram => Ok(metric),
        (Some(_), _) => Err(format!("{series} is a histogram and has no value of its own")),
        (None, Some(metric)) if metric.kind == MetricKind::Histogram => Ok(metric),
        _ => Err(format!("there is no metric {series}")),
    }
}

/// All expressions, each with the place where it is.
fn expressions() -> Vec<(String, String)> {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("it is there");
    let dashboard: Value = serde_json::from_str(&read("deploy/dashboards/berth.json")).expect("JSON");
    let of_panels = list(&dashboard["panels"]).flat_map(|panel| {
        let title = text(&panel["title"]);
        list(&panel["targets"]).map(move |target| (format!("panel {title}"), text(&target["expr"])))
    });
    let rule = objects("alerts", read("deploy/alerts/berth.yaml"));
    let groups = rule.iter().flat_map(|rule| list(&rule["spec"]["groups"]));
    let of_alerts = groups
        .flat_map(|group| list(&group["rules"]))
        .map(|rule| (format!("alert {}", text(&rule["alert"])), text(&rule["expr"])));
    of_panels.chain(of_alerts).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The names of series, with the labels that they are chosen by.
fn metrics_in(expression: &str) -> Vec<(&str, Vec<&str>)> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_letter) {
        let word = &rest[start..];
        let end = word.find(|letter| !is_letter(letter)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        rest = after;
        if ["berth_", "karpenter_", "leader_election_", "process_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            let chosen =
                after.strip_prefix('{').and_then(|after| after.split('}').next()).unwrap_or_default();
            let labels = chosen.split(',').filter_map(|term| term.split(['=', '!']).next());
            found.push((name, labels.map(str::trim).filter(|label| !label.is_empty()).collect()));
        }
    }
    found
}

/// The labels in `by (…)` and `on (…)`.
fn grouped_by(expression: &str) -> Vec<&str> {
    let lists = ["by (", "on ("].into_iter().flat_map(|word| expression.split(word).skip(1));
    let labels = lists.flat_map(|after| after.split(')').next().unwrap_or_default().split(','));
    labels.map(str::trim).filter(|label| !label.is_empty()).collect()
}
