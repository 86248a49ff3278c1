//! Where a report comes from: when it was made, by which command and version, on which machine.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// When, how and where a run was made.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let mut report = flowgate_load::run(plan, &Stop::new())?;
/// assert!(report.provenance.started.is_some());
/// // Only the caller knows how the run was begun.
/// report.provenance.command = Some("my-tool --fast".to_owned());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Start of the run, to the millisecond. In JSON it is RFC 3339 text in UTC.
    #[serde(with = "rfc3339")]
    pub started: Option<SystemTime>,
    /// Command line, without passwords; `None` if the caller did not set it.
    pub command: Option<String>,
    /// Version of flowgate that made the run.
    pub version: Option<String>,
    /// Processors and operating system of the sending machine.
    pub machine: Option<String>,
}

impl Provenance {
    /// Returns that of a run that starts now on this machine.
    pub(crate) fn now() -> Provenance {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let millis = Duration::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        Provenance {
            started: SystemTime::UNIX_EPOCH.checked_add(millis),
            command: None,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            machine: Some(machine()),
        }
    }

    /// Returns the start as text: `2026-11-28 01:30:12 UTC`.
    pub(crate) fn date(&self) -> Option<String> {
        let text = humantime::format_rfc3339_seconds(representable(self.started?)?).to_string();
        Some(text.replace('T', " ").replace('Z', " UTC"))
    }
}

/// Formatting rejects years beyond 9999, which only a file can contain.
fn representable(time: SystemTime) -> Option<SystemTime> {
    const YEAR_10000_S: u64 = 253_402_300_800;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    (since.as_secs() < YEAR_10000_S).then_some(time)
}

/// Describes the machine: `2 × AMD EPYC 7B13, linux 6.1.0 x86_64`.
fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let model = of_linux("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let model = model.unwrap_or_else(|| "CPU".to_owned());
    let kernel = of_linux("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = [std::env::consts::OS, kernel.trim(), std::env::consts::ARCH];
    let system: Vec<_> = system.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{processors} × {model}, {}", system.join(" "))
}

fn of_linux(path: &str) -> Option<String> {
    match cfg!(target_os = "linux") {
        true => std::fs::read_to_string(path).ok(),
        false => None,
    }
}

/// Times as RFC 3339 text in UTC.
pub(crate) mod rfc3339 {
    use std::time::SystemTime;

    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use super::representable;

    pub(super) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time.and_then(representable) {
            Some(time) => {
                let text = humantime::format_rfc3339_millis(time);
                serializer.collect_str(&text)
            }
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| humantime::parse_rfc3339(&text).map_err(D::Error::custom))
            .transpose()
    }

    /// The same for a time that is always there.
    pub(crate) mod required {
        use super::{Deserializer, Error, Serializer, SystemTime};

        pub(crate) fn serialize<S: Serializer>(
            time: &SystemTime,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            super::serialize(&Some(*time), serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<SystemTime, D::Error> {
            super::deserialize(deserializer)?.ok_or_else(|| D::Error::custom("a time is missing"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_as_people_write_it() {
        let started = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_829_412_345);
        let provenance = Provenance {
            started: Some(started),
            ..Provenance::default()
        };
        assert_eq!(
            provenance.date().as_deref(),
            Some("2026-11-28 01:30:12 UTC")
        );
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(300_000_000_000);
        let provenance = Provenance {
            started: Some(far),
            ..Provenance::default()
        };
        assert_eq!(provenance.date(), None);
    }
}
