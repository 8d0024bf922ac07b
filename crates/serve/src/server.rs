//! State that all requests share.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::StatusCode;
use hark_catalogue::{Embedder, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Options;
use crate::admission::Admission;
use crate::api_error::ApiError;
use crate::auth::WrongTokens;
use crate::metrics::Metrics;
use crate::text_cache::CachedEmbedder;

/// Texts whose vectors are kept: a few kilobytes each.
const KEPT_TEXTS: usize = 512;

/// Looks at the library (one file, its numbers) at work at once. They are short, and wait for no search.
pub(crate) const LOOKS: usize = 4;

/// What all requests share.
pub(crate) struct Server {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) embedder: CachedEmbedder,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) wrong_tokens: WrongTokens,
    /// Searches and uploads that are listened to.
    searches: Admission,
    looks: Admission,
    /// Uploads that are on their way.
    pub(crate) uploads: Arc<Semaphore>,
    /// Recordings that are decoded for listening, each for one piece at a time.
    pub(crate) decodings: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn new(store: Arc<dyn Store>, embedder: Arc<dyn Embedder>, options: Options) -> Self {
        let permits = |n: usize| Arc::new(Semaphore::new(n.min(Semaphore::MAX_PERMITS)));
        Self {
            store,
            embedder: CachedEmbedder::new(embedder, KEPT_TEXTS),
            metrics: Metrics::default(),
            wrong_tokens: WrongTokens::default(),
            searches: Admission::new(options.searches, options.waiting),
            // Never more than there are connections.
            looks: Admission::new(LOOKS, usize::MAX),
            uploads: permits(options.uploads),
            decodings: permits(options.searches),
            options,
        }
    }

    /// Does a search in a thread of its own, when its turn has come.
    pub(crate) async fn searching<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(permit) = self.searches.enter().await else {
            return Err(self.busy("too many searches; try again in a moment"));
        };
        self.run(permit, work).await
    }

    /// Looks something up in a thread of its own.
    pub(crate) async fn looking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(permit) = self.looks.enter().await else {
            return Err(self.busy("too many requests; try again in a moment"));
        };
        self.run(permit, work).await
    }

    /// The permit is given back when the work is done, also if the client has gone away.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let server = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&server)
        });
        let broke = |_| {
            ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal error during the search",
            )
        };
        done.await.map_err(broke)?
    }

    pub(crate) fn busy(&self, message: &str) -> ApiError {
        self.metrics.busy.fetch_add(1, Ordering::Relaxed);
        ApiError::busy(message)
    }
}
