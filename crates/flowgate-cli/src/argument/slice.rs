//! A part of one schedule, for one of several machines.

use std::time::{Duration, SystemTime};

use clap::Args;
use flowgate_load::{Pace, Plan, Slice};

use crate::exit::Refusal;

/// Time that a run needs to get ready.
const TO_GET_READY: Duration = Duration::from_secs(1);

/// The part of this machine.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rate")]
pub(crate) struct Part {
    /// Send only every Nth request, from the Kth on, for N machines with one schedule: 3/8
    #[arg(long, value_name = "K/N", value_parser = part, requires = "start_at")]
    slice: Option<(u64, u64)>,

    /// Start at this time in UTC, such as 2026-12-01T12:00:00Z; the same for all slices
    #[arg(long, value_name = "TIME", value_parser = time, requires = "slice")]
    start_at: Option<SystemTime>,
}

impl Part {
    /// Applies the part to the plan.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Result<(), Refusal> {
        let (Some((index, count)), Some(start_at)) = (self.slice, self.start_at) else {
            return Ok(());
        };
        if !matches!(plan.pace, Pace::Hold(_)) {
            return Err(Refusal::usage(
                "--slice needs a rate that is held: write -q 1000/s, --plan or --replay",
            ));
        }
        plan.slice = Some(Slice {
            index,
            count,
            start_at,
        });
        if plan.requests() == Some(0) {
            return Err(Refusal::usage(format!(
                "--slice {index}/{count} has no request: write fewer slices, or more requests"
            )));
        }
        let left = start_at
            .duration_since(SystemTime::now())
            .unwrap_or_default();
        if left < plan.warm_up + TO_GET_READY {
            return Err(Refusal::usage(
                "--start-at has passed, or is too soon: write a time at least 10 s from now, after the warm-up",
            ));
        }
        Ok(())
    }
}

fn part(text: &str) -> Result<(u64, u64), String> {
    let parts = text.trim().split_once('/');
    let parts = parts.and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if (1..=of).contains(&part) && of <= 10_000 => Ok((part, of)),
        _ => Err("not a part of at most 10000: write 1/8 to 8/8".to_owned()),
    }
}

fn time(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339_weak(text.trim())
        .map_err(|_| "not a time in UTC: write 2026-12-01T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_several() {
        assert_eq!(part(" 3/8 "), Ok((3, 8)));
        assert_eq!(part("1/1"), Ok((1, 1)));
        for text in [
            "", "3", "0/8", "9/8", "1/0", "a/8", "1/10001", "-1/8", "3/8/2",
        ] {
            assert!(
                part(text).unwrap_err().ends_with("write 1/8 to 8/8"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_start_is_a_time_in_utc() {
        let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_126_400);
        assert_eq!(time("2026-12-01T12:00:00Z"), Ok(expected));
        assert_eq!(time("2026-12-01 12:00:00"), Ok(expected));
        for text in ["", "12:00", "tomorrow", "2026-13-01T12:00:00Z"] {
            assert!(
                time(text).unwrap_err().contains("write 2026-12-01"),
                "{text}"
            );
        }
    }
}
