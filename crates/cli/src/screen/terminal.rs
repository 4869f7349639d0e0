//! A terminal that is drawn on, and given back as it was found: at the end, on Ctrl-C, and after a panic.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::Size;

/// The alternate screen without a cursor, and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// How the terminal was found, as long as it is drawn on.
static FOUND: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// `q`, Ctrl-C or Ctrl-D.
    Quit,
    /// The space bar.
    Pause,
}

/// A terminal that is drawn on.
#[derive(Debug)]
pub(crate) struct Terminal {
    stdin: io::Stdin,
    stdout: io::Stdout,
}

impl Terminal {
    /// Whether there is a terminal to draw on and to read keys from.
    pub(crate) fn is_there() -> bool {
        let is_simple = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        io::stdout().is_terminal() && io::stdin().is_terminal() && !is_simple
    }

    /// Begins to draw.
    pub(crate) fn open() -> io::Result<Self> {
        let found = tcgetattr(io::stdin())?;
        let mut raw = found.clone();
        // Without signals of its own, Ctrl-C is a key like any other, and nothing is left half done.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        // From here on dropping it gives the terminal back.
        let mut terminal = Self { stdin: io::stdin(), stdout: io::stdout() };
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        write(&mut terminal.stdout, ENTER)?;
        Ok(terminal)
    }

    /// How much there is room for.
    pub(crate) fn size(&self) -> Size {
        let size = tcgetwinsize(&self.stdout).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (columns, rows) = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
        Size { columns: columns.into(), rows: rows.into() }
    }

    /// Draws lines over what was there.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\u{1b}[K")).collect();
        write(&mut self.stdout, &format!("\u{1b}[H{}\u{1b}[J", lines.join("\r\n")))
    }

    /// Waits so long for a key.
    pub(crate) fn key(&mut self, wait: Duration) -> Option<Key> {
        let timeout = Timespec::try_from(wait).ok()?;
        let mut fds = [PollFd::new(&self.stdin, PollFlags::IN)];
        if poll(&mut fds, Some(&timeout)).ok()? == 0 {
            return None;
        }
        let mut bytes = [0; 64];
        let count = rustix::io::read(&self.stdin, &mut bytes).ok()?;
        // A terminal that has gone away has no keys any more.
        if count == 0 { Some(Key::Quit) } else { meaning(&bytes[..count]) }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// The last key of several that means something.
fn meaning(bytes: &[u8]) -> Option<Key> {
    bytes.iter().rev().find_map(|byte| match byte {
        b'q' | b'Q' | 0x03 | 0x04 => Some(Key::Quit),
        b' ' => Some(Key::Pause),
        _ => None,
    })
}

/// Gives the terminal back as it was found, once.
fn give_back() {
    let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(found) = found {
        // There is nobody to tell if it does not work.
        let _ = write(&mut io::stdout(), LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &found);
    }
}

fn write(stdout: &mut io::Stdout, text: &str) -> io::Result<()> {
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_something_or_nothing() {
        assert_eq!(meaning(b"q"), Some(Key::Quit));
        assert_eq!(meaning(&[0x03]), Some(Key::Quit));
        assert_eq!(meaning(b"x "), Some(Key::Pause));
        assert_eq!(meaning(b"\x1b[A"), None);
    }
}
