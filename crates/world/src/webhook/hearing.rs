//! A request and what webhooks have said about it so far.
//!
//! The world writes under a lock and must not wait there. So a write that needs an answer it does not have leaves a
//! question and stops; whoever asked for the write gets the answer and tries again. The second time everything must
//! come out as it did the first: the time, and the lots that are drawn.

use jiff::Timestamp;

use super::review::Review;
use super::wire::{Said, Target};
use crate::clock::Lots;
use crate::json::Value;
use crate::rbac::User;

/// What a request waits for.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Webhook(Inquiry),
    /// For the account of a new namespace, which is made for it.
    Account,
}

/// What a webhook is to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Inquiry {
    pub(crate) hook: String,
    pub(crate) review: Review,
    /// Whom to ask, or why nobody can be.
    pub(crate) target: Result<Target, String>,
    pub(crate) timeout_secs: u64,
}

#[derive(Debug)]
pub(crate) struct Hearing {
    pub(crate) user: User,
    /// When the request came. It is then for as long as it takes.
    pub(crate) at: Option<Timestamp>,
    /// What the request draws its lots from, once it has had to wait.
    pub(crate) lots: Option<Lots>,
    /// Set once all have been asked about a request: what it does in turn is nothing to ask about.
    pub(crate) is_settled: bool,
    pub(crate) warnings: Vec<String>,
    question: Option<Question>,
    heard: Vec<(String, Value, Said)>,
    /// How often it has waited for an account.
    waits: u32,
}

/// How often a request waits for an account before it is refused.
const WAITS_MAX: u32 = 9;

impl Hearing {
    pub(crate) fn of(user: User) -> Self {
        Self {
            user,
            at: None,
            lots: None,
            is_settled: false,
            warnings: Vec::new(),
            question: None,
            heard: Vec::new(),
            waits: 0,
        }
    }

    /// Of one who makes accounts, too: they do not wait for each other, but look again.
    pub(crate) fn hurried(user: User) -> Self {
        Self { waits: WAITS_MAX, ..Self::of(user) }
    }

    /// In the name of nobody: what the world does to itself.
    pub(crate) fn none() -> Self {
        Self::of(User::default())
    }

    /// What a webhook has said about exactly this.
    pub(crate) fn said(&self, hook: &str, review: &Review) -> Option<&Said> {
        let same = |(of, request, _): &&(String, Value, Said)| of == hook && *request == review.request;
        self.heard.iter().find(same).map(|(_, _, said)| said)
    }

    pub(crate) fn ask(&mut self, question: Question) {
        self.question = Some(question);
    }

    pub(crate) fn take_question(&mut self) -> Option<Question> {
        self.question.take()
    }

    pub(crate) fn hear(&mut self, inquiry: Inquiry, said: Said) {
        self.heard.push((inquiry.hook, inquiry.review.request, said));
    }

    /// Whether it is worth while to wait for an account; then it does.
    pub(crate) fn waits(&mut self) -> bool {
        if self.waits == WAITS_MAX {
            return false;
        }
        self.waits += 1;
        self.question = Some(Question::Account);
        true
    }

    /// Begins again from the beginning.
    pub(crate) fn restart(&mut self) {
        self.is_settled = false;
        self.warnings.clear();
    }
}
