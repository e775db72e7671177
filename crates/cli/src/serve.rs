//! The `serve` command: a store, its control socket, and NBD clients, on one thread.

mod announce;
mod clients;
mod lines;
mod watch;

use std::rc::Rc;
use std::time::Duration;

use clients::Clients;
use futures_lite::future::{or, pending};
use lines::Lines;
use mjolnir_device::Runtime;
use mjolnir_engine::{OpenOptions, ReclaimOptions, WarmState};
use mjolnir_host::{
    DeviceOptions, Direct, HostError, HostErrorKind, HostRuntime, IoChoice, Listener, Readiness,
    Recorder, SOCKET_PATH_BYTES_MAX, Shutdown, TLS_BUILT_IN, Tls, TlsKeys, Warm, WarmPlace,
    WarmReport, inherited_listeners, is_loopback, may_record, raise_open_files_limit,
    run as run_host, tell_service_manager,
};
use mjolnir_store::Maintenance;

use crate::arguments::{NbdAddress, ServeOptions};
use crate::complaints::{complain, write_aside};
use crate::control;
use crate::door;
use crate::failure::Failure;
use crate::handle::{Circumstances, Serving};
use crate::interrupt::SAME_SIGNAL;
use crate::output::count;
use crate::recovered;

/// How long requests in flight may take to end once the server is told to stop.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// Open files that are not for clients: the store, doors, those who control it, a recording.
const FILES_KEPT: u64 = 64;
/// Who may use the control socket: its owner.
const CONTROL_MODE: u32 = 0o600;

/// Serves a store until a signal ends it.
pub fn run(mut options: ServeOptions, json: bool) -> Result<(), Failure> {
    // Before anything else opens files.
    let inherited = inherited_listeners()?;
    write_aside().map_err(|error| Failure::new(format!("starting a thread: {error}")))?;
    let files_max = raise_open_files_limit().saturating_sub(FILES_KEPT).max(1);
    if u64::from(options.clients_max) > files_max {
        complain(&format!(
            "warning: this process may have few files open, so it lets in {} at most; \
             raise the hard limit (ulimit -Hn, or LimitNOFILE= of the service)",
            count(files_max, "client")
        ));
        options.clients_max = files_max as u32;
    }
    let tls_keys = options.tls_keys();
    let tls = tls_keys.as_ref().map(Tls::load).transpose()?;
    let addresses = addresses(&options, &inherited, tls_keys.as_ref())?;
    let is_activated = !inherited.is_empty();
    if let Some(file) = &options.record {
        // Before the store is opened, which may take its time.
        may_record(file, options.record_force).map_err(unrecorded)?;
    }
    run_host(async move |runtime: HostRuntime| {
        let shutdown = Shutdown::new()?;
        let opening = async {
            door::must_exist(&options.store)?;
            let (device, engine) = (device_options(&options), engine_options(&options));
            let warm = &options.warm_log.0;
            let opened =
                door::open_patiently(&options.store, device, &engine, warm, &runtime, door::warn);
            opened.await.map(Some)
        };
        // A store that is being opened is as after a crash: it can be left so at any time.
        let opened = or(opening, async {
            shutdown.requested().await;
            Ok(None)
        });
        let Some(opened) = opened.await? else { return Ok(()) };
        let engine = opened.engine;
        recovered::tell(&engine, &opened.warm, !options.read_only);
        opened.given_up.iter().for_each(recovered::tell_given_up);
        if let Err(failure) = tell_of_warm_log(&options, engine.warm_log(), &opened.warm) {
            let _ = engine.close().await;
            return Err(failure);
        }
        let recorder = Recorder::new(runtime.clone());
        let (users, read_only) = (Rc::default(), options.read_only);
        let (recording, world) = (recorder.clone(), runtime.clone());
        let serving = Serving { recorder: recording, users, read_only, runtime: world };
        let circumstances = Circumstances {
            served: Some(serving.clone()),
            warnings: opened.warnings,
            warm: opened.warm,
        };
        let doors = async {
            let doors = listen(&options, addresses, inherited)?;
            record(&options, &recorder).await?;
            Ok(doors)
        };
        match doors.await {
            Ok((control, doors)) => {
                tell_of_streams(&options, &engine);
                let lines = Rc::new(Lines::new(runtime.clone()));
                let memory = clients::Memory {
                    payloads: engine.client_buffers(),
                    inputs: engine.client_inputs(),
                };
                let (store, lines_of) = (engine.clone(), lines.clone());
                let clients = Clients::new(store, memory, serving, &options, tls, lines_of);
                let clients = Rc::new(clients);
                let time = Duration::from_secs(options.control_time.into());
                let (controlled, world) = (engine.clone(), runtime.clone());
                let is_controlled = control.is_some();
                let control = async move {
                    let Some(control) = control else { return pending().await };
                    control::answer_all(control, controlled, circumstances, world, time).await
                };
                let served = Served {
                    store: engine,
                    recorder,
                    runtime,
                    clients,
                    lines,
                    is_controlled,
                    is_activated,
                };
                let work = attend(&options, &served, doors, &shutdown, json);
                // The control socket answers until the store is closed.
                or(work, async {
                    control.await;
                    Ok(())
                })
                .await
            }
            Err(failure) => {
                // What could not be listened on, or recorded to, is the failure to tell.
                let _ = engine.close().await;
                Err(failure)
            }
        }
    })
}

/// Says so if what is acknowledged does not survive a crash of this server, though it should, or lies in another
/// place than one would think. Fails where a folder was named for it that does not do.
fn tell_of_warm_log(
    options: &ServeOptions,
    warm_log: WarmState,
    report: &WarmReport,
) -> Result<(), Failure> {
    report.notes.iter().for_each(|note| complain(&format!("warning: {note}")));
    let WarmState::Missing(why) = warm_log else { return Ok(()) };
    if let Warm::Keep(WarmPlace::Folder(folder)) = &options.warm_log.0 {
        return Err(Failure::new(format!(
            "the warm log cannot lie in {}, as --warm-log says ({why}); name a folder of a memory file system (tmpfs) \
             with room, where this user may write, or leave it to --warm-log auto, or go without it by --warm-log off",
            folder.display()
        )));
    }
    complain(&format!(
        "warning: if this server crashes, writes that it acknowledged and no flush has covered are lost, since no \
         memory outlives it: {why}; name a folder of a memory file system by --warm-log"
    ));
    Ok(())
}

/// Says so if clients' writes are not spread as they were asked to be.
fn tell_of_streams(options: &ServeOptions, store: &impl Maintenance) {
    let streams = store.stats().client_streams;
    if streams < options.streams.into() {
        complain(&format!(
            "warning: --streams {} is not in force, but {streams}: either {} gives each block a stream by itself, \
             or the device can have no more zones open",
            options.streams, options.placement
        ));
    }
}

/// What is served, and by what.
struct Served<S> {
    store: S,
    recorder: Rc<Recorder>,
    runtime: HostRuntime,
    clients: Rc<Clients<S>>,
    lines: Rc<Lines<HostRuntime>>,
    /// Whether there is a control socket.
    is_controlled: bool,
    /// Whether another program passed sockets to serve.
    is_activated: bool,
}

/// Begins to record, if that is wanted.
async fn record(options: &ServeOptions, recorder: &Recorder) -> Result<(), Failure> {
    let Some(file) = &options.record else { return Ok(()) };
    let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    recorder.start(&file, options.record_force).await.map_err(unrecorded)
}

fn unrecorded(error: HostError) -> Failure {
    match error.kind {
        HostErrorKind::Exists => {
            Failure::new(format!("{error} (--record-force replaces an older recording)"))
        }
        _ => Failure::from(error),
    }
}

/// From readiness to the closed store.
async fn attend<S: Maintenance + Clone>(
    options: &ServeOptions,
    served: &Served<S>,
    doors: Vec<Listener>,
    shutdown: &Shutdown,
    json: bool,
) -> Result<(), Failure> {
    let Served { store, recorder, runtime, clients, lines, is_controlled, is_activated } = served;
    announce::ready(options, store, &doors, json, *is_controlled, *is_activated)?;
    for door in doors {
        runtime.spawn(clients.clone().accept_all(door));
    }
    let stop = clients.stopping();
    let (watched, recorded, world) = (store.clone(), recorder.clone(), runtime.clone());
    runtime.spawn(watch::watch(watched, recorded, world, lines.clone(), stop));
    tell(Readiness::Ready);
    shutdown.requested().await;
    tell(Readiness::Stopping);
    clients.stop();
    let ending = async {
        or(clients.all_gone(), runtime.sleep(DRAIN_TIME)).await;
        // The store first: what a recording is written to may hang.
        let closed = store.close().await.map_err(Failure::from);
        lines.end();
        end_recording(recorder, runtime).await;
        closed
    };
    let told = runtime.now();
    let impatient = async {
        shutdown.requested().await;
        while runtime.now().since(told) < SAME_SIGNAL {
            shutdown.requested().await;
        }
        Err(Failure::new(
            "stopped at once by a second signal; acknowledged and flushed writes are safe, and the \
             next opening replays them",
        ))
    };
    or(ending, impatient).await
}

/// Ends the recording, if one is being made, unless that takes for ever.
async fn end_recording(recorder: &Recorder, runtime: &HostRuntime) {
    if !recorder.recording().is_some_and(|recording| recording.active) {
        return;
    }
    let ended = async { recorder.stop().await.err().map(|error| error.to_string()) };
    let late = async {
        runtime.sleep(DRAIN_TIME).await;
        Some(format!("the recording is not written after {DRAIN_TIME:?}; its end may be lost"))
    };
    if let Some(why) = or(ended, late).await {
        complain(&format!("warning: {why}"));
    }
}

fn tell(readiness: Readiness) {
    if let Err(error) = tell_service_manager(readiness) {
        complain(&format!("warning: {error}"));
    }
}

fn device_options(options: &ServeOptions) -> DeviceOptions {
    use crate::arguments::{Io, When};
    DeviceOptions {
        read_only: options.read_only,
        io: match options.io {
            Io::Auto => IoChoice::Auto,
            Io::Uring => IoChoice::Uring,
            Io::Pool => IoChoice::Pool,
        },
        direct: match options.direct {
            When::Auto => Direct::Auto,
            When::Never => Direct::Never,
        },
        ..DeviceOptions::default()
    }
}

fn engine_options(options: &ServeOptions) -> OpenOptions {
    OpenOptions {
        read_only: options.read_only,
        client_streams: options.streams,
        placement: options.placement.clone(),
        memory_bytes: options.memory,
        patience: Duration::from_secs(options.device_wait.into()),
        reclaim: ReclaimOptions {
            start_utilization: options.reclaim_start,
            candidate_threshold: options.reclaim_threshold,
            policy: options.policy.clone(),
            scan_cpu_max: options.scan_cpu,
            ..ReclaimOptions::default()
        },
        ..OpenOptions::default()
    }
}

/// Where to listen, besides inherited sockets. Refuses what would serve the store to strangers.
fn addresses(
    options: &ServeOptions,
    inherited: &[Listener],
    tls: Option<&TlsKeys>,
) -> Result<Vec<NbdAddress>, Failure> {
    let mut addresses = options.nbd.clone();
    if addresses.is_empty() && inherited.is_empty() {
        let mut path = options.store.clone().into_os_string();
        path.push(".sock");
        addresses.push(NbdAddress::Unix(path.into()));
    }
    let asked = addresses.iter().filter_map(|address| match address {
        NbdAddress::Tcp(address) => Some(*address),
        NbdAddress::Unix(_) => None,
    });
    let passed = inherited.iter().filter_map(Listener::tcp_address);
    let Some(wide) = asked.chain(passed).find(|address| !is_loopback(address)) else {
        return Ok(addresses);
    };
    match tls {
        None => Err(Failure::new(format!(
            "{wide} can be reached from other machines, and no TLS keeps strangers out; {}listen \
             on 127.0.0.1 or on a unix socket, and forward it over ssh",
            match TLS_BUILT_IN {
                true => "add --tls-psk or --tls-certificates, or ",
                false => "build this program with TLS (`--features tls`), or ",
            }
        ))),
        Some(TlsKeys::Certificates { verify_clients: false, .. }) => {
            complain(&format!(
                "warning: whoever reaches {wide} may use this store: add --tls-verify-client to \
                 let only clients with a certificate in"
            ));
            Ok(addresses)
        }
        Some(_) => Ok(addresses),
    }
}

/// Opens the control socket, and then the doors for clients.
fn listen(
    options: &ServeOptions,
    addresses: Vec<NbdAddress>,
    inherited: Vec<Listener>,
) -> Result<(Option<Listener>, Vec<Listener>), Failure> {
    let mut uncontrolled = None;
    let control = match Listener::unix(&door::control_path(&options.store), CONTROL_MODE) {
        Ok(control) => Some(control),
        // Another one serves it for reading, too.
        Err(error)
            if error.kind == HostErrorKind::Busy
                && door::knock(&options.store).is_ok_and(|server| server.is_some()) =>
        {
            return Err(door::busy(&options.store, None).into());
        }
        Err(error) if options.read_only && error.kind == HostErrorKind::Unwritable => {
            uncontrolled = Some(error);
            None
        }
        Err(error) => return Err(error.into()),
    };
    let mut doors = inherited;
    for address in addresses {
        doors.push(match address {
            NbdAddress::Unix(path) => {
                if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
                    complain(&format!(
                        "warning: the path of the socket {} is longer than the \
                         {SOCKET_PATH_BYTES_MAX} bytes that most clients can connect to; name a \
                         shorter one by --nbd unix:PATH",
                        path.display()
                    ));
                }
                Listener::unix(&path, options.socket_mode).map_err(|error| match error.kind {
                    HostErrorKind::Unwritable => {
                        Failure::new(format!("{error}; name another place by --nbd unix:PATH"))
                    }
                    _ => error.into(),
                })?
            }
            NbdAddress::Tcp(address) => Listener::tcp(address)?,
        });
    }
    if let Some(error) = uncontrolled {
        complain(&format!(
            "warning: {error}: so it is served without a control socket; commands look at the store themselves, \
             and tell nothing of this server or its clients"
        ));
    }
    Ok((control, doors))
}
