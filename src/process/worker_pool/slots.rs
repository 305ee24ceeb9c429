//! Slots for requests to another server: few at a time for each session, and turns by partner and network when all are
//! in use. So neither a session nor a partner's flood keeps the others from a slow server.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use super::fair_queue::{FairQueue, Turn};

/// What may run at a time, and wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLimits {
    pub running: usize,
    /// Of one session: running, or waiting for a turn.
    pub of_session: usize,
    /// Of one session: waiting for its earlier requests.
    pub behind: usize,
    pub waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSlot {
    #[error("too many requests of the session are waiting")]
    Session,
    #[error("too many requests are waiting")]
    All,
}

/// A slot. Dropping it lets the next request run.
pub struct Slot<S: Copy + Eq + Hash> {
    slots: Arc<Mutex<State<S>>>,
    /// Taken when the slot was never handed out.
    session: Option<S>,
}

pub(crate) struct Slots<S: Copy + Eq + Hash>(Arc<Mutex<State<S>>>);

struct Waiting<S: Copy + Eq + Hash> {
    session: S,
    turn: Turn,
    hand_out: oneshot::Sender<Slot<S>>,
}

struct SessionSlots<S: Copy + Eq + Hash> {
    /// Running, or in the queue.
    held: usize,
    behind: VecDeque<Waiting<S>>,
}

struct State<S: Copy + Eq + Hash> {
    limits: SlotLimits,
    running: usize,
    sessions: HashMap<S, SessionSlots<S>>,
    queue: FairQueue<Waiting<S>>,
}

impl<S: Copy + Eq + Hash> Slots<S> {
    pub(crate) fn new(limits: SlotLimits) -> Self {
        Self(Arc::new(Mutex::new(State {
            limits,
            running: 0,
            sessions: HashMap::new(),
            queue: FairQueue::new(limits.waiting),
        })))
    }

    /// Waits for a slot. Dropping the future gives the place up.
    pub(crate) async fn acquire(&self, session: S, turn: Turn) -> Result<Slot<S>, NoSlot> {
        let (hand_out, slot) = oneshot::async_channel();
        let waiting = Waiting {
            session,
            turn,
            hand_out,
        };
        {
            let mut state = self.0.lock();
            state.admit(waiting)?;
            state.hand_out(&self.0);
        }
        // The sender is dropped when a full queue gives the place to another client.
        slot.await.map_err(|_| NoSlot::All)
    }
}

impl<S: Copy + Eq + Hash> State<S> {
    fn admit(&mut self, waiting: Waiting<S>) -> Result<(), NoSlot> {
        let (session, limits) = (waiting.session, self.limits);
        let held = self
            .sessions
            .entry(session)
            .or_insert_with(|| SessionSlots {
                held: 0,
                behind: VecDeque::new(),
            });
        if held.held < limits.of_session {
            held.held += 1;
            return self.enqueue(waiting);
        }
        // Those whose client has gone make room.
        held.behind.retain(|earlier| !earlier.hand_out.is_closed());
        if held.behind.len() >= limits.behind {
            return Err(NoSlot::Session);
        }
        held.behind.push_back(waiting);
        Ok(())
    }

    /// Queues a request that its session already counts.
    fn enqueue(&mut self, waiting: Waiting<S>) -> Result<(), NoSlot> {
        let (session, turn) = (waiting.session, waiting.turn);
        match self.queue.push(&turn, waiting) {
            Ok(shed) => {
                if let Some(shed) = shed {
                    self.session_done(shed.session);
                }
                Ok(())
            }
            Err(_) => {
                self.session_done(session);
                Err(NoSlot::All)
            }
        }
    }

    /// A request of the session has ended: the next one behind it may wait for a turn.
    fn session_done(&mut self, session: S) {
        // Without room for the next one, its session or that of another client has ended a request too.
        let mut done = vec![session];
        while let Some(session) = done.pop() {
            let Some(next) = self.next_behind(session) else {
                continue;
            };
            let turn = next.turn;
            match self.queue.push(&turn, next) {
                Ok(shed) => done.extend(shed.map(|shed| shed.session)),
                Err(_) => done.push(session),
            }
        }
    }

    fn next_behind(&mut self, session: S) -> Option<Waiting<S>> {
        let held = self.sessions.get_mut(&session)?;
        held.held -= 1;
        while let Some(next) = held.behind.pop_front() {
            if !next.hand_out.is_closed() {
                held.held += 1;
                return Some(next);
            }
        }
        if held.held == 0 {
            self.sessions.remove(&session);
        }
        None
    }

    fn hand_out(&mut self, slots: &Arc<Mutex<Self>>) {
        while self.running < self.limits.running {
            let Some(next) = self.queue.pop() else {
                return;
            };
            let slot = Slot {
                slots: Arc::clone(slots),
                session: Some(next.session),
            };
            self.running += 1;
            if let Err(error) = next.hand_out.send(slot) {
                // The client has gone. Its slot must not lock the state again when it is dropped.
                error.into_inner().session = None;
                self.running -= 1;
                self.session_done(next.session);
            }
        }
    }
}

impl<S: Copy + Eq + Hash> Drop for Slot<S> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let mut state = self.slots.lock();
            state.running -= 1;
            state.session_done(session);
            state.hand_out(&self.slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use playgate_types::PartnerId;

    type Pending<'a> = Pin<Box<dyn Future<Output = Result<Slot<u8>, NoSlot>> + 'a>>;

    /// Polls a future once.
    fn now(future: &mut Pending<'_>) -> Option<Result<Slot<u8>, NoSlot>> {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    const LIMITS: SlotLimits = SlotLimits {
        running: 4,
        of_session: 2,
        behind: 3,
        waiting: 16,
    };

    fn turn(partner: u8) -> Turn {
        let id = PartnerId::from_bytes([partner; 16]);
        Turn::for_client(Some(id), IpAddr::from([192, 0, 2, partner]))
    }

    fn ask(slots: &Slots<u8>, session: u8, partner: u8) -> Pending<'_> {
        Box::pin(slots.acquire(session, turn(partner)))
    }

    #[test]
    fn a_session_has_two_slots_and_leaves_the_others() {
        let slots = Slots::new(LIMITS);
        let mut requests: Vec<_> = (0..5).map(|_| ask(&slots, 1, 1)).collect();
        let mut held: Vec<_> = requests.iter_mut().filter_map(now).collect();
        assert_eq!(held.len(), 2);
        assert_eq!(
            now(&mut ask(&slots, 1, 1)).unwrap().err(),
            Some(NoSlot::Session)
        );
        let other = now(&mut ask(&slots, 2, 2)).unwrap().unwrap();
        // The next one runs when an earlier one ends.
        drop(held.pop());
        let next: Vec<_> = requests[2..].iter_mut().filter_map(now).collect();
        assert_eq!(next.len(), 1);
        drop(other);
    }

    #[test]
    fn partners_take_turns_when_all_slots_are_in_use() {
        let slots = Slots::new(LIMITS);
        let mut first: Vec<_> = (0..4).map(|session| ask(&slots, session, 1)).collect();
        let mut running: Vec<_> = first.iter_mut().filter_map(now).collect();
        assert_eq!(running.len(), 4);
        let mut flood: Vec<_> = (4..8).map(|session| ask(&slots, session, 1)).collect();
        assert_eq!(flood.iter_mut().filter_map(now).count(), 0);
        let mut other = ask(&slots, 9, 2);
        assert!(now(&mut other).is_none());
        drop(running.drain(..2));
        assert!(
            now(&mut other).is_some(),
            "the other partner waits behind the flood"
        );
    }

    #[test]
    fn a_place_that_is_given_up_is_free() {
        let slots = Slots::new(LIMITS);
        let mut gone: Vec<_> = (0..4).map(|session| ask(&slots, session, 1)).collect();
        // Handed out, but not yet received.
        assert_eq!(
            gone.iter_mut()
                .take(2)
                .filter_map(now)
                .filter(Result::is_ok)
                .count(),
            2
        );
        drop(gone);
        let mut all: Vec<_> = (0..6).map(|session| ask(&slots, session, 1)).collect();
        let running: Vec<_> = all.iter_mut().filter_map(now).collect();
        assert_eq!(running.len(), 4);
        drop(all);
        drop(running);
        let state = slots.0.lock();
        assert_eq!(
            (state.running, state.sessions.len(), state.queue.len()),
            (0, 0, 0)
        );
    }
}
