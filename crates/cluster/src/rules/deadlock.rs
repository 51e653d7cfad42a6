//! The option `on-deadlock=refuse` of a rule. (`deadlock` is an option of some algorithms, about one lock.) It stands among the options of the
//! algorithm, so that rules keep their form everywhere: in files, on the wire, on disk. A site that does not know it does not know the rules,
//! and says so; it cannot take part before it is upgraded.

/// The option that says that the youngest request of a deadlock is refused.
const REFUSE: &str = "on-deadlock=refuse";

/// Divides an algorithm with its options into what the algorithm itself is given, and whether deadlocks are refused. The error is the value
/// that the option has instead.
pub(super) fn option_of(algorithm: &str) -> Result<(String, bool), &str> {
    let Some((name, options)) = algorithm.split_once(':') else { return Ok((algorithm.to_owned(), false)) };
    let is_ours = |option: &&str| option.trim_start().starts_with("on-deadlock=");
    let refuses = match options.split(',').find(is_ours).map(str::trim) {
        None => return Ok((algorithm.to_owned(), false)),
        Some(REFUSE) => true,
        Some("on-deadlock=wait") => false,
        Some(other) => return Err(&other["on-deadlock=".len()..]),
    };
    let others: Vec<&str> = options.split(',').filter(|option| !is_ours(option)).collect();
    let algorithm = if others.is_empty() { name.to_owned() } else { format!("{name}:{}", others.join(",")) };
    Ok((algorithm, refuses))
}

/// Returns an algorithm with its options and with the option that deadlocks are refused, or without.
#[must_use]
pub fn with_option(algorithm: &str, refuses: bool) -> String {
    let plain = option_of(algorithm).map_or_else(|_| algorithm.to_owned(), |(plain, _)| plain);
    if !refuses {
        return plain;
    }
    let separator = if plain.contains(':') { ',' } else { ':' };
    format!("{plain}{separator}{REFUSE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_among_those_of_the_algorithm_and_taken_out() {
        for (text, plain, refuses) in [
            ("naimi-trehel", "naimi-trehel", false),
            ("naimi-trehel:on-deadlock=refuse", "naimi-trehel", true),
            ("naimi-trehel:on-deadlock=wait", "naimi-trehel", false),
            ("maekawa:a=b,on-deadlock=refuse,c=d", "maekawa:a=b,c=d", true),
            ("maekawa:a=b", "maekawa:a=b", false),
        ] {
            assert_eq!(option_of(text), Ok((plain.to_owned(), refuses)), "{text}");
            assert_eq!(option_of(&with_option(text, true)), Ok((plain.to_owned(), true)), "{text}");
            assert_eq!(with_option(text, false), plain);
        }
        assert_eq!(option_of("raymond:on-deadlock=maybe"), Err("maybe"));
    }
}
