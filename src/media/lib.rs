//! Media formats: reads and writes containers and manifests, and knows no product rule.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod loop_channel;
