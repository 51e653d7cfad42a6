//! The notation of options and files.

use super::*;

#[test]
fn an_option_and_a_file_say_the_same() {
    let system = QuorumSystem::parse(3, "0.1/1.2/0.2").unwrap();
    let file = "# three of them\nsites 3\n\n0.1\n1.2 # a comment\n0.2\n";
    assert_eq!(QuorumSystem::read(file), Ok(system.clone()));
    assert_eq!(QuorumSystem::read(&system.to_file()), Ok(system.clone()));
    assert_eq!(system.to_string(), "0.1/1.2/0.2");
}

#[test]
fn a_file_that_does_not_count_its_sites_has_those_it_names() {
    assert_eq!(QuorumSystem::read("0.1/1.4").unwrap().sites(), 5);
    assert_eq!(QuorumSystem::read("sites 9\n0.1/1.4").unwrap().sites(), 9);
}

#[test]
fn a_bad_text_is_refused_by_what_is_wrong_with_it() {
    let refused = |text: &str| QuorumSystem::read(text).unwrap_err().to_string();
    assert_eq!(refused("# nothing\n"), "no sets; write one a line, sites joined by '.': 0.1");
    assert_eq!(refused("sites many\n0"), "'sites many' must give a number from 1 to 10303");
    assert_eq!(refused("sites 2\n0.2"), "site 2 does not exist: the sites are 0 to 1");
    assert!(refused("0.1\n0,1").starts_with("'0,1' is no site;"));
    assert!(refused("0.1//0").starts_with("set 1 is empty;"));
    assert_eq!(QuorumSystem::parse(3, ""), Err(ParseQuorumsError::Empty(0)));
}
