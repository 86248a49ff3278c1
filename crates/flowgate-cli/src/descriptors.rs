//! How many files this process may have open: each connection is one.

/// What the process needs beside its connections: its streams, its reports, and what timers and signals take.
const BESIDE: u64 = 24;
/// What each sending thread needs for itself.
const PER_THREAD: u64 = 6;

/// Makes sure that so many connections may be open at once, each of which has so many ends in this process: raises the
/// soft limit as far as is needed and the hard limit lets it.
///
/// # Errors
///
/// When the hard limit is too low: what to do about it.
pub(crate) fn provide(connections: u64, ends: u64, threads: u64) -> Result<(), String> {
    let besides = BESIDE.saturating_add(threads.saturating_mul(PER_THREAD));
    let needed = connections.saturating_mul(ends).saturating_add(besides);
    match raise(needed) {
        Ok(()) => Ok(()),
        Err(allowed) => {
            let smaller = match allowed.saturating_sub(besides) / ends.max(1) {
                0 => String::new(),
                fitting => format!("-c {fitting}, or "),
            };
            let connections = match connections {
                1 => "1 connection takes".to_owned(),
                several => format!("{several} connections take"),
            };
            Err(format!(
                "{connections} about {needed} open files, and {allowed} are allowed: \
                 type {smaller}before it ulimit -n {needed}"
            ))
        }
    }
}

/// Raises the limit to this, or else says what it is.
#[cfg(unix)]
fn raise(needed: u64) -> Result<(), u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let Some(soft) = limit.current.filter(|&soft| soft < needed) else {
        return Ok(());
    };
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Ok(()),
        Err(_) => Err(limit.maximum.unwrap_or(soft)),
    }
}

/// Elsewhere a connection is no file.
#[cfg(not(unix))]
fn raise(_: u64) -> Result<(), u64> {
    Ok(())
}
