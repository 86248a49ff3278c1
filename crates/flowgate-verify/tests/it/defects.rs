//! Planted faults are named, and what leaves no verdict gets none.

use std::collections::HashMap;
use std::time::Duration;

use flowgate::{FixedWindow, ManualClock, Quota, SlidingWindow, Timestamp, TokenBucket};
use flowgate_verify::{
    Advertised, Alignment, Answer, Budget, Defect, DetectedKind, ExpectedLimit, ExpectedVerdict,
    Findings, Investigation, ProbeOutcome, Question, Simulated,
};

const SERVICE: Duration = Duration::from_micros(500);

fn bucket(text: &str) -> impl FnMut(u64) -> bool {
    let quota: Quota = text.parse().unwrap();
    let bucket = TokenBucket::builder(quota)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    move |at_ns| {
        bucket
            .at(Timestamp::from_nanos(at_ns))
            .try_acquire()
            .is_ok()
    }
}

fn fixed(text: &str) -> impl FnMut(u64) -> bool + use<> {
    let quota: Quota = text.parse().unwrap();
    let window = FixedWindow::builder(quota)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    move |at_ns| {
        window
            .at(Timestamp::from_nanos(at_ns))
            .try_acquire()
            .is_ok()
    }
}

fn investigate(expected: &str, decide: impl FnMut(Question) -> Answer) -> Findings {
    let expected: ExpectedLimit = expected.parse().unwrap();
    let mut subject = Simulated::new(decide).service(SERVICE, 3);
    let Ok(findings) = Investigation::new()
        .expected(expected)
        .run(&mut subject, &mut |_| ());
    findings
}

fn verdict(findings: &Findings) -> &ExpectedVerdict {
    &findings.expected.as_ref().unwrap().verdict
}

#[test]
fn a_limiter_as_expected_is_consistent() {
    let mut decide = bucket("100/s burst 20");
    let findings = investigate("100/s burst 20", |question| decide(question.at_ns).into());
    assert_eq!(
        verdict(&findings),
        &ExpectedVerdict::Consistent,
        "{findings}"
    );
    assert_eq!(findings.defects, [], "{findings}");
    assert!(findings.seconds <= 60.0 && findings.requests <= 20_000);
    let text = findings.to_string();
    assert!(
        text.contains("token bucket / GCRA, rate 100.0/s, burst 20"),
        "{text}"
    );
    assert!(text.contains("expected limit: CONSISTENT"), "{text}");
}

#[test]
fn a_check_and_an_act_that_are_two_steps_are_a_race() {
    // A request within 100 µs of the previous one, over another connection, sees the same state.
    let mut decide = bucket("100/s burst 20");
    let mut last = (0, 0, false);
    let findings = investigate("100/s burst 20", |question| {
        let (at_ns, connection, admitted) = last;
        let meets = question.at_ns - at_ns < 100_000 && question.connection != connection;
        if !(meets && admitted) {
            last = (question.at_ns, question.connection, decide(question.at_ns));
        }
        last.2.into()
    });
    let races = |defect: &Defect| matches!(defect, Defect::Race { .. });
    assert!(findings.defects.iter().any(races), "{findings}");
    assert!(
        matches!(verdict(&findings), ExpectedVerdict::Differs(_)),
        "{findings}"
    );
}

#[test]
fn nodes_that_each_have_the_limit_are_counted() {
    let mut nodes: Vec<_> = (0..3).map(|_| bucket("100/s burst 20")).collect();
    let findings = investigate("100/s burst 20", |question| {
        nodes[question.connection as usize % 3](question.at_ns).into()
    });
    assert!(
        findings.defects.contains(&Defect::Nodes { at_least: 3 }),
        "{findings}"
    );
    assert!(
        matches!(verdict(&findings), ExpectedVerdict::Differs(_)),
        "{findings}"
    );
}

#[test]
fn requests_spread_over_nodes_make_a_multiple_of_the_expected_limit() {
    let mut nodes: Vec<_> = (0..2).map(|_| bucket("100/s burst 20")).collect();
    let mut turn = 0;
    let findings = investigate("100/s burst 20", |question| {
        turn = 1 - turn;
        nodes[turn](question.at_ns).into()
    });
    assert!(
        findings
            .defects
            .contains(&Defect::MultipleOfExpected { times: 2 }),
        "{findings}"
    );
}

#[test]
fn a_window_that_is_longer_than_expected_resets_late() {
    let mut decide = fixed("50/1200ms");
    let findings = investigate("fixed 50/s", |question| decide(question.at_ns).into());
    let late = |defect: &Defect| match defect {
        Defect::LateReset { by_seconds } => (by_seconds - 0.2).abs() < 0.02,
        _ => false,
    };
    assert!(findings.defects.iter().any(late), "{findings}");
}

#[test]
fn retry_after_that_is_too_early_is_named_and_by_how_much() {
    let quota: Quota = "20/s burst 5".parse().unwrap();
    let decide = |early: bool| {
        // Each investigation begins at 0, so each needs an unused bucket.
        let bucket = TokenBucket::builder(quota)
            .clock(ManualClock::new())
            .build()
            .unwrap();
        investigate("20/s burst 5", |question| {
            match bucket
                .at(Timestamp::from_nanos(question.at_ns))
                .try_acquire()
            {
                Ok(()) => true.into(),
                Err(denied) => {
                    let after = denied.retry_after().unwrap();
                    let retry_after = Some(if early { after / 2 } else { after });
                    let advertised = Advertised {
                        retry_after,
                        ..Advertised::default()
                    };
                    Answer {
                        advertised,
                        ..false.into()
                    }
                }
            }
        })
    };
    let honest = decide(false).headers;
    assert_eq!((honest.retries, honest.too_early), (50, 0));
    let findings = decide(true);
    let early = |defect: &Defect| match defect {
        Defect::EarlyRetryAfter {
            times, by_seconds, ..
        } => *times > 10 && *by_seconds < 0.05,
        _ => false,
    };
    assert!(findings.defects.iter().any(early), "{findings}");
}

#[test]
fn remaining_that_is_not_there_is_untrue() {
    let mut decide = bucket("20/s burst 5");
    let findings = investigate("20/s burst 5", |question| {
        let advertised = Advertised {
            remaining: Some(3),
            ..Advertised::default()
        };
        Answer {
            advertised,
            ..decide(question.at_ns).into()
        }
    });
    let untrue = |defect: &Defect| matches!(defect, Defect::WrongRemaining { .. });
    assert!(findings.defects.iter().any(untrue), "{findings}");
}

#[test]
fn more_than_expected_is_over_admission_and_is_never_consistent() {
    let mut decide = bucket("100/s burst 40");
    let findings = investigate("100/s burst 20", |question| decide(question.at_ns).into());
    let over = |defect: &Defect| matches!(defect, Defect::OverAdmission { .. });
    assert!(findings.defects.iter().any(over), "{findings}");
    assert!(
        matches!(verdict(&findings), ExpectedVerdict::Differs(_)),
        "{findings}"
    );
}

#[test]
fn the_algorithm_must_be_the_expected_one() {
    let quota: Quota = "50/s".parse().unwrap();
    let window = SlidingWindow::builder(quota)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let decide = |question: Question| -> Answer {
        window
            .at(Timestamp::from_nanos(question.at_ns))
            .try_acquire()
            .is_ok()
            .into()
    };
    let findings = investigate("sliding 50/s", decide);
    assert_eq!(
        verdict(&findings),
        &ExpectedVerdict::Consistent,
        "{findings}"
    );
    let mut decide = fixed("50/s");
    let findings = investigate("sliding 50/s", |question| decide(question.at_ns).into());
    assert!(
        matches!(verdict(&findings), ExpectedVerdict::Differs(_)),
        "{findings}"
    );
}

#[test]
fn a_queue_is_known_by_answers_that_come_one_after_the_other() {
    // One is admitted immediately, 20 wait, 100 per second.
    let (interval_ns, waiting) = (10_000_000, 20);
    let mut next_ns = 0;
    let findings = investigate("queue 100/s burst 21", |question| {
        let turn_ns: u64 = question.at_ns.max(next_ns);
        let admits = turn_ns - question.at_ns <= waiting * interval_ns;
        if admits {
            next_ns = turn_ns + interval_ns;
        }
        Answer {
            held: Duration::from_nanos(if admits { turn_ns - question.at_ns } else { 0 }),
            ..admits.into()
        }
    });
    assert_eq!(
        findings.detected.kind,
        DetectedKind::LeakyQueue,
        "{findings}"
    );
    let (rate, burst) = (
        findings.detected.rate.unwrap(),
        findings.detected.burst.unwrap(),
    );
    assert!((rate.value - 100.0).abs() < 2.0, "{findings}");
    assert!((burst.value - 21.0).abs() <= 1.0, "{findings}");
    assert_eq!(
        verdict(&findings),
        &ExpectedVerdict::Consistent,
        "{findings}"
    );
}

#[test]
fn a_queue_that_is_too_slow_to_be_measured_for_long_is_known_too() {
    // One is admitted immediately, 20 wait, one every 0.75 s.
    let (interval_ns, waiting) = (750_000_000, 20);
    let mut next_ns = 0;
    let findings = investigate("queue 80/min burst 21", |question| {
        let turn_ns: u64 = question.at_ns.max(next_ns);
        let admits = turn_ns - question.at_ns <= waiting * interval_ns;
        if admits {
            next_ns = turn_ns + interval_ns;
        }
        Answer {
            held: Duration::from_nanos(if admits { turn_ns - question.at_ns } else { 0 }),
            ..admits.into()
        }
    });
    assert_eq!(
        findings.detected.kind,
        DetectedKind::LeakyQueue,
        "{findings}"
    );
    let rate = findings.detected.rate.expect("a rate");
    assert!((rate.value - 80.0 / 60.0).abs() < 0.03, "{findings}");
}

/// Refuses everything after 60 refusals: for a time, or forever.
fn banning(for_ns: u64) -> impl FnMut(Question) -> Answer {
    let mut decide = bucket("100/s burst 20");
    let (mut refusals, mut until_ns) = (0, 0);
    move |question| {
        let admits = question.at_ns >= until_ns && decide(question.at_ns);
        refusals += u32::from(!admits && question.at_ns >= until_ns);
        if refusals == 60 {
            (refusals, until_ns) = (0, question.at_ns.saturating_add(for_ns));
        }
        admits.into()
    }
}

fn is_ban(defect: &Defect) -> bool {
    matches!(defect, Defect::Ban { .. })
}

#[test]
fn a_ban_that_does_not_end_may_be_a_second_limit_and_ends_the_investigation() {
    let findings = investigate("100/s burst 20", banning(u64::MAX));
    let silent = |defect: &Defect| match defect {
        Defect::NoRecovery {
            admitted,
            silent_seconds,
        } => (20..100).contains(admitted) && *silent_seconds > 30.0,
        _ => false,
    };
    assert!(findings.defects.iter().any(silent), "{findings}");
    assert!(!findings.defects.iter().any(is_ban), "{findings}");
    assert!(matches!(verdict(&findings), ExpectedVerdict::Differs(_)));
    assert_eq!(findings.detected.kind, DetectedKind::Unknown, "{findings}");
    let text = findings.to_string();
    assert!(text.contains("a second, slower limit or a ban"), "{text}");
    assert!(findings.requests < 2_000, "{findings}");
}

#[test]
fn a_ban_that_ends_is_one_if_more_is_admitted_than_by_a_second_limit() {
    let findings = investigate("100/s burst 20", banning(5_000_000_000));
    assert!(findings.defects.iter().any(is_ban), "{findings}");
    assert!(matches!(verdict(&findings), ExpectedVerdict::Differs(_)));
}

#[test]
fn refusals_that_count_make_it_collapse_under_load() {
    // Every request extends the window's count, refused or not.
    let mut seen: Vec<u64> = Vec::new();
    let findings = investigate("20/s", |question| {
        seen.retain(|at_ns| at_ns + 1_000_000_000 > question.at_ns);
        seen.push(question.at_ns);
        (seen.len() <= 20).into()
    });
    let collapsed = |defect: &Defect| matches!(defect, Defect::Collapse { .. });
    assert!(findings.defects.iter().any(collapsed), "{findings}");
    assert_eq!(
        findings.detected.kind,
        DetectedKind::CountsRefused,
        "{findings}"
    );
    let (burst, window) = (
        findings.detected.burst.unwrap(),
        findings.detected.window.unwrap(),
    );
    assert!((burst.value - 20.0).abs() <= burst.plus_minus, "{findings}");
    assert!(
        (window.value - 1.0).abs() <= window.plus_minus,
        "{findings}"
    );
    assert!(
        findings.to_string().contains("refused requests count"),
        "{findings}"
    );
    // That is how such a window counts, and no reason against its numbers.
    assert_eq!(
        verdict(&findings),
        &ExpectedVerdict::Consistent,
        "{findings}"
    );
}

#[test]
fn without_a_limit_none_is_detected_and_the_expected_one_differs() {
    let findings = investigate("100/s", |_| true.into());
    assert_eq!(findings.detected.kind, DetectedKind::Unlimited);
    assert!(
        matches!(verdict(&findings), ExpectedVerdict::Differs(_)),
        "{findings}"
    );
}

/// As express-rate-limit does, which advertises its window, from the first request.
fn in_a_window(limit: u64, window: Duration, fields: bool) -> impl FnMut(Question) -> Answer {
    let mut decide = fixed(&format!("{limit}/{}s", window.as_secs()));
    let (mut ends, mut remaining) = (Duration::ZERO, 0);
    move |question| {
        let now = Duration::from_nanos(question.at_ns);
        if now >= ends {
            (ends, remaining) = (now + window, limit);
        }
        let admits = decide(question.at_ns);
        remaining -= u64::from(admits);
        let left = Duration::from_secs((ends - now).as_secs_f64().ceil() as u64);
        let advertised = Advertised {
            retry_after: (!admits).then_some(left),
            remaining: Some(remaining),
            more_after: Some(left),
            limit: Some(limit),
            window: Some(window),
        };
        match fields {
            true => Answer {
                advertised,
                ..admits.into()
            },
            false => admits.into(),
        }
    }
}

fn look_for(seconds: u64, decide: impl FnMut(Question) -> Answer) -> Findings {
    let budget = Budget {
        time: Duration::from_secs(seconds),
        ..Budget::default()
    };
    let mut subject = Simulated::new(decide).service(SERVICE, 3);
    let Ok(findings) = Investigation::new()
        .budget(budget)
        .run(&mut subject, &mut |_| ());
    findings
}

/// The number before ` s` after `allow `.
fn time_it_takes(text: &str) -> u64 {
    let (_, after) = text.rsplit_once("allow ").unwrap();
    after.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_window_of_a_quarter_of_an_hour_is_not_known_after_one_look_but_in_the_time_that_is_named() {
    let window = Duration::from_secs(900);
    let findings = look_for(60, in_a_window(100, window, true));
    assert_eq!(findings.detected.kind, DetectedKind::Unknown, "{findings}");
    assert_eq!(findings.defects, [], "{findings}");
    let text = findings.unresolved.unwrap();
    for expected in [
        "100 requests were admitted in 0.",
        "a limit that takes long to refill",
        "its header fields name 100 in 900 s: to test that, allow ",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let takes = time_it_takes(&text);
    assert!((1_800..10_000).contains(&takes), "{text}");
    let findings = look_for(takes, in_a_window(100, window, true));
    let on_request = DetectedKind::FixedWindow(Alignment::FirstRequest);
    assert_eq!(findings.detected.kind, on_request, "{findings}");
    let length = findings.detected.window.unwrap();
    assert!(
        (length.value - 900.0).abs() <= length.plus_minus,
        "{findings}"
    );

    let text = look_for(60, in_a_window(100, window, false))
        .unresolved
        .unwrap();
    assert!(text.contains("a limit that takes long to refill"), "{text}");
    assert!(!text.contains("header fields"), "{text}");
}

#[test]
fn none_of_a_few_refused_is_not_no_limit_and_neither_is_less_than_the_fields_tell() {
    let few = |requests, limit| {
        let advertised = Advertised {
            limit,
            ..Advertised::default()
        };
        let admit = |_: Question| Answer {
            advertised,
            ..true.into()
        };
        let budget = Budget {
            requests,
            ..Budget::default()
        };
        let mut subject = Simulated::new(admit).service(SERVICE, 3);
        let investigation = Investigation::new().budget(budget);
        let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
        let is_free = findings.detected.kind == DetectedKind::Unlimited;
        assert_eq!(is_free, findings.unresolved.is_none(), "{findings}");
        findings.unresolved
    };
    let one = few(1, None).unwrap();
    assert_eq!(
        one,
        "1 request was admitted, none refused; allow more requests"
    );
    assert!(few(200, None).is_some());
    assert_eq!(few(2_000, None), None);
    assert_eq!(few(2_000, Some(100)), None);
    let told = few(2_000, Some(5_000)).unwrap();
    assert!(
        told.ends_with("; its header fields name a limit of 5000"),
        "{told}"
    );
}

#[test]
fn an_expected_limit_above_the_offered_rate_is_undecided() {
    let findings = investigate("100000/s burst 10000", |_| true.into());
    assert_eq!(findings.detected.kind, DetectedKind::Unlimited);
    assert!(
        matches!(verdict(&findings), ExpectedVerdict::Undecided(_)),
        "{findings}"
    );
}

#[test]
fn what_does_not_answer_gets_no_verdict() {
    let failed = Answer {
        outcome: ProbeOutcome::Failed,
        ..false.into()
    };
    let findings = investigate("100/s", |_| failed);
    assert_eq!(findings.detected.kind, DetectedKind::Unknown, "{findings}");
    assert!(
        matches!(verdict(&findings), ExpectedVerdict::Undecided(_)),
        "{findings}"
    );
    assert!(findings.requests < 10);

    let mut decide = bucket("100/s burst 20");
    let mut asked = 0_u64;
    let findings = investigate("100/s burst 20", |question| {
        asked += 1;
        let fails = asked.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 == 0;
        if fails {
            failed
        } else {
            decide(question.at_ns).into()
        }
    });
    assert!(
        !matches!(verdict(&findings), ExpectedVerdict::Consistent),
        "{findings}"
    );
    let failures = |defect: &Defect| matches!(defect, Defect::Failures { .. });
    assert!(findings.defects.iter().any(failures), "{findings}");
}

#[test]
fn keys_are_apart_or_share() {
    let expected: ExpectedLimit = "100/s burst 20".parse().unwrap();
    let investigation = Investigation::new().expected(expected).keys(3);
    let mut each: HashMap<u32, _> = HashMap::new();
    let mut subject = Simulated::new(|question: Question| {
        let own = each
            .entry(question.key)
            .or_insert_with(|| bucket("100/s burst 20"));
        own(question.at_ns).into()
    })
    .service(SERVICE, 5);
    let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
    let keys = findings.keys.clone().unwrap();
    let are_alike = keys.jain.is_some_and(|jain| jain > 0.99);
    assert!(!keys.are_shared && are_alike, "{findings}");

    let mut one = bucket("100/s burst 20");
    let mut subject =
        Simulated::new(|question: Question| one(question.at_ns).into()).service(SERVICE, 5);
    let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
    assert!(findings.keys.unwrap().are_shared);
}

#[test]
fn a_forecast_is_the_cost_of_the_expected_limit_and_bounded_by_the_budget() {
    let expected: ExpectedLimit = "100/s burst 20".parse().unwrap();
    let forecast = Investigation::new().expected(expected).forecast().unwrap();
    assert!(forecast.time <= Duration::from_secs(60), "{forecast:?}");
    assert!((500..20_000).contains(&forecast.requests), "{forecast:?}");
    let sum: u64 = forecast
        .phases
        .iter()
        .map(|(_, requests, _)| requests)
        .sum();
    assert_eq!(sum, forecast.requests);
    assert_eq!(Investigation::new().forecast(), None);
}

#[test]
fn the_result_does_not_depend_on_the_expected_limit() {
    for expected in [
        "1/min burst 5",
        "100/s burst 400",
        "sliding 7/s",
        "fixed 5000/s",
    ] {
        let mut bucket = bucket("100/s burst 20");
        let findings = investigate(expected, |question| bucket(question.at_ns).into());
        let detected = &findings.detected;
        assert_eq!(detected.kind, DetectedKind::TokenBucket, "{findings}");
        let (rate, burst) = (detected.rate.unwrap().value, detected.burst.unwrap().value);
        assert!((rate - 100.0).abs() < 2.0, "{findings}");
        assert!((burst - 20.0).abs() <= 1.0, "{findings}");
        let differs = matches!(verdict(&findings), ExpectedVerdict::Differs(_));
        assert!(differs, "{findings}");
    }
}

#[test]
fn c1_what_is_of_no_kind_that_is_known_is_not_said_to_be_over_anything() {
    // One in eight requests is refused although the bucket has a token.
    let mut decide = bucket("100/s burst 20");
    let mut asked = 0_u64;
    let mut subject = Simulated::new(|question: Question| {
        asked += 1;
        let is_spared = asked.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 == 0;
        (!is_spared && decide(question.at_ns)).into()
    })
    .service(SERVICE, 3);
    let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
    assert_eq!(findings.detected.kind, DetectedKind::Unknown, "{findings}");
    assert!(findings.detected.rate.is_some(), "there is a nearest kind");
    assert_eq!(findings.worst, None, "{findings}");
}

/// However long answers take: from the 1101st on half a second, in the middle of a stream.
#[test]
fn nothing_is_sent_when_the_time_is_over() {
    let budget = Budget {
        time: Duration::from_secs(5),
        ..Budget::default()
    };
    let mut decide = bucket("1000/s burst 500");
    let (mut asked, mut latest_ns) = (0_u64, 0);
    let mut subject = Simulated::new(|question: Question| {
        asked += 1;
        latest_ns = question.at_ns;
        let held = Duration::from_millis(if asked > 1_100 { 500 } else { 0 });
        Answer {
            held,
            ..decide(question.at_ns).into()
        }
    })
    .service(SERVICE, 3);
    let investigation = Investigation::new().budget(budget);
    let Ok(findings) = investigation.run(&mut subject, &mut |_| ());
    drop(subject);
    let latest = Duration::from_nanos(latest_ns);
    assert!(latest < budget.time + SERVICE, "{latest:?}: {findings}");
}
