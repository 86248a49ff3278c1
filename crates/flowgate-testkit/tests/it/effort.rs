//! How much a test draws: less in `ci/test`, everything in `ci/long.sh`.

/// Returns whether the environment variable `FLOWGATE_LONG` is set. `ci/long.sh` sets it.
pub fn is_long() -> bool {
    std::env::var_os("FLOWGATE_LONG").is_some()
}

/// Returns `long` seeds if everything is drawn, and otherwise the first `short`.
pub fn seeds(short: u64, long: u64) -> std::ops::Range<u64> {
    0..if is_long() { long } else { short }
}
