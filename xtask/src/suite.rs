//! `cargo xtask test`: what a change has to pass, cheapest first, stopping at the first failure.

use berth_control_plane::{Audience, Error, Programs, Sources};

use crate::metadata::Metadata;
use crate::step::{StepError, check, command, output, works};
use crate::{generate, helm, policy};

pub(crate) fn run() -> Result<(), StepError> {
    command("format", &["cargo", "fmt", "--all", "--check"])?;
    command(
        "format of the fuzz targets",
        &["cargo", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"],
    )?;
    check("layers, licences and sources of dependencies", "cargo test --package xtask", || {
        let metadata = Metadata::of_workspace()?;
        for duplicate in metadata.duplicates() {
            println!("   note: more than one version of {duplicate}");
        }
        policy::violations(&metadata)
    })?;
    command("lints", &["cargo", "clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
    control_plane()?;
    browser()?;
    helm::find_or_fetch()?;
    // What is generated under deploy/ is checked by tests of its own.
    command("tests", &["cargo", "test", "--workspace"])?;
    check("generated docs are fresh", "cargo xtask generate", generate::stale)?;
    // Not its advisories: they change from day to day, and a test must not.
    if works(&["cargo", "deny", "--version"]) {
        command("cargo-deny", &["cargo", "deny", "check", "bans", "licenses", "sources"])?;
    } else {
        println!("\n== cargo-deny is not installed, and its second opinion on dependencies was left out");
        println!("-- get it with: cargo install cargo-deny --locked");
    }
    println!("\nAll is well.");
    Ok(())
}

/// A test looks at the page in Chromium. A machine that only runs this suite gets it; anybody else's is left alone.
fn browser() -> Result<(), StepError> {
    if works(&["chromium", "--version"]) {
        return Ok(());
    }
    let is_root = output(&["id", "-u"]).is_ok_and(|id| id.trim_ascii() == b"0");
    if std::env::var_os("CI").is_some() && is_root && works(&["apt-get", "--version"]) {
        command("a browser", &["apt-get", "update", "--quiet"])?;
        let install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "chromium"];
        return command("a browser", &install);
    }
    println!("\n== there is no chromium, and the test that looks at the page in it is left out");
    println!("-- get it with: apt-get install chromium");
    Ok(())
}

/// Tests hold the in-process world against a real Kubernetes, which is built the first time.
fn control_plane() -> Result<(), StepError> {
    let audience = Audience { say: &|said| println!("   {said}"), has_left: &|| false };
    let mut left_out = None;
    check(
        "programs of a real control plane",
        "cargo xtask control-plane up",
        || match Programs::find_or_build(&Sources::from_environment(None)?, &audience) {
            Ok(_) => Ok(vec![]),
            Err(why @ Error::NoGo { .. }) if std::env::var_os("CI").is_none() => {
                left_out = Some(why);
                Ok(vec![])
            }
            Err(error) => Ok(vec![error.to_string()]),
        },
    )?;
    if let Some(why) = left_out {
        println!("\n== the tests on a real control plane are left out\n-- {why}");
    }
    Ok(())
}
