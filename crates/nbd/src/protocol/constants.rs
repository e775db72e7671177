//! The protocol's numbers and the limits of this server.

/// "NBDMAGIC", the first bytes of a connection.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT", before every option and in the greeting.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before every simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before every chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The longest option data that is decoded, in bytes.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;
/// The longest option data that is skipped, in bytes; more ends the connection.
pub const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;
/// The longest string (a name, a query) that the protocol allows, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Smallest offset step and length of a request: stores take any.
pub const BLOCK_BYTES_MIN: u32 = 1;
/// Alignment that is served without reading around it.
pub const BLOCK_BYTES_PREFERRED: u32 = mjolnir_units::BLOCK_SIZE as u32;
/// The longest read or write, in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// The longest write that is refused with an error, its payload skipped; more ends the
/// connection.
pub const PAYLOAD_SKIP_BYTES_MAX: u32 = 128 << 20;

/// Handshake flags of the server, and the client's flags of the same meaning.
pub mod handshake_flag {
    /// Options get replies.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The 124 zero bytes after an `EXPORT_NAME` reply are left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Transmission flags: what an export can do.
pub mod transmission_flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Changes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA command flag is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `TRIM` is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF command flag is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers all connections to the export.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CACHE` is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The FAST_ZERO command flag is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Numbers of options.
pub mod option {
    /// Choose an export and begin transmission; has no error reply.
    pub const EXPORT_NAME: u32 = 1;
    /// End the connection.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Upgrade to TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin transmission.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Select metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use 64-bit lengths (not spoken here).
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of replies to options.
pub mod option_reply_type {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name.
    pub const SERVER: u32 = 2;
    /// A piece of information about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is unknown.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The server will not do it, for reasons of its own.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// The option's data are wrong, or it is out of place.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// Start TLS first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The store is shutting down.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Types of information about an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Canonical name.
    pub const NAME: u16 = 1;
    /// A line for people.
    pub const DESCRIPTION: u16 = 2;
    /// Block size constraints.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of requests.
pub mod command_flag {
    /// Durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// Do not make a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Do not split the reply.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail at once rather than write zeroes slowly.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// The metadata context that this server knows.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The id that replies name it by.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// State of an extent: not allocated.
pub const STATE_HOLE: u32 = 1 << 0;
/// State of an extent: reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;
