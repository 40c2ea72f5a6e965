//! Query strings: every parameter is known, given once and not empty.

use super::problem::Problem;
use std::borrow::Cow;

/// Most parameters of one request; no route knows more.
const PARAMETERS_MAX: usize = 16;

/// The parameters of one request that nobody has read yet.
#[derive(Debug)]
pub(super) struct Query<'q> {
    left: Vec<(&'static str, Cow<'q, str>)>,
}

impl<'q> Query<'q> {
    /// Splits and decodes a query string and refuses parameters that are not in `known`, repeated ones and empty ones.
    pub(super) fn parse(text: Option<&'q str>, known: &'static [&'static str]) -> Result<Self, Problem> {
        let mut left: Vec<(&'static str, Cow<'q, str>)> = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let malformed = || Problem::invalid_parameter("", "the query string must be percent-encoded UTF-8");
            let (name, value) = (decode(name).ok_or_else(malformed)?, decode(value).ok_or_else(malformed)?);
            let Some(name) = known.iter().copied().find(|known| *known == name) else {
                return Err(Problem::unknown_parameter(known));
            };
            if value.is_empty() {
                return Err(Problem::invalid_parameter(name, "must not be empty"));
            }
            if left.len() == PARAMETERS_MAX || left.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Problem::invalid_parameter(name, "must be given once"));
            }
            left.push((name, value));
        }
        Ok(Self { left })
    }

    /// Takes a parameter, if it was given.
    pub(super) fn take(&mut self, name: &str) -> Option<Cow<'q, str>> {
        let position = self.left.iter().position(|(given, _)| *given == name)?;
        Some(self.left.swap_remove(position).1)
    }

    /// Takes an integer below 2^53, if it was given.
    pub(super) fn take_integer(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let refused = || Problem::invalid_parameter(name, "must be an integer from 0 to 2^53 - 1, in digits");
        self.take(name).map(|text| integer(&text).filter(|n| *n < 1 << 53).ok_or_else(refused)).transpose()
    }

    /// Takes a positive integer of any size, clamped to `max`; `default` when it was not given.
    pub(super) fn take_limit(&mut self, name: &str, default: usize, max: usize) -> Result<usize, Problem> {
        let Some(text) = self.take(name) else { return Ok(default) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let positive = digits && text.bytes().any(|byte| byte != b'0');
        if !positive {
            return Err(Problem::invalid_parameter(name, "must be a positive integer, in digits"));
        }
        // Digits that don't fit are more than the maximum.
        Ok(text.parse::<usize>().unwrap_or(usize::MAX).min(max))
    }
}

/// Digits only.
pub(super) fn integer(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Decodes `%XX` and `+` of one name or value.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut hex = || char::from(bytes.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let (high, low) = (hex()?, hex()?);
                high << 4 | low
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["protocol", "limit", "after"];

    #[test]
    fn parameters_are_decoded() {
        let mut query = Query::parse(Some("protocol=arena%2F3&limit=7"), KNOWN).unwrap();
        assert_eq!(query.take("protocol").as_deref(), Some("arena/3"));
        assert_eq!(query.take_limit("limit", 50, 100).unwrap(), 7);
        assert_eq!(query.take("protocol"), None);
        assert!(Query::parse(None, KNOWN).is_ok());
    }

    #[test]
    fn case_o2_unknown_repeated_and_empty_parameters_are_refused() {
        for bad in
            ["token=x", "protocol=a&protocol=a", "protocol=", "protocol", "limit=%zz", "limit=%f", "protocol=%ff", "=a"]
        {
            assert!(Query::parse(Some(bad), KNOWN).is_err(), "{bad}");
        }
    }

    #[test]
    fn case_b2_odd_limits_are_refused_and_large_ones_clamped() {
        let limit = |text: &str| Query::parse(Some(&format!("limit={text}")), KNOWN)?.take_limit("limit", 50, 100);
        for bad in ["0", "00", "-1", "1.5", "1e3", "NaN", "%2B5", "0x10", "%20", ""] {
            assert!(limit(bad).is_err(), "{bad}");
        }
        for (text, value) in [("1", 1), ("100", 100), ("101", 100), ("1000000000", 100), ("18446744073709551616", 100)]
        {
            assert_eq!(limit(text).unwrap(), value);
        }
        assert_eq!(Query::parse(None, KNOWN).unwrap().take_limit("limit", 50, 100).unwrap(), 50);
    }

    #[test]
    fn integers_stay_exact() {
        let after = |text: &str| Query::parse(Some(&format!("after={text}")), KNOWN)?.take_integer("after");
        assert_eq!(after("9007199254740991").unwrap(), Some(9_007_199_254_740_991));
        for bad in ["9007199254740992", "18446744073709551616", "-1", "5.0", "5e0"] {
            assert!(after(bad).is_err(), "{bad}");
        }
    }
}
