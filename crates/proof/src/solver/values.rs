//! The values that a solver prints: a list of pairs, each of a term as it was asked and its value.

/// The values in the order of `terms`, if `said` is such a list of exactly these.
pub(super) fn read(said: &str, terms: &[String]) -> Option<Vec<String>> {
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let pairs = parts(inside(&said)?)?;
    if pairs.len() != terms.len() {
        return None;
    }
    let value = |(pair, term): (&str, &String)| match parts(inside(pair)?)?.as_slice() {
        [named, value] if named == term => Some((*value).to_owned()),
        _ => None,
    };
    pairs.into_iter().zip(terms).map(value).collect()
}

/// What is between the parentheses.
fn inside(list: &str) -> Option<&str> {
    list.trim().strip_prefix('(')?.strip_suffix(')').map(str::trim)
}

/// The words and lists of which a list consists.
fn parts(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, None);
    for (at, c) in list.char_indices() {
        match c {
            '(' => {
                start = start.or(Some(at));
                depth += 1;
            }
            ')' => depth = depth.checked_sub(1)?,
            ' ' if depth == 0 => parts.extend(start.take().map(|start| &list[start..at])),
            _ => start = start.or(Some(at)),
        }
    }
    parts.extend(start.map(|start| &list[start..]));
    (depth == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(said: &str, terms: &[&str]) -> Option<Vec<String>> {
        read(said, &terms.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_read_in_the_order_of_the_terms() {
        let said = "((site_is_0 site!val!0)\n (waiting true)  ((sent site_is_0\n site_is_0) false) (x (/ 1.0 (- 2.0))))";
        let terms = ["site_is_0", "waiting", "(sent site_is_0 site_is_0)", "x"];
        let values = ["site!val!0", "true", "false", "(/ 1.0 (- 2.0))"].map(str::to_owned);
        assert_eq!(read_as(said, &terms), Some(values.to_vec()));
        assert_eq!(read_as("()", &[]), Some(Vec::new()));
    }

    #[test]
    fn anything_else_is_no_list_of_values() {
        for said in [
            "",
            "((x 1)",
            "((x 1) (y 2))",
            "((y 1))",
            "((x))",
            "(error \"no model\")",
            "((x 1 2))",
            "(x 1))(",
        ] {
            assert_eq!(read_as(said, &["x"]), None, "{said}");
        }
    }
}
