//! Plans: rates in sequence, each for a duration: `30s@50,1m@200,10s@200:1000`.

use flowgate::Quota;
use flowgate_load::{Schedule, Segment};

use super::{duration, rate};

/// Parses a plan: parts separated by commas, each `TIME@RATE` or `TIME@FROM:TO`. A rate of 0 is a pause.
pub(crate) fn parse(text: &str) -> Result<Schedule, String> {
    let segments: Result<Vec<_>, _> = text.split(',').map(part).collect();
    Schedule::segments(&segments?).map_err(|error| error.to_string())
}

/// Parses two rates, `100:5000`.
pub(crate) fn ramp(from: &str, to: &str) -> Result<(Option<Quota>, Option<Quota>), String> {
    let side = |text: &str| rate_or_zero(text).map_err(|error| format!("{text:?}: {error}"));
    Ok((side(from)?, side(to)?))
}

fn part(text: &str) -> Result<Segment, String> {
    let text = text.trim();
    let read = || {
        let (time, rates) = text
            .split_once('@')
            .ok_or("write TIME@RATE or TIME@FROM:TO, such as 30s@50 or 10s@200:1000")?;
        let duration = duration::parse(time)?;
        let (from, to) = match rates.split_once(':') {
            Some((from, to)) => ramp(from, to)?,
            None => {
                let rate = rate_or_zero(rates)?;
                (rate, rate)
            }
        };
        Ok(Segment { duration, from, to })
    };
    read().map_err(|error: String| format!("{text:?}: {error}"))
}

/// Parses a rate, or `None` for `0` in any unit.
fn rate_or_zero(text: &str) -> Result<Option<Quota>, String> {
    let (_, unit) = text.trim().split_once('/').unwrap_or((text.trim(), "s"));
    if rate::is_zero(text.trim()) {
        // The unit must be valid anyway.
        return rate::parse(&format!("1/{unit}")).map(|_| None);
    }
    rate::parse(text).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_steps_ramps_and_pauses() {
        for (text, len, expected) in [
            ("30s@50", 1500, "50/s to 50/s in 30 s"),
            (
                "30s@50,1m@200,10s@200:1000",
                19_500,
                "30 s at 50/s, 60 s at 200/s, 10 s at 200/s to 1000/s",
            ),
            (
                " 1m@90/min , 5s@0, 2s@0/min:3 ",
                93,
                "60 s at 90/min, 5 s at 0, 2 s at 0 to 3/s",
            ),
            ("1s@1,1s@1,1s@1,1s@1,1m@0.5", 34, "plan of 5 parts in 64 s"),
        ] {
            let schedule = parse(text).unwrap();
            assert_eq!(
                (schedule.len(), schedule.to_string().as_str()),
                (len, expected),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_plan_names_the_word() {
        for (text, expected) in [
            ("", "\"\": write TIME@RATE"),
            ("30s", "\"30s\": write TIME@RATE"),
            ("30s@50,", "\"\": write TIME@RATE"),
            ("30s@50;1m@200", "\"30s@50;1m@200\": "),
            ("50@30s", "\"50@30s\": a unit is missing: write 50s"),
            ("0s@50", "\"0s@50\": must be longer than 0"),
            ("30s@", "\"30s@\": "),
            ("30s@many", "\"30s@many\": "),
            ("30s@-5", "\"30s@-5\": "),
            ("30s@5:many", "\"30s@5:many\": \"many\": "),
            ("30s@1:2:3", "\"30s@1:2:3\": \"2:3\": "),
            ("30s@0/fortnight", "fortnight"),
            ("1s@10/s burst 5", "without bursts: write 10/s"),
            ("1s@0,2s@0:0", "at least one rate must be above 0"),
            ("1s@2000000000", "2000000000/s exceeds the maximum"),
            ("100y@1,100y@1", "146 years"),
            (
                &vec!["1s@1"; 1001].join(","),
                "1001 parts exceed the maximum of 1000",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
