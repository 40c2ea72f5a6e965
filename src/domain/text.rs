//! Text that players see: normalised, trimmed, and free of what hides or reorders it.

use unicode_normalization::UnicodeNormalization;

/// Why a text was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    /// Nothing visible is left.
    Empty,
    /// Longer than the limit, in characters after normalisation.
    TooLong {
        /// The limit.
        max_chars: usize,
    },
    /// A control, bidirectional-override or default-ignorable character.
    Forbidden(char),
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("must have at least one visible character"),
            Self::TooLong { max_chars } => write!(f, "must have at most {max_chars} characters"),
            Self::Forbidden(c) => {
                write!(f, "must not contain the control or invisible character U+{:04X}", u32::from(*c))
            }
        }
    }
}

/// Code points with the Unicode property Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties).
const DEFAULT_IGNORABLE: [(u32, u32); 17] = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
];

/// Also line and paragraph separators and the marks of interlinear annotation (U+FFF9 to U+FFFB), which nobody sees either.
fn is_forbidden(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || matches!(code, 0x2028 | 0x2029 | 0xFFF9..=0xFFFB)
        || DEFAULT_IGNORABLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Normalises to NFC, trims white space, and bounds the length; `min_chars` is 0 where the text may be empty.
pub fn normalise(text: &str, min_chars: usize, max_chars: usize) -> Result<String, TextError> {
    if let Some(bad) = text.chars().find(|c| is_forbidden(*c)) {
        return Err(TextError::Forbidden(bad));
    }
    let normal: String = text.nfc().collect();
    let trimmed = normal.trim();
    let chars = trimmed.chars().count();
    if chars < min_chars {
        return Err(TextError::Empty);
    }
    if chars > max_chars {
        return Err(TextError::TooLong { max_chars });
    }
    // U+2800 (braille blank) is a symbol to Unicode and a blank to players.
    if min_chars > 0 && trimmed.chars().all(|c| c == '\u{2800}' || c.is_whitespace()) {
        return Err(TextError::Empty);
    }
    Ok(trimmed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_n1_n2_invisible_and_control_characters_are_refused() {
        for bad in [
            "a\nb",
            "a\rb",
            "a\tb",
            "\0",
            "\u{1b}[2J",
            "\u{7f}",
            "\u{9b}",
            "\u{2028}",
            "\u{200b}",
            "\u{3164}",
            "\u{2060}",
            "Alpha\u{200e}",
            "\u{202e}x",
            "\u{feff}x",
            "x\u{e0041}",
            "x\u{fff9}y\u{fffb}",
        ] {
            assert!(matches!(normalise(bad, 1, 64), Err(TextError::Forbidden(_))), "{bad:?}");
        }
        assert_eq!(normalise("   ", 1, 64), Err(TextError::Empty));
        assert_eq!(normalise("\u{2800}\u{2800}", 1, 64), Err(TextError::Empty));
    }

    #[test]
    fn normal_form_and_trimming() {
        assert_eq!(normalise(" cafe\u{301} ", 1, 64).unwrap(), "caf\u{e9}");
        assert_eq!(normalise(&"x".repeat(64), 1, 64).unwrap().len(), 64);
        assert_eq!(normalise(&"x".repeat(65), 1, 64), Err(TextError::TooLong { max_chars: 64 }));
    }
}
