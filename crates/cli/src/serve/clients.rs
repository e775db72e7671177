//! NBD clients: accepted, served, and seen out.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use event_listener::Event;
use futures_lite::future::or;
use mjolnir_device::Runtime;
use mjolnir_host::{HostEngine, HostRuntime, Listener, Stream};
use mjolnir_nbd::{Disconnect, DisconnectKind, Negotiated, Options, negotiate, transmit};

use crate::arguments::ServeOptions;
use crate::output;

/// Clients at once; more are turned away.
const CLIENTS_MAX: usize = 1024;
/// How long a client may take to choose an export.
const NEGOTIATION_TIME: Duration = Duration::from_secs(30);
/// How long to wait when no more connections can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request to stop, heard by everyone who listens.
#[derive(Default)]
pub struct Stop {
    asked: Cell<bool>,
    event: Event,
}

impl Stop {
    fn ask(&self) {
        self.asked.set(true);
        self.event.notify(usize::MAX);
    }

    /// Whether it was asked for.
    pub fn is_requested(&self) -> bool {
        self.asked.get()
    }

    /// Completes once it was asked for.
    pub async fn requested(&self) {
        while !self.asked.get() {
            self.event.listen().await;
        }
    }
}

/// All clients of a server.
pub struct Clients {
    engine: HostEngine,
    runtime: HostRuntime,
    options: Options,
    stop: Rc<Stop>,
    count: Cell<usize>,
    left: Event,
}

impl Clients {
    /// Nobody yet.
    pub fn new(engine: HostEngine, runtime: HostRuntime, options: &ServeOptions) -> Self {
        let options = Options { read_only: options.read_only, ..Options::default() };
        let (stop, count, left) = (Rc::default(), Cell::new(0), Event::new());
        Clients { engine, runtime, options, stop, count, left }
    }

    /// What tells tasks to stop.
    pub fn stopping(&self) -> Rc<Stop> {
        self.stop.clone()
    }

    /// Accepts no more, and lets those that are there finish what they asked for.
    pub fn stop(&self) {
        self.stop.ask();
    }

    /// Completes once nobody is left.
    pub async fn all_gone(&self) {
        while self.count.get() > 0 {
            self.left.listen().await;
        }
    }

    /// Lets clients in at a door until told to stop; then closes it.
    pub async fn accept_all(self: Rc<Self>, door: Listener) {
        loop {
            let accepted = or(async { Some(door.accept().await) }, async {
                self.stop.requested().await;
                None
            });
            match accepted.await {
                None => return,
                Some(Ok((stream, name))) => {
                    if self.count.get() >= CLIENTS_MAX {
                        output::complain(&format!(
                            "turned away a client of {name}: there are {CLIENTS_MAX} already"
                        ));
                        continue;
                    }
                    self.count.set(self.count.get() + 1);
                    self.runtime.spawn(self.clone().see_to(stream, name));
                }
                Some(Err(error)) => {
                    output::complain(&format!("warning: {error}"));
                    self.runtime.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn see_to(self: Rc<Self>, stream: Stream, name: String) {
        if let Err(end) = self.serve(stream).await {
            // Clients that just leave are everyday.
            if end.kind != DisconnectKind::Vanished {
                output::complain(&format!("a client of {name} was disconnected: {end}"));
            }
        }
        self.count.set(self.count.get() - 1);
        self.left.notify(usize::MAX);
    }

    async fn serve(&self, stream: Stream) -> Result<(), Disconnect> {
        let negotiation = async { negotiate(&self.engine, stream, &self.options).await.map(Some) };
        let limit = async {
            or(self.runtime.sleep(NEGOTIATION_TIME), self.stop.requested()).await;
            Ok(None)
        };
        match or(negotiation, limit).await? {
            Some(Negotiated::Ready(session)) => {
                transmit(&self.engine, session, self.stop.requested()).await.map(|_| ())
            }
            // TLS is not offered, so nobody asks for it.
            Some(Negotiated::Ended | Negotiated::StartTls { .. }) | None => Ok(()),
        }
    }
}
