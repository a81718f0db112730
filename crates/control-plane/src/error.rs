//! Why there is no control plane.

use std::io;
use std::path::PathBuf;

use crate::program::Program;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{missing} cannot be found, and Go, which builds what is missing, is not installed; get Go 1.26 or newer from \
         https://go.dev/dl or with your package manager, or set KUBEBUILDER_ASSETS to a directory with these programs"
    )]
    NoGo { missing: String },
    #[error("Go is too old to build {program}; get a newer one from https://go.dev/dl\n{said}")]
    OldGo { program: Program, said: String },
    #[error("`{command}` failed:\n{said}")]
    Build { command: String, said: String },
    #[error("{missing} is not built yet; `cargo xtask control-plane up` builds it")]
    NotBuilt { missing: String },
    #[error("KUBEBUILDER_ASSETS is {}, which is no directory", path.display())]
    NoAssets { path: PathBuf },
    #[error("{} does not say its version: {said}", path.display())]
    NoVersion { path: PathBuf, said: String },
    #[error(
        "{first} is {first_version}, but {second} is {second_version}; set KUBEBUILDER_ASSETS to programs of \
         Kubernetes {wanted}, or unset it"
    )]
    MixedVersions {
        first: Program,
        first_version: String,
        second: Program,
        second_version: String,
        wanted: String,
    },
    #[error("there is no place for {what}: neither {variable} nor HOME is set")]
    NoHome { what: &'static str, variable: &'static str },
    #[error(
        "cannot listen on 127.0.0.1:{port}: {source}; choose another with --port, or leave it out for a free one"
    )]
    Port { port: u16, source: io::Error },
    #[error("no free port on 127.0.0.1: {source}")]
    NoPort { source: io::Error },
    #[error("{} is in use by a control plane that is starting or running", path.display())]
    InUse { path: PathBuf },
    #[error("{} is no state of a control plane, and was left alone", path.display())]
    Foreign { path: PathBuf },
    #[error("cannot read or write {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot start {program}: {source}")]
    NotStarted { program: String, source: io::Error },
    #[error(transparent)]
    Credentials(#[from] berth_credentials::Error),
    #[error("cannot use certificates: {message}")]
    Certificates { message: String },
    #[error("{program} ended with {status}; it said last:\n{said}")]
    Ended { program: Program, status: String, said: String },
    #[error("the shell that ends the components together was killed")]
    Unleashed,
    #[error("{program} was not ready after {seconds} s; it said last:\n{said}")]
    NotReady { program: Program, seconds: u64, said: String },
    #[error("nobody waits for the control plane any more")]
    Cancelled,
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
