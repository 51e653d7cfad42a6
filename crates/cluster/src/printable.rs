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
/// that reorder or hide text. These are all characters of the Unicode categories Cc, Cf, Zl and Zp but for those signs of Cf that are
/// visible (such as U+0600), and fillers of other categories that are printed as nothing. Selectors of variants (U+FE0F) stay as they are:
/// they follow a visible character, and many emoji have one.
pub fn is_invisible(c: char) -> bool {
    let marks = matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || marks
}

/// Returns whether a client's label may not have the character. These are the [invisible](is_invisible) ones that the first version
/// knew: labels travel between sites of different versions, and one that an earlier site accepts must stay readable here.
pub(crate) fn is_refused_in_label(c: char) -> bool {
    let marks =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || marks
}

/// Returns a JSON text in such a form that its strings have no effect on a terminal: JSON itself only escapes the first 32 control
/// characters. A reader of the JSON finds the same strings.
pub fn printable_json(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        // What is invisible and not a line's end can only be within a string.
        if c == '\n' || !is_invisible(c) {
            printable.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(printable, "\\u{unit:04x}");
        }
    }
    printable
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
    fn marks_that_reorder_or_hide_text_are_escaped() {
        // The bidirectional marks, embeddings, overrides and isolates, and what is printed as nothing.
        let bidirectional =
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        let hidden =
            "\u{ad}\u{34f}\u{180e}\u{200b}\u{2060}\u{3164}\u{feff}\u{fff9}\u{1d173}\u{e0001}\u{e0041}";
        for c in bidirectional.chars().chain(hidden.chars()) {
            assert_eq!(Printable(format!("a{c}b")).to_string(), format!("a{}b", c.escape_unicode()));
        }
        assert!(bidirectional.chars().filter(|c| is_refused_in_label(*c)).all(is_invisible));
    }

    #[test]
    fn visible_text_of_any_language_stays_as_it_is() {
        for text in ["", "jobs/nightly", r"C:\backup", "höhe 日本 'x' \"y\"", "\u{600}٣", "❤\u{fe0f}"] {
            assert_eq!(Printable(text).to_string(), text);
        }
    }
}
