//! Counts the steps of the index primitives, so that tests can state costs without a clock (C2: O(removed)).

/// One step: an entry moved in a heap, or an entry looked at in a table.
#[inline]
pub(crate) fn count() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The steps that `work` takes on this thread.
#[cfg(test)]
pub(crate) fn steps_of(work: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
