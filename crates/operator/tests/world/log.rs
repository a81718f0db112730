//! What is logged, taken down.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Takes down all that is logged on its thread, at every level.
#[derive(Clone, Default)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    spans: Arc<AtomicU64>,
}

/// One line, by its fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    level: String,
    pub(crate) target: String,
    fields: BTreeMap<&'static str, String>,
}

impl Line {
    fn of(metadata: &Metadata<'_>) -> Self {
        let (level, target) = (metadata.level().to_string(), metadata.target().to_owned());
        Self { level, target, fields: BTreeMap::new() }
    }

    /// Empty if it has none of this name.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map(String::as_str).unwrap_or_default()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level, self.target)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// While it is there, what its thread logs is taken down.
pub(crate) struct Listening {
    _first: DefaultGuard,
    _second: Dispatch,
}

impl Log {
    pub(crate) fn listen(&self) -> Listening {
        // While there is only one listener, a line that another thread writes first is never listened to.
        let second = Dispatch::new(Self::default());
        Listening { _first: tracing::subscriber::set_default(self.clone()), _second: second }
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.locked().clone()
    }

    pub(crate) fn text(&self) -> String {
        let lines: Vec<String> = self.locked().iter().map(ToString::to_string).collect();
        lines.join("\n")
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::of(span.metadata());
        span.record(&mut line);
        self.locked().push(line);
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line::default();
        values.record(&mut line);
        self.locked().push(line);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::of(event.metadata());
        event.record(&mut line);
        self.locked().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
