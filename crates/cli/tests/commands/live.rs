//! `headstart demo` and `headstart top` where there is no terminal.

use crate::harness::{run, run_in};

#[test]
fn the_demo_tells_its_story_and_proves_it() {
    let run = run(&[], "", &["demo", "--speed", "0"]);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{}", run.stdout);
    for said in [
        "── act 1 of 4: a flash sale: web is scaled from 0 to 400 pods",
        "because gap: ReplicaSet default/web wants 400 pods and has 0",
        "reactive   400 of 400 pods run",
        "proactive  400 of 400 pods run",
        "── act 2 of 4: spot instances in us-east-1",
        "ran dry, took",
        "── act 3 of 4: i-",
        "── act 4 of 4: the sale is over",
        "Every pod ran, and nothing is left behind.",
        "left   0 instances, by the simulated cloud's own books",
        "                    reactive  proactive\n  first NodeClaim ",
        "--enable-proactive-scaleup",
        "--mode observe",
        "Try next:",
    ] {
        assert!(run.stdout.contains(said), "{said:?} is missing from\n{}", run.stdout);
    }
    assert!(!run.stdout.contains('\u{1b}'), "escape sequences where there is no terminal");
}

#[test]
fn a_demo_cut_short_proves_nothing() {
    let run = run(&[], "", &["demo", "--speed", "0", "--for", "30s"]);
    assert_eq!(run.status, 1);
    assert!(run.stdout.contains("Stopped before the end"), "{}", run.stdout);
    assert!(!run.stdout.contains("act 2"), "{}", run.stdout);
}

#[test]
fn top_says_which_cluster_cannot_be_reached() {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = "
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: nobody, user: {}}]
";
    std::fs::write(dir.path().join("config"), kubeconfig).unwrap();
    for more in [&["--once"][..], &[]] {
        let run = run_in(dir.path(), "", &[&["top", "--kubeconfig", "config"], more].concat());
        assert_eq!((run.status, &*run.stdout), (1, ""));
        assert!(
            run.stderr.starts_with("error: cannot reach the Kubernetes API at http://127.0.0.1:1 (")
                && run.stderr.contains("using context \"nowhere\" of the kubeconfig"),
            "{}",
            run.stderr
        );
    }
}
