//! The way to a store: its server if there is one, else the store itself.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_lite::future::or;
use mjolnir_device::Runtime;
use mjolnir_engine::OpenOptions;
use mjolnir_host::{
    DeviceOptions, HostRuntime, LocalStore, Opened, Warm, Warning, connect_unix, open_store,
};
use mjolnir_store::{Error, ErrorKind, Store};

use crate::complaints::complain;
use crate::handle::{Circumstances, handle};
use crate::payload;
use crate::recovered;
use crate::request::{Message, Refusal, Request, Response};

/// The longest line that a server may answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// How long a server may say nothing before whoever waits is told.
const LATE: Duration = Duration::from_secs(5);
/// How long to wait for another command to let go of the store.
const BUSY_WAIT: Duration = Duration::from_secs(2);
const BUSY_RETRY: Duration = Duration::from_millis(50);
/// How often to look whether to stop.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// A store that can be asked.
pub enum Door {
    /// Its server answers.
    Served(BufReader<UnixStream>),
    /// It is open here.
    Local(LocalStore, Circumstances),
}

/// Where the control socket of a store is: beside it, whatever links lead there.
pub fn control_path(store: &Path) -> PathBuf {
    let mut path = store.canonicalize().unwrap_or_else(|_| store.to_owned()).into_os_string();
    path.push(".ctl");
    path.into()
}

/// Connects to the server of a store, if one answers.
pub fn knock(store: &Path) -> Result<Option<UnixStream>, Error> {
    let control = control_path(store);
    match connect_unix(&control) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            // Nobody listens; or the store's name leaves no room for the socket's, so there is none.
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename => Ok(None),
            io::ErrorKind::PermissionDenied => Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "the control socket {} is not yours to use; run this as the user who serves \
                     the store",
                    control.display()
                ),
            )),
            io::ErrorKind::WouldBlock => Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "the server of the store has let nobody in at {} for a while, and too many wait there \
                     already: it hangs or was stopped; let it go on, or end it",
                    control.display()
                ),
            )),
            _ => Err(Error::new(
                ErrorKind::Io,
                format!("connecting to the control socket {}: {error}", control.display()),
            )),
        },
    }
}

/// Says what to do where no store is.
pub fn must_exist(store: &Path) -> Result<(), Error> {
    match store.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "there is no store at {0}; make one with `mjolnir format {0} --size 16G`, or name \
                 another path",
                store.display()
            ),
        )),
        _ => Ok(()),
    }
}

/// Tells what is odd about a store's container.
pub fn warn(warning: &Warning) {
    complain(&format!("warning: {warning}"));
}

/// Opens a store that another process may be about to let go of, and tells what is odd about it.
pub async fn open_patiently(
    store: &Path,
    device: DeviceOptions,
    options: &OpenOptions,
    warm: &Warm,
    runtime: &HostRuntime,
    tell: impl Fn(&Warning),
) -> Result<Opened, Error> {
    let begun = runtime.now();
    loop {
        match open_store(store, device, options.clone(), warm, runtime, &tell).await {
            Err(error) if error.kind == ErrorKind::Busy => {
                if runtime.now().since(begun) >= BUSY_WAIT {
                    return Err(busy(store, Some(&error)));
                }
                runtime.sleep(BUSY_RETRY).await;
            }
            outcome => return outcome,
        }
    }
}

/// What to say of a store that another process has open. `error` says how, if it was tried to be opened.
pub fn busy(store: &Path, error: Option<&Error>) -> Error {
    let (name, control) = (store.display(), control_path(store));
    let message = match (knock(store), error) {
        (Ok(Some(_)), _) | (_, None) => format!(
            "{name} is being served already, and its control socket {} answers; stop that server \
             first",
            control.display()
        ),
        (_, Some(Error { message, .. })) => format!(
            "{message}, but no control socket answers at {}; wait for that process to end, or stop it",
            control.display()
        ),
    };
    Error::new(ErrorKind::Busy, message)
}

impl Door {
    /// Finds the way to `store`, for that request.
    pub async fn open(
        store: &Path,
        request: &Request,
        runtime: &HostRuntime,
    ) -> Result<Self, Error> {
        must_exist(store)?;
        let begun = runtime.now();
        let options = OpenOptions {
            read_only: !request.changes(),
            // A check says what is lost of a store that does not open.
            salvage: matches!(request, Request::Check {}),
            ..OpenOptions::default()
        };
        loop {
            if let Some(stream) = knock(store)? {
                return Ok(Door::Served(BufReader::new(stream)));
            }
            // It also says what lay in the part that a file has lost.
            let device = DeviceOptions { short: options.salvage, ..DeviceOptions::default() };
            let odd = RefCell::new(Vec::new());
            let tell = |warning: &Warning| odd.borrow_mut().push(warning.clone());
            let outcome =
                open_store(store, device, options.clone(), &Warm::TakeOver, runtime, tell).await;
            if outcome.is_err() || !request.warns() {
                odd.take().iter().for_each(warn);
            }
            match outcome {
                Ok(opened) => {
                    if !request.warns() {
                        recovered::tell(&opened.engine, &opened.warm, request.changes());
                    }
                    let Opened { warnings, warm, .. } = opened;
                    let circumstances = Circumstances { served: None, warnings, warm };
                    return Ok(Door::Local(opened.engine, circumstances));
                }
                // A server that is starting or ending, or another command.
                Err(error) if error.kind == ErrorKind::Busy => {
                    if runtime.now().since(begun) >= BUSY_WAIT {
                        return Err(busy(store, Some(&error)));
                    }
                    runtime.sleep(BUSY_RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks the store.
    pub async fn ask(
        &mut self,
        mut request: Request,
        progress: &dyn Fn(f64),
    ) -> Result<Response, Refusal> {
        match self {
            Door::Served(stream) => {
                let answer = ask_server(stream, request, progress, None)?;
                Ok(answer.expect("nothing stops it"))
            }
            Door::Local(engine, circumstances) => {
                payload::load(&mut request, engine.atomic_limit().1)?;
                handle(engine, circumstances, request, progress).await.map_err(Refusal::from)
            }
        }
    }

    /// The same until it is told to `stop`: then there is no answer, and a server has to be
    /// [knocked at again](Self::knock_again).
    pub async fn ask_until(
        &mut self,
        request: Request,
        stop: &AtomicBool,
        runtime: &HostRuntime,
    ) -> Result<Option<Response>, Refusal> {
        match self {
            Door::Served(stream) => ask_server(stream, request, &|_| {}, Some(stop)),
            Door::Local(engine, circumstances) => {
                let answer = async {
                    let answer = handle(engine, circumstances, request, &|_| {}).await;
                    answer.map(Some).map_err(Refusal::from)
                };
                let stopped = async {
                    while !stop.load(Ordering::SeqCst) {
                        runtime.sleep(STOP_LOOK).await;
                    }
                    Ok(None)
                };
                or(answer, stopped).await
            }
        }
    }

    /// Hangs up on a server, and connects to it again.
    pub fn knock_again(&mut self, store: &Path) -> Result<(), Error> {
        if let Door::Served(stream) = self {
            let gone = || Error::new(ErrorKind::Closed, "the server of the store is gone");
            *stream = BufReader::new(knock(store)?.ok_or_else(gone)?);
        }
        Ok(())
    }

    /// Lets go of the store; what was changed is durable then.
    pub async fn close(self) -> Result<(), Error> {
        match self {
            Door::Served(_) => Ok(()),
            Door::Local(engine, _) => engine.close().await,
        }
    }
}

/// Reads a line of a server's, and says so if its first one takes long. `None` if it is told to stop before.
fn read_line(
    stream: &mut BufReader<UnixStream>,
    is_first: bool,
    stop: Option<&AtomicBool>,
) -> io::Result<Option<Vec<u8>>> {
    let period = if stop.is_some() { STOP_LOOK } else { LATE };
    let (mut line, mut waited) = (Vec::new(), Duration::ZERO);
    loop {
        let waits_long = is_first && waited < LATE;
        let timeout = (waits_long || stop.is_some()).then_some(period);
        // What goes wrong shows when it is read.
        let _ = stream.get_ref().set_read_timeout(timeout);
        let mut limited = stream.by_ref().take(ANSWER_BYTES_MAX - line.len() as u64);
        match limited.read_until(b'\n', &mut line) {
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) =>
            {
                if stop.is_some_and(|stop| stop.load(Ordering::SeqCst)) {
                    return Ok(None);
                }
                waited += period;
                if waits_long && waited >= LATE {
                    complain(&format!(
                        "the server has said nothing for {} seconds; still waiting for it (Ctrl-C ends that)",
                        LATE.as_secs()
                    ));
                }
            }
            other => return other.map(|_| Some(line)),
        }
    }
}

/// Nothing else runs in a program that asks a server, so this may wait.
fn ask_server(
    stream: &mut BufReader<UnixStream>,
    mut request: Request,
    progress: &dyn Fn(f64),
    stop: Option<&AtomicBool>,
) -> Result<Option<Response>, Refusal> {
    let lost = |why: String| {
        Refusal::from(Error::new(
            ErrorKind::Closed,
            format!("the server of the store went away before it answered ({why}); ask again"),
        ))
    };
    let mut sources = payload::announce(&mut request)?;
    let mut line = serde_json::to_string(&request).map_err(|error| lost(error.to_string()))?;
    line.push('\n');
    stream.get_mut().write_all(line.as_bytes()).map_err(|error| lost(error.to_string()))?;
    let mut is_first = true;
    loop {
        let line = read_line(stream, is_first, stop).map_err(|error| lost(error.to_string()))?;
        let Some(line) = line else { return Ok(None) };
        is_first = false;
        if !line.ends_with(b"\n") {
            return Err(lost(format!("{} bytes came", line.len())));
        }
        let message = serde_json::from_slice(&line).map_err(|error| {
            lost(format!("its answer makes no sense: {error}; is it of another version?"))
        })?;
        match message {
            Message::Send {} => {
                for source in std::mem::take(&mut sources) {
                    source.send(|piece| {
                        stream.get_mut().write_all(piece).map_err(|error| lost(error.to_string()))
                    })?;
                }
            }
            Message::Progress(part) => progress(part),
            Message::Answer(response) => return Ok(Some(response)),
            Message::Refused(refusal) => return Err(refusal),
        }
    }
}
