//! Paths to fields as rules and selectable fields write them: `.spec.replicas`, `.data['a.b']`.

use super::Schema;
use super::said::{child, entry};

/// The field's path as failures write it, and its schema; or why there is no such field.
pub(crate) fn resolve<'a>(
    path: &str,
    schema: &'a Schema,
    brackets: bool,
) -> Result<(String, &'a Schema), String> {
    let mut field = String::new();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            let end = after.find(['.', '[', ']']).unwrap_or(after.len()).max(1);
            name = after.get(..end).unwrap_or(after).to_owned();
            rest = after.get(end..).unwrap_or_default();
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            (name, rest) = quoted(after)?;
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", rest.get(..end).unwrap_or(rest)));
        }
        (field, schema) = step(&field, schema, &name)?;
    }
    Ok((field, schema))
}

fn step<'a>(field: &str, schema: &'a Schema, name: &str) -> Result<(String, &'a Schema), String> {
    let missing = || "does not refer to a valid field".to_owned();
    if schema.properties.is_empty() {
        let each = schema.additional.each().ok_or_else(missing)?;
        Ok((entry(field, name), each))
    } else {
        let property = schema.properties.get(name).ok_or_else(missing)?;
        Ok((child(field, name), property))
    }
}

/// A name between quotes and its closing bracket, and what follows.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let Some(inner) = text.strip_prefix('\'') else {
        let end = text.find(['.', '[', ']']).unwrap_or(text.len());
        let found = text.get(..end).unwrap_or(text);
        return Err(match found {
            "" if text.is_empty() => "unexpected end of JSON path".to_owned(),
            _ => format!("expected single quoted string but got {found}"),
        });
    };
    let mut name = String::new();
    let mut letters = inner.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => {
                let rest = inner.get(at + 1..).unwrap_or_default();
                return match rest.strip_prefix(']') {
                    Some(rest) => Ok((name, rest)),
                    None if rest.is_empty() => Err("unexpected end of JSON path".to_owned()),
                    None => Err(format!("expected ] but got {rest}")),
                };
            }
            '\\' => match letters.next() {
                Some((_, 'n')) => name.push('\n'),
                Some((_, 'r')) => name.push('\r'),
                Some((_, 't')) => name.push('\t'),
                Some((_, other @ ('\'' | '\\'))) => name.push(other),
                Some((_, other)) => {
                    return Err(format!("invalid string literal: invalid escape char \\{other}"));
                }
                None => break,
            },
            letter => name.push(letter),
        }
    }
    Err(format!("expected single quoted string but got {text}"))
}
