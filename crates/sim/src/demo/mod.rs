//! A story for people who want to see the engine at work: a simulated cluster, four acts, and an audience.
//!
//! The first act happens in two worlds at once, so that one can see what it is worth to expect pods; the story goes on in the
//! one that expects them.
//! The audience decides how fast time passes, so that a story can be watched at any speed and tested at none.

mod act;
mod comparison;
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
pub use comparison::{Comparison, Side, Way};
pub use outcome::Outcome;
use stage::Stage;

use crate::brain::{Birth, Nursery};
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
    /// Hears what was said at a time, and in which world if there are two.
    fn hear(&mut self, at: Wall, way: Option<Way>, news: &News);

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
    /// The burst has come to its end in both worlds.
    Compared(Box<Comparison>),
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
    /// How far the burst is in both worlds, as long as there are two.
    pub comparison: Option<Comparison>,
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
    let (stage, twin) = (Stage::default(), Stage::default());
    let (nursery, twins) = (|birth: &Birth| stage.brain(birth), |birth: &Birth| twin.brain(birth));
    let catalog = catalog()?;
    let mut show = Show {
        world: world(Way::Proactive, seed, &catalog, &nursery),
        stage: &stage,
        twin: Some((world(Way::Reactive, seed, &catalog, &twins), &twin)),
        burst: None,
        audience,
        ended: None,
        until: Moment(0),
    };
    show.idle(BEAT / 2);
    let acts = Act::ALL;
    let mut comparison = None;
    for (number, act) in (1..).zip(acts) {
        if show.ended.is_some() {
            break;
        }
        let at = show.now();
        if let Some((world, _)) = &mut show.twin {
            act.begin(world);
            show.burst = Some(at);
        }
        let title = act.begin(&mut show.world);
        show.audience.hear(at.wall(), None, &News::Act { number, of: acts.len(), title });
        show.await_end(act, at + PATIENCE);
        if let Some(both) = show.part() {
            show.audience.hear(show.now().wall(), None, &News::Compared(Box::new(both.clone())));
            comparison = Some(both);
        }
        show.idle(BEAT);
    }
    let (ground, ended) = (&show.world.ground, show.ended.take());
    Ok(Outcome::of(ground, ended, comparison))
}

fn world<'a>(way: Way, seed: u64, catalog: &Arc<Catalog>, nursery: Nursery<'a>) -> World<'a> {
    World::new(Arc::new(act::plan(seed, way)), Arc::clone(catalog), nursery, false)
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
    /// The same world without expectations, as long as the two are compared.
    twin: Option<(World<'a>, &'a Stage)>,
    /// When the burst began that is compared.
    burst: Option<Moment>,
    audience: &'a mut dyn Audience,
    ended: Option<Ended>,
    /// When the audience looks again.
    until: Moment,
}

impl Show<'_> {
    fn now(&self) -> Moment {
        self.world.ground.now()
    }

    /// Goes on until an act has come to its end.
    fn await_end(&mut self, act: Act, deadline: Moment) {
        while self.ended.is_none() && !self.is_over(act) {
            if self.now() >= deadline {
                let what = act.expectation();
                self.ended =
                    Some(Ended::Failed(format!("{what}, but not within {} minutes", PATIENCE / 60_000)));
            }
            self.step();
        }
    }

    /// Whether an act has come to its end in every world.
    fn is_over(&self, act: Act) -> bool {
        let twin = self.twin.as_ref().map(|(world, _)| world);
        // PERF: every pod is looked at, and nobody notices a second.
        self.now().0.is_multiple_of(1_000)
            && twin.into_iter().chain([&self.world]).all(|world| act.is_over(&world.ground))
    }

    /// How far the burst is in both worlds.
    fn comparison(&self) -> Option<Comparison> {
        let side = |world: &World<'_>, burst| Side::of(&world.ground, burst, act::WEB);
        let (twin, _) = self.twin.as_ref()?;
        let burst = self.burst?;
        Some(Comparison { reactive: side(twin, burst), proactive: side(&self.world, burst) })
    }

    /// Leaves the second world; tells what became of the burst in both, if it came to its end.
    fn part(&mut self) -> Option<Comparison> {
        let comparison = self.comparison().filter(|_| self.ended.is_none());
        self.twin = None;
        comparison
    }

    /// Goes on for a while.
    fn idle(&mut self, millis: u64) {
        let end = self.now() + millis;
        while self.ended.is_none() && self.now() < end {
            self.step();
        }
    }

    /// Goes on a little, so that acts begin and end at the same moments however seldom the audience looks.
    fn step(&mut self) {
        const STEP: u64 = 100;
        let now = self.now();
        if now >= self.until {
            let (at, overview) = (now.wall(), self.stage.overview(now.wall()));
            let scene = Scene { moment: now, at, overview, comparison: self.comparison() };
            match self.audience.look(&scene) {
                Next::On(millis) => self.until = now + millis.max(1),
                Next::Leave => {
                    self.ended = Some(Ended::Left);
                    return;
                }
            }
        }
        let is_alone = self.twin.is_none();
        let twin = self.twin.as_mut().map(|(world, stage)| (Way::Reactive, world, *stage));
        for (way, world, stage) in twin.into_iter().chain([(Way::Proactive, &mut self.world, self.stage)]) {
            if let Err(violation) = world.run_until(now + STEP) {
                self.ended = Some(Ended::Failed(format!("{}: {}", violation.check, violation.message)));
            }
            for (at, news) in stage.take() {
                self.audience.hear(at, (!is_alone).then_some(way), &news);
            }
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
