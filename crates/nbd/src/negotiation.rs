//! From the greeting to the choice of an export.

use std::rc::Rc;

use futures_io::{AsyncRead, AsyncWrite};
use futures_lite::future::yield_now;
use mjolnir_store::{Error, ErrorKind, Store, TargetInfo};
use mjolnir_units::TreeId;

use crate::protocol::{
    self, BASE_ALLOCATION, BASE_ALLOCATION_ID, BLOCK_BYTES_MIN, BLOCK_BYTES_PREFERRED, ClientFlags,
    ClientOption, InfoRequest, MetaRequest, PAYLOAD_BYTES_MAX, info, option,
    option_reply_type as reply,
};
use crate::wire::{Asked, TOO_LONG, Wire};
use crate::{Disconnect, DisconnectKind, Export, Options, Session, Stats, Tls};

/// Options of one client; more end the connection. A client that explores every export of a
/// large store over one connection stays below it.
const OPTIONS_MAX: u32 = 100_000;
/// Replies are written once this many bytes of them wait.
const REPLY_BYTES: u64 = 64 << 10;

/// The result of a negotiation.
pub enum Negotiated<T> {
    /// The client chose an export.
    Ready(Session<T>),
    /// The client ended the connection.
    Ended,
    /// The client waits for a TLS handshake on this transport. Continue with
    /// [`negotiate_secured`]. Happens only where [`Options::tls`] offers TLS.
    StartTls {
        /// The transport, with nothing read ahead.
        transport: T,
        /// The state of the negotiation so far.
        handshake: Handshake,
    },
}

/// A client's flags from before its upgrade to TLS.
#[derive(Clone, Copy, Debug)]
pub struct Handshake(ClientFlags);

/// Greets a client, answers its options, and returns once it chose an export or left.
///
/// Takes as long as the client does: the caller limits the time by dropping the future.
///
/// # Errors
///
/// The client broke the protocol, chose an export that it cannot have by `EXPORT_NAME` (which has
/// no error reply), or is gone.
pub async fn negotiate<S, T>(
    store: &S,
    transport: T,
    options: &Options,
) -> Result<Negotiated<T>, Disconnect>
where
    S: Store,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut wire = Wire::new(transport, options);
    let flags = wire.greet().await?;
    Negotiation::new(store, wire, options, flags, false).run().await
}

/// Continues a negotiation over a transport that TLS now secures. What was negotiated before is
/// forgotten, as the protocol demands.
///
/// # Errors
///
/// As [`negotiate`].
pub async fn negotiate_secured<S, T>(
    store: &S,
    transport: T,
    handshake: Handshake,
    options: &Options,
) -> Result<Negotiated<T>, Disconnect>
where
    S: Store,
    T: AsyncRead + AsyncWrite + Unpin,
{
    Negotiation::new(store, Wire::new(transport, options), options, handshake.0, true).run().await
}

struct Negotiation<'a, S, T> {
    store: &'a S,
    wire: Wire<T>,
    options: &'a Options,
    flags: ClientFlags,
    secured: bool,
    structured: bool,
    /// The export for which `base:allocation` was selected.
    block_status_of: Option<TreeId>,
}

/// The next step after an option.
enum Next {
    Option,
    Transmit(Export),
    StartTls,
    End,
}

impl<'a, S: Store, T: AsyncRead + AsyncWrite + Unpin> Negotiation<'a, S, T> {
    fn new(
        store: &'a S,
        wire: Wire<T>,
        options: &'a Options,
        flags: ClientFlags,
        secured: bool,
    ) -> Self {
        let (structured, block_status_of) = (false, None);
        Negotiation { store, wire, options, flags, secured, structured, block_status_of }
    }

    async fn run(mut self) -> Result<Negotiated<T>, Disconnect> {
        for _ in 0..OPTIONS_MAX {
            // Yields to other clients if this one sends many options at once.
            yield_now().await;
            let next = self.option().await?;
            self.wire.output.drain(&mut self.wire.transport).await?;
            let Wire { transport, input, output } = self.wire;
            match next {
                Next::Option => self.wire = Wire { transport, input, output },
                Next::End => return Ok(Negotiated::Ended),
                Next::Transmit(export) => {
                    let (options, stats) =
                        (Box::new(self.options.clone()), Rc::new(Stats::default()));
                    return Ok(Negotiated::Ready(Session {
                        transport,
                        input: Box::new(input),
                        output,
                        export,
                        options,
                        stats,
                    }));
                }
                Next::StartTls => {
                    return Ok(Negotiated::StartTls {
                        transport,
                        handshake: Handshake(self.flags),
                    });
                }
            }
        }
        Err(Disconnect::protocol(format!(
            "the client sent {OPTIONS_MAX} options and chose no export"
        )))
    }

    /// Receives one option and queues its reply.
    async fn option(&mut self) -> Result<Next, Disconnect> {
        let Asked { number, data } = self.wire.option(self.flags).await?;
        if self.options.tls == Tls::Required && !self.secured {
            match number {
                option::STARTTLS | option::ABORT => {}
                option::EXPORT_NAME => {
                    return Err(Disconnect::new(
                        DisconnectKind::Refused,
                        "the client chose an export without TLS, which this server requires",
                    ));
                }
                other => {
                    self.wire.fail(other, reply::ERR_TLS_REQD, "this server requires TLS");
                    return Ok(Next::Option);
                }
            }
        }
        if number == option::SET_META_CONTEXT {
            // It replaces the earlier selection, whatever its result.
            self.block_status_of = None;
        }
        let Some(data) = data else {
            self.wire.fail(number, reply::ERR_TOO_BIG, TOO_LONG);
            return Ok(Next::Option);
        };
        match ClientOption::decode(number, &data) {
            Ok(decoded) => self.answer(number, decoded).await,
            Err(why) if number == option::EXPORT_NAME => {
                Err(Disconnect::protocol(format!("the client chose an export: {}", why.0)))
            }
            Err(why) => {
                self.wire.fail(number, reply::ERR_INVALID, why.0);
                Ok(Next::Option)
            }
        }
    }

    /// Queues the reply to option number `number`.
    async fn answer(&mut self, number: u32, asked: ClientOption<'_>) -> Result<Next, Disconnect> {
        match asked {
            ClientOption::ExportName(name) => return self.export_name(name),
            ClientOption::Abort => {
                self.wire.farewell().await;
                return Ok(Next::End);
            }
            ClientOption::List => self.list().await?,
            ClientOption::StartTls => match self.options.tls {
                Tls::Off => self.wire.fail(number, reply::ERR_UNSUP, "this server has no TLS"),
                _ if self.secured => {
                    self.wire.fail(number, reply::ERR_INVALID, "TLS is on already")
                }
                // Bytes sent in the clear must not be taken for secured bytes.
                _ if !self.wire.input.bytes().is_empty() => {
                    return Err(Disconnect::protocol(
                        "the client sent more before the TLS handshake that it asked for",
                    ));
                }
                _ => {
                    self.wire.reply(number, reply::ACK, &[]);
                    return Ok(Next::StartTls);
                }
            },
            ClientOption::Info(request) => {
                self.info(number, &request);
            }
            ClientOption::Go(request) => {
                if let Some(export) = self.info(number, &request) {
                    return Ok(Next::Transmit(export));
                }
            }
            ClientOption::StructuredReply => {
                self.structured = true;
                self.wire.reply(number, reply::ACK, &[]);
            }
            ClientOption::ListMetaContext(request) => self.meta_context(number, &request),
            ClientOption::SetMetaContext(request) => self.meta_context(number, &request),
            ClientOption::Unknown(_) => {
                self.wire.fail(number, reply::ERR_UNSUP, "this server does not know the option");
            }
        }
        Ok(Next::Option)
    }

    fn export_name(&mut self, name: &str) -> Result<Next, Disconnect> {
        let target = self.store.find(name).map_err(|why| {
            Disconnect::new(
                DisconnectKind::Refused,
                format!("the client chose the export {name:?}: {why}"),
            )
        })?;
        let export = self.export(target);
        let mut bytes = Vec::new();
        protocol::export_name_reply(
            &mut bytes,
            export.target.size,
            export.flags(),
            self.flags.no_zeroes,
        );
        self.wire.output.push_head(&bytes);
        Ok(Next::Transmit(export))
    }

    async fn list(&mut self) -> Result<(), Disconnect> {
        for target in self.store.targets() {
            let name = target.name.as_bytes();
            let length = (name.len() as u32).to_be_bytes();
            self.wire.reply(option::LIST, reply::SERVER, &[&length, name]);
            if self.wire.output.bytes() >= REPLY_BYTES {
                self.wire.output.drain(&mut self.wire.transport).await?;
                yield_now().await;
            }
        }
        self.wire.reply(option::LIST, reply::ACK, &[]);
        Ok(())
    }

    /// Answers `INFO` or `GO`; returns the export if there is one.
    fn info(&mut self, number: u32, request: &InfoRequest<'_>) -> Option<Export> {
        let export = match self.store.find(request.name) {
            Ok(target) => self.export(target),
            Err(why) => {
                self.fail_by(number, &why);
                return None;
            }
        };
        let (size, flags) = (export.target.size.to_be_bytes(), export.flags().to_be_bytes());
        self.tell(number, info::EXPORT, &[&size, &flags]);
        if request.canonical_name {
            self.tell(number, info::NAME, &[export.target.name.as_bytes()]);
        }
        if request.description {
            self.tell(number, info::DESCRIPTION, &[export.description().as_bytes()]);
        }
        if request.block_size {
            let sizes = [BLOCK_BYTES_MIN, BLOCK_BYTES_PREFERRED, PAYLOAD_BYTES_MAX];
            let [min, preferred, max] = sizes.map(u32::to_be_bytes);
            self.tell(number, info::BLOCK_SIZE, &[&min, &preferred, &max]);
        }
        self.wire.reply(number, reply::ACK, &[]);
        Some(export)
    }

    fn meta_context(&mut self, number: u32, request: &MetaRequest<'_>) {
        let select = number == option::SET_META_CONTEXT;
        if select {
            self.block_status_of = None;
        }
        if !self.structured {
            self.wire.fail(number, reply::ERR_INVALID, "negotiate structured replies first");
            return;
        }
        let target = match self.store.find(request.name) {
            Ok(target) => target,
            Err(why) => return self.fail_by(number, &why),
        };
        let mut queries = request.queries.clone().peekable();
        let all = !select && queries.peek().is_none();
        if all || queries.any(|query| query == BASE_ALLOCATION || (!select && query == "base:")) {
            let id = if select { BASE_ALLOCATION_ID } else { 0 };
            let name = BASE_ALLOCATION.as_bytes();
            self.wire.reply(number, reply::META_CONTEXT, &[&id.to_be_bytes(), name]);
            if select {
                self.block_status_of = Some(target.id);
            }
        }
        self.wire.reply(number, reply::ACK, &[]);
    }

    fn export(&self, target: TargetInfo) -> Export {
        Export {
            read_only: target.read_only || self.options.read_only,
            structured: self.structured,
            block_status: self.block_status_of == Some(target.id),
            target,
        }
    }

    fn tell(&mut self, number: u32, kind: u16, data: &[&[u8]]) {
        let kind = kind.to_be_bytes();
        let mut pieces: Vec<&[u8]> = vec![&kind];
        pieces.extend_from_slice(data);
        self.wire.reply(number, reply::INFO, &pieces);
    }

    fn fail_by(&mut self, number: u32, error: &Error) {
        let kind = match error.kind {
            ErrorKind::Closed => reply::ERR_SHUTDOWN,
            _ => reply::ERR_UNKNOWN,
        };
        self.wire.fail(number, kind, &error.message);
    }
}
