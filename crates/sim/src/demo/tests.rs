use headstart_engine::Kind;

use super::*;
use crate::brain;

/// An audience that writes down what it hears and never makes anybody wait.
#[derive(Default)]
struct Notes {
    acts: Vec<String>,
    lines: Vec<String>,
    compared: usize,
    most_waiting: usize,
    leaves_at: Option<Moment>,
    leaves_when_compared: bool,
}

impl Audience for Notes {
    fn hear(&mut self, at: Wall, way: Option<Way>, news: &News) {
        match news {
            News::Act { number, of, title } => self.acts.push(format!("{number}/{of} {title}")),
            News::Line { message, fields, .. } => {
                self.lines.push(format!("{} {way:?} {message} {fields:?}", at.stamp()));
            }
            News::Compared(_) => self.compared += 1,
        }
    }

    fn look(&mut self, scene: &Scene) -> Next {
        self.most_waiting = self.most_waiting.max(scene.overview.waiting);
        let is_late = self.leaves_at.is_some_and(|at| scene.moment >= at);
        let has_seen = self.leaves_when_compared && self.compared > 0;
        if is_late || has_seen { Next::Leave } else { Next::On(1_000) }
    }
}

#[test]
fn the_story_comes_true_whatever_the_seed() {
    for seed in 1..=3 {
        let mut notes = Notes::default();
        let outcome = play(seed, &mut notes).unwrap();
        assert_eq!(outcome.failure, None, "seed {seed}: {:#?}", notes.lines);
        assert!(outcome.is_good());
        assert_eq!((notes.acts.len(), notes.compared, outcome.left), (4, 1, 0));
        assert!(outcome.pods > 460, "the pods of the dead node came again");
        assert!(notes.most_waiting > 100, "the burst was seen, {} waiting", notes.most_waiting);
        for said in ["ran dry, took", "of which are expected", "wants 400 pods and has "] {
            assert!(notes.lines.iter().any(|line| line.contains(said)), "{said}: {:#?}", notes.lines);
        }
    }
}

#[test]
fn how_often_one_looks_does_not_change_the_story() {
    struct Rarely(Notes);
    impl Audience for Rarely {
        fn hear(&mut self, at: Wall, way: Option<Way>, news: &News) {
            self.0.hear(at, way, news);
        }
        fn look(&mut self, _: &Scene) -> Next {
            Next::On(7_777)
        }
    }
    let (mut often, mut rarely) = (Notes::default(), Rarely(Notes::default()));
    play(1, &mut often).unwrap();
    play(1, &mut rarely).unwrap();
    assert_eq!((often.acts, often.lines), (rarely.0.acts, rarely.0.lines));
}

#[test]
fn an_audience_that_leaves_ends_the_story_and_proves_nothing() {
    let mut notes = Notes { leaves_at: Some(Moment(30_000)), ..Notes::default() };
    let outcome = play(1, &mut notes).unwrap();
    assert!(outcome.is_unfinished && !outcome.is_good());
    assert_eq!((outcome.failure, notes.acts.len()), (None, 1));
    assert!(outcome.left > 0, "what was bought is not hidden");
}

#[test]
fn who_expects_pods_buys_sooner_and_keeps_them_waiting_less() {
    for seed in 1..=8 {
        let mut notes = Notes { leaves_when_compared: true, ..Notes::default() };
        let outcome = play(seed, &mut notes).unwrap();
        let Comparison { reactive, proactive } = outcome.comparison.unwrap();
        assert!(reactive.is_done() && proactive.is_done(), "seed {seed}");
        assert_eq!((reactive.waits.len(), proactive.waits.len()), (act::WEB, act::WEB), "seed {seed}");
        let p95 = |side: &Side| side.waits.quantile(0.95);
        assert!(p95(&proactive) < p95(&reactive), "seed {seed}: {proactive:?} {reactive:?}");
        assert!(proactive.last_claim < reactive.last_claim, "seed {seed}: {proactive:?} {reactive:?}");
        assert!(proactive.last_start < reactive.last_start, "seed {seed}: {proactive:?} {reactive:?}");
    }
}

#[test]
fn both_worlds_get_the_same_pods_at_the_same_moments() {
    for seed in 1..=3 {
        let pods = |way| {
            let mut world = world(way, seed, &catalog().unwrap(), &brain::engine);
            world.run_until(Moment(BEAT / 2)).unwrap();
            Act::FlashSale.begin(&mut world);
            world.run_until(Moment(120_000)).unwrap();
            assert!(Act::FlashSale.is_over(&world.ground));
            let log = world.ground.api.log(Kind::Pod).iter().filter(|entry| entry.before.is_none());
            log.map(|entry| (entry.at, entry.key.to_string(), entry.object["spec"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(pods(Way::Reactive), pods(Way::Proactive), "seed {seed}");
    }
}
