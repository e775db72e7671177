//! Serves a volume that lives in memory, for trying clients and measuring the protocol alone:
//!
//! `cargo run --release -p mjolnir-nbd --example memory_server -- /tmp/nbd.sock 1024`
//!
//! listens on that unix socket with a volume of so many MiB, called `default`, and a read-only
//! snapshot of it, `default@empty`.

use std::rc::Rc;

use async_executor::LocalExecutor;
use async_io::Async;
use mjolnir_nbd::{Options, serve};

#[allow(dead_code)] // The tests use more of it.
#[path = "../tests/support/memory.rs"]
mod memory;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "/tmp/mjolnir-nbd.sock".to_owned());
    let mebibytes: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1024);
    let store = Rc::new(memory::MemoryStore::with_default(mebibytes << 20));
    store.add("default@empty", mebibytes << 20, true);
    match std::fs::remove_file(&path) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let listener = Async::<std::os::unix::net::UnixListener>::bind(&path)?;
    eprintln!("serving {mebibytes} MiB of memory on nbd+unix:///default?socket={path}");
    let options = Options::default();
    let executor = Rc::new(LocalExecutor::new());
    async_io::block_on(executor.run(async {
        loop {
            let (stream, _) = listener.accept().await?;
            let (store, options) = (store.clone(), options.clone());
            let connection = async move {
                if let Err(why) = serve(&*store, stream, &options).await {
                    eprintln!("a connection ended: {why}");
                }
            };
            executor.spawn(connection).detach();
        }
    }))
}
