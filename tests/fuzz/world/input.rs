//! The fuzzer's bytes, taken from the front. Past the end there are only zeros, so that every input means something.
#![allow(dead_code, reason = "each target reads what it needs")]

pub struct Input<'d> {
    left: &'d [u8],
}

impl<'d> Input<'d> {
    pub fn new(data: &'d [u8]) -> Self {
        Self { left: data }
    }

    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        *first
    }

    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// At most `length` bytes.
    pub fn bytes(&mut self, length: usize) -> &'d [u8] {
        let (taken, rest) = self.left.split_at(length.min(self.left.len()));
        self.left = rest;
        taken
    }

    pub fn rest(&mut self) -> &'d [u8] {
        std::mem::take(&mut self.left)
    }
}
