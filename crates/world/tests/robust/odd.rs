//! What is done to a request to make it odd.

use serde_json::{Map, Value, json};

use crate::draw::Lots;
use crate::sent::Sent;

/// What all requests are made of.
pub(crate) struct Pool {
    segments: Vec<String>,
    values: Vec<Value>,
    keys: Vec<String>,
}

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"];

const SEGMENTS: [&str; 13] =
    ["watch", "%", "%zz", "%ff", "%00", "..", ".", "%2F", "a%20b", "*", "status", "scale", "%F0%9F%9A%A2"];

const KEYS: [&str; 18] = [
    "watch",
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "includeObject",
    "orphanDependents",
];

const ARGUMENTS: [&str; 36] = [
    "",
    "0",
    "1",
    "true",
    "false",
    "-1",
    "2",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e9",
    "%ff%fe",
    "%00",
    "a",
    "a%3Db",
    "a%20in%20(",
    "a%20in%20(b,c)",
    "!a",
    "a!=b,c%3Dd,!e",
    "a%3D%3D",
    "a%3Eb",
    "a%3E1",
    ",,",
    "metadata.name%3Da",
    "spec.nodeName!=a",
    "status.phase%3DRunning",
    "metadata.name",
    "All",
    "Exact",
    "NotOlderThan",
    "Orphan",
    "Strict",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0",
];

const HEADERS: [&str; 8] = [
    "accept",
    "content-type",
    "impersonate-user",
    "impersonate-group",
    "impersonate-uid",
    "impersonate-extra-scopes",
    "authorization",
    "user-agent",
];

const HEADER_VALUES: [&str; 27] = [
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/cbor",
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "*/*",
    "text/plain",
    ";;;=",
    "",
    "eve",
    "admin",
    "system:anonymous",
    "system:serviceaccount:default:default",
    "system:serviceaccount:",
    "Bearer x",
];

const TEXTS: [&str; 50] = [
    "",
    " ",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "a\u{301}\u{1F6A2}",
    "A",
    "a.b/c",
    "/",
    "//",
    "-",
    "*",
    "~1",
    "~0~",
    "$patch",
    "0",
    "-0",
    "1",
    "-1",
    "0.1",
    "1e9",
    "1e-9",
    "1e400",
    "99999999999999999999999E",
    "1Ki",
    "-1n",
    "100%",
    "101%",
    "-5%",
    "9223372036854775807",
    "0s",
    "1h",
    "-1h",
    "9999999h",
    "1m0.0000000001s",
    "2026-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "2026-01-01T00:00:00+99:99",
    "* * * * *",
    "*/0 * * * *",
    "59 23 31 2 *",
    "@every 1s",
    "@hourly",
    "TZ=UTC * * * * *",
    "Always",
    "Never",
    "NoExecute",
    "kubernetes.io/hostname",
    "self.a.b < 1",
];

/// Numbers as they are written, some of which no type holds.
const NUMBERS: [&str; 22] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "10",
    "100",
    "101",
    "65535",
    "65536",
    "2147483647",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.5",
    "1e3",
    "1e400",
    "123456789012345678901234567890",
];

/// Stands in a body for a number that is put there once it is text.
const NUMBER: &str = "@number@";

const DEPTH: usize = 2_000;

impl Pool {
    pub(crate) fn of<'a>(all: impl Iterator<Item = &'a Sent>) -> Self {
        let mut pool = Self { segments: Vec::new(), values: Vec::new(), keys: Vec::new() };
        for sent in all {
            let path = sent.path.split('?').next().unwrap_or_default();
            pool.segments.extend(path.split('/').filter(|word| !word.is_empty()).map(str::to_owned));
            if let Ok(body) = serde_json::from_slice(&sent.body) {
                pool.take(&body);
            }
        }
        for words in [&mut pool.segments, &mut pool.keys] {
            words.sort();
            words.dedup();
        }
        pool
    }

    fn take(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.keys.extend(fields.keys().cloned());
                fields.values().for_each(|value| self.take(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.take(item)),
            _ => {}
        }
        if !self.values.contains(value) {
            self.values.push(value.clone());
        }
    }

    /// Does something to a request.
    pub(crate) fn mutate(&self, sent: &mut Sent, lots: &mut Lots) {
        match lots.below(16) {
            0 => sent.method = (*lots.pick(&METHODS)).to_owned(),
            1 => self.path(sent, lots),
            2 | 3 => query(sent, lots),
            4 | 5 => {
                let value = odd_bytes(lots.pick::<&str>(&HEADER_VALUES).as_bytes(), lots, 8);
                sent.set_header(lots.pick::<&str>(&HEADERS), &value);
            }
            6 => sent.body = odd_bytes(&sent.body, lots, 1),
            _ => self.body(sent, lots),
        }
    }

    fn path(&self, sent: &mut Sent, lots: &mut Lots) {
        let (path, query) = sent.path.split_once('?').unwrap_or((&sent.path, ""));
        let mut words: Vec<String> = path.split('/').skip(1).map(str::to_owned).collect();
        let at = lots.below(words.len());
        let word = match lots.below(3) {
            0 => (*lots.pick(&SEGMENTS)).to_owned(),
            1 => "x".repeat(300),
            _ => lots.pick(&self.segments).clone(),
        };
        match lots.below(4) {
            0 => words.insert(at, word),
            1 if !words.is_empty() => drop(words.remove(at)),
            2 => words.push(word),
            _ => words.get_mut(at).into_iter().for_each(|known| known.clone_from(&word)),
        }
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        sent.path = format!("/{}{query}", words.join("/"));
    }

    /// A value in it is another, is gone, or is somewhere else.
    fn body(&self, sent: &mut Sent, lots: &mut Lots) {
        let Ok(mut body) = serde_json::from_slice::<Value>(&sent.body) else {
            sent.body = odd_bytes(&sent.body, lots, 1);
            return;
        };
        let count = count(&body);
        let number = *lots.pick(&NUMBERS);
        let chosen = lots.below(count);
        if let Some(value) = nth(&mut body, &mut chosen.clone()) {
            match lots.below(8) {
                0 => *value = lots.pick(&self.values).clone(),
                1 => *value = Value::Null,
                2 => *value = json!(NUMBER),
                3 => *value = odd_value(lots),
                4 => self.field(value, lots),
                _ => self.of_its_type(value, lots),
            }
        }
        let text = body.to_string().replace(&format!("\"{NUMBER}\""), number);
        sent.body = text.into_bytes();
    }

    /// Another value of the same type: what is refused for its type gets nowhere.
    fn of_its_type(&self, value: &mut Value, lots: &mut Lots) {
        match value {
            Value::Bool(truth) => *truth = !*truth,
            Value::Number(_) => *value = json!(NUMBER),
            Value::String(_) if lots.one_in(2) => *value = json!(lots.pick(&TEXTS)),
            Value::String(text) => {
                let texts: Vec<&str> = self.values.iter().filter_map(Value::as_str).collect();
                (*lots.pick(&texts)).clone_into(text);
            }
            Value::Array(items) => match lots.below(3) {
                0 => items.clear(),
                1 => items.extend(items.clone()),
                _ => items.reverse(),
            },
            Value::Object(_) => self.field(value, lots),
            Value::Null => *value = odd_value(lots),
        }
    }

    /// A field more, or fewer.
    fn field(&self, value: &mut Value, lots: &mut Lots) {
        let Value::Object(fields) = value else {
            *value = json!([value]);
            return;
        };
        if lots.one_in(2) {
            let keys: Vec<String> = fields.keys().cloned().collect();
            if !keys.is_empty() {
                fields.remove(lots.pick(&keys));
            }
            return;
        }
        let key =
            if lots.one_in(4) { (*lots.pick(&TEXTS)).to_owned() } else { lots.pick(&self.keys).clone() };
        fields.insert(key, lots.pick(&self.values).clone());
    }
}

fn query(sent: &mut Sent, lots: &mut Lots) {
    let mark = if sent.path.contains('?') { '&' } else { '?' };
    let (key, argument) = (lots.pick(&KEYS), lots.pick(&ARGUMENTS));
    sent.path = format!("{}{mark}{key}={argument}", sent.path);
}

fn odd_value(lots: &mut Lots) -> Value {
    match lots.below(8) {
        0 => json!(true),
        1 => json!({}),
        2 => json!([]),
        3 => json!(lots.pick(&TEXTS)),
        4 => json!("x".repeat(1 << lots.below(18))),
        5 => json!([NUMBER, null, {}, []]),
        6 => {
            let fields = (0..200).map(|number| (format!("k{number}"), json!(number)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => (0..100)
            .fold(json!(1), |inner, depth| if depth % 2 == 0 { json!([inner]) } else { json!({"a": inner}) }),
    }
}

/// Other bytes: some are changed, more, fewer, or in the wrong place. In one of `of` they stay as they are.
fn odd_bytes(bytes: &[u8], lots: &mut Lots, of: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if of > 1 && !lots.one_in(of) {
        return bytes;
    }
    let at = lots.below(bytes.len());
    let end = (at + lots.below(16)).min(bytes.len());
    match lots.below(6) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let again = bytes.get(at..end).unwrap_or_default().to_vec();
            bytes.splice(at..at, again);
        }
        3 => drop(bytes.splice(at..at, "[".repeat(DEPTH).into_bytes())),
        4 => drop(bytes.splice(at..at, [0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80])),
        _ => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << lots.below(8)),
    }
    bytes
}

/// How many values there are in one, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

fn nth<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Object(fields) => fields.values_mut().find_map(|value| nth(value, left)),
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        _ => None,
    }
}
