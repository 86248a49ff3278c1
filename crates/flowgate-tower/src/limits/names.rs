use flowgate::Denied;
use std::sync::Arc;

/// What the limits of a layer are called.
#[derive(Clone, Debug)]
pub struct Names {
    pub limit: Arc<str>,
    /// Of a limiter with two quotas.
    pub quotas: [Arc<str>; 2],
}

impl Names {
    pub fn new(limit: &str) -> Self {
        Self {
            limit: limit.into(),
            quotas: [1, 2].map(|number| format!("{limit}-{number}").into()),
        }
    }

    /// The name of what refused: a quota, if the limiter has two of them.
    pub fn of_quota(&self, denied: &Denied, has_two: impl FnOnce() -> bool) -> &str {
        let quota = denied.limit().and_then(|index| self.quotas.get(index));
        match quota {
            Some(quota) if has_two() => quota,
            _ => &self.limit,
        }
    }
}
