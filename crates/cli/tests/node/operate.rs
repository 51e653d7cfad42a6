//! Inspecting and changing a running cluster.

use meshlock_testing::eventually;
use meshlock_wire::clients::ToClient;

use crate::site::{Files, fails, json, says};

#[test]
fn an_operator_lists_holders_and_waiters_breaks_a_lock_and_changes_its_rules() {
    let files = Files::new(3, true, "");
    let _sites = files.start_all(&["a", "b", "c"]);
    let (home, a, c) = (files.home(), files.path("a.sock"), files.path("c.sock"));
    // Views before the last one end what is asked across them.
    eventually("all take part", || {
        json(home, &["site", "list", "--socket", &a])["sites"].as_array().unwrap().len() == 3
    });
    let mut holder = files.client("b", "backup.sh");
    let fence = holder.acquire("jobs");
    let mut waiter = files.client("c", "report.sh");
    waiter.want("jobs");

    let mut status = serde_json::Value::Null;
    eventually("c knows that its client waits", || {
        status = json(home, &["status", "--socket", &c]);
        status["waiters"] == 1
    });
    assert_eq!((&status["site"], &status["standing"]), (&"c".into(), &"is a member of the cluster".into()));
    assert_eq!(status["leader"].as_str().map(str::len), Some(1));
    let mut text = String::new();
    eventually("c has its lease of this view, and knows behind whom its client waits", || {
        text = says(home, &["queue", "jobs", "--socket", &a]);
        text.contains(r#"(label "backup.sh") of b"#) && text.contains("it waits behind uid:")
    });
    assert!(text.starts_with("jobs: naimi-trehel; 1 hold it, 1 wait."), "{text}");
    let queue = json(home, &["queue", "jobs", "--socket", &a]);
    assert_eq!(queue["holders"][0]["fence"], fence.to_string());
    let own = rustix::process::getuid().as_raw();
    assert_eq!(queue["waiters"][0]["who"], format!(r#"uid:{own} (label "report.sh")"#));

    let error = fails(home, 64, &["break", "jobs", "--socket", &a]);
    assert!(error.contains("no terminal to ask on; say --yes"), "{error}");
    let text = says(home, &["break", "jobs", "--yes", "--socket", &a]);
    assert_eq!(text, format!("jobs was taken from uid:{own} (label \"backup.sh\") of b (fence {fence}).\n"));
    assert!(matches!(holder.receive(), ToClient::Lost { .. }));
    assert!(matches!(waiter.receive(), ToClient::Granted { fence: later, .. } if later > fence));

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
fn a_semaphore_is_refused_beside_a_plain_holder_at_another_site_and_changes_nothing() {
    let files = Files::new(3, false, "");
    let _sites = files.start_all(&["a", "b", "c"]);
    let (home, a, b) = (files.home(), files.path("a.sock"), files.path("b.sock"));
    eventually("all take part", || {
        json(home, &["site", "list", "--socket", &a])["sites"].as_array().unwrap().len() == 3
    });
    let three = ["run", "pz", "--try", "--permits", "3", "--socket", &b, "--", "true"];
    let mut holder = files.client("a", "plain");
    let fence = holder.acquire("pz");
    let error = fails(home, 64, &three);
    assert!(error.contains("'pz' is in use with 1 permit and this program expects 3"), "{error}");
    assert_eq!(json(home, &["rules", "show", "--socket", &a])["rules"].as_array().map(Vec::len), Some(1));
    fails(home, 75, &["run", "pz", "--try", "--socket", &b, "--", "true"]);
    holder.release();
    says(home, &three);
    let later = says(home, &["run", "pz", "--socket", &b, "--", "sh", "-c", "echo $MESHLOCK_FENCE"]);
    assert!(later.trim().parse::<i64>().unwrap() > fence, "{later}");

    // With a rule, only its number is right, and nobody enters beside those who hold the lock already.
    let fence = holder.acquire("pz");
    says(home, &["rules", "set", "pz", "raymond-k", "--permits", "3", "--socket", &b]);
    fails(home, 75, &three);
    let error = fails(home, 64, &["run", "pz", "--socket", &b, "--", "true"]);
    assert!(error.contains("the cluster's rules give 'pz' 3 permits and this program expects 1"), "{error}");
    let queue = json(home, &["queue", "pz", "--socket", &b]);
    assert_eq!(queue["holders"][0]["fence"], fence.to_string(), "it keeps what it has: {queue}");
    holder.release();
    says(home, &["run", "pz", "--permits", "3", "--socket", &b, "--", "true"]);
}

#[test]
fn any_node_can_remove_a_site_and_one_that_is_gone_need_not_confirm() {
    let files = Files::new(4, false, "");
    let mut sites = files.start_all(&["a", "b", "c", "d"]);
    let (home, a, c) = (files.home(), files.path("a.sock"), files.path("c.sock"));
    let members = || json(home, &["site", "list", "--socket", &a])["sites"].as_array().unwrap().len();
    eventually("all take part", || members() == 4);
    let error = fails(home, 64, &["site", "remove", "c", "--socket", &a]);
    assert!(error.contains("no terminal to ask on; say --yes"), "{error}");
    let error = fails(home, 64, &["site", "remove", "z", "--yes", "--socket", &c]);
    assert!(error.contains("z is not a member of the cluster; `meshlock site list`"), "{error}");
    let text = says(home, &["site", "remove", "c", "--yes", "--socket", &a]);
    assert!(
        text.starts_with("c has left.") && text.contains("3 voters (a, b, d), and 2 must be up."),
        "{text}"
    );
    assert!(says(home, &["status", "--socket", &c]).contains("is not a member of the cluster"));
    let error = fails(home, 64, &["site", "remove", "c", "--yes", "--socket", &a]);
    assert!(error.contains("c is not a member of the cluster; `meshlock site list`"), "{error}");
    // One that is gone for good, and its own node.
    sites[3].signal(rustix::process::Signal::KILL);
    sites[3].end();
    let removed = json(home, &["site", "remove", "d", "--yes", "--socket", &a]);
    assert_eq!((&removed["left"], &removed["heard"]), (&true.into(), &false.into()));
}

#[test]
fn one_frame_of_top_shows_all_members_and_their_locks() {
    let files = Files::new(2, false, "");
    let _sites = files.start_all(&["a", "b"]);
    let (home, a) = (files.home(), files.path("a.sock"));
    eventually("both take part", || {
        json(home, &["site", "list", "--socket", &a])["sites"].as_array().unwrap().len() == 2
    });
    let mut holder = files.client("b", "backup.sh");
    let fence = holder.acquire("jobs");
    let mut text = String::new();
    eventually("both have a lease", || {
        text = says(home, &["top", "--once", "--socket", &a]);
        text.matches("is a member").count() == 2 && !text.contains("none")
    });
    assert!(text.contains("2 members · 2 of 2 voters up, 0 may fail · 1 lock in use · seen by a"), "{text}");
    assert!(text.contains(r#"(label "backup.sh") of b"#) && text.contains("leads"), "{text}");
    let document = json(home, &["top", "--socket", &a]);
    assert_eq!(
        (&document["locks"][0]["fence"], &document["locks"][0]["site"]),
        (&fence.to_string().into(), &"b".into())
    );
    // Without a terminal it says what to do instead.
    let error = fails(home, 1, &["top", "--socket", &a]);
    assert!(error.contains("`meshlock top --once` prints one frame"), "{error}");
    let error = fails(home, 64, &["top", "--interval", "1ms", "--socket", &a]);
    assert!(error.contains("--interval: give 100 ms or more"), "{error}");
}
