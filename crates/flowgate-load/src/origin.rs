//! A small server of one's own, for when there is no other to send to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// An HTTP/1.1 server on a free port of 127.0.0.1, in its own thread, that answers everything with
/// `200 OK`. Dropping it closes its connections and ends the thread.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Origin, Target};
///
/// let origin = Origin::start()?;
/// let target = Target::parse(&origin.url())?;
/// assert_eq!(target.host(), "127.0.0.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// Starts the server; it answers as soon as this returns.
    ///
    /// # Errors
    ///
    /// When the operating system grants no port or no thread.
    pub fn start() -> io::Result<Origin> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("flowgate-origin".to_owned())
            .spawn(move || serve(&runtime, listener, stopped))?;
        Ok(Origin {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens, such as `http://127.0.0.1:41233/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has no result to hand on, and drop no way to do so.
            let _ = thread.join();
        }
    }
}

/// Accepts connections until told to stop, or until the handle is gone.
fn serve(runtime: &Runtime, listener: TcpListener, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::select! {
            () = accept(listener) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: some will be closed soon.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        tokio::spawn(async move {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            // A client that hangs up midway is no concern of the server's.
            let _ = connection.await;
        });
    }
}

/// Reads the request to its end, so that the connection can be used again, and answers it.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"ok\n"))))
}
