//! Media formats: reads and writes containers and manifests, and knows no product rule.

pub(crate) mod loop_channel;
