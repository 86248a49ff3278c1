//! The command line. Each subcommand has a file with its arguments and its implementation.

pub(crate) mod completions;
#[cfg(feature = "decide")]
pub(crate) mod decide;
pub(crate) mod find;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod pace;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod verify;

use clap::Parser;

use crate::exit::exit_codes;

const EXAMPLES: &str = concat!(
    "\
Examples:
  flowgate load --rate 1000/s --duration 5s
      Send 1000 requests per second to the built-in test server for 5 s.
  flowgate load -q 500 -z 30s -c 20 http://127.0.0.1:8080/health
      Send 500 requests per second to a server, on 20 connections.
  flowgate load http://host/ --at-most 2/s
      Never send two requests within 500 ms.
  flowgate verify http://127.0.0.1:8080/ --expect '100/s burst 20'
      Detect what a server's rate limiter really admits, and compare.
  flowgate find http://127.0.0.1:8080/ --slo 'p99<50ms'
      Search for the highest rate at which a server keeps its objective.
  flowgate simulate --limiter 'token 100/s burst 20' --arrivals 'poisson 150/s'
      Show what a limit does to traffic, without sending any.
  cat urls.txt | flowgate pace 2/s | xargs -n1 curl -sO
      Fetch the listed URLs, one every half second.

`flowgate SUBCOMMAND --help` explains a subcommand and its report.

",
    exit_codes!()
);

/// Send HTTP load at an exact rate, test and simulate rate limiters, or pace lines
#[derive(Debug, Parser)]
#[command(
    name = "flowgate",
    version,
    max_term_width = 80,
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    infer_subcommands = true
)]
pub(crate) struct Command {
    #[command(subcommand)]
    pub(crate) subcommand: Option<Subcommand>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Load(Box<load::Load>),
    Pace(pace::Pace),
    Report(report::Report),
    Find(Box<find::Find>),
    Verify(Box<verify::Verify>),
    Serve(serve::Serve),
    #[cfg(feature = "decide")]
    Decide(Box<decide::Decide>),
    Simulate(Box<simulate::Simulate>),
    #[cfg(feature = "fleet")]
    Fleet(fleet::Fleet),
    Completions(completions::Completions),
    Man(man::Man),
}
