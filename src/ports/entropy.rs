//! Sources of randomness.

use std::sync::atomic::{AtomicU64, Ordering};

use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

pub trait Entropy: Send + Sync {
    fn fill(&self, buffer: &mut [u8]);
}

impl dyn Entropy + '_ {
    pub fn array<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

pub struct SystemEntropy(SystemRandom);

impl Default for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "the port that the ban points to")]
    fn default() -> Self {
        Self(SystemRandom::new())
    }
}

/// The generator that ring uses for signatures. ring accepts no other source, so ECDSA signatures differ each
/// time, in tests too.
#[expect(clippy::disallowed_methods, reason = "the port that the ban points to")]
pub fn signature_random() -> SystemRandom {
    SystemRandom::new()
}

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        // On Linux getrandom succeeds once it is seeded, before any service runs. A machine where it fails
        // must not issue guessable tokens.
        #[expect(
            clippy::expect_used,
            reason = "without randomness there is nothing safe to do"
        )]
        self.0
            .fill(buffer)
            .expect("the operating system gives random bytes");
    }
}

/// A deterministic sequence of bytes, for tests.
pub struct SeededEntropy {
    seed: u64,
    drawn: AtomicU64,
}

impl SeededEntropy {
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            drawn: AtomicU64::new(0),
        }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(32) {
            // The draws must differ; their order between threads does not matter.
            let number = self.drawn.fetch_add(1, Ordering::Relaxed);
            let mut context = digest::Context::new(&digest::SHA256);
            context.update(&self.seed.to_be_bytes());
            context.update(&number.to_be_bytes());
            for (to, from) in chunk.iter_mut().zip(context.finish().as_ref()) {
                *to = *from;
            }
        }
    }
}
