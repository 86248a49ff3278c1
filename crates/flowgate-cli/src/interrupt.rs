//! Ctrl-C: once to stop and report, twice to quit.

use std::io;
use std::process;
use std::sync::mpsc;
use std::thread;

use flowgate_load::Stop;
use tokio::runtime::Builder;
use tokio::signal;

use crate::exit::complain;

/// From now on the first Ctrl-C stops the run, and the second ends the process with exit code 130.
/// When this returns, no Ctrl-C can be missed.
pub(crate) fn listen(stop: Stop) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let (ready, is_ready) = mpsc::channel();
    thread::Builder::new()
        .name("flowgate-ctrl-c".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                // Polling once puts the handler in place.
                let mut first = Box::pin(signal::ctrl_c());
                let _ = ready.send(());
                if first.as_mut().await.is_err() {
                    return;
                }
                stop.stop();
                complain(&"stopping; waiting up to 1 s for answers (Ctrl-C again quits at once)");
                if signal::ctrl_c().await.is_ok() {
                    process::exit(130);
                }
            });
        })?;
    // The other end hangs up only after sending.
    let _ = is_ready.recv();
    Ok(())
}
