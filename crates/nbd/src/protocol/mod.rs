//! The messages of the protocol as values: decoding of requests, encoding of replies.
//!
//! Pure functions over bytes, without I/O. It parses foreign bytes, so it is fuzzed: it never
//! panics, and decoding allocates nothing.

mod constants;
mod negotiation;
mod transmission;

pub use constants::*;
pub use negotiation::{
    ClientFlags, ClientOption, InfoRequest, MetaRequest, OptionError, OptionHeader,
    export_name_reply, greeting, option_reply,
};
pub use transmission::{
    Chunk, Command, Errno, Malformed, Request, chunk_header, error_chunk, simple_reply,
};
