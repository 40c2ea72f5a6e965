//! Time: monotonic instants decide, wall time only informs (rules A1, C1).

/// A monotonic instant in nanoseconds since the store's clock began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(pub u64);

impl MonoTime {
    /// An instant that no clock reaches.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant that lies `ms` milliseconds later; saturates at [`MonoTime::NEVER`].
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// The instant that lies `ms` milliseconds earlier, at the earliest the clock's beginning.
    pub fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms.saturating_mul(1_000_000)))
    }

    /// Whole milliseconds from `earlier` to `self`, zero when `self` is not later.
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }

    /// Rule C2: a record with this deadline is dead at `now`.
    pub fn is_past(self, now: Self) -> bool {
        self <= now
    }
}

/// Wall time in Unix milliseconds. Informational only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

impl WallTime {
    /// `ms` milliseconds later.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// The stamp of a transition: the instant that decides and the wall time that informs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Decides every deadline.
    pub mono: MonoTime,
    /// Appears in `expires_at` and nowhere else.
    pub wall: WallTime,
}

/// A lifetime in milliseconds, inside the bounds it was checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// Accepts `ms` when it lies inside `bounds` (inclusive).
    pub fn checked(ms: u64, bounds: TtlBounds) -> Option<Self> {
        if ms < u64::from(bounds.min_ms) || ms > u64::from(bounds.max_ms) {
            return None;
        }
        u32::try_from(ms).ok().map(Self)
    }

    /// The lifetime in milliseconds.
    pub fn ms(self) -> u32 {
        self.0
    }
}

/// The inclusive bounds of a [`Ttl`], and the value used when none is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// Least accepted lifetime.
    pub min_ms: u32,
    /// Greatest accepted lifetime.
    pub max_ms: u32,
    /// Used when the caller names none.
    pub default_ms: u32,
}

impl TtlBounds {
    /// The default lifetime.
    pub fn default_ttl(self) -> Ttl {
        Ttl(self.default_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_c2_dead_is_deadline_at_or_before_now() {
        let deadline = MonoTime(10);
        assert!(!deadline.is_past(MonoTime(9)));
        assert!(deadline.is_past(MonoTime(10)));
        assert!(deadline.is_past(MonoTime(11)));
    }

    #[test]
    fn case_l7_lifetimes_never_overflow() {
        let bounds = TtlBounds { min_ms: 10_000, max_ms: 300_000, default_ms: 60_000 };
        for ms in [0, 9_999, 300_001, 1 << 36, (1 << 36) + 1, 1 << 50, (1 << 53) + 1, u64::MAX >> 1, u64::MAX] {
            assert_eq!(Ttl::checked(ms, bounds), None, "{ms}");
        }
        assert_eq!(Ttl::checked(10_000, bounds).map(Ttl::ms), Some(10_000));
        assert_eq!(Ttl::checked(300_000, bounds).map(Ttl::ms), Some(300_000));
        assert_eq!(MonoTime(u64::MAX - 1).plus_ms(u64::MAX), MonoTime::NEVER);
    }
}
