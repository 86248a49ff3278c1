//! Configurations: envoyproxy/ratelimit's YAML, with our keys beside its keys.

mod problem;
mod read;
mod write;
mod yaml;

pub(crate) use problem::Place;
pub use problem::Problem;

use flowgate::{LimiterKind, Quota, Quotas};
use flowgate_fleet::CutOff;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// The largest file, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Rules as one or more files state them.
///
/// The format is that of envoyproxy/ratelimit. Beside `rate_limit`, a descriptor can have a `quota` of flowgate.
///
/// ```
/// use flowgate_server::Config;
///
/// let text = "
/// domain: api
/// descriptors:
///   - key: user                     # each user
///     quota: 100/min burst 20
///   - key: path
///     value: /search
///     rate_limit: { unit: second, requests_per_unit: 50 }
/// ";
/// let config = Config::parse("limits.yaml", text)?;
/// assert_eq!(config.len(), 2);
/// # Ok::<(), flowgate_server::Problem>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub(crate) domains: Vec<Domain>,
    notes: Vec<Problem>,
}

/// The tree of one domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) name: String,
    pub(crate) file: String,
    place: Place,
    pub(crate) descriptors: Vec<Descriptor>,
}

#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) key: String,
    /// `None`: every value.
    pub(crate) value: Option<String>,
    pub(crate) terms: Option<Terms>,
    pub(crate) children: Vec<Descriptor>,
    /// All values that match share one counter.
    pub(crate) is_shared: bool,
    pub(crate) place: Place,
}

/// What a descriptor with a limit says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) name: Option<String>,
    pub(crate) replaces: Vec<String>,
    pub(crate) allows: Allows,
    pub(crate) is_shadow: bool,
    pub(crate) allow_override: bool,
    pub(crate) capacity: Option<usize>,
    pub(crate) cut_off: Option<CutOff>,
    /// Servers hold tokens of busy keys in advance. `None`: the store decides on each request.
    pub(crate) leased: Option<Exceeds>,
    /// Envoys decide, by the parts that `RateLimitQuotaService` assigns them.
    pub(crate) is_assigned: bool,
}

/// By how much leases may exceed a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeds {
    /// A part of the burst.
    Percent(u32),
    Tokens(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Allows {
    Everything,
    Nothing {
        unit: Unit,
    },
    /// Windows aligned to the unit.
    Windows {
        count: u32,
        unit: Unit,
    },
    Quota {
        kind: LimiterKind,
        quota: Quota,
    },
    /// Token buckets.
    TwoQuotas(Quotas),
}

impl Allows {
    /// Returns the most tokens in one burst: of two quotas, the larger one.
    pub(crate) fn burst(&self) -> u64 {
        match self {
            Self::Everything => u64::MAX,
            Self::Nothing { .. } => 0,
            Self::Windows { count, .. } => (*count).into(),
            Self::Quota { quota, .. } => quota.max_burst(),
            Self::TwoQuotas(quotas) => {
                let bursts = quotas.as_slice().iter().map(Quota::max_burst);
                bursts.max().unwrap_or_default()
            }
        }
    }
}

/// A unit of `rate_limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    pub(crate) const ALL: [Self; 7] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Year,
    ];

    /// Returns the name as in a protocol buffer.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Second => "SECOND",
            Self::Minute => "MINUTE",
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Week => "WEEK",
            Self::Month => "MONTH",
            Self::Year => "YEAR",
        }
    }

    /// Returns the length as envoyproxy/ratelimit has it: a month of 30 days, a year of 365 days.
    pub(crate) const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
            Self::Year => 365 * 86_400,
        })
    }
}

impl Config {
    /// Reads files. Each has one or more domains.
    ///
    /// # Errors
    ///
    /// Returns the first [`Problem`]: a file that cannot be read or is larger than 4 MiB, or something wrong in it.
    pub fn read<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, Problem> {
        let mut config = Self::default();
        for path in paths {
            let path = path.as_ref();
            let name = path.display().to_string();
            let text = text_of(path).map_err(|(place, what)| Problem::new(&name, place, what))?;
            config.add(&name, &text)?;
        }
        Ok(config)
    }

    /// Reads a text. `name` is what problems call it.
    ///
    /// # Errors
    ///
    /// Returns the first [`Problem`].
    pub fn parse(name: &str, text: &str) -> Result<Self, Problem> {
        let mut config = Self::default();
        config.add(name, text)?;
        Ok(config)
    }

    fn add(&mut self, file: &str, text: &str) -> Result<(), Problem> {
        let (domains, notes) = read::domains(file, text)?;
        for domain in domains {
            let is_same = |other: &&Domain| other.name == domain.name;
            if let Some(other) = self.domains.iter().find(is_same) {
                let what = format!(
                    "the domain `{}` is already in {}:{}; write its descriptors there",
                    domain.name, other.file, other.place.line
                );
                return Err(Problem::new(file, Some(domain.place), what));
            }
            self.domains.push(domain);
        }
        self.notes.extend(notes);
        Ok(())
    }

    /// Returns keys that are accepted and have no effect here.
    pub fn notes(&self) -> &[Problem] {
        &self.notes
    }

    /// Returns the number of limits.
    pub fn len(&self) -> usize {
        fn of(descriptors: &[Descriptor]) -> usize {
            let each = |descriptor: &Descriptor| {
                usize::from(descriptor.terms.is_some()) + of(&descriptor.children)
            };
            descriptors.iter().map(each).sum()
        }
        self.domains
            .iter()
            .map(|domain| of(&domain.descriptors))
            .sum()
    }

    /// Returns whether there is no limit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn text_of(path: &Path) -> Result<String, (Option<Place>, String)> {
    let mut text = Vec::new();
    let read = |text: &mut Vec<u8>| File::open(path)?.take(MAX_BYTES + 1).read_to_end(text);
    read(&mut text).map_err(|error| (None, format!("cannot read it: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err((None, "larger than 4 MiB; write several files".to_owned()));
    }
    String::from_utf8(text).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let before = String::from_utf8_lossy(valid);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let place = Place {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        };
        (
            Some(place),
            "not UTF-8 text; save the file as UTF-8".to_owned(),
        )
    })
}
