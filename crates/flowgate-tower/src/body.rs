use crate::limits::Permit;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pin_project! {
    /// The body of a limited service's response.
    ///
    /// It is the body of the service, or that of a rejection. It holds the request's concurrency permits until it ends,
    /// fails, or is dropped.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{LimitBody, LimitLayer};
    /// use http::{Request, Response};
    /// use http_body_util::BodyExt;
    /// use std::sync::Arc;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new("hello".to_owned())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limit = Arc::new(ConcurrencyLimit::new(20));
    /// let service = LimitLayer::new(Arc::clone(&limit)).layer(service_fn(answer));
    /// let response: Response<LimitBody<String>> = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(limit.in_flight(), 1); // its body has still to be read
    ///
    /// assert_eq!(response.into_body().collect().await?.to_bytes(), "hello");
    /// assert_eq!(limit.in_flight(), 0);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub struct LimitBody<B> {
        #[pin]
        from: From<B>,
        permit: Option<Permit>,
    }
}

pin_project! {
    #[project = FromProjection]
    enum From<B> {
        Service { #[pin] body: B },
        Rejection { text: Option<Bytes> },
    }
}

impl<B: Body> LimitBody<B> {
    pub(crate) fn new(body: B, mut permit: Option<Permit>) -> Self {
        // A body that has ended already may never be polled.
        if permit.is_some() && body.is_end_stream() {
            end(&mut permit);
        }
        Self {
            from: From::Service { body },
            permit,
        }
    }
}

/// The response has ended as it should. Not inlined, as most responses hold nothing.
#[inline(never)]
fn end(permit: &mut Option<Permit>) {
    if let Some(permit) = permit.take() {
        permit.end();
    }
}

impl<B> LimitBody<B> {
    pub(crate) fn rejection(text: Bytes) -> Self {
        Self {
            from: From::Rejection {
                text: Some(text).filter(|text| !text.is_empty()),
            },
            permit: None,
        }
    }
}

impl<B> Body for LimitBody<B>
where
    B: Body<Data: std::convert::From<Bytes>>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match this.from.project() {
            FromProjection::Service { mut body } => {
                let frame = ready!(body.as_mut().poll_frame(context));
                let Some(permit) = this.permit else {
                    return Poll::Ready(frame);
                };
                match &frame {
                    // After its last frame, a body may never be polled again.
                    Some(Ok(frame)) => {
                        if permit.note_frame(frame) || body.is_end_stream() {
                            end(this.permit);
                        }
                    }
                    Some(Err(_)) => *this.permit = None,
                    None => end(this.permit),
                }
                Poll::Ready(frame)
            }
            FromProjection::Rejection { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Service { body } => body.is_end_stream(),
            From::Rejection { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Service { body } => body.size_hint(),
            From::Rejection { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64)
            }
        }
    }
}

impl<B> fmt::Debug for LimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitBody")
            .field("permit", &self.permit)
            .finish_non_exhaustive()
    }
}
