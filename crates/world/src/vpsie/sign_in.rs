//! Tokens for those who know the secret, and for a time.

use std::collections::BTreeMap;

use axum::response::Response;
use jiff::SignedDuration;
use serde_json::json;

use super::answer::enveloped_error;
use super::{Asked, Vpsie};

impl Vpsie {
    pub(super) fn sign_in(&self, asked: &Asked) -> Response {
        let form: BTreeMap<_, _> = form_urlencoded::parse(&asked.body).collect();
        let is = |key: &str, expected: &str| form.get(key).is_some_and(|found| found == expected);
        let settings = self.settings();
        if !is("clientId", &settings.client_id) || !is("clientSecret", &settings.client_secret) {
            return enveloped_error(401, "the client is not known");
        }
        let lasts = SignedDuration::try_from(settings.tokens_last).unwrap_or(SignedDuration::MAX);
        let expires = self.now().checked_add(lasts).unwrap_or(jiff::Timestamp::MAX);
        let mut register = self.register();
        let token = format!("token-{}-{}", register.granted.len() + 1, settings.client_secret);
        register.granted.push(token.clone());
        register.tokens.insert(token.clone(), expires);
        let grant = json!({ "token": token, "expires": expires.to_string() });
        let answer = json!({ "accessToken": grant, "refreshToken": grant, "error": false, "code": 200, "message": "" });
        Response::new(answer.to_string().into())
    }

    pub(super) fn is_signed_in(&self, asked: &Asked) -> bool {
        let Some(bearer) = &asked.bearer else { return false };
        let lasts = self.register().tokens.get(bearer).is_some_and(|expires| self.now() < *expires);
        lasts || **bearer == *self.settings().token
    }

    /// All tokens that were signed in for end now, whatever they were told.
    pub fn expire_tokens(&self) {
        self.register().tokens.clear();
    }
}
