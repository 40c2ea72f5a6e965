//! Which requests, in which proportion.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A kind of request that has a row of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// `GET` a page of listings.
    Browse,
    /// `POST` a listing.
    Register,
    /// `DELETE` one: what keeps registering from growing the server without bound.
    Delete,
    /// `POST` a renewal by compare-and-swap.
    Renew,
    /// One authenticated presence exchange over UDP.
    Presence,
    /// From the attempt over both binds to the introduction.
    Join,
    /// `POST` a command of the command plane.
    Admission,
}

impl Kind {
    /// The name in tables and options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Browse => "browse",
            Self::Register => "register",
            Self::Delete => "delete",
            Self::Renew => "renew",
            Self::Presence => "presence",
            Self::Join => "join",
            Self::Admission => "admission",
        }
    }
}

/// Kinds that can be mixed; deletions follow registrations, and commands need sessions instead of listings.
const CHOICES: [Kind; 5] = [Kind::Browse, Kind::Register, Kind::Renew, Kind::Presence, Kind::Join];

/// Weights of kinds, such as `browse=80,renew=20`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mix(BTreeMap<Kind, u32>);

impl Mix {
    /// One kind only.
    pub(crate) fn only(kind: Kind) -> Self {
        Self(BTreeMap::from([(kind, 1)]))
    }

    /// Kinds with their weights.
    pub(crate) fn of<const N: usize>(weights: [(Kind, u32); N]) -> Self {
        Self(BTreeMap::from(weights))
    }

    /// A kind by a number that is spread evenly over all numbers.
    pub(crate) fn pick(&self, random: u64) -> Kind {
        let sum: u64 = self.0.values().map(|weight| u64::from(*weight)).sum();
        let mut at = random % sum.max(1);
        for (kind, weight) in &self.0 {
            match at.checked_sub(u64::from(*weight)) {
                Some(rest) => at = rest,
                None => return *kind,
            }
        }
        Kind::Browse
    }

    /// Whether requests of a kind happen.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.0.contains_key(&kind)
    }
}

impl Default for Mix {
    /// A busy evening: most look, hosts keep their games alive, some come and some join.
    fn default() -> Self {
        let weights =
            [(Kind::Browse, 80), (Kind::Renew, 8), (Kind::Presence, 10), (Kind::Register, 1), (Kind::Join, 1)];
        Self(BTreeMap::from(weights))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(kind, weight)| format!("{}={weight}", kind.name())).collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut weights = BTreeMap::new();
        for part in text.split(',') {
            let expected = || format!("expected kind=weight such as browse=80, was given {part:?}");
            let (name, weight) = part.split_once('=').ok_or_else(expected)?;
            let kind = CHOICES
                .into_iter()
                .find(|kind| kind.name() == name)
                .ok_or_else(|| format!("expected one of {}, was given {name:?}", CHOICES.map(Kind::name).join(", ")))?;
            let weight: u32 = weight.parse().map_err(|_| expected())?;
            if weight > 0 && weights.insert(kind, weight).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        if weights.is_empty() { Err("expected a weight above zero".to_owned()) } else { Ok(Self(weights)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept() {
        let mix: Mix = "browse=3,renew=1".parse().unwrap();
        let picked: Vec<Kind> = (0..8).map(|random| mix.pick(random)).collect();
        assert_eq!(picked.iter().filter(|kind| **kind == Kind::Browse).count(), 6);
        assert_eq!(picked.iter().filter(|kind| **kind == Kind::Renew).count(), 2);
        assert_eq!(mix.to_string(), "browse=3,renew=1");
        assert_eq!(Mix::only(Kind::Join).pick(u64::MAX), Kind::Join);
        assert_eq!(Mix::default().to_string().parse(), Ok(Mix::default()));
    }

    #[test]
    fn what_is_wrong_with_weights_is_said() {
        for (text, word) in [
            ("browse", "kind=weight"),
            ("browse=x", "kind=weight"),
            ("delete=1", "one of browse"),
            ("browse=1,browse=2", "twice"),
            ("browse=0", "above zero"),
        ] {
            let error = text.parse::<Mix>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
