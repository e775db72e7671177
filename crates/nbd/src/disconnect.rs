//! The ways in which connections end.

use std::fmt;
use std::io;

/// Totals of a connection that ended in order: at the request of the client (or of the caller, see
/// [`transmit`](crate::transmit)).
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

/// A disorderly end of a connection: a stable kind, and a sentence for a log.
#[derive(Debug, thiserror::Error)]
pub struct Disconnect {
    /// For code.
    pub kind: DisconnectKind,
    /// What happened, on which request, with the offending value.
    pub message: String,
    /// The transport's error, if it failed.
    #[source]
    pub source: Option<io::Error>,
}

/// The kinds of disorderly ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectKind {
    /// The client broke the protocol, so that the connection cannot continue.
    Protocol,
    /// The client's request was refused, and the protocol has no reply that says so.
    Refused,
    /// The client closed or reset the stream without a disconnect request.
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
