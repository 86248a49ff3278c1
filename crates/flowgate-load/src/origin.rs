//! A small built-in test server.

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

/// Built-in HTTP/1.1 test server on a free port of 127.0.0.1.
///
/// It runs in a separate thread and responds to every request with `200 OK`. Dropping it closes its connections and
/// ends the thread.
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
    /// Starts the server. It accepts requests when this returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses a port or a thread.
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

    /// Returns the URL, such as `http://127.0.0.1:41233/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Drop cannot return the panic of the server.
            let _ = thread.join();
        }
    }
}

/// Accepts connections until it is stopped, or the handle is dropped.
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
            // Probably too many open files; some will be closed soon.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        tokio::spawn(async move {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            // A client that closes the connection midway is not an error of the server.
            let _ = connection.await;
        });
    }
}

/// Reads the request to its end, so that the connection can be reused, and responds.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"ok\n"))))
}
