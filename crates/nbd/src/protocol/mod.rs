//! The messages of the protocol as values: decoding what a client sends, encoding what it gets.
//!
//! Pure functions over bytes, without I/O. This is the parser of foreign bytes, so it is what
//! gets fuzzed: it never panics, and decoding allocates nothing.

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
