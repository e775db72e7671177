//! A transport during negotiation: options in, replies out.

use futures_io::{AsyncRead, AsyncWrite};

use crate::input::Input;
use crate::output::Output;
use crate::protocol::{
    self, ClientFlags, Malformed, OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, OptionHeader,
    STRING_BYTES_MAX, option, option_reply_type as reply,
};
use crate::{Disconnect, DisconnectKind, Options};

/// The message for an option with more data than any option has.
pub(crate) const TOO_LONG: &str = "the option's data are too long";

/// A transport with its buffers.
pub(crate) struct Wire<T> {
    pub transport: T,
    pub input: Input,
    pub output: Output,
}

/// An option that a client sent.
pub(crate) struct Asked {
    pub number: u32,
    /// The option's data; `None` if they were too long and skipped.
    pub data: Option<Vec<u8>>,
}

impl<T> Wire<T> {
    pub fn new(transport: T, options: &Options) -> Self {
        let input = Input::new(options.inputs.clone());
        Wire { transport, input, output: Output::default() }
    }

    /// Queues a reply to option `number`.
    pub fn reply(&mut self, number: u32, kind: u32, data: &[&[u8]]) {
        let mut bytes = Vec::new();
        protocol::option_reply(&mut bytes, number, kind, data);
        self.output.push_head(&bytes);
    }

    /// Queues a reply that refuses option `number`.
    pub fn fail(&mut self, number: u32, kind: u32, message: &str) {
        let message = &message[..message.floor_char_boundary(STRING_BYTES_MAX)];
        self.reply(number, kind, &[message.as_bytes()]);
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire<T> {
    /// Sends the greeting, and receives the client's answer.
    pub async fn greet(&mut self) -> Result<ClientFlags, Disconnect> {
        self.output.push_head(&protocol::greeting());
        self.output.drain(&mut self.transport).await?;
        self.input.fill(&mut self.transport, ClientFlags::BYTES, "the greeting").await?;
        let flags = self.input.peek().expect("filled above");
        let flags = ClientFlags::decode(flags).map_err(out_of_step)?;
        self.input.consume(ClientFlags::BYTES);
        Ok(flags)
    }

    /// Receives one option.
    pub async fn option(&mut self, flags: ClientFlags) -> Result<Asked, Disconnect> {
        let Wire { transport, input, .. } = self;
        input.fill(transport, OptionHeader::BYTES, "negotiation").await?;
        let header = OptionHeader::decode(input.peek().expect("filled above"));
        let OptionHeader { option: number, length } = header.map_err(out_of_step)?;
        input.consume(OptionHeader::BYTES);
        if !flags.fixed_newstyle && number != option::EXPORT_NAME {
            return Err(Disconnect::protocol(format!(
                "the client sent option {number} and did not say that it understands replies"
            )));
        }
        if number == option::EXPORT_NAME && length > OPTION_BYTES_MAX {
            return Err(announced(number, length));
        }
        if length > OPTION_SKIP_BYTES_MAX {
            self.fail(number, reply::ERR_TOO_BIG, TOO_LONG);
            // The client may still be sending, and so not read this.
            let _ = self.output.drain(&mut self.transport).await;
            return Err(announced(number, length));
        }
        let bytes = length as usize;
        if length > OPTION_BYTES_MAX {
            input.skip(transport, bytes, "negotiation").await?;
            return Ok(Asked { number, data: None });
        }
        input.fill(transport, bytes, "negotiation").await?;
        let data = input.bytes()[..bytes].to_vec();
        input.consume(bytes);
        Ok(Asked { number, data: Some(data) })
    }

    /// Answers a client that ends the connection.
    pub async fn farewell(&mut self) {
        self.reply(option::ABORT, reply::ACK, &[]);
        // A client may leave without waiting for this reply; that is an orderly end.
        let _ = self.output.drain(&mut self.transport).await;
        self.output = Output::default();
    }
}

/// Greets a client that cannot be served, and answers each of its options with `why`, until it
/// leaves.
///
/// Takes as long as the client does: the caller limits the time by dropping the future.
///
/// # Errors
///
/// The client broke the protocol, chose an export by `EXPORT_NAME` (which has no error reply), or is gone.
pub async fn turn_away<T>(transport: T, options: &Options, why: &str) -> Result<(), Disconnect>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut wire = Wire::new(transport, options);
    let flags = wire.greet().await?;
    for _ in 0..REFUSALS_MAX {
        match wire.option(flags).await?.number {
            option::ABORT => {
                wire.farewell().await;
                return Ok(());
            }
            option::EXPORT_NAME => break,
            number => wire.fail(number, reply::ERR_POLICY, why),
        }
        wire.output.drain(&mut wire.transport).await?;
    }
    Err(Disconnect::new(DisconnectKind::Refused, why))
}

/// The most answered options of a client that is turned away: those that a client sends before it
/// chooses an export, and some more.
const REFUSALS_MAX: usize = 16;

fn announced(number: u32, length: u32) -> Disconnect {
    Disconnect::protocol(format!("the client announced {length} bytes of data for option {number}"))
}

fn out_of_step(malformed: Malformed) -> Disconnect {
    Disconnect::protocol(format!("{malformed}, so the connection is out of step"))
}
