//! What is counted and measured, and how it is told.

mod gauges;
mod measured;
mod process;
pub(crate) mod table;
pub(crate) mod vpsie;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::units::Price;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter as Count};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram as Durations;
use prometheus_client::registry::Registry;

use crate::report::Report;
use table::{Counter, Gauge, Histogram, Kind, Metric, TABLE};

pub(crate) use gauges::count;
pub(crate) use measured::measured;

/// From what a plan for a few pods takes to what a drain may take.
const BUCKETS: [f64; 18] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    3600.0,
];

/// A metric's name, and the values of its labels in their order.
type Series = (&'static str, Vec<String>);

/// What was counted since the start. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    counted: Arc<Mutex<Counted>>,
}

#[derive(Debug, Default)]
struct Counted {
    counts: BTreeMap<Series, Count>,
    durations: BTreeMap<Series, Durations>,
    last: BTreeMap<Series, f64>,
    /// Since when a plan is being made, if one is.
    planning: Option<std::time::Instant>,
}

impl Metrics {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count<const N: usize>(&self, metric: Counter<N>, labels: [&str; N]) {
        self.counted().counts.entry(series(metric.0, labels)).or_default().inc();
    }

    pub(crate) fn took<const N: usize>(&self, metric: Histogram<N>, labels: [&str; N], time: Duration) {
        self.observed(metric, labels, time.as_secs_f64());
    }

    pub(crate) fn observed<const N: usize>(&self, metric: Histogram<N>, labels: [&str; N], value: f64) {
        let mut counted = self.counted();
        let durations = counted.durations.entry(series(metric.0, labels));
        durations.or_insert_with(|| Durations::new(BUCKETS)).observe(value);
    }

    /// A plan is begun. It is done when it is timed.
    pub(crate) fn begin_plan(&self) -> std::time::Instant {
        let now = std::time::Instant::now();
        self.counted().planning = Some(now);
        now
    }

    /// A plan of this kind is done.
    pub(crate) fn end_plan(&self, kind: &str, began: std::time::Instant) {
        self.took(table::PLAN_DURATION, [kind], began.elapsed());
        self.counted().planning = None;
    }

    /// Money that adds up.
    pub(crate) fn add_dollars<const N: usize>(&self, metric: Counter<N>, labels: [&str; N], sum: Price) {
        *self.counted().last.entry(series(metric.0, labels)).or_default() += gauges::dollars(sum);
    }

    /// Something whose last value counts.
    pub(crate) fn set<const N: usize>(&self, metric: Gauge<N>, labels: [&str; N], value: f64) {
        self.counted().last.insert(series(metric.0, labels), value);
    }

    /// All metrics as text, with what the newest report says. `name` is the lease's.
    pub fn scrape(&self, report: &Report, name: &str) -> String {
        let mut samples = Samples::default();
        gauges::of_report(&mut samples, report, name);
        let planning = self.counted().planning.map_or(Duration::ZERO, |began| began.elapsed());
        samples.set(table::UNFINISHED, [], planning.as_secs_f64());
        vpsie::of_report(&mut samples, report);
        process::of_this(&mut samples);
        let mut registry = Registry::default();
        let scrape = Scrape { metrics: self.clone(), samples };
        registry.register_collector(Box::new(scrape));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

/// A reason as Karpenter writes it in labels.
pub(crate) fn reason_label(reason: &str) -> String {
    match reason {
        "InsufficientCapacityError" => "insufficient_capacity".to_owned(),
        "MachineGone" => "garbage_collected".to_owned(),
        _ => {
            let mut label = String::new();
            for letter in reason.chars() {
                if letter.is_uppercase() && !label.is_empty() {
                    label.push('_');
                }
                label.extend(letter.to_lowercase());
            }
            label
        }
    }
}

/// What a scrape is answered with, as Prometheus wants it named.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn series<const N: usize>(name: &'static str, labels: [&str; N]) -> Series {
    (name, labels.iter().map(ToString::to_string).collect())
}

/// Values of now.
#[derive(Debug, Default)]
pub(crate) struct Samples(BTreeMap<Series, f64>);

impl Samples {
    fn set<const N: usize>(&mut self, metric: Gauge<N>, labels: [&str; N], value: f64) {
        self.0.insert(series(metric.0, labels), value);
    }

    fn add<const N: usize>(&mut self, metric: Gauge<N>, labels: [&str; N], value: f64) {
        *self.0.entry(series(metric.0, labels)).or_default() += value;
    }

    /// Something that somebody else counts.
    fn counted<const N: usize>(&mut self, metric: Counter<N>, labels: [&str; N], value: f64) {
        self.0.insert(series(metric.0, labels), value);
    }
}

#[derive(Debug)]
struct Scrape {
    metrics: Metrics,
    samples: Samples,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counted = self.metrics.counted();
        for metric in TABLE {
            encode(&mut encoder, metric, &counted, &self.samples)?;
        }
        Ok(())
    }
}

/// A metric with all its series: also one without any, so that whoever looks for it finds it.
fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    counted: &Counted,
    samples: &Samples,
) -> fmt::Result {
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    // The format has counters named without it, and adds it to their series.
    let name = match metric.kind {
        Kind::Counter => metric.name.strip_suffix("_total").unwrap_or(metric.name),
        Kind::Gauge | Kind::Histogram => metric.name,
    };
    let mut family = encoder.encode_descriptor(name, metric.help, None, kind)?;
    for (values, value) in all_series(metric, counted, samples) {
        if metric.labels.is_empty() {
            // There is only one, and it is not in braces.
            return value.encode(family);
        }
        let labels: Vec<(&str, &str)> =
            metric.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
        value.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn all_series<'s>(
    metric: &Metric,
    counted: &'s Counted,
    samples: &'s Samples,
) -> Vec<(&'s [String], Box<dyn EncodeMetric>)> {
    let mut all: Vec<(&[String], Box<dyn EncodeMetric>)> = Vec::new();
    for (values, count) in of(&counted.counts, metric) {
        all.push((values, Box::new(ConstCounter::new(count.get()))));
    }
    for (values, durations) in of(&counted.durations, metric) {
        all.push((values, Box::new(durations.clone())));
    }
    for (values, value) in of(&counted.last, metric).chain(of(&samples.0, metric)) {
        all.push(match metric.kind {
            Kind::Counter => (values, Box::new(ConstCounter::new(*value))),
            Kind::Gauge | Kind::Histogram => (values, Box::new(ConstGauge::new(*value))),
        });
    }
    all
}

fn of<'s, T>(
    all: &'s BTreeMap<Series, T>,
    metric: &Metric,
) -> impl Iterator<Item = (&'s [String], &'s T)> + use<'s, T> {
    let name = metric.name;
    let from = all.range((name, Vec::new())..);
    from.take_while(move |((known, _), _)| *known == name).map(|((_, values), value)| (&values[..], value))
}
