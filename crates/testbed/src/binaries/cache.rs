//! Where built programs are kept, and how they get there whole or not at all.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Asset, Binary, Recipe, build};
use crate::keeper::Keeper;

/// Overrides where the cache lives.
pub const CACHE_VARIABLE: &str = "HEADSTART_CACHE_DIR";

/// How the names of unfinished builds begin.
const PARTIAL: &str = "partial-";

/// Finds or builds each of `binaries`.
pub(super) fn binaries(binaries: &[Binary]) -> Result<Vec<PathBuf>> {
    let dir = cache_dir()?;
    let wanted: Vec<(Binary, PathBuf)> = binaries
        .iter()
        .map(|&binary| {
            Ok((binary, dir.join(format!("{}-{:016x}", binary.name(), fingerprint(&binary.recipe())?))))
        })
        .collect::<Result<_>>()?;
    if wanted.iter().any(|(_, path)| !path.exists()) {
        let _lock = lock(&dir)?;
        // Another process may have built some of them while this one waited for the lock.
        let missing: Vec<_> = wanted.iter().filter(|(_, path)| !path.exists()).collect();
        build::check_go()?;
        for (index, (binary, path)) in missing.iter().enumerate() {
            let recipe = binary.recipe();
            eprintln!(
                "[{}/{}] building {} into {} (once; about {} s on two idle cores)",
                index + 1,
                missing.len(),
                binary.name(),
                dir.display(),
                recipe.rough_seconds
            );
            let start = Instant::now();
            publish(path, |keeper, output| build::build(binary.name(), &recipe, output, &dir, keeper))?;
            eprintln!(
                "[{}/{}] {} built in {} s",
                index + 1,
                missing.len(),
                binary.name(),
                start.elapsed().as_secs()
            );
        }
    }
    Ok(wanted.into_iter().map(|(_, path)| path).collect())
}

/// Finds or copies the files of `asset` and returns their directory.
pub(super) fn asset(asset: Asset) -> Result<PathBuf> {
    let dir = cache_dir()?;
    let (module, import_path, folders) = asset.source();
    let print = fnv([module_files(&module.dir())?, folders.concat().into_bytes()].concat().as_slice());
    let path = dir.join("share").join(format!("{}-{print:016x}", asset.name()));
    if !path.exists() {
        let _lock = lock(&dir)?;
        build::check_go()?;
        let source = build::module_source(module, import_path)?;
        publish(&path, |_, output| copy_yaml(&source, folders, output))?;
    }
    Ok(path)
}

fn copy_yaml(source: &Path, folders: &[&str], target: &Path) -> Result<()> {
    fs::create_dir_all(target)?;
    for folder in folders {
        let from = source.join(folder);
        for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
            let file = entry?.path();
            let name = file.file_name().unwrap_or_default().to_owned();
            if file.extension().is_some_and(|extension| extension == "yaml") && name != "kustomization.yaml" {
                fs::write(target.join(name), fs::read(&file)?)?;
            }
        }
    }
    Ok(())
}

/// Lets `make` write to a place of its own and moves the result to `path` once it is complete.
///
/// The place, and every process that `make` gives to the keeper, go when this process goes, however that happens.
fn publish(path: &Path, make: impl FnOnce(&Keeper, &Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let parent = path.parent().context("a cached file has a directory")?;
    fs::create_dir_all(parent).with_context(|| unusable(parent))?;
    let place =
        tempfile::Builder::new().prefix(PARTIAL).tempdir_in(parent).with_context(|| unusable(parent))?;
    let keeper = Keeper::new(place.keep())?;
    let output = keeper.dir().join("output");
    make(&keeper, &output)?;
    fs::rename(&output, path).with_context(|| format!("cannot move a finished build to {}", path.display()))
}

fn cache_dir() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = match (set(CACHE_VARIABLE), set("XDG_CACHE_HOME"), set("HOME")) {
        (Some(dir), _, _) => dir,
        (None, Some(cache), _) => cache.join("headstart"),
        (None, None, Some(home)) => home.join(".cache/headstart"),
        (None, None, None) => {
            bail!("no HOME to keep built programs under; name a directory in {CACHE_VARIABLE}")
        }
    };
    let dir = std::path::absolute(dir)?.join("testbed");
    fs::create_dir_all(&dir).with_context(|| unusable(&dir))?;
    Ok(dir)
}

fn unusable(dir: &Path) -> String {
    format!("cannot use {} as the cache; name another directory in {CACHE_VARIABLE}", dir.display())
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let file = File::create(&path).with_context(|| unusable(dir))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another process that is building into {}", dir.display());
            file.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| unusable(dir)),
    }
    Ok(file)
}

/// Changes whenever the program would be built from something else.
fn fingerprint(recipe: &Recipe) -> Result<u64> {
    let dir = recipe.module.dir();
    let mut inputs = module_files(&dir)?;
    if recipe.package.starts_with('.') {
        for entry in fs::read_dir(dir.join(recipe.package))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "go") {
                inputs.extend(fs::read(&path)?);
            }
        }
    }
    inputs.extend([recipe.package, recipe.ldflags].concat().bytes());
    inputs.extend(recipe.module.toolchain().unwrap_or_default().bytes());
    Ok(fnv(&inputs))
}

fn module_files(dir: &Path) -> Result<Vec<u8>> {
    let read = |name: &str| {
        fs::read(dir.join(name)).with_context(|| format!("cannot read {} in {}", name, dir.display()))
    };
    Ok([read("go.mod")?, read("go.sum")?].concat())
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_leaves_nothing_that_could_be_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program-0123");
        let result = publish(&path, |_, output| {
            fs::write(output, "half a program")?;
            bail!("the disk is full")
        });
        assert_eq!(result.unwrap_err().to_string(), "the disk is full");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_finished_build_is_all_that_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program-0123");
        publish(&path, |_, output| Ok(fs::write(output, "a program")?)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a program");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn every_binary_has_a_fingerprint_of_its_own() {
        let mut prints: Vec<u64> =
            Binary::ALL.iter().map(|binary| fingerprint(&binary.recipe()).unwrap()).collect();
        prints.sort_unstable();
        prints.dedup();
        assert_eq!(prints.len(), Binary::ALL.len());
    }
}
