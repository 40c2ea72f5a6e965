//! What fails again and again is told once a minute for each cause, so that no failure floods the log.

use crate::domain::MonoTime;
use std::sync::{Mutex, PoisonError};

/// Between two lines about one cause.
const EVERY_MS: u64 = 60_000;
/// Causes that are told apart within [`EVERY_MS`]. More of them are counted with none: they may have a number or an
/// address in them, and then there is no end of them.
const CAUSES_MAX: usize = 16;

/// The causes of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<Vec<Cause>>);

#[derive(Debug)]
struct Cause {
    text: String,
    told_at: MonoTime,
    untold: u64,
}

impl Repeats {
    /// Whether to tell of it now; how often it happened since it was told, without being told.
    pub(crate) fn note(&self, cause: &str, now: MonoTime) -> Option<u64> {
        // A panic between two of its lines can't leave the list worse than one count off.
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |cause: &Cause| now.ms_since(cause.told_at) >= EVERY_MS;
        if let Some(known) = causes.iter_mut().find(|known| known.text == cause) {
            if !is_over(known) {
                known.untold += 1;
                return None;
            }
            known.told_at = now;
            return Some(std::mem::take(&mut known.untold));
        }
        if causes.len() >= CAUSES_MAX {
            causes.retain(|known| !is_over(known));
        }
        if causes.len() >= CAUSES_MAX {
            return None;
        }
        causes.push(Cause { text: cause.to_owned(), told_at: now, untold: 0 });
        Some(0)
    }

    /// It is over: the next failure is news.
    #[cfg(feature = "admission")]
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: MonoTime = MonoTime(1_000_000_000);

    #[test]
    fn a_cause_is_told_once_a_minute_with_what_was_not_told() {
        let repeats = Repeats::default();
        assert_eq!(repeats.note("a", START), Some(0));
        assert_eq!(repeats.note("a", START.plus_ms(1)), None);
        assert_eq!(repeats.note("b", START.plus_ms(1)), Some(0), "another cause is news");
        assert_eq!(repeats.note("a", START.plus_ms(EVERY_MS - 1)), None);
        assert_eq!(repeats.note("a", START.plus_ms(EVERY_MS)), Some(2));
        assert_eq!(repeats.note("a", START.plus_ms(EVERY_MS + 1)), None);
    }

    #[test]
    fn causes_without_end_are_neither_told_nor_kept_without_end() {
        let repeats = Repeats::default();
        let told = |at: MonoTime| (0..1_000).filter(|n| repeats.note(&format!("{at:?} {n}"), at).is_some()).count();
        assert_eq!(told(START), CAUSES_MAX);
        assert_eq!(told(START.plus_ms(EVERY_MS - 1)), 0);
        assert_eq!(told(START.plus_ms(EVERY_MS)), CAUSES_MAX, "those of a minute ago make room");
        assert_eq!(repeats.0.lock().unwrap().len(), CAUSES_MAX);
    }
}
