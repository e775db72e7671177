//! Signals to stop.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use async_io::Async;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use crate::HostError;

/// Receives SIGTERM, SIGINT and SIGHUP, which do not end the process while this exists. A SIGHUP
/// ignored at its creation stays ignored, as `nohup` expects.
pub struct Shutdown {
    receiver: Async<UnixStream>,
    registered: Vec<SigId>,
}

impl Shutdown {
    /// Starts to listen for the signals.
    pub fn new() -> Result<Self, HostError> {
        let failed = || HostError::of("listening for signals".into());
        let (receiver, sender) = UnixStream::pair().map_err(failed())?;
        let mut shutdown =
            Shutdown { receiver: Async::new(receiver).map_err(failed())?, registered: Vec::new() };
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGTERM, SIGINT].into_iter().chain(hangup) {
            let sender = sender.try_clone().map_err(failed())?;
            shutdown.registered.push(pipe::register(signal, sender).map_err(failed())?);
        }
        Ok(shutdown)
    }

    /// Completes when a signal has come since the last call. The first signal requests an orderly
    /// stop, the second an immediate one.
    pub async fn requested(&self) {
        let heard = self.receiver.read_with(|mut receiver| match receiver.read(&mut [0; 1]) {
            // The senders live as long as this, so an end should not occur; it is no signal.
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            other => other,
        });
        if heard.await.is_err() {
            // No more signals can be received: waits for ever rather than stop a healthy server.
            std::future::pending::<()>().await;
        }
    }
}

/// Whether this process ignores a signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn each_signal_is_heard_once() {
        let shutdown = Shutdown::new().unwrap();
        assert!(block_on(poll_once(shutdown.requested())).is_none());
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGTERM, SIGINT].into_iter().chain(hangup) {
            signal_hook::low_level::raise(signal).unwrap();
            async_io::block_on(shutdown.requested());
        }
        assert!(block_on(poll_once(shutdown.requested())).is_none());
    }
}
