//! The line that says that a server is ready, and where.

use std::path::PathBuf;

use mjolnir_host::Listener;
use mjolnir_store::Store;
use serde_json::json;

use crate::arguments::ServeOptions;
use crate::complaints::print_aside;
use crate::door;
use crate::failure::Failure;
use crate::output;

/// Volumes whose addresses are told; a store may have thousands.
const VOLUMES_MAX: usize = 8;

/// Tells the addresses of volumes, on one line; in JSON with the control socket, if there is one. The
/// line goes to standard output, or to standard error if `is_activated`: a program that passed sockets
/// may have lent its own output, to which it writes data.
pub fn ready(
    options: &ServeOptions,
    store: &impl Store,
    doors: &[Listener],
    json: bool,
    is_controlled: bool,
    is_activated: bool,
) -> Result<(), Failure> {
    let volumes: Vec<String> = store
        .targets()
        .into_iter()
        .map(|target| target.name)
        .filter(|name| !name.contains('@'))
        .collect();
    let told = volumes.iter().take(VOLUMES_MAX);
    let secured = options.tls_keys().is_some();
    // Without a volume yet, where one will be.
    let names: Vec<&str> = match volumes.is_empty() {
        true => vec![""],
        false => told.map(String::as_str).collect(),
    };
    let uris: Vec<String> = names
        .iter()
        .flat_map(|name| doors.iter().map(move |door| uri(door, name, secured)))
        .collect();
    let line = if json {
        let control =
            is_controlled.then(|| door::control_path(&options.store).display().to_string());
        json!({ "ready": uris, "control": control, "volumes": volumes.len() }).to_string()
    } else {
        let more = match volumes.len().saturating_sub(VOLUMES_MAX) {
            0 => String::new(),
            more => format!(" and {}", output::count(more as u64, "more volume")),
        };
        format!("ready: {}{more}", uris.join(" "))
    };
    if is_activated {
        print_aside(line);
        return Ok(());
    }
    output::print(&(line + "\n"))
}

/// The URI of an export, as NBD clients take it.
fn uri(door: &Listener, export: &str, secured: bool) -> String {
    let scheme = if secured { "nbds" } else { "nbd" };
    match door.address().split_once(':') {
        Some(("unix", path)) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
            let path = escaped(&path.display().to_string());
            format!("{scheme}+unix:///{}?socket={path}", escaped(export))
        }
        Some((_, address)) => format!("{scheme}://{address}/{}", escaped(export)),
        None => door.address().to_owned(),
    }
}

/// Escapes what has a meaning in a URI.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'@' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_uri_is_escaped() {
        assert_eq!(escaped("/run/a b?&%.sock"), "/run/a%20b%3F%26%25.sock");
    }
}
