//! The door for operators: metrics, probes, and the configuration that is used.

use super::{Reply, Site, Wrong, not_allowed, problem, text, with_body};
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
    /// Answers an operator.
    pub(crate) async fn administer(self: &Arc<Self>, head: &Parts) -> Reply {
        let answer = match head.method {
            Method::GET | Method::HEAD => self.show(head).await,
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
                // Many pages that are asked for together are made one after the other.
                let _one_at_a_time = self.page.lock().await;
                let site = Arc::clone(self);
                let page = spawn_blocking(move || page(&site.limits(), &site.counts));
                let page = page
                    .await
                    .map_err(|_| problem(StatusCode::SERVICE_UNAVAILABLE, "the server ends"))?;
                Ok(with_body(StatusCode::OK, METRICS, page.into()))
            }
            "/config" => {
                self.check(head)?;
                let config = self.limits().config().to_yaml();
                Ok(with_body(StatusCode::OK, YAML, config.into()))
            }
            _ => Err(problem(
                StatusCode::NOT_FOUND,
                "no such path: write /metrics, /config, /healthz or /readyz",
            )),
        }
    }

    /// Whether new requests should be sent here. A configuration is loaded before there is a listener.
    pub(super) fn readiness(&self) -> Reply {
        match self.is_ending.load(Relaxed) {
            false => text(StatusCode::OK, "ok\n"),
            true => text(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n"),
        }
    }
}
