//! Room that CapacityBuffers ask to be kept.
//!
//! COMPAT: sizes are Karpenter 1.15's (`computeReplicas`): the larger of replicas and percentage, at most what the limits
//! hold. Quotas are Cluster Autoscaler's addition. A strategy that is not known, and limits that no request is counted
//! against, are refused rather than taken for the usual.

use crate::demand::quota::{Quotas, whole};
use crate::demand::{Beliefs, Expected, Facts, Owner, Quota, Source, Template};
use crate::resources::{PODS, Resources};

/// The name of the source.
pub const NAME: &str = "buffer";
/// The strategy that keeps nodes running; others are left alone.
pub const ACTIVE: &str = "buffer.x-k8s.io/active-capacity";
/// Most pods that one buffer keeps room for; more are taken for a slip of the pen.
const MOST: u32 = 100_000;

/// A CapacityBuffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// What it is.
    pub owner: Owner,
    /// When it was made, in milliseconds since 1970; the older comes first where a quota is short.
    pub created: i64,
    /// How the room is kept.
    pub strategy: String,
    /// What each pod needs, or why that cannot be told.
    pub template: Result<Template, Unready>,
    /// How many pods to keep room for.
    pub replicas: Option<u32>,
    /// How many, in percent of the workload's.
    pub percentage: Option<u32>,
    /// Most that all of them may ask for.
    pub limits: Option<Resources>,
    /// How many pods the workload wants, if the buffer is for one.
    pub workload: Option<u32>,
}

/// Why a buffer cannot be kept: a reason in one word, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// One word, as conditions have it.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// How large a buffer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// How many pods there is to be room for, or why there is none.
    pub replicas: Result<u32, Unready>,
    /// The quota that keeps it from being larger, and how large it would be.
    pub limited_by: Option<(String, u32)>,
}

impl Unready {
    fn failed(message: impl Into<String>) -> Self {
        Self { reason: "ResolutionFailed", message: message.into() }
    }
}

/// How large each buffer is, in the order given.
pub fn sizes(buffers: &[Buffer], quotas: &[Quota]) -> Vec<Sizing> {
    let mut quotas = Quotas::new(quotas);
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|at| (buffers[*at].created, &buffers[*at].owner));
    let mut found = vec![None; buffers.len()];
    for at in order {
        let buffer = &buffers[at];
        let sized = buffer.size().map(|wanted| {
            let Ok(template) = &buffer.template else { return (0, None) };
            // COMPAT: Cluster Autoscaler does not count pods, for the buffer's never become any.
            let allowed = quotas.take(&template.namespace, &template.shape, wanted, false);
            (allowed.count, allowed.limited_by.map(|quota| (quota.to_owned(), wanted)))
        });
        found[at] = Some(match sized {
            Ok((count, limited_by)) => Sizing { replicas: Ok(count), limited_by },
            Err(unready) => Sizing { replicas: Err(unready), limited_by: None },
        });
    }
    found.into_iter().flatten().collect()
}

impl Buffer {
    /// How many pods to keep room for, quotas aside.
    fn size(&self) -> Result<u32, Unready> {
        if !self.strategy.is_empty() && self.strategy != ACTIVE {
            return Err(Unready::failed(format!(
                "provisioning strategy {} is not supported; {ACTIVE} is",
                self.strategy
            )));
        }
        let template = self.template.as_ref().map_err(Clone::clone)?;
        let share = self.percentage.zip(self.workload).map(|(percentage, pods)| {
            let share = u64::from(pods) * u64::from(percentage);
            u32::try_from(share.div_ceil(100)).unwrap_or(u32::MAX)
        });
        let wanted = share.max(self.replicas);
        let limit = self.limits.as_ref().map(|limits| {
            let requests = template.shape.requests.iter().filter(|(name, _)| *name != PODS);
            let most = requests.filter_map(|(name, each)| whole(limits.listed(name)?, each)).min();
            most.ok_or_else(|| Unready::failed("the limits name no resource that the pods ask for"))
        });
        let size = match (wanted, limit.transpose()?) {
            (Some(wanted), Some(limit)) => wanted.min(limit),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => 0,
        };
        if size > MOST {
            return Err(Unready::failed(format!("{size} pods are more than one buffer can keep room for")));
        }
        Ok(size)
    }
}

/// Expects the pods that buffers stand for.
pub(crate) struct Buffers;

impl Source for Buffers {
    fn name(&self) -> &'static str {
        NAME
    }

    fn expect(&self, facts: &Facts, beliefs: &mut Beliefs) {
        for (buffer, sizing) in facts.buffers.iter().zip(sizes(&facts.buffers, &facts.quotas)) {
            let (Ok(count), Ok(template)) = (sizing.replicas, &buffer.template) else { continue };
            beliefs.expected.push(Expected {
                source: NAME,
                owner: buffer.owner.clone(),
                template: template.clone(),
                first: 1,
                count,
                when: facts.now,
                sure: 100,
                because: format!("{} keeps room for {count} pods", buffer.owner),
            });
        }
    }
}
