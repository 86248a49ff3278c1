//! Requests to end: Ctrl-C, and SIGTERM on Unix.

use std::future::poll_fn;
use std::io;
use std::process;
use std::task::{Context, Poll};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::signal;

use crate::exit::Refusal;

/// Requests to end, in sequence. While this value exists, none is missed, and none ends the process by itself.
#[derive(Debug)]
pub(crate) struct Interrupts {
    runtime: Runtime,
    sources: Sources,
}

impl Interrupts {
    /// Installs the signal handlers.
    pub(crate) fn new() -> io::Result<Interrupts> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let sources = runtime.block_on(async { Sources::new() })?;
        Ok(Interrupts { runtime, sources })
    }

    /// Waits for the next request to end.
    pub(crate) fn wait(&mut self) {
        let sources = &mut self.sources;
        self.runtime
            .block_on(poll_fn(|context| sources.poll(context)));
    }
}

#[cfg(unix)]
#[derive(Debug)]
struct Sources {
    interrupt: signal::unix::Signal,
    terminate: signal::unix::Signal,
}

#[cfg(unix)]
impl Sources {
    fn new() -> io::Result<Sources> {
        use signal::unix::{SignalKind, signal};
        Ok(Sources {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Poll both, so that both wake the task.
        let interrupt = self.interrupt.poll_recv(context);
        let terminate = self.terminate.poll_recv(context);
        match interrupt.is_ready() || terminate.is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[cfg(windows)]
#[derive(Debug)]
struct Sources(signal::windows::CtrlC);

#[cfg(windows)]
impl Sources {
    fn new() -> io::Result<Sources> {
        signal::windows::ctrl_c().map(Sources)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_recv(context).map(|_| ())
    }
}

/// Message after the first request to end, if there is no live view.
pub(crate) const STOPPING: &str =
    "stopping; waiting up to 1 s for responses (Ctrl-C again quits immediately)";

/// Calls `end` at the first request to end, and ends the process with exit code 130 at the second. When this returns, no
/// request can be missed.
pub(crate) fn listen(end: impl FnOnce() + Send + 'static) -> Result<(), Refusal> {
    let ending = |interrupts: &mut Interrupts| {
        interrupts.wait();
        end();
        interrupts.wait();
    };
    end_by(ending)
        .map_err(|error| Refusal::could_not_run(format!("cannot listen for Ctrl-C: {error}")))
}

/// Ends the process with exit code 130 when `waits` has waited for as many requests as it wants. When this returns, no
/// request can be missed.
pub(crate) fn end_by(waits: impl FnOnce(&mut Interrupts) + Send + 'static) -> io::Result<()> {
    let mut interrupts = Interrupts::new()?;
    let ending = move || {
        waits(&mut interrupts);
        process::exit(130);
    };
    thread::Builder::new()
        .name("flowgate-ctrl-c".to_owned())
        .spawn(ending)?;
    Ok(())
}
