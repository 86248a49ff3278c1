//! The limit of open files: each connection needs one.

/// Files besides the connections: standard streams, reports, timers and signals.
const BESIDE: u64 = 24;
/// Files per sending thread.
const PER_THREAD: u64 = 6;

/// Raises the soft limit for `connections` connections with `ends` ends each in this process.
///
/// # Errors
///
/// Returns what to write if the hard limit is too low.
pub(crate) fn provide(connections: u64, ends: u64, threads: u64) -> Result<(), String> {
    let besides = besides(threads);
    let needed = connections.saturating_mul(ends).saturating_add(besides);
    let allowed = raise(needed);
    if allowed >= needed {
        return Ok(());
    }
    let smaller = match allowed.saturating_sub(besides) / ends.max(1) {
        0 => String::new(),
        fitting => format!("write -c {fitting}, or "),
    };
    let connections = match connections {
        1 => "1 connection needs".to_owned(),
        several => format!("{several} connections need"),
    };
    Err(format!(
        "{connections} about {needed} open files, but {allowed} are allowed: \
         {smaller}run ulimit -n {needed} first"
    ))
}

/// Raises the soft limit for `connections` connections, or as far as the hard limit allows. Returns the possible number.
///
/// # Errors
///
/// Returns what to write if not even one connection is possible.
pub(crate) fn provide_up_to(connections: u64) -> Result<u64, String> {
    let besides = besides(1);
    let allowed = raise(connections.saturating_add(besides));
    match allowed.saturating_sub(besides).min(connections) {
        0 => provide(1, 1, 1).map(|()| 1),
        fitting => Ok(fitting),
    }
}

/// Returns the number of files besides the connections.
fn besides(threads: u64) -> u64 {
    BESIDE.saturating_add(threads.saturating_mul(PER_THREAD))
}

/// Raises the limit to `needed`, or as far as allowed. Returns the limit, at most `needed`.
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

/// On other systems, a connection is not a file.
#[cfg(not(unix))]
fn raise(needed: u64) -> u64 {
    needed
}
