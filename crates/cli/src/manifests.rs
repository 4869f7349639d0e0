//! What `plan` and `explain` work on: a cluster from files, or a live one if there are none.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use headstart_cloud::catalog::{Catalog, Source};
use headstart_intake::{Diagnostic, SchedulerConfig, Taken, World, read};
use serde_json::Value;

use crate::cluster::{self, Access};

/// Where objects and prices come from
#[derive(clap::Args)]
pub(crate) struct From {
    /// Files or directories with Kubernetes objects, YAML or JSON; - reads standard input. Without any, the cluster of
    /// the kubeconfig is read
    #[arg(short = 'f', long = "file", value_name = "FILE_OR_DIR", num_args = 1..)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    access: Access,
    /// What can be bought: kwok, aws, azure, or a file in the format of Karpenter's KWOK provider
    #[arg(long, value_name = "CATALOG", default_value = "kwok")]
    catalog: Source,
    /// How kube-scheduler is configured, in the format of Karpenter's option; - reads standard input
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
}

/// A cluster as the files, or its API server, describe it.
pub(crate) struct Cluster {
    pub(crate) taken: Taken,
    /// What of the catalog is modelled rather than known.
    pub(crate) modelled: Vec<String>,
    /// How long reading and decoding took.
    pub(crate) decoding: Duration,
}

/// All objects as they are, and what can be bought.
pub(crate) struct Objects {
    pub(crate) values: Vec<Value>,
    pub(crate) catalog: Catalog,
}

/// Reads everything, and keeps objects as they are.
pub(crate) fn objects(args: &From) -> anyhow::Result<Objects> {
    let catalog = catalog(args)?;
    let mut values = Vec::new();
    if args.files.is_empty() {
        cluster::read(&args.access, cluster::About::Nodes, |document| values.push(document.value))?;
    } else {
        let (texts, mut unreadable) = texts(&args.files)?;
        for (origin, text) in texts {
            let (documents, diagnostics) = read(&origin, &text);
            unreadable.extend(diagnostics);
            values.extend(documents.into_iter().map(|document| document.value));
        }
        for diagnostic in unreadable {
            eprintln!("warning: {diagnostic}");
        }
    }
    Ok(Objects { values, catalog })
}

fn catalog(args: &From) -> anyhow::Result<Catalog> {
    Catalog::load(&args.catalog).with_context(|| format!("cannot use the catalog {}", args.catalog))
}

/// Reads everything.
pub(crate) fn load(args: &From) -> anyhow::Result<Cluster> {
    let catalog = catalog(args)?;
    let config = args.scheduler_config.as_ref().map_or_else(
        || Ok(SchedulerConfig::default()),
        |path| SchedulerConfig::parse(&text(path)?).with_context(|| format!("cannot use {}", path.display())),
    )?;
    if args.files.is_empty() {
        let mut world = World::new();
        let reading = cluster::read(&args.access, cluster::About::Pods, |document| world.add(document))?;
        world.follow(config);
        return Ok(Cluster::new(&world, Vec::new(), &catalog, reading));
    }
    let mut world = World::new();
    world.follow(config);
    let start = Instant::now();
    let (texts, mut unreadable) = texts(&args.files)?;
    unreadable.extend(add(&mut world, texts));
    Ok(Cluster::new(&world, unreadable, &catalog, start.elapsed()))
}

impl Cluster {
    /// The cluster that a world describes, the reading of which took so long and found these faults.
    pub(crate) fn new(
        world: &World,
        unreadable: Vec<Diagnostic>,
        catalog: &Catalog,
        reading: Duration,
    ) -> Self {
        let start = Instant::now();
        let mut taken = world.snapshot(catalog.types(), &catalog.well_known);
        taken.diagnostics.extend(unreadable);
        taken.diagnostics.sort();
        Self { taken, modelled: catalog.modelled.clone(), decoding: reading + start.elapsed() }
    }
}

/// The name of where a text comes from, and the text.
pub(crate) type Text = (String, String);

/// Adds the objects of some texts and returns what is no object at all.
pub(crate) fn add(world: &mut World, texts: Vec<Text>) -> Vec<Diagnostic> {
    let mut unreadable = Vec::new();
    for (origin, text) in texts {
        let (documents, diagnostics) = read(&origin, &text);
        unreadable.extend(diagnostics);
        for document in documents {
            world.add(document);
        }
    }
    unreadable
}

/// What is in the files, and which files of directories cannot be read.
fn texts(files: &[PathBuf]) -> anyhow::Result<(Vec<Text>, Vec<Diagnostic>)> {
    let (mut texts, mut unreadable) = (Vec::new(), Vec::new());
    for file in files {
        let inside = file != Path::new("-") && file.is_dir();
        let paths = if inside { expand(file)? } else { vec![file.clone()] };
        if paths.is_empty() {
            bail!("no manifests in {}: no file there ends in .yaml, .yml or .json", file.display());
        }
        for path in paths {
            match text(&path) {
                Ok(text) => texts.push((path.display().to_string(), text)),
                // Who names a file wants it read; a directory may hold what is not for us.
                Err(error) if inside => unreadable.push(Diagnostic {
                    object: path.display().to_string(),
                    field: String::new(),
                    message: format!("cannot be read: {}", error.root_cause()),
                }),
                Err(error) => return Err(error),
            }
        }
    }
    if unreadable.is_empty() && texts.iter().all(|(_, text)| text.trim().is_empty()) {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        bail!("nothing to plan for: {} has no Kubernetes object", files.join(", "));
    }
    Ok((texts, unreadable))
}

fn text(path: &Path) -> anyhow::Result<String> {
    let read = if path == Path::new("-") {
        let mut text = Vec::new();
        io::stdin().lock().read_to_end(&mut text).map(|_| text)
    } else {
        fs::read(path)
    };
    let bytes = read.with_context(|| format!("cannot read {}", path.display()))?;
    // A stray byte spoils the document it is in, not the others.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files of a directory and those below it, in order.
fn expand(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>())
        .with_context(|| format!("cannot list {}", path.display()))?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let manifest =
            entry.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|e| ending == *e));
        if entry.is_dir() {
            files.extend(expand(&entry)?);
        } else if manifest {
            files.push(entry);
        }
    }
    Ok(files)
}
