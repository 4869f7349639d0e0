//! The `testcloud` command as people meet it: what it prints, how it ends, what it says when something is wrong.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod bench;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use headstart_cloud::Cloud;
use headstart_cloud::testcloud::TestCloud;
use tempfile::TempDir;

fn testcloud(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testcloud"));
    command.args(args).env_clear();
    command
}

/// Runs to the end: the exit code, what was printed, and what was complained about.
fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = testcloud(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn path(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

/// A served cloud, ended with the test.
struct Served {
    child: Child,
    endpoint: String,
}

impl Served {
    fn start(ledger: &str, more: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--ledger", ledger], more].concat();
        let mut child = testcloud(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let hello: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(hello["ledger"], ledger);
        Self { child, endpoint: hello["endpoint"].as_str().unwrap().to_owned() }
    }

    /// Sends the signal of Ctrl-C and returns the exit code.
    fn interrupt(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn help_is_worth_reading() {
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, 0);
    assert!(
        help.contains("testcloud serve --ledger") && help.contains("Exit codes: 0 nothing wrong"),
        "{help}"
    );
    let (code, help, _) = run(&["fault", "--help"]);
    assert_eq!(code, 0);
    assert!(
        help.contains("lose-answers") && help.contains("Performs the next calls but loses the answers"),
        "{help}"
    );
}

#[test]
fn a_cloud_is_served_disturbed_audited_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, address) = (path(&dir, "a.ledger"), path(&dir, "address"));
    let served =
        Served::start(&ledger, &["--catalog", "aws", "--address-file", &address, "--join-delay", "10s..20s"]);
    assert_eq!(std::fs::read_to_string(&address).unwrap(), served.endpoint);
    let endpoint = ["--endpoint", &served.endpoint];
    let (code, _, complaint) =
        run(&[&["fault"], &endpoint[..], &["dry", "--type", "m7i.large", "--for", "5m"]].concat());
    assert_eq!((code, complaint.as_str()), (0, ""));
    let (code, status, _) = run(&[&["status"], &endpoint[..]].concat());
    assert_eq!(code, 0);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["settings"]["dry"][0]["which"]["instanceType"], "m7i.large");
    assert_eq!(status["settings"]["joinDelay"], "10s..20s");
    let (code, _, complaint) = run(&[&["fault"], &endpoint[..], &["kill", "i-1"]].concat());
    assert_eq!(code, 1);
    assert!(complaint.ends_with("did not obey: instance i-1 does not exist\n"), "{complaint}");
    // The books can be read while the cloud is running.
    assert_eq!(run(&["audit", "--ledger", &ledger]).0, 0);
    assert_eq!(served.interrupt(), Some(0));
    let (code, text, _) = run(&["audit", "--ledger", &ledger, "-o", "json"]);
    assert_eq!(code, 0);
    let audit: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(audit["modelled"][0].as_str().unwrap().contains("modelled"));
}

/// A ledger in which one claim has two instances, both owned.
fn double(path: &Path) {
    let launched = |id: &str| {
        format!(
            r#"{{"at":"2026-11-15T10:00:00Z","fact":"launched","id":"{id}","token":"uid-a","digest":"x",
            "offering":{{"instanceType":"m7i.large","zone":"us-east-1a","capacityType":"on-demand"}},"dry":[],
            "priceNanos":100800000,"tags":{{"karpenter.sh/nodeclaim":"a","headstart.dev/nodeclaim-uid":"uid-a"}},
            "image":"","capacity":{{}},"allocatable":{{}},"labels":{{}},"joinsAt":null,
            "node":{{"name":"{id}","labels":{{}},"annotations":{{}},"taints":[],"allocatable":{{}}}}}}"#
        )
        .replace("\n            ", "")
    };
    let opened = r#"{"at":"2026-11-15T10:00:00Z","fact":"opened","format":"headstart-testcloud","version":1,"catalog":"aws"}"#;
    std::fs::write(path, format!("{opened}\n{}\n{}\n", launched("i-1"), launched("i-2"))).unwrap();
}

#[test]
fn findings_end_with_two_and_say_what_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = path(&dir, "a.ledger");
    double(Path::new(&ledger));
    let claims = path(&dir, "claims.json");
    let claim = r#"{"kind":"List","items":[{"kind":"NodeClaim","metadata":{"name":"a","uid":"uid-a"},
        "status":{"providerID":"testcloud:///us-east-1a/i-1"}},
        {"kind":"Node","metadata":{"name":"n"},"spec":{"providerID":"testcloud:///us-east-1a/i-7"}}]}"#;
    std::fs::write(&claims, claim).unwrap();
    let until = ["--as-of", "2026-11-15T11:30:00Z"];
    let (code, text, complaint) =
        run(&[&["audit", "--ledger", &ledger, "--claims", &claims], &until[..]].concat());
    assert_eq!((code, complaint.as_str()), (2, ""));
    insta::assert_snapshot!(text, @r"
    1 double launch, 1 zombie. 2 instances (2 not ended), 3.00 instance-hours, $0.302400.
      ✗ double launch  i-1 and i-2 ran at the same time for uid-a; 2 not ended
      ✗ zombie         Node n: it stands for instance i-7, which this cloud never launched

    INSTANCE  TYPE       ZONE        CAPACITY   CLAIM  RAN    $/H     COST      END
    i-1       m7i.large  us-east-1a  on-demand  a      1h30m  0.1008  0.151200  running
    i-2       m7i.large  us-east-1a  on-demand  a      1h30m  0.1008  0.151200  running
    ");
}

#[tokio::test]
async fn a_cloud_killed_under_load_keeps_every_promise() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = path(&dir, "a.ledger");
    let served = Served::start(&ledger, &[]);
    let cloud = TestCloud::new(&served.endpoint).unwrap();
    let requests: Vec<_> = (0..40).map(|n| bench::request(&format!("claim-{n}"))).collect();
    let mut launches: FuturesUnordered<_> = requests.iter().map(|request| cloud.launch(request)).collect();
    let mut promised = Vec::new();
    while promised.len() < 10 {
        promised.push(launches.next().await.unwrap().unwrap().instance);
    }
    // Dropping it kills the process outright, with thirty launches under way.
    drop(served);
    while let Some(answer) = launches.next().await {
        promised.extend(answer.ok().map(|launch| launch.instance));
    }

    let served = Served::start(&ledger, &[]);
    let cloud = TestCloud::new(&served.endpoint).unwrap();
    for instance in &promised {
        assert_eq!(cloud.get(&instance.id).await.unwrap(), *instance);
    }
    for request in &requests {
        let again = cloud.launch(request).await.unwrap().instance;
        let before = promised.iter().find(|instance| instance.token.as_ref() == Some(&request.token));
        assert!(before.is_none_or(|before| *before == again), "{} was launched twice", request.token);
    }
    assert_eq!(cloud.list().await.unwrap().len(), 40);
    assert_eq!(run(&["audit", "--ledger", &ledger]).0, 0);
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, types) = (path(&dir, "a.ledger"), path(&dir, "types.json"));
    std::fs::write(
        &types,
        r#"[{"name": "big", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "four"}, "offerings": []}]"#,
    )
    .unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = ["serve", "--ledger", &ledger];
    for (args, expected) in [
        (vec!["serve"], "--ledger <FILE>"),
        (vec!["audit", "--ledgre", "x"], "a similar argument exists: '--ledger'"),
        (
            [&serve[..], &["--listen", &address]].concat(),
            "another program has that port; choose another, or port 0 for a free one",
        ),
        (
            [&serve[..], &["--catalog", "gcp"]].concat(),
            "unknown catalog \"gcp\": it is neither kwok, aws nor azure",
        ),
        (
            [&serve[..], &["--catalog", &types]].concat(),
            "entry 0 (\"big\"), offerings: [] is not a list of offerings",
        ),
        ([&serve[..], &["--kubeconfig", "/no/such/file"]].concat(), "cannot use kubeconfig /no/such/file"),
        ([&serve[..], &["--time-scale", "0"]].concat(), "\"0\" is no factor between"),
        (
            vec!["audit", "--ledger", "/no/such/ledger"],
            "cannot read ledger /no/such/ledger: No such file or directory",
        ),
        (vec!["audit", "--ledger", &types], "is not a ledger of a test cloud"),
        (
            vec!["serve", "--ledger", "/no/such/dir/ledger"],
            "cannot open ledger /no/such/dir/ledger: No such file",
        ),
        (vec!["fault", "--endpoint", "127.0.0.1:1", "clear"], "it looks like http://127.0.0.1:8700"),
        (vec!["fault", "--endpoint", "http://127.0.0.1:1", "clear"], "nothing was done"),
        (vec!["fault", "join-delay", "soon"], "\"soon\" is no delay; write 30s"),
    ] {
        let (code, _, complaint) = run(&args);
        assert_eq!(code, 1, "{args:?}: {complaint}");
        assert!(complaint.contains(expected), "{args:?}: {complaint}");
    }
}
