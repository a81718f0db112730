//! Sequences of requests, drawn by lot.

use http::Method;
use serde_json::{Map, Value, json};

use crate::bodies::{DEFINITION, KINDS, Kind, METADATA};
use crate::draw::Lots;
use crate::request::{Deed, Form, Request, Until, Watched};

/// What a Kubernetes needs before any sequence.
pub(crate) fn stage() -> Vec<Request> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let define = Request::new(Method::POST, definitions, Form::Object, DEFINITION.replace('\n', ""));
    let boats = "/apis/random.example.com/v1/boats";
    [define, Request::new(Method::GET, boats, Form::Object, String::new())]
        .into_iter()
        .map(|request| Request { until: Until::DoneQuietly, ..request })
        .collect()
}

/// The sequence of a seed.
pub(crate) fn draw(seed: u64) -> Vec<Request> {
    let mut draw = Draw { lots: Lots::new(seed), asked: Vec::new(), of_one: Vec::new() };
    let length = 8 + draw.lots.below(13);
    // Few kinds at a time, so that requests meet.
    let kinds: Vec<&Kind> = (0..2).map(|_| draw.lots.pick(KINDS)).collect();
    let first = json!({"metadata": {"name": "first"}});
    draw.ask(Method::POST, "/api/v1/namespaces/{ns}/configmaps", Form::Object, &first);
    for _ in 0..length {
        let kind = kinds[draw.lots.below(kinds.len())];
        draw.request(kind);
    }
    draw.watch(kinds[0]);
    draw.asked
}

struct Draw {
    lots: Lots,
    asked: Vec<Request>,
    /// The numbers of requests that are about one object. A list's version depends on what others do meanwhile.
    of_one: Vec<usize>,
}

type Fields = &'static [(&'static str, &'static [&'static str])];

impl Draw {
    fn ask(&mut self, method: Method, path: &str, form: Form, body: &Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.asked.push(Request::new(method, path, form, body));
        self.of_one.push(self.asked.len());
    }

    fn ask_of_all(&mut self, method: Method, path: &str) {
        self.asked.push(Request::new(method, path, Form::Object, String::new()));
    }

    fn request(&mut self, kind: &'static Kind) {
        let name = *self.lots.pick(&kind.names);
        let one = format!("{}/{name}", kind.path);
        match self.lots.below(20) {
            0..=5 => self.create(kind, name),
            6 => self.ask(Method::GET, &one, Form::Object, &Value::Null),
            7 => self.list(kind),
            8 | 9 => self.update(kind, name),
            10..=13 => self.patch(kind, name),
            14 | 15 => self.status(kind, name),
            16 | 17 => self.delete(kind, name),
            18 if kind.has_scale => self.scale(&one),
            18 | 19 if kind.name == "Pod" => self.part_of_pod(name, &one),
            _ => self.delete_collection(kind),
        }
    }

    /// A body with some fields set at will.
    fn body(&mut self, kind: &'static Kind, name: &str, with_type: bool) -> Value {
        let mut body: Value = serde_json::from_str(kind.base).unwrap();
        body["metadata"]["name"] = json!(name);
        if with_type {
            body["apiVersion"] = json!(kind.api_version);
            body["kind"] = json!(kind.name);
        }
        for _ in 0..self.lots.below(3) {
            let (path, value) = self.field(kind.fields);
            set(&mut body, path, value);
        }
        body
    }

    /// One in three is about metadata.
    fn field(&mut self, fields: Fields) -> (&'static str, Value) {
        let fields = if fields.is_empty() || self.lots.one_in(3) { METADATA } else { fields };
        let (path, values) = self.lots.pick(fields);
        (path, serde_json::from_str(self.lots.pick::<&str>(values)).unwrap())
    }

    /// The version that an earlier answer had, or one that was never.
    fn some_version(&mut self) -> Value {
        match self.lots.below(8) {
            0 => json!("1"),
            1 => json!("x"),
            _ => json!(format!("{{{}.rv}}", self.lots.pick(&self.of_one))),
        }
    }

    fn create(&mut self, kind: &'static Kind, name: &str) {
        let with_type = kind.name == "Boat" || self.lots.one_in(2);
        let mut body = self.body(kind, name, with_type);
        if self.lots.one_in(12) {
            // Lists are in the order of names: also those of made ones.
            let base = format!("g{}-", self.asked.len());
            body["metadata"] = json!({"generateName": base, "labels": body["metadata"]["labels"]});
        }
        if self.lots.one_in(20) {
            body["kind"] = json!("Secret");
        }
        let query = if self.lots.one_in(10) { "?dryRun=All" } else { "" };
        self.ask(Method::POST, &format!("{}{query}", kind.path), Form::Object, &body);
    }

    fn update(&mut self, kind: &'static Kind, name: &str) {
        let mut body = self.body(kind, name, true);
        if self.lots.one_in(2) {
            body["metadata"]["resourceVersion"] = self.some_version();
        }
        let query = if self.lots.one_in(12) { "?dryRun=All" } else { "" };
        self.ask(Method::PUT, &format!("{}/{name}{query}", kind.path), Form::Object, &body);
    }

    fn patch(&mut self, kind: &'static Kind, name: &str) {
        let one = format!("{}/{name}", kind.path);
        match self.lots.below(8) {
            0 | 1 => {
                let patch = self.merge(kind.fields);
                self.ask(Method::PATCH, &one, Form::MergePatch, &patch);
            }
            2 | 3 => {
                let patch = self.operations(kind.fields);
                self.ask(Method::PATCH, &one, Form::JsonPatch, &patch);
            }
            4 => {
                let patch = serde_json::from_str(self.lots.pick::<&str>(kind.strategic)).unwrap();
                self.ask(Method::PATCH, &one, Form::StrategicPatch, &patch);
            }
            _ => {
                let mut body = if self.lots.one_in(2) {
                    self.body(kind, name, true)
                } else {
                    let mut partly = self.merge(kind.fields);
                    partly["apiVersion"] = json!(kind.api_version);
                    partly["kind"] = json!(kind.name);
                    partly["metadata"]["name"] = json!(name);
                    partly
                };
                // Who applies says no null.
                without_nulls(&mut body);
                let manager = *self.lots.pick(&["one", "two"]);
                let force = if self.lots.one_in(3) { "&force=true" } else { "" };
                self.ask(Method::PATCH, &format!("{one}?fieldManager={manager}{force}"), Form::Apply, &body);
            }
        }
    }

    fn merge(&mut self, fields: Fields) -> Value {
        let mut patch = json!({});
        for _ in 0..=self.lots.below(2) {
            let (path, value) = self.field(fields);
            // A merge patch has no way into lists.
            if !path.contains("/0/") {
                set(&mut patch, path, value);
            }
        }
        if self.lots.one_in(10) {
            patch["metadata"]["resourceVersion"] = self.some_version();
        }
        patch
    }

    fn operations(&mut self, fields: Fields) -> Value {
        let operations = (0..=self.lots.below(2)).map(|_| {
            let (path, value) = self.field(fields);
            match self.lots.below(6) {
                0 => json!({"op": "remove", "path": path}),
                1 => json!({"op": "test", "path": path, "value": value}),
                2 | 3 => json!({"op": "replace", "path": path, "value": value}),
                _ => json!({"op": "add", "path": path, "value": value}),
            }
        });
        Value::Array(operations.collect())
    }

    fn status(&mut self, kind: &'static Kind, name: &str) {
        let one = format!("{}/{name}/status", kind.path);
        let mut patch = self.merge(kind.status);
        if self.lots.one_in(4) {
            let (path, value) = self.field(kind.fields);
            if !path.contains("/0/") {
                set(&mut patch, path, value);
            }
        }
        match self.lots.below(6) {
            0 => self.ask(Method::GET, &one, Form::Object, &Value::Null),
            1 => {
                let mut body = self.body(kind, name, true);
                body["status"] = patch["status"].clone();
                self.ask(Method::PUT, &one, Form::Object, &body);
            }
            2 => self.ask(Method::PATCH, &one, Form::StrategicPatch, &patch),
            _ => self.ask(Method::PATCH, &one, Form::MergePatch, &patch),
        }
    }

    fn scale(&mut self, one: &str) {
        let path = format!("{one}/scale");
        let name = one.rsplit('/').next().unwrap_or_default();
        let replicas = *self.lots.pick(&[0, 1, 3, -1]);
        match self.lots.below(3) {
            0 => self.ask(Method::GET, &path, Form::Object, &Value::Null),
            1 => {
                let body = json!({"metadata": {"name": name}, "spec": {"replicas": replicas}});
                self.ask(Method::PUT, &path, Form::Object, &body);
            }
            _ => self.ask(Method::PATCH, &path, Form::MergePatch, &json!({"spec": {"replicas": replicas}})),
        }
    }

    fn part_of_pod(&mut self, name: &str, one: &str) {
        let query = if self.lots.one_in(5) { "?dryRun=All" } else { "" };
        if self.lots.one_in(2) {
            let target = *self.lots.pick(&["n1", "n2", ""]);
            let body = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": target}});
            self.ask(Method::POST, &format!("{one}/binding{query}"), Form::Object, &body);
        } else {
            let body = json!({"metadata": {"name": name}});
            self.ask(Method::POST, &format!("{one}/eviction{query}"), Form::Object, &body);
        }
    }

    fn list(&mut self, kind: &Kind) {
        let of_mine = if kind.name == "Node" { "labelSelector=of%3D{ns}" } else { "labelSelector=" };
        let more = match self.lots.below(5) {
            0 if kind.name != "Node" => "&limit=1".to_owned(),
            1 => "&fieldSelector=metadata.name%3Da".to_owned(),
            2 => "&fieldSelector=spec.nodeName%3Dn1".to_owned(),
            3 if kind.name != "Node" => {
                format!("&limit=1&continue={{{}.continue}}", 1 + self.lots.below(self.asked.len()))
            }
            _ => String::new(),
        };
        self.ask_of_all(Method::GET, &format!("{}?{of_mine}{more}", kind.path));
    }

    fn delete(&mut self, kind: &Kind, name: &str) {
        let mut options = Map::new();
        if self.lots.one_in(4) {
            let policy = *self.lots.pick(&["Orphan", "Foreground", "Background", "Never"]);
            options.insert("propagationPolicy".to_owned(), json!(policy));
        }
        if self.lots.one_in(4) {
            options.insert("gracePeriodSeconds".to_owned(), json!(self.lots.pick(&[0, 5, -1])));
        }
        if self.lots.one_in(5) {
            let version = self.some_version();
            options.insert("preconditions".to_owned(), json!({"resourceVersion": version}));
        }
        if self.lots.one_in(8) {
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
        let body = if options.is_empty() { Value::Null } else { Value::Object(options) };
        self.ask(Method::DELETE, &format!("{}/{name}", kind.path), Form::Object, &body);
    }

    fn delete_collection(&mut self, kind: &Kind) {
        let selector = if kind.name == "Node" { "of%3D{ns}" } else { *self.lots.pick(&["x%3Dy", "x!%3Dy"]) };
        self.ask_of_all(Method::DELETE, &format!("{}?labelSelector={selector}", kind.path));
    }

    /// All that happened to a kind.
    fn watch(&mut self, kind: &'static Kind) {
        let last = if kind.name == "Node" { "{ns}-last" } else { "last" };
        let mut body: Value = serde_json::from_str(kind.base).unwrap();
        body["metadata"]["name"] = json!(last);
        body["apiVersion"] = json!(kind.api_version);
        body["kind"] = json!(kind.name);
        self.ask(Method::POST, kind.path, Form::Object, &body);
        let mine = if kind.name == "Node" { "&labelSelector=of%3D{ns}" } else { "" };
        let path = format!("{}?watch=true&resourceVersion={{1.rv}}{mine}", kind.path);
        let deed = Deed::Watch(Watched::Until(format!("{{{}.name}}", self.asked.len())));
        self.asked.push(Request { deed, ..Request::new(Method::GET, &path, Form::Object, String::new()) });
    }
}

/// Sets what is at a path, which is made.
fn set(body: &mut Value, path: &str, value: Value) {
    let mut at = body;
    let words: Vec<String> =
        path.split('/').skip(1).map(|word| word.replace("~1", "/").replace("~0", "~")).collect();
    for word in words {
        at = match word.parse::<usize>() {
            Ok(index) if at.is_array() => match at.get_mut(index) {
                Some(item) => item,
                None => return,
            },
            _ => {
                if !at.is_object() {
                    *at = json!({});
                }
                at.as_object_mut().unwrap().entry(word).or_insert(Value::Null)
            }
        };
    }
    *at = value;
}

/// Nor what is empty without them: the server keeps an empty map of a custom resource as it was applied, and drops it
/// when the object is written next, though by then nothing else may have changed.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|_, value| {
            let was_empty = is_empty(value);
            without_nulls(value);
            !value.is_null() && (was_empty || !is_empty(value))
        }),
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}
