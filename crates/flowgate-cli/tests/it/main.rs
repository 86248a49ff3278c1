//! Tests of the real binary, `flowgate`, as users run it.

#[cfg(feature = "decide")]
mod decide;
mod find;
#[cfg(feature = "fleet")]
mod fleet;
mod load;
mod nginx;
#[cfg(all(unix, feature = "decide", feature = "fleet"))]
mod operators;
mod pace;
mod pages;
mod profile;
mod readme;
mod real_time;
mod reports;
mod route;
mod serve;
mod simulate;
mod support;
mod targets;
mod tls;
#[cfg(all(unix, feature = "decide"))]
mod traces;
mod usage;
mod verify;
mod verify_limiters;
mod view;
