//! A mergeable sketch of durations, from which percentiles are read.
//!
//! Buckets grow by 2 %, so that a percentile is within 1 % of a true value. The bounds are fixed: sketches of any two
//! minutes, hours or machines are merged by adding counts, in any order, with the same result. That is why this is not
//! one of the published sketches, which collapse buckets to stay small; a day in milliseconds needs 923 buckets here.

use serde::{Deserialize, Serialize};

const BUCKET_GROWTH: f64 = 1.02;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DurationSketch {
    /// Bucket and count, sorted by bucket; most sketches hold few values.
    buckets: Vec<(u16, u32)>,
}

impl DurationSketch {
    pub(super) fn record(&mut self, millis: f64) {
        self.add(bucket_of(millis), 1);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            self.add(*bucket, *count);
        }
    }

    fn add(&mut self, bucket: u16, count: u32) {
        match self.buckets.binary_search_by_key(&bucket, |(b, _)| *b) {
            Ok(at) => {
                if let Some((_, present)) = self.buckets.get_mut(at) {
                    *present = present.saturating_add(count);
                }
            }
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// The nearest-rank percentile: the smallest value that `share` of all values do not exceed.
    pub(super) fn percentile(&self, share: f64) -> Option<f64> {
        let total: u64 = self.buckets.iter().map(|(_, n)| u64::from(*n)).sum();
        // At least 1: with a single value every percentile is that value.
        let rank = (share * total as f64).ceil().max(1.0);
        let mut seen = 0_u64;
        self.buckets.iter().find_map(|(bucket, count)| {
            seen += u64::from(*count);
            (seen as f64 >= rank).then(|| value_of(*bucket))
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a day is bucket 923"
)]
fn bucket_of(millis: f64) -> u16 {
    if millis <= 1.0 {
        return 0;
    }
    (millis.ln() / BUCKET_GROWTH.ln()).ceil() as u16
}

/// The value with the same relative distance from both bounds of the bucket.
fn value_of(bucket: u16) -> f64 {
    match bucket {
        0 => 1.0,
        _ => 2.0 * BUCKET_GROWTH.powi(i32::from(bucket)) / (1.0 + BUCKET_GROWTH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_one_percent() {
        let mut sketch = DurationSketch::default();
        assert_eq!(sketch.percentile(0.5), None);
        for value in 1..=10_000 {
            sketch.record(f64::from(value));
        }
        for (share, truth) in [(0.5, 5_000.0), (0.95, 9_500.0), (0.0, 1.0), (1.0, 10_000.0)] {
            let read = sketch.percentile(share).unwrap();
            assert!((read / truth - 1.0).abs() <= 0.01, "{share}: {read}");
        }
        assert!(bucket_of(86_400_000.0) < 1_000);
    }

    #[test]
    fn merging_in_any_order_is_recording_all() {
        let mut all = DurationSketch::default();
        let mut parts: Vec<DurationSketch> = vec![DurationSketch::default(); 7];
        for value in 0..700_u32 {
            let millis = f64::from(value * value);
            all.record(millis);
            parts[value as usize % 7].record(millis);
        }
        for order in [[0, 1, 2, 3, 4, 5, 6], [6, 3, 1, 0, 5, 2, 4]] {
            let mut merged = DurationSketch::default();
            for part in order {
                merged.merge(&parts[part]);
            }
            assert_eq!(merged, all);
        }
    }
}
