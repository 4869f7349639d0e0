//! `headstart top`: a cluster's pods, nodes and money at a glance.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use headstart_core::price::Price;
use headstart_engine::overview::Overview;
use headstart_operator::{Note, ObserveOptions, View, observe};

use crate::output::Paint;
use crate::screen::{self, Entry, Frame, Key, Log, Mark, Said, Size, Terminal};

/// Watch a cluster: pods that wait and run, nodes by type, what they cost, and what Karpenter or Headstart tells
///
/// Nothing is changed: pods, nodes, NodeClaims and events are read and watched, nothing else.
#[derive(clap::Args)]
#[command(after_help = "\
On a terminal: q quits. Elsewhere: a line every few seconds, and one for each event.

Examples:
  headstart top --catalog aws    with AWS's prices
  headstart top --once           one look, for a script")]
pub(crate) struct Args {
    #[command(flatten)]
    options: ObserveOptions,
    /// Print what there is now, and end
    #[arg(long)]
    once: bool,
}

/// How often the screen is drawn, and how often a line is printed where there is none.
const DRAW: Duration = Duration::from_millis(500);
const TELL: Duration = Duration::from_secs(5);
/// What is printed at most of one look.
const PAGE: Size = Size { columns: 160, rows: 30 };

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let mut result = Ok(());
    let mut show = if args.once {
        Show::Once
    } else if Terminal::is_there() {
        Show::Live { terminal: None, log: Log::default() }
    } else {
        Show::Lines
    };
    let mut due = Instant::now();
    let observed = runtime.block_on(observe(&args.options, |view| match show.look(&view, &mut due) {
        Ok(flow) => flow,
        Err(error) => {
            result = Err(error);
            ControlFlow::Break(())
        }
    }));
    // The terminal is given back before anything else is said.
    drop(show);
    runtime.shutdown_background();
    observed?;
    result?;
    Ok(ExitCode::SUCCESS)
}

/// How a cluster is shown.
enum Show {
    /// A look, and no more.
    Once,
    /// Lines, one after the other.
    Lines,
    /// A screen; the terminal is taken when there is something to see.
    Live { terminal: Option<Terminal>, log: Log },
}

impl Show {
    fn look(&mut self, view: &View<'_>, due: &mut Instant) -> io::Result<ControlFlow<()>> {
        let is_due = Instant::now() >= *due;
        let mut after = |time: Duration| *due = Instant::now() + time;
        match self {
            Self::Once => {
                let mut log = Log::default();
                view.notes.iter().for_each(|note| log.push(entry(note)));
                for line in page(view, &log, "", PAGE, Paint::PLAIN) {
                    writeln!(io::stdout(), "{}", line.trim_end())?;
                }
                return Ok(ControlFlow::Break(()));
            }
            Self::Lines => {
                for note in &view.notes {
                    writeln!(io::stdout(), "{}", entry(note).line(Paint::PLAIN))?;
                }
                if is_due {
                    after(TELL);
                    let line = screen::summary(&view.overview());
                    writeln!(io::stdout(), "{}  {line}", screen::clock(view.at))?;
                }
            }
            Self::Live { terminal, log } => {
                view.notes.iter().for_each(|note| log.push(entry(note)));
                let terminal = match terminal {
                    Some(terminal) => terminal,
                    none => none.insert(Terminal::open()?),
                };
                if terminal.key(Duration::ZERO) == Some(Key::Quit) {
                    return Ok(ControlFlow::Break(()));
                }
                if is_due {
                    after(DRAW);
                    let lines = page(view, log, " · q quit", terminal.size(), Paint::of(&io::stdout()));
                    terminal.draw(&lines)?;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The whole screen; `keys` says which ones do something.
fn page(view: &View<'_>, log: &Log, keys: &str, size: Size, paint: Paint) -> Vec<String> {
    let overview = view.overview();
    let frame = Frame {
        title: &format!("headstart top · {}", view.url),
        status: &format!("{} UTC{keys}", screen::clock(view.at)),
        bars: &[],
        overview: &overview,
        remarks: &remarks(view, &overview),
        log,
    };
    screen::render(&frame, size, paint)
}

/// What has to be said about the numbers.
fn remarks(view: &View<'_>, overview: &Overview) -> Vec<String> {
    let unknown =
        overview.fleet.iter().filter(|group| !group.instance_type.is_empty() && group.price == Price::ZERO);
    let unknown: usize = unknown.map(|group| group.count).sum();
    let mut remarks = view.remarks.clone();
    if unknown > 0 {
        remarks.push(format!(
            "the catalog has no price for {unknown} of the nodes; choose another with --catalog"
        ));
    }
    remarks
}

fn entry(note: &Note) -> Entry {
    let mark = if note.warning { Mark::Warning } else { Mark::Ordinary };
    Entry::new(note.at, mark, Said::about(&note.about, &format!("{}: {}", note.reason, note.message)))
}
