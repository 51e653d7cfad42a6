//! Which rules are accepted and rejected, and which rule applies to a name.

use super::*;

fn rules(patterns: &[(&str, Clause)]) -> Result<Rules, RulesError> {
    let rules = patterns.iter().map(|(pattern, clause)| ((*pattern).to_owned(), clause.clone())).collect();
    Rules::new(RulesText { rules, ..RulesText::default() })
}

fn refused(patterns: &[(&str, Clause)]) -> String {
    rules(patterns).unwrap_err().to_string()
}

fn algorithm(rules: &Rules, name: &str) -> &'static str {
    rules.rule(&name.parse().unwrap()).spec.info.name
}

#[test]
fn a_name_uses_the_rule_of_the_matching_pattern_or_the_default() {
    let rules = rules(&[
        ("jobs/*", Clause::exclusive("maekawa")),
        ("jobs", Clause::exclusive("lamport")),
        ("pool", Clause::shared("raymond-k", 3)),
        ("z*", Clause::exclusive("raymond")),
    ])
    .unwrap();
    for (name, expected) in [
        ("jobs", "lamport"),
        ("jobs/", "maekawa"),
        ("jobs/7", "maekawa"),
        ("jobs0", "naimi-trehel"),
        ("job", "naimi-trehel"),
        ("pool", "raymond-k"),
        ("pools", "naimi-trehel"),
        ("zebra", "raymond"),
        ("a", "naimi-trehel"),
    ] {
        assert_eq!(algorithm(&rules, name), expected, "{name}");
    }
}

#[test]
fn an_unknown_algorithm_is_refused_with_its_rule() {
    let error = refused(&[("jobs", Clause::exclusive("lamprt"))]);
    assert!(
        error.starts_with("rule 'jobs': unknown algorithm 'lamprt' (did you mean 'lamport'?)"),
        "{error}"
    );
}

#[test]
fn overlapping_patterns_are_refused_with_a_name_that_both_match() {
    let clause = Clause::exclusive("lamport");
    for (first, second, name) in
        [("jobs/*", "jobs/7", "jobs/7"), ("j*", "jobs*", "jobs"), ("jobs", "jobs", "jobs"), ("a*", "a", "a")]
    {
        for pair in [[first, second], [second, first]] {
            let error = refused(&[(pair[0], clause.clone()), (pair[1], clause.clone())]);
            assert!(error.contains(&format!("both match '{name}'")), "{error}");
        }
    }
    // A prefix, a name that it matches, and another prefix between them in the list.
    let error = refused(&[("a*", clause.clone()), ("b", clause.clone()), ("ab", clause)]);
    assert!(error.contains("both match 'ab'"), "{error}");
}

#[test]
fn no_permits_and_too_many_are_refused() {
    assert_eq!(refused(&[("p", Clause::shared("raymond-k", 0))]), "rule 'p': 0 permits; give 1 to 1024");
    assert_eq!(
        refused(&[("p", Clause::shared("raymond-k", 2000))]),
        "rule 'p': 2000 permits; give 1 to 1024"
    );
    let clause = Clause { per_site: 3, ..Clause::shared("raymond-k", 2) };
    assert_eq!(refused(&[("p", clause)]), "rule 'p': 3 permits for one site; give 1 to 2");
    let error = refused(&[("p", Clause::shared("maekawa", 2))]);
    assert!(error.starts_with("rule 'p': maekawa gives one permit, not 2"), "{error}");
}

#[test]
fn variants_that_show_a_papers_error_are_refused() {
    for spec in
        ["ricart-agrawala:text=printed", "sanders:force", "sanders:deadlock=plain", "maekawa:text=1985"]
    {
        let error = refused(&[("p", Clause::exclusive(spec))]);
        assert!(error.contains("for the checker only"), "{error}");
    }
}

#[test]
fn a_pattern_has_its_star_at_the_end_and_something_before_it() {
    for bad in ["*", "", "a*b", "a**"] {
        assert!(matches!(rules(&[(bad, Clause::exclusive("lamport"))]), Err(RulesError::BadPattern { .. })));
    }
}

#[test]
fn options_that_do_not_fit_the_members_are_refused_when_proposed_and_fall_back_to_defaults_later() {
    let rules = rules(&[("p", Clause::exclusive("central:coordinator=3"))]).unwrap();
    assert!(rules.fit(4).is_ok());
    let error = rules.fit(3).unwrap_err().to_string();
    assert_eq!(error, "rule 'p': option coordinator: site 3 does not exist: the sites are 0 to 2");
    // The fourth member is gone: the lock goes on with the default coordinator.
    let _ = rules.rule(&"p".parse().unwrap()).plan(3);
}
