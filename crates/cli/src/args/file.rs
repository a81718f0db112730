//! The settings of `berth run` from a file: its keys are the flags' names, and its values are read as theirs are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{Command, CommandLine};

/// Why there is nothing to do what was said with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("{0}")]
    Line(clap::Error),
    #[error("cannot read {}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("{}:{line}: {message}", path.display())]
    Text { path: PathBuf, line: u64, message: String },
}

/// Reads the command line and the environment; and what they leave open, from the file that they name.
pub(crate) fn parse(line: impl IntoIterator<Item = OsString>) -> Result<CommandLine, Unusable> {
    let line: Vec<OsString> = line.into_iter().collect();
    let said = CommandLine::try_parse_from(&line).map_err(Unusable::Line)?;
    let Command::Run(run) = &said.command else { return Ok(said) };
    let Some(path) = &run.config else { return Ok(said) };
    let settings = read(path)?;
    // What a file says is only another default: flags and the environment come first.
    let command = CommandLine::command().mut_subcommand("run", |run| {
        run.mut_args(|arg| match names(&arg).into_iter().find_map(|name| settings.get(name)) {
            Some(values) => arg.default_values(values.clone()),
            None => arg,
        })
    });
    let matches = command.try_get_matches_from(&line).map_err(Unusable::Line)?;
    CommandLine::from_arg_matches(&matches).map_err(Unusable::Line)
}

/// What a flag is called. Some have two names, of which a file may have either.
fn names(arg: &clap::Arg) -> Vec<&str> {
    arg.get_long_and_visible_aliases().unwrap_or_default()
}

/// The values of each key, all of them good.
fn read(path: &Path) -> Result<BTreeMap<String, Vec<String>>, Unusable> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Unusable::File { path: path.to_owned(), error })?;
    let wrong = |line: u64, message: String| Unusable::Text { path: path.to_owned(), line, message };
    let settings: Settings = serde_saphyr::from_str(&text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        wrong(line, error.to_string().lines().next().unwrap_or_default().to_owned())
    })?;
    let command = CommandLine::command();
    let same_as = |key: &str| -> Vec<String> {
        let run = command.find_subcommand("run").into_iter();
        let flag = run.flat_map(clap::Command::get_arguments).map(names).find(|names| names.contains(&key));
        flag.into_iter().flatten().map(str::to_owned).collect()
    };
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Setting { key, line, values } in settings.0 {
        if let Some(message) = problem(&key, &values) {
            return Err(wrong(line, format!("{key}: {message}")));
        }
        if let Some(other) = same_as(&key).into_iter().find(|name| known.contains_key(name)) {
            let as_what = if other == key { String::new() } else { format!(", the first time as {other}") };
            return Err(wrong(line, format!("{key}: it is set twice{as_what}")));
        }
        known.insert(key, values);
    }
    Ok(known)
}

/// What is wrong with a setting: what would be wrong with the flag.
fn problem(key: &str, values: &[String]) -> Option<String> {
    if ["config", "help"].contains(&key) {
        return Some("this cannot be set in a file".to_owned());
    }
    let flags = values.iter().map(|value| format!("--{key}={value}"));
    let line = ["berth".to_owned(), "run".to_owned()].into_iter().chain(flags);
    let error = CommandLine::try_parse_from(line).err()?;
    if error.kind() != ErrorKind::UnknownArgument {
        let text = error.render().to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        return Some(first.trim_start_matches("error: ").replace('\n', " "));
    }
    let near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => Some(flag.trim_start_matches("--").to_owned()),
        Some(ContextValue::Strings(flags)) => {
            flags.first().map(|flag| flag.trim_start_matches("--").to_owned())
        }
        _ => None,
    };
    Some(match near {
        Some(near) => format!("there is no such setting; did you mean {near}?"),
        None => "there is no such setting; `berth run --help` lists them, without the dashes".to_owned(),
    })
}

struct Setting {
    key: String,
    line: u64,
    values: Vec<String>,
}

/// In the order of the file.
struct Settings(Vec<Setting>);

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;
        impl<'de> Visitor<'de> for OfMap {
            type Value = Settings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings, such as `metrics-port: 8080`")
            }

            fn visit_unit<E: Error>(self) -> Result<Settings, E> {
                Ok(Settings(Vec::new()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Settings, A::Error> {
                let mut settings = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    let Values(values) = map.next_value()?;
                    settings.push(Setting { line: key.referenced.line(), key: key.value, values });
                }
                Ok(Settings(settings))
            }
        }
        deserializer.deserialize_any(OfMap)
    }
}

/// One value, or a list of them, as text.
struct Values(Vec<String>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfAny;
        impl<'de> Visitor<'de> for OfAny {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or a list of values")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Values, E> {
                Ok(Values(vec![value.to_string()]))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Values, E> {
                Ok(Values(vec![value.to_string()]))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Values, E> {
                Ok(Values(vec![value.to_string()]))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Values, E> {
                Ok(Values(vec![value.to_string()]))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Values, E> {
                Ok(Values(vec![value.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
                let mut all = Vec::new();
                while let Some(Values(values)) = list.next_element()? {
                    all.extend(values);
                }
                Ok(Values(all))
            }
        }
        deserializer.deserialize_any(OfAny)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that names a file with this text.
    fn parsed(text: &str, line: &str) -> Result<Box<super::super::Run>, String> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("berth-config-{}-{number}", std::process::id()));
        std::fs::write(&path, text).expect("it is written");
        let line = format!("berth run --config {} {line}", path.display());
        let result = parse(line.split_whitespace().map(OsString::from));
        std::fs::remove_file(&path).expect("it can be removed");
        match result {
            Ok(CommandLine { command: Command::Run(run) }) => Ok(run),
            Ok(_) => panic!("{line} is run"),
            Err(unusable) => Err(unusable.to_string().replace(&*path.to_string_lossy(), "FILE")),
        }
    }

    #[test]
    fn files_are_defaults() {
        let text = "# a comment\nmetrics-port: 9000\nhealth-probe-port: 9001\nbatch-max-duration: 30s\nshadow: true\n\
                    node-cost: 0.05\nmin-saving: 7%\nunavailable: ['*:a:spot', '*:b:*']\nfeature-gates: NodeOverlay=true\n\
                    preference-policy: Ignore\n";
        let run = parsed(text, "--metrics-port 9100").expect("it is good");
        let ports = |run: &super::super::Run| (run.metrics_port.port, run.health_probe_port.port);
        assert_eq!(ports(&run), (9100, 9001), "flags come before files");
        assert!(run.shadow);
        assert_eq!(run.judging.unavailable.len(), 2);
        assert_eq!(run.batch_max_duration.whole_secs(), 30);
        assert_eq!(run.judging.node_cost.to_string(), "0.050000");
        let run = parsed("", "--shadow=false").expect("an empty file says nothing");
        assert_eq!((run.metrics_port.port, run.shadow), (8080, false));
        let run = parsed("shadow: true", "--shadow=false").expect("it is good");
        assert!(!run.shadow);
        let text = "metrics-addr: ':9000'\nenable-webhook: true\nwebhook-addr: 127.0.0.1:9443\nleader-election-id: other\n";
        let run = parsed(text, "").expect("the other names are good too");
        assert_eq!((ports(&run), run.webhook.enabled), ((9000, 8081), true));
        assert_eq!((run.leader_election_name.as_str(), run.webhook.listen.port), ("other", 9443));
        let run = parsed(text, "--metrics-port 9100").expect("it is good");
        assert_eq!(ports(&run), (9100, 8081), "whatever it is called in the file");
    }

    #[test]
    fn files_that_are_wrong_say_where() {
        for (text, complaint) in [
            (
                "shadow: true\nmetrix-port: 1\n",
                "FILE:2: metrix-port: there is no such setting; did you mean metrics-port?",
            ),
            (
                "quite-something-else: 1\n",
                "FILE:1: quite-something-else: there is no such setting; `berth run --help`",
            ),
            (
                "\nmetrics-port: many\n",
                "FILE:2: metrics-port: invalid value 'many' for '--metrics-port <PORT>'",
            ),
            ("batch-max-duration: 10\n", "FILE:1: batch-max-duration: invalid value '10' for"),
            ("shadow: true\nshadow: false\n", "FILE:2: "),
            (
                "metrics-port: 1\nmetrics-addr: ':2'\n",
                "FILE:2: metrics-addr: it is set twice, the first time as metrics-port",
            ),
            ("config: other.yaml\n", "FILE:1: config: this cannot be set in a file"),
            ("a: [", "FILE:"),
            ("- metrics-port\n", "FILE:1: "),
            ("just text\n", "FILE:1: "),
            ("metrics-port: {a: 1}\n", "FILE:1: "),
        ] {
            let said = parsed(text, "").map(drop).expect_err(text);
            assert!(said.starts_with(complaint), "{text}: {said}");
        }
        let missing = parse(["berth", "run", "--config", "/nowhere/at/all"].map(OsString::from)).err();
        assert!(missing.is_some_and(|error| error.to_string().starts_with("cannot read /nowhere/at/all: ")));
    }
}
