//! Collects the mistakes of one file while it is decoded.

use std::cell::RefCell;

use super::Mistake;

pub struct Decoder {
    /// The file has a syntax error, so missing members may be its consequence.
    pub(super) broken: bool,
    found: RefCell<Vec<Mistake>>,
}

impl Decoder {
    pub fn new(broken: bool) -> Self {
        Self {
            broken,
            found: RefCell::default(),
        }
    }

    pub fn mistakes(self) -> Vec<Mistake> {
        self.found.into_inner()
    }

    pub(super) fn report(&self, line: u64, message: String) {
        self.found.borrow_mut().push(Mistake { line, message });
    }
}
