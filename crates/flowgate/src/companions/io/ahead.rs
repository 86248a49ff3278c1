use alloc::vec::Vec;

/// Bytes that have been read and not yet paid for.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    bytes: Vec<u8>,
    /// The bytes before it have been handed out.
    start: usize,
}

impl Ahead {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Stores `bytes`. Call it only if no bytes are stored.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.start = 0;
    }

    /// Hands out the first bytes.
    pub(super) fn move_to(&mut self, place: &mut [u8]) {
        place.copy_from_slice(&self.bytes()[..place.len()]);
        self.start += place.len();
    }
}
