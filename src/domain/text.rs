//! Text that players see: normalised, trimmed, and free of what hides or reorders it.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Marks without a width of their own that may stand on one character, after composition. Pointed Hebrew and Tibetan need
/// three or four, Thai and Vietnamese two; more is a tower that covers the lines above and below.
const MARKS_MAX: usize = 4;

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
    /// A control, bidirectional-override or default-ignorable character, or one that is none (a noncharacter).
    Forbidden(char),
    /// A combining mark without a character before it.
    LeadingMark,
    /// More combining marks on one character than any script needs.
    TooManyMarks {
        /// The limit.
        max: usize,
    },
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("must have at least one visible character"),
            Self::TooLong { max_chars } => write!(f, "must have at most {max_chars} characters"),
            Self::Forbidden(c) => {
                write!(f, "must not contain the control or invisible character U+{:04X}", u32::from(*c))
            }
            Self::LeadingMark => f.write_str("must not begin with a combining mark"),
            Self::TooManyMarks { max } => write!(f, "must have at most {max} combining marks on one character"),
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

/// Also line and paragraph separators, the marks of interlinear annotation (U+FFF9 to U+FFFB) and the place of an object
/// (U+FFFC), which nobody sees either, and noncharacters, which no text has (Unicode 16, section 23.7).
fn is_forbidden(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || matches!(code, 0x2028 | 0x2029 | 0xFFF9..=0xFFFC | 0xFDD0..=0xFDEF)
        || code & 0xFFFE == 0xFFFE
        || DEFAULT_IGNORABLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Whether `c` takes no room of its own but goes above, below or through what stands before it. Spacing marks (the vowel
/// signs of Indic scripts and Burmese) take their own.
fn is_stacked(c: char) -> bool {
    !c.is_ascii() && matches!(c.general_category(), GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark)
}

/// Marks need a character to stand on, and are few on each.
fn check_marks(text: &str) -> Result<(), TextError> {
    if text.starts_with(is_combining_mark) {
        return Err(TextError::LeadingMark);
    }
    let mut stacked = 0;
    for c in text.chars() {
        stacked = if is_stacked(c) { stacked + 1 } else { 0 };
        if stacked > MARKS_MAX {
            return Err(TextError::TooManyMarks { max: MARKS_MAX });
        }
    }
    Ok(())
}

/// Normalises to NFC, trims white space, and bounds length and marks; `min_chars` is 0 where the text may be empty.
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
    check_marks(trimmed)?;
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
            "x\u{fffc}",
            "\u{ffff}",
            "x\u{fffe}",
            "x\u{fdd0}y",
            "\u{10ffff}",
        ] {
            assert!(matches!(normalise(bad, 1, 64), Err(TextError::Forbidden(_))), "{bad:?}");
        }
        assert_eq!(normalise("   ", 1, 64), Err(TextError::Empty));
        assert_eq!(normalise("\u{2800}\u{2800}", 1, 64), Err(TextError::Empty));
    }

    #[test]
    fn case_n1_n2_marks_stand_on_something_and_do_not_pile_up() {
        let pile = |marks: usize| format!("a{}", "\u{301}".repeat(marks));
        for bad in ["\u{301}".repeat(8), "\u{301}a".into(), " \u{20dd}x".into(), "\u{93e}".into()] {
            assert_eq!(normalise(&bad, 0, 64), Err(TextError::LeadingMark), "{bad:?}");
        }
        // The first composes with its letter.
        for bad in [pile(63), pile(MARKS_MAX + 2), format!("ok x{}", "\u{20dd}".repeat(MARKS_MAX + 1))] {
            assert_eq!(normalise(&bad, 1, 64), Err(TextError::TooManyMarks { max: MARKS_MAX }), "{bad:?}");
        }
        assert!(normalise(&pile(MARKS_MAX + 1), 1, 64).is_ok());
    }

    #[test]
    fn names_in_scripts_that_stack_marks_are_names() {
        for name in [
            "Vi\u{1ec7}t Nam chi\u{1ebf}n th\u{1eaf}ng",
            "Vie\u{323}\u{302}t",
            // Thai: a vowel and a tone above one letter.
            "\u{e17}\u{e35}\u{e48}\u{e19}\u{e35}\u{e48}",
            // Hebrew: shin with its dot, dagesh, vowel and accent.
            "\u{5e9}\u{5c1}\u{5bc}\u{5b8}\u{591}\u{5dc}",
            // Arabic: shadda, vowel and the small alef.
            "\u{627}\u{644}\u{644}\u{651}\u{64e}\u{670}\u{647}",
            // Devanagari, and Burmese with five marks on one letter, most of which have a width.
            "\u{938}\u{94d}\u{925}\u{93e}\u{928}",
            "\u{101c}\u{103b}\u{103e}\u{1031}\u{102c}\u{1037}",
            // Tibetan: two letters below another, and a vowel.
            "\u{f56}\u{f66}\u{f92}\u{fb2}\u{f74}\u{f56}\u{f66}",
        ] {
            assert!(normalise(name, 1, 64).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn normal_form_and_trimming() {
        assert_eq!(normalise(" cafe\u{301} ", 1, 64).unwrap(), "caf\u{e9}");
        assert_eq!(normalise(&"x".repeat(64), 1, 64).unwrap().len(), 64);
        assert_eq!(normalise(&"x".repeat(65), 1, 64), Err(TextError::TooLong { max_chars: 64 }));
    }
}
