//! A client that cannot be served hears why, in the words of the server: too many clients, no such
//! volume, no TLS.

use crate::real_support::store::TestStore;
use crate::real_support::tools;

#[test]
fn real_clients_hear_why_they_were_turned_away() {
    let name = "real_clients_hear_why_they_were_turned_away";
    if !tools::present(name, &["nbdinfo", "nbdcopy", "qemu-img"]) {
        return;
    }
    let store = TestStore::new("64M", "8M");
    let server = store.serve_with("--clients-max 2");
    let refused = |words: &[&str], parts: &[&str]| {
        let said = tools::run(tools::command(words[0]).args(&words[1..]).env("LIBNBD_DEBUG", "1"));
        assert_eq!(said.code, Some(1), "{said:?}");
        for part in parts {
            assert!(said.err.contains(part), "no {part:?} in {}", said.err);
        }
    };
    refused(&["nbdinfo", &store.uri("nosuch")], &["nosuch"]);
    let clients = [store.client("v"), store.client("v")];
    let why = "this server has 2 clients already";
    let uri = store.uri("v");
    refused(&["qemu-img", "info", &uri], &["Denied by server", why]);
    // These have words of their own; nbdinfo has the server's where it is asked to say more.
    refused(&["nbdcopy", &uri, "null:"], &["server policy prevents"]);
    refused(&["nbdinfo", &uri], &[why]);
    drop(clients);
    let heard = || tools::run(tools::command("nbdinfo").arg(store.uri("v"))).code == Some(0);
    crate::support::wait_until("there is a place again", heard);
    server.stop();
}
