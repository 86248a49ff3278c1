//! The arguments that choose a pacing limiter, which decides when requests are sent.

use std::time::Duration;

use clap::Args;
use flowgate::Quota;
use flowgate_load::{Margin, PacingLimiter};

use super::{duration, rate};
use crate::exit::Refusal;

/// A rate that the run must never exceed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rate")]
pub(crate) struct Cap {
    /// Never exceed this rate: at 2/s, all gaps are at least 500 ms
    #[arg(
        long,
        value_name = "RATE",
        value_parser = rate::parse,
        conflicts_with_all = ["rate", "shape", "late"],
        allow_hyphen_values = true,
    )]
    at_most: Option<Quota>,

    /// Send only what this limiter admits: 'token 100/s burst 20'; see Limiters
    #[arg(
        long,
        value_name = "LIMITER",
        value_parser = limiter,
        conflicts_with_all = ["rate", "shape", "late", "at_most"],
        allow_hyphen_values = true,
    )]
    limiter: Option<PacingLimiter>,

    /// Add a gap after each request: TIME, answer (the response time), or auto (the same, at most 10 % of the gap) [default: auto]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = margin,
        allow_hyphen_values = true,
    )]
    margin: Option<Margin>,
}

impl Cap {
    /// Returns the pacing limiter of `--at-most` or `--limiter`.
    pub(crate) fn limiter(&self) -> Result<Option<PacingLimiter>, Refusal> {
        let margin = self.margin.unwrap_or_default();
        if let Some(rate) = self.at_most {
            return Ok(Some(PacingLimiter::at_most(rate).margin(margin)));
        }
        match &self.limiter {
            Some(limiter) => Ok(Some(limiter.clone().margin(margin))),
            None if self.margin.is_some() => Err(Refusal::usage(
                "--margin needs --at-most or --limiter: write --at-most 2/s --margin 1ms",
            )),
            None => Ok(None),
        }
    }
}

fn margin(text: &str) -> Result<Margin, String> {
    match text.trim() {
        "auto" => Ok(Margin::Auto),
        "answer" => Ok(Margin::Answer),
        "0" | "none" => Ok(Margin::Time(Duration::ZERO)),
        text => duration::parse(text)
            .map(Margin::Time)
            .map_err(|error| format!("{error}, auto or answer")),
    }
}

fn limiter(text: &str) -> Result<PacingLimiter, String> {
    PacingLimiter::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowgate::LimiterKind;

    #[test]
    fn a_limiter_has_a_name_and_a_rate() {
        for kind in LimiterKind::ALL {
            let text = format!("{} 100/s", kind.name());
            assert_eq!(limiter(&text).unwrap().to_string(), text);
        }
        for (text, expected) in [
            (
                "",
                "is no limiter; write token, leaky, sliding, segmented, fixed, aligned or approximate",
            ),
            ("bucket", "\"bucket\" is no limiter; write token, leaky"),
            ("sliding", "the quota is missing; write \"sliding 100/s\""),
            (
                "5/s burst 2",
                "the name is missing; write \"token 5/s burst 2\"",
            ),
            ("fixed many", "many"),
        ] {
            let error = limiter(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
