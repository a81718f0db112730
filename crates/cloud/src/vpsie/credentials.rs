//! Who Berth is at VPSie, from the data of a Secret.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_core::names::Text;
use http::Uri;

const TOKEN: &str = "token";
const CLIENT_ID: &str = "clientId";
const CLIENT_SECRET: &str = "clientSecret";
const URL: &str = "url";
const CLUSTER: &str = "resourceIdentifier";
const DATACENTER: &str = "datacenterId";
const PROJECT: &str = "projectId";

const URL_DEFAULT: &str = "https://api.vpsie.com/v2";
const REDACTED: &str = "[redacted]";

/// Shorter ones are not looked for in texts: they are parts of words.
const SECRET_LENGTH_MIN: usize = 4;

/// A text that nobody may read by accident: it is not shown, and only the client can take it out.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(Arc<str>);

impl Secret {
    pub(super) fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The text without this secret, should somebody have put it there: as it is, or as forms have it.
    pub(super) fn scrub(&self, text: &str) -> String {
        if self.0.len() < SECRET_LENGTH_MIN {
            return text.to_owned();
        }
        let in_forms: String = form_urlencoded::byte_serialize(self.0.as_bytes()).collect();
        text.replace(&*self.0, REDACTED).replace(&in_forms, REDACTED)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// How a request proves whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Sent as it is, with every request.
    Token(Secret),
    /// Exchanged for a token that expires.
    Pair { id: Secret, secret: Secret },
}

/// A way into an account, and what else the Secret says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub(super) key: Key,
    pub(super) base: BaseUrl,
    pub cluster: Option<Text>,
    pub datacenter: Option<Text>,
    pub project: Option<Text>,
}

/// What is wrong with a Secret. It never says what is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error(
        "the Secret has neither `token` nor `{missing}`; write `token`, or `clientId` and `clientSecret`"
    )]
    Missing { missing: &'static str },
    #[error("`{key}` of the Secret is not text of visible ASCII characters")]
    Unreadable { key: &'static str },
    #[error("`{key}` of the Secret is no address of the API: {problem}")]
    Address { key: &'static str, problem: &'static str },
}

impl Credentials {
    /// A value that is empty counts as missing: charts write one for everything that is not set.
    pub fn read(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, CredentialsError> {
        let part = |missing| {
            let found = word(data, missing)?;
            Ok::<_, CredentialsError>(Secret::new(found.ok_or(CredentialsError::Missing { missing })?))
        };
        let key = if let Some(token) = word(data, TOKEN)? {
            Key::Token(Secret::new(token))
        } else {
            Key::Pair { id: part(CLIENT_ID)?, secret: part(CLIENT_SECRET)? }
        };
        let optional = |key| Ok::<_, CredentialsError>(word(data, key)?.map(Text::from));
        Ok(Self {
            key,
            base: BaseUrl::parse(word(data, URL)?.unwrap_or(URL_DEFAULT))?,
            cluster: optional(CLUSTER)?,
            datacenter: optional(DATACENTER)?,
            project: optional(PROJECT)?,
        })
    }

    /// The text without what must not be seen: a server may repeat in its answer what it was sent.
    pub(super) fn scrub(&self, text: &str) -> String {
        match &self.key {
            Key::Token(token) => token.scrub(text),
            Key::Pair { id, secret } => secret.scrub(&id.scrub(text)),
        }
    }
}

/// Visible ASCII, as headers and forms take it. Files that became Secrets often end with a newline.
fn word<'d>(
    data: &'d BTreeMap<String, Vec<u8>>,
    key: &'static str,
) -> Result<Option<&'d str>, CredentialsError> {
    let Some(bytes) = data.get(key) else { return Ok(None) };
    let text = str::from_utf8(bytes).map_err(|_| CredentialsError::Unreadable { key })?.trim();
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CredentialsError::Unreadable { key });
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Where the API is: https, a host, and what all paths begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseUrl(Text);

impl BaseUrl {
    fn parse(text: &str) -> Result<Self, CredentialsError> {
        let refuse = |problem| Err(CredentialsError::Address { key: URL, problem });
        let Ok(uri) = text.parse::<Uri>() else { return refuse("it is not a URL") };
        if uri.scheme_str() != Some("https") {
            return refuse("it must begin with https://, since credentials go there");
        }
        if uri.query().is_some() {
            return refuse("it must not have a query");
        }
        match uri.authority() {
            None => refuse("it names no host"),
            Some(authority) if authority.as_str().contains('@') => {
                refuse("it must not hold a user or a password")
            }
            Some(_) => Ok(Self(text.trim_end_matches('/').into())),
        }
    }

    /// The whole address of a path, which is encoded and begins with a slash.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Credentials, String> {
        let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        Credentials::read(&data).map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_become_credentials() {
        let pair = [("clientId", "me"), ("clientSecret", "s3cret")];
        for (data, is_token, base) in [
            (vec![("token", "abc\n")], true, "https://api.vpsie.com/v2/vm"),
            (vec![("token", "abc"), pair[0], pair[1]], true, "https://api.vpsie.com/v2/vm"),
            (vec![("token", ""), pair[0], pair[1]], false, "https://api.vpsie.com/v2/vm"),
            (
                vec![pair[0], pair[1], ("url", "https://cloud.internal:8443/x/")],
                false,
                "https://cloud.internal:8443/x/vm",
            ),
        ] {
            let credentials = read(&data).unwrap();
            assert_eq!(matches!(credentials.key, Key::Token(_)), is_token, "{data:?}");
            assert_eq!(credentials.base.at("/vm"), base);
        }
        let more =
            [("token", "abc"), ("resourceIdentifier", "c-1"), ("datacenterId", "dc"), ("projectId", "7")];
        let credentials = read(&more).unwrap();
        let named = [credentials.cluster, credentials.datacenter, credentials.project];
        assert_eq!(named.map(|name| name.unwrap().to_string()), ["c-1", "dc", "7"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (data, expected) in [
            (vec![], "the Secret has neither `token` nor `clientId`"),
            (vec![("clientSecret", "x")], "the Secret has neither `token` nor `clientId`"),
            (vec![("clientId", "x")], "the Secret has neither `token` nor `clientSecret`"),
            (vec![("token", "a b")], "`token` of the Secret is not text"),
            (vec![("token", "é")], "`token` of the Secret is not text"),
            (vec![("token", "t"), ("projectId", "a\nb")], "`projectId` of the Secret is not text"),
            (
                vec![("token", "t"), ("url", "http://api.vpsie.com/v2")],
                "`url` of the Secret is no address of the API: it must begin with https://",
            ),
            (vec![("token", "t"), ("url", "/v2")], "`url` of the Secret is no address"),
            (
                vec![("token", "t"), ("url", "https://me:pw@host/v2")],
                "`url` of the Secret is no address of the API: it must not hold a user",
            ),
            (
                vec![("token", "t"), ("url", "https://host/v2?x=1")],
                "`url` of the Secret is no address of the API: it must not have a query",
            ),
        ] {
            let error = read(&data).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n  not {expected}");
            assert!(!error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let token = read(&[("token", "canary")]).unwrap();
        let pair = read(&[("clientId", "canary-id"), ("clientSecret", "canary")]).unwrap();
        for credentials in [token, pair] {
            assert!(!format!("{credentials:?}").contains("canary"));
            assert_eq!(credentials.scrub("no canary here"), "no [redacted] here");
        }
        let odd = read(&[("clientId", "id"), ("clientSecret", "canary+&")]).unwrap();
        assert_eq!(odd.scrub("secret=canary%2B%26 is canary+&"), "secret=[redacted] is [redacted]");
    }
}
