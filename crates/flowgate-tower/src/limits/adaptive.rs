//! A permit of an adaptive limit, and what is known of its call.

use crate::ResponseHead;
use crate::call_outcome::OutcomeOf;
use crate::grpc;
use flowgate::{Adapt, CallOutcome, OwnedAdaptivePermit};
use http::header::CONTENT_LENGTH;
use http::{Extensions, StatusCode};
use http_body::Frame;
use std::fmt;
use std::sync::Arc;

/// A call under an adaptive limit. One that is dropped before its [end](Self::end) is ignored.
pub struct Call {
    permit: OwnedAdaptivePermit<dyn Adapt>,
    /// The outcome, if the response ends as it should.
    outcome: CallOutcome,
    /// The rule for the trailers of a gRPC response, which have its status.
    of_trailers: Option<Arc<OutcomeOf>>,
    /// How many bytes of the body are still to come; `u64::MAX` if that is not known.
    left: u64,
}

impl Call {
    pub fn new(permit: OwnedAdaptivePermit<dyn Adapt>) -> Self {
        Self {
            permit,
            outcome: CallOutcome::Ignore,
            of_trailers: None,
            left: u64::MAX,
        }
    }

    /// Notes the head of the response; `None` is an error.
    pub fn note_head(&mut self, outcome_of: &Arc<OutcomeOf>, answer: Option<ResponseHead<'_>>) {
        self.outcome = outcome_of(answer);
        if let Some(head) = answer {
            let has_trailers = grpc::content_type(head.headers).is_some();
            self.of_trailers = has_trailers.then(|| Arc::clone(outcome_of));
            let length = head.headers.get(CONTENT_LENGTH);
            let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
            self.left = length.unwrap_or(u64::MAX);
        }
    }

    /// Notes a frame of the response's body. Returns whether it is the last one by the response's `Content-Length`: a server
    /// asks for no more then.
    pub fn note_frame(&mut self, frame: &Frame<impl bytes::Buf>) -> bool {
        if let Some(data) = frame.data_ref() {
            if self.left < u64::MAX {
                self.left = self.left.saturating_sub(data.remaining() as u64);
            }
        } else if let (Some(trailers), Some(of_trailers)) =
            (frame.trailers_ref(), &self.of_trailers)
            && trailers.contains_key(grpc::GRPC_STATUS)
        {
            self.outcome = of_trailers(Some(ResponseHead {
                status: StatusCode::OK,
                headers: trailers,
                extensions: &Extensions::new(),
            }));
        }
        self.left == 0
    }

    /// The call has ended as it should.
    pub fn end(self) {
        self.permit.finish(self.outcome);
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("permit", &self.permit)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
