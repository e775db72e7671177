//! Both sides of TLS in one process: a client of OpenSSL on a thread of its own, over a socket
//! pair.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};

use async_io::Async;
use futures_lite::future::{block_on, zip};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use openssl::ssl::{Ssl, SslContext, SslMethod, SslStream, SslVersion};

use super::*;
use crate::Stream;

const KEY: [u8; 32] = [0x5a; 32];

/// A server whose clients know `alice`'s key.
fn server() -> Tls {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.psk");
    std::fs::write(&file, format!("alice:{}\n", "5a".repeat(32))).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    Tls::load(&TlsKeys::Psk { file }).unwrap()
}

/// A client who speaks this version and says that it is `name`.
fn client(socket: UnixStream, version: SslVersion, name: &'static str) -> SslStream<UnixStream> {
    let mut context = SslContext::builder(SslMethod::tls_client()).unwrap();
    // Old versions are off in the library unless asked for.
    context.set_security_level(0);
    context.set_cipher_list("ALL:PSK").unwrap();
    context.set_min_proto_version(Some(version)).unwrap();
    context.set_max_proto_version(Some(version)).unwrap();
    context.set_psk_client_callback(move |_, _, identity, key| {
        identity[..name.len()].copy_from_slice(name.as_bytes());
        identity[name.len()] = 0;
        key[..KEY.len()].copy_from_slice(&KEY);
        Ok(KEY.len())
    });
    SslStream::new(Ssl::new(&context.build()).unwrap(), socket).unwrap()
}

/// A socket for the server, and a client on a thread that does something with the other end.
fn with_client<T: Send + 'static>(
    act: impl FnOnce(UnixStream) -> T + Send + 'static,
) -> (Stream, JoinHandle<T>) {
    let (near, far) = UnixStream::pair().unwrap();
    (Stream::unix(Async::new(near).unwrap()), spawn(move || act(far)))
}

#[test]
fn versions_from_1_2_on_are_spoken_and_older_ones_are_not() {
    let tls = server();
    for (version, spoken) in [
        (SslVersion::TLS1_3, Some("TLSv1.3")),
        (SslVersion::TLS1_2, Some("TLSv1.2")),
        (SslVersion::TLS1_1, None),
        (SslVersion::TLS1, None),
    ] {
        let (stream, thread) = with_client(move |socket| {
            let mut client = client(socket, version, "alice");
            client.connect().map_err(|_| ())?;
            client.write_all(b"hail").map_err(|_| ())?;
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).map_err(|_| ())?;
            Ok::<_, ()>(answer)
        });
        let served = block_on(async {
            let mut stream = tls.accept(stream).await?;
            let mut word = [0; 4];
            stream.read_exact(&mut word).await?;
            stream.write_all(&word).await?;
            stream.close().await?;
            Ok::<_, io::Error>(format!("{stream:?}"))
        });
        let answer = thread.join().unwrap();
        match spoken {
            Some(name) => {
                assert_eq!(served.unwrap(), format!("TlsStream({name})"));
                assert_eq!(answer.unwrap(), b"hail");
            }
            None => {
                assert_eq!(served.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
                answer.unwrap_err();
            }
        }
    }
}

#[test]
fn a_name_that_is_not_known_is_refused_in_either_version() {
    let tls = server();
    for version in [SslVersion::TLS1_3, SslVersion::TLS1_2] {
        let (stream, thread) =
            with_client(move |socket| client(socket, version, "mallory").connect().is_ok());
        let error = block_on(tls.accept(stream)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert!(!thread.join().unwrap());
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_is_no_error_of_the_protocol() {
    let tls = server();
    for said in [&[][..], &[0x16, 3, 1], &[0x16, 3, 1, 0, 200, 1]] {
        let (stream, thread) = with_client(move |mut socket| socket.write_all(said).unwrap());
        let error = block_on(tls.accept(stream)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        thread.join().unwrap();
    }
    let (stream, thread) = with_client(|socket| {
        // Gone without a goodbye of TLS.
        client(socket, SslVersion::TLS1_3, "alice").connect().unwrap();
    });
    let end = block_on(async { tls.accept(stream).await?.read(&mut [0; 10]).await });
    assert!(matches!(end, Ok(0)), "{end:?}");
    thread.join().unwrap();
}

#[test]
fn both_directions_go_on_though_the_other_one_is_held_up() {
    const BYTES: usize = 20 << 20;
    let tls = server();
    for version in [SslVersion::TLS1_3, SslVersion::TLS1_2] {
        let (stream, thread) = with_client(move |socket| {
            let mut client = client(socket, version, "alice");
            client.connect().unwrap();
            let mut received = Vec::new();
            let mut piece = vec![0; 100_001];
            for (n, chunk) in vec![3; BYTES].chunks(70_001).enumerate() {
                client.write_all(chunk).unwrap();
                // Reads in bursts, so that the server's writes are held up again and again.
                if n % 16 == 15 {
                    while received.len() < n * 70_001 {
                        let count = client.read(&mut piece).unwrap();
                        received.extend_from_slice(&piece[..count]);
                    }
                }
            }
            while received.len() < BYTES {
                let count = client.read(&mut piece).unwrap();
                assert!(count > 0, "{} bytes came", received.len());
                received.extend_from_slice(&piece[..count]);
            }
            received
        });
        let sent: Vec<u8> = (0..BYTES).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect();
        let expected = sent.clone();
        block_on(async {
            let (mut reader, mut writer) =
                futures_lite::io::split(tls.accept(stream).await.unwrap());
            let write = async {
                for chunk in sent.chunks(123_457) {
                    writer.write_all(chunk).await.unwrap();
                }
                writer.flush().await.unwrap();
            };
            let read = async {
                let mut received = vec![0; BYTES];
                reader.read_exact(&mut received).await.unwrap();
                assert!(received.iter().all(|byte| *byte == 3));
            };
            zip(write, read).await;
        });
        assert!(thread.join().unwrap() == expected);
    }
}
