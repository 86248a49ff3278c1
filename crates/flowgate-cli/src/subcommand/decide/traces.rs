//! `--otlp`: spans of requests, for a collector.

use std::time::Duration;

use clap::Args;
use flowgate_load::{OtlpCollector, OtlpSignal, Target};
use flowgate_server::DecideTraces;
use hyper::header::{HeaderName, HeaderValue};

use super::log::Log;
use crate::argument::header;
use crate::argument::output::collector;
use crate::exit::Refusal;

/// How long the collector may take for a batch.
const LIMIT: Duration = Duration::from_secs(5);

/// Arguments about spans.
#[derive(Args, Debug)]
pub(super) struct Traces {
    /// Send spans of sampled requests to this OpenTelemetry collector (OTLP, JSON)
    #[arg(long, value_name = "URL", value_parser = collector)]
    otlp: Option<Target>,

    /// Add a header to what --otlp sends, 'Name: value'; repeatable
    #[arg(long, value_name = "HEADER", value_parser = header::of_collector, requires = "otlp")]
    otlp_header: Vec<(HeaderName, HeaderValue)>,

    /// Sample this share of the requests that name no trace of their own
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = share,
        default_value = "1%",
        requires = "otlp"
    )]
    otlp_share: f64,
}

impl Traces {
    /// Returns what delivers spans, if there is a collector. The log has when it is lost, and when it is back.
    pub(super) fn to(&self, log: &Log) -> Result<Option<DecideTraces>, Refusal> {
        let Some(target) = self.otlp.clone() else {
            return Ok(None);
        };
        let headers = self.otlp_header.clone();
        let collector = OtlpCollector::new(target, OtlpSignal::Traces, headers, LIMIT);
        let collector =
            collector.map_err(|error| Refusal::could_not_run(format!("--otlp: {error}")))?;
        let log = log.clone();
        let traces = DecideTraces::new(|| {
            let mut sender = collector.sender();
            let mut is_lost = false;
            move |body: String| {
                let sent = sender.send(body.into());
                match &sent {
                    Err(why) if !is_lost => log.complain(&format_args!(
                        "--otlp: the collector does not take spans: {why}; they are lost and counted until it does"
                    )),
                    Ok(()) if is_lost => log.say("--otlp: the collector takes spans again"),
                    _ => {}
                }
                is_lost = sent.is_err();
                sent
            }
        });
        Ok(Some(traces.share(self.otlp_share)))
    }
}

/// Parses `10%` or `0.1`.
fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        // Not a division, which would not give the nearest number.
        Some(percent) => format!("{percent}e-2"),
        None => text.to_owned(),
    };
    let is_decimal = number.starts_with(|first: char| first.is_ascii_digit());
    match number.parse() {
        Ok(share) if is_decimal && (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is from 0% to 100%, such as 1%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_a_percentage_or_a_number() {
        for (text, number) in [
            ("1%", 0.01),
            ("0%", 0.0),
            ("100%", 1.0),
            ("0.1", 0.1),
            ("1", 1.0),
        ] {
            assert_eq!(share(text), Ok(number), "{text}");
        }
        for text in ["", "%", "101%", "-1%", "2", "nan", "inf", "x", "1 %", "+1"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
