//! A story for people who want to see the engine at work: a simulated cluster, four acts, and an audience.
//!
//! The audience decides how fast time passes, so that a story can be watched at any speed and tested at none.

mod act;
mod outcome;
mod stage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use headstart_cloud::Catalog;
use headstart_cloud::catalog::{CatalogError, Source};
use headstart_engine::overview::Overview;
use headstart_engine::{Level, Wall};

use act::Act;
pub use outcome::Outcome;
use stage::Stage;

use crate::timeline::Moment;
use crate::world::World;

/// How long an act may take before the story counts as failed.
const PATIENCE: u64 = 15 * 60_000;
/// How long the stage stays as it is between two acts, so that it can be looked at.
const BEAT: u64 = 10_000;
/// The families of instance types that the cloud of the story sells, and their sizes. The largest is modest, so that a
/// burst needs several nodes.
const FAMILIES: [&str; 4] = ["c7i", "m7i", "c7a", "m7a"];
const SIZES: [&str; 4] = ["xlarge", "2xlarge", "4xlarge", "8xlarge"];

/// Who watches a story.
pub trait Audience {
    /// Hears what was said at a time.
    fn hear(&mut self, at: Wall, news: &News);

    /// Looks at the stage, and says how the story goes on.
    fn look(&mut self, scene: &Scene) -> Next;
}

/// Something that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An act begins.
    Act {
        /// Its number, from one.
        number: usize,
        /// How many there are.
        of: usize,
        /// What happens in it.
        title: String,
    },
    /// The engine says what it decided or noticed, and why.
    Line {
        /// How much it matters.
        level: Level,
        /// What.
        message: String,
        /// Names and numbers.
        fields: Vec<(String, String)>,
    },
}

/// What is to be seen at a moment.
#[derive(Clone, Debug)]
pub struct Scene {
    /// When, since the story began.
    pub moment: Moment,
    /// When, on the simulated wall clock.
    pub at: Wall,
    /// What the engine knows.
    pub overview: Overview,
}

/// How a story goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// So many simulated milliseconds until the next look.
    On(u64),
    /// The audience leaves.
    Leave,
}

/// Plays the story.
pub fn play(seed: u64, audience: &mut dyn Audience) -> Result<Outcome, CatalogError> {
    let stage = Stage::default();
    let nursery = |birth: &crate::brain::Birth| stage.brain(birth);
    let plan = Arc::new(act::plan(seed));
    let mut show = Show {
        world: World::new(plan, catalog()?, &nursery, false),
        stage: &stage,
        audience,
        ended: None,
        until: Moment(0),
    };
    show.idle(BEAT / 2);
    let acts = Act::ALL;
    for (number, act) in (1..).zip(acts) {
        if show.ended.is_some() {
            break;
        }
        let title = act.begin(&mut show.world);
        let at = show.world.ground.now();
        show.audience.hear(at.wall(), &News::Act { number, of: acts.len(), title });
        show.await_end(act, at + PATIENCE);
        show.idle(BEAT);
    }
    let (ground, ended) = (&show.world.ground, show.ended.take());
    Ok(Outcome::of(ground, ended))
}

/// How a story ended before its end.
#[derive(Debug)]
enum Ended {
    Left,
    Failed(String),
}

struct Show<'a> {
    world: World<'a>,
    stage: &'a Stage,
    audience: &'a mut dyn Audience,
    ended: Option<Ended>,
    /// When the audience looks again.
    until: Moment,
}

impl Show<'_> {
    /// Goes on until an act has come to its end.
    fn await_end(&mut self, act: Act, deadline: Moment) {
        while self.ended.is_none() && !self.is_over(act) {
            if self.world.ground.now() >= deadline {
                let what = act.expectation();
                self.ended =
                    Some(Ended::Failed(format!("{what}, but not within {} minutes", PATIENCE / 60_000)));
            }
            self.step();
        }
    }

    /// Whether an act has come to its end.
    fn is_over(&self, act: Act) -> bool {
        // PERF: every pod is looked at, and nobody notices a second.
        self.world.ground.now().0.is_multiple_of(1_000) && act.is_over(&self.world.ground)
    }

    /// Goes on for a while.
    fn idle(&mut self, millis: u64) {
        let end = self.world.ground.now() + millis;
        while self.ended.is_none() && self.world.ground.now() < end {
            self.step();
        }
    }

    /// Goes on a little, so that acts begin and end at the same moments however seldom the audience looks.
    fn step(&mut self) {
        const STEP: u64 = 100;
        let now = self.world.ground.now();
        if now >= self.until {
            let (wall, overview) = (now.wall(), self.stage.overview(now.wall()));
            match self.audience.look(&Scene { moment: now, at: wall, overview }) {
                Next::On(millis) => self.until = now + millis.max(1),
                Next::Leave => {
                    self.ended = Some(Ended::Left);
                    return;
                }
            }
        }
        if let Err(violation) = self.world.run_until(now + STEP) {
            self.ended = Some(Ended::Failed(format!("{}: {}", violation.check, violation.message)));
        }
        for (at, news) in self.stage.take() {
            self.audience.hear(at, &news);
        }
    }
}

/// What the cloud of the story sells: some real types with their prices.
fn catalog() -> Result<Arc<Catalog>, CatalogError> {
    let all = Catalog::load(&Source::Aws)?;
    let is_sold = |name: &str| {
        name.split_once('.').is_some_and(|(family, size)| FAMILIES.contains(&family) && SIZES.contains(&size))
    };
    let types = all.types().iter().filter(|t| is_sold(&t.name)).map(|t| (**t).clone()).collect();
    Ok(Arc::new(Catalog::new("demo", types, all.well_known.clone())))
}
