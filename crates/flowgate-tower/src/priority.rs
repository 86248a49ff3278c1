use crate::RequestHead;
use flowgate::{Denied, PriorityShedder};
use std::sync::Arc;

/// A shedder, and the levels of requests.
pub(crate) struct Priorities {
    shedder: Arc<PriorityShedder>,
    level_of: Box<LevelOf>,
}

type LevelOf = dyn Fn(&RequestHead<'_>) -> u32 + Send + Sync;

impl Priorities {
    pub(crate) fn new(shedder: Arc<PriorityShedder>, level_of: Box<LevelOf>) -> Self {
        Self { shedder, level_of }
    }

    pub(crate) fn try_admit(&self, request: &RequestHead<'_>) -> Result<(), Denied> {
        self.shedder.try_admit((self.level_of)(request))
    }

    /// The limit has not admitted a request immediately.
    pub(crate) fn note_excess(&self) {
        self.shedder.note_excess();
    }
}
