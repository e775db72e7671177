//! What the guide to backup and repair has operators type, as it stands there.

use crate::real_support::tools;
use crate::support::{Folder, program};

const GUIDE: &str = include_str!("../../../../docs/operating/backup-and-repair.md");

/// What is typed in a shell, block by block.
fn blocks() -> Vec<&'static str> {
    GUIDE.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

#[test]
fn real_backups_made_as_the_guide_says_hold_what_the_volume_held() {
    let test = "real_backups_made_as_the_guide_says_hold_what_the_volume_held";
    if !tools::present(test, &["bash", "nbdcopy", "nbdsh", "qemu-io"]) {
        return;
    }
    let folder = Folder::with_store();
    let server = folder.serve("--nbd unix:s.sock");
    let [address, full, increment, restore, label] = blocks()[..] else {
        panic!("the guide has other frames")
    };
    let shell = |typed: &str| {
        let words = format!("mjolnir() {{ \"$PROGRAM\" \"$@\"; }}\n{address}\n{typed}");
        let mut bash = tools::command("bash");
        bash.args(["-c", &words]).env("PROGRAM", program()).current_dir(folder.path(""));
        tools::succeed(&mut bash);
    };
    let write = |words: &str| shell(&format!("qemu-io -f raw {words} \"$(nbd v)\""));
    write("-c 'write -P 7 0 4M' -c 'write -P 9 8M 2M'");
    shell(full);
    write("-c 'write -P 8 1M 8K' -c 'discard 2M 1M' -c 'write -P 3 15M 1M' -c 'write -P 5 4095 2'");
    shell("nbdcopy \"$(nbd v)\" expected.img");
    shell(increment);
    write("-c 'write -P 1 0 16M'");
    shell(restore);
    shell("nbdcopy \"$(nbd v)\" v.img; nbdcopy \"$(nbd restored)\" restored.img");
    let image = |name: &str| std::fs::read(folder.path(name)).unwrap();
    let expected = image("expected.img");
    assert!(expected[1 << 20..][..8192].iter().all(|byte| *byte == 8), "nothing was written");
    for name in ["backup.img", "restored.img", "v.img"] {
        assert!(image(name) == expected, "{name} holds something else");
    }
    assert_eq!(folder.ok("snapshot list s.mj").matches("v@").count(), 1, "the older one is gone");
    shell(label);
    server.stop();

    shell("head -c 65540 /dev/zero | tr '\\0' x | dd of=s.mj conv=notrunc");
    folder.refused("volume list s.mj", &["there is no label"]);
    shell("dd if=label.bak of=s.mj bs=4K count=1 conv=notrunc");
    folder.serve("").stop();
    assert!(folder.ok("check s.mj").contains("no problems"), "both labels are as they were");
}
