//! What a run is asked to do.

use std::num::NonZeroUsize;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};

use crate::schedule::Schedule;
use crate::target::Target;

/// The most connections that one run may hold open.
pub const MAX_CONNECTIONS: usize = 20_000;

/// Everything that [`run`](crate::run) needs to know.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where requests go.
    pub target: Target,
    /// Whether `target` is this process's own [`Origin`](crate::Origin); only the report mentions
    /// it.
    pub own_origin: bool,
    /// When each request is due.
    pub schedule: Schedule,
    /// What each request says.
    pub template: Template,
    /// The most connections held open at once; all are opened before the first request is due, but
    /// never more than there are requests. Default 50; more than [`MAX_CONNECTIONS`] means that
    /// many.
    pub connections: NonZeroUsize,
    /// How long a request may take, from being handed to a connection to the last byte of its
    /// answer. Also the limit for resolving the host and for opening the first connections. Default
    /// 10 s.
    pub timeout: Duration,
}

impl Plan {
    /// A plan with the defaults: `GET`, 50 connections, a time limit of 10 s.
    pub fn new(target: Target, schedule: Schedule) -> Plan {
        Plan {
            target,
            own_origin: false,
            schedule,
            template: Template::default(),
            connections: const { NonZeroUsize::new(50).unwrap() },
            timeout: Duration::from_secs(10),
        }
    }
}

/// The request that is sent over and over.
#[derive(Clone, Debug)]
pub struct Template {
    /// The method; `GET` by default.
    pub method: Method,
    /// Further headers. One that is named here replaces the default of the same name (`host`,
    /// `user-agent`, `accept`).
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body; its length is sent along when it is not empty.
    pub body: Bytes,
}

impl Default for Template {
    fn default() -> Template {
        Template {
            method: Method::GET,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }
}

impl Template {
    /// The request in the form in which every connection sends it.
    pub(crate) fn to_request(&self, target: &Target) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(target.path().clone());
        *request.headers_mut() = self.headers(target);
        request
    }

    fn headers(&self, target: &Target) -> HeaderMap {
        let mut headers = HeaderMap::new();
        // An authority is made of characters that a header may hold.
        if let Ok(host) = HeaderValue::from_str(target.authority()) {
            headers.insert(HOST, host);
        }
        let agent = HeaderValue::from_static(concat!("flowgate/", env!("CARGO_PKG_VERSION")));
        headers.insert(USER_AGENT, agent);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        for (name, _) in &self.headers {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        headers
    }
}
