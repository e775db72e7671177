//! The options of `serve`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use mjolnir_engine::STREAMS_MAX;
use mjolnir_host::{TlsKeys, Warm, WarmPlace};

use super::policy::{PLACEMENT, VICTIM};
use super::values::{NbdAddress, memory, part};

/// How to serve a store.
///
/// Ends in order on SIGTERM, SIGINT and SIGHUP: requests in flight are finished, for at most five
/// seconds, and all acknowledged writes are made durable; a second signal, half a second later or more,
/// ends it at once. Other commands reach the server through its control socket, STORE.ctl, which is for
/// its owner alone.
///
/// A volume that is deleted while a client uses it has its requests fail, and so has the part past
/// the end of one that is made smaller. Started by a service manager that passes sockets
/// (LISTEN_FDS), it serves those, besides the ones named by --nbd, and says on standard error that it is
/// ready: its standard output may be where a client such as nbdcopy writes data.
#[derive(Debug, Args)]
pub struct ServeOptions {
    /// The store.
    pub store: PathBuf,
    /// Where to listen: unix:PATH or tcp:HOST:PORT. Repeatable [default: unix:STORE.sock].
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<NbdAddress>,
    /// Who may connect to the unix sockets, as an octal file mode.
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub socket_mode: u32,
    /// Demand TLS of all NBD clients, with the certificates in this folder: server-cert.pem and
    /// server-key.pem, which its owner alone may read. Needed to listen on addresses that other
    /// machines reach, unless --tls-psk is given.
    #[arg(long, value_name = "DIR", conflicts_with = "tls_psk")]
    pub tls_certificates: Option<PathBuf>,
    /// Admit only clients whose certificate the authority in DIR/ca-cert.pem signed, and
    /// DIR/ca-crl.pem, if it is there, does not revoke. Otherwise certificates prove the server to
    /// clients, and not clients to the server.
    #[arg(long, requires = "tls_certificates")]
    pub tls_verify_client: bool,
    /// Demand TLS of all NBD clients, with one of the keys in this file, as `psktool` writes it:
    /// IDENTITY:HEXADECIMAL a line. Its owner alone may read it.
    #[arg(long, value_name = "FILE")]
    pub tls_psk: Option<PathBuf>,
    /// Clients at once. One more takes the place of the oldest that has not chosen an export yet, and
    /// is told that there are too many if all have. Fewer have more memory each: see --memory.
    #[arg(long, value_name = "COUNT", default_value = "1024",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub clients_max: u32,
    /// How long a client may take from connecting to having chosen an export, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub negotiation_time: u32,
    /// How long a command may leave the control socket waiting for its request, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub control_time: u32,
    /// Refuse changes, and write nothing to the store. Where nothing can be written beside it either, there is no
    /// control socket.
    #[arg(long)]
    pub read_only: bool,
    /// Memory for the map, checksums, reclaim, unwritten data and what clients have in flight together;
    /// 16M at least. A quarter of it is divided among as many clients as there may be, for each of which
    /// there are 16K at least; longer requests are handled in pieces.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub memory: u64,
    /// Where acknowledged writes that no flush has covered survive a crash of this server (not of the machine), so
    /// that the next one has them: `auto` is the service's runtime directory, /run/mjolnir or /dev/shm, as
    /// far as that is a memory file system; `off` goes without, and gives up what was left there; a folder is the
    /// only one that will do.
    /// All of its memory is taken at once: 128M of the usual --memory.
    #[arg(long, value_name = "PLACE", default_value = "auto")]
    pub warm_log: WarmLog,
    /// Reclaim once this part of the store is in use.
    #[arg(long, value_name = "PART", default_value = "50%", value_parser = part)]
    pub reclaim_start: f64,
    /// Reclaim only segments of which at most this part is live; 100% takes any.
    #[arg(long, value_name = "PART", default_value = "95%", value_parser = part)]
    pub reclaim_threshold: f64,
    /// How to choose the segments to reclaim: a policy, with parameters where it takes some, as in
    /// `d-choices:choices=4`.
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "greedy",
        value_parser = VICTIM
    )]
    pub policy: String,
    /// The part of one core that scanning for live blocks may take while space is plentiful.
    #[arg(long, value_name = "PART", default_value = "30%", value_parser = part)]
    pub scan_cpu: f64,
    /// Which blocks are put together, so that they die together: clients' and relocated ones
    /// apart, or by what is known of each block's past. A policy, with parameters where it takes some, as
    /// in `dac:classes=4`.
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "apart",
        value_parser = PLACEMENT
    )]
    pub placement: String,
    /// Append points to spread clients' writes over, 1 to 8; for the placements `apart` and
    /// `together`, since others have as many as they need.
    #[arg(long, value_name = "COUNT", default_value = "1",
        value_parser = clap::value_parser!(u8).range(1..=i64::from(STREAMS_MAX)))]
    pub streams: u8,
    /// Record what NBD clients ask for, and when, in this file: reads, writes, trims, zeroing and
    /// flushes, but no data. `mjolnir trace info` reads it. If it can no longer be written, because
    /// its disk is full, it ends, and serving goes on.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Replace an older recording.
    #[arg(long, requires = "record")]
    pub record_force: bool,
    /// How to reach the device: by io_uring, by a pool of threads, or by what works.
    #[arg(long, value_name = "WAY", default_value = "auto")]
    pub io: Io,
    /// Whether to bypass the page cache: where the file system can, or never.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub direct: When,
}

impl ServeOptions {
    /// How the server and its clients are to know each other, if they are.
    pub fn tls_keys(&self) -> Option<TlsKeys> {
        let verify_clients = self.tls_verify_client;
        match (self.tls_certificates.clone(), self.tls_psk.clone()) {
            (Some(folder), _) => Some(TlsKeys::Certificates { folder, verify_clients }),
            (None, Some(file)) => Some(TlsKeys::Psk { file }),
            (None, None) => None,
        }
    }
}

/// Where acknowledged writes survive the server.
#[derive(Clone, Debug)]
pub struct WarmLog(pub Warm);

impl FromStr for WarmLog {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(WarmLog(match text {
            "auto" => Warm::Keep(WarmPlace::Usual),
            "off" => Warm::Off,
            folder if folder.starts_with('/') => Warm::Keep(WarmPlace::Folder(folder.into())),
            _ => return Err(format!("{text:?} is not auto, off, or the full path of a folder")),
        }))
    }
}

/// Ways to the device.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Io {
    /// io_uring where it is permitted, else threads.
    Auto,
    /// io_uring, or fail.
    Uring,
    /// A pool of threads.
    Pool,
}

/// When to bypass the page cache.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum When {
    /// Where the file system can.
    Auto,
    /// Never.
    Never,
}

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("{text:?} is no file mode: write octal digits, such as 660"))
}
