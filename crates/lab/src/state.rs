//! A site's state as names and values, parsed from its printed form.
//!
//! Every site prints its state with `Debug`, as traces carry it. Structs inside are flattened to dotted names, so that what
//! changed can be marked field by field: `requester.want`, `arbiter.queue`.

/// One field: its name and its value as text.
pub(crate) type FieldText = (String, String);

/// The depth to which structs are flattened.
const DEPTH: usize = 3;

/// The fields of a state that was printed with `Debug`.
pub(crate) fn fields(debug: &str) -> Vec<FieldText> {
    let mut all = Vec::new();
    match braces(debug) {
        Some((_, body)) => flatten("", body, DEPTH, &mut all),
        None => all.push(("state".to_owned(), debug.to_owned())),
    }
    all
}

fn flatten(prefix: &str, body: &str, depth: usize, all: &mut Vec<FieldText>) {
    for part in split(body) {
        let Some((name, value)) = part.split_once(": ") else { continue };
        let name = format!("{prefix}{name}");
        match braces(value) {
            // What is shared by all sites and never changes prints as an ellipsis.
            None if value == "…" => {}
            Some((kind, body)) if depth > 1 => {
                // The name of an enum's variant is informative; that of a struct repeats the field's.
                let own = name.rsplit('.').next().unwrap_or_default();
                if !kind.eq_ignore_ascii_case(&own.replace('_', "")) {
                    all.push((name.clone(), kind.to_owned()));
                }
                flatten(&format!("{name}."), body, depth - 1, all);
            }
            Some(_) | None => all.push((name, value.to_owned())),
        }
    }
}

/// `Name { body }` as name and body.
fn braces(text: &str) -> Option<(&str, &str)> {
    let (kind, rest) = text.split_once(" { ")?;
    let is_name = !kind.is_empty() && kind.chars().all(|c| c.is_alphanumeric() || "_<>:".contains(c));
    is_name.then_some((kind, rest.strip_suffix(" }")?))
}

/// The parts between the commas that are in no bracket and no string.
fn split(body: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start, mut quoted) = (Vec::new(), 0_i32, 0, false);
    for (at, c) in body.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(body[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(body[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_flattened_and_variants_named() {
        let printed = "QuorumSite { me: S0, coterie: …, requester: Requester { want: Entry { request: (1,S0), missing: 2 }, \
                       asks: [Ask { arbiter: S1, turn: 0 }] }, set: {1,2} }";
        let expected = [
            ("me", "S0"),
            ("requester.want", "Entry"),
            ("requester.want.request", "(1,S0)"),
            ("requester.want.missing", "2"),
            ("requester.asks", "[Ask { arbiter: S1, turn: 0 }]"),
            ("set", "{1,2}"),
        ];
        assert_eq!(fields(printed), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_no_struct_is_one_field() {
        assert_eq!(fields("Idle"), [("state".to_owned(), "Idle".to_owned())]);
        assert_eq!(fields(""), [("state".to_owned(), String::new())]);
    }
}
