//! Error responses: a status and a message, as `{"error": "…"}`.

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use hark_catalogue::{EmbedError, Error};
use hark_work::files::explain;

/// Why a request gets no other answer.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    message: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Serialize)]
struct Sentence<'a> {
    error: &'a str,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            message,
            headers: Vec::new(),
        }
    }

    /// A request that is wrong in itself.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// Too many at once: the client may try again after a second.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message).with(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// No token, or a wrong one.
    pub(crate) fn token(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
            .with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Ends the connection after the answer: what the client still sends is not worth reading.
    pub(crate) fn closing(self) -> Self {
        self.with(CONNECTION, HeaderValue::from_static("close"))
    }

    pub(crate) fn response(self) -> Response<Body> {
        let text = serde_json::to_string(&Sentence { error: &self.message }).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.headers);
        response
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Embed(error) => return error.into(),
            Error::NoMoment { .. } => StatusCode::BAD_REQUEST,
            Error::NoFile { .. } | Error::NotIndexed { .. } => StatusCode::NOT_FOUND,
            Error::NoVector { .. } | Error::CancelsOut => StatusCode::UNPROCESSABLE_ENTITY,
            error => {
                let message = format!("cannot read the library: {}", explain(&error));
                return Self::new(StatusCode::INTERNAL_SERVER_ERROR, message);
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<EmbedError> for ApiError {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::Recording { what } => Self::new(StatusCode::UNPROCESSABLE_ENTITY, what),
            error => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("the model failed: {}", explain(&error)),
            ),
        }
    }
}
