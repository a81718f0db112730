//! Takes away from a case whatever is not needed for it to stay interesting.

use serde_json::Value;

/// Tries to leave out every object, field and element, largest first, until nothing more can go.
pub(crate) fn reduce(
    mut objects: Vec<Value>,
    is_interesting: &mut dyn FnMut(&[Value]) -> bool,
) -> Vec<Value> {
    loop {
        let before = objects.len();
        let mut index = 0;
        while index < objects.len() {
            let mut fewer = objects.clone();
            fewer.remove(index);
            if is_interesting(&fewer) {
                objects = fewer;
            } else {
                index += 1;
            }
        }
        let mut smaller = false;
        for index in 0..objects.len() {
            smaller |= reduce_object(&mut objects, index, is_interesting);
        }
        if objects.len() == before && !smaller {
            return objects;
        }
    }
}

fn reduce_object(
    objects: &mut [Value],
    index: usize,
    is_interesting: &mut dyn FnMut(&[Value]) -> bool,
) -> bool {
    let mut smaller = false;
    let mut position = 0;
    loop {
        let paths = paths(&objects[index]);
        let Some(path) = paths.get(position) else { return smaller };
        let whole = objects[index].clone();
        remove(&mut objects[index], path);
        if is_interesting(objects) {
            smaller = true;
        } else {
            objects[index] = whole;
            position += 1;
        }
    }
}

/// A field or an element, from the outside in.
#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

/// Everything that can be left out, outer parts before inner ones.
fn paths(value: &Value) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::new(), value)];
    while let Some((path, value)) = open.pop() {
        let children: Vec<(Step, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (Step::Key(key.clone()), value)).collect(),
            Value::Array(list) => {
                list.iter().enumerate().map(|(index, value)| (Step::Index(index), value)).collect()
            }
            _ => Vec::new(),
        };
        for (step, child) in children {
            let path: Vec<Step> = path.iter().cloned().chain([step]).collect();
            found.push(path.clone());
            open.push((path, child));
        }
    }
    found.sort_by_key(Vec::len);
    found
}

fn remove(value: &mut Value, path: &[Step]) {
    match (path, value) {
        ([Step::Key(key)], Value::Object(map)) => {
            map.remove(key);
        }
        ([Step::Index(index)], Value::Array(list)) => {
            list.remove(*index);
        }
        ([Step::Key(key), rest @ ..], Value::Object(map)) => {
            if let Some(inner) = map.get_mut(key) {
                remove(inner, rest);
            }
        }
        ([Step::Index(index), rest @ ..], Value::Array(list)) => {
            if let Some(inner) = list.get_mut(*index) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}
