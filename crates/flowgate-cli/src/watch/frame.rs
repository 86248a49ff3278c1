//! The lines of the live view, at most as wide as the terminal.
//!
//! ```text
//! http://127.0.0.1:8080/   1000/s
//! [██████████████████▏                          ]   12s of 30s
//! sends      ▇▇▇▇▆▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇     sends per tenth of a second
//! slowest    ▁▁▁▁▇▂▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁     longest response per tenth of a second
//! sent       1000/s of 1000/s   12000 of 30000   3 in flight
//! answers    11990 admitted   7 limited   2 failed
//! failed     2 connection reset
//! response   p50 1.21 ms   p99 4.1 ms
//! lag        p99 31.2 µs
//! ```

use std::time::Duration;

use console::{Style, measure_text_width, truncate_str};
use flowgate_chart::{share_bar, sparkline};
use flowgate_load::Progress;

use crate::figure;
use crate::interrupt::STOPPING;

/// Maximum width of bars.
const WIDEST: usize = 100;
/// Width of the longest label.
const NAME: usize = 8;
/// A shorter run is shown with tenths of a second.
const SHORT: Duration = Duration::from_secs(10);
/// Resolution of [`Progress::recent`].
const TENTH: Duration = Duration::from_millis(100);
/// Time without responses, or sends, after which a warning appears.
const STALL: Duration = Duration::from_millis(500);
/// Gap between two items of a line.
const GAP: &str = "   ";

/// Description of a run.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// URL of the requests.
    pub(crate) target: String,
    /// Requested rate.
    pub(crate) pace: String,
    /// Whether there is a rate, so that requests can be late.
    pub(crate) has_rate: bool,
}

/// Returns the lines before anything is sent.
pub(super) fn before(subject: &Subject, width: usize) -> Vec<String> {
    vec![
        title(subject, width),
        cut("connecting; Ctrl-C stops", width),
    ]
}

/// Returns the lines during the run.
pub(super) fn during(
    subject: &Subject,
    progress: &Progress,
    is_stopping: bool,
    width: usize,
) -> Vec<String> {
    let plain = Style::new().for_stderr();
    let dim = plain.clone().dim();
    let seen = |count: u64, style: Style| if count > 0 { style } else { plain.clone() };
    let yellow = || plain.clone().yellow();
    let red = || plain.clone().red();
    let bar = match progress.warm_up_left.is_zero() {
        true => bar(progress, width),
        false => {
            let left = progress.warm_up_left.as_secs_f64();
            cut(&format!("warming up, {left:.1}s left"), width)
        }
    };
    let mut lines = vec![title(subject, width), bar];
    let mut row = |name: &str, items: Vec<(Style, String)>| {
        let name = format!("{name:<NAME$}");
        lines.push(fitting(dim.apply_to(name).to_string(), items, width));
    };
    let recent = width.min(WIDEST).saturating_sub(NAME + GAP.len());
    row(
        "sends",
        vec![(plain.clone().cyan(), sparkline(&progress.recent, recent))],
    );
    let longest = progress.recent_longest.iter();
    let longest: Vec<_> = longest
        .map(|longest| u64::try_from(longest.as_micros()).unwrap_or(u64::MAX))
        .collect();
    row(
        "slowest",
        vec![(plain.clone().magenta(), sparkline(&longest, recent))],
    );

    let of_rate = match progress.scheduled_per_second > 0.0 {
        true => format!(" of {}", figure::rate(progress.scheduled_per_second)),
        false => String::new(),
    };
    let mut sent = vec![
        (
            plain.clone(),
            format!("{}{of_rate}", figure::rate(progress.sent_per_second)),
        ),
        (plain.clone(), sent_of(progress)),
        (plain.clone(), format!("{} in flight", progress.in_flight)),
    ];
    if progress.skipped > 0 {
        sent.push((yellow(), format!("{} skipped", progress.skipped)));
    }
    row("sent", sent);
    row(
        "answers",
        vec![
            (plain.clone(), format!("{} admitted", progress.admitted)),
            (
                seen(progress.limited, yellow()),
                format!("{} limited", progress.limited),
            ),
            (
                seen(progress.failed, red()),
                format!("{} failed", progress.failed),
            ),
        ],
    );
    if !progress.errors.is_empty() {
        let mut causes = progress.errors.clone();
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let causes = causes.into_iter();
        row(
            "failed",
            causes
                .map(|(cause, count)| (red(), format!("{count} {cause}")))
                .collect(),
        );
    }
    row(
        "response",
        vec![
            (
                plain.clone(),
                format!("p50 {}", time(progress.response_p50)),
            ),
            (
                plain.clone(),
                format!("p99 {}", time(progress.response_p99)),
            ),
            (dim.clone(), "over the last second".to_owned()),
        ],
    );
    if subject.has_rate {
        row(
            "lag",
            vec![
                (plain.clone(), format!("p99 {}", time(progress.lag_p99))),
                (dim.clone(), "how late requests are sent".to_owned()),
            ],
        );
    }
    lines.push(match (is_stopping, trouble(progress)) {
        (true, _) => yellow().apply_to(cut(STOPPING, width)).to_string(),
        (false, Some(trouble)) => red().apply_to(cut(&trouble, width)).to_string(),
        (false, None) => dim
            .apply_to(cut("Ctrl-C stops early and still reports", width))
            .to_string(),
    });
    lines
}

/// Returns a warning if requests cannot be sent: `no response for 2.3 s, 50 in flight`.
fn trouble(progress: &Progress) -> Option<String> {
    let waiting = match progress.waiting {
        0 => String::new(),
        count => format!(", {count} waiting to be sent"),
    };
    if progress.stalled > STALL {
        return Some(format!(
            "no response for {:.1} s, {} in flight{waiting}",
            progress.stalled.as_secs_f64(),
            progress.in_flight
        ));
    }
    let idle = progress.recent.iter().rev().take_while(|&&sent| sent == 0);
    let idle = TENTH * u32::try_from(idle.count()).unwrap_or(u32::MAX);
    if progress.waiting > 0 && idle > STALL {
        return Some(format!(
            "nothing sent for {:.1} s{waiting}",
            idle.as_secs_f64()
        ));
    }
    progress.has_too_many_errors.then(|| {
        let tried = progress.sent.max(progress.failed).max(1);
        let share = progress.failed as f64 / tried as f64;
        format!(
            "too many errors: {} of the requests failed",
            figure::percent(share)
        )
    })
}

/// Returns everything in one line, for a log.
pub(super) fn line(progress: &Progress) -> String {
    let mut line = format!(
        "{} s: sent {} at {}, {} admitted, {} limited, {} failed, {} in flight",
        progress.elapsed.as_secs(),
        sent_of(progress),
        figure::rate(progress.sent_per_second),
        progress.admitted,
        progress.limited,
        progress.failed,
        progress.in_flight,
    );
    if progress.skipped > 0 {
        line += &format!(", {} skipped", progress.skipped);
    }
    line += &format!(
        "; response p50 {}, p99 {}; lag p99 {}",
        time(progress.response_p50),
        time(progress.response_p99),
        time(progress.lag_p99)
    );
    if let Some(trouble) = trouble(progress) {
        line += &format!("; {trouble}");
    }
    line
}

fn title(subject: &Subject, width: usize) -> String {
    let bold = Style::new().for_stderr().bold();
    let plain = Style::new().for_stderr();
    let target = bold.apply_to(cut(&subject.target, width)).to_string();
    fitting(target, vec![(plain, subject.pace.clone())], width)
}

/// Returns the progress bar, by time or by requests.
fn bar(progress: &Progress, width: usize) -> String {
    let elapsed = figure::span(Duration::from_secs(progress.elapsed.as_secs()));
    let of_time = |planned: Duration| {
        let share = progress.elapsed.as_secs_f64() / planned.as_secs_f64().max(f64::MIN_POSITIVE);
        let label = match planned < SHORT {
            // The last request is scheduled slightly before the end.
            true => format!(
                "{:.1}s of {:.1}s",
                progress.elapsed.as_secs_f64(),
                planned.as_secs_f64()
            ),
            false => format!("{elapsed} of {}", figure::span(planned)),
        };
        (share, label)
    };
    let of_count = |scheduled: u64| (progress.sent as f64 / scheduled as f64, elapsed.clone());
    let known = progress
        .planned
        .map(of_time)
        .or_else(|| progress.scheduled.map(of_count));
    match known {
        None => elapsed,
        Some((share, label)) => {
            let room = width
                .min(WIDEST)
                .saturating_sub(GAP.len() + label.chars().count());
            match room {
                0..10 => cut(&label, width),
                room => format!("{}{GAP}{label}", share_bar(share, room)),
            }
        }
    }
}

fn sent_of(progress: &Progress) -> String {
    match progress.scheduled {
        Some(scheduled) => format!("{} of {scheduled}", progress.sent),
        None => format!("{} in total", progress.sent),
    }
}

/// Formats a time; zero is `-`.
fn time(duration: Duration) -> String {
    match duration.is_zero() {
        true => "-".to_owned(),
        false => figure::time(duration),
    }
}

/// Appends as many items as fit. The first item is cut if necessary.
fn fitting(beginning: String, items: Vec<(Style, String)>, width: usize) -> String {
    let mut line = beginning;
    for (index, (style, mut item)) in items.into_iter().enumerate() {
        let room = width.saturating_sub(measure_text_width(&line) + GAP.len());
        if measure_text_width(&item) > room {
            if index > 0 || room == 0 {
                break;
            }
            item = cut(&item, room);
        }
        line += GAP;
        line += &style.apply_to(item).to_string();
    }
    line
}

fn cut(text: &str, width: usize) -> String {
    truncate_str(text, width, "…").into_owned()
}

#[cfg(test)]
mod tests {
    use flowgate_load::{ErrorCause, Extent, Failure, Origin, Pace, Plan, Stop, Target};

    use super::*;

    /// Only a run creates a `Progress`; this is the shortest run.
    fn nothing() -> Progress {
        let origin = Origin::start().unwrap();
        let target = Target::parse(&origin.url()).unwrap();
        let plan = Plan::new(target, Pace::Unpaced(Extent::Requests(1)));
        let mut last = None;
        flowgate_load::run_watched(plan, &Stop::new(), |progress| last = Some(progress.clone()))
            .unwrap();
        let mut progress = last.expect("told at the end");
        (progress.planned, progress.scheduled) = (None, None);
        (progress.sent, progress.admitted, progress.sent_per_second) = (0, 0, 0.0);
        progress.recent = Vec::new();
        progress.recent_longest = Vec::new();
        (progress.waiting, progress.stalled) = (0, Duration::ZERO);
        progress
    }

    fn progress() -> Progress {
        let mut progress = nothing();
        progress.elapsed = Duration::from_millis(12_300);
        progress.planned = Some(Duration::from_nanos(29_999_000_000));
        progress.scheduled = Some(30_000);
        progress.scheduled_per_second = 1000.0;
        progress.sent_per_second = 999.0;
        progress.sent = 12_300;
        progress.admitted = 12_290;
        progress.limited = 7;
        progress.in_flight = 3;
        progress.recent = vec![100; 600];
        progress.recent_longest = vec![Duration::from_millis(4); 600];
        progress.response_p50 = Duration::from_nanos(1_210_000);
        progress.response_p99 = Duration::from_nanos(4_100_000);
        progress.lag_p99 = Duration::from_nanos(31_234);
        progress
    }

    fn subject() -> Subject {
        Subject {
            target: "http://127.0.0.1:8080/".to_owned(),
            pace: "1000/s".to_owned(),
            has_rate: true,
        }
    }

    #[test]
    fn it_says_what_there_is() {
        let lines = during(&subject(), &progress(), false, 79);
        assert!(lines.len() <= 10);
        assert!(lines[3].starts_with("slowest    "), "{lines:?}");
        let text = lines.join("\n");
        for expected in [
            "http://127.0.0.1:8080/   1000/s",
            "]   12s of 30s",
            "sends      ████",
            "sent       999/s of 1000/s   12300 of 30000   3 in flight",
            "answers    12290 admitted   7 limited   0 failed",
            "response   p50 1.21 ms   p99 4.1 ms",
            "lag        p99 31.2 µs",
            "Ctrl-C stops early",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        assert!(during(&subject(), &progress(), true, 79)[8].contains("stopping"));
    }

    #[test]
    fn it_says_when_nothing_is_answered() {
        let mut progress = progress();
        progress.in_flight = 50;
        for (stalled, waiting, per_second, expected) in [
            (500, 0, 0.0, None),
            (500, 40, 900.0, None),
            (0, 40, 900.0, None),
            (2_345, 0, 0.0, Some("no response for 2.3 s, 50 in flight")),
            (
                2_345,
                40,
                0.0,
                Some("no response for 2.3 s, 50 in flight, 40 waiting to be sent"),
            ),
            (
                0,
                40,
                0.0,
                Some("nothing sent for 0.7 s, 40 waiting to be sent"),
            ),
        ] {
            progress.stalled = Duration::from_millis(stalled);
            (progress.waiting, progress.sent_per_second) = (waiting, per_second);
            let sent = if per_second > 0.0 { 100 } else { 0 };
            progress.recent = [vec![100; 5], vec![sent; 7]].concat();
            assert_eq!(trouble(&progress).as_deref(), expected);
            let lines = during(&subject(), &progress, false, 79);
            let line = line(&progress);
            match expected {
                Some(expected) => {
                    assert_eq!(lines.last().map(String::as_str), Some(expected));
                    assert!(line.ends_with(&format!("; {expected}")), "{line}");
                }
                None => assert!(!line.contains("nothing"), "{line}"),
            }
        }
    }

    #[test]
    fn it_says_why_requests_fail() {
        let mut progress = progress();
        progress.failed = 600;
        let (reset, refused) = (Failure::Reset, Failure::Refused);
        progress.errors = [(refused, 100), (reset, 500)]
            .map(|(failure, count)| (ErrorCause::Failed(failure), count))
            .to_vec();
        progress.has_too_many_errors = true;
        let text = during(&subject(), &progress, false, 79).join("\n");
        let causes = "failed     500 connection reset   100 connection refused";
        assert!(text.contains(causes), "{text}");
        let trouble = "too many errors: 4.88 % of the requests failed";
        assert!(text.ends_with(trouble), "{text}");
        assert!(line(&progress).ends_with(trouble));
    }

    #[test]
    fn what_is_not_counted_yet_is_said() {
        let mut progress = progress();
        progress.warm_up_left = Duration::from_millis(3210);
        let lines = during(&subject(), &progress, false, 79);
        assert_eq!(lines[1], "warming up, 3.2s left");
    }

    #[test]
    fn a_short_run_has_tenths() {
        let mut progress = progress();
        progress.elapsed = Duration::from_millis(420);
        progress.planned = Some(Duration::from_millis(990));
        assert!(bar(&progress, 79).ends_with("]   0.4s of 1.0s"));
    }

    #[test]
    fn nothing_is_late_without_a_rate() {
        let unpaced = Subject {
            has_rate: false,
            ..subject()
        };
        let text = during(&unpaced, &progress(), false, 79).join("\n");
        assert!(!text.contains("lag"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut endless = progress();
        endless.planned = None;
        endless.scheduled = None;
        endless.skipped = 5;
        let long = Subject {
            target: format!("http://h/{}", "x".repeat(200)),
            pace: "p".repeat(200),
            has_rate: false,
        };
        let (usual, nothing) = (progress(), nothing());
        for width in 0..200 {
            for (subject, progress) in [(&subject(), &usual), (&long, &endless), (&long, &nothing)]
            {
                let mut lines = during(subject, progress, false, width.max(20));
                lines.extend(before(subject, width.max(20)));
                for line in lines {
                    let wide = measure_text_width(&line);
                    assert!(wide <= width.max(20), "{wide} > {width}: {line:?}");
                }
            }
        }
    }

    #[test]
    fn a_log_gets_one_line() {
        assert_eq!(
            line(&progress()),
            "12 s: sent 12300 of 30000 at 999/s, 12290 admitted, 7 limited, 0 failed, 3 in flight; \
             response p50 1.21 ms, p99 4.1 ms; lag p99 31.2 µs"
        );
    }
}
