//! The conditions under which a webhook is asked, in CEL.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as Cel};

use super::review::Review;
use crate::json::Value;
use crate::schema::rules::in_go;

/// Whether all hold. One that does not decides; only where none does, an error counts.
pub(super) fn hold<'a>(expressions: impl Iterator<Item = &'a str>, review: &Review) -> Result<bool, String> {
    let mut expressions = expressions.peekable();
    if expressions.peek().is_none() {
        return Ok(true);
    }
    let mut context = Context::default().with_all();
    let request = &review.request;
    for (name, value) in
        [("request", request), ("object", &request["object"]), ("oldObject", &request["oldObject"])]
    {
        context.add_variable_from_value(name, to_cel(value));
    }
    let mut wrong = Vec::new();
    for expression in expressions {
        let said = Program::compile(expression)
            .map_err(|error| format!("compilation error: {error}"))
            .and_then(|program| program.execute(&context).map_err(|error| in_go(&error)));
        match said {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => return Ok(false),
            Ok(_) => wrong.push(format!("expression '{expression}' resulted in error: no such overload")),
            Err(why) => wrong.push(format!("expression '{expression}' resulted in error: {why}")),
        }
    }
    match &wrong[..] {
        [] => Ok(true),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Without a schema: whole numbers are whole, texts are texts.
fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN)), Cel::Int)
        }
        Value::String(text) => Cel::String(Arc::new(text.to_string())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| (Key::String(Arc::new(key.to_string())), to_cel(value)));
            Cel::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
}
