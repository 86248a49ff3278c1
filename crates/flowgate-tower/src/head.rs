use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, Version};

/// The head of a request: everything before its body.
///
/// ```
/// use flowgate::TokenBucket;
/// use flowgate_tower::{LimitLayer, RequestHead};
/// use http::Method;
///
/// /// What is read costs one, what is written ten.
/// fn cost(request: &RequestHead<'_>) -> u64 {
///     if request.method == Method::GET { 1 } else { 10 }
/// }
///
/// let layer = LimitLayer::new(TokenBucket::new("1000/s".parse()?)).cost(cost);
/// assert_eq!(cost(&RequestHead::of(&http::Request::post("/orders").body("…")?)), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// `GET`, `POST` …
    pub method: &'a Method,
    /// The URI of the request.
    pub uri: &'a Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// Values that the server, and earlier layers, have put there.
    pub extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    /// Returns the head of `request`.
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

/// The head of a response: everything before its body.
///
/// ```
/// use flowgate::TokenBucket;
/// use flowgate_tower::{LimitLayer, ResponseHead};
///
/// /// What is answered from the cache is for free.
/// fn cost(taken: u64, response: ResponseHead<'_>) -> u64 {
///     if response.headers.contains_key("age") { 0 } else { taken }
/// }
///
/// let layer = LimitLayer::new(TokenBucket::new("100/s".parse()?)).settle_by_response(cost);
/// assert_eq!(cost(1, ResponseHead::of(&http::Response::builder().header("age", "7").body(())?)), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// Values that the service has put there.
    pub extensions: &'a Extensions,
}

impl<'a> ResponseHead<'a> {
    /// Returns the head of `response`.
    pub fn of<B>(response: &'a Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }
}
