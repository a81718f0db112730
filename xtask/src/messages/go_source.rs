//! Just enough of Go's grammar to read the declarations of types that Kubernetes keeps in one style.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::step::StepError;

/// The types of a package, and the group that it registers them in.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) group: String,
    pub(super) declarations: BTreeMap<String, Declaration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Declaration {
    Struct {
        fields: Vec<Field>,
        imports: BTreeMap<String, String>,
    },
    Named {
        type_: String,
        imports: BTreeMap<String, String>,
        is_alias: bool,
        /// On the wire it is a message of its own, with the list in it.
        is_message: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Zero for what is not on the wire.
    pub(super) number: u32,
    /// The name in JSON, with the table's signs.
    pub(super) name: String,
    pub(super) type_: String,
}

impl Package {
    pub(super) fn read(directory: &Path) -> Result<Self, StepError> {
        let said = |source| StepError::File { path: directory.display().to_string(), source };
        let mut package = Self::default();
        for entry in fs::read_dir(directory).map_err(said)? {
            let path = entry.map_err(said)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_generated = name.contains("generated") || name.ends_with("_test.go");
            if path.extension().is_some_and(|extension| extension == "go") && !is_generated {
                package.add(&fs::read_to_string(&path).map_err(said)?);
            }
        }
        Ok(package)
    }

    fn add(&mut self, text: &str) {
        let imports = imports(text);
        let mut is_message = false;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(group) = line.strip_prefix("const GroupName = ") {
                group.trim_matches('"').clone_into(&mut self.group);
            }
            if line.starts_with("//") {
                is_message |= line.contains("+protobuf.nullable=true");
                continue;
            }
            let declared = line.strip_prefix("type ").and_then(|rest| rest.split_once(' '));
            if let Some((name, type_)) = declared {
                let declaration = if type_ == "struct {" {
                    let body = lines.by_ref().take_while(|line| *line != "}");
                    Declaration::Struct {
                        fields: body.filter_map(Field::parse).collect(),
                        imports: imports.clone(),
                    }
                } else if type_ == "struct{}" {
                    Declaration::Struct { fields: Vec::new(), imports: imports.clone() }
                } else {
                    let type_ = type_.split("//").next().unwrap_or_default().trim();
                    let (is_alias, type_) = match type_.strip_prefix("= ") {
                        Some(of) => (true, of),
                        None => (false, type_),
                    };
                    let type_ = type_.to_owned();
                    Declaration::Named { type_, imports: imports.clone(), is_alias, is_message }
                };
                self.declarations.insert(name.to_owned(), declaration);
            }
            is_message = false;
        }
    }
}

impl Field {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with("//") {
            return None;
        }
        let (declared, tags) = line.split_once('`')?;
        let tags = tags.split('`').next()?;
        let tag = |name: &str| {
            let (_, rest) = tags.split_once(&format!("{name}:\""))?;
            rest.split('"').next()
        };
        let (json, options) = tag("json")?.split_once(',').unwrap_or((tag("json")?, ""));
        let words: Vec<&str> = declared.split_whitespace().collect();
        let (go_name, type_) = match words[..] {
            [embedded] => (embedded.rsplit('.').next()?, embedded),
            [name, type_] => (name, type_),
            _ => return None,
        };
        let has = |option: &str| options.split(',').any(|has| has == option);
        let name = match json {
            "-" => return None,
            "" if has("inline") => format!("+{go_name}"),
            name => {
                let empty = if has("omitempty") { "?" } else { "" };
                let zero = if has("omitzero") { "!" } else { "" };
                format!("{name}{empty}{zero}")
            }
        };
        let number = tag("protobuf").and_then(|tag| tag.split(',').nth(1)?.parse().ok());
        Some(Self { number: number.unwrap_or(0), name, type_: type_.to_owned() })
    }
}

/// Paths by the names that they are imported as.
fn imports(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().skip_while(|line| !line.starts_with("import")).take_while(|line| *line != ")");
    let quoted = lines.filter_map(|line| {
        let (before, rest) = line.split_once('"')?;
        let path = rest.split('"').next()?;
        let alias = before.trim_start_matches("import").trim();
        let alias = if alias.is_empty() { path.rsplit('/').next()? } else { alias };
        Some((alias.to_owned(), path.to_owned()))
    });
    quoted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_they_are_declared() {
        let mut package = Package::default();
        package.add(
            "package v1\n\nimport (\n\t\"k8s.io/a/intstr\"\n\tmetav1 \"k8s.io/m/meta/v1\"\n)\n\n\
             const GroupName = \"boats\"\n\n// A boat.\ntype Boat struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\
             \t// +optional\n\tmetav1.ObjectMeta `json:\"metadata,omitempty\" protobuf:\"bytes,1,opt,name=metadata\"`\n\
             \tLength *int32 `json:\"length\" protobuf:\"varint,2,opt,name=length\"` // in feet\n\thidden string\n\
             \tSkip string `json:\"-\"`\n}\n\n// +protobuf.nullable=true\n\ntype Flat []string\n\n\
             // +protobuf.nullable=true\ntype Crew []string\n\ntype Old = Crew // of old\n",
        );
        let imports: BTreeMap<String, String> =
            [("intstr", "k8s.io/a/intstr"), ("metav1", "k8s.io/m/meta/v1")]
                .map(|(alias, path)| (alias.to_owned(), path.to_owned()))
                .into();
        let field = |number, name: &str, type_: &str| Field {
            number,
            name: name.to_owned(),
            type_: type_.to_owned(),
        };
        let named = |type_: &str, is_alias, is_message| Declaration::Named {
            type_: type_.to_owned(),
            imports: imports.clone(),
            is_alias,
            is_message,
        };
        let fields = vec![
            field(0, "+TypeMeta", "metav1.TypeMeta"),
            field(1, "metadata?", "metav1.ObjectMeta"),
            field(2, "length", "*int32"),
        ];
        let expected = [
            ("Boat", Declaration::Struct { fields, imports: imports.clone() }),
            ("Crew", named("[]string", false, true)),
            ("Flat", named("[]string", false, false)),
            ("Old", named("Crew", true, false)),
        ];
        assert_eq!(package.group, "boats");
        assert_eq!(package.declarations, expected.map(|(name, is)| (name.to_owned(), is)).into());
    }
}
