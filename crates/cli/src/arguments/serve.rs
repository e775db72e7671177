//! The options of `serve`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use mjolnir_engine::STREAMS_MAX;
use mjolnir_host::{TlsKeys, Warm, WarmPlace};

use super::policy::{PLACEMENT, VICTIM};
use super::values::{NbdAddress, memory, part};

/// Serve a store's volumes and snapshots over NBD.
///
/// Shuts down on SIGTERM, SIGINT and SIGHUP: finishes requests in flight, for at most five seconds,
/// and makes all acknowledged writes durable. A second signal, at least half a second later, ends
/// it at once. Other commands reach the server through its control socket, STORE.ctl, which only
/// its owner can use.
///
/// Requests to a deleted volume fail, and so do requests past the new end of a shrunk volume. A
/// service manager may pass sockets (LISTEN_FDS): the server serves these besides the --nbd
/// addresses, and reports on standard error that it is ready. Its standard output may be where a
/// client such as nbdcopy writes data.
#[derive(Debug, Args)]
pub struct ServeOptions {
    /// The store.
    pub store: PathBuf,
    /// Address to listen on: unix:PATH or tcp:HOST:PORT. Repeatable [default: unix:STORE.sock].
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<NbdAddress>,
    /// Permissions of the unix sockets, as an octal file mode.
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub socket_mode: u32,
    /// Demand TLS of all NBD clients, with the certificates in this folder: server-cert.pem and
    /// server-key.pem, which only its owner may read. Addresses that other machines reach need this
    /// option or --tls-psk.
    #[arg(long, value_name = "DIR", conflicts_with = "tls_psk")]
    pub tls_certificates: Option<PathBuf>,
    /// Admit only clients with a certificate that the authority in DIR/ca-cert.pem signed and that
    /// DIR/ca-crl.pem, if present, does not revoke. Otherwise certificates authenticate only the
    /// server.
    #[arg(long, requires = "tls_certificates")]
    pub tls_verify_client: bool,
    /// Demand TLS of all NBD clients, with one of the keys in this file, as `psktool` writes it:
    /// IDENTITY:HEXADECIMAL a line. Only its owner may read the file.
    #[arg(long, value_name = "FILE")]
    pub tls_psk: Option<PathBuf>,
    /// The most clients at once. A further client replaces the oldest client that has not chosen an
    /// export yet; if all have chosen, it is told that there are too many. With fewer clients, each
    /// has more memory: see --memory.
    #[arg(long, value_name = "COUNT", default_value = "1024",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub clients_max: u32,
    /// The most seconds from a client's connection to its choice of an export.
    #[arg(long, value_name = "SECONDS", default_value = "30",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub negotiation_time: u32,
    /// The most seconds that the control socket waits for a command's request.
    #[arg(long, value_name = "SECONDS", default_value = "60",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub control_time: u32,
    /// How many seconds requests wait while the device is away or there is no space below the store.
    /// After that, changes are refused until that is over.
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    pub device_wait: u32,
    /// Refuse changes, and write nothing to the store. If the store's folder is not writable
    /// either, there is no control socket.
    #[arg(long)]
    pub read_only: bool,
    /// Memory for the map, checksums, reclaim, unwritten data and clients' requests in flight
    /// together; at least 16M. A quarter of it is divided by --clients-max: each client has this
    /// share, or 16K if that is more. Requests longer than the share are handled in pieces.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub memory: u64,
    /// Place of the warm log, which keeps acknowledged but unflushed writes over a crash of this
    /// server (not of the machine) for the next server. `auto`: the service's runtime directory,
    /// /run/mjolnir or /dev/shm, if that is a memory file system. `off`: no warm log; discards
    /// writes left there. A folder: this folder or fail. The log takes all its memory at once: 128M
    /// of the default --memory.
    #[arg(long, value_name = "PLACE", default_value = "auto")]
    pub warm_log: WarmLog,
    /// Begin reclaim when this part of the store is in use.
    #[arg(long, value_name = "PART", default_value = "50%", value_parser = part)]
    pub reclaim_start: f64,
    /// Reclaim only segments of which at most this part is live; 100% permits any segment.
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
    /// Record the requests of NBD clients, with times, in this file: reads, writes, trims, zeroing
    /// and flushes, but no data. `mjolnir trace info` reads it. If the file can no longer be
    /// written, for example because its disk is full, the recording ends and the server continues.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Replace an older recording.
    #[arg(long, requires = "record")]
    pub record_force: bool,
    /// The way to reach the device: io_uring, a pool of threads, or the first that works.
    #[arg(long, value_name = "WAY", default_value = "auto")]
    pub io: Io,
    /// When to bypass the page cache: where the file system can, or never.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub direct: When,
}

impl ServeOptions {
    /// The TLS keys; `None` without TLS.
    pub fn tls_keys(&self) -> Option<TlsKeys> {
        let verify_clients = self.tls_verify_client;
        match (self.tls_certificates.clone(), self.tls_psk.clone()) {
            (Some(folder), _) => Some(TlsKeys::Certificates { folder, verify_clients }),
            (None, Some(file)) => Some(TlsKeys::Psk { file }),
            (None, None) => None,
        }
    }
}

/// The option `--warm-log`.
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
