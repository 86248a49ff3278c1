//! Clients that others wrote: h2load and redis-benchmark.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::lap::Answers;
use crate::process::pinned;

/// Requests of h2load.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    pub url: String,
    pub body: &'a Path,
    pub header: &'a str,
    pub connections: u32,
    /// `None`: HTTP/1.1. Otherwise, streams of each connection of HTTP/2.
    pub streams: Option<u32>,
}

impl Requests<'_> {
    fn command(&self, core: usize, window: Duration) -> Command {
        let mut command = pinned(core, "h2load");
        command.args([
            "-c",
            &self.connections.to_string(),
            "-D",
            &window.as_secs().to_string(),
        ]);
        command.arg("-d").arg(self.body).args(["-H", self.header]);
        match self.streams {
            Some(streams) => command.args(["-m", &streams.to_string(), "-H", "te: trailers"]),
            None => command.arg("--h1"),
        };
        command
    }

    /// Asks as often as the server answers. Only answers with a status of 2xx count, and there may be no other.
    ///
    /// # Errors
    ///
    /// A message if h2load fails, or another status is answered.
    pub fn run(&self, core: usize, window: Duration) -> Result<Answers, String> {
        let mut command = self.command(core, window);
        let text = output(command.arg(&self.url))?;
        let wrong = || format!("h2load has no such line:\n{text}");
        let codes = line(&text, "status codes: ").ok_or_else(wrong)?;
        let counts: Vec<u64> = numbers(codes);
        let [count, others @ ..] = &*counts else {
            return Err(wrong());
        };
        let count = *count;
        if others.iter().sum::<u64>() > 0 || count == 0 {
            return Err(format!("answers other than 200: {codes}"));
        }
        Ok(Answers {
            count,
            per_second: Some(count as f64 / window.as_secs_f64()),
        })
    }
}

/// Lets redis-benchmark send `words` for about `window`, in pipelines of `depth`.
///
/// # Errors
///
/// A message if it fails, or the server answers with an error.
pub fn redis_benchmark(
    server: SocketAddr,
    core: usize,
    depth: u32,
    count: u64,
    words: &[&str],
) -> Result<Answers, String> {
    let mut command = pinned(core, "redis-benchmark");
    command.args(["-p", &server.port().to_string(), "-c", "50", "--csv"]);
    command.args([
        "-P",
        &depth.to_string(),
        "-n",
        &count.to_string(),
        "-r",
        "1000",
    ]);
    let text = output(command.args(words))?;
    // The name of the test is in quotes, and may have commas.
    let last = text.lines().next_back().unwrap_or_default();
    let rate = last
        .rsplit("\",\"")
        .nth(6)
        .and_then(|word| word.trim_matches('"').parse().ok());
    let per_second = rate.ok_or_else(|| format!("redis-benchmark has no such line:\n{text}"))?;
    Ok(Answers {
        count,
        per_second: Some(per_second),
    })
}

/// Runs a command, and returns what it prints.
///
/// # Errors
///
/// A message if it cannot be started, or fails.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let output = output.map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} has failed: {text}{complaint}"));
    }
    Ok(text)
}

fn line<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(beginning))
}

/// The counts of `7 2xx, 0 3xx`.
fn numbers(text: &str) -> Vec<u64> {
    let counts = text
        .split(", ")
        .filter_map(|part| part.split(' ').next()?.parse().ok());
    counts.collect()
}
