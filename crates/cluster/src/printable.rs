//! Text from others, made safe to print. One place decides what a terminal or a log may be given, for every command and every node.

use std::fmt::{self, Write};

/// Prints a text so that it has no effect on a terminal and stays on its line: control characters, line ends, and marks that reorder or
/// hide text are printed as escapes, such as `\n` or `\u{1b}`. Everything else is printed as it is.
///
/// ```
/// use meshlock_cluster::printable::Printable;
///
/// assert_eq!(Printable("\x1b[2J\u{202e}evil\n").to_string(), r"\u{1b}[2J\u{202e}evil\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: fmt::Display> fmt::Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Escapes what is written to it.
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(is_invisible) {
            let Some(last) = part.chars().next_back().filter(|&last| is_invisible(last)) else {
                self.0.write_str(part)?;
                continue;
            };
            self.0.write_str(&part[..part.len() - last.len_utf8()])?;
            write!(self.0, "{}", last.escape_default())?;
        }
        Ok(())
    }
}

/// Returns whether a terminal interprets the character instead of printing it: control characters, line ends, and marks
/// that reorder or hide text.
pub fn is_invisible(c: char) -> bool {
    let marks =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_interpret_is_escaped() {
        let hostile = "\x1b[2J\u{202e}evil\n";
        assert_eq!(Printable(hostile).to_string(), r"\u{1b}[2J\u{202e}evil\n");
        assert_eq!(Printable("\u{9b}31m\u{7f}\r\t").to_string(), r"\u{9b}31m\u{7f}\r\t");
        assert!(!Printable(hostile).to_string().chars().any(is_invisible));
    }

    #[test]
    fn visible_text_of_any_language_stays_as_it_is() {
        for text in ["", "jobs/nightly", r"C:\backup", "höhe 日本 'x' \"y\""] {
            assert_eq!(Printable(text).to_string(), text);
        }
    }
}
