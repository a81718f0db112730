//! Trees are held to serde_json's, which do the same and copy everything.

use serde_json::Value as Plain;

use super::*;

/// Draws numbers; the same for the same seed.
struct Lots(u64);

impl Lots {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % count
    }

    fn name(&mut self) -> String {
        format!("f{}", self.below(40))
    }

    fn tree(&mut self, depth: usize) -> Plain {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Plain::Null,
            1 => Plain::Bool(self.below(2) == 0),
            2 => serde_json::json!(self.below(100)),
            3 => serde_json::json!(-2.5),
            4 => Plain::String(format!("text {} ü\n", self.below(9))),
            5 => (0..self.below(5)).map(|_| self.tree(depth - 1)).collect(),
            _ => (0..self.below(40)).map(|_| (self.name(), self.tree(depth - 1))).collect(),
        }
    }
}

/// Somewhere in both trees, the same place.
fn place<'a>(lots: &mut Lots, tree: &'a mut Value, plain: &'a mut Plain) -> (&'a mut Value, &'a mut Plain) {
    let count = plain.as_object().map_or_else(|| plain.as_array().map_or(0, Vec::len), serde_json::Map::len);
    if count == 0 || lots.below(3) == 0 {
        return (tree, plain);
    }
    let at = lots.below(count);
    match (tree, plain) {
        (Value::Object(fields), Plain::Object(plain)) => {
            let name = plain.keys().nth(at).unwrap().clone();
            place(lots, fields.get_mut(&name).unwrap(), plain.get_mut(&name).unwrap())
        }
        (Value::Array(items), Plain::Array(plain)) => place(lots, &mut items[at], &mut plain[at]),
        both => panic!("{both:?}"),
    }
}

fn change(lots: &mut Lots, tree: &mut Value, plain: &mut Plain) {
    let (tree, plain) = place(lots, tree, plain);
    let (name, new) = (lots.name(), lots.tree(2));
    match (tree, plain) {
        (Value::Object(fields), Plain::Object(plain)) => match lots.below(5) {
            0 => {
                let known = fields.remove(&name).map(|value| Plain::from(&value));
                assert_eq!(known, plain.remove(&name));
            }
            1 => {
                fields.retain(|name, _| name.ends_with('1'));
                plain.retain(|name, _| name.ends_with('1'));
            }
            2 => {
                fields.entry(&name).or_insert(new.clone().into());
                plain.entry(&name).or_insert(new);
            }
            _ => {
                let known = fields.insert(&name, new.clone().into()).map(|value| Plain::from(&value));
                assert_eq!(known, plain.insert(name, new));
            }
        },
        (Value::Array(items), Plain::Array(plain)) => {
            items.push(new.clone().into());
            plain.push(new);
        }
        (tree, plain) => {
            *tree = new.clone().into();
            *plain = new;
        }
    }
}

#[test]
fn trees_do_as_plain_ones_and_copies_stay_as_they_were() {
    for seed in 0..200 {
        let mut lots = Lots(seed);
        let mut plain = lots.tree(3);
        let mut tree = Value::from(plain.clone());
        for _ in 0..20 {
            let (before, plain_before) = (tree.clone(), plain.clone());
            change(&mut lots, &mut tree, &mut plain);
            assert_eq!(Plain::from(&tree), plain, "seed {seed}");
            assert_eq!(Plain::from(&before), plain_before, "seed {seed}");
            assert_eq!(tree == before, plain == plain_before, "seed {seed}");
            assert_eq!(tree.to_string(), plain.to_string(), "seed {seed}");
            assert_eq!(serde_json::from_str::<Value>(&plain.to_string()).unwrap(), tree, "seed {seed}");
            tree.fit();

            let mut read = Value::from(plain.clone());
            assert_eq!(read.reuse(&before), tree == before, "seed {seed}");
            assert_eq!(read, tree, "seed {seed}: what is shared stays the same");
        }
    }
}

#[test]
fn what_is_known_is_shared() {
    let known = json!({ "spec": { "a": [1, { "b": "c" }] }, "status": { "phase": "Pending" } });
    let mut new = json!({ "spec": { "a": [1, { "b": "c" }] }, "status": { "phase": "Running" } });
    assert!(!new.reuse(&known));
    assert!(new["spec"].is_one_with(&known["spec"]));
    assert!(!new["status"].is_one_with(&known["status"]));
    let mut same = json!({ "phase": "Pending" });
    assert!(same.reuse(&known["status"]) && same.is_one_with(&known["status"]));
    let mut changed = known.clone();
    changed["status"]["phase"] = json!("Failed");
    assert!(changed["spec"].is_one_with(&known["spec"]), "only the way to the change is copied");
}

#[test]
fn values_are_small() {
    assert_eq!(size_of::<Value>(), 16);
    assert_eq!(size_of::<(Text, Value)>(), 24);
}

#[test]
fn places_have_pointers() {
    let mut tree = json!({ "a": [{ "b/c": 1 }], "~": null, "": 2 });
    for (pointer, there) in [
        ("", Some(tree.clone())),
        ("/a/0/b~1c", Some(json!(1))),
        ("/~0", Some(json!(null))),
        ("/", Some(json!(2))),
        ("/a/00", None),
        ("/a/1", None),
        ("a", None),
        ("/a/0/b", None),
    ] {
        assert_eq!(tree.pointer(pointer).cloned(), there, "{pointer}");
        assert_eq!(tree.pointer_mut(pointer).cloned(), there, "{pointer}");
    }
    assert_eq!(tree["nowhere"]["at"][7], Value::Null);
    tree["x"]["y"] = json!(true);
    assert_eq!(tree["x"], json!({ "y": true }));
}
