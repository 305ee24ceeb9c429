//! The queue of the writer thread, and how long a group of a fleet waits for more commits.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use super::writer::WriterMessage;

/// Messages that are taken from the channel ahead of their turn.
const TAKEN_MAX: usize = 1_024;

pub(super) struct Inbox<'a> {
    receiver: &'a Receiver<WriterMessage>,
    /// Messages that come before those of the channel.
    taken: VecDeque<WriterMessage>,
}

impl<'a> Inbox<'a> {
    pub(super) fn new(receiver: &'a Receiver<WriterMessage>) -> Self {
        Self {
            receiver,
            taken: VecDeque::new(),
        }
    }

    pub(super) fn next(&mut self, wait: Duration) -> Result<WriterMessage, RecvTimeoutError> {
        match self.taken.pop_front() {
            Some(message) => Ok(message),
            // Without a look at the clock.
            None if wait.is_zero() => self.receiver.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
            None => self.receiver.recv_timeout(wait),
        }
    }

    /// Puts a message back, which is then the next one.
    pub(super) fn put_back(&mut self, message: WriterMessage) {
        self.taken.push_front(message);
    }

    /// Returns how many commits are waiting.
    pub(super) fn waiting(&mut self) -> usize {
        while self.taken.len() < TAKEN_MAX
            && let Ok(message) = self.receiver.try_recv()
        {
            self.taken.push_back(message);
        }
        let commits = self.taken.iter();
        commits
            .filter(|message| matches!(message, WriterMessage::Write(..)))
            .count()
    }
}

/// Maximum time that a group waits for more commits.
const PATIENCE_MAX: Duration = Duration::from_millis(20);
/// Part of the time of an append that a group waits, as a divisor.
const PATIENCE_DIVISOR: u32 = 4;

/// How many clients commit at the same time in a fleet, and how long an append takes.
///
/// A client sends its next commit soon after the answer to the last one. A group that does not wait has only the commits that
/// came during the previous append, and the clients that are answered just before wait for two appends: half of the clients
/// are in every second group. So a group waits a little for those that were just answered. A commit that comes alone waits for
/// nobody.
#[derive(Default)]
pub(in crate::store) struct Crowd {
    expected: usize,
    append: Duration,
}

impl Crowd {
    /// Returns how long a group with so many commits waits for more, counted from its first one.
    pub(super) fn patience(&self, commits: usize) -> Duration {
        match commits < self.expected {
            true => (self.append / PATIENCE_DIVISOR).min(PATIENCE_MAX),
            false => Duration::ZERO,
        }
    }

    /// Records that an append has taken some time, and that so many commits are answered now while others are waiting.
    pub(super) fn answers(&mut self, commits: usize, waiting: usize, took: Duration) {
        self.expected = commits + waiting;
        self.append = (self.append * 3 + took) / 4;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_group_waits_for_those_that_were_just_answered_and_a_single_commit_for_nobody() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.patience(1), Duration::ZERO);
        let append = Duration::from_millis(8);
        for _ in 0..100 {
            crowd.answers(1, 0, append);
        }
        assert_eq!(crowd.patience(1), Duration::ZERO);
        // Eight clients were answered while eight others waited: the next group has room for all.
        crowd.answers(8, 8, append);
        let patience = crowd.patience(8);
        assert!(patience > Duration::ZERO && patience <= append / PATIENCE_DIVISOR);
        assert_eq!(crowd.patience(15), patience);
        assert_eq!(crowd.patience(16), Duration::ZERO);
        crowd.answers(16, 0, Duration::from_secs(60));
        assert_eq!(crowd.patience(1), PATIENCE_MAX);
        // After the crowd is gone, one group has waited.
        crowd.answers(1, 0, append);
        assert_eq!(crowd.patience(1), Duration::ZERO);
    }

    #[test]
    fn messages_keep_their_order_when_the_waiting_ones_are_counted() {
        let (sender, receiver) = sync_channel(8);
        let mut inbox = Inbox::new(&receiver);
        sender.send(WriterMessage::Stop).unwrap();
        sender
            .send(WriterMessage::Exclusive(Box::new(|_| ())))
            .unwrap();
        assert_eq!(inbox.waiting(), 0);
        let (probe, _) = oneshot::channel();
        sender.send(WriterMessage::Probe(probe)).unwrap();
        let first = inbox.next(Duration::ZERO).unwrap();
        assert!(matches!(first, WriterMessage::Stop));
        inbox.put_back(first);
        let mut next = || inbox.next(Duration::ZERO);
        assert!(matches!(next(), Ok(WriterMessage::Stop)));
        assert!(matches!(next(), Ok(WriterMessage::Exclusive(_))));
        assert!(matches!(next(), Ok(WriterMessage::Probe(_))));
        assert!(next().is_err());
    }
}
