//! Objects as they stand, for who hands them on and does not judge them.

use std::sync::Arc;

use berth_core::names::Text;
use serde::Deserialize;
use serde_json::Value;

use crate::documents::{Body, for_each_document};
use crate::kinds::Collection;
use crate::problem::Problem;
use crate::source::{Source, for_each_text};

/// An object, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub source: Arc<str>,
    pub line: usize,
    pub value: Value,
}

impl Object {
    fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str)
    }

    pub fn is_of(&self, collection: &Collection) -> bool {
        let Collection { group, version, .. } = collection;
        let separator = if group.is_empty() { "" } else { "/" };
        self.text("/kind") == Some(collection.kind())
            && self.text("/apiVersion") == Some(&format!("{group}{separator}{version}"))
    }

    /// Its namespace, empty where it has none, and its name.
    pub fn id(&self) -> (Text, Text) {
        let part = |pointer| self.text(pointer).unwrap_or_default().into();
        (part("/metadata/namespace"), part("/metadata/name"))
    }

    /// What somebody else found wrong with it.
    pub fn problem(&self, message: String) -> Problem {
        let names = ["/kind", "/metadata/namespace", "/metadata/name"];
        let object: Vec<&str> = names.into_iter().filter_map(|name| self.text(name)).collect();
        Problem {
            source: self.source.clone(),
            line: Some(self.line),
            object: Some(object.join("/")).filter(|object| !object.is_empty()),
            field: None,
            message,
        }
    }
}

/// All objects, one by one also where they are in lists; and what is none.
pub fn objects(sources: &[Source]) -> (Vec<Object>, Vec<Problem>) {
    let (mut objects, mut malformed, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let refused = |source: &Arc<str>, line, message| Problem {
        source: source.clone(),
        line: Some(line),
        object: None,
        field: None,
        message,
    };
    for source in sources {
        let mut visit = |name: &Arc<str>, text: &str| {
            let mut wrong = Vec::new();
            for_each_document(
                text,
                &mut |document| {
                    let value = match document.body {
                        Body::Json(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
                        Body::Yaml(tree) => Value::deserialize(tree).map_err(|error| error.to_string()),
                    };
                    match value {
                        Ok(value) => {
                            objects.push(Object { source: name.clone(), line: document.line, value });
                        }
                        Err(message) => wrong.push(refused(name, document.line, message)),
                    }
                },
                &mut |broken| malformed.push(refused(name, broken.line, broken.message)),
            );
            malformed.append(&mut wrong);
        };
        for_each_text(source, &mut visit, &mut problems);
    }
    problems.append(&mut malformed);
    (objects, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_handed_on_as_they_stand() {
        let text = "kind: A\nspec: {n: 1, s: 'on', l: [true, null]}\n---\n{\"kind\": \"List\", \"apiVersion\": \"v1\", \
                    \"items\": [{\"kind\": \"B\"}]}\n---\nkind: [\n";
        let source = Source::Text { name: "t".to_owned(), text: text.to_owned() };
        let (found, problems) = objects(&[source]);
        let found: Vec<(usize, String)> =
            found.into_iter().map(|object| (object.line, object.value.to_string())).collect();
        assert_eq!(
            found,
            [
                (1, r#"{"kind":"A","spec":{"l":[true,null],"n":1,"s":"on"}}"#.to_owned()),
                (4, r#"{"kind":"B"}"#.to_owned()),
            ]
        );
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
