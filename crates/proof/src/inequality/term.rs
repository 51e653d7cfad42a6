//! Formulas in the notation of SMT-LIB, evaluated on exact numbers.

use std::cmp::Ordering;

/// A formula or a number that cannot be read, or a number that is too large to be exact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TermError(pub String);

/// A fraction, with a positive denominator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rational {
    numerator: i128,
    denominator: i128,
}

impl From<u64> for Rational {
    fn from(number: u64) -> Self {
        Rational { numerator: i128::from(number), denominator: 1 }
    }
}

impl Rational {
    /// This many parts of `whole`, which is not 0.
    pub fn fraction(parts: i128, whole: i128) -> Result<Self, TermError> {
        let fault = || TermError(format!("{parts}/{whole} is no number that can be kept exactly"));
        let common = divisor(parts, whole);
        if whole == 0 || common == 0 {
            return Err(fault());
        }
        let common = if whole < 0 { common.checked_neg().ok_or_else(fault)? } else { common };
        Ok(Rational { numerator: parts / common, denominator: whole / common })
    }

    fn combine(self, operator: &str, other: Rational) -> Result<Rational, TermError> {
        let large = || TermError(format!("{self:?} {operator} {other:?} is too large to be exact"));
        let times = |a: i128, b: i128| a.checked_mul(b).ok_or_else(large);
        let (numerator, denominator) = match operator {
            "*" => (times(self.numerator, other.numerator)?, times(self.denominator, other.denominator)?),
            "/" => (times(self.numerator, other.denominator)?, times(self.denominator, other.numerator)?),
            sign => {
                let (left, right) =
                    (times(self.numerator, other.denominator)?, times(other.numerator, self.denominator)?);
                let sum = if sign == "+" { left.checked_add(right) } else { left.checked_sub(right) };
                (sum.ok_or_else(large)?, times(self.denominator, other.denominator)?)
            }
        };
        Rational::fraction(numerator, denominator)
    }

    fn compare(self, other: Rational) -> Result<Ordering, TermError> {
        Ok(self.combine("-", other)?.numerator.cmp(&0))
    }
}

/// The greatest common divisor, at least 1 unless both are 0.
fn divisor(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b > 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}

/// A formula: a word, or an operator with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Word(String),
    Applied(String, Vec<Term>),
}

impl Term {
    pub(super) fn parse(text: &str) -> Result<Self, TermError> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = words.as_slice();
        let term = Term::read(&mut rest)?;
        match rest.first() {
            None => Ok(term),
            Some(more) => Err(TermError(format!("'{more}' follows the formula {text}"))),
        }
    }

    /// Reads one formula, and leaves what follows it.
    fn read(rest: &mut &[&str]) -> Result<Self, TermError> {
        let mut next = || {
            let (word, after) =
                rest.split_first().ok_or_else(|| TermError("a formula ends too early".to_owned()))?;
            *rest = after;
            Ok(*word)
        };
        let word = next()?;
        if word != "(" {
            return Ok(Term::Word(word.to_owned()));
        }
        let operator = next()?.to_owned();
        let mut arguments = Vec::new();
        while rest.first() != Some(&")") {
            arguments.push(Term::read(rest)?);
        }
        *rest = &rest[1..];
        Ok(Term::Applied(operator, arguments))
    }

    /// Whether `name` is in it.
    #[cfg(test)]
    pub(super) fn mentions(&self, name: &str) -> bool {
        match self {
            Term::Word(word) => word == name,
            Term::Applied(_, arguments) => arguments.iter().any(|argument| argument.mentions(name)),
        }
    }

    /// Whether it holds of these numbers.
    pub(super) fn truth(&self, numbers: &[(&str, Rational)]) -> Result<bool, TermError> {
        let Term::Applied(operator, arguments) = self else {
            return Err(TermError(format!("{self:?} is no statement")));
        };
        let truths =
            || arguments.iter().map(|argument| argument.truth(numbers)).collect::<Result<Vec<_>, _>>();
        let ordered = |allowed: &[Ordering]| {
            let values: Vec<Rational> =
                arguments.iter().map(|argument| argument.number(numbers)).collect::<Result<_, _>>()?;
            let compared = values.windows(2).map(|pair| pair[0].compare(pair[1]));
            Ok(compared.collect::<Result<Vec<_>, _>>()?.iter().all(|order| allowed.contains(order)))
        };
        match operator.as_str() {
            "and" => Ok(truths()?.iter().all(|truth| *truth)),
            "or" => Ok(truths()?.iter().any(|truth| *truth)),
            "<" => ordered(&[Ordering::Less]),
            "<=" => ordered(&[Ordering::Less, Ordering::Equal]),
            "=" => ordered(&[Ordering::Equal]),
            ">=" => ordered(&[Ordering::Greater, Ordering::Equal]),
            ">" => ordered(&[Ordering::Greater]),
            other => Err(TermError(format!("'{other}' is no statement about numbers"))),
        }
    }

    fn number(&self, numbers: &[(&str, Rational)]) -> Result<Rational, TermError> {
        match self {
            Term::Word(word) => {
                if let Some((_, number)) = numbers.iter().find(|(name, _)| name == word) {
                    return Ok(*number);
                }
                let whole = word.strip_suffix(".0").and_then(|whole| whole.parse::<u64>().ok());
                whole.map(Rational::from).ok_or_else(|| TermError(format!("'{word}' has no value")))
            }
            Term::Applied(operator, arguments) => {
                let (first, rest) =
                    arguments.split_first().ok_or_else(|| TermError(format!("{operator} of nothing")))?;
                rest.iter().try_fold(first.number(numbers)?, |left, right| {
                    left.combine(operator, right.number(numbers)?)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(formula: &str, numbers: &[(&str, u64)]) -> Result<bool, TermError> {
        let numbers: Vec<(&str, Rational)> =
            numbers.iter().map(|&(name, number)| (name, number.into())).collect();
        Term::parse(formula)?.truth(&numbers)
    }

    #[test]
    fn formulas_are_evaluated_exactly() {
        assert_eq!(holds("(= (/ a 3.0) (- (/ 1.0 2.0) (/ 1.0 6.0)))", &[("a", 1)]), Ok(true));
        assert_eq!(holds("(<= (* a (+ 1.0 b)) 6.0)", &[("a", 2), ("b", 2)]), Ok(true));
        assert_eq!(holds("(and (< a b) (or (> a b) (>= a b)))", &[("a", 2), ("b", 3)]), Ok(false));
        assert_eq!(holds("(< (- a b) 0.0)", &[("a", 2), ("b", 3)]), Ok(true));
    }

    #[test]
    fn what_cannot_be_read_or_kept_exactly_is_an_error() {
        for (formula, fault) in [
            ("(< a", "a formula ends too early"),
            ("(< a b) c", "'c' follows the formula (< a b) c"),
            ("(< a c)", "'c' has no value"),
            ("(< a (/ b 0.0))", "is no number that can be kept exactly"),
            ("(+ a b)", "'+' is no statement about numbers"),
        ] {
            let error = holds(formula, &[("a", 1), ("b", 2)]).unwrap_err();
            assert!(error.to_string().contains(fault), "{formula}: {error}");
        }
        let huge = Rational::fraction(i128::MAX, 1).unwrap();
        assert!(huge.combine("*", huge).is_err());
    }
}
