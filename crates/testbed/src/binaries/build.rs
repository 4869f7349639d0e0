//! Runs the Go toolchain and says in plain words why it failed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{BINARIES_VARIABLE, CACHE_VARIABLE, Module, Recipe};
use crate::keeper::Keeper;
use crate::process::tail;

/// How often a build that takes long says that it is still going on.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Fails with what to do if there is no Go toolchain.
pub(super) fn check_go() -> Result<()> {
    match Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => bail!(
            "no working `go` on the PATH, which the testbed needs to build Kubernetes; install Go 1.26 or newer, or \
             name a directory with ready binaries in {BINARIES_VARIABLE}"
        ),
    }
}

/// Builds one program to `output`.
pub(super) fn build(name: &str, recipe: &Recipe, output: &Path, cache: &Path, keeper: &Keeper) -> Result<()> {
    let log = cache.join(format!("{name}.build.log"));
    let out = File::create(&log).with_context(|| full_or_forbidden(cache))?;
    let mut command = go(recipe.module);
    if recipe.test {
        command.args(["test", "-c"]);
    } else {
        command.arg("build");
    }
    keeper.adopt(&mut command);
    let mut child = command
        .args(["-trimpath", "-ldflags", recipe.ldflags, "-o"])
        .arg(output)
        .arg(recipe.package)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()
        .context("cannot start go")?;
    let start = Instant::now();
    let mut told = start;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if told.elapsed() >= HEARTBEAT {
            told = Instant::now();
            eprintln!("      still building {name}, {} s", start.elapsed().as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if status.success() {
        let _ = fs::remove_file(&log);
        return Ok(());
    }
    let said = tail(&log, 15);
    bail!("building {name} failed ({status}); {}\n{said}", advice(&said, cache))
}

/// The directory of a Go module's source, downloaded if it is not there.
pub(super) fn module_source(module: Module, import_path: &str) -> Result<PathBuf> {
    let output = go(module)
        .args(["mod", "download", "-json", import_path])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start go")?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`go mod download {import_path}` gave no answer"))?;
    match answer["Dir"].as_str() {
        Some(dir) => Ok(dir.into()),
        None => bail!(
            "cannot download the Go module {import_path}: {}",
            answer["Error"].as_str().unwrap_or("unknown error")
        ),
    }
}

fn go(module: Module) -> Command {
    let mut command = Command::new("go");
    command.current_dir(module.dir()).env("GOFLAGS", "-mod=readonly -buildvcs=false").env("GOWORK", "off");
    if let Some(toolchain) = module.toolchain() {
        command.env("GOTOOLCHAIN", toolchain);
    }
    command
}

fn advice(said: &str, cache: &Path) -> String {
    if said.contains("no space left on device") {
        full_or_forbidden(cache)
    } else if said.contains("running go ") && said.contains("requires go") {
        "install Go 1.26 or newer".to_owned()
    } else if said.contains("dial tcp") || said.contains("lookup ") {
        "the Go module proxy could not be reached; check the network and GOPROXY".to_owned()
    } else {
        "Go said:".to_owned()
    }
}

fn full_or_forbidden(cache: &Path) -> String {
    format!(
        "the disk is full, or {} is not writable; the programs need 1 GB there and Go's own caches about 6 GB \
         (`go env GOCACHE GOMODCACHE`): free some, or name another directory in {CACHE_VARIABLE}",
        cache.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_explained() {
        let cache = Path::new("/somewhere");
        for (said, expected) in [
            (
                "link: writing output: no space left on device",
                "name another directory in HEADSTART_CACHE_DIR",
            ),
            ("go: go.mod requires go >= 1.26.0 (running go 1.19.8)", "install Go 1.26"),
            ("dial tcp: lookup proxy: no such host", "GOPROXY"),
            ("undefined: foo", "Go said:"),
        ] {
            assert!(advice(said, cache).contains(expected), "{said}");
        }
    }
}
