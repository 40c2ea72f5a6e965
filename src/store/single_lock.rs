//! The baseline.
use super::*;
/// The baseline.
pub struct SingleLock<C: Clock> {
    clock: C,
}
lane::stub!(SingleLock);
