//! The door for operators: metrics, probes, the configuration that is used, and the limits.

use super::{Reply, Site, Wrong, limits, not_allowed, problem, text, with_body};
use crate::counts::page;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::task::spawn_blocking;

/// The text format of Prometheus.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");

impl Site {
    /// Answers an operator, who is on this machine, or not.
    pub(crate) async fn administer(self: &Arc<Self>, is_near: bool, head: &Parts) -> Reply {
        let answer = match (&head.method, head.uri.path()) {
            (&Method::GET | &Method::HEAD, _) => self.show(head).await,
            // Not POST, which a page of any site may send in the browser of an operator.
            (&Method::DELETE, "/limits") => self.reset(is_near, head),
            (_, "/limits") => Err(not_allowed("GET, DELETE")),
            _ => Err(not_allowed("GET")),
        };
        answer.unwrap_or_else(Wrong::reply)
    }

    async fn show(self: &Arc<Self>, head: &Parts) -> Result<Reply, Wrong> {
        match head.uri.path() {
            "/healthz" => Ok(text(StatusCode::OK, "ok\n")),
            "/readyz" => Ok(self.readiness()),
            "/metrics" => {
                self.check(head)?;
                let make = |site: &Self| page(&site.limits(), &site.counts);
                let page = self.make(make).await?;
                Ok(with_body(StatusCode::OK, METRICS, page.into()))
            }
            "/limits" => {
                self.check(head)?;
                let wanted = limits::Wanted::parse(head.uri.query().unwrap_or_default())?;
                self.make(move |site| limits::show(&site.limits(), &wanted))
                    .await?
            }
            "/config" => {
                self.check(head)?;
                let config = self.limits().config().to_yaml();
                Ok(with_body(StatusCode::OK, YAML, config.into()))
            }
            _ => Err(problem(
                StatusCode::NOT_FOUND,
                "no such path: write /metrics, /config, /limits, /healthz or /readyz",
            )),
        }
    }

    /// Makes a page beside the threads that decide, because it may read every entry of the tables.
    async fn make<T: Send + 'static>(
        self: &Arc<Self>,
        make: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Wrong> {
        // Many pages that are asked for together are made one after the other.
        let _one_at_a_time = self.page.lock().await;
        let site = Arc::clone(self);
        let page = spawn_blocking(move || make(&site)).await;
        page.map_err(|_| problem(StatusCode::SERVICE_UNAVAILABLE, "the server ends"))
    }

    /// Sets a key back to full, for an operator who has the token, or is on this machine.
    fn reset(&self, is_near: bool, head: &Parts) -> Result<Reply, Wrong> {
        self.check(head)?;
        if self.token.is_none() && !is_near {
            let what = "from another machine, a reset needs the token of --secret-file";
            return Err(problem(StatusCode::FORBIDDEN, what));
        }
        let wanted = limits::Wanted::parse(head.uri.query().unwrap_or_default())?;
        limits::reset(&self.limits(), &wanted)
    }

    /// Whether new requests should be sent here. A configuration is loaded before there is a listener.
    pub(super) fn readiness(&self) -> Reply {
        match self.is_ending.load(Relaxed) {
            false => text(StatusCode::OK, "ok\n"),
            true => text(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::ServerCounts;
    use crate::reload::Current;
    use crate::token::Token;
    use crate::{Config, DecideLimits, DecisionTime, ServerBounds};
    use hyper::Request;
    use hyper::header::AUTHORIZATION;
    use std::sync::atomic::AtomicBool;
    use tokio::runtime::Builder;

    /// A door of operators in a network is open to metrics without a token, and then to nothing that changes a limit.
    #[test]
    fn another_machine_sets_nothing_back_without_the_token() {
        let text = "{domain: api, descriptors: [{key: user, quota: 3/day, capacity: 100}]}";
        let config = Config::parse("a.yaml", text).unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        let status = |token: Option<&str>, is_near: bool| {
            let limits = DecideLimits::new(&config, &DecisionTime::system()).unwrap();
            let site = Arc::new(Site {
                current: Arc::new(Current::new(limits)),
                token: token.map(Token::new),
                bounds: ServerBounds::default(),
                counts: Arc::new(ServerCounts::new()),
                other: None,
                tracer: None,
                page: tokio::sync::Mutex::default(),
                is_ending: AtomicBool::new(false),
            });
            let request = Request::delete("/limits?limit=api.user&key=a");
            let request = request.header(AUTHORIZATION, "Bearer s3cret").body(());
            let (head, ()) = request.unwrap().into_parts();
            let reply = runtime.block_on(site.administer(is_near, &head));
            reply.status().as_u16()
        };
        assert_eq!([status(None, true), status(None, false)], [200, 403]);
        let token = Some("s3cret");
        assert_eq!([status(token, true), status(token, false)], [200, 200]);
        assert_eq!(status(Some("another"), true), 401);
    }
}
