//! How many files this process may have open: each connection is one.

/// What the process needs beside its connections: its streams, its reports, and what timers and signals take.
const BESIDE: u64 = 24;
/// What each sending thread needs for itself.
const PER_THREAD: u64 = 6;

/// Makes sure that so many connections may be open concurrently, each of which has so many ends in this process: raises the
/// soft limit as far as is needed and the hard limit lets it.
///
/// # Errors
///
/// When the hard limit is too low: what to do about it.
pub(crate) fn provide(connections: u64, ends: u64, threads: u64) -> Result<(), String> {
    let besides = besides(threads);
    let needed = connections.saturating_mul(ends).saturating_add(besides);
    let allowed = raise(needed);
    if allowed >= needed {
        return Ok(());
    }
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

/// Raises the soft limit for so many connections, on one thread and with one end in this process, as far as the hard
/// limit lets it; says how many of them may be open concurrently.
///
/// # Errors
///
/// When not even one may be: what to do about it.
pub(crate) fn provide_up_to(connections: u64) -> Result<u64, String> {
    let besides = besides(1);
    let allowed = raise(connections.saturating_add(besides));
    match allowed.saturating_sub(besides).min(connections) {
        0 => provide(1, 1, 1).map(|()| 1),
        fitting => Ok(fitting),
    }
}

/// What is needed beside the connections.
fn besides(threads: u64) -> u64 {
    BESIDE.saturating_add(threads.saturating_mul(PER_THREAD))
}

/// Raises the limit to this, or as far as may be; says what is allowed then, and no more than was asked for.
#[cfg(unix)]
fn raise(needed: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let Some(soft) = limit.current.filter(|&soft| soft < needed) else {
        return needed;
    };
    let allowed = limit.maximum.map_or(needed, |hard| hard.min(needed));
    let raised = Rlimit {
        current: Some(allowed),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => allowed,
        Err(_) => soft,
    }
}

/// Elsewhere a connection is no file.
#[cfg(not(unix))]
fn raise(needed: u64) -> u64 {
    needed
}
