//! Where the programs are: in `KUBEBUILDER_ASSETS`, else in a cache outside the repository, else built into it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::audience::Audience;
use crate::error::Error;
use crate::golang;
use crate::program::{Program, build_name, minor, version_in};

/// Where to look, and where to build.
#[derive(Clone, Debug)]
pub struct Sources {
    /// What others have installed, as controller-runtime's envtest has it: seldom all of the programs.
    pub assets: Option<PathBuf>,
    /// Where those built by us are.
    pub cache: PathBuf,
}

impl Sources {
    /// As the environment says: `KUBEBUILDER_ASSETS`, `BERTH_CONTROL_PLANE_CACHE`, `XDG_CACHE_HOME`, `HOME`.
    /// `cache` is for programs that were told of another cache.
    pub fn from_environment(cache: Option<PathBuf>) -> Result<Self, Error> {
        Self::of(cache, |name| env::var_os(name))
    }

    fn of(cache: Option<PathBuf>, environment: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let assets = variable("KUBEBUILDER_ASSETS").map(PathBuf::from);
        if let Some(path) = assets.as_ref().filter(|path| !path.is_dir()) {
            return Err(Error::NoAssets { path: path.clone() });
        }
        let told = cache.or_else(|| variable("BERTH_CONTROL_PLANE_CACHE").map(PathBuf::from));
        let cache = match told {
            Some(told) => told,
            None => home_of("the cache", "XDG_CACHE_HOME", ".cache", variable)?,
        };
        Ok(Self { assets, cache: cache.join(build_name()) })
    }

    fn place_of(&self, program: Program) -> Option<Place> {
        let in_assets = self.assets.as_ref().map(|assets| assets.join(program.name()));
        if let Some(path) = in_assets.filter(|path| path.is_file()) {
            return Some(Place::Assets(path));
        }
        Some(self.cache.join(program.name())).filter(|path| path.is_file()).map(Place::Cache)
    }
}

enum Place {
    Assets(PathBuf),
    Cache(PathBuf),
}

/// Where files of a kind go by default: the directory that `variable` names, else `below` the home directory.
pub fn home_of(
    what: &'static str,
    variable: &'static str,
    below: &str,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, Error> {
    // The XDG rules say to ignore what is not absolute.
    let named = environment(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = named.or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(below)));
    Ok(base.ok_or(Error::NoHome { what, variable })?.join("berth").join("control-plane"))
}

/// All programs, each with where it is and its version; the Kubernetes components of one minor version.
#[derive(Clone, Debug)]
pub struct Programs {
    found: BTreeMap<Program, Found>,
}

#[derive(Clone, Debug)]
struct Found {
    path: PathBuf,
    version: String,
}

impl Programs {
    /// Only looks. `Error::NotBuilt` if something is missing.
    pub fn find(sources: &Sources) -> Result<Self, Error> {
        let missing = missing(sources);
        if !missing.is_empty() {
            return Err(Error::NotBuilt { missing: names(&missing) });
        }
        let mut found = BTreeMap::new();
        for program in Program::ALL {
            let (path, version) = match sources.place_of(program) {
                Some(Place::Assets(path)) => {
                    let version = ask_version(program, &path)?;
                    (path, version)
                }
                Some(Place::Cache(path)) => (path, program.version().to_owned()),
                None => return Err(Error::NotBuilt { missing: program.to_string() }),
            };
            found.insert(program, Found { path, version });
        }
        let programs = Self { found };
        programs.refuse_mixed_versions()?;
        Ok(programs)
    }

    /// For a test, or nothing where something is missing: that is said, and fails only where `CI` is set.
    pub fn for_test() -> Result<Option<Self>, Error> {
        match Sources::from_environment(None).and_then(|sources| Self::find(&sources)) {
            Ok(programs) => Ok(Some(programs)),
            Err(why @ (Error::NotBuilt { .. } | Error::NoHome { .. })) if env::var_os("CI").is_none() => {
                // Written past the test harness, which would keep it to itself.
                let _ = writeln!(io::stderr(), "Kubernetes' own programs were left out: {why}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Builds what is missing, which takes minutes the first time.
    pub fn find_or_build(sources: &Sources, audience: &Audience<'_>) -> Result<Self, Error> {
        if !missing(sources).is_empty() {
            golang::build(&sources.cache, || missing(sources), audience)?;
        }
        Self::find(sources)
    }

    /// There is one for every program: `find` makes no other map.
    pub fn path(&self, program: Program) -> &Path {
        self.found.get(&program).map_or(Path::new(program.name()), |found| &found.path)
    }

    pub(crate) fn version(&self, program: Program) -> &str {
        self.found.get(&program).map_or("", |found| &found.version)
    }

    fn refuse_mixed_versions(&self) -> Result<(), Error> {
        let mut bound = Program::ALL.into_iter().filter(|program| program.shares_minor_version());
        let Some(first) = bound.next() else { return Ok(()) };
        match bound.find(|second| minor(self.version(*second)) != minor(self.version(first))) {
            None => Ok(()),
            Some(second) => Err(Error::MixedVersions {
                first,
                first_version: self.version(first).to_owned(),
                second,
                second_version: self.version(second).to_owned(),
                wanted: minor(first.version()).to_owned(),
            }),
        }
    }
}

fn missing(sources: &Sources) -> Vec<Program> {
    Program::ALL.into_iter().filter(|program| sources.place_of(*program).is_none()).collect()
}

pub(crate) fn names(programs: &[Program]) -> String {
    programs.iter().map(|program| program.name()).collect::<Vec<_>>().join(", ")
}

fn ask_version(program: Program, path: &Path) -> Result<String, Error> {
    let answer = Command::new(path)
        .args(program.version_arguments())
        .output()
        .map_err(|source| Error::NotStarted { program: path.display().to_string(), source })?;
    let said = String::from_utf8_lossy(&answer.stdout);
    version_in(&said).ok_or_else(|| Error::NoVersion {
        path: path.to_owned(),
        said: [said.trim(), String::from_utf8_lossy(&answer.stderr).trim()].concat(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::directory::Directory;

    #[test]
    fn files_go_where_the_environment_says() {
        for (named, home, expected) in [
            (Some("/x"), Some("/home/me"), Some("/x/berth/control-plane")),
            (None, Some("/home/me"), Some("/home/me/.cache/berth/control-plane")),
            (Some("relative"), Some("/home/me"), Some("/home/me/.cache/berth/control-plane")),
            (None, None, None),
        ] {
            let environment = |name: &str| if name == "HOME" { home } else { named }.map(OsString::from);
            let found = home_of("the cache", "XDG_CACHE_HOME", ".cache", environment).ok();
            assert_eq!(found, expected.map(PathBuf::from), "{named:?} {home:?}");
        }
    }

    #[test]
    fn assets_are_a_directory_or_refused() {
        let directory = Directory::temporary().expect("a directory");
        let file = directory.path().join("file");
        fs::write(&file, "").expect("writable");
        let text = |path: &Path| path.display().to_string();
        let (there, file, gone) = (text(directory.path()), text(&file), text(&directory.path().join("gone")));
        for (assets, expected) in [
            (None, Ok(None)),
            (Some(""), Ok(None)),
            (Some(&*there), Ok(Some(&*there))),
            (Some(&*file), Err(format!("KUBEBUILDER_ASSETS is {file}, which is no directory"))),
            (Some(&*gone), Err(format!("KUBEBUILDER_ASSETS is {gone}, which is no directory"))),
        ] {
            let environment = |name: &str| {
                let value = if name == "KUBEBUILDER_ASSETS" { assets } else { Some("/home/me") };
                value.map(OsString::from)
            };
            let found = Sources::of(None, environment).map(|sources| sources.assets);
            let found = found.map_err(|error| error.to_string());
            assert_eq!(found, expected.map(|path| path.map(PathBuf::from)), "{assets:?}");
        }
    }

    #[test]
    fn assets_come_before_the_cache_and_what_is_missing_is_named() {
        for (assets, cache, expected) in [
            (
                "etcd kube-apiserver",
                "etcd kwok",
                ["assets", "assets", "nowhere", "nowhere", "cache", "nowhere"],
            ),
            ("", "kubectl", ["nowhere", "nowhere", "nowhere", "nowhere", "nowhere", "cache"]),
        ] {
            let directory = Directory::temporary().expect("a directory");
            let sources = Sources {
                assets: Some(directory.path().join("assets")),
                cache: directory.path().join("cache"),
            };
            for (place, names) in [("assets", assets), ("cache", cache)] {
                fs::create_dir(directory.path().join(place)).expect("writable");
                for name in names.split_whitespace() {
                    fs::write(directory.path().join(place).join(name), "").expect("writable");
                }
            }
            let places = Program::ALL.map(|program| match sources.place_of(program) {
                Some(Place::Assets(_)) => "assets",
                Some(Place::Cache(_)) => "cache",
                None => "nowhere",
            });
            assert_eq!(places, expected, "{assets} and {cache}");
            let refused = Programs::find(&sources).expect_err("not all are there").to_string();
            for (program, place) in Program::ALL.into_iter().zip(places) {
                assert_eq!(refused.contains(program.name()), place == "nowhere", "{program}: {refused}");
            }
        }
    }

    #[test]
    fn only_one_minor_version_of_the_components_is_accepted() {
        for (others, expected) in [
            ("", None),
            ("etcd=v3.4.1 kubectl=v1.35.0 kwok=v0.7.0", None),
            ("kube-apiserver=v1.36.9", None),
            (
                "kube-apiserver=v1.35.2",
                Some("kube-apiserver is v1.35.2, but kube-controller-manager is v1.36.4"),
            ),
            ("kube-scheduler=v1.37.0", Some("kube-apiserver is v1.36.4, but kube-scheduler is v1.37.0")),
        ] {
            let version = |program: Program| {
                let named = others.split_whitespace().filter_map(|word| word.split_once('='));
                named
                    .into_iter()
                    .find(|(name, _)| *name == program.name())
                    .map_or("v1.36.4", |(_, version)| version)
            };
            let found = |program| Found { path: PathBuf::new(), version: version(program).to_owned() };
            let programs = Programs {
                found: Program::ALL.into_iter().map(|program| (program, found(program))).collect(),
            };
            let refused = programs.refuse_mixed_versions().err().map(|error| error.to_string());
            match (&refused, expected) {
                (None, None) => {}
                (Some(refused), Some(expected)) => assert!(refused.starts_with(expected), "{refused}"),
                _ => panic!("{others}: {refused:?}"),
            }
        }
    }
}
