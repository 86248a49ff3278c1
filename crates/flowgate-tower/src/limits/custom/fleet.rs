//! Limits of flowgate-fleet as limits of a layer.

use super::{Admission, Custom, CustomLimit, Deciding};
use crate::limits::AnyLimit;
use flowgate::Quota;
use flowgate_fleet::{FleetKeyed, FleetLimit};
use std::sync::Arc;

/// The store decides. A process that is cut off decides alone, and refuses with 503 what its share does not admit.
impl CustomLimit for FleetLimit {
    fn decide(self: Arc<Self>, (): (), n: u64) -> Deciding {
        Box::pin(async move { self.ask().n(n).await.map(|_| Admission::new()) })
    }

    fn quota(&self, (): &()) -> Option<Quota> {
        Some(FleetLimit::quota(self))
    }
}

/// The key is a request's key, as bytes.
impl<K: AsRef<[u8]> + Send + Sync + 'static> CustomLimit<K> for FleetKeyed {
    fn decide(self: Arc<Self>, key: K, n: u64) -> Deciding {
        Box::pin(async move { self.ask(key).n(n).await.map(|_| Admission::new()) })
    }

    fn quota(&self, _: &K) -> Option<Quota> {
        Some(FleetKeyed::quota(self))
    }
}

impl From<FleetLimit> for AnyLimit {
    fn from(limit: FleetLimit) -> Self {
        Custom::new(limit).into()
    }
}
