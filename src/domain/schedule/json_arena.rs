//! Memory for the pre-rendered JSON of channels.

use bytes::{Bytes, BytesMut};

/// Size of an arena block. The allocator keeps freed blocks below 32 MiB; larger ones are mapped separately and
/// returned to the system. Unused pages of a block are never touched.
const BLOCK_BYTES: usize = 40 * 1024 * 1024;

/// Arena for pre-rendered JSON of consecutive channels. A block is freed with the last channel in it.
#[derive(Default)]
pub(super) struct JsonArena {
    block: BytesMut,
    pub(super) filled: usize,
}

impl JsonArena {
    pub(super) fn insert(&mut self, json: &[u8]) -> Bytes {
        // The rest of the old block stays unused: splitting a channel would make its JSON two pieces.
        if self.block.capacity() < json.len() {
            self.block = BytesMut::with_capacity(json.len().max(BLOCK_BYTES));
        }
        self.filled += json.len();
        self.block.extend_from_slice(json);
        self.block.split().freeze()
    }
}
