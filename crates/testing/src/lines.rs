//! What a program or a connection says, read by a thread, so that a test can wait for it with a limit.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use crate::wait::Deadline;

/// The lines of a pipe or a connection. They are read to the end whether anyone takes them or not: nobody is stopped by a full pipe.
#[derive(Debug)]
pub struct Lines(Receiver<String>);

impl Lines {
    /// Reads from now on. What is not UTF-8 is replaced.
    pub fn of(from: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&line);
                let text = text.strip_suffix('\n').unwrap_or(&text);
                let text = text.strip_suffix('\r').unwrap_or(text);
                // The test may have seen enough.
                let _ = sender.send(text.to_owned());
                line.clear();
            }
        });
        Lines(lines)
    }

    /// Waits for the next line and returns it without its end; none if there will be none. Panics with `what` if neither comes in
    /// time.
    #[track_caller]
    pub fn next(&self, what: &str) -> Option<String> {
        self.next_before(Deadline::default(), what)
    }

    /// Waits for the next line and returns it without its end. Panics with `what` if it does not come.
    #[track_caller]
    pub fn line(&self, what: &str) -> String {
        self.next(what).unwrap_or_else(|| panic!("the output has ended without: {what}"))
    }

    /// Returns what `wanted` finds in one of the next lines; none if there are no more lines. Panics with `what` if neither happens
    /// in time.
    #[track_caller]
    pub fn find<T>(&self, what: &str, mut wanted: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let deadline = Deadline::default();
        loop {
            if let Some(found) = wanted(&self.next_before(deadline, what)?) {
                return Some(found);
            }
        }
    }

    /// Waits for the end of the output. Panics with `what` if it does not come.
    #[track_caller]
    pub fn until_end(&self, what: &str) {
        self.find(what, |_| None::<()>);
    }

    #[track_caller]
    fn next_before(&self, deadline: Deadline, what: &str) -> Option<String> {
        match self.0.recv_timeout(deadline.left()) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                deadline.check(what);
                self.next_before(deadline, what)
            }
        }
    }
}

/// Reads all that is left as text. Panics with `what` if its end does not come in time.
#[track_caller]
pub fn read_to_end(what: &str, from: impl Read + Send + 'static) -> String {
    let (lines, mut text) = (Lines::of(from), String::new());
    lines.find(what, |line| {
        text.push_str(line);
        text.push('\n');
        None::<()>
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_without_their_ends_and_then_nothing_more() {
        let lines = Lines::of(&b"one\r\n\ntwo\xff\nthree"[..]);
        assert_eq!(lines.line("the first"), "one");
        assert_eq!(lines.line("an empty one"), "");
        assert_eq!(
            lines.find("the third", |line| line.strip_prefix("two").map(str::to_owned)).as_deref(),
            Some("\u{fffd}")
        );
        assert_eq!(lines.next("the last").as_deref(), Some("three"));
        assert_eq!(lines.next("nothing"), None);
        lines.until_end("the end");
        assert_eq!(read_to_end("all", &b"a\nb"[..]), "a\nb\n");
    }
}
