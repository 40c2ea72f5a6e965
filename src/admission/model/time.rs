//! Instants of the store's clock (rule P5).

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 on the clock of the store, which never steps back and is the only one that decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Rule P5: a deadline has passed at `now >= deadline`. There is no other comparison with a deadline.
    pub fn has_passed(self, now: Self) -> bool {
        now >= self
    }

    /// `duration` later; saturates.
    pub fn plus(self, duration: Duration) -> Self {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        // A durable row keeps instants as signed 64-bit integers.
        Self(self.0.saturating_add(ms).min(i64::MAX as u64))
    }

    /// Time from `earlier` to `self`, zero when `self` is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Zero for an instant before 1970.
    pub fn from_system(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(0).plus(since)
    }

    /// The same instant as the standard library has it.
    pub fn to_system(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_p5_a_deadline_has_passed_at_its_own_instant() {
        let deadline = Timestamp(10);
        assert_eq!([9, 10, 11].map(|now| deadline.has_passed(Timestamp(now))), [false, true, true]);
    }

    #[test]
    fn case_l7_instants_never_overflow() {
        assert_eq!(Timestamp(u64::MAX).plus(Duration::MAX), Timestamp(i64::MAX as u64));
        assert_eq!(Timestamp(5).plus(Duration::from_millis(7)), Timestamp(12));
        assert_eq!(Timestamp(5).since(Timestamp(7)), Duration::ZERO);
        assert_eq!(Timestamp::from_system(UNIX_EPOCH - Duration::from_secs(1)), Timestamp(0));
        assert_eq!(Timestamp::from_system(Timestamp(1_234).to_system()), Timestamp(1_234));
    }
}
