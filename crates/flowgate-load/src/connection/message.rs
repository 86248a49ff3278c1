//! A request as every connection needs it, built once.

use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::{Method, Request};

/// A request that is sent repeatedly: as parts for HTTP/2, and as bytes for HTTP/1.1.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    request: Request<Bytes>,
    bytes: Bytes,
}

impl Message {
    /// Builds a message. The request names a path, and its host in a `Host` header.
    ///
    /// The length of the body is added if it is missing. HTTP/2 omits headers that only HTTP/1.1 has.
    pub(crate) fn new(request: Request<Bytes>) -> Message {
        let body = request.body();
        let mut bytes = Vec::with_capacity(256 + body.len());
        let mut put = |part: &[u8]| bytes.extend_from_slice(part);
        put(request.method().as_str().as_bytes());
        put(b" ");
        put(request.uri().to_string().as_bytes());
        put(b" HTTP/1.1\r\n");
        let headers = request.headers();
        for (name, value) in headers {
            put(name.as_str().as_bytes());
            put(b": ");
            put(value.as_bytes());
            put(b"\r\n");
        }
        let is_told =
            headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
        let is_expected = matches!(
            *request.method(),
            Method::POST | Method::PUT | Method::PATCH
        );
        if !is_told && (is_expected || !body.is_empty()) {
            put(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        put(b"\r\n");
        put(body);
        Message {
            bytes: bytes.into(),
            request,
        }
    }

    pub(crate) fn request(&self) -> &Request<Bytes> {
        &self.request
    }

    /// Returns the whole request, head and body.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether the response has no body because the method is `HEAD`.
    pub(super) fn wants_a_head(&self) -> bool {
        self.request.method() == Method::HEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(method: &str, headers: &[(&str, &str)], body: &'static str) -> String {
        let mut request = Request::builder().method(method).uri("/a?b=c");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let message = Message::new(request.body(body.into()).unwrap());
        String::from_utf8(message.bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_request_is_written_as_rfc_9112_has_it() {
        assert_eq!(
            bytes("GET", &[("host", "x:1"), ("accept", "*/*")], ""),
            "GET /a?b=c HTTP/1.1\r\nhost: x:1\r\naccept: */*\r\n\r\n"
        );
        assert_eq!(
            bytes("POST", &[], "body"),
            "POST /a?b=c HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody"
        );
        assert_eq!(
            bytes("PUT", &[], ""),
            "PUT /a?b=c HTTP/1.1\r\ncontent-length: 0\r\n\r\n"
        );
        assert_eq!(
            bytes("DELETE", &[("content-length", "9")], "body"),
            "DELETE /a?b=c HTTP/1.1\r\ncontent-length: 9\r\n\r\nbody"
        );
    }
}
