//! What was found out of a limiter, as JSON and as a page.

use flowgate_load::verify::to_json;
use flowgate_load::{Target, html};
use flowgate_verify::{
    Defect, DetectedKind, EnvelopePoint, Estimate, ExpectedLimit, ExpectedVerdict, Findings,
    Investigation, Judgement, Simulated, Steady, Worst,
};
use roxmltree::{Document, ParsingOptions};

fn target() -> Target {
    Target::parse("http://127.0.0.1:8080/a?b='c'&d").unwrap()
}

fn findings() -> Findings {
    let Ok(mut findings) =
        Investigation::new().run(&mut Simulated::new(|_| true.into()), &mut |_| ());
    findings.detected.kind = DetectedKind::TokenBucket;
    let estimate = |value| {
        Some(Estimate {
            value,
            plus_minus: 0.1,
        })
    };
    findings.detected.rate = estimate(99.8);
    findings.detected.burst = estimate(20.0);
    findings.envelope = (1..=5_000_u32)
        .map(|index| EnvelopePoint {
            interval: f64::from(index - 1) / 100.0,
            admitted: u64::from(20 + index),
        })
        .collect();
    findings.steady = [90.0, 100.0, 110.0, 200.0]
        .map(|offered: f64| Steady {
            offered,
            admitted: offered.min(100.0),
            requests: 500,
        })
        .to_vec();
    findings.expected = Some(Judgement {
        limit: "100/s burst 20".parse::<ExpectedLimit>().unwrap(),
        verdict: ExpectedVerdict::Differs(vec!["it is <another>".to_owned()]),
    });
    findings
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("well-formed")
}

#[test]
fn the_page_says_what_was_found_and_is_not_long() {
    let page = html::limiter_page(&target(), &findings());
    assert!(page.len() <= 150_000, "{} bytes", page.len());
    let document = parsed(&page);
    let text: String = document
        .descendants()
        .filter_map(|node| node.text())
        .collect();
    for expected in [
        "http://127.0.0.1:8080/",
        "token bucket",
        "DIFFERS",
        "it is <another>",
        "expected limit: 100/s burst 20",
        "Admitted and refused over time",
        "flowgate load --at-most 98/s",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let charts = document
        .descendants()
        .filter(|node| {
            node.attribute("class")
                .is_some_and(|class| class.starts_with("chart"))
        })
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    assert_eq!(charts.count(), 3);
    assert!(page.contains("<title>5020 in "), "the last dot is there");
    assert!(!page.contains("<script") && !page.contains("src="));
}

#[test]
fn a_page_of_nothing_and_of_odd_numbers_is_well_formed() {
    let mut nothing = findings();
    nothing.envelope.clear();
    nothing.slots.clear();
    nothing.steady.clear();
    nothing.expected = None;
    nothing.detected.rate = None;
    parsed(&html::limiter_page(&target(), &nothing));

    let mut odd = findings();
    odd.seconds = f64::NAN;
    odd.detected.rate = Some(Estimate {
        value: f64::INFINITY,
        plus_minus: f64::NAN,
    });
    odd.expected = None;
    odd.envelope = vec![
        EnvelopePoint {
            interval: 0.0,
            admitted: u64::MAX,
        },
        EnvelopePoint {
            interval: f64::MAX,
            admitted: 0,
        },
    ];
    odd.steady[0].offered = f64::NAN;
    let page = html::limiter_page(&target(), &odd);
    parsed(&page);
    assert!(page.len() <= 150_000);
    assert!(
        !page.contains("NaN\"") && !page.contains("inf\""),
        "a place is a number"
    );
}

#[test]
fn json_has_a_number_for_its_layout() {
    let text = to_json(&target(), &findings());
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], 2);
    assert_eq!(json["flowgate"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["target"], target().to_string());
    assert_eq!(json["detected"]["kind"], "token-bucket");
    assert_eq!(json["detected"]["rate"]["value"], 99.8);
    assert_eq!(json["expected"]["limit"], "100/s burst 20");
    assert!(text.ends_with("}\n"));
}

#[test]
fn each_name_of_a_defect_is_that_in_json() {
    let (times, of) = (1, 2);
    let worst = Worst {
        interval: 1.0,
        admitted: 2,
        allowed: 1.0,
        at: 0.0,
    };
    let defects = [
        Defect::Race {
            admitted: 2,
            allowed: 1.0,
        },
        Defect::Nodes { at_least: 2 },
        Defect::MultipleOfExpected { times: 2 },
        Defect::LateReset { by_seconds: 1.0 },
        Defect::EarlyRetryAfter {
            times,
            of,
            by_seconds: 1.0,
        },
        Defect::WrongRemaining { times, of },
        Defect::OverAdmission { worst },
        Defect::UnderAdmission {
            per_second: 1.0,
            allowed: 2.0,
        },
        Defect::Collapse {
            offered: 2.0,
            admitted: 1.0,
            of: 2.0,
        },
        Defect::Ban { after_refusals: 1 },
        Defect::Failures { times, of },
        Defect::NoRecovery {
            admitted: 1,
            silent_seconds: 2.0,
        },
    ];
    let names = defects.each_ref().map(Defect::name);
    assert_eq!(names, Defect::NAMES);
    for defect in defects {
        let json = serde_json::to_value(&defect).unwrap();
        assert!(json.get(defect.name()).is_some(), "{json}");
    }
}
