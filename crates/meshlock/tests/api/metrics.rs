//! Metrics from code, whether or not the API is served.

use meshlock::Node;
use meshlock_testing::blocking_test;

#[test]
fn a_node_without_an_api_has_the_metrics_of_the_node() {
    blocking_test(|| {
        let node = Node::local().unwrap();
        let guard = node.lock_blocking("a").unwrap();
        let text = node.metrics();
        assert!(text.contains("\nmeshlock_holders 1\n"), "{text}");
        assert!(text.contains("meshlock_acquisitions_total{outcome=\"granted\"} 1\n"), "{text}");
        assert!(!text.contains("api") && text.ends_with("# EOF\n"), "{text}");
        drop(guard);
        assert!(node.metrics().contains("\nmeshlock_holders 0\n"));
    });
}

#[test]
fn a_node_with_an_api_has_those_of_the_api_too() {
    let node = Node::builder().in_memory().api("127.0.0.1:0").start().unwrap();
    let text = node.metrics();
    assert!(text.contains("\nmeshlock_api_keys 0\n"), "{text}");
    assert!(text.contains("meshlock_sessions{of=\"api\"} 0\n"), "{text}");
}
