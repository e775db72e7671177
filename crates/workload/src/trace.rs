//! Block traces: read, described, written and converted.
//!
//! [`TraceReader`] recognises a trace by its content, unpacks gzip as it goes, and yields
//! [`Request`](crate::Request)s; its [`ReadReport`] names the units that it assumed, and the lines
//! that it passed over, skipped or changed. [`Summary`] adds up requests. [`TraceWriter`] writes
//! requests, and [`convert`] joins the two; [`Losses`] counts the values that the target format
//! could not hold.

mod binary;
mod clock;
mod columns;
mod convert;
mod detect;
mod digits;
mod fault;
mod footprint;
mod format;
mod input;
mod options;
mod print;
mod reader;
mod report;
mod summary;
mod text;
mod volumes;
mod window;
mod writer;

pub use binary::own::{FrameEncoder, MAX_FRAME_BYTES, TraceHeader};
pub use convert::{Conversion, ConvertError, convert};
pub use detect::detect;
pub use fault::{Fault, Malformed, Place, TraceError, TraceErrorKind};
pub use format::{Abilities, Format, Names, UnknownFormat};
pub use input::Compression;
pub use options::{BadRecord, ReadOptions, TimeBack};
pub use reader::TraceReader;
pub use report::{PassedOver, ReadReport, Skipped, Tally};
pub use summary::{OpTotals, Summary};
pub use volumes::Volumes;
pub use writer::{Losses, TraceWriter};
