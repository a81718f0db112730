//! What is wrong with the input, and where.

use std::fmt;
use std::sync::Arc;

/// Something in the input that a person has to change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file's name as the user gave it, or `stdin`.
    pub source: Arc<str>,
    pub line: Option<usize>,
    /// `Kind/name`, or `Kind/namespace/name` outside the default namespace.
    pub object: Option<String>,
    /// The field's path, such as `spec.limits.cpu`.
    pub field: Option<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// What is wrong with the object, for whoever knows which one it is.
    pub fn words(&self) -> String {
        let field = self.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
        format!("{field}{}", self.message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, ": {part}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A place inside a document, built on the stack while it is walked: it costs nothing until something
/// is wrong there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Option<BorrowedStep<'a>>,
}

#[derive(Clone, Copy, Debug)]
enum BorrowedStep<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(crate) const ROOT: Self = Self { parent: None, step: None };

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Some(BorrowedStep::Key(key)) }
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Some(BorrowedStep::Index(index)) }
    }

    pub(crate) fn path(&self) -> Path {
        let mut steps = self.parent.map_or_else(Vec::new, |parent| parent.path().0);
        steps.extend(self.step.map(|step| match step {
            BorrowedStep::Key(key) => Step::Key(key.to_owned()),
            BorrowedStep::Index(index) => Step::Index(index),
        }));
        Path(steps)
    }
}

/// The way from a document's root to a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                // A label key has dots of its own; brackets keep it apart from the path's.
                Step::Key(key) if key.contains(['.', '/']) => write!(f, "[{key}]")?,
                Step::Key(key) if i == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// What is wrong inside one object, by path.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: Path,
    pub(crate) message: String,
}

impl Findings {
    pub(crate) fn add(&mut self, at: &At<'_>, message: impl Into<String>) {
        self.0.push(Finding { path: at.path(), message: message.into() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_read_like_compiler_errors() {
        let problem = |line, object: Option<&str>, field: Option<&str>| Problem {
            source: "cluster/pools.yaml".into(),
            line,
            object: object.map(str::to_owned),
            field: field.map(str::to_owned),
            message: "wrong".to_owned(),
        };
        for (problem, expected) in [
            (
                problem(Some(12), Some("NodePool/default"), Some("spec.limits.cpu")),
                "cluster/pools.yaml:12: NodePool/default: spec.limits.cpu: wrong",
            ),
            (problem(Some(12), None, None), "cluster/pools.yaml:12: wrong"),
            (problem(None, None, None), "cluster/pools.yaml: wrong"),
        ] {
            assert_eq!(problem.to_string(), expected);
        }
    }

    #[test]
    fn paths_keep_label_keys_apart() {
        let spec = At::ROOT.key("spec");
        let containers = spec.key("containers");
        let first = containers.index(0);
        assert_eq!(first.key("name").path().to_string(), "spec.containers[0].name");
        let labels = spec.key("labels");
        assert_eq!(labels.key("a.b/c").path().to_string(), "spec.labels[a.b/c]");
        assert_eq!(At::ROOT.path().to_string(), "");
    }
}
