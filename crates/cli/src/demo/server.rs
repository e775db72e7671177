//! The server side: one thread with the engine and the NBD server, and a channel to tell it what
//! to do.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use async_channel::{Receiver, Sender};
use mjolnir_backends::{CreateOptions, FileDevice, HostDevice};
use mjolnir_device::Runtime;
use mjolnir_engine::{FormatOptions, OpenOptions};
use mjolnir_host::{HostRuntime, Listener, LocalStore, Stream};
use mjolnir_store::report::{CheckReport, Stats};
use mjolnir_units::BLOCK_SIZE;

use super::client::PATIENCE;

/// Only the user who runs the demo may connect.
const SOCKET_PERMISSIONS: u32 = 0o600;

/// How often it is looked whether the server has ended.
const NAP: Duration = Duration::from_millis(5);

/// A new store.
#[derive(Clone, Debug)]
pub struct NewStore {
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes in each segment.
    pub segment_bytes: u64,
    /// Name and bytes of its only volume.
    pub volume: (String, u64),
}

enum Command {
    Stats(mpsc::Sender<Stats>),
    Check(mpsc::Sender<Result<CheckReport>>),
    CreateSnapshot { volume: String, name: String, done: mpsc::Sender<Result<()>> },
    DeleteSnapshot { volume: String, name: String, done: mpsc::Sender<Result<()>> },
}

/// A running server. Dropping it closes the store and waits for that.
pub struct Server {
    admin: Option<Admin>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// A way to tell the server what to do, for any thread.
#[derive(Clone)]
pub struct Admin(Sender<Command>);

impl Server {
    /// Opens the store in `file` (makes it first, if `new`) and serves it on `socket`. Returns
    /// once clients can connect.
    pub fn start(
        file: &Path,
        socket: &Path,
        options: OpenOptions,
        new: Option<NewStore>,
    ) -> Result<Self> {
        let (commands, receiver) = async_channel::unbounded();
        let (ready, is_ready) = mpsc::channel();
        let (file, socket) = (file.to_owned(), socket.to_owned());
        let thread = thread::Builder::new().name("server".into()).spawn(move || {
            mjolnir_host::run(async |runtime: HostRuntime| {
                let opened = open(&runtime, &file, &socket, options, new).await;
                let (store, listener) = match opened {
                    Ok(opened) => opened,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return Ok(());
                    }
                };
                let _ = ready.send(Ok(()));
                serve(runtime, store, listener, receiver).await
            })
        })?;
        let server = Server { admin: Some(Admin(commands)), thread: Some(thread) };
        match is_ready.recv() {
            Ok(outcome) => outcome.map(|()| server),
            Err(_) => Err(server.why_gone()),
        }
    }

    /// The way to tell it what to do.
    pub fn admin(&self) -> &Admin {
        self.admin.as_ref().expect("taken only when the server is stopped")
    }

    /// Closes the store, so that it can be opened again. Clients still connected are cut off.
    pub fn close(mut self) -> Result<()> {
        self.stop()
    }

    /// Why it ended though nobody told it to.
    pub fn why_gone(mut self) -> anyhow::Error {
        self.stop().err().unwrap_or_else(|| anyhow!("the server ended by itself"))
    }

    fn stop(&mut self) -> Result<()> {
        // Other copies of the door may live on; the channel is closed for all.
        if let Some(Admin(commands)) = self.admin.take() {
            commands.close();
        }
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let patience = Instant::now() + PATIENCE;
        while !thread.is_finished() {
            ensure!(Instant::now() < patience, "the server did not end within {PATIENCE:?}");
            thread::sleep(NAP);
        }
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                Err(anyhow!("the server thread panicked: {text}"))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error was told by `close`, or another one is on its way to the user.
        let _ = self.stop();
    }
}

impl Admin {
    /// The store at a glance.
    pub fn stats(&self) -> Result<Stats> {
        self.ask(Command::Stats)
    }

    /// Checks the structure of the store.
    pub fn check(&self) -> Result<CheckReport> {
        self.ask(Command::Check)?
    }

    /// Takes a snapshot.
    pub fn create_snapshot(&self, volume: &str, name: &str) -> Result<()> {
        let (volume, name) = (volume.to_owned(), name.to_owned());
        self.ask(|done| Command::CreateSnapshot { volume, name, done })?
    }

    /// Removes a snapshot.
    pub fn delete_snapshot(&self, volume: &str, name: &str) -> Result<()> {
        let (volume, name) = (volume.to_owned(), name.to_owned());
        self.ask(|done| Command::DeleteSnapshot { volume, name, done })?
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> Result<T> {
        let (answer, answered) = mpsc::channel();
        self.0.send_blocking(command(answer)).context("the server has ended")?;
        answered.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => anyhow!("the server does not answer"),
            RecvTimeoutError::Disconnected => anyhow!("the server ended before it answered"),
        })
    }
}

async fn open(
    runtime: &HostRuntime,
    file: &Path,
    socket: &Path,
    options: OpenOptions,
    new: Option<NewStore>,
) -> Result<(LocalStore, Listener)> {
    let name = file.display();
    let device = || FileDevice::open(file, Default::default(), runtime).map(HostDevice::File);
    if let Some(new) = &new {
        let uuid = u128::from(runtime.random()) << 64 | u128::from(runtime.random());
        let create = CreateOptions {
            bytes: Some(new.bytes),
            zone_blocks: new.segment_bytes / BLOCK_SIZE,
            preallocate: false,
            uuid: uuid.to_le_bytes(),
            overwrite: false,
        };
        FileDevice::create(file, create).with_context(|| format!("creating {name}"))?;
        LocalStore::format(device()?, runtime.clone(), FormatOptions::default())
            .await
            .with_context(|| format!("formatting {name}"))?;
    }
    let store = LocalStore::open(device()?, runtime.clone(), options)
        .await
        .with_context(|| format!("opening the store in {name}"))?;
    if let Some(NewStore { volume: (volume, bytes), .. }) = &new {
        store
            .create_volume(volume, *bytes)
            .await
            .with_context(|| format!("creating volume {volume}"))?;
    }
    let listener = Listener::unix(socket, SOCKET_PERMISSIONS)?;
    Ok((store, listener))
}

/// Serves until the channel is closed, then closes the store.
async fn serve(
    runtime: HostRuntime,
    store: LocalStore,
    listener: Listener,
    commands: Receiver<Command>,
) -> Result<()> {
    let connections: Rc<RefCell<Vec<Stream>>> = Rc::default();
    runtime.spawn(accept(runtime.clone(), store.clone(), listener, connections.clone()));
    while let Ok(command) = commands.recv().await {
        runtime.spawn(execute(store.clone(), command));
    }
    connections.borrow().iter().for_each(Stream::disconnect);
    store.close().await.context("closing the store")
}

async fn accept(
    runtime: HostRuntime,
    store: LocalStore,
    listener: Listener,
    connections: Rc<RefCell<Vec<Stream>>>,
) {
    // If accepting fails, clients cannot connect and say so.
    while let Ok((stream, _)) = listener.accept().await {
        connections.borrow_mut().push(stream.clone());
        let store = store.clone();
        runtime.spawn(async move {
            // How a connection ended is for the client to say: it is the demo's own.
            let _ = mjolnir_nbd::serve(&store, stream, &mjolnir_nbd::Options::default()).await;
        });
    }
}

/// Carries a command out. Whoever asked may be gone by the time it is done.
async fn execute(store: LocalStore, command: Command) {
    match command {
        Command::Stats(answer) => drop(answer.send(store.stats())),
        Command::Check(answer) => drop(answer.send(store.check().await.map_err(Into::into))),
        Command::CreateSnapshot { volume, name, done } => {
            let created = store.create_snapshot(&volume, &name).await;
            drop(done.send(created.map(drop).map_err(Into::into)));
        }
        Command::DeleteSnapshot { volume, name, done } => {
            drop(done.send(store.delete_snapshot(&volume, &name).await.map_err(Into::into)));
        }
    }
}
