//! The JSON row of a listing: a pure function of the listing, made once per change of its details.

use crate::domain::details::write_json_text;
use crate::domain::filter::{Filter, Rendered};
use crate::domain::{Details, ListingId, Scope};
use std::fmt::Write;

/// Renders one row of a page: identity first, then the details.
pub(crate) fn render_row(id: ListingId, scope: &Scope, details: &Details) -> String {
    let mut row = String::with_capacity(384);
    let _ = write!(row, "{{\"listing_id\":\"{id}\",\"protocol\":");
    write_json_text(&mut row, &scope.protocol);
    row.push_str(",\"created_at\":\"");
    row.push_str(&rfc3339(id.created_ms()));
    row.push_str("\",");
    details.write_members(&mut row);
    row.push('}');
    row
}

/// Whether the details in a row of [`render_row`] match.
pub(crate) fn row_matches(row: &[u8], filter: &Filter) -> bool {
    let read = std::str::from_utf8(row).ok().and_then(Rendered::read);
    debug_assert!(read.is_some(), "a row that its own store can't read");
    read.is_some_and(|details| filter.matches(&details))
}

/// RFC 3339 in UTC with milliseconds; times beyond the calendar's range show its end.
pub(crate) fn rfc3339(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// Digest of a row's bytes, for entity tags.
pub(crate) fn row_digest(row: &[u8]) -> u64 {
    row.chunks(8).fold(row.len() as u64, |digest, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        super::page::fold_digest(digest, u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{TenantId, details::DetailsInput};

    #[test]
    fn a_row_is_one_json_object_with_its_creation_time() {
        let scope = Scope::new(TenantId(0), "arena/3").unwrap();
        let id = ListingId::compose(1_764_439_445_123, 7, Scope::tag(scope.tenant, &scope.protocol));
        let details =
            Details::new(DetailsInput { name: "a\"b".into(), max_players: 2, ..DetailsInput::default() }).unwrap();
        let row = render_row(id, &scope, &details);
        let start = format!(
            "{{\"listing_id\":\"{id}\",\"protocol\":\"arena/3\",\"created_at\":\"2025-11-29T18:04:05.123Z\",\"name\":\"a\\\"b\""
        );
        assert!(row.starts_with(&start), "{row}");
        assert!(rfc3339(u64::MAX).starts_with("9999-"));
    }
}
