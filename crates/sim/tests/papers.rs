//! docs/PAPERS.md has a row for every section, figure, theorem and exercise of the five texts, and names only what is there.

use std::path::Path;

use meshlock_sim::experiments;

const PAGE: &str = include_str!("../../../docs/PAPERS.md");

/// The texts with their headings, taken from them in their order; where a section is long, its figures or parts apart.
const TEXTS: [(&str, &[&str]); 5] = [
    (
        "Kshemkalyani and Singhal, Distributed Computing, chapter 9",
        &[
            "9.1",
            "9.2",
            "9.2.1",
            "9.2.2",
            "9.2.3",
            "9.3",
            "Theorem 9.1",
            "Theorem 9.2",
            "9.3, Performance and optimization",
            "9.4",
            "Theorem 9.3",
            "9.5",
            "9.5.1",
            "9.5.2",
            "9.5.3",
            "9.5.4",
            "9.6",
            "9.6.1",
            "9.6.2",
            "9.6.3",
            "9.6.4",
            "9.7",
            "9.8",
            "Theorem 9.3, Maekawa",
            "9.8.1",
            "9.9",
            "9.9.1",
            "9.9.2",
            "9.9.3",
            "9.9.4",
            "9.9.5",
            "9.9.6",
            "9.10",
            "9.11",
            "Theorem 9.3, Suzuki–Kasami",
            "9.12",
            "9.12.1",
            "9.12.2",
            "9.12.3",
            "9.12.4",
            "9.12.5",
            "9.12.6",
            "9.12.7",
            "9.13",
            "Exercise 9.1",
            "Exercise 9.2",
            "Exercise 9.3",
            "Exercise 9.4",
            "Exercise 9.5",
            "Exercise 9.6",
            "Exercise 9.7",
            "Exercise 9.8",
            "9.15",
        ],
    ),
    (
        "Lodha and Kshemkalyani 2000, A Fair Distributed Mutual Exclusion Algorithm",
        &["1", "2.1", "2.2", "3.1", "3.2", "3.3", "3.4.1", "3.4.2", "4.1", "4.2", "4.3", "4.4", "5"],
    ),
    (
        "Sanders 1987, The Information Structure of Distributed Mutual Exclusion Algorithms",
        &["1", "2", "3.1", "3.2", "4", "5", "6.1", "6.2", "7", "7.1", "8", "9"],
    ),
    (
        "Singhal 1989, A Heuristically-Aided Algorithm for Mutual Exclusion",
        &[
            "I", "II", "III-A", "III-B", "III-C", "III-D", "III-E", "III-F", "III-G", "III-H", "IV-A",
            "IV-B", "IV-C", "V-A", "V-B", "V-C", "V-D", "VI-A", "VI-B", "VI-C", "VII", "Appendix",
        ],
    ),
    (
        "Bulgannawar and Vaidya 1994, A Distributed K-Mutual Exclusion Algorithm",
        &[
            "1",
            "2",
            "2.1",
            "2, Proof of Correctness",
            "3",
            "4",
            "5, Figure 3",
            "5, Figure 4",
            "5, Figure 5",
            "5, Convergence and sanity checks",
            "5, Other parameters",
            "6",
        ],
    ),
];

#[test]
fn every_heading_of_the_texts_has_its_row_in_their_order() {
    let mut parts = PAGE.split("\n## ").skip(1);
    for (title, headings) in TEXTS {
        let part = parts.next().expect("a part for each text");
        assert!(part.starts_with(title), "{title}");
        let rows = part.lines().filter(|line| line.starts_with("| ")).skip(1);
        let places: Vec<&str> = rows.map(|row| row[2..].split(" |").next().expect("a first cell")).collect();
        assert_eq!(places, headings, "{title}");
        for row in part.lines().filter(|line| line.starts_with("| ")) {
            assert!(row.split('|').all(|cell| cell.trim() != "" || cell.is_empty()), "an empty cell: {row}");
        }
    }
    assert!(parts.next().is_none());
}

#[test]
fn every_experiment_that_the_page_names_exists_and_every_experiment_is_named() {
    let named: Vec<&str> = PAGE
        .split("`meshlock reproduce ")
        .skip(1)
        .map(|rest| rest.split('`').next().expect("a closing mark"))
        .collect();
    for id in &named {
        assert!(experiments::ALL.iter().any(|experiment| experiment.id == *id), "{id}");
    }
    for experiment in experiments::ALL {
        assert!(named.contains(&experiment.id), "{} is nowhere on the page", experiment.id);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads the sources that the page names")]
fn every_test_that_the_page_names_is_in_the_file_before_it() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut tests = 0;
    for link in PAGE.split("](../").skip(1) {
        let (path, rest) = link.split_once(')').expect("a closing bracket");
        let source = std::fs::read_to_string(docs.join("..").join(path))
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let Some(names) = rest.strip_prefix(": ") else { continue };
        let names = names.split([';', '|', '[']).next().expect("at least one part");
        for name in names.split('`').skip(1).step_by(2) {
            assert!(source.contains(&format!("fn {name}(")), "{path} has no test {name}");
            tests += 1;
        }
    }
    assert!(tests > 50, "{tests}");
}

/// The errata's own page has a heading for each.
#[test]
fn every_erratum_is_named_and_those_that_are_named_exist() {
    let errata = include_str!("../../../docs/ERRATA.md");
    let ids: Vec<&str> = errata
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .filter(|heading| !heading.contains(' '))
        .collect();
    let named: Vec<&str> = PAGE
        .split("(ERRATA.md#")
        .skip(1)
        .map(|rest| rest.split(')').next().expect("a closing bracket"))
        .collect();
    for id in &named {
        assert!(ids.contains(id), "{id} is no erratum");
    }
    for id in ids {
        assert!(named.contains(&id), "{id} is nowhere on the page");
    }
}
