//! Expressions that say when a webhook is asked.

use std::collections::BTreeMap;

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::Expr;

use super::demands::in_margin;
use super::typed::{self, Kind};

/// What an API server has, and this does not: who uses it is refused at once, and not at each request.
const ABSENT: &str = "authorizer";

/// What is wrong with an expression, in the server's words.
pub(crate) fn check_condition(source: &str) -> Result<(), String> {
    let failed = |why: String| format!("compilation failed: {}", in_margin(&why));
    let program = Program::compile(source).map_err(|error| failed(error.to_string()))?;
    if program.references().has_variable(ABSENT) {
        return Err(failed(format!("undeclared reference to '{ABSENT}'")));
    }
    let unseen = ["object", "oldObject"].map(|name| (name.to_owned(), Kind::Any));
    let variables = unseen.into_iter().chain([("request".to_owned(), request())]).collect();
    let kind = typed::outcome_with(source, program.expression(), variables).map_err(failed)?;
    // Of what is only taken out of an object nobody knows what it is; of what a function makes, we may not.
    let is_taken_out = matches!(&program.expression().expr, Expr::Ident(_) | Expr::Select(_));
    match kind {
        Kind::Bool => Ok(()),
        Kind::Any if !is_taken_out => Ok(()),
        other => Err(format!("must evaluate to bool but got {}", other.named())),
    }
}

/// What is told of the request itself.
fn request() -> Kind {
    let texts = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Kind::Text)).collect();
    let kind = Kind::Object(texts(&["group", "version", "kind"]));
    let resource = Kind::Object(texts(&["group", "version", "resource"]));
    let list = || Kind::List(Box::new(Kind::Text));
    let mut user: BTreeMap<String, Kind> = texts(&["username", "uid"]);
    user.insert("groups".to_owned(), list());
    user.insert("extra".to_owned(), Kind::Map(Box::new(list())));
    let mut fields: BTreeMap<String, Kind> =
        texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    for (name, of) in [
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("userInfo", Kind::Object(user)),
        ("dryRun", Kind::Bool),
        ("options", Kind::Any),
    ] {
        fields.insert(name.to_owned(), of);
    }
    Kind::Object(fields)
}
