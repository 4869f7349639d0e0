//! Pods of the next run of a CronJob, as early as a node takes to come.

use crate::cron::{Cron, Zone};
use crate::demand::{Beliefs, Expected, Facts, Owner, Source, Template, Withheld};

/// How much earlier than needed nodes should be there, in milliseconds.
const MARGIN: i64 = 10_000;
/// How long a run that should have begun is still believed in, in milliseconds.
const PATIENCE: i64 = 60_000;

/// A CronJob.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// What it is.
    pub owner: Owner,
    /// When it runs, as a cron line.
    pub line: String,
    /// The zone of the line by its IANA name; universal time if not said.
    pub zone: Option<String>,
    /// Whether it, or every job it makes, is suspended.
    pub is_suspended: bool,
    /// What happens when a run is due while another is under way.
    pub overlap: Overlap,
    /// How late a run may begin, in milliseconds.
    pub deadline: Option<i64>,
    /// When it last ran or, if it never has, when it was made, in milliseconds since 1970.
    pub last: i64,
    /// How many pods a run has at once.
    pub pods: u32,
    /// What each needs, or why that cannot be told.
    pub template: Result<Template, String>,
    /// How many pods of runs under way there are; none if no run is.
    pub running: Option<u32>,
}

/// What happens when a run is due while another is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Both run.
    #[default]
    Allow,
    /// The new one does not take place.
    Forbid,
    /// The old one is ended.
    Replace,
}

/// Expects the pods of the next run of every CronJob.
pub(crate) struct CronJobs;

impl Source for CronJobs {
    fn name(&self) -> &'static str {
        "cronjob"
    }

    fn expect(&self, facts: &Facts, beliefs: &mut Beliefs) {
        for schedule in facts.schedules.iter().filter(|schedule| !schedule.is_suspended && schedule.pods > 0)
        {
            let run = match schedule.run(facts.now) {
                Ok(run) => run,
                Err(why) => {
                    let owner = schedule.owner.clone();
                    beliefs.withheld.push(Withheld {
                        source: self.name(),
                        owner,
                        count: schedule.pods,
                        why,
                        is_failure: false,
                    });
                    continue;
                }
            };
            let Some(run) = run else { continue };
            let from = run - facts.lead - MARGIN;
            if facts.now < from {
                beliefs.ask_at(from);
                continue;
            }
            // It is believed in until it begins, or should have.
            beliefs.ask_at(run + schedule.patience() + 1);
            let (count, sure) = match (schedule.overlap, schedule.running) {
                (_, None) | (Overlap::Allow, _) => (schedule.pods, 90),
                // It would take place only if the one under way ended in time.
                (Overlap::Forbid, Some(_)) => (0, 0),
                // Its pods go where those of the one that is ended were.
                (Overlap::Replace, Some(running)) => (schedule.pods.saturating_sub(running), 90),
            };
            let Ok(template) = &schedule.template else { continue };
            beliefs.expected.push(Expected {
                source: self.name(),
                owner: schedule.owner.clone(),
                template: template.clone(),
                first: 1,
                count,
                when: run,
                sure,
                because: format!("{} runs next at {}", schedule.owner, stamp(run)),
            });
        }
    }
}

impl Schedule {
    /// How late a run is still believed in.
    fn patience(&self) -> i64 {
        self.deadline.map_or(PATIENCE, |deadline| deadline.min(PATIENCE))
    }

    /// The run that is due or comes next; none if there is none.
    fn run(&self, now: i64) -> Result<Option<i64>, String> {
        let cron = Cron::parse(&self.line).map_err(|error| format!("its schedule {error}"))?;
        let zone = match &self.zone {
            None => Zone::UTC,
            Some(name) => Zone::named(name).ok_or_else(|| format!("there is no time zone {name:?}"))?,
        };
        self.template.as_ref().map_err(Clone::clone)?;
        // Runs before that have begun, or will not begin any more.
        let since = self.last.max(now - self.patience() - 1);
        Ok(cron.next(since, &zone))
    }
}

fn stamp(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |stamp| stamp.to_string())
}
