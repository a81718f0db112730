//! What an answer says: `{error, code, message, data, pagination}`, or why there is nothing to be had from it.

use std::time::Duration;

use http::{HeaderMap, Response, header};
use serde_json::Value;

use super::error::{Breadth, Fault};
use crate::error::CatalogError;
use crate::field::Field;

/// What VPSie says when an account may have no more, and of what.
const QUOTA_WORDS: [(&str, Breadth); 6] = [
    ("exceeds the allowed limit", Breadth::Account),
    ("quota exceeded", Breadth::Account),
    ("maximum number of", Breadth::Account),
    ("limit reached", Breadth::Account),
    ("plan does not allow", Breadth::Size),
    ("subscription does not allow", Breadth::Size),
];

const SOLD_OUT_WORDS: [&str; 3] = ["out of stock", "no capacity", "not available"];

/// An answer that is no error.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Envelope(Value);

/// Which part of a list an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pagination {
    pub(super) total: u32,
    pub(super) page: u32,
    pub(super) pages: u32,
}

impl Envelope {
    pub(super) fn read(response: &Response<impl AsRef<[u8]>>) -> Result<Self, Fault> {
        let status = response.status().as_u16();
        let body = response.body().as_ref();
        if response.status().is_redirection() {
            return Err(Fault::Redirected { code: status });
        }
        let document = serde_json::from_slice::<Value>(body).ok();
        let retry_after = retry_after(response.headers());
        let Some(document) = document.filter(Value::is_object) else {
            return Err(match status {
                // A proxy's page about a path says nothing of what VPSie has.
                200..=299 | 404 => {
                    Fault::NotJson { bytes: body.len(), content_type: content_type(response.headers()) }
                }
                _ => fault(status, String::new(), retry_after),
            });
        };
        let is_error = match &document["error"] {
            Value::Bool(is_error) => *is_error,
            Value::String(words) => !words.is_empty(),
            _ => false,
        };
        let is_success = response.status().is_success();
        if is_success && !is_error {
            return Ok(Self(document));
        }
        let said = document["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let code = if is_success { said.unwrap_or(status) } else { status };
        Err(fault(code, message_of(&document), retry_after))
    }

    /// The whole answer.
    pub(super) fn document(&self) -> Field<'_, '_> {
        Field::root(&self.0)
    }

    /// Reads what it tells of one thing. Some installations tell it without an envelope.
    pub(super) fn read_one<T>(&self, read: impl FnOnce(&Field<'_, '_>) -> T) -> T {
        let document = self.document();
        if self.is_bare() { read(&document) } else { read(&document.get("data")) }
    }

    /// Whether what was asked for is done later: there is nothing yet to be told.
    pub(super) fn is_asynchronous(&self) -> bool {
        let says_nothing = self.0.get("data").is_none_or(|data| data.is_null() || data.is_boolean());
        says_nothing && !self.is_bare()
    }

    fn is_bare(&self) -> bool {
        self.0.get("data").is_none() && ["identifier", "id"].iter().any(|key| self.0.get(key).is_some())
    }

    /// A list without it is all there is. One that says it holds more than it does was cut.
    pub(super) fn pagination(&self) -> Result<Option<Pagination>, Fault> {
        let document = self.document();
        let field = document.get("pagination");
        if !field.is_present() {
            return Ok(None);
        }
        let number = |key: &'static str| field.get(key).count("a number").map_err(malformed);
        let data = document.get("data");
        let listed = data.items("a list").map_err(malformed)?.count();
        let said = number("count")?;
        if usize::try_from(said) != Ok(listed) {
            let problem = format!("pagination.count: is {said} where `data` has {listed} items");
            return Err(Fault::Malformed { problem });
        }
        let page = number("current_page")?;
        Ok(Some(Pagination { total: number("total")?, page, pages: number("total_pages")? }))
    }
}

/// Says where in the answer.
#[expect(clippy::needless_pass_by_value, reason = "it is for map_err")]
pub(super) fn malformed(error: CatalogError) -> Fault {
    Fault::Malformed { problem: error.to_string() }
}

fn fault(code: u16, message: String, retry_after: Option<Duration>) -> Fault {
    let lower = message.to_lowercase();
    let quota = QUOTA_WORDS.iter().find(|(words, _)| lower.contains(words));
    match code {
        401 => Fault::Unauthorized { message },
        429 => Fault::Throttled { retry_after },
        408 | 500.. => Fault::Failed { code, message },
        _ if let Some((_, breadth)) = quota => Fault::Quota { message, breadth: *breadth },
        404 => Fault::NotFound { message },
        _ if SOLD_OUT_WORDS.iter().any(|words| lower.contains(words)) => Fault::SoldOut { message },
        _ => Fault::Refused { code, message },
    }
}

fn message_of(document: &Value) -> String {
    let said = ["message", "error"].into_iter().find_map(|key| document[key].as_str());
    said.unwrap_or_default().to_owned()
}

/// In seconds, the only form that APIs use.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

fn content_type(headers: &HeaderMap) -> String {
    let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    said.unwrap_or("an unnamed type").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> String {
        let response =
            Response::builder().status(status).header("retry-after", "7").body(body.to_owned()).unwrap();
        match Envelope::read(&response) {
            Ok(envelope) => match envelope.pagination() {
                Ok(pagination) => format!("ok {} {pagination:?}", envelope.0["data"]),
                Err(fault) => fault.to_string(),
            },
            Err(fault) => format!("{fault:?}"),
        }
    }

    #[test]
    fn answers() {
        for (status, body, expected) in [
            (200, r#"{"error": false, "code": 200, "data": [1]}"#, "ok [1] None"),
            (200, r#"{"data": true}"#, "ok true None"),
            (
                200,
                r#"{"data": [1], "pagination": {"total": 3, "count": 1, "per_page": 1, "current_page": 2, "total_pages": 3}}"#,
                "ok [1] Some(Pagination { total: 3, page: 2, pages: 3 })",
            ),
            (
                200,
                r#"{"data": [1], "pagination": {"total": 3, "count": 2, "current_page": 2, "total_pages": 3}}"#,
                "the answer is not what it should be: pagination.count: is 2 where `data` has 1 items",
            ),
            (
                200,
                r#"{"data": [1], "pagination": {"total": "many", "count": 1, "current_page": 2, "total_pages": 3}}"#,
                "the answer is not what it should be: pagination.total: `many` is not a number",
            ),
            (
                200,
                r#"{"error": true, "code": 200, "message": "no"}"#,
                r#"Refused { code: 200, message: "no" }"#,
            ),
            (200, r#"{"error": true, "code": 404, "message": "no"}"#, r#"NotFound { message: "no" }"#),
            (200, r#"{"error": "broken"}"#, r#"Refused { code: 200, message: "broken" }"#),
            (200, "<html>", r#"NotJson { bytes: 6, content_type: "an unnamed type" }"#),
            (200, "[1]", r#"NotJson { bytes: 3, content_type: "an unnamed type" }"#),
            (404, "<html>", r#"NotJson { bytes: 6, content_type: "an unnamed type" }"#),
            (404, r#"{"message": "gone"}"#, r#"NotFound { message: "gone" }"#),
            (401, "", r#"Unauthorized { message: "" }"#),
            (429, "", "Throttled { retry_after: Some(7s) }"),
            (503, "<html>", r#"Failed { code: 503, message: "" }"#),
            (302, "", "Redirected { code: 302 }"),
            (
                400,
                r#"{"message": "Quota exceeded"}"#,
                r#"Quota { message: "Quota exceeded", breadth: Account }"#,
            ),
            (
                200,
                r#"{"error": true, "code": 400, "message": "your plan does not allow this"}"#,
                r#"Quota { message: "your plan does not allow this", breadth: Size }"#,
            ),
            (422, r#"{"message": "size is out of stock"}"#, r#"SoldOut { message: "size is out of stock" }"#),
            (500, r#"{"message": "quota exceeded"}"#, r#"Failed { code: 500, message: "quota exceeded" }"#),
        ] {
            assert_eq!(read(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn one_thing_is_told_with_an_envelope_or_without() {
        for (body, told, is_asynchronous) in [
            (r#"{"error": false, "data": {"id": 7}}"#, "7", false),
            (r#"{"id": 7, "status": "running"}"#, "7", false),
            (r#"{"identifier": "abc", "id": 7}"#, "7", false),
            (r#"{"data": true, "id": 7}"#, "", true),
            (r#"{"error": false, "data": null}"#, "", true),
            (r#"{"error": false}"#, "", true),
        ] {
            let response = Response::builder().status(200).body(body.to_owned()).unwrap();
            let envelope = Envelope::read(&response).unwrap();
            let id = envelope.read_one(|one| one.get("id").scalar("an id").unwrap_or_default());
            assert_eq!((id.as_str(), envelope.is_asynchronous()), (told, is_asynchronous), "{body}");
        }
    }

    /// What VPSie's own autoscaler knows it to say, in whatever case.
    #[test]
    fn quotas() {
        for (message, breadth) in [
            ("Number of nodes exceeds the allowed limit", Breadth::Account),
            ("QUOTA EXCEEDED", Breadth::Account),
            ("You have the maximum number of servers", Breadth::Account),
            ("Node limit reached", Breadth::Account),
            ("Your plan does not allow this size", Breadth::Size),
            ("The subscription does not allow it", Breadth::Size),
        ] {
            let fault = fault(400, message.to_owned(), None);
            assert!(
                matches!(fault, Fault::Quota { breadth: told, .. } if told == breadth),
                "{message}: {fault:?}"
            );
        }
    }
}
