//! NBD clients: accepted, served, and seen out.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use event_listener::Event;
use futures_lite::future::or;
use futures_lite::{AsyncRead, AsyncWrite};
use mjolnir_device::{Buffers, Runtime};
use mjolnir_host::{HostRuntime, Listener, Recorded, Recorder, Stream, Tls, TlsStream};
use mjolnir_nbd::{
    self as nbd, Allowance, Disconnect, DisconnectKind, Handshake, Negotiated, Options, Session,
    negotiate, negotiate_secured, transmit, turn_away,
};
use mjolnir_store::{Store, TargetInfo};

use super::lines::{Kind, Lines};
use crate::arguments::ServeOptions;
use crate::handle::Serving;
use crate::output;
use crate::users::Users;
use crate::waiting::{Stop, Waiting, WaitingRoom};

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
/// How many clients that are turned away are told why at once, beyond those that are served.
const TURNED_AWAY_MAX: usize = 16;
/// How long one of them may take to hear it.
const TURN_AWAY_TIME: Duration = Duration::from_secs(5);

/// Memory of the store's for what clients send.
pub struct Memory {
    /// What they write is read into this, and needs no copy.
    pub payloads: Buffers,
    /// What they send lies in this until it is decoded.
    pub inputs: Buffers,
}

/// All clients of a server.
pub struct Clients<S> {
    store: S,
    recorder: Rc<Recorder>,
    users: Rc<Users>,
    runtime: HostRuntime,
    options: Options,
    tls: Option<Tls>,
    negotiation_time: Duration,
    /// Those that have not chosen an export yet.
    negotiations: Rc<WaitingRoom>,
    /// Those that hear why they are turned away.
    turned_away: Rc<WaitingRoom>,
    lines: Rc<Lines<HostRuntime>>,
    stop: Rc<Stop>,
    count_max: usize,
    count: Cell<usize>,
    left: Event,
}

impl<S: Store + Clone> Clients<S> {
    /// Nobody yet. With `tls`, clients talk by it or about nothing.
    pub fn new(
        store: S,
        memory: Memory,
        Serving { recorder, users, runtime, .. }: Serving,
        options: &ServeOptions,
        tls: Option<Tls>,
        lines: Rc<Lines<HostRuntime>>,
    ) -> Self {
        let negotiation_time = Duration::from_secs(options.negotiation_time.into());
        let count_max = options.clients_max as usize;
        let in_flight = options.memory / CLIENTS_SHARE;
        let each = options.memory / EACH_SHARE / u64::from(options.clients_max);
        let options = Options {
            bytes_in_flight_max: in_flight.min(CLIENT_BYTES_MAX),
            allowance: Allowance::new(in_flight).with_each(each.min(EACH_BYTES_MAX)),
            buffers: memory.payloads,
            inputs: memory.inputs,
            read_only: options.read_only,
            tls: if tls.is_some() { nbd::Tls::Required } else { nbd::Tls::Off },
            ..Options::default()
        };
        let (negotiations, turned_away, stop) = (Rc::default(), Rc::default(), Rc::default());
        let (count, left) = (Cell::new(0), Event::new());
        Clients {
            store,
            recorder,
            users,
            runtime,
            options,
            tls,
            negotiation_time,
            negotiations,
            turned_away,
            lines,
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
                    let count = self.count.get() - self.negotiations.ending();
                    if count >= self.count_max && !self.negotiations.end_first() {
                        self.turn_away(stream, &name);
                        continue;
                    }
                    self.count.set(self.count.get() + 1);
                    let waiting = self.negotiations.clone().enter(false);
                    self.runtime.spawn(self.clone().see_to(stream, waiting, name));
                }
                Some(Err(error)) => {
                    let kind = "about connections that could not be accepted";
                    self.lines.say(kind, door.address(), &format!("warning: {error}"));
                    // Most likely there are no more file descriptors; this frees one.
                    if !self.turned_away.end_first() {
                        self.negotiations.end_first();
                    }
                    self.runtime.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Tells a client why it is not served, if it asks before there are too many of them.
    fn turn_away(&self, stream: Stream, name: &str) {
        let most = self.count_max;
        let line =
            format!("turned away a client of {name}: there are {most} already, see --clients-max");
        let why = format!(
            "this server has {} already and takes no more (--clients-max); try again later",
            output::count(most as u64, "client")
        );
        self.lines.say("about clients that were turned away", host_of(name), &line);
        if self.turned_away.len() >= TURNED_AWAY_MAX {
            self.turned_away.end_first();
        }
        let waiting = self.turned_away.clone().enter(false);
        let (runtime, stop) = (self.runtime.clone(), self.stop.clone());
        let options = self.options.clone();
        self.runtime.spawn(async move {
            let told = async { drop(turn_away(stream, &options, &why).await) };
            let ended = or(waiting.is_to_end(), stop.requested());
            or(told, or(runtime.sleep(TURN_AWAY_TIME), ended)).await;
        });
    }

    async fn see_to(self: Rc<Self>, stream: Stream, waiting: Waiting, name: String) {
        if let Err(end) = self.serve(stream, waiting).await
            && let Some(kind) = kind_of(end.kind)
        {
            let line = format!("a client of {name} was disconnected: {end}");
            self.lines.say(kind, host_of(&name), &line);
        }
        self.count.set(self.count.get() - 1);
        self.left.notify(usize::MAX);
    }

    async fn serve(&self, stream: Stream, waiting: Waiting) -> Result<(), Disconnect> {
        let limit = async {
            let ended = or(waiting.is_to_end(), self.stop.requested());
            or(self.runtime.sleep(self.negotiation_time), ended).await;
            Ok(Chosen::Nothing)
        };
        let chosen = or(self.choose(stream), limit).await;
        drop(waiting);
        match chosen? {
            Chosen::Plain(session) => self.transmit(session).await,
            Chosen::Secured(session) => self.transmit(session).await,
            Chosen::Nothing => Ok(()),
        }
    }

    /// From the greeting to the choice of an export, over TLS if the client is to secure itself.
    async fn choose(&self, stream: Stream) -> Result<Chosen, Disconnect> {
        match negotiate(&self.store, stream, &self.options).await? {
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
        match negotiate_secured(&self.store, stream, handshake, &self.options).await? {
            Negotiated::Ready(session) => Ok(Chosen::Secured(session)),
            // A secured client that asks for TLS is told that it has it.
            Negotiated::Ended | Negotiated::StartTls { .. } => Ok(Chosen::Nothing),
        }
    }

    async fn transmit<T>(&self, session: Session<T>) -> Result<(), Disconnect>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let (store, recorder) = (self.store.clone(), self.recorder.clone());
        let TargetInfo { id, name, size, .. } = session.export().target.clone();
        let begun = or(async { Some(self.users.clone().begin(id).await) }, async {
            self.stop.requested().await;
            None
        });
        let Some(_use) = begun.await else { return Ok(()) };
        if store.info(id).map_or(0, |now| now.size) < size {
            // It was told of more.
            return Err(Disconnect {
                kind: DisconnectKind::Refused,
                message: format!("{name} was deleted or shrank while it connected"),
                source: None,
            });
        }
        let store = Recorded::new(store, recorder, id);
        transmit(&store, session, self.stop.requested()).await.map(|_| ())
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

/// What is said of a disconnected client; nothing of those that just leave, which are everyday.
fn kind_of(kind: DisconnectKind) -> Option<Kind> {
    match kind {
        DisconnectKind::Vanished => None,
        DisconnectKind::Protocol => Some("about clients that broke the protocol"),
        DisconnectKind::Refused => Some("about clients that could not have what they asked for"),
        DisconnectKind::Transport => Some("about clients whose connection failed"),
    }
}

/// The machine that a client is on, whatever its port; or the unix socket that it came by.
fn host_of(name: &str) -> &str {
    match name.starts_with("tcp:") {
        true => name.rsplit_once(':').map_or(name, |(host, _)| host),
        false => name,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_its_machine() {
        for (name, host) in [
            ("tcp:192.0.2.1:40000", "tcp:192.0.2.1"),
            ("tcp:[::1]:40000", "tcp:[::1]"),
            ("unix:/run/a:1.sock", "unix:/run/a:1.sock"),
        ] {
            assert_eq!(host_of(name), host);
        }
    }
}
