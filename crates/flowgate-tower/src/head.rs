use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, Version};

/// What a request says before its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// `GET`, `POST` …
    pub method: &'a Method,
    /// What it is for.
    pub uri: &'a Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// What the server, and layers before this one, have put there.
    pub extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    /// That of `request`.
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

/// What a response says before its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// What the service has put there.
    pub extensions: &'a Extensions,
}

impl<'a> ResponseHead<'a> {
    /// That of `response`.
    pub fn of<B>(response: &'a Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }
}
