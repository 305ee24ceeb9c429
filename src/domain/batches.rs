//! Long changes in small commits.

/// Runs `batch`, which returns how many records it has changed, until it changes fewer than `size`. Returns the sum. One
/// large commit would hold the writer thread, and all other commits would wait for it.
pub(crate) fn in_batches<E>(
    size: usize,
    mut batch: impl FnMut() -> Result<usize, E>,
) -> Result<usize, E> {
    let mut sum = 0;
    loop {
        let changed = batch()?;
        sum += changed;
        if changed < size {
            return Ok(sum);
        }
    }
}
