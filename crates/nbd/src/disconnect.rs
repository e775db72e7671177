//! The ways in which connections end.

use std::fmt;
use std::io;

/// What a connection did, told when it ends in order: by request of the client (or of the
/// caller, see [`transmit`](crate::transmit)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The export that was used; `None` if the client left during negotiation.
    pub export: Option<String>,
    /// Requests answered, refused ones included.
    pub requests: u64,
    /// Payload bytes sent to the client, holes included.
    pub bytes_read: u64,
    /// Payload bytes received from the client.
    pub bytes_written: u64,
}

/// The end of a connection that was not an orderly one: a stable kind, and a sentence for a log.
#[derive(Debug, thiserror::Error)]
pub struct Disconnect {
    /// Code decides by this.
    pub kind: DisconnectKind,
    /// What happened, on which request, with the offending value.
    pub message: String,
    /// What the transport said, if it failed.
    #[source]
    pub source: Option<io::Error>,
}

/// The sorts of disorderly ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectKind {
    /// The client broke the protocol in a way that leaves no way on.
    Protocol,
    /// The client cannot have what it asked for, and the protocol has no reply that says so.
    Refused,
    /// The client closed or reset the stream without a goodbye.
    Vanished,
    /// The transport failed.
    Transport,
}

impl Disconnect {
    pub(crate) fn new(kind: DisconnectKind, message: impl Into<String>) -> Self {
        Disconnect { kind, message: message.into(), source: None }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(DisconnectKind::Protocol, message)
    }

    pub(crate) fn vanished(during: &str) -> Self {
        Self::new(DisconnectKind::Vanished, format!("the client closed the stream during {during}"))
    }

    pub(crate) fn transport(doing: &str, source: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        let kind = match source.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset => DisconnectKind::Vanished,
            _ => DisconnectKind::Transport,
        };
        Disconnect {
            kind,
            message: format!("{doing} the client failed: {source}"),
            source: Some(source),
        }
    }
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
