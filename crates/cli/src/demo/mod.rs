//! `headstart demo`: the engine at work in a simulated cluster.

mod comparison;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use headstart_api::GoDuration;
use headstart_engine::overview::Overview;
use headstart_engine::{Level, Wall};
use headstart_sim::demo::{self, Audience, Comparison, News, Next, Outcome, Scene, Way};

use crate::output::Paint;
use crate::plan::dollars;
use crate::screen::{self, Entry, Frame, Key, Log, Mark, Terminal};

/// Watch Headstart at work in a simulated cluster: no cloud, no cluster, no configuration
///
/// The engine is the one that `headstart run` runs; the cluster, its kubelets and the cloud around it are simulated, and so
/// is time. A burst of pods, in two worlds side by side: one buys nodes for pods that wait, the other also for pods that are
/// expected. Then, with expectations, an offering that runs dry, a node that dies, and the end of it all.
#[derive(clap::Args)]
#[command(after_help = "\
On a terminal: q quits, the space bar pauses. Elsewhere: a line for each decision, and one now and then for the state.

Exit status: 0 if every pod ran and no instance is left, or if you quit; 1 if not, or if --for was too short to tell.

Examples:
  headstart demo                    about a quarter of a minute
  headstart demo --speed 5          slowly
  headstart demo --speed 0 | less   all at once, as lines")]
pub(crate) struct Args {
    /// How many times faster than real time; 0 is as fast as possible
    #[arg(long, value_name = "FACTOR", default_value_t = 20)]
    speed: u32,
    /// What chance in the simulated world comes from: how long nodes take, and the like
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Stop after so much simulated time, such as 2m
    #[arg(long = "for", value_name = "DURATION")]
    length: Option<GoDuration>,
}

/// How often a screen is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// How much simulated time passes between two looks if nobody draws.
const LOOK: Duration = Duration::from_secs(1);
/// After how much simulated time the state is told on a line.
const STATE: u64 = 10_000;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut pace = Pace { speed: args.speed, end: None, next: Instant::now(), error: None, has_quit: false };
    pace.end = args.length.as_ref().map(|length| length.as_nanos().max(0) as u64 / 1_000_000);
    let outcome = if Terminal::is_there() {
        let mut live = Live {
            terminal: Terminal::open()?,
            pace,
            log: Log::default(),
            title: String::new(),
            comparison: None,
            paint: Paint::of(&io::stdout()),
            is_paused: false,
        };
        let outcome = demo::play(args.seed, &mut live);
        pace = live.pace;
        outcome
    } else {
        let mut lines = Lines { pace, log: Log::default(), told: None };
        let outcome = demo::play(args.seed, &mut lines);
        lines.print_news();
        pace = lines.pace;
        outcome
    };
    if let Some(error) = pace.error {
        return Err(error.into());
    }
    let outcome = outcome?;
    report(&outcome, args.seed, Paint::of(&io::stdout()), &mut io::stdout())?;
    Ok(if outcome.is_good() || pace.has_quit { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How fast time passes, and why it stopped.
struct Pace {
    speed: u32,
    /// The end of simulated time, in milliseconds.
    end: Option<u64>,
    /// When the next look is due.
    next: Instant,
    error: Option<io::Error>,
    has_quit: bool,
}

impl Pace {
    /// How long to wait before the next look, which is so much simulated time away.
    fn rest(&mut self, simulated: Duration) -> Duration {
        let Some(real) = simulated.checked_div(self.speed) else { return Duration::ZERO };
        let now = Instant::now();
        // Who was late does not hurry after.
        self.next = (self.next + real).max(now);
        self.next - now
    }

    fn is_over(&self, scene: &Scene) -> bool {
        self.error.is_some() || self.end.is_some_and(|end| scene.moment.0 >= end)
    }
}

/// A story as lines, one after the other.
struct Lines {
    pace: Pace,
    log: Log,
    /// When the state was last told, and what.
    told: Option<(u64, Overview)>,
}

impl Lines {
    fn print(&mut self, line: &str) {
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.pace.error.get_or_insert(error);
        }
    }

    fn print_news(&mut self) {
        for entry in self.log.take() {
            if entry.is_heading() {
                self.print("");
            }
            self.print(&entry.line(Paint::PLAIN));
        }
    }
}

impl Audience for Lines {
    fn hear(&mut self, at: Wall, way: Option<Way>, news: &News) {
        tell(&mut self.log, at, way, news);
    }

    fn look(&mut self, scene: &Scene) -> Next {
        self.print_news();
        if self.pace.is_over(scene) {
            return Next::Leave;
        }
        let now = scene.moment.0;
        let is_new = |(at, told): &(u64, Overview)| now >= at + STATE && differ(told, &scene.overview);
        if self.told.as_ref().is_none_or(is_new) {
            let clock = screen::clock(scene.at);
            match &scene.comparison {
                None => self.print(&format!("{clock}  {}", screen::summary(&scene.overview))),
                Some(both) => {
                    for line in comparison::lines(both) {
                        self.print(&format!("{clock}  {line}"));
                    }
                }
            }
            self.told = Some((now, scene.overview.clone()));
        }
        std::thread::sleep(self.pace.rest(LOOK));
        Next::On(LOOK.as_millis() as u64)
    }
}

/// Whether anything but the time has changed.
fn differ(old: &Overview, new: &Overview) -> bool {
    *new != Overview { oldest: new.oldest, ..old.clone() }
}

/// A story on a screen.
struct Live {
    terminal: Terminal,
    pace: Pace,
    log: Log,
    title: String,
    /// The two worlds of the first act as they were last seen.
    comparison: Option<Comparison>,
    paint: Paint,
    is_paused: bool,
}

impl Live {
    fn draw(&mut self, scene: &Scene) {
        let speed = match self.pace.speed {
            _ if self.is_paused => "paused".to_owned(),
            0 => "as fast as possible".to_owned(),
            speed => format!("{speed}×"),
        };
        let status = format!("simulated {} · {speed} · q quit · space pause", screen::clock(scene.at));
        let title = format!("headstart demo{}", self.title);
        let bars = self.comparison.as_ref().map(comparison::bars).unwrap_or_default();
        let frame = Frame {
            title: &title,
            status: &status,
            bars: &bars,
            overview: &scene.overview,
            remarks: &[],
            log: &self.log,
        };
        let lines = screen::render(&frame, self.terminal.size(), self.paint);
        if let Err(error) = self.terminal.draw(&lines) {
            self.pace.error.get_or_insert(error);
        }
    }
}

impl Audience for Live {
    fn hear(&mut self, at: Wall, way: Option<Way>, news: &News) {
        match news {
            News::Act { number, of, .. } => self.title = format!(" · act {number} of {of}"),
            News::Compared(both) => self.comparison = Some((**both).clone()),
            News::Line { .. } => {}
        }
        tell(&mut self.log, at, way, news);
    }

    fn look(&mut self, scene: &Scene) -> Next {
        if self.pace.is_over(scene) {
            return Next::Leave;
        }
        if let Some(both) = &scene.comparison {
            self.comparison = Some(both.clone());
        }
        let simulated = if self.pace.speed == 0 { LOOK } else { FRAME * self.pace.speed };
        let mut rest = self.pace.rest(simulated);
        loop {
            self.draw(scene);
            let began = Instant::now();
            match self.terminal.key(if self.is_paused { FRAME * 5 } else { rest }) {
                Some(Key::Quit) => {
                    self.pace.has_quit = true;
                    return Next::Leave;
                }
                Some(Key::Pause) => self.is_paused = !self.is_paused,
                None => {}
            }
            rest = rest.saturating_sub(began.elapsed());
            if !self.is_paused && rest.is_zero() {
                return Next::On(simulated.as_millis() as u64);
            }
        }
    }
}

/// Writes down what was said, and in which world if there are two.
fn tell(log: &mut Log, at: Wall, way: Option<Way>, news: &News) {
    match news {
        News::Act { number, of, title } => {
            log.push(Entry::new(at, Mark::Heading, format!("act {number} of {of}: {title}")));
        }
        News::Line { level, message, fields } => {
            let mark = match level {
                Level::Error => Mark::Error,
                Level::Warning => Mark::Warning,
                Level::Info | Level::Debug => Mark::Ordinary,
            };
            let said = screen::decision(message, fields);
            let said = match way {
                Some(way) => said.labelled(&format!("{way:<9}")),
                None => said,
            };
            log.push(Entry::new(at, mark, said));
        }
        News::Compared(both) => {
            for line in comparison::lines(both) {
                log.push(Entry::new(at, Mark::Ordinary, line));
            }
        }
    }
}

/// What became of the story, and what to try next.
fn report(outcome: &Outcome, seed: u64, paint: Paint, out: &mut impl Write) -> anyhow::Result<()> {
    let Outcome { pods, ran, bought, fell_through, left, .. } = outcome;
    let verdict = match &outcome.failure {
        _ if outcome.is_unfinished => "Stopped before the end, so this proves nothing.".to_owned(),
        None => paint.green("Every pod ran, and nothing is left behind."),
        Some(why) => paint.red(format!("✗ {why} (seed {seed})")),
    };
    let ran = if ran == pods { "all ran".to_owned() } else { format!("{ran} ran") };
    writeln!(
        out,
        "
{verdict}

  time   {} of simulated time
  pods   {pods} were made, {ran}: half of them within {}, the slowest after {}
  nodes  {bought} were bought, {fell_through} of them in the next offering because the cheapest had run dry
  money  {} at most, ${:.2} in all
  left   {left} instances, by the simulated cloud's own books",
        screen::duration(outcome.took),
        screen::duration(outcome.median),
        screen::duration(outcome.slowest),
        dollars(outcome.most_per_hour),
        outcome.spent.dollars(),
    )?;
    if let Some(both) = &outcome.comparison {
        let ways = "once with nodes for pods that wait, once also for pods that are expected";
        writeln!(out, "\nThe {} pods of act 1, {ways}:\n", both.proactive.pods)?;
        comparison::table(both, out)?;
    }
    write!(
        out,
        "
Try next:
  headstart demo --seed 7 --speed 10                         another day, more slowly
  headstart plan -f examples/quickstart.yaml --catalog aws   what would be bought for these manifests, and why
  make testbed                                               a real control plane, for `headstart run` and `headstart top`
  headstart run --enable-proactive-scaleup                   nodes for pods that are expected, on a cluster of yours
  headstart run --mode observe                               beside another autoscaler: only tells what it would do
"
    )?;
    Ok(())
}
