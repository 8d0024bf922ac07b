//! The table of all routes, and the checks before a request reaches its handler.
//!
//! `openapi.json` describes the same table; a test compares the two.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use axum::routing::{MethodFilter, on};
use serde::Serialize;

use crate::api_error::ApiError;
use crate::parameters::{Parameters, shorten};
use crate::request::{EXPORT_PARAMETERS, SEARCH_PARAMETERS, UPLOAD_PARAMETERS};
use crate::server::Server;
use crate::{audio, auth, export, library, page, search, upload};

/// Whether a request must show the token, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    Token,
}

/// A request that has been let through.
pub(crate) struct Call {
    pub(crate) headers: HeaderMap,
    pub(crate) parameters: Parameters,
    /// The `{id}` of the path, as it was written.
    pub(crate) id: String,
    pub(crate) body: Body,
}

impl Call {
    /// The file that the path names.
    pub(crate) fn file(&self) -> Result<i64, ApiError> {
        let digits = self.id.strip_prefix('-').unwrap_or(&self.id);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            let id = shorten(&self.id);
            return Err(ApiError::bad(format!("`{id}` is not a file id")));
        }
        let missing = |_| ApiError::missing(format!("the library has no file {}", shorten(&self.id)));
        self.id.parse().map_err(missing)
    }

    /// A header's text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What a handler gives.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, ApiError>> + Send>>;

/// An answer that needs no work.
fn at_once(response: Response<Body>) -> Answer {
    Box::pin(std::future::ready(Ok(response)))
}

/// Something that can be asked.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// The names that may stand in the URL; `None` if they are the page's own affair, which keeps in its address what is searched for.
    pub(crate) parameters: Option<&'static [&'static str]>,
    pub(crate) handler: fn(Arc<Server>, Call) -> Answer,
}

/// All that can be asked. A route of GET answers HEAD too, without a body; that of recordings says so, since players use it.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/",
        access: Access::Open,
        parameters: None,
        handler: |_, call| at_once(page::html(&call)),
    },
    Route::new(Method::GET, "/page.css", Access::Open, &[], |_, call| {
        at_once(page::css(&call))
    }),
    Route::new(Method::GET, "/page.js", Access::Open, &[], |_, call| {
        at_once(page::js(&call))
    }),
    Route::new(Method::GET, "/icon.svg", Access::Open, &[], |_, call| {
        at_once(page::icon(&call))
    }),
    Route::new(Method::GET, "/openapi.json", Access::Open, &[], |_, call| {
        at_once(page::openapi(&call))
    }),
    Route::new(Method::GET, "/health", Access::Open, &[], |server, call| {
        Box::pin(library::health(server, call))
    }),
    Route::new(Method::GET, "/metrics", Access::Token, &[], |server, _| {
        Box::pin(library::metrics(server))
    }),
    Route::new(Method::GET, "/api/library", Access::Token, &[], |server, _| {
        Box::pin(library::library(server))
    }),
    Route::new(Method::GET, "/api/failures", Access::Token, &[], |server, _| {
        Box::pin(library::failures(server))
    }),
    Route::new(
        Method::GET,
        "/api/search",
        Access::Token,
        SEARCH_PARAMETERS,
        |server, call| Box::pin(search::search(server, call)),
    ),
    Route::new(
        Method::POST,
        "/api/search",
        Access::Token,
        UPLOAD_PARAMETERS,
        |server, call| Box::pin(upload::search(server, call)),
    ),
    Route::new(
        Method::GET,
        "/api/export",
        Access::Token,
        EXPORT_PARAMETERS,
        |server, call| Box::pin(export::export(server, call)),
    ),
    Route::new(
        Method::GET,
        "/api/files/{id}",
        Access::Token,
        &[],
        |server, call| Box::pin(library::file(server, call)),
    ),
    Route::new(
        Method::GET,
        "/api/files/{id}/audio",
        Access::Token,
        audio::PARAMETERS,
        |server, call| Box::pin(audio::audio(server, call, true)),
    ),
    Route {
        method: Method::HEAD,
        path: "/api/files/{id}/audio",
        access: Access::Token,
        parameters: Some(audio::PARAMETERS),
        handler: |server, call| Box::pin(audio::audio(server, call, false)),
    },
    Route::new(Method::POST, "/api/login", Access::Open, &[], |server, call| {
        Box::pin(library::login(server, call))
    }),
];

impl Route {
    const fn new(
        method: Method,
        path: &'static str,
        access: Access,
        parameters: &'static [&'static str],
        handler: fn(Arc<Server>, Call) -> Answer,
    ) -> Self {
        Self {
            method,
            path,
            access,
            parameters: Some(parameters),
            handler,
        }
    }

    fn filter(&self) -> MethodFilter {
        match self.method {
            Method::POST => MethodFilter::POST,
            Method::HEAD => MethodFilter::HEAD,
            _ => MethodFilter::GET,
        }
    }
}

/// By which route a request was answered: for the metrics.
#[derive(Clone, Copy)]
pub(crate) struct Label(pub(crate) &'static str);

/// The table as a router.
pub(crate) fn router(server: &Arc<Server>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let server = Arc::clone(server);
        let handler = move |path: Result<RawPathParams, _>, request: Request| {
            let id = path.map(|path| path.iter().next().map(|(_, value)| value.to_owned()));
            let server = Arc::clone(&server);
            async move {
                let answered = match id {
                    Ok(id) => answer(server, route, id.unwrap_or_default(), request).await,
                    Err(_) => Err(ApiError::bad("the path is not UTF-8")),
                };
                let mut response = answered.unwrap_or_else(ApiError::response);
                response.extensions_mut().insert(Label(route.path));
                response
            }
        };
        router = router.route(route.path, on(route.filter(), handler));
    }
    router
        .fallback(async || {
            ApiError::missing("no such page; the API is described at /openapi.json").response()
        })
        .method_not_allowed_fallback(async || {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method not allowed; the `Allow` header lists the methods of this path",
            )
            .response()
        })
}

async fn answer(
    server: Arc<Server>,
    route: &'static Route,
    id: String,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    if route.access == Access::Token {
        auth::check_token(&server, &parts.headers).await?;
    }
    let parameters = match route.parameters {
        Some(known) => Parameters::parse(parts.uri.query(), known)?,
        None => Parameters::default(),
    };
    let headers = parts.headers;
    let call = Call {
        headers,
        parameters,
        id,
        body,
    };
    (route.handler)(server, call).await
}

/// An answer in JSON. It may be about one's own library, so that nobody on the way keeps it.
pub(crate) fn json(value: &impl Serialize) -> Result<Response<Body>, ApiError> {
    let text = serde_json::to_vec(value).map_err(|_| {
        let message = "cannot encode the response";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    })?;
    Ok(content(Body::from(text), "application/json"))
}

/// An answer of some type that nobody keeps.
pub(crate) fn content(body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The table and the description list the same routes, with the same parameters, open to the same people.
    #[test]
    fn the_description_is_of_this_table() {
        let document: serde_json::Value = serde_json::from_str(crate::page::OPENAPI).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let parameters: BTreeSet<String> = parameters
                    .map(|p| {
                        document
                            .pointer(p["$ref"].as_str().unwrap().trim_start_matches('#'))
                            .unwrap()
                    })
                    .filter(|p| p["in"] == "query")
                    .map(|p| p["name"].as_str().unwrap().to_owned())
                    .collect();
                let open = operation["security"] == serde_json::json!([]);
                described.insert((path.clone(), method.to_uppercase(), parameters, open));
            }
        }
        let table: BTreeSet<_> = ROUTES
            .iter()
            .map(|route| {
                let parameters = route
                    .parameters
                    .unwrap_or_default()
                    .iter()
                    .map(|p| (*p).to_owned())
                    .collect();
                let open = route.access == Access::Open;
                (route.path.to_owned(), route.method.to_string(), parameters, open)
            })
            .collect();
        assert_eq!(table.len(), ROUTES.len(), "a route is there twice");
        assert_eq!(described, table);
    }

    #[test]
    fn numbers_of_files() {
        let file = |id: &str| {
            let call = Call {
                headers: HeaderMap::new(),
                parameters: Parameters::default(),
                id: id.to_owned(),
                body: Body::empty(),
            };
            call.file().map_err(|refusal| refusal.status.as_u16())
        };
        assert_eq!(file("12"), Ok(12));
        assert_eq!(file("-1"), Ok(-1));
        assert_eq!(file("99999999999999999999999"), Err(404));
        for text in ["", "-", "1.0", "1e3", "+1", " 1", "1\0", "..", "../1", "x", "١"] {
            assert_eq!(file(text), Err(400), "{text}");
        }
    }
}
