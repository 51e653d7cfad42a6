//! Text is readable in light and dark: contrast of at least 4.5 to 1 (WCAG AA) for every colour that text has.

#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

use std::collections::BTreeMap;

const STYLE: &str = include_str!("../assets/style.css");

/// The variables of one theme.
fn theme(selector: &str) -> BTreeMap<&'static str, &'static str> {
    let (_, rest) = STYLE.split_once(selector).unwrap();
    let (body, _) = rest.split_once('}').unwrap();
    let pairs = body.split(';').filter_map(|pair| pair.trim().trim_start_matches('{').trim().split_once(':'));
    pairs.map(|(name, value)| (name.trim(), value.trim())).collect()
}

fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_has_enough_contrast_in_both_themes() {
    for selector in [":root {", ":root[data-theme=\"dark\"] {"] {
        let colours = theme(selector);
        let kinds: Vec<String> = (0..=10).map(|kind| format!("--kind-{kind}")).collect();
        let texts = ["--text", "--text-2", "--accent", "--broken", "--holds", "--watch"].into_iter();
        for text in texts.chain(kinds.iter().map(String::as_str)) {
            for paper in ["--paper", "--panel"] {
                let ratio = contrast(colours[text], colours[paper]);
                assert!(ratio >= 4.5, "{selector} {text} on {paper}: {ratio:.2}");
            }
        }
        assert!(contrast(colours["--accent-text"], colours["--accent"]) >= 4.5, "{selector} buttons");
        assert!(contrast(colours["--accent"], colours["--accent-soft"]) >= 4.5, "{selector} chosen tabs");
        assert!(contrast(colours["--text"], colours["--changed"]) >= 4.5, "{selector} changed fields");
    }
}
