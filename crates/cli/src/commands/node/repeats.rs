//! Counts lines of the log that repeat, instead of writing each of them.
//!
//! A peer or a client that fails again and again would otherwise fill the log: what matters is that it does, and how
//! often. A line is written when it comes for the first time; equal ones are counted for [`WINDOW`], and then the log
//! says how many there were. Lines are equal if they come from the same place in the code and say the same, apart from
//! the port of an address. From each place only [`MAX_KINDS`] different lines are written in this time.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// How long equal lines are counted before the log says how many there were.
pub(super) const WINDOW: Duration = Duration::from_secs(30);

/// Maximum number of different lines from one place in the code that are written within the same [`WINDOW`].
const MAX_KINDS: usize = 32;

/// Maximum length of a line that is kept to be compared with others, in bytes.
const MAX_LINE: usize = 400;

/// The target of the lines that say how many there were. They are not counted themselves.
const REPEATED: &str = "meshlock::repeated";

/// Targets whose every line counts: each is about another event.
const UNLIMITED: [&str; 5] =
    ["audit", "meshlock::certificates", "meshlock::disk", "meshlock::lock", REPEATED];

/// Lets a line pass if it is not a repetition.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats(Arc<Mutex<RepeatedLines>>);

impl Repeats {
    /// Writes how often lines were repeated whose time is over; all of them if `now` is `None`, as at the end of the log.
    pub(super) fn report(&self, now: Option<Instant>) {
        let over = self.lines().take_over(now);
        for (level, line, times) in over {
            if level == Level::INFO {
                tracing::info!(target: REPEATED, "{line} … repeated {times} times");
            } else {
                tracing::warn!(target: REPEATED, "{line} … repeated {times} times");
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, RepeatedLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || UNLIMITED.contains(&metadata.target()) {
            return true;
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        let (file, line_number) = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        let place = (file, line_number, *metadata.level());
        self.lines().is_new(place, line.0, Instant::now())
    }
}

/// A place in the code: file and line, and the level of what it writes.
type Place = (&'static str, u32, Level);

/// The lines of the last [`WINDOW`], by the place in the code that they come from.
#[derive(Debug, Default)]
struct RepeatedLines(BTreeMap<Place, BTreeMap<String, Repetition>>);

#[derive(Debug)]
struct Repetition {
    since: Instant,
    /// How many equal lines came after the first.
    times: u64,
}

impl RepeatedLines {
    /// Returns whether this line is to be written.
    fn is_new(&mut self, place: Place, line: String, now: Instant) -> bool {
        let lines = self.0.entry(place).or_default();
        lines.retain(|_, known| known.times > 0 || now.duration_since(known.since) < WINDOW);
        let known = lines.get_mut(&line);
        if let Some(known) = known {
            known.times += 1;
            return false;
        }
        if lines.len() < MAX_KINDS {
            lines.insert(line, Repetition { since: now, times: 0 });
            return true;
        }
        // There are too many different ones: they are counted together, under the one that comes last.
        if let Some(mut last) = lines.last_entry() {
            last.get_mut().times += 1;
        }
        false
    }

    /// Takes out the lines that were repeated and whose time is over.
    fn take_over(&mut self, now: Option<Instant>) -> Vec<(Level, String, u64)> {
        let mut over = Vec::new();
        let is_over = |known: &Repetition| now.is_none_or(|now| now.duration_since(known.since) >= WINDOW);
        for ((.., level), lines) in &mut self.0 {
            lines.retain(|line, known| {
                let ends = is_over(known);
                if ends && known.times > 0 {
                    over.push((*level, line.clone(), known.times));
                }
                !ends
            });
        }
        over
    }
}

/// The text of a line, by which it is compared with others.
struct Line(String);

impl Line {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.0.len() > MAX_LINE {
            return;
        }
        // An address is another one with every connection.
        let _ = match field.name() {
            "message" => write!(self.0, "{value}"),
            "address" => {
                let text = value.to_string();
                let host = text.rsplit_once(':').map_or(text.as_str(), |(host, _)| host);
                write!(self.0, " address={host}")
            }
            name => write!(self.0, " {name}={value}"),
        };
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = ("a.rs", 1, Level::WARN);

    #[test]
    fn a_line_is_written_once_and_the_others_are_counted() {
        let (mut lines, start) = (RepeatedLines::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut is_new = |seconds| lines.is_new(HERE, "cannot reach s2".to_owned(), at(seconds));
        assert!(is_new(0));
        for seconds in 1..29 {
            assert!(!is_new(seconds), "{seconds}");
        }
        assert_eq!(lines.take_over(Some(at(29))), []);
        assert_eq!(lines.take_over(Some(at(30))), [(Level::WARN, "cannot reach s2".to_owned(), 28)]);
        assert!(lines.is_new(HERE, "cannot reach s2".to_owned(), at(31)), "it is news again");
        assert_eq!(lines.take_over(None), [], "it was not repeated");
    }

    #[test]
    fn a_line_that_comes_rarely_is_always_written() {
        let (mut lines, start) = (RepeatedLines::default(), Instant::now());
        for minute in 0..5 {
            let now = start + Duration::from_secs(60 * minute);
            assert!(lines.is_new(HERE, "a client is refused".to_owned(), now), "{minute}");
        }
    }

    #[test]
    fn what_is_no_warning_is_none_when_it_is_repeated() {
        let mut lines = RepeatedLines::default();
        for _ in 0..3 {
            lines.is_new(("a.rs", 1, Level::INFO), "cannot reach s2".to_owned(), Instant::now());
        }
        assert_eq!(lines.take_over(None), [(Level::INFO, "cannot reach s2".to_owned(), 2)]);
    }

    #[test]
    fn many_different_lines_from_one_place_take_little_room_and_leave_other_places_alone() {
        let (mut lines, now) = (RepeatedLines::default(), Instant::now());
        let written =
            (0..56_000).filter(|client| lines.is_new(HERE, format!("refused {client}"), now)).count();
        assert_eq!(written, MAX_KINDS);
        assert!(lines.is_new(("b.rs", 1, Level::INFO), "view installed".to_owned(), now));
        let counted: u64 = lines.take_over(None).iter().map(|(.., times)| times).sum();
        assert_eq!(counted, 56_000 - MAX_KINDS as u64);
    }
}
