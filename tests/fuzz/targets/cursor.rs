//! Cursors: what is read is what was written, in one spelling, and for one query only.
#![no_main]

#[path = "../world/input.rs"]
mod input;

use input::Input;
use libfuzzer_sys::fuzz_target;
use rendezvous::domain::ListingId;
use rendezvous::edge::http::fuzzing::{decode_cursor, encode_cursor};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let how = input.byte();
    let (tenant, protocol) = (name(&mut input), name(&mut input));
    if how % 2 == 0 {
        // As it comes; a fuzzer does not find a tag.
        let text = String::from_utf8_lossy(input.rest());
        if let Some(position) = decode_cursor(&tenant, &protocol, &text) {
            assert_eq!(encode_cursor(&tenant, &protocol, position), text);
        }
        return;
    }
    let mut position = [0; 16];
    let given = input.bytes(16);
    position[..given.len()].copy_from_slice(given);
    let position = ListingId(u128::from_be_bytes(position));
    let text = encode_cursor(&tenant, &protocol, position);
    assert_eq!(decode_cursor(&tenant, &protocol, &text), Some(position));
    let (other_tenant, other_protocol) = (name(&mut input), name(&mut input));
    if (&other_tenant, &other_protocol) != (&tenant, &protocol) {
        assert_eq!(decode_cursor(&other_tenant, &other_protocol, &text), None);
    }
    let mut changed = text.clone().into_bytes();
    let place = usize::from(input.byte()) % changed.len();
    changed[place] ^= input.byte();
    changed.extend_from_slice(input.rest());
    let changed = String::from_utf8_lossy(&changed);
    if changed != text {
        assert_eq!(decode_cursor(&tenant, &protocol, &changed), None, "{text} and {changed} are one cursor");
    }
});

/// A name as the edge lets it in: of tenants and protocols, without a zero byte.
fn name(input: &mut Input<'_>) -> String {
    const CHARACTERS: &[u8] = b"abz019._-/";
    let length = input.byte() % 12;
    (0..length).map(|_| char::from(CHARACTERS[usize::from(input.byte()) % CHARACTERS.len()])).collect()
}
