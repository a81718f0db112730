//! Kubernetes' own programs, where they are at hand.

use std::io::Write;

use berth_control_plane::{Audience, ControlPlane, Directory, Error, Programs, Sources};

/// Nothing where there are none: that is said, and no failure, but where everything is to be tested.
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

pub(crate) fn start(programs: &Programs) -> ControlPlane {
    let directory = Directory::temporary().unwrap();
    ControlPlane::start(programs, directory, None, &Audience::silent()).unwrap()
}
