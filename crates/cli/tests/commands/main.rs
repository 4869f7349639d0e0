//! `headstart plan` and `headstart explain` as people and programs meet them.

#![allow(clippy::unwrap_used)]

mod harness;
mod live;
mod nodes;

use harness::{pod, run, run_in, world};
use serde_json::Value;

const PLAN: [&str; 5] = ["plan", "--catalog", "catalog.json", "-f", "w.yaml"];

fn plan(text: &str) -> harness::Run {
    run(&[("w.yaml", text)], "", &PLAN)
}

fn explain(text: &str, pod: &str) -> harness::Run {
    run(&[("w.yaml", text)], "", &["explain", pod, "--catalog", "catalog.json", "-f", "w.yaml"])
}

#[test]
fn a_plan_says_what_where_and_for_how_much() {
    let run = plan(&world(&["1", "3", "3", "20"]));
    assert_eq!(
        run.stdout,
        "\
4 pods need a place: 1 fits on existing nodes, 2 need 1 new node, 1 fits nowhere.

  = n1                                            1 pod   (web 1)
  + 1 × large  general  z-a  on-demand  $0.800/h  2 pods  (web 2)

New capacity $0.800/h; the cheapest fleet possible costs at least $0.320/h (this is 150.0 % above).
✗ shop/web-4 fits nowhere. Nearest: NodePool general: asks for 20 cpu, the most that is free is 15900m
  → headstart explain shop/web-4
"
    );
    assert_eq!((run.status, &*run.stderr), (2, ""));
    assert!(!run.stdout.contains('\u{1b}'), "color where nobody looks");
}

#[test]
fn the_exit_status_says_how_it_went() {
    assert_eq!(plan(&world(&["1"])).status, 0);
    assert_eq!(plan(&world(&["99"])).status, 2);
    let mistake = plan(&(world(&["1"]) + &pod("bad", "nonsense", "")));
    assert_eq!(mistake.status, 3);
    assert!(
        mistake.stdout.contains("! Pod shop/bad: spec.containers[0].resources.requests.cpu: "),
        "{}",
        mistake.stdout
    );
    let unknown = world(&["1"]) + "---\napiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n";
    assert_eq!(plan(&unknown).status, 0);
    assert_eq!(run(&[], "", &PLAN).status, 1);
    assert_eq!(run(&[], "", &["plan", "--nonsense"]).status, 1);
    let help = run(&[], "", &["plan", "--help"]);
    for line in [
        "0  every pod has a place",
        "1  an error",
        "2  a pod fits nowhere",
        "3  every pod that was understood",
    ] {
        assert!(help.stdout.contains(line), "{}", help.stdout);
    }
}

#[test]
fn json_has_the_promised_shape() {
    let run = run(&[("w.yaml", &world(&["1", "3", "20"]))], "", &[&PLAN[..], &["-o", "json"]].concat());
    let mut plan: Value = serde_json::from_str(&run.stdout).unwrap();
    for field in ["decodeMillis", "solveMillis"] {
        assert!(plan["summary"][field].take().as_f64().is_some_and(|millis| millis >= 0.0));
    }
    let expected = serde_json::json!({
        "nodeClaims": [{
            "nodePool": "general",
            "instanceTypes": ["small", "large"],
            "zones": ["z-a", "z-b"],
            "capacityTypes": ["on-demand"],
            "launch": {"instanceType": "small", "zone": "z-a", "capacityType": "on-demand"},
            "pricePerHour": 0.2,
            "pods": ["shop/web-2"],
        }],
        "existing": [{"node": "n1", "pods": ["shop/web-1"]}],
        "unschedulable": [{"pod": "shop/web-3", "reasons": ["NodePool general: asks for 20 cpu, the most that is free is 15900m"]}],
        "diagnostics": [],
        "summary": {
            "pods": 3,
            "placedOnExisting": 1,
            "nodeClaims": 1,
            "pricePerHour": 0.2,
            "lowerBoundPerHour": plan["summary"]["lowerBoundPerHour"],
            "decodeMillis": null,
            "solveMillis": null,
        },
    });
    assert_eq!(plan, expected);
}

#[test]
fn objects_come_from_standard_input_and_directories_too() {
    let args = ["plan", "--catalog", "catalog.json", "-f", "-"];
    assert_eq!(run(&[], &world(&["1"]), &args).stdout, plan(&world(&["1"])).stdout);
    let args = ["plan", "--catalog", "catalog.json", "-f", "all"];
    let files = [("all/a/w.yml", &*world(&["1"])), ("all/b.json", "{}"), ("all/notes.txt", "hello")];
    let from_directory = run(&files, "", &args);
    assert!(from_directory.stdout.starts_with("1 pod needs a place: 1 fits on existing nodes.\n"));
    assert!(from_directory.stdout.contains("! all/b.json: kind: is missing"), "{}", from_directory.stdout);
}

#[test]
fn input_that_is_not_there_is_an_error() {
    for (files, file, stdin, said) in [
        (vec![], "none.yaml", "", "cannot read none.yaml: No such file or directory"),
        (
            vec![("d/readme.md", "x")],
            "d",
            "",
            "no manifests in d: no file there ends in .yaml, .yml or .json",
        ),
        (vec![], "-", " \n", "nothing to plan for: - has no Kubernetes object"),
    ] {
        let run = run(&files, stdin, &["plan", "-f", file]);
        assert_eq!((run.status, &*run.stdout), (1, ""));
        assert!(run.stderr.starts_with(&format!("error: {said}")), "{}", run.stderr);
    }
}

#[cfg(unix)]
#[test]
fn a_file_of_a_directory_that_cannot_be_read_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("w.yaml"), world(&["1"])).unwrap();
    std::os::unix::fs::symlink("gone", dir.path().join("broken.yaml")).unwrap();
    let run = run_in(dir.path(), "", &["plan", "-f", "."]);
    assert!(run.stdout.starts_with("1 pod needs a place"), "{}", run.stdout);
    assert!(run.stdout.contains("! ./broken.yaml: cannot be read: No such file"), "{}", run.stdout);
    assert_eq!(run.status, 3);
}

#[test]
fn a_catalog_with_a_mistake_is_refused_by_entry_and_field() {
    let bad = r#"[{"name": "a", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "x"},
        "offerings": [{"Price": 1, "Available": true, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}]"#;
    let run = run(
        &[("w.yaml", &world(&["1"])), ("bad.json", bad)],
        "",
        &["plan", "-f", "w.yaml", "--catalog", "bad.json"],
    );
    assert_eq!((run.status, &*run.stdout), (1, ""));
    assert_eq!(
        run.stderr,
        "error: cannot use the catalog bad.json: catalog bad.json, entry 0 (\"a\"), resources.cpu: \"x\" is not a quantity such as 16 or 64Gi\n"
    );
}

#[test]
fn explain_names_every_place_and_what_would_help() {
    let run = explain(&world(&["1", "20"]), "shop/web-2");
    assert_eq!(
        run.stdout,
        "shop/web-2 cannot be placed.\n  \
           NodePool general  asks for 20 cpu, the most that is free is 15900m\n  \
           node n1           asks for 20 cpu, the most that is free is 1\n\
         It would fit if it asked for at most 15900m cpu.\n"
    );
    assert_eq!(run.status, 2);
}

#[test]
fn explain_says_why_there() {
    let run = explain(&world(&["1", "3"]), "shop/web-2");
    assert_eq!(
        run.stdout,
        "\
shop/web-2 needs a new node of NodePool general: the node that is there does not take it.
  It is cheapest as small in z-a (on-demand) for $0.200/h, of 2 types that hold its pods.
  It has the node for itself.
  The node must have: karpenter.sh/capacity-type In [on-demand], karpenter.sh/nodepool In [general]
Passed over, once all pods have their places:
  node n1  asks for 3 cpu, the most that is free is 1
"
    );
    assert_eq!(run.status, 0);
    let on_node = explain(&world(&["1"]), "shop/web-1");
    assert_eq!(
        on_node.stdout,
        "shop/web-1 fits on node n1: the first node, in order of readiness and name, that takes it.\n"
    );
}

#[test]
fn explain_tells_of_mistakes_in_a_pod_it_cannot_find() {
    let run = explain(&(world(&["1"]) + &pod("bad", "nonsense", "")), "shop/bad");
    assert_eq!(run.status, 1);
    assert!(
        run.stderr.starts_with("error: no pod shop/bad is waiting for a node\n  ! Pod shop/bad: spec."),
        "{}",
        run.stderr
    );
}
