//! Serves the page and the description of the API, which are compiled into the program.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderValue, Response, StatusCode};
use hark_catalogue::fnv1a;

use crate::range::known;
use crate::routes::Call;

/// The page may load its own files, recordings, and a recording that its user drops onto it (`blob:`). Inline scripts and styles
/// are forbidden, so that a file name or caption cannot become one.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     media-src 'self' blob:; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";

/// The description of the API in OpenAPI's format.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");

pub(crate) fn html(call: &Call) -> Response<Body> {
    asset(call, include_str!("page/page.html"), "text/html; charset=utf-8")
}

pub(crate) fn css(call: &Call) -> Response<Body> {
    asset(call, include_str!("page/page.css"), "text/css; charset=utf-8")
}

pub(crate) fn js(call: &Call) -> Response<Body> {
    asset(
        call,
        include_str!("page/page.js"),
        "text/javascript; charset=utf-8",
    )
}

pub(crate) fn icon(call: &Call) -> Response<Body> {
    asset(call, include_str!("page/icon.svg"), "image/svg+xml")
}

pub(crate) fn openapi(call: &Call) -> Response<Body> {
    asset(call, OPENAPI, "application/json")
}

fn asset(call: &Call, text: &'static str, kind: &'static str) -> Response<Body> {
    let tag = format!("\"{:016x}\"", fnv1a(text.as_bytes()));
    let mut response = if known(call.header(&IF_NONE_MATCH), &tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let mut response = Response::new(Body::from(text));
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    /// The policy forbids inline scripts and styles, so the page would not work with them.
    #[test]
    fn the_page_has_no_scripts_or_styles_in_its_text() {
        let html = include_str!("page/page.html");
        let lower = html.to_ascii_lowercase();
        for script in lower.split("<script").skip(1) {
            let (attributes, rest) = script.split_once('>').unwrap();
            assert!(attributes.contains("src="), "<script{attributes}>");
            assert!(rest.trim_start().starts_with("</script>"), "<script{attributes}>");
        }
        assert!(!lower.contains("<style"));
        assert!(!lower.contains(" style="));
        assert!(!lower.contains(" onclick="));
        assert!(!lower.contains("javascript:"));
    }
}
