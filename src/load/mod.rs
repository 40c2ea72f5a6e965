//! Load over the real edges: an open-loop generator and a comparison with peers.
//!
//! [`generate`] holds a fixed rate over many connections and says what became of every request. [`compare`] measures the
//! bars P5 to P8: a closed loop as thin as it can be, one server at a time on a core of its own, pairs interleaved.
//! [`endure`] drives a server far beyond what it can do, and long through everything that it holds.
//! [`reference`](mod@reference) holds the two servers that it is compared with and that nobody else ships.

#[cfg(target_os = "linux")]
pub(crate) mod compare;
mod cpu;
#[cfg(target_os = "linux")]
pub(crate) mod endure;
pub(crate) mod generate;
mod presence;
#[cfg(target_os = "linux")]
pub(crate) mod reference;
pub(crate) mod table;
