//! One viewer who plays: entitlements and sessions, which are logged before the response.

use std::time::Instant;

use super::playback_client::{Stream, token};
use super::{Actor, Client, Diary, Keys, told};
use crate::harness::client::{Connection, Silence};
use crate::harness::durability_model::{AllowedLoss, Class, Fact};
use crate::harness::rng::Rng;

#[derive(Clone)]
struct Session {
    began: Instant,
    stream: Stream,
}

#[derive(Clone)]
pub struct Player {
    user: Client,
    /// Those since it was last looked at.
    sessions: Vec<Session>,
    /// Which of them runs. There is one at a time, since there is one device.
    running: Fact<Option<usize>>,
    diary: Diary,
}

impl Player {
    pub fn new(keys: &Keys, line: &mut Connection) -> Result<Self, Silence> {
        Ok(Self {
            user: Client::sign_up(keys, line, "player@example.com")?,
            sessions: Vec::new(),
            running: Fact::new(Class::Logged, None),
            diary: Diary::default(),
        })
    }

    fn begin(&mut self, line: &mut Connection) -> Result<(), Silence> {
        let answer = self.user.entitle(line)?;
        let Some(answer) = self.diary.sort("an entitlement", answer) else {
            return Ok(());
        };
        let entitlement = token(&answer);
        // Where no answer comes, a session that nobody knows may have taken the place of this one.
        self.running.ask(None);
        let answer = self.user.preflight(line, &entitlement, "tv")?;
        if answer.status == 200 {
            self.running.refused();
            self.running.ask(Some(self.sessions.len()));
            self.sessions.push(Session {
                began: Instant::now(),
                stream: Stream::of(&answer, &entitlement, "tv"),
            });
        }
        self.diary.settle("a preflight", &mut self.running, answer);
        Ok(())
    }

    fn beat(&mut self, line: &mut Connection, at: usize) -> Result<String, Silence> {
        let answer = self.user.beat(line, &self.sessions[at].stream)?;
        Ok(told(&answer))
    }

    fn stop(&mut self, line: &mut Connection, at: usize) -> Result<(), Silence> {
        self.running.ask(None);
        let answer = self.user.stop(line, &self.sessions[at].stream)?;
        self.diary
            .settle("an end of play", &mut self.running, answer);
        Ok(())
    }
}

impl Actor for Player {
    fn act(&mut self, line: &mut Connection, dice: &mut Rng) -> Result<(), Silence> {
        match *self.running.now() {
            Some(at) if dice.once_in(3) => {
                let told = self.beat(line, at)?;
                if !told.starts_with("200") && !told.starts_with("429") {
                    self.diary.wrong(&format!("a beat of what runs: {told}"));
                }
                Ok(())
            }
            Some(at) if dice.once_in(2) => self.stop(line, at),
            _ => self.begin(line),
        }
    }

    fn check(
        &mut self,
        line: &mut Connection,
        survival: &AllowedLoss,
        _: &mut Rng,
    ) -> Result<(), Silence> {
        let mut running = None;
        for at in 0..self.sessions.len() {
            let known = survival.keeps(self.sessions[at].began);
            match self.beat(line, at)?.as_str() {
                // One that runs may have been asked too often.
                "200 " | "429 RATE_LIMITED" => running = Some(at),
                "410 SESSION_ENDED" => {}
                "404 SESSION_NOT_FOUND" if !known => {}
                other => self.diary.lost(&format!("session {at}: {other}")),
            }
        }
        let judged = self.running.judge("the running session", running, survival);
        self.diary.judged(judged);
        // What was ended before is not asked for again.
        self.sessions = running
            .map(|at| self.sessions[at].clone())
            .into_iter()
            .collect();
        self.running.seen(running.map(|_| 0));
        Ok(())
    }

    fn diary(&mut self) -> &mut Diary {
        &mut self.diary
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
