//! Transactions that their coordinator left without a decision: an operator lists them and decides, at rest and
//! while the store is served.

use bytes::Bytes;
use mjolnir_host::{DeviceOptions, HostRuntime, Warm, open_store, run as run_host};
use mjolnir_store::{Change, Member, Op, Store, TransactionId};

use crate::support::Folder;

const IDS: [TransactionId; 3] = [TransactionId(0xa), TransactionId(0xb), TransactionId(0xc)];

/// Prepares three, as a coordinator that then vanishes.
fn prepare(folder: &Folder) {
    let path = folder.path("s.mj");
    run_host(async move |runtime: HostRuntime| {
        let device = DeviceOptions::default();
        let opened =
            open_store(&path, device, Default::default(), &Warm::Off, &runtime, |_| ()).await;
        let store = opened.unwrap().engine;
        let to = store.find("v").unwrap().id;
        for (id, offset) in IDS.into_iter().zip([0, 4096, 8192]) {
            let data = Bytes::from(vec![7; 4096]);
            let snapshot =
                Change::CreateSnapshot { volume: "v".into(), name: format!("t{offset}") };
            let changes = vec![Change::Bytes(Op::Write { to, offset, data }), snapshot];
            store.prepare(id, changes).await.unwrap();
        }
        store.close().await.unwrap();
    });
}

fn decide(folder: &Folder) {
    let [a, b, c] = IDS.map(|id| id.to_string());
    let listed = folder.ok("transaction list s.mj");
    let first =
        format!("{a}  prepared, 4 KiB wait with it\n  write v:0+4096\n  create snapshot v@t0\n");
    assert!(listed.starts_with(&first), "{listed}");
    let json = folder.json("transaction list s.mj");
    assert_eq!(json.as_array().unwrap().len(), 3);
    assert_eq!((json[1]["id"].as_str(), json[1]["state"].as_str()), (Some(&*b), Some("prepared")));
    folder.refused("volume delete s.mj v", &["holds v", &a, "transaction list"]);
    folder.refused("transaction forget s.mj a", &[&a, "is prepared"]);
    folder.ok("transaction commit s.mj a");
    folder.ok("transaction abort s.mj b");
    folder.refused("transaction abort s.mj a", &[&a, "was committed"]);
    folder.refused("transaction commit s.mj b", &[&b, "there is no transaction"]);
    for order in ["abort", "forget"] {
        folder.refused(&format!("transaction {order} s.mj b"), &[&b, "there is no transaction"]);
    }
    folder.misused("transaction commit s.mj 0x1", &["hexadecimal"]);
    let listed = folder.ok("transaction list s.mj");
    assert!(listed.contains(&format!("{a}  committed\n")) && !listed.contains(&b), "{listed}");
    assert!(folder.ok("snapshot list s.mj").contains("v@t0"));
    folder.ok("transaction forget s.mj a");
    folder.ok(&format!("transaction abort s.mj {c}"));
    assert_eq!(folder.ok("transaction list s.mj"), "no transactions\n");
    assert_eq!(folder.json("transaction list s.mj"), serde_json::json!([]));
    folder.ok("snapshot delete s.mj v@t0");
}

#[test]
fn an_operator_decides_on_transactions_that_were_left() {
    let folder = Folder::with_store();
    prepare(&folder);
    decide(&folder);
    prepare(&folder);
    let server = folder.serve("");
    decide(&folder);
    server.stop();
    folder.ok("check s.mj");
}
