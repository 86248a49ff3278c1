//! The door of RESP: clients of Redis.

mod codec;
mod commands;

use crate::bounds::{MAX_MESSAGE, MAX_UNREAD};
use crate::http::Site;
use crate::limits::DecideLimits;
use crate::throttle::LastQuota;
use crate::token::Token;
use crate::trace::Tracer;
use codec::{Parsed, Replies, parse};
use commands::{Session, Then};
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, debug_span};

/// Commands that have arrived, and their answers. It knows no socket.
#[derive(Debug)]
pub(crate) struct Talk {
    session: Session,
    received: Vec<u8>,
    words: Vec<Range<usize>>,
    replies: Replies,
    /// Of `CL.THROTTLE`.
    last: LastQuota,
    /// When the first byte of an incomplete command was seen.
    begun: Option<Instant>,
}

/// What comes after the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Answers are full: write them, and go on.
    Write,
    /// A command has begun.
    Rest,
    /// Nothing has been received that is not answered.
    Command,
    Close,
}

impl Talk {
    pub(crate) fn new(id: u64, password: Option<&Token>) -> Self {
        Self {
            session: Session::new(id, password),
            received: Vec::new(),
            words: Vec::new(),
            replies: Replies::new(),
            last: LastQuota::default(),
            begun: None,
        }
    }

    /// Answers commands that are complete.
    async fn answer(
        &mut self,
        limits: &DecideLimits,
        password: Option<&Token>,
        tracer: Option<&Tracer>,
    ) -> Next {
        const MOST: usize = 64;
        let mut begin = 0;
        // Once for all commands that have arrived.
        let mut words: [&[u8]; MOST + 1] = [&[]; MOST + 1];
        let next = loop {
            if self.replies.bytes.len() > MAX_UNREAD {
                break Next::Write;
            }
            let input = &self.received[begin..];
            match parse(input, &mut self.words) {
                Parsed::Incomplete if input.is_empty() => break Next::Command,
                Parsed::Incomplete => break Next::Rest,
                Parsed::Broken(why) => {
                    self.replies.error(&format!("ERR Protocol error: {why}"));
                    break Next::Close;
                }
                Parsed::Command(length) => {
                    for (word, place) in words.iter_mut().zip(&self.words) {
                        *word = &input[place.clone()];
                    }
                    let words = &words[..self.words.len()];
                    begin += length;
                    let (session, last, replies) =
                        (&mut self.session, &mut self.last, &mut self.replies);
                    let span = debug_span!("request", door = "resp");
                    match span.in_scope(|| session.answer(words, limits, password, replies)) {
                        Then::Continue => {}
                        Then::Close => break Next::Close,
                        Then::Throttle => {
                            let mut traced = commands::trace(tracer, "CL.THROTTLE");
                            span.in_scope(|| {
                                commands::throttle(words, limits, last, replies, &mut traced);
                            });
                        }
                        Then::Ask => {
                            let mut traced = commands::trace(tracer, "FG.ASK");
                            let answer = commands::ask(words, limits, replies, &mut traced);
                            answer.instrument(span).await;
                        }
                    }
                }
            }
        };
        if begin > 0 {
            self.received.drain(..begin);
            self.begun = None;
        }
        next
    }
}

/// Answers a stream that arrives in `pieces`, for tests and fuzzing.
#[doc(hidden)]
pub fn resp_answers<'a>(
    limits: &DecideLimits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut talk = Talk::new(1, None);
    let mut answers = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    for piece in pieces {
        talk.received.extend_from_slice(piece);
        loop {
            let next = match pin!(talk.answer(limits, None, None)).poll(&mut context) {
                Poll::Ready(next) => next,
                Poll::Pending => panic!("limits in memory are decided immediately"),
            };
            answers.append(&mut talk.replies.bytes);
            match next {
                Next::Write => {}
                Next::Close => return answers,
                Next::Rest | Next::Command => break,
            }
        }
    }
    answers
}

/// Answers a client until it leaves, does something wrong, or `is_ending` completes between two commands.
pub(crate) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut talk: Talk,
    site: &Site,
    ending: impl Future<Output = ()>,
) -> io::Result<()> {
    let (bounds, password) = (&site.bounds, site.token.as_ref());
    let tracer = site.tracer.as_ref();
    let mut ending = pin!(ending);
    loop {
        let next = talk.answer(&site.limits(), password, tracer).await;
        if !talk.replies.bytes.is_empty() {
            let until = Instant::now() + bounds.command_time;
            timeout_at(until, stream.write_all(&talk.replies.bytes)).await??;
            talk.replies.bytes.clear();
        }
        let until = match next {
            Next::Close => return stream.shutdown().await,
            Next::Write => continue,
            Next::Rest => *talk.begun.get_or_insert_with(Instant::now) + bounds.command_time,
            Next::Command => {
                // What one large command needed is given back.
                if talk.received.capacity() > MAX_MESSAGE / 4 {
                    talk.received.shrink_to(4096);
                }
                Instant::now() + bounds.idle_time
            }
        };
        talk.received.reserve(16 << 10);
        let read = timeout_at(until, stream.read_buf(&mut talk.received));
        let length = tokio::select! {
            biased;
            length = read => length??,
            () = &mut ending, if next == Next::Command => return stream.shutdown().await,
        };
        if length == 0 {
            return Ok(());
        }
    }
}
