//! `headstart-testbed tour`: what works, shown on a real cluster and a cloud that keeps books.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use headstart_cloud::catalog::key_of;
use headstart_cloud::port::{ClassRef, Cloud, Launch, LaunchRequest, NodeTemplate, Token};
use headstart_cloud::testcloud::TestCloud;
use headstart_testbed::binaries::{Binary, ensure};
use headstart_testbed::{ControlPlane, Options, Program};

use super::interrupted;

const LIMIT: Duration = Duration::from_mins(1);

/// Show what works: the API, a real cluster, and a cloud that keeps books.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory with the example manifests.
    #[arg(long, default_value = "examples")]
    examples: PathBuf,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    tokio::select! {
        result = tour(&arguments.examples) => result.map(|()| ExitCode::SUCCESS),
        result = interrupted() => result.map(|()| ExitCode::FAILURE),
    }
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
async fn tour(examples: &Path) -> Result<()> {
    ensure!(
        examples.join("quickstart.yaml").exists(),
        "{} holds no quickstart.yaml; run this in the repository, or name the directory with --examples",
        examples.display()
    );
    let kubectl = tokio::task::spawn_blocking(|| ensure(Binary::Kubectl)).await??;
    let start = Instant::now();
    let plane = ControlPlane::start(Options::default()).await?;
    println!(
        "A real Kubernetes 1.36 control plane runs on loopback after {:.1} s.",
        start.elapsed().as_secs_f32()
    );
    let shell = Shell::new(&plane, &kubectl)?;

    title("Karpenter's API, from Headstart's types");
    shell.run("headstart crds | kubectl apply --server-side -f -")?;
    shell.run("kubectl wait --for condition=established crd --all >/dev/null")?;
    shell.run(&format!("kubectl apply -f {}", examples.join("quickstart.yaml").display()))?;
    shell.run("kubectl get nodepools -o wide")?;
    println!("A mistake is refused by the API server itself, with Karpenter's words:");
    shell.fail(&format!("kubectl apply -f {}", examples.join("refused.yaml").display()))?;

    title("A cloud that keeps books of its own");
    let endpoint = start_cloud(&plane).await?;
    let cloud = TestCloud::new(&endpoint)?;
    let launch = launch(&cloud).await?;
    let instance = &launch.instance;
    println!(
        "launched {} as {} ({} vCPU, {} memory); no node exists yet: it takes 2 s to boot",
        instance.offering,
        instance.id,
        instance.capacity.get("cpu"),
        instance.capacity.get("memory")
    );
    let again = self::launch(&cloud).await?;
    ensure!(again.instance.id == instance.id, "the same token bought another instance");
    println!("the same request, sent again with the same token, found the same instance");
    shell.until("kubectl get nodes --no-headers 2>/dev/null | wc -l", "1").await?;
    println!("its node has joined; registering it, which is an operator's work, is done by hand here:");
    shell.run("kubectl taint nodes --all karpenter.sh/unregistered:NoExecute-")?;
    shell
        .until("kubectl get pods --no-headers -l app=web --field-selector status.phase=Running | wc -l", "10")
        .await?;
    shell.run("kubectl get nodes -L node.kubernetes.io/instance-type,karpenter.sh/capacity-type")?;
    shell.run("kubectl get pods")?;

    title("The bill");
    cloud.terminate(&instance.id).await?;
    shell.until("kubectl get nodes --no-headers 2>/dev/null | wc -l", "0").await?;
    println!("terminated; its node is gone, and nothing is left running:");
    shell.run(&format!("testcloud audit --kubeconfig $KUBECONFIG --ledger {}", ledger(&plane).display()))?;

    println!(
        "\nNext: `make testbed ARGS=\"--peer karpenter\"` runs the real Karpenter on such a cluster, \
         `make help` lists the rest."
    );
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
fn title(text: &str) {
    println!("\n── {text} ──");
}

fn ledger(plane: &ControlPlane) -> PathBuf {
    plane.dir().join("cloud.ledger")
}

/// Starts the test cloud beside the control plane and returns its address.
async fn start_cloud(plane: &ControlPlane) -> Result<String> {
    let address = plane.dir().join("cloud.address");
    let program = Program::new("testcloud", sibling("testcloud")?)
        .args(["serve", "--listen", "127.0.0.1:0", "--join-delay", "2s", "--catalog", "kwok"])
        .args([
            OsString::from("--ledger"),
            ledger(plane).into(),
            "--kubeconfig".into(),
            plane.kubeconfig().into(),
        ])
        .args([OsString::from("--address-file"), address.clone().into()]);
    plane.spawn(program)?;
    let start = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(&address) {
            return Ok(text.trim().to_owned());
        }
        if let Some(status) = plane.exited("testcloud")? {
            bail!("the test cloud ended ({status}); its log is {}", plane.log("testcloud").display());
        }
        ensure!(start.elapsed() < LIMIT, "the test cloud does not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Buys the cheapest spot machine with 16 CPUs, in whatever zone has it.
async fn launch(cloud: &TestCloud) -> Result<Launch> {
    let class =
        ClassRef { group: "karpenter.kwok.sh".into(), kind: "KWOKNodeClass".into(), name: "default".into() };
    let catalog = cloud.catalog(&class).await?;
    let machine = catalog.get("c-16x-amd64-linux").context("the catalogue lacks c-16x-amd64-linux")?;
    let request = LaunchRequest {
        token: Token("5f0c1a52-tour".into()),
        claim: "general-tour".into(),
        pool: "general".into(),
        class,
        offerings: machine.offerings.iter().map(|offering| key_of(machine, offering)).collect(),
        node: NodeTemplate {
            labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "general".to_owned())]),
            ..NodeTemplate::default()
        },
        requests: machine.allocatable(),
        tags: BTreeMap::new(),
    };
    Ok(cloud.launch(&request).await?)
}

/// Another program of this repository, built beside this one.
fn sibling(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "there is no {}; build it with `cargo build`", path.display());
    Ok(path)
}

/// Runs commands as a reader would type them, and prints both them and their answers.
struct Shell {
    path: OsString,
    kubeconfig: PathBuf,
}

impl Shell {
    fn new(plane: &ControlPlane, kubectl: &Path) -> Result<Self> {
        let bin = plane.dir().join("bin");
        std::fs::create_dir_all(&bin)?;
        std::os::unix::fs::symlink(kubectl, bin.join("kubectl"))?;
        for name in ["headstart", "testcloud"] {
            std::os::unix::fs::symlink(sibling(name)?, bin.join(name))?;
        }
        let mut path = bin.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        Ok(Self { path, kubeconfig: plane.kubeconfig() })
    }

    fn run(&self, command: &str) -> Result<()> {
        ensure!(self.print(command)?, "`{command}` failed");
        Ok(())
    }

    fn fail(&self, command: &str) -> Result<()> {
        ensure!(!self.print(command)?, "`{command}` should have been refused");
        Ok(())
    }

    /// Repeats `command` until it prints `expected`.
    async fn until(&self, command: &str, expected: &str) -> Result<()> {
        let start = Instant::now();
        while String::from_utf8_lossy(&self.command(command).output()?.stdout).trim() != expected {
            ensure!(start.elapsed() < LIMIT, "`{command}` does not come to print {expected}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    fn print(&self, command: &str) -> Result<bool> {
        println!("$ {command}");
        let output = self.command(command).output()?;
        for line in [output.stdout, output.stderr].iter().flat_map(|text| text.split(|byte| *byte == b'\n')) {
            if !line.is_empty() {
                println!("  {}", String::from_utf8_lossy(line));
            }
        }
        Ok(output.status.success())
    }

    fn command(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PATH", &self.path).env("KUBECONFIG", &self.kubeconfig);
        shell
    }
}
