//! What an operator can be told on the command line or in the environment.
//!
//! COMPAT: names, environment variables and defaults are v1.15.0's (`pkg/operator/options`) where the meaning is the same.

mod companion;
mod gates;
mod ignored;
mod proactive;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use headstart_api::GoDuration;
use headstart_cloud::catalog::Source;
use headstart_core::snapshot::{MinValues, Preferences};
use headstart_engine::{Consolidation, Mode, Settings};
use headstart_intake::SchedulerConfig;

use crate::error::OperatorError;

pub(crate) use companion::Company;
pub(crate) use gates::Gates;
pub(crate) use ignored::Ignored;
pub(crate) use proactive::Ahead;

/// What an operator can be told.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What becomes of decisions
    #[arg(
        long,
        env = "HEADSTART_MODE",
        value_enum,
        value_name = "MODE",
        default_value = "provisioner",
        help_heading = "Mode"
    )]
    pub(crate) mode: ModeChoice,
    #[command(flatten)]
    pub(crate) access: Access,
    #[command(flatten)]
    pub(crate) cloud: CloudOptions,
    #[command(flatten)]
    pub(crate) deciding: Deciding,
    #[command(flatten)]
    pub(crate) ahead: Ahead,
    #[command(flatten)]
    pub(crate) company: Company,
    #[command(flatten)]
    pub(crate) election: Replicas,
    #[command(flatten)]
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) ignored: Ignored,
}

/// What becomes of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeChoice {
    /// Nodes are bought and taken away, instead of Karpenter
    Provisioner,
    /// Pods that are expected are shown to Karpenter or another autoscaler, which buys nodes for them
    Companion,
    /// Nothing is changed: decisions are compared with what the cluster's autoscaler does
    Observe,
}

/// How to get at the cluster.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Access {
    /// The kubeconfig to use; otherwise $KUBECONFIG, ~/.kube/config, or what a pod finds in its cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use instead of the current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// How many requests a second are sent to the API server, watches and the lease aside
    #[arg(long, env, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_client_qps: u32,
    /// How many requests may be sent at once after a quiet time
    #[arg(long, env, value_name = "NUMBER", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_client_burst: u32,
    /// The namespace of the operator, if it does not run in a pod
    #[arg(long, env, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    pub(crate) system_namespace: String,
}

/// Where nodes come from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cloud")]
pub(crate) struct CloudOptions {
    /// Where nodes come from
    #[arg(long, env = "HEADSTART_CLOUD", value_enum, value_name = "CLOUD", default_value = "kwok")]
    pub(crate) cloud: CloudChoice,
    /// What the KWOK cloud sells: kwok, aws, azure, or a file of instance types as Karpenter's KWOK provider reads it
    #[arg(long, env = "INSTANCE_TYPES_FILE_PATH", value_name = "CATALOG", default_value = "kwok")]
    pub(crate) catalog: Source,
    /// Where the test cloud listens
    #[arg(long, env = "TESTCLOUD_URL", value_name = "URL", required_if_eq("cloud", "testcloud"))]
    pub(crate) testcloud_url: Option<String>,
}

/// A cloud by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CloudChoice {
    /// Nodes without machines, kept alive by the kwok controller
    Kwok,
    /// A cloud that can be made to misbehave, for tests
    Testcloud,
}

/// How decisions are made.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Decisions")]
pub(crate) struct Deciding {
    /// The longest time that pods are collected before nodes are bought for them
    #[arg(long, env, value_name = "DURATION", default_value = "10s")]
    pub(crate) batch_max_duration: GoDuration,
    /// Whether preferred affinities and spreading that may be violated count
    #[arg(long, env, value_enum, value_name = "POLICY", default_value = "Respect")]
    pub(crate) preference_policy: PreferencePolicy,
    /// What happens if a NodePool's minValues cannot be met
    #[arg(long, env, value_enum, value_name = "POLICY", default_value = "Strict")]
    pub(crate) min_values_policy: MinValuesPolicy,
    #[arg(
        long,
        env,
        value_name = "NAME=BOOL,…",
        default_value = "",
        hide_default_value = true,
        help = "Features to switch on or off: ReservedCapacity (on by default), CapacityBuffer, NodeOverlay, SpotToSpotConsolidation"
    )]
    pub(crate) feature_gates: String,
    /// How kube-scheduler is configured, as YAML or JSON with podTopologySpread.defaultConstraints
    #[arg(long, env, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) scheduler_config: String,
    /// Whether pods are nominated to the nodes that are bought for them, so that they go there
    #[arg(long, env = "HEADSTART_NOMINATE", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) nominate: bool,
    /// How to look for nodes that are not worth their price
    #[arg(
        long,
        env = "HEADSTART_CONSOLIDATION",
        value_enum,
        value_name = "SEARCH",
        default_value = "compat"
    )]
    pub(crate) consolidation: ConsolidationSearch,
}

/// How to look for nodes that are not worth their price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConsolidationSearch {
    /// As Karpenter does: one move at a time, with at most one new node
    Compat,
    /// Any set of nodes, any number of new ones, as many moves at once as budgets allow
    Search,
}

/// Whether preferences count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum PreferencePolicy {
    /// They are met if that is possible
    Respect,
    /// They are not looked at
    Ignore,
}

/// What happens if minimum values cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum MinValuesPolicy {
    /// Nothing is bought
    Strict,
    /// As many as there are will do
    BestEffort,
}

/// Who of several replicas acts.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct Replicas {
    /// Acts without a lease; only safe if nothing else provisions, Karpenter included
    #[arg(long, env, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true",
        action = ArgAction::Set, hide_default_value = true)]
    pub(crate) disable_leader_election: bool,
    /// The Lease that the one who acts holds; a provisioner takes Karpenter's own, karpenter-leader-election, so that the two
    /// never act at once, others headstart-companion and headstart-observe
    #[arg(long, env, value_name = "NAME")]
    pub(crate) leader_election_name: Option<String>,
    /// Its namespace; otherwise the one in which it exists already, or the operator's
    #[arg(long, env, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    pub(crate) leader_election_namespace: String,
}

/// What the process offers and writes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Service")]
pub(crate) struct Service {
    /// The port of /metrics and /observations; 0 takes any
    #[arg(long, env, value_name = "PORT", default_value_t = 8080)]
    pub(crate) metrics_port: u16,
    /// The port of /healthz and /readyz; 0 takes any
    #[arg(long, env, value_name = "PORT", default_value_t = 8081)]
    pub(crate) health_probe_port: u16,
    /// How much is logged
    #[arg(long, env, value_enum, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: LogLevel,
    /// How log lines look: json, text, or text on a terminal and json elsewhere
    #[arg(long, env = "LOG_FORMAT", value_enum, value_name = "FORMAT", default_value = "auto")]
    pub(crate) log_format: LogFormat,
    /// Records all events and decisions in a file, for `headstart replay`; it grows quickly and holds whole objects
    #[arg(long, env = "HEADSTART_JOURNAL", value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Remembers in a file what was decided and what became of it, so that `headstart report` knows it after a restart
    #[arg(long, env = "HEADSTART_OBSERVATIONS", value_name = "FILE")]
    pub(crate) observations: Option<PathBuf>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    /// Only what somebody should look at
    Error,
    /// Also what somebody may want to look at
    Warn,
    /// Also every decision
    Info,
    /// Everything
    Debug,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere
    Auto,
    /// One JSON object a line
    Json,
    /// For people
    Text,
}

impl Options {
    /// The Lease that the one who acts holds.
    pub(crate) fn lease(&self) -> &str {
        let usual = match self.mode {
            ModeChoice::Provisioner => "karpenter-leader-election",
            ModeChoice::Companion => "headstart-companion",
            ModeChoice::Observe => "headstart-observe",
        };
        self.election.leader_election_name.as_deref().unwrap_or(usual)
    }

    /// The engine's settings, the cloud's part aside; options that contradict what we can do are refused here.
    pub(crate) fn settings(&self, gates: &Gates, seed: u64) -> Result<Settings, OperatorError> {
        let Deciding {
            batch_max_duration,
            preference_policy,
            min_values_policy,
            feature_gates: _,
            scheduler_config,
            nominate,
            consolidation,
        } = &self.deciding;
        SchedulerConfig::parse(scheduler_config)?;
        let batch_max = Duration::try_from(batch_max_duration.as_signed()).map_err(|_| {
            OperatorError::Option(format!(
                "BATCH_MAX_DURATION (--batch-max-duration) must not be negative: {batch_max_duration}"
            ))
        })?;
        Ok(Settings {
            mode: match self.mode {
                ModeChoice::Provisioner => Mode::Provisioner,
                ModeChoice::Companion => Mode::Companion,
                ModeChoice::Observe => Mode::Observe,
            },
            batch_max,
            preferences: match preference_policy {
                PreferencePolicy::Respect => Preferences::Respect,
                PreferencePolicy::Ignore => Preferences::Ignore,
            },
            min_values: match min_values_policy {
                MinValuesPolicy::Strict => MinValues::Strict,
                MinValuesPolicy::BestEffort => MinValues::BestEffort,
            },
            overlays: gates.node_overlay,
            reserved_capacity: gates.reserved_capacity,
            nominate: *nominate,
            consolidation: match consolidation {
                ConsolidationSearch::Compat => Consolidation::Compat,
                ConsolidationSearch::Search => Consolidation::Search,
            },
            spot_to_spot: gates.spot_to_spot,
            static_capacity: gates.static_capacity,
            terminate_first_drift: gates.terminate_first_drift,
            terminate_first_repair: gates.terminate_first_repair,
            scheduler_config: scheduler_config.clone(),
            proactive: self.ahead.settings(self.mode, gates)?,
            companion: self.company.settings()?,
            seed,
            ..Settings::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};
    use headstart_engine::settings::{Leading, Proactive, With};

    use super::*;

    fn command() -> Command {
        Options::augment_args(Command::new("run"))
    }

    fn parsed(args: &[&str]) -> Result<Options, clap::Error> {
        let matches = command().try_get_matches_from(["run"].iter().chain(args))?;
        Options::from_arg_matches(&matches)
    }

    fn settings(args: &[&str]) -> Result<Settings, OperatorError> {
        let options = parsed(args).unwrap();
        options.settings(&Gates::parse(&options.deciding.feature_gates)?, 7)
    }

    #[test]
    fn names_and_defaults_are_upstreams() {
        let expected = [
            ("METRICS_PORT", "8080"),
            ("HEALTH_PROBE_PORT", "8081"),
            ("KUBE_CLIENT_QPS", "200"),
            ("KUBE_CLIENT_BURST", "300"),
            ("DISABLE_LEADER_ELECTION", "false"),
            ("LEADER_ELECTION_NAMESPACE", ""),
            ("LOG_LEVEL", "info"),
            ("BATCH_MAX_DURATION", "10s"),
            ("PREFERENCE_POLICY", "Respect"),
            ("MIN_VALUES_POLICY", "Strict"),
            ("FEATURE_GATES", ""),
            ("SCHEDULER_CONFIG", ""),
            ("INSTANCE_TYPES_FILE_PATH", "kwok"),
            ("POD_INJECTION_LIMIT", "5000"),
            ("NODE_LIMIT", "15000"),
            ("PROACTIVE_SCALEUP_THRESHOLD", "0.8"),
        ];
        let command = command();
        for (variable, default) in expected {
            let arg = command.get_arguments().find(|arg| arg.get_env().is_some_and(|env| env == variable));
            let arg = arg.unwrap_or_else(|| panic!("there is no {variable}"));
            assert_eq!(arg.get_default_values(), [default], "{variable}");
        }
    }

    #[test]
    fn each_mode_has_its_lease_and_its_own_idea_of_what_to_expect() {
        let of = |args: &[&str]| {
            (parsed(args).unwrap().lease().to_owned(), settings(args).unwrap().proactive.enabled)
        };
        assert_eq!(of(&[]), ("karpenter-leader-election".to_owned(), false));
        assert_eq!(of(&["--mode=companion"]), ("headstart-companion".to_owned(), true));
        assert_eq!(of(&["--mode=observe"]), ("headstart-observe".to_owned(), true));
        assert!(!of(&["--mode=observe", "--enable-proactive-scaleup=false"]).1);
        assert_eq!(of(&["--leader-election-name=mine"]).0, "mine");
    }

    #[test]
    fn a_companion_leaves_buying_to_others_and_says_how_it_leads() {
        let all = settings(&[
            "--mode=companion",
            "--companion-with=buffers",
            "--placeholder-namespace=room",
            "--placeholder-priority=-1000",
            "--placeholder-image=pause",
        ]);
        let expected =
            Leading { with: With::Buffers, namespace: "room".into(), priority: -1000, image: "pause".into() };
        let all = all.unwrap();
        assert_eq!(all.companion, expected);
        assert!(all.proactive.others_buy && !all.proactive.has_buffers());
        assert_eq!(settings(&[]).unwrap().companion, Leading::default());
    }

    #[test]
    fn every_option_is_a_flag_too_and_says_what_it_is_for() {
        for arg in command().get_arguments() {
            assert!(arg.get_long().is_some() && arg.get_help().is_some(), "{}", arg.get_id());
        }
    }

    #[test]
    fn settings_follow_the_options() {
        let settings = settings(&[
            "--batch-max-duration=1m30s",
            "--preference-policy=Ignore",
            "--min-values-policy=BestEffort",
            "--feature-gates=NodeOverlay=true,ReservedCapacity=false,SpotToSpotConsolidation=true",
            "--nominate=false",
            "--consolidation=search",
            "--scheduler-config=podTopologySpread: {}",
        ]);
        let expected = Settings {
            batch_max: Duration::from_secs(90),
            preferences: Preferences::Ignore,
            min_values: MinValues::BestEffort,
            overlays: true,
            reserved_capacity: false,
            nominate: false,
            consolidation: Consolidation::Search,
            spot_to_spot: true,
            scheduler_config: "podTopologySpread: {}".into(),
            seed: 7,
            ..Settings::default()
        };
        assert_eq!(settings.unwrap(), expected);
    }

    #[test]
    fn nodes_before_pods_are_switched_on_by_either_of_two_switches() {
        let proactive = |args: &[&str]| settings(args).unwrap().proactive;
        assert!(!proactive(&[]).is_on() && !proactive(&[]).has_buffers());
        let gate = proactive(&["--feature-gates=CapacityBuffer=true"]);
        assert!(gate.has_buffers() && !gate.enabled && !gate.has_headroom());
        let expected = Proactive {
            enabled: true,
            pod_injection_limit: 10,
            node_limit: 20,
            threshold: 1.0,
            most_dollars: Some(2.5),
            pool_selector: "team=shop".into(),
            only_chosen: true,
            ..Proactive::default()
        };
        let all = proactive(&[
            "--enable-proactive-scaleup",
            "--pod-injection-limit=10",
            "--node-limit=20",
            "--proactive-scaleup-threshold=1",
            "--proactive-scaleup-max-hourly-cost=2.5",
            "--proactive-scaleup-nodepool-selector=team=shop",
            "--proactive-scaleup-workloads=annotated",
        ]);
        assert_eq!(all, expected);
        assert!(all.has_buffers() && !all.has_headroom());
    }

    #[test]
    fn switches_can_be_set_with_and_without_a_value() {
        for (args, expected) in [
            (&["--disable-leader-election"][..], true),
            (&["--disable-leader-election=true"], true),
            (&["--disable-leader-election=false"], false),
            (&[], false),
        ] {
            assert_eq!(parsed(args).unwrap().election.disable_leader_election, expected, "{args:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let message = |args: &[&str]| settings(args).unwrap_err().to_string();
        assert!(message(&["--batch-max-duration=-1s"]).contains("must not be negative"));
        assert!(
            message(&["--feature-gates=PodDeletionCostManagement=true"])
                .contains("PodDeletionCostManagement")
        );
        assert!(message(&["--proactive-scaleup-threshold=0"]).contains("PROACTIVE_SCALEUP_THRESHOLD"));
        assert!(message(&["--proactive-scaleup-threshold=1.1"]).contains("at most 1"));
        assert!(message(&["--proactive-scaleup-max-hourly-cost=-1"]).contains("must not be negative"));
        assert!(message(&["--proactive-scaleup-nodepool-selector=a in (b)"]).contains("a in (b)"));
        assert!(message(&["--scheduler-config=profiles: []"]).contains("SCHEDULER_CONFIG"));
        assert!(message(&["--placeholder-priority=0"]).contains("PLACEHOLDER_PRIORITY"));
        for bad in [
            "--preference-policy=respect",
            "--kube-client-qps=0",
            "--cloud=testcloud",
            "--batch-max-duration=5",
        ] {
            assert!(parsed(&[bad]).is_err(), "{bad}");
        }
    }
}
