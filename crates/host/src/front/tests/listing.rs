//! All locks and what happens to them, for callers who may see some of them.

use meshlock_cluster::rules::Pattern;

use super::*;

fn names(page: &meshlock_cluster::node::LockPage) -> Vec<&str> {
    page.locks.iter().map(|lock| lock.lock.as_str()).collect()
}

/// A node of which `viewer` may watch `deploy/*`, and `nobody` nothing.
fn watched_in_part() -> (Engine, Front) {
    let rules: [(&str, &str, &[Verb]); 2] =
        [("viewer", "deploy/*", &[Verb::Watch]), ("nobody", "*", &[Verb::Acquire])];
    ready(policy(&rules), Audit::default())
}

#[test]
fn a_page_has_only_what_its_caller_may_watch_and_who_may_watch_nothing_is_denied() {
    async_test(async {
        let (_engine, front) = watched_in_part();
        let own = front.in_process();
        let held = ["deploy/web", "secret", "deploy/api"];
        let _held = held.map(|lock| acquire(&front, &own, params(lock, Wait::Forever, None)));
        let page = async |caller, pattern: Option<&str>, limit| {
            let pattern = pattern.map(|pattern| Pattern::parse(pattern).unwrap());
            front.lock_page(caller, pattern, None, limit).await
        };
        let viewer = admitted(&front, "viewer");
        assert_eq!(names(&page(&own, None, 10).await.unwrap()), ["deploy/api", "deploy/web", "secret"]);
        assert_eq!(names(&page(&viewer, None, 10).await.unwrap()), ["deploy/api", "deploy/web"]);
        assert_eq!(names(&page(&viewer, Some("secret"), 10).await.unwrap()), [""; 0]);
        let first = page(&viewer, None, 1).await.unwrap();
        assert_eq!(
            (names(&first), first.next.as_ref().map(ToString::to_string)),
            (vec!["deploy/api"], Some("deploy/api".into()))
        );
        let nobody = admitted(&front, "nobody");
        assert!(matches!(page(&nobody, None, 10).await, Err(NotAnswered::Denied(_))));
        assert!(matches!(front.changes(&nobody, None), Err(NotWatched::Denied(_))));
        assert!(matches!(front.deadlocks(&nobody).await, Err(NotAnswered::Denied(_))));
    });
}

#[test]
fn a_watcher_is_told_what_it_may_see_and_nothing_is_kept_when_it_has_gone() {
    async_test(async {
        let (_engine, front) = watched_in_part();
        let own = front.in_process();
        let mut watch = front.changes(&admitted(&front, "viewer"), None).unwrap();
        let begun = in_time("the watch begins", watch.next()).await;
        assert_eq!(begun, Some(Changes::default()));
        let secret = acquire(&front, &own, params("secret", Wait::Forever, None));
        let seen = acquire(&front, &own, params("deploy/web", Wait::Forever, None));
        secret.release();
        seen.release();
        let mut told = Vec::new();
        while told.len() < 2 {
            let changes = in_time("it is told", watch.next()).await.unwrap();
            assert_eq!(changes.missed, 0);
            told.extend(
                changes
                    .changes
                    .iter()
                    .map(|seen| format!("{} {}", seen.change.kind.name(), seen.change.lock)),
            );
        }
        assert_eq!(told, ["acquired deploy/web", "released deploy/web"]);
        assert!(front.is_followed());
        drop(watch);
        eventually_async("nobody is asked any more", tokio::time::sleep, || !front.is_followed()).await;
    });
}

#[test]
fn a_watcher_that_does_not_read_is_told_that_it_has_missed_something_and_holds_nobody_up() {
    async_test(async {
        let (_engine, front) = ready(Policy::default(), Audit::default());
        let own = front.in_process();
        let (mut slow, mut quick) = (front.changes(&own, None).unwrap(), front.changes(&own, None).unwrap());
        in_time("the watch begins", slow.next()).await;
        in_time("the watch begins", quick.next()).await;
        let (mut told, mut missed) = (0, 0);
        // More batches than a watcher may fall behind, each of at least one change.
        while told < 200 {
            acquire(&front, &own, params("jobs", Wait::Forever, None)).release();
            let changes = in_time("it is told", quick.next()).await.unwrap();
            (told, missed) = (told + changes.changes.len(), missed + changes.missed);
        }
        assert_eq!(missed, 0, "the quick one has missed nothing");
        assert!(in_time("it is told", slow.next()).await.unwrap().missed > 0);
    });
}
