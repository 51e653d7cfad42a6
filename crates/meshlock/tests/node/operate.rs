//! Looking at a running cluster, and changing it.

use meshlock_node::shell::client::protocol::ToClient;

use crate::site::{Files, fails, json, says, until};

#[test]
fn an_operator_sees_who_holds_and_waits_takes_a_lock_away_and_changes_its_rules() {
    let files = Files::new(3, true, "");
    let _sites = files.start_all(&["a", "b", "c"]);
    let (home, a, c) = (files.home(), files.path("a.sock"), files.path("c.sock"));
    // Views before the last one end what is asked across them.
    until("all take part", || {
        json(home, &["site", "list", "--socket", &a])["sites"].as_array().unwrap().len() == 3
    });
    let mut holder = files.client("b", "backup.sh");
    let fence = holder.acquire("jobs");
    let mut waiter = files.client("c", "report.sh");
    waiter.want("jobs");

    let mut status = serde_json::Value::Null;
    until("c knows that its client waits", || {
        status = json(home, &["status", "--socket", &c]);
        status["waiters"] == 1
    });
    assert_eq!((&status["site"], &status["standing"]), (&"c".into(), &"takes part".into()));
    assert_eq!(status["leader"].as_str().map(str::len), Some(1));
    let mut text = String::new();
    until("c has its lease of this view, and knows behind whom its client waits", || {
        text = says(home, &["queue", "jobs", "--socket", &a]);
        text.contains("it waits behind backup.sh of b")
    });
    assert!(text.starts_with("jobs: naimi-trehel; 1 hold it, 1 wait."), "{text}");
    let queue = json(home, &["queue", "jobs", "--socket", &a]);
    assert_eq!(queue["holders"][0]["fence"], fence);
    assert_eq!(queue["waiters"][0]["who"], "report.sh");

    let error = fails(home, 64, &["break", "jobs", "--socket", &a]);
    assert!(error.contains("no terminal to ask on; say --yes"), "{error}");
    let text = says(home, &["break", "jobs", "--yes", "--socket", &a]);
    assert_eq!(text, format!("jobs was taken from backup.sh of b (fence {fence}).\n"));
    assert!(matches!(holder.hear(), ToClient::Lost { .. }));
    assert!(matches!(waiter.hear(), ToClient::Granted { fence: later, .. } if later > fence));

    let rules = json(home, &["rules", "set", "pool/*", "raymond-k", "--permits", "3", "--socket", &a]);
    assert_eq!(
        (&rules["rules"][0]["pattern"], &rules["rules"][0]["per_site"]),
        (&"pool/*".into(), &3.into())
    );
    assert_eq!(json(home, &["queue", "pool/x", "--socket", &a])["permits"], 3);
    let error = fails(home, 64, &["rules", "set", "x", "paxos", "--socket", &a]);
    assert!(error.contains("rule 'x'"), "{error}");
    let error = fails(home, 64, &["rules", "unset", "pool*", "--socket", &a]);
    assert!(error.contains("there is no rule 'pool*' (did you mean 'pool/*'?)"), "{error}");
    says(home, &["rules", "unset", "pool/*", "--socket", &a]);
    assert!(!says(home, &["rules", "show", "--socket", &a]).contains("pool"));
}

#[test]
fn a_site_leaves_when_it_is_asked_itself_and_others_cannot_be_removed() {
    let files = Files::new(3, false, "");
    let _sites = files.start_all(&["a", "b", "c"]);
    let (home, c) = (files.home(), files.path("c.sock"));
    until("all take part", || {
        json(home, &["site", "list", "--socket", &c])["sites"].as_array().unwrap().len() == 3
    });
    let error = fails(home, 64, &["site", "remove", "a", "--socket", &c]);
    assert!(error.contains("only a site itself can leave: run this on its machine"), "{error}");
    let error = fails(home, 64, &["site", "remove", "z", "--socket", &c]);
    assert!(error.contains("z does not take part"), "{error}");
    let text = says(home, &["site", "remove", "c", "--socket", &c]);
    assert!(text.starts_with("c has left."), "{text}");
    assert!(says(home, &["status", "--socket", &c]).contains("is not a member of the cluster"));
}
