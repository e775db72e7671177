//! Clients of libnbd start the server themselves and pass it a socket. It writes nothing to the
//! standard output that they lend it: `nbdcopy` writes data there.

use crate::real_support::chance::Chance;
use crate::real_support::store::TestStore;
use crate::real_support::tools;
use crate::support::program;

#[test]
fn an_image_that_nbdcopy_writes_to_standard_output_is_exact() {
    let name = "an_image_that_nbdcopy_writes_to_standard_output_is_exact";
    if !tools::present(name, &["nbdcopy", "nbdinfo"]) {
        return;
    }
    let store = TestStore::new("64M", "8M");
    let image = Chance::new(3).bytes(8 << 20);
    std::fs::write(store.path("source"), &image).unwrap();
    for json in [false, true] {
        let server = |command: &mut std::process::Command| {
            command.current_dir(store.folder()).args(["--", "["]).arg(program());
            command.args(json.then_some("--json")).args(["serve", "s.mj", "]"]);
        };
        let mut fill = tools::command("nbdcopy");
        fill.arg("--flush").current_dir(store.folder()).args(["--", "source"]);
        fill.args(["[".as_ref(), program().as_os_str(), "serve".as_ref(), "s.mj".as_ref()]);
        tools::succeed(fill.arg("]"));
        let mut copy = tools::command("nbdcopy");
        server(&mut copy);
        let output = copy.arg("-").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(output.stdout == image, "{} bytes came", output.stdout.len());
        assert!(said.contains("ready"), "it is said on standard error: {said}");
        let mut info = tools::command("nbdinfo");
        info.arg("--size");
        server(&mut info);
        assert_eq!(tools::succeed(&mut info), format!("{}\n", 8 << 20));
    }
    store.check();
}
