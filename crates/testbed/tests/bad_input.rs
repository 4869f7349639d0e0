//! What people see when something is wrong: each mistake gets a message that says what to do.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The command with an empty cache, and a PATH without a `go` but the one below.
struct Testbed {
    dir: TempDir,
}

impl Testbed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("path")).unwrap();
        // What cleaning up needs.
        for tool in ["cat", "rm", "sh", "sleep"] {
            symlink(Path::new("/bin").join(tool), dir.path().join("path").join(tool)).unwrap();
        }
        Self { dir }
    }

    /// Puts a `go` on the PATH that runs `script`; `$out` is where the build should go.
    fn with_go(self, script: &str) -> Self {
        let path = self.dir.path().join("path/go");
        let find_output =
            r#"[ "$1" = version ] && exit 0; while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done"#;
        fs::write(&path, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{find_output}\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headstart-testbed"));
        command
            .args(args)
            .env("PATH", self.dir.path().join("path"))
            .env("HEADSTART_CACHE_DIR", self.dir.path().join("cache"))
            .env_remove("HEADSTART_TESTBED_BIN");
        command
    }

    /// Runs the command, which must fail, and checks what it says on standard error.
    fn fails_saying(&self, args: &[&str], expected: &[&str]) {
        fails_saying(&mut self.command(args), expected);
    }

    /// What the cache holds besides its lock and the log of a failed build.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("cache/testbed")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name != "lock" && Path::new(name).extension().is_none_or(|e| e != "log"))
            .collect()
    }
}

fn fails_saying(command: &mut Command, expected: &[&str]) {
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(!status.success(), "it should fail: {said}");
    for text in expected {
        assert!(said.contains(text), "expected {text:?} in:\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn an_unknown_flag_is_named_and_help_is_offered() {
    Testbed::new()
        .fails_saying(&["up", "--prot", "6443"], &["unexpected argument '--prot'", "--port", "--help"]);
}

#[test]
fn an_unknown_peer_lists_the_known_ones() {
    Testbed::new().fails_saying(&["up", "--peer", "autoscaler"], &["'autoscaler'", "karpenter", "headstart"]);
}

#[test]
fn without_go_it_says_what_to_install() {
    Testbed::new()
        .fails_saying(&["binaries"], &["no working `go`", "install Go 1.26", "HEADSTART_TESTBED_BIN"]);
}

#[test]
fn a_given_directory_must_hold_the_binaries() {
    let testbed = Testbed::new();
    let mut command = testbed.command(&["binaries"]);
    fails_saying(
        command.env("HEADSTART_TESTBED_BIN", testbed.dir.path()),
        &["without etcd", "unset the variable"],
    );
}

#[test]
fn an_occupied_port_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // Programs that are never started are enough: the port is checked first.
    let testbed = Testbed::new().with_go("echo program >$out");
    testbed
        .fails_saying(&["up", "--port", &port], &[&format!("port {port} on 127.0.0.1 is in use"), "--port"]);
}

#[test]
fn a_full_disk_is_explained_and_its_half_built_program_is_not_kept() {
    let testbed = Testbed::new().with_go("echo half >$out; echo 'link: no space left on device' >&2; exit 1");
    let said = ["building etcd failed", "the disk is full", "HEADSTART_CACHE_DIR", "no space left on device"];
    testbed.fails_saying(&["binaries"], &said);
    assert_eq!(testbed.cached(), Vec::<String>::new());
}

#[test]
fn an_unusable_cache_directory_is_named() {
    let testbed = Testbed::new();
    fs::write(testbed.dir.path().join("cache"), "a file where the directory should be").unwrap();
    testbed.fails_saying(&["binaries"], &["cannot use", "as the cache", "HEADSTART_CACHE_DIR"]);
}

#[test]
fn a_build_that_was_killed_is_made_again_from_the_start() {
    let testbed = Testbed::new().with_go("echo half >$out; echo started >&2; exec sleep 60");
    let mut killed =
        testbed.command(&["binaries"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let log = testbed.dir.path().join("cache/testbed/etcd.build.log");
    let start = Instant::now();
    while !fs::read_to_string(&log).unwrap_or_default().contains("started") {
        assert!(start.elapsed() < Duration::from_mins(1), "the build does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    while !testbed.cached().is_empty() {
        assert!(start.elapsed() < Duration::from_mins(1), "a killed build leaves {:?}", testbed.cached());
        std::thread::sleep(Duration::from_millis(10));
    }

    let testbed = testbed.with_go("echo whole >$out");
    let output = testbed.command(&["binaries"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let etcd = String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned).unwrap();
    assert_eq!(fs::read_to_string(etcd).unwrap(), "whole\n");
}

#[test]
fn a_focus_that_matches_nothing_says_what_a_focus_is() {
    // Stands in for a compiled suite: it writes the report that lists its specs.
    let suite = r#"cat >$out <<'END'
#!/bin/sh
for arg; do case $arg in --ginkgo.json-report=*) echo '[{"SpecReports":[]}]' >"${arg#*=}";; esac; done
END
chmod +x $out"#;
    let testbed = Testbed::new().with_go(suite);
    testbed.fails_saying(
        &["suites", "--focus", "no such spec"],
        &["no spec of the suites contains \"no such spec\"", "FOCUS"],
    );
}
