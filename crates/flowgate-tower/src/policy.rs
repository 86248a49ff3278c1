use crate::headers::{Parameters, add_item, quoted};
use crate::limits::{Standing, Unit};
use bytes::Bytes;
use flowgate::Quota;
use http::header::HeaderValue;
use std::sync::OnceLock;

/// How many items are kept.
const KEPT: usize = 8;

/// The items of `RateLimit-Policy` that were written first. There are few items: a new one appears only if a quota changes,
/// or if a key has a per-key quota.
#[derive(Debug, Default)]
pub(crate) struct Policies([OnceLock<Written>; KEPT]);

#[derive(Debug)]
struct Written {
    name: Box<str>,
    allows: Allows,
    item: PolicyItem,
}

/// What a policy says, beside the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allows {
    limit: u64,
    unit: Unit,
    quota: Option<Quota>,
}

/// `"name";q=100;w=60`
#[derive(Clone, Debug)]
pub(crate) struct PolicyItem {
    pub(crate) value: HeaderValue,
    name_len: usize,
}

impl PolicyItem {
    fn of(standing: &Standing<'_>) -> Option<Self> {
        let name = quoted(standing.name);
        let mut item = Vec::new();
        add_item(&mut item, name.as_bytes(), &parameters(standing));
        let value = HeaderValue::from_maybe_shared(Bytes::from(item)).ok()?;
        Some(Self {
            value,
            name_len: name.len(),
        })
    }

    /// With its quotation marks.
    pub(crate) fn name(&self) -> &[u8] {
        &self.value.as_bytes()[..self.name_len]
    }
}

pub(crate) fn parameters(standing: &Standing<'_>) -> Parameters {
    let mut parameters = Parameters::default();
    let scaled = standing.quota_and_window();
    let quota = scaled.map_or(standing.limit, |(quota, _)| quota);
    parameters.integer(b";q=", quota);
    if standing.unit == Unit::ConcurrentRequests {
        parameters.push(b";qu=\"concurrent-requests\"");
    }
    if let Some((_, seconds)) = scaled {
        parameters.integer(b";w=", seconds);
    }
    parameters
}

impl Policies {
    /// That of `standing`; none if it cannot be in a field, which no name brings about.
    pub(crate) fn item(&self, standing: &Standing<'_>) -> Option<PolicyItem> {
        let allows = Allows {
            limit: standing.limit,
            unit: standing.unit,
            quota: standing.quota,
        };
        for place in &self.0 {
            match place.get() {
                Some(written) if written.is(standing.name, &allows) => {
                    return Some(written.item.clone());
                }
                Some(_) => {}
                None => {
                    let item = PolicyItem::of(standing)?;
                    let name = standing.name.into();
                    // Or another one is there by now.
                    let _ = place.set(Written {
                        name,
                        allows,
                        item: item.clone(),
                    });
                    return Some(item);
                }
            }
        }
        PolicyItem::of(standing)
    }
}

impl Written {
    fn is(&self, name: &str, allows: &Allows) -> bool {
        self.allows == *allows && *self.name == *name
    }
}

/// Other rules write their own.
impl Clone for Policies {
    fn clone(&self) -> Self {
        Self::default()
    }
}
