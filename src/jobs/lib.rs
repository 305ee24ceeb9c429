//! Background jobs: sweeps, retention, checkpoints. Each job has a name, an interval and its own thread, so a
//! slow job does not delay others, and no job runs twice at a time.
//!
//! A job calls a domain function that bounds its own batches, and gets the time of the service's clock.
//! Intervals are real time, so a moved clock neither stops nor speeds jobs up. A job that should run as soon as
//! there is work is woken through its waker. Failed work is done at the next run: correctness must never
//! depend on when a job runs.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod list;

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use playgate_domain::clock_guard::ClockGuard;
use playgate_observe::Registry;
use playgate_observe::metrics::{Counter, Gauge, Histogram};
use playgate_services::Services;
use playgate_types::UnixSeconds;

/// Delay of the first run, unless the interval is shorter.
const FIRST_RUN_DELAY: Duration = Duration::from_secs(10);

type JobFailure = Box<dyn std::error::Error + Send + Sync>;

type JobFn = Box<dyn FnMut(UnixSeconds) -> Result<usize, JobFailure> + Send>;

type Interrupt = Box<dyn Fn() + Send + Sync>;

/// Wakes a job. Waking a running job makes it run once more; further wake-ups before that are merged.
#[derive(Clone)]
struct JobWaker(SyncSender<()>);

impl JobWaker {
    fn wake(&self) {
        // If the channel is full, the job is about to run anyway; if it is closed, the job has ended.
        let _ = self.0.try_send(());
    }
}

struct Task {
    name: &'static str,
    every: Duration,
    work: JobFn,
    waker: JobWaker,
    woken: Receiver<()>,
    interrupt: Option<Interrupt>,
    needs_time: bool,
    deletes: bool,
}

impl Task {
    fn new<E: Into<JobFailure>>(
        name: &'static str,
        every: Duration,
        mut work: impl FnMut(UnixSeconds) -> Result<usize, E> + Send + 'static,
    ) -> Self {
        // One waiting wake-up is enough: the job then sees all work.
        let (waker, woken) = sync_channel(1);
        Self {
            name,
            every,
            work: Box::new(move |now| work(now).map_err(Into::into)),
            waker: JobWaker(waker),
            woken,
            interrupt: None,
            needs_time: false,
            deletes: false,
        }
    }

    /// For a job that acts on times far in the past or future: it is skipped while the clock is in doubt.
    fn needs_time(mut self) -> Self {
        self.needs_time = true;
        self
    }

    /// For a job that deletes by age: it is skipped while the clock is in doubt, and its counts are logged.
    fn deletes(mut self) -> Self {
        self.deletes = true;
        self.needs_time()
    }

    /// Calls `interrupt` at shutdown, for a job that may be waiting for a remote server.
    fn on_shutdown(mut self, interrupt: impl Fn() + Send + Sync + 'static) -> Self {
        self.interrupt = Some(Box::new(interrupt));
        self
    }
}

pub struct Jobs {
    stopping: Arc<AtomicBool>,
    wakers: Vec<JobWaker>,
    rounds: Vec<Rounds>,
    interrupts: Vec<Interrupt>,
    running: Receiver<()>,
}

impl Jobs {
    /// Starts the jobs of the service. If a thread cannot be started, the jobs that were started are stopped
    /// again.
    pub fn start(services: &Arc<Services>) -> io::Result<Self> {
        let jobs = Self::run(
            list::tasks(services),
            &services.clock_guard,
            &services.metrics,
        )?;
        let rounds = jobs.rounds.clone();
        services
            .due_jobs
            .set(Box::new(move |max_wait| run_all(&rounds, max_wait)));
        Ok(jobs)
    }

    pub fn start_as_standby(services: &Arc<Services>) -> io::Result<Self> {
        let tasks = list::tasks_of_standby(services);
        Self::run(tasks, &services.clock_guard, &services.metrics)
    }

    fn run(tasks: Vec<Task>, guard: &Arc<ClockGuard>, metrics: &Registry) -> io::Result<Self> {
        let (alive, running) = channel();
        let mut jobs = Self {
            stopping: Arc::default(),
            wakers: Vec::with_capacity(tasks.len()),
            rounds: Vec::new(),
            interrupts: Vec::new(),
            running,
        };
        for mut task in tasks {
            jobs.wakers.push(task.waker.clone());
            let rounds = Rounds::new(task.name, task.waker.clone());
            jobs.rounds.push(rounds.clone());
            jobs.interrupts.extend(task.interrupt.take());
            let runner = Runner {
                observed: Observed::new(task.name, metrics),
                guard: Arc::clone(guard),
                stopping: Arc::clone(&jobs.stopping),
                rounds,
                task,
                _alive: alive.clone(),
            };
            // A failure drops `jobs`, which stops those that run already.
            Builder::new()
                .name(format!("job-{}", runner.task.name))
                .spawn(move || runner.run())?;
        }
        Ok(jobs)
    }

    /// Stops the jobs and waits for running ones; returns whether all ended in time. A job that did not
    /// continues until the process exits.
    pub fn stop(self, within: Duration) -> bool {
        self.begin_shutdown();
        // Every job thread holds a sender. The channel is disconnected when the last one has ended.
        self.running.recv_timeout(within) == Err(RecvTimeoutError::Disconnected)
    }

    fn begin_shutdown(&self) {
        // Set before the jobs are woken: a woken job ends only if it sees this.
        self.stopping.store(true, Ordering::SeqCst);
        for waker in &self.wakers {
            waker.wake();
        }
        for interrupt in &self.interrupts {
            interrupt();
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.begin_shutdown();
    }
}

#[derive(Clone)]
struct Rounds {
    name: &'static str,
    waker: JobWaker,
    counts: Arc<(Mutex<RoundCounts>, Condvar)>,
}

#[derive(Clone, Copy, Default)]
struct RoundCounts {
    begun: u64,
    ended: u64,
}

impl Rounds {
    fn new(name: &'static str, waker: JobWaker) -> Self {
        Self {
            name,
            waker,
            counts: Arc::default(),
        }
    }

    fn begin(&self) {
        self.counts.0.lock().begun += 1;
    }

    fn end(&self) {
        self.counts.0.lock().ended += 1;
        self.counts.1.notify_all();
    }

    fn next(&self) -> u64 {
        self.counts.0.lock().begun + 1
    }

    fn wait(&self, run: u64, deadline: Instant) -> bool {
        let mut counts = self.counts.0.lock();
        while counts.ended < run {
            if self.counts.1.wait_until(&mut counts, deadline).timed_out() {
                return counts.ended >= run;
            }
        }
        true
    }
}

/// Runs every job once, at the same time; returns the names of those that did not end within `max_wait`.
fn run_all(jobs: &[Rounds], max_wait: Duration) -> Vec<&'static str> {
    let deadline = Instant::now() + max_wait;
    // Read before the jobs are woken: a run that is already in progress does not count.
    let runs: Vec<u64> = jobs.iter().map(Rounds::next).collect();
    for job in jobs {
        job.waker.wake();
    }
    let late = jobs
        .iter()
        .zip(runs)
        .filter(|(job, run)| !job.wait(*run, deadline));
    late.map(|(job, _)| job.name).collect()
}

struct Observed {
    runs: Arc<Counter>,
    failures: Arc<Counter>,
    done: Arc<Counter>,
    last: Arc<Gauge>,
    took: Arc<Histogram>,
}

impl Observed {
    fn new(name: &str, metrics: &Registry) -> Self {
        let labels = &[("task", name)];
        Self {
            runs: metrics.counter(
                "playgate_job_runs_total",
                "Runs of a background task.",
                labels,
            ),
            failures: metrics.counter(
                "playgate_job_failures_total",
                "Failed runs of a background task.",
                labels,
            ),
            done: metrics.counter(
                "playgate_job_items_total",
                "Items that a background task processed, such as records or files deleted.",
                labels,
            ),
            last: metrics.gauge(
                "playgate_job_last_success_timestamp_seconds",
                "Unix time of the last successful run of a background task.",
                labels,
            ),
            took: metrics.histogram(
                "playgate_job_duration_seconds",
                "Duration of a run of a background task in seconds.",
                labels,
            ),
        }
    }
}

struct Runner {
    task: Task,
    stopping: Arc<AtomicBool>,
    guard: Arc<ClockGuard>,
    observed: Observed,
    rounds: Rounds,
    /// Dropped when the thread ends.
    _alive: Sender<()>,
}

impl Runner {
    fn run(mut self) {
        let mut wait = self.task.every.min(FIRST_RUN_DELAY);
        loop {
            // Woken up, or timed out: run, unless the jobs are being stopped.
            let _ = self.task.woken.recv_timeout(wait);
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            self.rounds.begin();
            self.run_once();
            self.rounds.end();
            wait = self.task.every;
        }
    }

    fn run_once(&mut self) {
        let now = if self.task.needs_time {
            // Uses the reading that was checked: the clock may jump between two readings.
            let Ok(now) = self.guard.check() else { return };
            now
        } else {
            self.guard.now()
        };
        let began = Instant::now();
        let name = self.task.name;
        let work = &mut self.task.work;
        // A panic in one job must neither end that job permanently nor affect others.
        let result = catch_unwind(AssertUnwindSafe(|| work(now)))
            .unwrap_or_else(|panic| Err(panic_message(&*panic).into()));
        let took = began.elapsed();
        self.observed.runs.one();
        self.observed.took.observe(took);
        match result {
            Ok(done) => {
                self.observed.done.add(done as u64);
                self.observed.last.set(now.0);
                if done > 0 && self.task.deletes {
                    tracing::info!(job = name, deleted = done, ?took, "deleted expired items");
                } else if done > 0 {
                    tracing::debug!(job = name, done, ?took, "job finished");
                }
            }
            Err(error) => {
                self.observed.failures.one();
                tracing::warn!(job = name, %error, ?took, "job failed; it will be retried at the next interval");
            }
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", words.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use playgate_domain::clock_guard;
    use playgate_ports::{Clock, ManualClock};
    use playgate_store::{Schema, Store};

    const SOON: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(20);

    fn guard(clock: Arc<dyn Clock>) -> Arc<ClockGuard> {
        let store = Store::in_memory(clock_guard::schema(Schema::default()));
        Arc::new(ClockGuard::open(store, clock, None).unwrap())
    }

    fn run(tasks: Vec<Task>) -> (Jobs, Registry) {
        let metrics = Registry::default();
        let guard = guard(Arc::new(ManualClock::at(UnixSeconds(7))));
        (Jobs::run(tasks, &guard, &metrics).unwrap(), metrics)
    }

    #[test]
    fn a_task_runs_again_after_a_failure_and_a_panic() {
        let (run_sender, run_receiver) = channel();
        let mut runs = 0;
        let work = move |now: UnixSeconds| {
            runs += 1;
            // The test may have ended.
            let _ = run_sender.send(now);
            match runs {
                1 => Err("no"),
                2 => panic!("a defect"),
                _ => Ok(3),
            }
        };
        let (jobs, metrics) = run(vec![Task::new("test", SOON, work)]);
        for _ in 0..4 {
            assert_eq!(run_receiver.recv_timeout(LONG), Ok(UnixSeconds(7)));
        }
        assert!(jobs.stop(LONG));
        let text = metrics.render();
        for line in [
            "playgate_job_failures_total{task=\"test\"} 2",
            "playgate_job_last_success_timestamp_seconds{task=\"test\"} 7",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn waking_a_job_never_blocks_and_is_not_lost() {
        let (run_sender, run_receiver) = channel();
        let (release, released) = channel::<()>();
        let work = move |_: UnixSeconds| {
            let _ = run_sender.send(());
            let _ = released.recv();
            Ok::<_, String>(0)
        };
        let task = Task::new("woken", Duration::from_secs(3_600), work);
        let waker = task.waker.clone();
        let (jobs, _metrics) = run(vec![task]);
        waker.wake();
        run_receiver.recv_timeout(LONG).unwrap();
        // Woken three times while it runs: it runs once more.
        (0..3).for_each(|_| waker.wake());
        release.send(()).unwrap();
        run_receiver.recv_timeout(LONG).unwrap();
        release.send(()).unwrap();
        drop(release);
        assert!(jobs.stop(LONG));
        assert_eq!(
            run_receiver.recv_timeout(LONG),
            Err(RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn running_all_jobs_waits_for_each_and_names_the_late_ones() {
        let (release, released) = channel::<()>();
        let (run_sender, run_receiver) = channel();
        let quick = Task::new("quick", LONG, move |_| {
            let _ = run_sender.send(());
            Ok::<_, Infallible>(0)
        });
        let slow = Task::new("slow", LONG, move |_| {
            let _ = released.recv();
            Ok::<_, Infallible>(0)
        });
        let (jobs, _metrics) = run(vec![quick, slow]);
        // Long enough for the quick job on a busy machine.
        assert_eq!(run_all(&jobs.rounds, Duration::from_secs(2)), ["slow"]);
        assert_eq!(run_receiver.try_recv(), Ok(()));
        // One run is under way, and the next is the one that is waited for.
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert!(run_all(&jobs.rounds, LONG).is_empty());
        assert_eq!(run_receiver.try_recv(), Ok(()));
        drop(release);
        assert!(jobs.stop(LONG));
    }

    #[test]
    fn stopping_hurries_a_running_job() {
        let (run_sender, run_receiver) = channel();
        let (release, released) = channel::<()>();
        let work = move |_: UnixSeconds| {
            let _ = run_sender.send(());
            let _ = released.recv();
            Ok::<_, String>(0)
        };
        let task = Task::new("slow", SOON, work).on_shutdown(move || {
            let _ = release.send(());
        });
        let (jobs, _metrics) = run(vec![task]);
        run_receiver.recv_timeout(LONG).unwrap();
        assert!(jobs.stop(LONG));
    }

    #[test]
    fn stopping_waits_for_a_running_job_up_to_the_limit() {
        let (run_sender, run_receiver) = channel();
        let (release, released) = channel::<()>();
        let mut first = true;
        let work = move |_: UnixSeconds| {
            if std::mem::take(&mut first) {
                let _ = run_sender.send(());
                let _ = released.recv();
            }
            Ok::<_, String>(0)
        };
        let idle = Task::new("idle", LONG, |_| Ok::<_, String>(0));
        let (jobs, _metrics) = run(vec![Task::new("slow", SOON, work), idle]);
        run_receiver.recv_timeout(LONG).unwrap();
        assert!(!jobs.stop(SOON * 4));
        drop(release);
        // Its thread ends without another run.
        let again = run_receiver.recv_timeout(LONG);
        assert_eq!(again, Err(RecvTimeoutError::Disconnected));
    }
}
