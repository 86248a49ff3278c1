//! The times of a connection of HTTP: how long a head may take, and how long nothing.

use crate::bounds::{MAX_BODIES, ServerBounds};
use hyper::body::{Body, Frame, SizeHint};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// What a connection is doing, as its stream and its requests know it.
#[derive(Debug)]
pub(crate) struct Activity {
    begun: AtomicUsize,
    answered: AtomicUsize,
    received: AtomicUsize,
    is_http2: AtomicBool,
    /// A body did not arrive in time.
    has_late_body: AtomicBool,
    /// Bytes of bodies that may be received together.
    pub(crate) bodies: Semaphore,
}

/// A request that is being answered, until it is dropped.
pub(crate) struct Request(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            has_late_body: AtomicBool::new(false),
            bodies: Semaphore::new(MAX_BODIES),
        })
    }

    pub(super) fn note_late_body(&self) {
        self.has_late_body.store(true, Relaxed);
    }

    pub(crate) fn has_late_body(&self) -> bool {
        self.has_late_body.load(Relaxed)
    }

    /// Begins a request.
    pub(crate) fn request(self: &Arc<Self>) -> Request {
        self.begun.fetch_add(1, Relaxed);
        Request(Arc::clone(self))
    }
}

impl Request {
    pub(crate) fn activity(&self) -> &Activity {
        &self.0
    }

    /// Returns the answer's body. The request ends with it.
    pub(crate) fn until_sent<B>(self, body: B) -> Sending<B> {
        Sending {
            body,
            _request: self,
        }
    }
}

/// A body of an answer, and the request that it ends.
pub(crate) struct Sending<B> {
    body: B,
    _request: Request,
}

impl<B: Body + Unpin> Body for Sending<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Relaxed);
    }
}

/// What a client is too late with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// A head has begun, and is not complete.
    Head,
    /// No request has begun.
    Request,
}

/// Finds clients that are slow or silent. It is polled after the connection, in the same task.
///
/// HTTP/2 has no time for heads, because its client has to answer a PING, which it cannot do in the middle of a frame.
pub(crate) struct Watch {
    activity: Arc<Activity>,
    head_time: Duration,
    idle_time: Duration,
    doing: Doing,
    answered: usize,
    received: usize,
    /// It may be earlier than the client is late, and never later.
    alarm: Pin<Box<Sleep>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// No request has begun since then.
    Idle(Instant),
    /// A head has begun then.
    Head(Instant),
    /// A request is being answered.
    Busy,
}

impl Watch {
    pub(crate) fn new(activity: &Arc<Activity>, bounds: &ServerBounds) -> Self {
        let now = Instant::now();
        Self {
            activity: Arc::clone(activity),
            head_time: bounds.head_time,
            idle_time: bounds.idle_time,
            doing: Doing::Idle(now),
            answered: 0,
            received: 0,
            alarm: Box::pin(sleep_until(now + bounds.idle_time)),
        }
    }

    /// Waits until the client is late.
    pub(crate) async fn late(&mut self) -> Late {
        poll_fn(|context| self.poll_late(context)).await
    }

    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Late> {
        self.notice();
        loop {
            let (until, late) = match self.doing {
                Doing::Idle(since) => (since + self.idle_time, Late::Request),
                Doing::Head(since) => (since + self.head_time, Late::Head),
                // The end of the request is noticed earlier.
                Doing::Busy => (Instant::now() + self.idle_time, Late::Request),
            };
            // An alarm that is too early is left alone, so that a request changes no timer.
            if self.alarm.deadline() > until {
                self.alarm.as_mut().reset(until);
            }
            if self.alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= until {
                return Poll::Ready(late);
            }
            self.alarm.as_mut().reset(until);
        }
    }

    /// Takes notice of what has happened since the last look.
    fn notice(&mut self) {
        let answered = self.activity.answered.load(Relaxed);
        let received = self.activity.received.load(Relaxed);
        if self.activity.begun.load(Relaxed) != answered {
            self.doing = Doing::Busy;
        } else if answered != self.answered || self.doing == Doing::Busy {
            self.doing = Doing::Idle(Instant::now());
        } else if received != self.received
            && let Doing::Idle(_) = self.doing
            && !self.activity.is_http2.load(Relaxed)
        {
            self.doing = Doing::Head(Instant::now());
        }
        (self.answered, self.received) = (answered, received);
    }
}

/// A stream whose client reads its answers, or it ends.
#[derive(Debug)]
pub(crate) struct Timed<S> {
    stream: S,
    activity: Arc<Activity>,
    write_time: Duration,
    /// The first bytes, and how many there are.
    first: ([u8; 3], usize),
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(crate) fn new(stream: S, activity: &Arc<Activity>, bounds: &ServerBounds) -> Self {
        Self {
            stream,
            activity: Arc::clone(activity),
            write_time: bounds.command_time,
            first: ([0; 3], 0),
            until: None,
        }
    }

    fn received(&mut self, bytes: &[u8]) {
        self.activity.received.fetch_add(bytes.len(), Relaxed);
        let (first, count) = &mut self.first;
        if *count == first.len() {
            return;
        }
        for (place, byte) in first[*count..].iter_mut().zip(bytes) {
            *place = *byte;
            *count += 1;
        }
        // `PRI * HTTP/2.0`; no method begins so.
        self.activity.is_http2.store(first == b"PRI", Relaxed);
    }

    fn poll_read_by<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let time = self.write_time;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(time)));
        until
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.received(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.poll_read_by(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.poll_read_by(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.poll_read_by(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.poll_read_by(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, Late, Timed, Watch};
    use crate::bounds::ServerBounds;
    use std::io::ErrorKind::TimedOut;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep, timeout};

    const BOUNDS: ServerBounds = ServerBounds {
        head_time: Duration::from_secs(5),
        idle_time: Duration::from_secs(300),
        command_time: Duration::from_secs(10),
        connections: 1,
        connections_per_address: 1,
        operators: 1,
        drain_time: Duration::ZERO,
    };

    struct Connection {
        client: DuplexStream,
        timed: Timed<DuplexStream>,
        watch: Watch,
        activity: Arc<Activity>,
    }

    impl Connection {
        fn new() -> Self {
            let (client, server) = duplex(64);
            let activity = Activity::new();
            Self {
                client,
                timed: Timed::new(server, &activity, &BOUNDS),
                watch: Watch::new(&activity, &BOUNDS),
                activity,
            }
        }

        /// Sends, and lets the server read it.
        async fn send(&mut self, bytes: &[u8]) {
            self.client.write_all(bytes).await.unwrap();
            self.timed
                .read_exact(&mut vec![0; bytes.len()])
                .await
                .unwrap();
        }

        /// Lets this many seconds pass. Returns what the client was late with, and after how many.
        async fn pass(&mut self, seconds: u64) -> Option<(Late, u64)> {
            let begun = Instant::now();
            let time = Duration::from_secs(seconds);
            let late = timeout(time, self.watch.late()).await.ok()?;
            Some((late, begun.elapsed().as_secs()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_is_slow_is_late_however_often_bytes_come() {
        let mut connection = Connection::new();
        for _ in 0..4 {
            connection.send(b"G").await;
            assert_eq!(connection.pass(1).await, None);
        }
        connection.send(b"G").await;
        assert_eq!(connection.pass(9).await, Some((Late::Head, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_between_requests_and_not_in_them() {
        let mut connection = Connection::new();
        assert_eq!(connection.pass(299).await, None);
        connection.send(b"GET").await;
        let request = connection.activity.request();
        assert_eq!(connection.pass(1_000).await, None);
        // Another task ends it, and this one is not told.
        drop(request);
        assert_eq!(connection.pass(1).await, None);
        assert_eq!(
            connection.pass(299).await.map(|(late, _)| late),
            Some(Late::Request)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_never_seen_running_ends_its_head() {
        let mut connection = Connection::new();
        connection.send(b"G").await;
        assert_eq!(connection.pass(1).await, None);
        connection.send(b"E").await;
        drop(connection.activity.request());
        assert_eq!(connection.pass(301).await, Some((Late::Request, 300)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_http2_is_idle_although_it_answers_pings() {
        let mut connection = Connection::new();
        connection.send(b"PR").await;
        connection.send(b"I * HTTP/2.0").await;
        for _ in 0..9 {
            assert_eq!(connection.pass(30).await, None);
            connection.send(b"pong").await;
        }
        assert_eq!(connection.pass(99).await, Some((Late::Request, 30)));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_not_read_are_an_error() {
        let mut connection = Connection::new();
        let begun = Instant::now();
        let error = connection.timed.write_all(&[0; 65]).await.unwrap_err();
        assert_eq!(
            (error.kind(), begun.elapsed()),
            (TimedOut, BOUNDS.command_time)
        );
        // A client that reads from time to time is not late.
        let Connection {
            mut client,
            mut timed,
            ..
        } = Connection::new();
        let written = tokio::spawn(async move { timed.write_all(&[0; 640]).await });
        for _ in 0..10 {
            sleep(BOUNDS.command_time / 2).await;
            client.read_exact(&mut [0; 64]).await.unwrap();
        }
        written.await.unwrap().unwrap();
    }
}
