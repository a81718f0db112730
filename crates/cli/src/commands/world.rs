//! `berth world`

pub(crate) mod cloud;

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use berth_api::{Object, Timestamp};
use berth_world::faults::FaultPlan;
use berth_world::{ServeError, World};

use super::input::source;
use super::signals::interruption;
use super::{Answer, Failure};
use crate::args;
use crate::out;
use crate::render::view::counted;

/// Who is said to own what is there from the start.
const MANAGER: &str = "berth-world";

pub(crate) fn run(args: &args::World) -> Result<Answer, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(live(args))
}

async fn live(args: &args::World) -> Result<Answer, Failure> {
    let now = Timestamp::now();
    let world = World::new(args.seed, now);
    world.plan_faults(FaultPlan(args.faults.clone()));
    let cloud = cloud::begin(args, now)?;
    let life = async {
        tokio::select! {
            biased;
            () = world.kubelets().live_on(&cloud) => {}
            () = cloud::tell(&cloud) => {}
            () = world.live() => {}
        }
    };
    tokio::pin!(life);
    // Machines that join at once are there before all else, and pods need what controllers make for each namespace.
    let is_filled = tokio::select! {
        biased;
        () = &mut life => return Ok(Answer::Done),
        is_filled = fill(&world, args) => is_filled?,
    };
    if !is_filled {
        return Ok(Answer::BadInput);
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let served = world.serve(address).await.map_err(|error| match error {
        ServeError::InUse { address } => Failure::PortInUse { address },
        error => Failure::Serve(error),
    })?;
    // From here on an interrupt must not leave anything behind.
    let interrupted = interruption().map_err(Failure::Runtime)?;
    let kubeconfig = Written::new(args.kubeconfig.as_deref(), served.kubeconfig())?;
    out::text(&greeting(served.address(), &kubeconfig.path))?;
    tokio::select! {
        biased;
        () = interrupted => {}
        () = &mut life => {}
    }
    served.stop().await;
    Ok(Answer::Done)
}

/// Puts Berth's definitions and what was named into the world. Says what is wrong; whether nothing is.
async fn fill(world: &World, args: &args::World) -> Result<bool, Failure> {
    let own = berth_api::Source::Text { name: "berth crds".to_owned(), text: berth_api::crds::yaml()? };
    let sources: Vec<berth_api::Source> =
        [own].into_iter().chain(args.paths.iter().map(|path| source(path))).collect();
    let (mut objects, mut problems) = berth_api::objects(&sources);
    // What others need comes first, else as it stands.
    objects.sort_by_key(rank);
    for object in &objects {
        if let Err(failure) = world.apply(MANAGER, &object.value).await {
            problems.push(object.problem(failure.to_string()));
        }
    }
    for problem in &problems {
        out::problem(problem);
    }
    if !problems.is_empty() {
        out::problem(&format_args!("berth: {}; no world was started", counted(problems.len(), "problem")));
    }
    Ok(problems.is_empty())
}

fn rank(object: &Object) -> u8 {
    match object.value["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        Some("PriorityClass") => 2,
        _ => 3,
    }
}

fn greeting(address: SocketAddr, kubeconfig: &Path) -> String {
    let kubeconfig = quoted(&kubeconfig.to_string_lossy());
    format!(
        "A Kubernetes of its own listens on https://{address}. In another shell:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes

Ctrl-C ends it and removes the kubeconfig.
"
    )
}

/// As a shell reads it back.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%".contains(letter);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The kubeconfig on disk, for as long as this lives.
#[derive(Debug)]
struct Written {
    path: PathBuf,
    /// Dropped after the file in it has been removed.
    _directory: Option<Directory>,
}

impl Written {
    /// At a path that nobody uses yet, or in a directory of its own.
    fn new(wanted: Option<&Path>, text: &str) -> Result<Self, Failure> {
        let (path, directory) = if let Some(path) = wanted {
            (path.to_owned(), None)
        } else {
            let directory = Directory::new()?;
            (directory.path.join("kubeconfig"), Some(directory))
        };
        let mut file = options().open(&path).map_err(refused(&path))?;
        let written = Self { path, _directory: directory };
        file.write_all(text.as_bytes()).map_err(refused(&written.path))?;
        Ok(written)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // Somebody may have been faster.
        let _ = fs::remove_file(&self.path);
    }
}

/// A directory below the system's for temporary files.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
}

impl Directory {
    fn new() -> Result<Self, Failure> {
        let name = |attempt: u32| format!("berth-world-{}-{attempt}", std::process::id());
        let mut last = None;
        // A name is only taken if somebody who had this process' number left it behind.
        for attempt in 0..10 {
            let path = std::env::temp_dir().join(name(attempt));
            match builder().create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) => last = Some(refused(&path)(error)),
            }
        }
        Err(last.unwrap_or(Failure::FileExists { path: std::env::temp_dir() }))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What somebody else put there is theirs.
        let _ = fs::remove_dir(&self.path);
    }
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::FileExists { path },
        _ => Failure::File { path, error },
    }
}

/// A new file, which only its owner may read: it holds a key.
fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn builder() -> fs::DirBuilder {
    let builder = fs::DirBuilder::new();
    #[cfg(unix)]
    let builder = {
        let mut builder = builder;
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
    };
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_shells() {
        for (path, expected) in [("/tmp/a-1/k", "/tmp/a-1/k"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'")] {
            assert_eq!(quoted(path), expected);
        }
    }

    #[test]
    fn a_kubeconfig_goes_as_it_came() {
        let written = Written::new(None, "text").expect("writable");
        let path = written.path.clone();
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "text");
        let again = Written::new(Some(&path), "other").expect_err("it is taken");
        assert!(again.to_string().contains("exists"), "{again}");
        assert_eq!(fs::read_to_string(&path).expect("it is still there"), "text");
        drop(written);
        assert!(path.parent().is_some_and(|directory| !directory.exists()));
    }
}
