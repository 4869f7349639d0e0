//! Objects as whoever foresees pods sees them.

use std::collections::BTreeMap;

use headstart_core::demand::{Overlap, Owner, Quota, Template, Wish};
use headstart_core::labels::WellKnown;

use crate::cronjob::CronJob;
use crate::decode::Fault;
use crate::kept::Made;
use crate::meta::Meta;
use crate::pod::{PodTemplate, PodVolume};
use crate::snapshot::{Builder, Needs, Plain, Wanting};
use crate::storage::Claim;
use crate::workload::{Workload, owner};
use crate::world::World;

/// Says on a workload or a pool whether pods are foreseen for it: `true` or `false`.
const CHOICE: &str = "headstart.dev/proactive-scaleup";

/// What somebody has written on an object about foreseeing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Pods are to be foreseen.
    Yes,
    /// They are not.
    No,
}

impl Choice {
    /// What annotations say.
    pub fn of(annotations: &BTreeMap<String, String>) -> Option<Self> {
        match annotations.get(CHOICE).map(String::as_str) {
            Some("true") => Some(Self::Yes),
            Some("false") => Some(Self::No),
            _ => None,
        }
    }
}

/// A ReplicaSet, StatefulSet or Job.
#[derive(Clone, Copy, Debug)]
pub struct MakerRef<'a>(&'a Workload);

impl MakerRef<'_> {
    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.0.metadata.uid
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.0.metadata.namespace()
    }

    /// What it is.
    pub fn owner(&self) -> Owner {
        self.0.owner()
    }

    /// How many pods it wants.
    pub fn wish(&self) -> Wish {
        self.0.wish()
    }

    /// Why it cannot make pods, in its own words.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }

    /// What is written on it about foreseeing.
    pub fn choice(&self) -> Option<Choice> {
        Choice::of(&self.0.metadata.annotations)
    }
}

/// A CronJob and what there is of its runs.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a>(&'a CronJob);

impl Run<'_> {
    /// What it is.
    pub fn owner(&self) -> Owner {
        owner("CronJob", &self.0.metadata)
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.0.metadata.namespace()
    }

    /// The cron line and its zone.
    pub fn line(&self) -> (&str, Option<&str>) {
        (&self.0.spec.schedule, self.0.spec.time_zone.as_deref())
    }

    /// Whether it makes no runs, or runs without pods.
    pub fn is_suspended(&self) -> bool {
        self.0.is_suspended()
    }

    /// What happens when a run is due while another is under way.
    pub fn overlap(&self) -> Overlap {
        self.0.overlap()
    }

    /// How late a run may begin, in milliseconds.
    pub fn deadline(&self) -> Option<i64> {
        self.0.deadline()
    }

    /// When it last ran as far as it says itself or, if it never has, when it was made, in milliseconds since 1970.
    pub fn last(&self) -> i64 {
        self.0.last()
    }

    /// How many pods a run has at once.
    pub fn pods(&self) -> u32 {
        self.0.job().begins_with()
    }

    /// What is written on it about foreseeing.
    pub fn choice(&self) -> Option<Choice> {
        Choice::of(&self.0.metadata.annotations)
    }
}

impl World {
    /// What makes pods of its own.
    pub fn makers(&self) -> impl Iterator<Item = MakerRef<'_>> {
        let makes =
            |workload: &&Workload| ["ReplicaSet", "StatefulSet", "Job"].contains(&workload.kind.as_str());
        self.workloads.iter().filter(makes).map(MakerRef)
    }

    /// All CronJobs, by namespace and name.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.cron_jobs.values().map(Run)
    }

    /// Jobs that runs of CronJobs have become, each with the name of its CronJob, its uid, when it was made in
    /// milliseconds since 1970, and whether it has ended.
    pub fn jobs_of_runs(&self) -> impl Iterator<Item = ((&str, &str), &str, i64, bool)> {
        self.workloads.iter().filter(|workload| workload.kind == "Job").filter_map(|job| {
            let meta = &job.metadata;
            let parent = meta.owner_references.iter().find(|owner| owner.kind == "CronJob")?;
            let made = meta.creation_timestamp.map_or(0, jiff::Timestamp::as_millisecond);
            Some(((meta.namespace(), parent.name.as_str()), meta.uid.as_str(), made, job.is_over()))
        })
    }

    /// What is left of all quotas that count ordinary pods.
    pub fn quotas_left(&self) -> Vec<Quota> {
        self.quotas.values().filter_map(crate::quota::ResourceQuota::quota).collect()
    }

    /// How often a `PodTemplate` has been changed.
    pub fn generation_of_template(&self, namespace: &str, name: &str) -> Option<i64> {
        self.pod_templates.get(&format!("{namespace}/{name}"))?.generation
    }

    /// A pen for templates.
    pub fn drawing(&self, well_known: &WellKnown) -> Drawing<'_> {
        Drawing { world: self, builder: Builder::new(self, well_known, &Plain) }
    }
}

/// Draws templates: what pods that do not exist yet will need.
pub struct Drawing<'a> {
    world: &'a World,
    builder: Builder<'a>,
}

impl<'a> Drawing<'a> {
    /// What the next pod of a workload needs: what its youngest one does, which has been through admission, or what the
    /// workload's own template says.
    pub fn maker(&mut self, maker: MakerRef<'a>, youngest: Option<(&str, &str)>) -> Result<Template, String> {
        let Workload { kind, metadata, spec, .. } = maker.0;
        let pod = youngest.and_then(|(namespace, name)| self.world.pod(namespace, name));
        let parts = Parts { kind, metadata, template: &spec.template, claims: &spec.volume_claim_templates };
        self.draw(&parts, pod.map(|pod| &*pod.made))
    }

    /// What the pods of a CronJob's next run need.
    pub fn run(&mut self, run: Run<'a>) -> Result<Template, String> {
        let template = &run.0.job().template;
        self.draw(&Parts { kind: "Job", metadata: &run.0.metadata, template, claims: &[] }, None)
    }

    /// What pods of a `PodTemplate` need; none if there is no such template.
    ///
    /// COMPAT: volumes are left out, as in Karpenter 1.15: a buffer's pods have none that exist.
    pub fn named(&mut self, namespace: &str, name: &str) -> Option<Result<Template, String>> {
        let found = self.world.pod_templates.get(&format!("{namespace}/{name}"))?;
        let made = found.template.made(namespace, &self.world.default_requests);
        Some(self.bare("PodTemplate", &found.metadata, &made))
    }

    /// What pods of a workload need, volumes aside, and how many it is scaled to; none if there is no such workload.
    pub fn scaled(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<(Result<Template, String>, u32)> {
        let is_it =
            |workload: &&Workload| workload.kind == kind && workload.metadata.names() == (namespace, name);
        let workload = self.world.workloads.iter().find(is_it)?;
        let made = workload.spec.template.made(namespace, &self.world.default_requests);
        Some((self.bare(kind, &workload.metadata, &made), workload.spec.replicas()))
    }

    /// What a pod that exists needs, volumes aside.
    pub fn like(&mut self, namespace: &str, name: &str) -> Option<Template> {
        let pod = self.world.pod(namespace, name)?;
        let shape = self.builder.shape(&pod.made).ok()?;
        Some(Template { namespace: pod.made.namespace.clone(), shape, ..Template::default() })
    }

    fn bare(&mut self, kind: &str, metadata: &Meta, made: &Made) -> Result<Template, String> {
        let needs = self.needs(kind, metadata, made, &[], &[])?;
        Ok(Template { namespace: metadata.namespace().into(), shape: needs.0, ..Template::default() })
    }

    fn draw(&mut self, parts: &Parts<'_>, youngest: Option<&Made>) -> Result<Template, String> {
        let Parts { kind, metadata, template, claims } = parts;
        let own = template.made(metadata.namespace(), &self.world.default_requests);
        if !own.is_default_scheduled {
            return Err("its pods are another scheduler's".to_owned());
        }
        if own.gated || youngest.is_some_and(|made| made.gated) {
            return Err("its pods wait behind a gate".to_owned());
        }
        let made = youngest.unwrap_or(&own);
        let (shape, volumes) = self.needs(kind, metadata, made, template.volumes(), claims)?;
        let named = template.volumes().iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let named: Vec<String> =
            named.map(|claim| format!("{}/{}", metadata.namespace(), claim.claim_name)).collect();
        let (shared, own): (Vec<_>, Vec<_>) =
            volumes.into_iter().partition(|volume| named.iter().any(|name| **name == *volume.id));
        Ok(Template {
            namespace: metadata.namespace().into(),
            shape,
            shared: shared.into(),
            own: own.into_iter().map(|volume| volume.driver).collect(),
        })
    }

    fn needs(
        &mut self,
        kind: &str,
        metadata: &Meta,
        made: &Made,
        claims: &[PodVolume],
        templates: &[Claim],
    ) -> Result<Needs, String> {
        let fault = |Fault { field, message }| format!("{field}: {message}");
        let wanting = Wanting {
            name: format!("{}-expected", metadata.name).into(),
            namespace: metadata.namespace().into(),
            uid: metadata.uid.as_str().into(),
            created: 0,
            made,
            claims,
            templates,
            controller: Some((kind, &metadata.name)),
        };
        self.builder.needs(&wanting).map_err(fault)?
    }
}

/// What pods are made from.
struct Parts<'a> {
    kind: &'a str,
    metadata: &'a Meta,
    template: &'a PodTemplate,
    /// Claims that are made with each pod.
    claims: &'a [Claim],
}
