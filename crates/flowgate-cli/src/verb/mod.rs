//! The command line as a whole. Each verb has a file with its arguments and what it does.

pub(crate) mod load;
pub(crate) mod pace;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  flowgate load --rate 1000/s --duration 5s
      Send 1000 requests per second to a server of its own: how exact is this machine?
  flowgate load --rate 500/s --duration 30s http://127.0.0.1:8080/health
      The same to a real server.
  flowgate load -q 90/min -n 20 -H 'Authorization: Bearer …' http://host/
      Twenty requests, 90 per minute, with a header.
  cat urls.txt | flowgate pace 2/s | xargs -n1 curl -sO
      Anything with lines, one every half second.

`flowgate load --help` says what the report means.";

/// Sends HTTP requests at an exact rate, and proves that the rate was held.
#[derive(Debug, Parser)]
#[command(
    name = "flowgate",
    version,
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    infer_subcommands = true
)]
pub(crate) struct Command {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Load(load::Load),
    Pace(pace::Pace),
}
