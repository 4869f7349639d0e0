use super::*;

/// An audience that writes down what it hears and never makes anybody wait.
#[derive(Default)]
struct Notes {
    acts: Vec<String>,
    lines: Vec<String>,
    most_waiting: usize,
    leaves_at: Option<Moment>,
}

impl Audience for Notes {
    fn hear(&mut self, at: Wall, news: &News) {
        match news {
            News::Act { number, of, title } => self.acts.push(format!("{number}/{of} {title}")),
            News::Line { message, fields, .. } => {
                self.lines.push(format!("{} {message} {fields:?}", at.stamp()));
            }
        }
    }

    fn look(&mut self, scene: &Scene) -> Next {
        self.most_waiting = self.most_waiting.max(scene.overview.waiting);
        if self.leaves_at.is_some_and(|at| scene.moment >= at) { Next::Leave } else { Next::On(1_000) }
    }
}

#[test]
fn the_story_comes_true_whatever_the_seed() {
    for seed in 1..=3 {
        let mut notes = Notes::default();
        let outcome = play(seed, &mut notes).unwrap();
        assert_eq!(outcome.failure, None, "seed {seed}: {:#?}", notes.lines);
        assert!(outcome.is_good());
        assert_eq!((notes.acts.len(), outcome.left), (4, 0));
        assert!(outcome.pods > 260, "the pods of the dead node came again");
        assert!(notes.most_waiting > 100, "the burst was seen, {} waiting", notes.most_waiting);
        assert!(notes.lines.iter().any(|line| line.contains("ran dry, took")), "{:#?}", notes.lines);
    }
}

#[test]
fn how_often_one_looks_does_not_change_the_story() {
    struct Rarely(Notes);
    impl Audience for Rarely {
        fn hear(&mut self, at: Wall, news: &News) {
            self.0.hear(at, news);
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
