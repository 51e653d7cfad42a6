//! A parser of the part of PromQL that is needed to find the metrics and labels of an expression. Anything else is an error.

const FUNCTIONS: &[&str] = &[
    "rate",
    "increase",
    "histogram_quantile",
    "sum",
    "max",
    "min",
    "count",
    "avg",
    "changes",
    "clamp_min",
    "absent",
    "max_over_time",
    "time",
];
const GROUPINGS: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: &[&str] = &["and", "or", "unless", "bool", "offset"];

/// A metric, the labels that the expression uses, and the values that they must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) metric: String,
    pub(crate) labels: Labels,
}

/// Labels, and the values that they must have.
type Labels = Vec<(String, Option<String>)>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
}

/// Returns the metrics of an expression. Labels by which it groups belong to all of them.
pub(crate) fn names(expression: &str) -> Result<Vec<Named>, String> {
    let tokens = tokens(expression)?;
    let (mut found, mut grouped, mut depth, mut at) = (Vec::<Named>::new(), Vec::new(), 0_i32, 0);
    while at < tokens.len() {
        let next = tokens.get(at + 1);
        match &tokens[at] {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') => depth -= 1,
            Token::Word(word) if GROUPINGS.contains(&word.as_str()) => {
                let (labels, end) = list(&tokens, at + 1, ')')?;
                grouped.extend(labels);
                at = end;
            }
            Token::Word(word) if OPERATORS.contains(&word.as_str()) => {}
            Token::Word(word) if FUNCTIONS.contains(&word.as_str()) => {
                let grouping =
                    |token: &Token| matches!(token, Token::Word(word) if GROUPINGS.contains(&word.as_str()));
                if next != Some(&Token::Mark('(')) && !next.is_some_and(grouping) {
                    return Err(format!("{word} of what?"));
                }
            }
            Token::Word(word) if word.starts_with(|first: char| first.is_ascii_digit()) => {}
            Token::Word(word) => {
                let (labels, end) = if next == Some(&Token::Mark('{')) {
                    list(&tokens, at + 1, '}')?
                } else {
                    (Vec::new(), at)
                };
                found.push(Named { metric: word.clone(), labels });
                at = end;
            }
            Token::Text(text) => return Err(format!("a text where none belongs: {text}")),
            Token::Mark(_) => {}
        }
        if depth < 0 {
            return Err("a parenthesis too many".to_owned());
        }
        at += 1;
    }
    for named in &mut found {
        named.labels.extend(grouped.iter().cloned());
    }
    if depth == 0 { Ok(found) } else { Err("a parenthesis is missing".to_owned()) }
}

/// Parses labels between brackets. Returns each with the value that it must equal, if any, and where they end.
fn list(tokens: &[Token], start: usize, end: char) -> Result<(Labels, usize), String> {
    let (mut labels, mut at) = (Vec::new(), start + 1);
    loop {
        match (tokens.get(at), tokens.get(at + 1)) {
            (Some(Token::Mark(mark)), _) if *mark == end => return Ok((labels, at)),
            (Some(Token::Mark(',')), _) => at += 1,
            (Some(Token::Word(label)), Some(Token::Mark('=' | '!'))) => {
                let (is_equal, value) = match &tokens[at + 1..] {
                    [Token::Mark('='), Token::Text(value), ..] => (true, (value, 3)),
                    [Token::Mark(_), Token::Mark('=' | '~'), Token::Text(value), ..] => (false, (value, 4)),
                    _ => return Err(format!("{label} is what?")),
                };
                labels.push((label.clone(), is_equal.then(|| value.0.clone())));
                at += value.1;
            }
            (Some(Token::Word(label)), _) => {
                labels.push((label.clone(), None));
                at += 1;
            }
            (other, _) => return Err(format!("{other:?} is no label")),
        }
    }
}

fn tokens(expression: &str) -> Result<Vec<Token>, String> {
    let (mut tokens, mut rest) = (Vec::new(), expression);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ' ' | '\n' => 1,
            '"' => {
                let end = rest[1..].find('"').ok_or("a text does not end")?;
                tokens.push(Token::Text(rest[1..=end].to_owned()));
                end + 2
            }
            '[' => rest.find(']').ok_or("a range does not end")? + 1,
            '(' | ')' | '{' | '}' | ',' | '=' | '!' | '~' | '<' | '>' | '+' | '-' | '*' | '/' => {
                tokens.push(Token::Mark(first));
                1
            }
            _ if first.is_ascii_alphanumeric() || first == '_' => {
                let part = |part: char| part.is_ascii_alphanumeric() || matches!(part, '_' | ':' | '.');
                let end = rest.find(|next: char| !part(next)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].to_owned()));
                end
            }
            _ => return Err(format!("'{first}' is not understood")),
        };
        rest = &rest[length..];
    }
    Ok(tokens)
}

#[test]
fn metrics_and_labels_are_found_and_other_text_is_an_error() {
    let expression =
        r#"sum by (instance, le) (rate(m_bucket{a="x", b=~"y|z"}[5m])) / 2 > on (job) group_left max(other)"#;
    let label = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    let grouped = [label("instance", None), label("le", None), label("job", None)];
    assert!(names(expression).is_err(), "group_left needs its list here");
    let expression = expression.replace("group_left", "group_left ()");
    let found = names(&expression).unwrap();
    assert_eq!(found[0].metric, "m_bucket");
    assert_eq!(found[0].labels, [&[label("a", Some("x")), label("b", None)], &grouped[..]].concat());
    assert_eq!((found[1].metric.as_str(), found[1].labels.as_slice()), ("other", &grouped[..]));
    for nonsense in ["sum(m", "m)", "rate m", r#"m{a="x}"#, "m{a=}", "m; n"] {
        assert!(names(nonsense).is_err(), "{nonsense}");
    }
}
