//! A lane: a few threads with a short queue for work that must not run on the runtime's threads:
//! hashing passwords, cold reads of the store. A full queue is told at once, and so is a wait that
//! would be too long; nothing waits without bound. Those who share a lane are served in turn, so that
//! one partner's flood keeps no other waiting.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::error::ApiError;
use super::fair_queue::{FairQueue, NoRoom, Turn};

/// The lane takes no more work at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lane is full")]
pub struct PoolFull;

/// Why work ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// It panicked, or the lane was closed.
    #[error("the work of a lane was lost")]
    Failed,
    /// It waited in a full lane behind others of the same owner, and made room for another's.
    #[error("the lane is full")]
    Shed,
}

impl From<PoolFull> for ApiError {
    fn from(_: PoolFull) -> Self {
        Self::overloaded()
    }
}

impl From<JobError> for ApiError {
    fn from(lost: JobError) -> Self {
        match lost {
            JobError::Failed => Self::internal(lost),
            JobError::Shed => Self::overloaded(),
        }
    }
}

/// The result of a job, to be waited for.
pub struct Awaited<T>(oneshot::AsyncReceiver<Result<T, JobError>>);

impl<T> Future for Awaited<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.0).poll(cx);
        answer.map(|answer| answer.unwrap_or(Err(JobError::Failed)))
    }
}

/// Does the work with a thread's state, or is shed without one; returns whether there was anything to
/// do.
type Job<S> = Box<dyn FnOnce(Option<&mut S>) -> bool + Send>;

struct Queue<S> {
    jobs: FairQueue<Job<S>>,
    /// How long a job took of late, about.
    mean: Duration,
    closed: bool,
}

impl<S> Queue<S> {
    /// Notes how long a job took: the newest counts for an eighth.
    fn took(&mut self, time: Duration) {
        self.mean = match self.mean {
            Duration::ZERO => time,
            mean => (mean * 7 + time) / 8,
        };
    }
}

struct Shared<S> {
    queue: Mutex<Queue<S>>,
    more: Condvar,
}

/// A few threads, each with a state of its own, and a short queue.
pub struct WorkerPool<S> {
    shared: Arc<Shared<S>>,
    threads: Vec<JoinHandle<()>>,
    patience: Duration,
}

impl<S: 'static> WorkerPool<S> {
    /// Starts `threads` threads named `name`, each with a state from `make`; up to `most` jobs wait.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(
        name: &str,
        threads: usize,
        most: usize,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let make = Arc::new(make);
        let mut lane = Self {
            shared: Arc::new(Shared {
                queue: Mutex::new(Queue {
                    jobs: FairQueue::new(most),
                    mean: Duration::ZERO,
                    closed: false,
                }),
                more: Condvar::new(),
            }),
            threads: Vec::with_capacity(threads),
            patience: Duration::MAX,
        };
        for _ in 0..threads {
            let shared = Arc::clone(&lane.shared);
            let make = Arc::clone(&make);
            let thread = Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&shared, &*make))?;
            lane.threads.push(thread);
        }
        Ok(lane)
    }

    /// The same lane, but no job that would wait for longer than this, by what those before it took,
    /// is let in: its asker would have gone by then.
    #[must_use]
    pub fn with_max_wait(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Queues a job of nobody in particular, as [`run_for`](Self::run_for).
    ///
    /// # Errors
    /// [`PoolFull`], at once.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<Awaited<T>, PoolFull> {
        self.run_for(Turn::default(), job)
    }

    /// Queues a job. Its result comes through the future; who drops the future before the job has
    /// begun takes it back. In a full lane the newest job of whoever has more of them waiting makes
    /// room.
    ///
    /// # Errors
    /// [`PoolFull`], at once.
    pub fn run_for<T: Send + 'static>(
        &self,
        turn: Turn,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<Awaited<T>, PoolFull> {
        let (answer, result) = oneshot::async_channel();
        let job: Job<S> = Box::new(move |state| {
            let wanted = !answer.is_closed();
            if wanted {
                // The asker may go away meanwhile.
                let _ = answer.send(state.map(job).ok_or(JobError::Shed));
            }
            wanted
        });
        let mut queue = self.shared.queue.lock();
        if self.wait(queue.jobs.ahead(&turn), queue.mean) > self.patience {
            return Err(PoolFull);
        }
        let shed = queue.jobs.push(&turn, job).map_err(|NoRoom| PoolFull)?;
        drop(queue);
        if let Some(shed) = shed {
            shed(None);
        }
        self.shared.more.notify_one();
        Ok(Awaited(result))
    }

    /// How long so many jobs keep the next one waiting.
    fn wait(&self, jobs: usize, mean: Duration) -> Duration {
        let rounds = jobs / self.threads.len().max(1);
        mean.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    /// Tells how many jobs wait, whenever it is asked.
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
            while queue.jobs.pop().is_some() {}
        }
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that ended by a panic has been logged by the hook.
            let _ = thread.join();
        }
    }
}

fn work<S>(shared: &Shared<S>, make: &(dyn Fn() -> S + Send + Sync)) {
    let mut state = make();
    loop {
        let job = {
            let mut queue = shared.queue.lock();
            loop {
                if queue.closed {
                    return;
                }
                if let Some(job) = queue.jobs.pop() {
                    break job;
                }
                shared.more.wait(&mut queue);
            }
        };
        let began = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| job(Some(&mut state)))) {
            Ok(true) => shared.queue.lock().took(began.elapsed()),
            Ok(false) => {}
            // What the job left of the state is not to be trusted.
            Err(_) => state = make(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::types::PartnerId;

    #[tokio::test]
    async fn work_runs_with_the_state_of_its_thread() {
        let lane = WorkerPool::new("test", 1, 4, || 0_u32).unwrap();
        for expected in 1..=3 {
            let count = lane.run(|state| {
                *state += 1;
                *state
            });
            assert_eq!(count.unwrap().await, Ok(expected));
        }
    }

    #[tokio::test]
    async fn a_full_lane_says_so_at_once() {
        let lane = WorkerPool::new("test", 1, 2, || ()).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let first = lane
            .run(move |()| {
                begun.send(()).unwrap();
                gate.recv().unwrap();
            })
            .unwrap();
        begins.recv().unwrap();
        let second = lane.run(|()| 2).unwrap();
        let _third = lane.run(|()| 3).unwrap();
        assert_eq!(lane.run(|()| 4).err(), Some(PoolFull));
        assert_eq!(lane.waiting()(), 2);
        go.send(()).unwrap();
        assert_eq!(first.await, Ok(()));
        assert_eq!(second.await, Ok(2));
    }

    #[tokio::test]
    async fn a_flood_keeps_nobody_else_waiting() {
        let [flooder, other] = [1, 2].map(|n| Turn {
            partner: Some(PartnerId::from_bytes([n; 16])),
            ..Turn::default()
        });
        let lane = WorkerPool::new("test", 1, 8, || ()).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let first = lane
            .run_for(flooder, move |()| {
                begun.send(()).unwrap();
                gate.recv().unwrap();
            })
            .unwrap();
        begins.recv().unwrap();
        let (done, order) = mpsc::channel();
        let job = |owner, name: &'static str| {
            let done = done.clone();
            lane.run_for(owner, move |()| done.send(name).unwrap())
        };
        let mut flood: Vec<_> = (0..7).map(|_| job(flooder, "flooder").unwrap()).collect();
        assert_eq!(job(flooder, "flooder").err(), Some(PoolFull));
        let others = [(); 2].map(|()| job(other, "other").unwrap());
        // The newest one of the flooder made room.
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
    async fn who_would_wait_too_long_is_told_at_once() {
        let lane = WorkerPool::new("test", 1, 100, || ()).unwrap();
        let lane = lane.with_max_wait(Duration::from_secs(3));
        lane.shared.queue.lock().took(Duration::from_secs(1));
        let (go, gate) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let first = lane
            .run(move |()| {
                begun.send(()).unwrap();
                gate.recv().unwrap();
            })
            .unwrap();
        begins.recv().unwrap();
        let waiting: Vec<_> = (0..10).map_while(|_| lane.run(|()| ()).ok()).collect();
        assert_eq!(waiting.len(), 4);
        go.send(()).unwrap();
        first.await.unwrap();
        for job in waiting {
            job.await.unwrap();
        }
        // Quick ones have brought the mean down.
        assert!(lane.shared.queue.lock().mean < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_panic_loses_its_own_job_and_state_only() {
        let lane = WorkerPool::new("test", 1, 4, || 0_u32).unwrap();
        assert_eq!(
            lane.run(|state| {
                *state = 7;
                *state
            })
            .unwrap()
            .await,
            Ok(7)
        );
        let lost = lane.run(|_| -> u32 { panic!("on purpose") }).unwrap();
        assert_eq!(lost.await, Err(JobError::Failed));
        assert_eq!(lane.run(|state| *state).unwrap().await, Ok(0));
    }

    #[tokio::test]
    async fn who_does_not_wait_is_not_worked_for() {
        let lane = WorkerPool::new("test", 1, 4, || ()).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (done, worked) = mpsc::channel();
        let first = lane.run(move |()| gate.recv().unwrap()).unwrap();
        let dropped = lane.run(move |()| done.send(()).unwrap()).unwrap();
        drop(dropped);
        go.send(()).unwrap();
        first.await.unwrap();
        lane.run(|()| ()).unwrap().await.unwrap();
        assert!(worked.try_recv().is_err());
    }
}
