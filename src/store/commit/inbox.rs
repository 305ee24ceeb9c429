//! The queue of the writer thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use crate::commit::writer::WriterMessage;

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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

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
