//! Where and when a run was made: numbers without it cannot be compared with anything.

use std::fmt;
use std::fs;
use std::time::SystemTime;

use serde::Serialize;

/// Description of the machine, printed above the tables and stored with the numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name as the kernel gives it, or "unknown".
    pub processor: String,
    pub cores: usize,
    /// The kernel's clock source, or "unknown".
    pub clock_source: String,
    /// When the run began: UTC, RFC 3339.
    pub started: String,
}

impl Machine {
    /// To be called before a thread is pinned: it then has one core.
    pub fn describe() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = cpuinfo
            .lines()
            .filter(|line| line.starts_with("model name"))
            .find_map(|line| Some(line.split_once(':')?.1.trim().to_owned()));
        let clock_source =
            fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        Machine {
            processor: processor.unwrap_or_else(|| "unknown".to_owned()),
            cores: core_affinity::get_core_ids().map_or(1, |cores| cores.len()),
            clock_source: clock_source.map_or("unknown".to_owned(), |name| name.trim().to_owned()),
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            processor,
            cores,
            clock_source,
            started,
        } = self;
        write!(
            f,
            "{processor}, {cores} cores, clock source {clock_source}, {started}"
        )
    }
}
