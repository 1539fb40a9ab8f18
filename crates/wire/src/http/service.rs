use std::sync::Arc;

use super::content::Content;
use crate::service::Clock;

/// HTTP for content in memory.
pub struct Http {
    pub(super) content: Arc<Content>,
    /// The clock for the `Date` of responses, read once per batch.
    pub(super) clock: Clock,
}

impl Http {
    /// Creates a service for this content. It reads no clock except `clock`.
    pub fn new(content: impl Into<Arc<Content>>, clock: Clock) -> Self {
        Self { content: content.into(), clock }
    }
}
