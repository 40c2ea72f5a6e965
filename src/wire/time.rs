//! Wall time as clients read it.

use crate::domain::WallTime;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// RFC 3339 in UTC with milliseconds, for example `2026-11-29T18:00:00.000Z`.
/// A time that RFC 3339 can't express (after the year 9999) is shown as the last one that it can.
pub fn timestamp(time: WallTime) -> String {
    let ms = i64::try_from(time.0).unwrap_or(i64::MAX);
    PRINTER.timestamp_to_string(&Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_always_have_milliseconds() {
        assert_eq!(timestamp(WallTime(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(WallTime(1_700_000_000_120)), "2023-11-14T22:13:20.120Z");
        assert!(timestamp(WallTime(u64::MAX)).starts_with("9999-12-"));
    }
}
