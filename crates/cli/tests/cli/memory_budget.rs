//! What clients ask for lies within the memory that the operator gave, but for a request of each.

use crate::support::{Folder, pattern};

const MIB: u32 = 1 << 20;

#[test]
fn clients_that_do_not_take_their_replies_share_what_the_operator_gave() {
    let folder = Folder::with_store();
    let server = folder.serve("--memory 32M");
    let blocks: Vec<_> = (0..4).map(|number| pattern(number, MIB as usize)).collect();
    let mut writer = server.client("v");
    for (number, data) in blocks.iter().enumerate() {
        writer.write(0, number as u64 * u64::from(MIB), data).unwrap();
    }
    // By its own bound alone, each of them could have 64 MiB of replies waiting for it.
    let mut greedy: Vec<_> = (0..12).map(|_| server.client("v")).collect();
    for client in &mut greedy {
        for number in 0..60 {
            client.request(0, 0, number % 4 * u64::from(MIB), MIB, &[]);
        }
    }
    // One that comes later is served meanwhile, several requests at a time.
    let mut late = server.client("v");
    for _ in 0..20 {
        for at in 0..4 {
            late.request(0, 0, at * u64::from(MIB), MIB / 16, &[]);
        }
        for _ in 0..4 {
            assert_eq!(late.reply(), Ok(()));
            let data = late.receive(MIB as usize / 16);
            assert!(blocks.iter().any(|block| block.starts_with(&data)));
        }
    }
    for client in &mut greedy {
        for number in 0..60 {
            assert_eq!(client.reply(), Ok(()));
            let data = client.receive(MIB as usize);
            assert!(blocks.contains(&data), "reply {number} is of no block that was written");
        }
    }
    // The budget and what the program takes by itself.
    let peak = server.peak_memory_bytes();
    assert!(peak < 96 << 20, "{} MiB", peak >> 20);
    server.stop();
}

#[test]
fn clients_that_ask_for_much_and_fetch_nothing_share_it_too() {
    let folder = Folder::with_store();
    let server = folder.serve("--memory 32M");
    let data = pattern(1, 16 * MIB as usize);
    server.client("v").write(0, 0, &data).unwrap();
    let mut greedy: Vec<_> = (0..100).map(|_| server.client("v")).collect();
    for client in &mut greedy {
        client.request(0, 0, 0, 16 * MIB, &[]);
    }
    let mut late = server.client("v");
    assert_eq!(late.read(MIB.into(), MIB).unwrap(), data[MIB as usize..2 * MIB as usize]);
    assert!(late.read(0, 16 * MIB).unwrap() == data, "one that fetches is answered");
    for client in greedy.iter_mut().step_by(10) {
        assert_eq!(client.reply(), Ok(()));
        assert!(client.receive(16 * MIB as usize) == data, "also if it took its time");
    }
    let peak = server.peak_memory_bytes();
    assert!(peak < 96 << 20, "{} MiB", peak >> 20);
    server.stop();
}
