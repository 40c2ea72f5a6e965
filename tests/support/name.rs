//! Names of listings that say whose they are, so that a row that was written in part gives itself away.

/// A name that says whose it is and which one, of changing length, with a checksum.
pub(crate) fn name(slot: usize, generation: u64, number: u64) -> String {
    let text = format!("{slot} {generation} {number} {}", "x".repeat(number as usize % 12));
    format!("{text} {:08x}", checksum(&text))
}

/// Slot, generation and number of a name that some owner wrote.
#[track_caller]
pub(crate) fn parse_name(name: &str) -> (usize, u64, u64) {
    let (text, sum) = name.rsplit_once(' ').expect("a name with a checksum");
    assert_eq!(sum, format!("{:08x}", checksum(text)), "a half-written row: {name}");
    let mut numbers = text.split(' ').map_while(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().expect("three numbers");
    (next() as usize, next(), next())
}

fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
