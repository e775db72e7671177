//! Clients that stop in the middle of a large write hold little memory and delay nobody; what they sent is
//! there once they end it.

use std::time::{Duration, Instant};

use crate::support::{Folder, pattern};

const MIB: u64 = 1 << 20;
/// How much each client writes, and what it keeps for later.
const WRITE: u64 = 8 * MIB;
const KEPT: usize = 1 << 20;
const CLIENTS: usize = 200;
/// Places that they write to, several of them to each.
const PLACES: u64 = 8;

#[test]
fn two_hundred_clients_stop_in_the_middle_of_a_write() {
    let folder = Folder::empty();
    folder.ok("format s.mj --size 1G");
    folder.ok("volume create s.mj v --size 96M");
    let server = folder.serve("--memory 64M");
    let payloads: Vec<_> = (0..PLACES).map(|place| pattern(place, WRITE as usize)).collect();
    let place_of = |client: usize| client as u64 % PLACES;
    let mut stalled: Vec<_> = (0..CLIENTS).map(|_| server.client("v")).collect();
    for (number, client) in stalled.iter_mut().enumerate() {
        let (sent, _) = payloads[place_of(number) as usize].split_at(WRITE as usize - KEPT);
        // All but the last of it is taken, whoever stopped before.
        client.request(number as u16 % 2, 1, place_of(number) * WRITE, WRITE as u32, sent);
    }

    let mut other = server.client("v");
    let begun = Instant::now();
    let data = pattern(99, 3 << 20);
    other.write(0, PLACES * WRITE + 5, &data).unwrap();
    other.flush().unwrap();
    assert_eq!(other.read(PLACES * WRITE + 5, data.len() as u32).unwrap(), data);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "another client waited for {took:?}");
    // They sent 1.4 GB. The budget, and what the program and its connections take.
    let peak = server.peak_memory_bytes();
    assert!(peak < (64 + 32) << 20, "{} MiB", peak >> 20);

    for (number, client) in stalled.iter_mut().enumerate() {
        let (_, rest) = payloads[place_of(number) as usize].split_at(WRITE as usize - KEPT);
        client.send(rest);
        assert_eq!(client.reply(), Ok(()), "client {number}");
    }
    for (place, payload) in payloads.iter().enumerate() {
        let found = other.read(place as u64 * WRITE, WRITE as u32).unwrap();
        assert!(found == *payload, "place {place} holds what was written there");
    }
    server.stop();
    folder.ok("check s.mj");
}
