//! The command line as a whole. Each verb has a file with its arguments and what it does.

pub(crate) mod completions;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod pace;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod verify;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  flowgate load --rate 1000/s --duration 5s
      Send 1000 requests per second to a server of its own: how exact is this?
  flowgate load -q 500 -z 30s -c 20 http://127.0.0.1:8080/health
      The same to a real server, as hey and oha have it.
  flowgate load http://host/ --at-most 2/s
      Stay under a limit: no two requests are ever closer than 500 ms.
  flowgate verify http://127.0.0.1:8080/ --expect '100/s burst 20'
      What does that server's rate limiter really admit?
  cat urls.txt | flowgate pace 2/s | xargs -n1 curl -sO
      Anything with lines, one every half second.

`flowgate load --help` says what the report means.";

/// Sends HTTP requests at an exact rate and proves that the rate was held; finds out what a rate limiter admits; paces lines.
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
    Load(Box<load::Load>),
    Pace(pace::Pace),
    Report(report::Report),
    Verify(Box<verify::Verify>),
    Serve(serve::Serve),
    Completions(completions::Completions),
    Man(man::Man),
}
