//! Certificates, from a folder whose files are named as other NBD programs name them.

use std::io::ErrorKind;
use std::path::Path;

use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::{SslContextBuilder, SslVerifyMode};
use openssl::x509::store::X509Lookup;
use openssl::x509::verify::X509VerifyFlags;
use openssl::x509::{X509, X509Name};
use openssl::{ssl::SslFiletype, stack::Stack};

use super::secrets::read_secret;
use crate::{HostError, HostErrorKind};

const SERVER_CERTIFICATE: &str = "server-cert.pem";
const SERVER_KEY: &str = "server-key.pem";
const AUTHORITY: &str = "ca-cert.pem";
const REVOKED: &str = "ca-crl.pem";

/// Has the server show the certificate in `folder`.
pub(super) fn show(context: &mut SslContextBuilder, folder: &Path) -> Result<(), HostError> {
    let path = folder.join(SERVER_CERTIFICATE);
    let chain = certificates(&path)?;
    let (own, others) = chain.split_first().expect("none is an error");
    let wrong = |path: &Path| {
        let name = path.display().to_string();
        move |error: ErrorStack| invalid(format!("the certificate {name} cannot be used: {error}"))
    };
    context.set_certificate(own).map_err(wrong(&path))?;
    for other in others {
        context.add_extra_chain_cert(other.clone()).map_err(wrong(&path))?;
    }
    let path = folder.join(SERVER_KEY);
    let pem = read_secret(&path, "private key")?;
    // No password: a starting server cannot ask for one.
    let key = PKey::private_key_from_pem_callback(&pem, |_| Ok(0)).map_err(|_| {
        invalid(format!(
            "{} holds no private key in PEM form, or needs a password for it",
            path.display()
        ))
    })?;
    context.set_private_key(&key).and_then(|()| context.check_private_key()).map_err(|_| {
        invalid(format!(
            "the private key {} is not that of the certificate {SERVER_CERTIFICATE} beside it",
            path.display()
        ))
    })
}

/// Has the server admit only clients with a certificate signed by the authority in `folder`.
pub(super) fn demand(context: &mut SslContextBuilder, folder: &Path) -> Result<(), HostError> {
    let path = folder.join(AUTHORITY);
    let mut names = Stack::<X509Name>::new().map_err(internal)?;
    for authority in certificates(&path)? {
        names.push(authority.subject_name().to_owned().map_err(internal)?).map_err(internal)?;
        context.cert_store_mut().add_cert(authority).map_err(internal)?;
    }
    context.set_client_ca_list(names);
    let path = folder.join(REVOKED);
    // Any file at the path, even an unreadable one, must not count as absent.
    let absent = path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if !absent {
        let store = context.cert_store_mut();
        store.set_flags(X509VerifyFlags::CRL_CHECK).map_err(internal)?;
        let lookup = store.add_lookup(X509Lookup::file()).map_err(internal)?;
        lookup.load_crl_file(&path, SslFiletype::PEM).map_err(|_| {
            invalid(format!("{} holds no list of revoked certificates in PEM form", path.display()))
        })?;
    }
    context.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    Ok(())
}

/// The certificates in a file, at least one.
fn certificates(path: &Path) -> Result<Vec<X509>, HostError> {
    let name = path.display();
    let pem =
        std::fs::read(path).map_err(HostError::of(format!("reading the certificate {name}")))?;
    match X509::stack_from_pem(&pem) {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(invalid(format!("{name} holds no certificate in PEM form"))),
    }
}

fn invalid(why: String) -> HostError {
    HostError::new(HostErrorKind::Invalid, why)
}

/// An error of the library on a valid request.
pub(super) fn internal(error: ErrorStack) -> HostError {
    HostError::new(HostErrorKind::Io, format!("setting up TLS: {error}"))
}
