//! The page about runs: that a browser can read it, and that it hides nothing.

use crate::sample;
use std::time::Duration;

use flowgate_load::{Cluster, Curves, Failure, PacingMode, Quantile, Report, Slot, html};
use roxmltree::{Document, Node, ParsingOptions};

/// The page is XML too, which says more about its form than a browser would.
fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("well-formed")
}

fn named<'a>(document: &'a Document<'a>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    document
        .descendants()
        .filter(move |node| node.tag_name().name() == name)
}

/// All text of a node, as it is read.
fn text(node: Node) -> String {
    let texts = node.descendants().filter(Node::is_text);
    texts.filter_map(|node| node.text()).collect()
}

/// The rows of all tables, their cells side by side.
fn rows(page: &str) -> Vec<String> {
    let document = parse(page);
    let cells = |row: Node| row.children().map(text).collect::<Vec<_>>().join("|");
    named(&document, "tr").map(cells).collect()
}

/// Reports at the edges of what there can be.
fn odd() -> Vec<Report> {
    let mut zeros = sample::held(3);
    for slot in &mut zeros.timeline.slots {
        *slot = Slot::default();
    }
    let zero = Quantile {
        share: 0.5,
        value: Duration::ZERO,
    };
    zeros.curves.lag = vec![zero; 3];
    zeros.curves.response = vec![zero];
    zeros.pacing.envelope = vec![Cluster {
        sends: 2,
        within: Duration::ZERO,
    }];

    let mut huge = sample::held(3);
    let most = Duration::from_nanos(u64::MAX);
    huge.asked.per_second = Some(f64::MAX);
    huge.timeline.width = most;
    huge.timeline.slots = vec![
        Slot {
            scheduled: u64::MAX,
            sent: u64::MAX,
            response_max: most,
            ..Slot::default()
        };
        3
    ];
    huge.curves.lag = vec![
        Quantile {
            share: 2.0,
            value: most,
        },
        Quantile {
            share: -1.0,
            value: most,
        },
    ];
    huge.lag.samples = u64::MAX;
    huge.pacing.envelope = vec![
        Cluster {
            sends: u64::MAX,
            within: most,
        },
        Cluster {
            sends: 0,
            within: most,
        },
    ];

    let mut unnumbered = sample::held(2);
    unnumbered.asked.per_second = Some(f64::NAN);
    unnumbered.curves.service = vec![Quantile {
        share: f64::NAN,
        value: Duration::from_secs(1),
    }];
    unnumbered.timeline.width = Duration::ZERO;

    let mut under = sample::full();
    under.asked.mode = PacingMode::Under;
    let late = Report {
        span: Duration::from_millis(1),
        ..sample::held(9)
    };
    vec![
        sample::full(),
        sample::held(1),
        sample::empty(),
        sample::single(),
        zeros,
        huge,
        unnumbered,
        under,
        late,
    ]
}

#[test]
fn every_page_is_well_formed_and_every_number_in_it_is_one() {
    let odd = odd();
    let pairs: Vec<(&str, &Report)> = odd.iter().map(|report| ("run", report)).collect();
    let alone = pairs.iter().map(std::slice::from_ref);
    let together = [&pairs[..], &pairs[..3], &pairs[4..], &[]];
    for runs in alone.chain(together) {
        let page = html::page(runs);
        let document = parse(&page);
        assert_eq!(named(&document, "svg").next().is_none(), runs.is_empty());
        for node in document.descendants().filter(|node| node.is_element()) {
            let shape = ["d", "x", "y", "cx", "cy", "width", "height", "viewBox"];
            for attribute in node
                .attributes()
                .filter(|attribute| shape.contains(&attribute.name()))
            {
                let value = attribute.value();
                let is_finite = |number: &str| number.parse::<f64>().is_ok_and(f64::is_finite);
                let numbers =
                    value.split(|letter: char| letter == ' ' || "MLHVZhv".contains(letter));
                for number in numbers.filter(|number| !number.is_empty()) {
                    assert!(is_finite(number), "{}: {value}", node.tag_name().name());
                }
            }
        }
        // In what people read, too.
        let body = named(&document, "body")
            .next()
            .map(text)
            .unwrap_or_default();
        assert!(!body.contains("NaN") && !body.contains("inf"), "{body}");
    }
}

#[test]
fn every_id_is_there_once_and_every_chart_is_described() {
    let runs = [("a", sample::full()), ("b", sample::held(4))];
    for runs in [&runs[..1], &runs] {
        let page = html::page(runs);
        let document = parse(&page);
        let mut ids: Vec<&str> = document
            .descendants()
            .filter_map(|node| node.attribute("id"))
            .collect();
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
        let charts = named(&document, "svg").filter(|svg| svg.attribute("role") == Some("img"));
        let mut found = 0;
        for chart in charts {
            found += 1;
            let label = chart.attribute("aria-labelledby").unwrap();
            assert!(label.split(' ').all(|id| ids.contains(&id)), "{label}");
            assert!(
                chart
                    .children()
                    .any(|node| node.tag_name().name() == "desc" && !text(node).is_empty())
            );
        }
        assert_eq!(found, if runs.len() == 1 { 5 } else { 12 });
    }
}

#[test]
fn text_from_outside_stays_text() {
    let hostile = "</title><script>alert('1')</script>\u{0}\"&amp;";
    let mut report = sample::full();
    report.target = hostile.to_owned();
    report.asked.text = hostile.to_owned();
    for page in [
        html::page(&[(hostile, &report)]),
        html::page(&[(hostile, &report), ("b", &report)]),
    ] {
        let document = parse(&page);
        assert_eq!(named(&document, "script").count(), 0);
        assert!(
            text(document.root_element())
                .contains("</title><script>alert('1')</script>\u{fffd}\"&amp;")
        );
    }
}

#[test]
fn a_page_loads_nothing() {
    let page = html::page(&[("a", sample::full()), ("b", sample::full())]);
    let document = parse(&page);
    for name in [
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "use",
        "image",
        "foreignObject",
    ] {
        assert_eq!(named(&document, name).count(), 0, "{name}");
    }
    assert!(
        document
            .descendants()
            .all(|node| node.attribute("src").is_none() && node.attribute("href").is_none())
    );
    let style = named(&document, "style")
        .next()
        .map(text)
        .unwrap_or_default();
    assert!(!style.contains("url(") && !style.contains("@import"));
    assert!(style.contains("prefers-color-scheme: dark") && style.contains("@media print"));
}

#[test]
fn a_page_says_what_was_asked_and_how_it_went() {
    let page = html::page(&[
        ("before", sample::held(5)),
        ("after", sample::full()),
        ("", sample::empty()),
    ]);
    let document = parse(&page);
    let articles: Vec<String> = named(&document, "article").map(text).collect();
    let said = [
        &[
            "before",
            "RATE HELD",
            "hold 1000/s",
            "rate within 0.1 %",
            "lag p99 at most 1 ms",
        ][..],
        &[
            "after",
            "RATE NOT HELD",
            "skipped 7 late requests of 3000",
            "interrupted",
            "http://127.0.0.1:8080/?a=1&b=<2>",
        ],
        &["run 3", "UNPACED", "No rate was given"],
    ];
    assert_eq!(articles.len(), said.len());
    for (article, said) in articles.iter().zip(said) {
        assert!(said.iter().all(|said| article.contains(said)), "{article}");
    }
    // Every run is in every table, and in the legend of every figure.
    let tables: Vec<String> = named(&document, "table").map(text).collect();
    assert_eq!(tables.len(), 4);
    let legends = named(&document, "p")
        .filter(|node| node.attribute("class") == Some("keys"))
        .map(text);
    for text in tables.into_iter().chain(legends) {
        assert!(
            ["before", "after", "run 3"]
                .iter()
                .all(|name| text.contains(name)),
            "{text}"
        );
    }
}

#[test]
fn the_numbers_of_a_run_are_on_its_page() {
    let page = html::page(&[("run", sample::full())]);
    let rows = rows(&page);
    let expected = [
        "sent|2970 of 3000",
        "skipped, late|7",
        "could not be sent|23",
        "waited for a connection|11, up to 41.0 ms",
        "did not open|8 (connection refused)",
        "smallest gap|940 µs",
        "most in any 100 ms|101",
        "admitted (1xx to 3xx)|2903",
        "limited (429, 503)|54",
        "errors|343 (11.5 %)",
        "… timed out|16",
        "… answered 4xx|3",
        "… unanswered at the end|5",
        "bodies|1.82 MB",
        "… as gzip|1 MB",
        "… as br|30 B",
        "… decoded|900 kB to 4 MB",
        "… not decodable|12",
        "response|111 µs|220 µs|1.10 ms|5.50 ms",
    ];
    for row in expected {
        assert!(rows.iter().any(|found| found == row), "{row}: {rows:#?}");
    }
}

/// A page that is green over 300 failures would be worse than none.
#[test]
fn a_run_whose_requests_failed_is_not_green() {
    let mut report = sample::held(3);
    report.counts.statuses.success = 0;
    report.counts.failures = [(Failure::Reset, 3_000)].into();
    let page = html::page(&[("run", &report)]);
    let document = parse(&page);
    let article = named(&document, "article").next().expect("a verdict");
    assert_eq!(article.attribute("class"), Some("bad"));
    let said = text(article);
    for expected in [
        "✗ TOO MANY ERRORS",
        "3000 of 3000 requests failed (connection reset), more than 5 %",
        "the rate was held",
        "At most 5 % of the requests may fail.",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(
        rows(&page).contains(&"errors|3000 (100 %)".to_owned()),
        "{:?}",
        rows(&page)
    );
    // Among others that went well, too.
    let page = html::page(&[("good", &sample::held(3)), ("bad", &report)]);
    let document = parse(&page);
    let classes = named(&document, "article").map(|article| article.attribute("class"));
    assert_eq!(classes.collect::<Vec<_>>(), [Some("good"), Some("bad")]);
}

#[test]
fn a_page_says_where_it_comes_from() {
    let page = html::page(&[("run", sample::full())]);
    let document = parse(&page);
    let article = named(&document, "article")
        .next()
        .map(text)
        .unwrap_or_default();
    for expected in [
        "flowgate load 'http://127.0.0.1:8080/?a=1&b=<2>' -q 1000",
        "2026-11-28 01:30:12 UTC · flowgate 0.0.1 · 2 × AMD EPYC 7B13, linux 6.1.0 x86_64",
    ] {
        assert!(article.contains(expected), "{expected}: {article}");
    }
}

/// Runs with different percentiles share a table.
#[test]
fn every_percentile_of_any_run_has_a_column() {
    let page = html::page(&[("a", &sample::held(3)), ("b", &sample::full())]);
    let rows = rows(&page);
    let head = "||mean|p50|p90|p95|p99|p99.9|p99.99|max";
    assert!(rows.iter().any(|row| row == head), "{rows:?}");
    let other = "|b|111 µs|–|220 µs|–|1.10 ms|–|–|5.50 ms";
    assert!(
        rows.iter().any(|row| row.ends_with(&other[1..])),
        "{rows:?}"
    );
}

#[test]
fn a_quantile_that_is_only_the_maximum_is_left_out() {
    let mut report = sample::full();
    report.percentiles = Curves::default();
    for (samples, row) in [
        (
            999,
            "lag|7.00 µs|6.00 µs|12.0 µs|18.0 µs|60.0 µs|–|–|300 µs",
        ),
        (
            10_000,
            "lag|7.00 µs|6.00 µs|12.0 µs|18.0 µs|60.0 µs|120 µs|240 µs|300 µs",
        ),
        (0, "lag|–|–|–|–|–|–|–|–"),
    ] {
        report.lag.samples = samples;
        let page = html::page(&[("run", &report)]);
        let rows = rows(&page);
        assert!(rows.iter().any(|found| found == row), "{row}: {rows:#?}");
    }
}

/// Without a rate nothing is scheduled, and so nothing is late.
#[test]
fn a_run_without_a_rate_has_no_lag() {
    let mut report = sample::held(3);
    report.asked.mode = PacingMode::Unpaced;
    let page = html::page(&[("run", &report)]);
    assert!(rows(&page).contains(&"lag|–|–|–|–|–|–|–|–".to_owned()));
    assert!(page.contains("nothing was scheduled") && !page.contains(">target<"));
}

/// The places of a path's corners, in pixels from the top left.
fn corners(path: &str) -> Vec<(f64, f64)> {
    let (mut x, mut y, mut corners) = (0.0, 0.0, Vec::new());
    let mut commands: Vec<(char, String)> = Vec::new();
    for letter in path.chars() {
        match (letter, commands.last_mut()) {
            (letter, Some((_, numbers))) if !letter.is_alphabetic() => numbers.push(letter),
            (letter, _) => commands.push((letter, String::new())),
        }
    }
    for (command, numbers) in commands {
        let numbers: Vec<f64> = numbers
            .split_whitespace()
            .map(|number| number.parse().unwrap())
            .collect();
        match (command, numbers.as_slice()) {
            ('M' | 'L', [to_x, to_y]) => (x, y) = (*to_x, *to_y),
            ('H', [to_x]) => x = *to_x,
            ('V', [to_y]) => y = *to_y,
            _ => continue,
        }
        corners.push((x, y));
    }
    corners
}

/// The line of a look in the first chart.
fn line(page: &str, class: &str) -> Vec<(f64, f64)> {
    let document = parse(page);
    let mut charts = named(&document, "svg").filter(|svg| svg.attribute("role") == Some("img"));
    let chart = charts.next().expect("a chart");
    let mut lines = chart
        .children()
        .filter(|node| node.attribute("class") == Some(class));
    corners(
        lines
            .next()
            .and_then(|line| line.attribute("d"))
            .expect("a line"),
    )
}

#[test]
fn a_line_is_where_its_numbers_are() {
    let mut report = sample::held(4);
    for (slot, sent) in report.timeline.slots.iter_mut().zip([1_000, 500, 0, 1_000]) {
        (slot.scheduled, slot.sent) = (1_000, sent);
    }
    // From 62 to 1120 for four seconds, from 256 up to 30 for 1080/s.
    let (x, y) = (
        |second: f64| 62.0 + second * 264.5,
        |rate: f64| 256.0 - rate / 1_080.0 * 226.0,
    );
    let corners = line(&html::page(&[("run", &report)]), "line c0 d0");
    let expected = [
        (0.0, 1_000.0),
        (1.0, 1_000.0),
        (1.0, 500.0),
        (2.0, 500.0),
        (2.0, 0.0),
        (3.0, 0.0),
        (3.0, 1_000.0),
        (4.0, 1_000.0),
    ];
    let near =
        |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 0.11 && (b - d).abs() < 0.11;
    for (second, rate) in expected {
        let place = (x(second), y(rate));
        // A corner of a step needs no point of its own.
        let is_there = corners.iter().any(|corner| near(*corner, place));
        let is_on_the_way = corners
            .windows(2)
            .any(|pair| near((pair[1].0, pair[0].1), place));
        assert!(
            is_there || is_on_the_way,
            "{second} s, {rate}/s: {place:?} in {corners:?}"
        );
    }
}

/// The second in which a run ends is seldom over when its last request is sent.
#[test]
fn the_last_second_of_a_steady_run_does_not_look_slower() {
    let mut report = sample::held(3);
    report.counts.sent = 2_500;
    report.span = Duration::from_micros(2_499_000);
    let last = &mut report.timeline.slots[2];
    (
        last.scheduled,
        last.sent,
        last.admitted,
        last.limited,
        last.failed,
    ) = (500, 500, 499, 0, 0);
    // And one answer comes a little later.
    report.timeline.slots.push(Slot {
        admitted: 1,
        response_max: Duration::from_micros(90),
        ..Slot::default()
    });
    let heights: Vec<f64> = line(&html::page(&[("run", &report)]), "line c0 d0")
        .into_iter()
        .map(|(_, y)| y)
        .collect();
    assert!(heights.iter().all(|y| *y == heights[0]), "{heights:?}");
}

/// A last request that is late by a hair falls into a second of its own.
#[test]
fn a_second_with_one_late_request_is_not_drawn() {
    let mut report = sample::held(3);
    report.span = Duration::from_micros(3_000_100);
    report.timeline.slots[2].sent = 999;
    let last = Slot {
        sent: 1,
        admitted: 1,
        response_max: Duration::from_micros(90),
        ..Slot::default()
    };
    report.timeline.slots.push(last);
    let page = html::page(&[("run", &report)]);
    let (x, y): (Vec<f64>, Vec<f64>) = line(&page, "line c0 d0").into_iter().unzip();
    assert!(y.iter().all(|place| (place - y[0]).abs() < 0.5), "{y:?}");
    assert_eq!(
        x.last(),
        Some(&1120.0),
        "the axis ends with the third second"
    );
    // One that failed is not hidden.
    report.timeline.slots[3].failed = 1;
    let page = html::page(&[("run", &report)]);
    assert!(
        line(&page, "line c0 d0")
            .last()
            .is_some_and(|(x, _)| *x < 1120.0)
    );
}

#[test]
fn runs_differ_by_colour_and_by_dash() {
    let report = sample::single();
    let names: Vec<String> = (1..=20).map(|run| format!("run {run}")).collect();
    let runs: Vec<(&String, &Report)> = names.iter().map(|name| (name, &report)).collect();
    let page = html::page(&runs);
    let document = parse(&page);
    let titles = named(&document, "article");
    let swatch = |article: Node| {
        let mut paths = article
            .descendants()
            .filter(|node| node.tag_name().name() == "path");
        paths
            .next()
            .and_then(|path| path.attribute("class"))
            .map(str::to_owned)
    };
    let looks: Vec<String> = titles.filter_map(swatch).collect();
    assert_eq!(looks.len(), 20);
    let different = |looks: &mut dyn Iterator<Item = &str>| {
        looks.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(different(&mut looks.iter().map(String::as_str)), 20);
    let part = |place| {
        looks[..8]
            .iter()
            .filter_map(move |look| look.split(' ').nth(place))
    };
    assert_eq!(different(&mut part(1)), 8, "colours");
    assert_eq!(different(&mut part(2)), 8, "dashes");
}

#[test]
fn the_size_of_a_page_is_bounded() {
    let long = sample::held(10_000);
    let one = html::page(&[("a", &long)]).len();
    let three = html::page(&[("a", &long), ("b", &long), ("c", &long)]).len();
    assert!(one <= 200_000, "{one}");
    assert!(three <= 400_000, "{three}");
    let (x, y): (Vec<f64>, Vec<f64>) = line(&html::page(&[("a", &long)]), "line c0 d0")
        .into_iter()
        .unzip();
    assert_eq!((x[0], y[0]), (62.0, y[y.len() - 1]));
}

#[test]
fn a_spike_of_one_second_among_ten_thousand_is_seen() {
    let mut report = sample::held(10_000);
    report.timeline.slots[6_543].sent = 0;
    let lowest = line(&html::page(&[("a", &report)]), "line c0 d0")
        .into_iter()
        .map(|(_, y)| y)
        .fold(0.0, f64::max);
    assert_eq!(lowest, 256.0);
}
