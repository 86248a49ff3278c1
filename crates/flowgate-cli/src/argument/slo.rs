//! Objectives of a service: `p99<50ms, errors<0.1%`.

use std::time::Duration;

use flowgate_load::find::{Condition, Slo};

use super::gate::{read_time, share};

/// Parses an objective: conditions separated by commas, each `METRIC<VALUE`.
pub(crate) fn parse(text: &str) -> Result<Slo, String> {
    let conditions: Result<Vec<_>, _> = text.split(',').map(condition).collect();
    Slo::new(conditions?).map_err(|error| error.to_string())
}

fn condition(text: &str) -> Result<Condition, String> {
    let text = text.trim();
    let shape = || format!("{text:?} is not a condition: write METRIC<VALUE, such as 'p99<50ms'");
    if text.contains('>') {
        return Err(format!(
            "{text:?}: an objective has upper bounds: write METRIC<VALUE, such as 'p99<50ms'"
        ));
    }
    let (metric, value) = text.split_once('<').ok_or_else(shape)?;
    let value = value.trim_start_matches('=').trim();
    let time = |text| read_time(text).map(|ns| Duration::from_nanos(ns as u64));
    let condition = match metric.trim() {
        "errors" | "err" => {
            Condition::errors(share(value).map_err(|error| format!("{value:?} is {error}"))?)
        }
        "mean" => Condition::mean(time(value)?),
        metric => {
            let percent = metric
                .strip_prefix('p')
                .and_then(|digits| digits.parse::<f64>().ok());
            let percent = percent.ok_or_else(|| {
                format!("{metric:?} is not a metric: write p50 to p99.99, mean or errors")
            })?;
            Condition::quantile(percent / 100.0, time(value)?)
        }
    };
    condition.map_err(|error| format!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_upper_bounds() {
        for (text, expected) in [
            ("p99<50ms", "p99 < 50 ms, errors < 1 %"),
            ("p99.9<=200ms,err<0.1%", "p99.9 < 200 ms, errors < 0.1 %"),
            (
                " mean < 1.5s , errors < 0.02 ",
                "mean < 1.5 s, errors < 2 %",
            ),
        ] {
            assert_eq!(
                parse(text).map(|slo| slo.to_string()),
                Ok(expected.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_objective_says_what_to_type() {
        for (text, expected) in [
            ("", "write METRIC<VALUE"),
            ("p99", "write METRIC<VALUE"),
            ("p99>50ms", "an objective has upper bounds"),
            ("p99<50", "a unit is missing: write 50ms"),
            ("p99<fast", "not a time"),
            ("p99<0ms", "out of range: above 0"),
            ("p99<2min", "out of range: above 0 and at most 60 s"),
            ("p99<-5ms", "not a time"),
            ("p100<50ms", "write a percentile from p50 to p99.99"),
            ("p10<50ms", "write a percentile from p50 to p99.99"),
            ("pNaN<50ms", "write a percentile"),
            ("max<50ms", "\"max\" is not a metric"),
            ("p99<50ms,p99<20ms", "is bounded already"),
            ("errors<0", "out of range: write 'errors<0.1%'"),
            ("errors<100%", "out of range"),
            ("errors<5", "is not a share"),
            ("p99<50ms;errors<1%", "not a time"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
