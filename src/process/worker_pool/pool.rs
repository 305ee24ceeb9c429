//! Bounded worker pools for work that must not run on the threads of the runtime: password hashing and cold
//! reads of the store.
//!
//! A full queue, or a wait that would be too long, is reported immediately; no job waits without bound.
//! Clients that share a pool take turns, so a flood from one partner does not block the others.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::worker_pool::fair_queue::{FairQueue, NoRoom, Turn};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker pool is full")]
pub struct PoolFull;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    #[error("a job in a worker pool ended without a result")]
    Failed,
    /// The full queue gave its place to a job of another client.
    #[error("the worker pool is full")]
    Shed,
}

pub struct Awaited<T>(oneshot::AsyncReceiver<Result<T, JobError>>);

impl<T> Future for Awaited<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.0).poll(cx);
        // A dropped sender means that the job panicked or the pool was closed.
        answer.map(|answer| answer.unwrap_or(Err(JobError::Failed)))
    }
}

/// With `None` the job reports that it was shed. Returns whether the caller still waited for the
/// result.
type PoolJob<S> = Box<dyn FnOnce(Option<&mut S>) -> bool + Send>;

struct Queue<S> {
    jobs: FairQueue<PoolJob<S>>,
    /// Moving average of the run time.
    mean: Duration,
    /// Threads that will check the queue once more before they sleep.
    looking: usize,
    closed: bool,
}

impl<S> Queue<S> {
    /// The newest job counts for an eighth.
    fn record_duration(&mut self, time: Duration) {
        self.mean = match self.mean {
            Duration::ZERO => time,
            mean => (mean * 7 + time) / 8,
        };
    }
}

struct PoolState<S> {
    queue: Mutex<Queue<S>>,
    more: Condvar,
}

impl<S> PoolState<S> {
    /// Waits for a job; `None` when the pool is closed.
    fn next_job(&self) -> Option<PoolJob<S>> {
        let mut queue = self.queue.lock();
        let mut has_looked_again = false;
        while !queue.closed {
            if let Some(job) = queue.jobs.pop() {
                // Nobody is notified while a thread is looking. Of several jobs that arrived then, this thread runs the
                // first and wakes a thread for the next.
                let is_more = queue.looking == 0 && !queue.jobs.is_empty();
                drop(queue);
                if is_more {
                    self.more.notify_one();
                }
                return Some(job);
            }
            if has_looked_again {
                self.more.wait(&mut queue);
                continue;
            }
            // Jobs arrive in bursts, from a thread that may be waiting for this core, so the queue is checked once more
            // before sleeping. Waking a thread for each job took a sixth of the processor time of a telemetry upload.
            queue.looking += 1;
            MutexGuard::unlocked(&mut queue, std::thread::yield_now);
            queue.looking -= 1;
            has_looked_again = true;
        }
        None
    }
}

pub struct WorkerPool<S> {
    shared: Arc<PoolState<S>>,
    threads: Vec<JoinHandle<()>>,
    max_wait: Duration,
}

impl<S: 'static> WorkerPool<S> {
    /// Starts the threads. At most `most` jobs wait; one more is refused.
    pub fn new(
        name: &str,
        threads: usize,
        most: usize,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let make = Arc::new(make);
        let mut pool = Self {
            shared: Arc::new(PoolState {
                queue: Mutex::new(Queue {
                    jobs: FairQueue::new(most),
                    mean: Duration::ZERO,
                    looking: 0,
                    closed: false,
                }),
                more: Condvar::new(),
            }),
            threads: Vec::with_capacity(threads),
            max_wait: Duration::MAX,
        };
        for _ in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let make = Arc::clone(&make);
            // If one cannot be started, dropping the pool ends the others.
            let thread = Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&shared, &*make))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Rejects jobs that would wait longer than `max_wait`, estimated from the run time of recent jobs:
    /// by then the client would have given up.
    pub fn with_max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<Awaited<T>, PoolFull> {
        self.run_for(Turn::default(), job)
    }

    /// Dropping the future before the job starts cancels the job.
    pub fn run_for<T: Send + 'static>(
        &self,
        turn: Turn,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<Awaited<T>, PoolFull> {
        let (answer, result) = oneshot::async_channel();
        let job: PoolJob<S> = Box::new(move |state| {
            // A job whose caller has gone must not cost a hash or a read.
            let wanted = !answer.is_closed();
            if wanted {
                // The caller may have dropped the future.
                let _ = answer.send(state.map(job).ok_or(JobError::Shed));
            }
            wanted
        });
        let mut queue = self.shared.queue.lock();
        if self.estimated_wait(queue.jobs.ahead(&turn), queue.mean) > self.max_wait {
            return Err(PoolFull);
        }
        let shed = queue.jobs.push(&turn, job).map_err(|NoRoom| PoolFull)?;
        let is_awaited = queue.looking > 0;
        // The lock is released first, because answering the shed job runs code of its caller.
        drop(queue);
        if let Some(shed) = shed {
            shed(None);
        }
        if !is_awaited {
            self.shared.more.notify_one();
        }
        Ok(Awaited(result))
    }

    fn estimated_wait(&self, jobs: usize, mean: Duration) -> Duration {
        // Rounded down: the jobs of the last round start together.
        let rounds = jobs / self.threads.len().max(1);
        mean.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    pub fn waiting(&self) -> impl Fn() -> usize + Send + Sync + use<S> {
        let shared = Arc::clone(&self.shared);
        move || shared.queue.lock().jobs.len()
    }
}

impl<S> Drop for WorkerPool<S> {
    fn drop(&mut self) {
        {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            // Dropped jobs answer their callers with `Failed`.
            while queue.jobs.pop().is_some() {}
        }
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // The panic hook has already logged the panic of a thread.
            let _ = thread.join();
        }
    }
}

fn work<S>(shared: &PoolState<S>, make: &(dyn Fn() -> S + Send + Sync)) {
    let mut state = make();
    while let Some(job) = shared.next_job() {
        let began = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| job(Some(&mut state)))) {
            // A cancelled job took no time, so it must not lower the average.
            Ok(true) => shared.queue.lock().record_duration(began.elapsed()),
            Ok(false) => {}
            // The panic may have left the state inconsistent.
            Err(_) => state = make(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use playgate_types::PartnerId;

    #[tokio::test]
    async fn jobs_share_the_state_of_their_thread() {
        let pool = WorkerPool::new("test", 1, 4, || 0_u32).unwrap();
        for expected in 1..=3 {
            let count = pool.run(|state| {
                *state += 1;
                *state
            });
            assert_eq!(count.unwrap().await, Ok(expected));
        }
    }

    #[tokio::test]
    async fn a_full_pool_rejects_jobs_immediately() {
        let pool = WorkerPool::new("test", 1, 2, || ()).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let first = pool
            .run(move |()| {
                begun.send(()).unwrap();
                gate.recv().unwrap();
            })
            .unwrap();
        begins.recv().unwrap();
        let second = pool.run(|()| 2).unwrap();
        let _third = pool.run(|()| 3).unwrap();
        assert_eq!(pool.run(|()| 4).err(), Some(PoolFull));
        assert_eq!(pool.waiting()(), 2);
        go.send(()).unwrap();
        assert_eq!(first.await, Ok(()));
        assert_eq!(second.await, Ok(2));
    }

    #[tokio::test]
    async fn a_flood_does_not_delay_other_partners() {
        let [flooder, other] = [1, 2].map(|n| Turn {
            partner: Some(PartnerId::from_bytes([n; 16])),
            ..Turn::default()
        });
        let pool = WorkerPool::new("test", 1, 8, || ()).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let first = pool
            .run_for(flooder, move |()| {
                begun.send(()).unwrap();
                gate.recv().unwrap();
            })
            .unwrap();
        begins.recv().unwrap();
        let (done, order) = mpsc::channel();
        let job = |owner, name: &'static str| {
            let done = done.clone();
            pool.run_for(owner, move |()| done.send(name).unwrap())
        };
        let mut flood: Vec<_> = (0..7).map(|_| job(flooder, "flooder").unwrap()).collect();
        assert_eq!(job(flooder, "flooder").err(), Some(PoolFull));
        let others = [(); 2].map(|()| job(other, "other").unwrap());
        assert_eq!(flood.pop().unwrap().await, Err(JobError::Shed));
        go.send(()).unwrap();
        first.await.unwrap();
        for job in flood.into_iter().chain(others) {
            job.await.unwrap();
        }
        let order: Vec<_> = order.try_iter().collect();
        assert_eq!(order.len(), 8);
        assert_eq!(order[..4], ["flooder", "other", "flooder", "other"]);
    }

    #[tokio::test]
    async fn a_job_that_would_wait_too_long_is_rejected_immediately() {
        let pool = WorkerPool::new("test", 1, 100, || ()).unwrap();
        let pool = pool.with_max_wait(Duration::from_secs(3));
        pool.shared
            .queue
            .lock()
            .record_duration(Duration::from_secs(1));
        let (go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let first = pool
            .run(move |()| {
                begun.send(()).unwrap();
                gate.recv().unwrap();
            })
            .unwrap();
        begins.recv().unwrap();
        let waiting: Vec<_> = (0..10).map_while(|_| pool.run(|()| ()).ok()).collect();
        assert_eq!(waiting.len(), 4);
        go.send(()).unwrap();
        first.await.unwrap();
        for job in waiting {
            job.await.unwrap();
        }
        // Fast jobs have lowered the mean.
        assert!(pool.shared.queue.lock().mean < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_job_behind_one_that_blocks_gets_another_thread() {
        let pool = WorkerPool::new("test", 2, 4, || ()).unwrap();
        // Often enough that threads sleep in some rounds and look for a job again in others.
        for _ in 0..1_000 {
            let (go, gate) = mpsc::channel();
            let first = pool.run(move |()| gate.recv()).unwrap();
            let second = pool.run(|()| 2).unwrap();
            assert_eq!(second.await, Ok(2));
            go.send(()).unwrap();
            assert_eq!(first.await, Ok(Ok(())));
        }
    }

    #[tokio::test]
    async fn a_panic_affects_only_its_job_and_thread_state() {
        let pool = WorkerPool::new("test", 1, 4, || 0_u32).unwrap();
        assert_eq!(
            pool.run(|state| {
                *state = 7;
                *state
            })
            .unwrap()
            .await,
            Ok(7)
        );
        let lost = pool.run(|_| -> u32 { panic!("on purpose") }).unwrap();
        assert_eq!(lost.await, Err(JobError::Failed));
        assert_eq!(pool.run(|state| *state).unwrap().await, Ok(0));
    }

    #[tokio::test]
    async fn a_dropped_future_cancels_its_job() {
        let pool = WorkerPool::new("test", 1, 4, || ()).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (done, worked) = mpsc::channel();
        let first = pool.run(move |()| gate.recv().unwrap()).unwrap();
        let dropped = pool.run(move |()| done.send(()).unwrap()).unwrap();
        drop(dropped);
        go.send(()).unwrap();
        first.await.unwrap();
        pool.run(|()| ()).unwrap().await.unwrap();
        assert!(worked.try_recv().is_err());
    }
}
