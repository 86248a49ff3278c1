use super::advice::is_refusal;
use crate::ResponseHead;
use flowgate::{Denied, Throttle};
use std::sync::Arc;

/// Whether a response is overload; `None` is an error of the client.
type IsOverload = dyn Fn(Option<ResponseHead<'_>>) -> bool + Send + Sync;

/// A throttle, and the responses that it counts as overload.
#[derive(Clone)]
pub(crate) struct Throttling {
    throttle: Arc<Throttle>,
    pub(super) is_overload: Arc<IsOverload>,
}

impl Throttling {
    pub(super) fn new(throttle: Arc<Throttle>) -> Self {
        Self {
            throttle,
            is_overload: Arc::new(|response| response.is_none_or(is_refusal)),
        }
    }

    /// Begins a request, whose outcome is [recorded](Self::record) later.
    pub(super) fn begin(&self) -> Result<(), Denied> {
        self.throttle.try_begin().map(drop)
    }

    pub(super) fn record(&self, response: Option<ResponseHead<'_>>) {
        self.throttle.record(!(self.is_overload)(response));
    }
}
