//! What the tests of the layer have in common.

use bytes::Bytes;
use flowgate_tower::LimitBody;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tower::Service;

pub type Answer = Response<LimitBody<Full<Bytes>>>;

/// A service that says "done", and puts the request's path into `x-path`.
pub fn done()
-> impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone
{
    tower::service_fn(|request: Request<()>| async move {
        let response = Response::builder().header("x-path", request.uri().path());
        Ok(response.body(Full::from("done")).expect("a response"))
    })
}

pub fn get(path: &str) -> Request<()> {
    Request::builder().uri(path).body(()).expect("a request")
}

pub fn from_tenant(tenant: &str) -> Request<()> {
    let request = Request::builder().header("x-tenant", tenant);
    request.body(()).expect("a request")
}

pub fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls a service that answers without a wait.
#[track_caller]
pub fn call<S, B>(service: &mut S, request: Request<B>) -> S::Response
where
    S: Service<Request<B>, Error = Infallible>,
{
    let future = std::pin::pin!(service.call(request));
    match poll(future) {
        Poll::Ready(Ok(answer)) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// All of a body that is there.
pub fn text<B>(response: Response<B>) -> String
where
    B: Body<Data = Bytes, Error = Infallible>,
{
    let mut body = std::pin::pin!(response.into_body());
    let mut text = Vec::new();
    loop {
        let frame = body
            .as_mut()
            .poll_frame(&mut Context::from_waker(Waker::noop()));
        match frame {
            Poll::Ready(Some(Ok(frame))) => text.extend(frame.into_data().unwrap_or_default()),
            Poll::Ready(None) => return String::from_utf8(text).expect("text"),
            Poll::Pending => panic!("the body is not there"),
        }
    }
}

/// The value of a field; empty if it is not there.
pub fn field<'a, B>(response: &'a Response<B>, name: &str) -> &'a str {
    let value = response.headers().get(name);
    value.map_or("", |value| value.to_str().expect("text"))
}
