//! Finds the line of a field long after its document was read.
//!
//! Some problems show only when all objects are together, when their documents are gone. Small texts are
//! kept for that; in a large one such a problem has the line of its object.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::documents::{Body, Document, for_each_document};
use crate::problem::{Path, Problem, Step};
use crate::tree::Tree;

/// Texts that were read, up to a size that nobody notices.
#[derive(Debug, Default)]
pub(crate) struct KeptTexts {
    texts: BTreeMap<Arc<str>, String>,
    bytes: usize,
}

impl KeptTexts {
    const BYTES_MAX: usize = 4 << 20;

    pub(crate) fn keep(&mut self, name: &Arc<str>, text: &str) {
        if text.len() <= Self::BYTES_MAX.saturating_sub(self.bytes) {
            self.bytes += text.len();
            self.texts.insert(name.clone(), text.to_owned());
        }
    }

    /// Moves each problem from its object's line to its field's.
    pub(crate) fn refine(&self, problems: &mut [Problem]) {
        for (name, text) in &self.texts {
            let mut by_line: BTreeMap<usize, Vec<&mut Problem>> = BTreeMap::new();
            for problem in problems.iter_mut().filter(|problem| problem.source == *name) {
                by_line.entry(problem.line.unwrap_or(0)).or_default().push(problem);
            }
            if by_line.is_empty() {
                continue;
            }
            let mut refine_in = |document: Document<'_, '_>| {
                for problem in by_line.remove(&document.line).into_iter().flatten() {
                    let path = parse(problem.field.as_deref().unwrap_or_default());
                    problem.line = line_in(&document, &path).or(problem.line);
                }
            };
            for_each_document(text, &mut refine_in, &mut |_| {});
        }
    }
}

fn line_in(document: &Document<'_, '_>, path: &Path) -> Option<usize> {
    let line = match document.body {
        Body::Yaml(tree) => tree.line_of(path),
        Body::Json(text) => Tree::parse(text).ok()?.line_of(path),
    };
    Some(document.line_offset + line)
}

/// A path as problems print it.
fn parse(field: &str) -> Path {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        if let Some((bracketed, tail)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            let index = bracketed.parse().map(Step::Index);
            steps.push(index.unwrap_or_else(|_| Step::Key(bracketed.to_owned())));
            rest = tail;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (key, tail) =
                rest.split_at(rest.find(['.', '[']).filter(|end| *end > 0).unwrap_or(rest.len()));
            steps.push(Step::Key(key.to_owned()));
            rest = tail;
        }
    }
    Path(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_move_to_their_fields() {
        let yaml = "a: 1\n---\nspec:\n  list:\n  - x\n  - z\n---\nkind: List\nitems:\n- kind: A\n  b: 1\n- kind: B\n  b: 1\n";
        let annotated = "metadata:\n  annotations:\n    x: y\n    a.b/c: d\n";
        let json = "{\"kind\": \"List\",\n \"items\": [\n  {\"kind\": \"A\",\n   \"b\": 1}]}";
        for (text, line, field, expected) in [
            (yaml, 3, "spec.list[1]", 6),
            (yaml, 3, "spec.none", 3),
            (yaml, 12, "b", 13),
            (annotated, 1, "metadata.annotations[a.b/c]", 4),
            (annotated, 1, "metadata.annotations[a.b/c].d", 4),
            (annotated, 1, "metadata.annotations[a.b", 2),
            (yaml, 99, "b", 99),
            (json, 3, "b", 4),
        ] {
            let mut texts = KeptTexts::default();
            let source: Arc<str> = "in".into();
            texts.keep(&source, text);
            let field = Some(field.to_owned());
            let mut problems =
                [Problem { source, line: Some(line), object: None, field, message: String::new() }];
            texts.refine(&mut problems);
            assert_eq!(problems[0].line, Some(expected), "{line} {:?}", problems[0].field);
        }
    }
}
