//! Messages of the negotiation.

use super::constants::{
    GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX, handshake_flag, info,
    option,
};
use super::transmission::{Malformed, message};

/// The server's first message: two magics and its handshake flags.
pub fn greeting() -> [u8; 18] {
    let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    message([&GREETING_MAGIC.to_be_bytes(), &OPTION_MAGIC.to_be_bytes(), &flags.to_be_bytes()])
}

/// The client's answer to the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    /// The client understands replies to options.
    pub fixed_newstyle: bool,
    /// The client does not want the zeroes after an `EXPORT_NAME` reply.
    pub no_zeroes: bool,
}

impl ClientFlags {
    /// Length on the wire.
    pub const BYTES: usize = 4;

    /// Decodes the flags.
    ///
    /// # Errors
    ///
    /// Flags that the server did not offer.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let flags = u32::from_be_bytes(*bytes);
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        if flags & !known != 0 {
            return Err(Malformed { what: "client flags", found: u64::from(flags) });
        }
        Ok(ClientFlags {
            fixed_newstyle: flags & u32::from(handshake_flag::FIXED_NEWSTYLE) != 0,
            no_zeroes: flags & u32::from(handshake_flag::NO_ZEROES) != 0,
        })
    }
}

/// The header of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Its number.
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// Length on the wire.
    pub const BYTES: usize = 16;

    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// A wrong magic: the stream is out of step.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        let magic = rest.u64().unwrap_or(0);
        if magic != OPTION_MAGIC {
            return Err(Malformed { what: "option magic", found: magic });
        }
        Ok(OptionHeader { option: rest.u32().unwrap_or(0), length: rest.u32().unwrap_or(0) })
    }
}

/// An option with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOption<'a> {
    /// Use this export; no reply but its size and flags.
    ExportName(&'a str),
    /// Goodbye.
    Abort,
    /// Which exports are there?
    List,
    /// Upgrade to TLS.
    StartTls,
    /// Tell about an export.
    Info(InfoRequest<'a>),
    /// Tell about an export and use it.
    Go(InfoRequest<'a>),
    /// Use structured replies.
    StructuredReply,
    /// Which metadata contexts are there?
    ListMetaContext(MetaRequest<'a>),
    /// Use these metadata contexts.
    SetMetaContext(MetaRequest<'a>),
    /// An option that this server does not know.
    Unknown(u32),
}

/// The arguments of `INFO` and `GO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// The export.
    pub name: &'a str,
    /// Wants its canonical name.
    pub canonical_name: bool,
    /// Wants a description.
    pub description: bool,
    /// Wants block size constraints.
    pub block_size: bool,
}

/// The arguments of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaRequest<'a> {
    /// The export.
    pub name: &'a str,
    /// Names of contexts, or namespaces that end with a colon.
    pub queries: Queries<'a>,
}

/// The queries of a [`MetaRequest`], one after the other. Checked when they were decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries<'a>(&'a [u8]);

impl<'a> Iterator for Queries<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut rest = Rest(self.0);
        let query = rest.counted_text().ok()?;
        self.0 = rest.0;
        Some(query)
    }
}

/// Why the data of an option are wrong, for the client to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionError(pub &'static str);

impl<'a> ClientOption<'a> {
    /// Decodes the data of option number `number`.
    ///
    /// # Errors
    ///
    /// Data that are too short or too long, or hold text that is not UTF-8 or too long. The
    /// stream is still in step.
    pub fn decode(number: u32, data: &'a [u8]) -> Result<Self, OptionError> {
        let mut rest = Rest(data);
        Ok(match number {
            option::EXPORT_NAME => ClientOption::ExportName(rest.text(data.len())?),
            // `ABORT` is valid with any data.
            option::ABORT => ClientOption::Abort,
            option::LIST => rest.end(ClientOption::List)?,
            option::STARTTLS => rest.end(ClientOption::StartTls)?,
            option::STRUCTURED_REPLY => rest.end(ClientOption::StructuredReply)?,
            option::INFO => ClientOption::Info(rest.info()?),
            option::GO => ClientOption::Go(rest.info()?),
            option::LIST_META_CONTEXT => ClientOption::ListMetaContext(rest.meta()?),
            option::SET_META_CONTEXT => ClientOption::SetMetaContext(rest.meta()?),
            unknown => ClientOption::Unknown(unknown),
        })
    }
}

const SHORT: OptionError = OptionError("the option's data end too early");

/// The part of a message that is not decoded yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.number().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.number().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number().map(u64::from_be_bytes)
    }

    fn text(&mut self, length: usize) -> Result<&'a str, OptionError> {
        let bytes = self.take(length).ok_or(SHORT)?;
        if length > STRING_BYTES_MAX {
            return Err(OptionError("a name or query is longer than 4096 bytes"));
        }
        std::str::from_utf8(bytes).map_err(|_| OptionError("a name or query is not UTF-8"))
    }

    /// A length and the text of that length.
    fn counted_text(&mut self) -> Result<&'a str, OptionError> {
        let length = self.u32().ok_or(SHORT)?;
        self.text(usize::try_from(length).map_err(|_| SHORT)?)
    }

    fn end<R>(&self, value: R) -> Result<R, OptionError> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(OptionError("the option has more data than it should"))
        }
    }

    fn info(&mut self) -> Result<InfoRequest<'a>, OptionError> {
        let mut request = InfoRequest { name: self.counted_text()?, ..Default::default() };
        for _ in 0..self.u16().ok_or(SHORT)? {
            match self.u16().ok_or(SHORT)? {
                info::NAME => request.canonical_name = true,
                info::DESCRIPTION => request.description = true,
                info::BLOCK_SIZE => request.block_size = true,
                // The reply always has `EXPORT`; unknown requests may be ignored.
                _ => {}
            }
        }
        self.end(request)
    }

    fn meta(&mut self) -> Result<MetaRequest<'a>, OptionError> {
        let name = self.counted_text()?;
        let count = self.u32().ok_or(SHORT)?;
        let queries = Queries(self.0);
        // The count may lie: the loop ends where the data do.
        for _ in 0..count {
            self.counted_text()?;
        }
        self.end(MetaRequest { name, queries })
    }
}

/// Appends a reply of type `kind` to option number `option`, with its data in pieces.
pub fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[&[u8]]) {
    let length: usize = data.iter().map(|piece| piece.len()).sum();
    let length = u32::try_from(length).expect("replies to options are short");
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    for field in [option, kind, length] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    for piece in data {
        out.extend_from_slice(piece);
    }
}

/// Appends the reply to a successful `EXPORT_NAME`.
pub fn export_name_reply(out: &mut Vec<u8>, size: u64, flags: u16, no_zeroes: bool) {
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    if !no_zeroes {
        out.extend_from_slice(&[0; 124]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &[u8]) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes(), text].concat()
    }

    #[test]
    fn go_names_an_export_and_what_to_tell_about_it() {
        let data = [counted(b"db@monday"), vec![0, 3, 0, 3, 0, 0, 99, 99]].concat();
        let expected = InfoRequest { name: "db@monday", block_size: true, ..Default::default() };
        assert_eq!(ClientOption::decode(option::GO, &data), Ok(ClientOption::Go(expected)));
    }

    #[test]
    fn every_shortened_or_lengthened_option_is_refused() {
        let info = [counted(b"db"), vec![0, 1, 0, 3]].concat();
        let meta = [counted(b"db"), vec![0, 0, 0, 1], counted(b"base:allocation")].concat();
        for (number, data) in [
            (option::GO, &info),
            (option::INFO, &info),
            (option::SET_META_CONTEXT, &meta),
            (option::LIST_META_CONTEXT, &meta),
        ] {
            assert!(ClientOption::decode(number, data).is_ok());
            for length in 0..data.len() {
                assert_eq!(ClientOption::decode(number, &data[..length]), Err(SHORT));
            }
            let longer = [&data[..], &[0]].concat();
            assert!(ClientOption::decode(number, &longer).is_err());
        }
        for number in [option::LIST, option::STARTTLS, option::STRUCTURED_REPLY] {
            assert!(ClientOption::decode(number, &[]).is_ok());
            assert!(ClientOption::decode(number, &[0]).is_err());
        }
    }

    #[test]
    fn queries_come_in_order() {
        let data = [counted(b"db"), vec![0, 0, 0, 3], counted(b"a:"), counted(b""), counted(b"b")]
            .concat();
        let decoded = ClientOption::decode(option::LIST_META_CONTEXT, &data);
        let Ok(ClientOption::ListMetaContext(request)) = decoded else { panic!("{decoded:?}") };
        assert_eq!(request.name, "db");
        assert_eq!(Vec::from_iter(request.queries), ["a:", "", "b"]);
    }

    #[test]
    fn counts_that_lie_are_found_out() {
        let data = [counted(b""), vec![0xff; 4], vec![0; 64]].concat();
        assert_eq!(ClientOption::decode(option::SET_META_CONTEXT, &data), Err(SHORT));
        assert_eq!(ClientOption::decode(option::GO, &[0xff; 12]), Err(SHORT));
    }

    #[test]
    fn names_are_utf8_of_bounded_length() {
        assert!(ClientOption::decode(option::EXPORT_NAME, b"\xff").is_err());
        let long = vec![b'x'; STRING_BYTES_MAX + 1];
        assert!(ClientOption::decode(option::EXPORT_NAME, &long).is_err());
        assert!(ClientOption::decode(option::EXPORT_NAME, &long[1..]).is_ok());
    }

    #[test]
    fn client_flags_that_were_not_offered_are_refused() {
        assert!(ClientFlags::decode(&[0, 0, 0, 3]).is_ok());
        assert!(ClientFlags::decode(&[0, 0, 0, 4]).is_err());
        assert!(ClientFlags::decode(&[0x80, 0, 0, 3]).is_err());
    }
}
