//! Splits the text of a model into words and signs.

use super::TextError;

/// A word, a sign, or a text in quotes with its first quote.
#[derive(Clone, Debug)]
pub(super) struct Lexeme {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Signs, longer ones first.
const SIGNS: [&str; 20] = [
    "<->", "->", ":=", "!=", "<=", ">=", "(", ")", "{", "}", ":", ";", ",", ".", "=", "<", ">", "!", "&", "|",
];

/// Splits `text`, without spaces and comments.
pub(super) fn split(text: &str) -> Result<Vec<Lexeme>, TextError> {
    let mut lexemes = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            let length = length_of(rest)
                .ok_or_else(|| TextError { line, what: format!("'{first}' means nothing") })?;
            let text = rest[..length].trim_end_matches('"').to_owned();
            lexemes.push(Lexeme { line, text });
            length
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    Ok(lexemes)
}

/// The length of the first lexeme of `rest`.
fn length_of(rest: &str) -> Option<usize> {
    if let Some(quoted) = rest.strip_prefix('"') {
        return Some(quoted.find('"')? + 2);
    }
    let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    if word > 0 {
        return Some(word);
    }
    SIGNS.into_iter().find(|sign| rest.starts_with(sign)).map(str::len)
}
