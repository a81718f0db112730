//! The real control plane, where its programs are at hand.

use std::io::Write;
use std::path::Path;

use berth_control_plane::{Audience, ControlPlane, Directory, Error, Programs, Sources};

pub(crate) struct Plane(ControlPlane);

/// Nothing where there are no programs: that is said, and no failure, but where everything is to be tested.
pub(crate) fn programs() -> Option<Programs> {
    match Sources::from_environment(None).and_then(|sources| Programs::find(&sources)) {
        Ok(programs) => Some(programs),
        Err(why @ (Error::NotBuilt { .. } | Error::NoHome { .. })) => {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            // Written past the test harness, which would keep it to itself.
            let _ = writeln!(std::io::stderr(), "a test with Kubernetes' own programs was left out: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn start() -> Option<Plane> {
    let directory = Directory::temporary().unwrap();
    let plane = ControlPlane::start(&programs()?, directory, None, &Audience::silent());
    Some(Plane(plane.unwrap()))
}

impl Plane {
    pub(crate) fn kubeconfig(&self) -> &Path {
        self.0.kubeconfig()
    }
}
