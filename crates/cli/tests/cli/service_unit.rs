//! The systemd unit that ships with the program calls it with words that it understands.

use crate::support::Folder;

#[test]
fn the_unit_starts_the_program_as_it_is() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/systemd/mjolnir@.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/mjolnir "));
    let line = line.expect("the unit starts mjolnir");
    assert!(unit.contains("Type=notify"), "readiness is told to systemd");
    let words = line.replace("%i", "nosuch").replace(" $MJOLNIR_OPTIONS", " --memory 4G");
    Folder::empty().refused(&words, &["no store at /var/lib/mjolnir/nosuch.mj"]);
}
