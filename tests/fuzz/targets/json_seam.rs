//! Bodies through the JSON seam: whichever parser reads one, by its length, the answer is that of the other. What is read can be
//! written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rendezvous::wire::commands::{
    BeginBody, ClaimBody, CompleteBody, CreateSessionBody, HostBody, LeaseBody, SendCommandBody,
};
use rendezvous::wire::request::{
    AdmissionBody, AttemptBody, DrainBody, OutcomeBody, RegisterBody, RenewBody, RevocationBody,
};
use rendezvous::wire::{Document, FieldError, FromJson};
use serde::Serialize;
use std::fmt::Debug;

/// A detail longer than this repeats what was sent.
const DETAIL_CHARS_MAX: usize = 200;

fuzz_target!(|data: &[u8]| {
    judge::<RegisterBody>(data);
    judge::<RenewBody>(data);
    judge::<AttemptBody>(data);
    judge::<AdmissionBody>(data);
    judge::<OutcomeBody>(data);
    judge::<RevocationBody>(data);
    judge::<DrainBody>(data);
    judge::<CreateSessionBody>(data);
    judge::<SendCommandBody>(data);
    judge::<HostBody>(data);
    judge::<LeaseBody>(data);
    judge::<ClaimBody>(data);
    judge::<BeginBody>(data);
    judge::<CompleteBody>(data);
});

fn judge<T: FromJson + Serialize + PartialEq + Debug>(body: &[u8]) {
    let read = T::from_body(&mut body.to_vec());
    assert_eq!(read, Document::read_by_simd(&mut body.to_vec(), whole::<T>), "the parsers differ");
    match read {
        Ok(value) => {
            // An independent parser takes what we take.
            serde_json::from_slice::<serde_json::Value>(body).expect("well-formed");
            let written = serde_json::to_vec(&value).expect("serialisable");
            assert_eq!(
                T::from_body(&mut written.clone()).as_ref(),
                Ok(&value),
                "{}",
                String::from_utf8_lossy(&written)
            );
        }
        Err(error) => {
            assert!(error.pointer.is_empty() || error.pointer.starts_with('/'), "{error:?}");
            assert!(error.detail.len() <= DETAIL_CHARS_MAX, "{error:?}");
        }
    }
}

fn whole<T: FromJson>(document: &Document<'_>) -> Result<T, FieldError> {
    let mut members = document.members()?;
    let value = T::read(&mut members)?;
    members.finish()?;
    Ok(value)
}
