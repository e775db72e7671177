//! NBD clients: accepted, served, and seen out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use event_listener::Event;
use futures_lite::future::or;
use futures_lite::{AsyncRead, AsyncWrite};
use mjolnir_device::Runtime;
use mjolnir_host::{HostEngine, HostRuntime, Listener, Recorded, Recorder, Stream, Tls, TlsStream};
use mjolnir_nbd::{
    self as nbd, Allowance, Disconnect, DisconnectKind, Handshake, Negotiated, Options, Session,
    negotiate, negotiate_secured, transmit,
};

use mjolnir_store::{Store, TargetInfo};

use crate::arguments::ServeOptions;
use crate::complaints::complain;
use crate::handle::Serving;
use crate::users::Users;

/// The part of the memory budget that clients' requests and replies may take together, beyond what each
/// may have at any time: one in so many.
const CLIENTS_SHARE: u64 = 8;
/// The part of it that as many clients as there may be have at any time: one in so many.
const EACH_SHARE: u64 = 4;
/// The most of it that one client has at any time.
const EACH_BYTES_MAX: u64 = 1 << 20;
/// The most that those of one client may.
const CLIENT_BYTES_MAX: u64 = 64 << 20;
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
    recorder: Rc<Recorder>,
    users: Rc<Users>,
    runtime: HostRuntime,
    options: Options,
    tls: Option<Tls>,
    negotiation_time: Duration,
    negotiations: Rc<Negotiations>,
    stop: Rc<Stop>,
    count_max: usize,
    count: Cell<usize>,
    left: Event,
}

impl Clients {
    /// Nobody yet. With `tls`, clients talk by it or about nothing.
    pub fn new(
        engine: HostEngine,
        Serving { recorder, users, runtime, .. }: Serving,
        options: &ServeOptions,
        tls: Option<Tls>,
    ) -> Self {
        let negotiation_time = Duration::from_secs(options.negotiation_time.into());
        let count_max = options.clients_max as usize;
        let in_flight = options.memory / CLIENTS_SHARE;
        let each = options.memory / EACH_SHARE / u64::from(options.clients_max);
        let options = Options {
            bytes_in_flight_max: in_flight.min(CLIENT_BYTES_MAX),
            allowance: Allowance::new(in_flight).with_each(each.min(EACH_BYTES_MAX)),
            buffers: engine.client_buffers(),
            inputs: engine.client_inputs(),
            read_only: options.read_only,
            tls: if tls.is_some() { nbd::Tls::Required } else { nbd::Tls::Off },
            ..Options::default()
        };
        let (negotiations, stop) = (Rc::default(), Rc::default());
        let (count, left) = (Cell::new(0), Event::new());
        Clients {
            engine,
            recorder,
            users,
            runtime,
            options,
            tls,
            negotiation_time,
            negotiations,
            stop,
            count_max,
            count,
            left,
        }
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
                    let count = self.count.get() - self.negotiations.ending.get();
                    if count >= self.count_max && !self.negotiations.end_oldest() {
                        complain(&format!(
                            "turned away a client of {name}: there are {} already, see --clients-max",
                            self.count_max
                        ));
                        continue;
                    }
                    self.count.set(self.count.get() + 1);
                    let begun = self.negotiations.clone().begin();
                    self.runtime.spawn(self.clone().see_to(stream, begun, name));
                }
                Some(Err(error)) => {
                    complain(&format!("warning: {error}"));
                    // Most likely there are no more file descriptors; this frees one.
                    self.negotiations.end_oldest();
                    self.runtime.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn see_to(self: Rc<Self>, stream: Stream, begun: Begun, name: String) {
        if let Err(end) = self.serve(stream, begun).await {
            // Clients that just leave are everyday.
            if end.kind != DisconnectKind::Vanished {
                complain(&format!("a client of {name} was disconnected: {end}"));
            }
        }
        self.count.set(self.count.get() - 1);
        self.left.notify(usize::MAX);
    }

    async fn serve(&self, stream: Stream, begun: Begun) -> Result<(), Disconnect> {
        let limit = async {
            let ended = or(begun.end.requested(), self.stop.requested());
            or(self.runtime.sleep(self.negotiation_time), ended).await;
            Ok(Chosen::Nothing)
        };
        let chosen = or(self.choose(stream), limit).await;
        drop(begun);
        match chosen? {
            Chosen::Plain(session) => self.transmit(session).await,
            Chosen::Secured(session) => self.transmit(session).await,
            Chosen::Nothing => Ok(()),
        }
    }

    /// From the greeting to the choice of an export, over TLS if the client is to secure itself.
    async fn choose(&self, stream: Stream) -> Result<Chosen, Disconnect> {
        match negotiate(&self.engine, stream, &self.options).await? {
            Negotiated::Ready(session) => Ok(Chosen::Plain(session)),
            Negotiated::Ended => Ok(Chosen::Nothing),
            Negotiated::StartTls { transport, handshake } => {
                self.choose_secured(transport, handshake).await
            }
        }
    }

    async fn choose_secured(
        &self,
        stream: Stream,
        handshake: Handshake,
    ) -> Result<Chosen, Disconnect> {
        let tls = self.tls.as_ref().expect("TLS is offered only where it is set up");
        let stream = tls.accept(stream).await.map_err(unsecured)?;
        match negotiate_secured(&self.engine, stream, handshake, &self.options).await? {
            Negotiated::Ready(session) => Ok(Chosen::Secured(session)),
            // A secured client that asks for TLS is told that it has it.
            Negotiated::Ended | Negotiated::StartTls { .. } => Ok(Chosen::Nothing),
        }
    }

    async fn transmit<T>(&self, session: Session<T>) -> Result<(), Disconnect>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let (engine, recorder) = (self.engine.clone(), self.recorder.clone());
        let TargetInfo { id, name, size, .. } = session.export().target.clone();
        let begun = or(async { Some(self.users.clone().begin(id).await) }, async {
            self.stop.requested().await;
            None
        });
        let Some(_use) = begun.await else { return Ok(()) };
        if engine.info(id).map_or(0, |now| now.size) < size {
            // It was told of more.
            return Err(Disconnect {
                kind: DisconnectKind::Refused,
                message: format!("{name} was deleted or shrank while it connected"),
                source: None,
            });
        }
        let store = Recorded::new(engine, recorder, id);
        transmit(&store, session, self.stop.requested()).await.map(|_| ())
    }
}

/// Clients that have not chosen an export yet, and so have proved nothing. However many there are,
/// they keep out nobody who is quicker.
#[derive(Default)]
struct Negotiations {
    /// What ends each of them, by when they came.
    ends: RefCell<BTreeMap<u64, Rc<Stop>>>,
    /// So many there have been.
    count: Cell<u64>,
    /// Those that were told to end, and are not gone yet.
    ending: Cell<usize>,
}

/// A negotiation under way; over when dropped.
struct Begun {
    all: Rc<Negotiations>,
    number: u64,
    end: Rc<Stop>,
}

impl Negotiations {
    fn begin(self: Rc<Self>) -> Begun {
        let (number, end) = (self.count.get(), Rc::new(Stop::default()));
        self.count.set(number + 1);
        self.ends.borrow_mut().insert(number, end.clone());
        Begun { all: self, number, end }
    }

    /// Ends the one that began first; false if there is none.
    fn end_oldest(&self) -> bool {
        let Some((_, end)) = self.ends.borrow_mut().pop_first() else { return false };
        self.ending.set(self.ending.get() + 1);
        end.ask();
        true
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.all.ends.borrow_mut().remove(&self.number).is_none() {
            self.all.ending.set(self.all.ending.get() - 1);
        }
    }
}

/// What came of a negotiation.
enum Chosen {
    /// An export, in the clear.
    Plain(Session<Stream>),
    /// An export, over TLS.
    Secured(Session<TlsStream>),
    /// The client left, took too long, or this server is stopping.
    Nothing,
}

/// Why a client could not be secured.
fn unsecured(error: io::Error) -> Disconnect {
    use io::ErrorKind::{ConnectionReset, PermissionDenied, UnexpectedEof};
    let kind = match error.kind() {
        UnexpectedEof | ConnectionReset => DisconnectKind::Vanished,
        PermissionDenied => DisconnectKind::Refused,
        _ => DisconnectKind::Transport,
    };
    let message = format!("the TLS handshake failed: {error}");
    Disconnect { kind, message, source: Some(error) }
}
