//! The nearest known key to an unknown one.

/// The nearest of `known` to `seen`, when so few letters differ that it may have been meant.
pub(super) fn nearest<'a>(seen: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .map(|key| {
            // The right name in the wrong section is as near as one wrong letter.
            let distance = if last(key) == last(seen) { 1 } else { distance(seen, key) };
            (distance, key)
        })
        .filter(|(distance, key)| *distance <= 3.max(key.len() / 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, key)| key)
}

/// Levenshtein's distance, by rows.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(["", "kitten", "lease"].map(|a| distance(a, "sitting")), [7, 3, 7]);
    }

    #[test]
    fn near_keys_are_found_and_far_ones_are_not() {
        let known = ["limits.listings", "lease.ttl_ms", "server.http"];
        let find = |seen| nearest(seen, known.into_iter());
        assert_eq!(find("limits.listing"), Some("limits.listings"));
        assert_eq!(find("server.listings"), Some("limits.listings"));
        assert_eq!(find("serverhttp"), Some("server.http"));
        assert_eq!(find("something.else_entirely"), None);
    }
}
