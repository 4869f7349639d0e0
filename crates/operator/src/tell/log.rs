//! The log: one line a fact on standard output, JSON for machines and text for people.

use std::fmt::{Debug, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;

use headstart_engine::{Level, Wall};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;
use crate::options::{LogFormat, LogLevel};

/// Where lines of the engine and of this crate go.
#[derive(Debug)]
pub(crate) struct Log {
    level: LogLevel,
    json: bool,
}

impl Log {
    /// The log; from now on it also takes in what this program and its libraries trace.
    pub(crate) fn start(level: LogLevel, format: LogFormat) -> Arc<Self> {
        let json = match format {
            LogFormat::Auto => !io::stdout().is_terminal(),
            LogFormat::Json => true,
            LogFormat::Text => false,
        };
        let log = Arc::new(Self { level, json });
        let subscriber = tracing_subscriber::registry().with(Traces(Arc::clone(&log)));
        // Somebody who set up tracing before, such as a test, keeps it.
        let _ = tracing::subscriber::set_global_default(subscriber);
        log
    }

    /// Writes a line, if it matters enough.
    pub(crate) fn line(&self, level: Level, message: &str, fields: &[(String, String)]) {
        if !self.takes(level) {
            return;
        }
        let wall = clock::now().wall;
        let line =
            if self.json { json(wall, level, message, fields) } else { text(wall, level, message, fields) };
        // A log that cannot be written cannot complain either.
        let _ = io::stdout().lock().write_all(line.as_bytes());
    }

    fn takes(&self, level: Level) -> bool {
        let level = match level {
            Level::Error => LogLevel::Error,
            Level::Warning => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
        };
        level <= self.level
    }
}

/// COMPAT: the keys `level`, `time` and `message` are upstream's, so that log pipelines keep working.
fn json(wall: Wall, level: Level, message: &str, fields: &[(String, String)]) -> String {
    let time = stamp(wall);
    let head = [("level", name(level)), ("time", &time), ("message", message)];
    let rest = fields.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let rest = rest.filter(|(key, _)| head.iter().all(|(taken, _)| taken != key));
    let pairs: Vec<String> = head
        .into_iter()
        .chain(rest)
        .map(|(key, value)| format!("{}:{}", Value::from(key), Value::from(value)))
        .collect();
    format!("{{{}}}\n", pairs.join(","))
}

fn text(wall: Wall, level: Level, message: &str, fields: &[(String, String)]) -> String {
    let time = stamp(wall);
    let mut line = format!("{}  ", time.get(11..19).unwrap_or(&time));
    if level != Level::Info {
        let _ = write!(line, "{}: ", name(level).to_lowercase());
    }
    line.push_str(message);
    for (i, (key, value)) in fields.iter().enumerate() {
        let quoted = value.is_empty() || value.contains([' ', '"', '=']);
        let value = if quoted { format!("{value:?}") } else { value.clone() };
        let _ = write!(line, "{}{key}={value}", if i == 0 { "  " } else { " " });
    }
    line + "\n"
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "ERROR",
        Level::Warning => "WARN",
        Level::Info => "INFO",
        Level::Debug => "DEBUG",
    }
}

fn stamp(wall: Wall) -> String {
    jiff::Timestamp::from_millisecond(wall.0).map_or_else(|_| wall.0.to_string(), |at| format!("{at:.3}"))
}

/// Traces as lines of the log.
struct Traces(Arc<Log>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Traces {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Libraries repeat what we tell ourselves, once per attempt; only who wants to know everything sees it.
        if !metadata.target().starts_with("headstart") && self.0.level != LogLevel::Debug {
            return;
        }
        let level = match *metadata.level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warning,
            tracing::Level::INFO => Level::Info,
            tracing::Level::DEBUG if metadata.target().starts_with("headstart") => Level::Debug,
            _ => return,
        };
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.line(level, &fields.message, &fields.others);
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.others.push((name.to_owned(), value.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Wall = Wall(1_800_000_000_123);

    fn fields() -> Vec<(String, String)> {
        vec![("pods".into(), "3".into()), ("why".into(), "it \"fits\" nowhere".into())]
    }

    #[test]
    fn machines_get_one_object_a_line() {
        let line = json(WALL, Level::Warning, "left out", &fields());
        assert_eq!(
            line,
            "{\"level\":\"WARN\",\"time\":\"2027-01-15T08:00:00.123Z\",\"message\":\"left out\",\"pods\":\"3\",\"why\":\"it \\\"fits\\\" nowhere\"}\n"
        );
        let bare = json(WALL, Level::Info, "ready", &[]);
        assert_eq!(
            bare,
            "{\"level\":\"INFO\",\"time\":\"2027-01-15T08:00:00.123Z\",\"message\":\"ready\"}\n"
        );
    }

    #[test]
    fn people_get_text() {
        assert_eq!(text(WALL, Level::Info, "ready", &[]), "08:00:00  ready\n");
        assert_eq!(
            text(WALL, Level::Error, "left out", &fields()),
            "08:00:00  error: left out  pods=3 why=\"it \\\"fits\\\" nowhere\"\n"
        );
    }

    #[test]
    fn what_matters_too_little_is_not_written() {
        let log = Log { level: LogLevel::Warn, json: true };
        assert!(log.takes(Level::Error) && log.takes(Level::Warning) && !log.takes(Level::Info));
    }
}
