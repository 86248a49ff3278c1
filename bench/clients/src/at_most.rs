//! Clients that must stay under a server's own limit: how many of their requests does nginx refuse?

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::client::{Failure, Program, Programs};
use crate::nginx::{Nginx, Setting};
use crate::shared::outcome::Verdict;
use crate::subject::{OURS, Subject, words};

const WITH_MARGIN: &str = "flowgate, --margin answer";

/// How nginx limits, and how much is sent.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Of the limit, and of what is sent.
    rate: u32,
    /// What it lets through too early.
    burst: u32,
    requests: u64,
}

impl Case {
    fn span(self) -> Duration {
        Duration::from_secs_f64(self.requests as f64 / f64::from(self.rate))
    }

    fn setting(self) -> Setting {
        let Case { rate, burst, .. } = self;
        let burst = match burst {
            0 => String::new(),
            _ => format!(" burst={burst} nodelay"),
        };
        Setting {
            // Logs in order. All come from one address, so there is one limit; an empty key would mean none.
            workers: 1,
            http: format!(
                "limit_req_zone $binary_remote_addr zone=limit:64k rate={rate}r/s;
                 limit_req_status 429;
                 limit_req_log_level info;
                 log_format line '$msec $status';"
            ),
            // Not `return`, which answers before the limit is looked at.
            location: format!(
                "limit_req zone=limit{burst};
                 access_log access.log line;
                 empty_gif;"
            ),
        }
    }

    fn title(self) -> String {
        let Case {
            rate,
            burst,
            requests,
        } = self;
        match burst {
            0 => format!("{requests} requests, nginx at {rate}/s without a burst"),
            _ => format!("{requests} requests, nginx at {rate}/s with burst={burst} nodelay"),
        }
    }
}

fn cases(quick: bool, long: bool) -> Vec<Case> {
    let case = |rate, burst, requests| Case {
        rate,
        burst,
        requests,
    };
    let mut cases = Vec::new();
    if long {
        cases.push(case(2, 0, 500));
    }
    if quick {
        cases.push(case(500, 1, 100));
    } else {
        cases.extend([case(50, 0, 500), case(500, 1, 500)]);
    }
    cases
}

fn clients() -> Vec<Subject<Case>> {
    let subject = |name, program, arguments| Subject {
        name,
        program,
        arguments,
    };
    vec![
        subject(OURS, Program::Flowgate, |case, url| {
            let Case { rate, requests, .. } = case;
            words(&format!("load {url} --at-most {rate}/s -n {requests}"))
        }),
        // By the answer nginx has seen it for certain.
        subject(WITH_MARGIN, Program::Flowgate, |case, url| {
            let Case { rate, requests, .. } = case;
            words(&format!(
                "load {url} --at-most {rate}/s --margin answer -n {requests}"
            ))
        }),
        subject("oha", Program::Oha, |case, url| {
            let Case { rate, requests, .. } = case;
            words(&format!("--no-tui -q {rate} -n {requests} {url}"))
        }),
        // One worker: several send at the same time, and nearly all of it is refused.
        subject("hey, 1 worker", Program::Hey, |case, url| {
            let Case { rate, requests, .. } = case;
            words(&format!("-q {rate} -n {requests} -c 1 {url}"))
        }),
    ]
}

/// What nginx logged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Logged {
    pub requests: u64,
    /// Status 429.
    pub refused: u64,
    /// Neither 200 nor 429.
    pub other: u64,
    /// Rate from the first to the last request, by nginx's timestamps in ms.
    pub per_second: f64,
}

impl Logged {
    /// Of lines like `1700000000.123 200`.
    fn of(log: &str) -> Logged {
        let lines = log.lines().filter_map(|line| line.split_once(' '));
        let lines: Vec<(f64, &str)> = lines
            .filter_map(|(at_s, status)| Some((at_s.parse().ok()?, status)))
            .collect();
        let with = |status| lines.iter().filter(|line| line.1 == status).count() as u64;
        let (requests, refused) = (lines.len() as u64, with("429"));
        let span_s = match lines.as_slice() {
            [first, .., last] => last.0 - first.0,
            _ => 0.0,
        };
        Logged {
            requests,
            refused,
            other: requests - refused - with("200"),
            per_second: if span_s > 0.0 {
                (requests - 1) as f64 / span_s
            } else {
                0.0
            },
        }
    }

    /// Returns the deviations from the expected result, in which every request is admitted.
    fn findings(&self, case: Case) -> Vec<String> {
        let Logged {
            requests,
            refused,
            other,
            ..
        } = *self;
        let mut findings = Vec::new();
        if refused > 0 {
            findings.push(format!("{refused} refused"));
        }
        if requests != case.requests {
            findings.push(format!("{requests} logged"));
        }
        if other > 0 {
            findings.push(format!("{other} with another status"));
        }
        findings
    }
}

/// One subject and one limit.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub rate: u32,
    pub burst: u32,
    pub title: String,
    pub logged: Option<Logged>,
    /// Why nothing is known.
    pub failure: Option<Failure>,
}

/// The names of all that can be measured.
pub fn subjects() -> Vec<&'static str> {
    clients().iter().map(|client| client.name).collect()
}

/// Runs all that is installed and chosen, each against an nginx of its own. `long` adds 2/s, which takes over
/// four minutes for each.
///
/// # Errors
///
/// A message if nginx fails, or does not limit.
pub fn measure(
    programs: &Programs,
    quick: bool,
    long: bool,
    only: Option<&str>,
) -> Result<Vec<Row>, String> {
    let mut clients = clients();
    clients.retain(|client| programs.has(client.program) && client.is_chosen(only));
    let Some(nginx) = programs.path(Program::Nginx) else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for case in cases(quick, long) {
        check_that_it_limits(nginx, case)?;
        for client in &clients {
            let turn = || {
                let nginx = Nginx::start(nginx, &case.setting())?;
                let arguments = (client.arguments)(&case, &nginx.url());
                programs.run(client.program, &arguments, case.span())?;
                let log = nginx.stop()?;
                Ok(Logged::of(&log))
            };
            rows.push(row(client.name, case, turn()));
        }
    }
    Ok(rows)
}

/// None refused would mean nothing, were nothing refused to anybody.
fn check_that_it_limits(program: &Path, case: Case) -> Result<(), String> {
    const AT_ONCE: u64 = 50;
    let nginx = Nginx::start(program, &case.setting())?;
    for _ in 0..AT_ONCE {
        let answer = nginx.get("/");
        answer.map_err(|error| format!("nginx does not answer: {error}"))?;
    }
    let logged = Logged::of(&nginx.stop()?);
    if logged.requests != AT_ONCE || logged.refused == 0 {
        return Err(format!(
            "nginx does not limit: of {AT_ONCE} requests at once it logged {} and refused {}",
            logged.requests, logged.refused
        ));
    }
    Ok(())
}

fn row(subject: &'static str, case: Case, logged: Result<Logged, Failure>) -> Row {
    let (logged, failure) = match logged {
        Ok(logged) => (Some(logged), None),
        Err(failure) => (None, Some(failure)),
    };
    Row {
        subject,
        rate: case.rate,
        burst: case.burst,
        title: case.title(),
        logged,
        failure,
    }
}

/// A table per limit.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut title = None;
    for row in rows {
        if title != Some(&row.title) {
            title = Some(&row.title);
            let _ = writeln!(text, "\nat most: {}", row.title);
            let _ = writeln!(
                text,
                "  {:<26} {:>9} {:>9} {:>9} {:>9}",
                "", "refused", "logged", "others", "per s"
            );
        }
        let _ = write!(text, "  {:<26} ", row.subject);
        if let Some(logged) = row.logged {
            let Logged {
                requests,
                refused,
                other,
                per_second,
            } = logged;
            let _ = write!(
                text,
                "{refused:>9} {requests:>9} {other:>9} {per_second:>9.3}"
            );
        }
        if let Some(failure) = &row.failure {
            let _ = write!(text, "{failure}");
        }
        text.push('\n');
    }
    if !rows.is_empty() {
        text.push_str("counted from nginx's access log; others: neither 200 nor 429\n");
    }
    text
}

/// Returns the goals for flowgate, at every limit. A quick run does not send enough for a verdict.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let verdicts = cases(false, true).into_iter().map(|case| {
        let goal = format!("at most, {}: none refused of {}", OURS, case.title());
        let mut rows = rows.iter();
        let row = rows.find(|row| row.subject == OURS && row.title == case.title());
        match row.and_then(|row| row.logged) {
            Some(logged) => Verdict::nothing(goal, &logged.findings(case)),
            None => Verdict::at_most(goal, None, 0.0, ""),
        }
    });
    verdicts.collect()
}

/// How ours failed; arguments that it does not know yet are no failure.
pub fn failures(rows: &[Row]) -> Vec<String> {
    let is_ours = |row: &&Row| [OURS, WITH_MARGIN].contains(&row.subject);
    let ours = rows.iter().filter(is_ours);
    let failures = ours.filter_map(|row| {
        let failure = row.failure.as_ref()?;
        let why = &failure.why;
        (!failure.is_unsupported).then(|| format!("at most, {}: {why}", row.title))
    });
    failures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_counted_by_status() {
        let log =
            "1700000000.000 200\n1700000000.500 429\n1700000001.000 200\n1700000001.250 500\n";
        let logged = Logged::of(log);
        assert_eq!((logged.requests, logged.refused, logged.other), (4, 1, 1));
        assert_eq!(logged.per_second, 2.4);
        assert_eq!(Logged::of("").requests, 0);
    }

    #[test]
    fn a_refusal_or_a_missing_request_misses_the_goal() {
        let case = cases(false, false)[0];
        let logged = |requests, refused| Logged {
            requests,
            refused,
            other: 0,
            per_second: 0.0,
        };
        let judged = |logged| {
            let verdicts = verdicts(&[row(OURS, case, Ok(logged))]);
            let mut judged = verdicts.into_iter();
            let judged = judged.find(|verdict| verdict.measured.is_some());
            judged.expect("it was measured")
        };
        assert!(judged(logged(500, 0)).met);
        let one_refused = judged(logged(500, 1));
        assert_eq!(one_refused.measured.as_deref(), Some("1 refused"));
        assert!(!one_refused.met);
        assert!(!judged(logged(499, 0)).met);
    }
}
