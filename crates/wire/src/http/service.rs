//! The service that all threads share.

use std::sync::Arc;

use super::content::Content;
use crate::service::Clock;

/// HTTP for content in memory.
pub struct Http {
    pub(super) content: Arc<Content>,
    /// For the `Date` of responses, read once a batch.
    pub(super) clock: Clock,
}

impl Http {
    /// Serves this content. `clock` is the only clock that it reads.
    pub fn new(content: impl Into<Arc<Content>>, clock: Clock) -> Self {
        Self { content: content.into(), clock }
    }
}
