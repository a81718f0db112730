//! How much of a store's room an object takes.

use crate::json::Value;

/// What etcd takes in one request, unless it is told otherwise.
const BYTES_MAX: usize = 3 << 19;

/// Whether an object is more than etcd would take.
pub(crate) fn is_too_large(object: &Value) -> bool {
    bytes(object) > BYTES_MAX
}

/// As JSON, but without the escapes in texts, which are not kept. Of built-in kinds etcd is told less, since it is not
/// told the names of their fields: too little to matter in an object that is as large as this.
fn bytes(value: &Value) -> usize {
    const WORD: usize = 4;
    const QUOTES: usize = 2;
    const MARK: usize = 1;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => WORD,
        Value::String(text) => text.len() + QUOTES,
        Value::Array(items) => items.iter().map(|item| bytes(item) + MARK).sum::<usize>() + MARK,
        Value::Object(fields) => {
            let each = fields.iter().map(|(name, value)| name.len() + QUOTES + MARK + bytes(value) + MARK);
            each.sum::<usize>() + MARK
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ask::{answer, ask, world};
    use crate::json::json;

    const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

    #[test]
    fn an_object_weighs_what_its_json_does_without_escapes() {
        let (large, lines) = ("x".repeat(1_000_000), "\n".repeat(1_000_000));
        for (object, expected) in [
            (json!({}), 2),
            (json!({"a": {}, "b": ["c", true], "d": "e"}), 32),
            (json!({"metadata": {"annotations": {"a": large}}}), 1_000_035),
            (json!({"a": lines}), 1_000_008),
        ] {
            let weight = bytes(&object);
            assert!(weight.abs_diff(expected) < 10, "{weight}, not {expected}");
        }
    }

    #[tokio::test]
    async fn what_etcd_would_not_take_is_refused_in_its_words() {
        let world = world();
        let revision = |name: &str, bytes: usize| {
            let data = json!({"text": "x".repeat(bytes)});
            json!({"metadata": {"name": name}, "revision": 1, "data": data})
        };
        let too_large = |code: u16| match code {
            500 => "etcdserver: request is too large",
            413 => "Request entity too large: limit is 3145728",
            _ => "",
        };
        let dry = format!("{REVISIONS}?dryRun=All");
        for (path, name, bytes, expected) in [
            (REVISIONS, "a", 1_500_000, 201),
            (REVISIONS, "b", 1_600_000, 500),
            // What is not written, nobody has to hold.
            (&*dry, "b", 1_600_000, 201),
            (REVISIONS, "b", 3_200_000, 413),
        ] {
            let (code, told) = ask(&world, "POST", path, revision(name, bytes)).await;
            let message = told["message"].as_str().unwrap_or_default();
            assert_eq!((code, message), (expected, too_large(expected)), "{bytes}");
        }
        assert_eq!(ask(&world, "GET", &format!("{REVISIONS}/b"), Value::Null).await.0, 404);
        // However little each change adds.
        let one = format!("{REVISIONS}/a");
        let (code, told) = ask(&world, "PATCH", &one, json!({"data": {"more": "x".repeat(100_000)}})).await;
        assert_eq!((code, &told["reason"]), (500, &Value::Null));
        let json_patch = [("content-type", "application/json-patch+json")];
        let copy = json!([{"op": "copy", "from": "/data/text", "path": "/data/more"}]);
        assert_eq!(answer(&world, "PATCH", &one, &json_patch, &copy).await.status(), 500);
        assert_eq!(ask(&world, "GET", &one, Value::Null).await.1["data"]["more"], Value::Null);
    }
}
