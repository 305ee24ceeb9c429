//! One viewer who plays: entitlements and sessions, which are logged before the response.

use std::time::Instant;

use super::playback_client::{Stream, token};
use super::{Actor, ActorReport, Client, Keys, status_and_code};
use crate::harness::client::{Connection, NoResponse};
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
    /// The sessions since the last check.
    sessions: Vec<Session>,
    /// The index of the running session. There is one at a time, since there is one device.
    running: Fact<Option<usize>>,
    report: ActorReport,
}

impl Player {
    pub fn new(keys: &Keys, line: &mut Connection) -> Result<Self, NoResponse> {
        Ok(Self {
            user: Client::sign_up(keys, line, "player@example.com")?,
            sessions: Vec::new(),
            running: Fact::new(Class::Logged, None),
            report: ActorReport::default(),
        })
    }

    fn start(&mut self, line: &mut Connection) -> Result<(), NoResponse> {
        let answer = self.user.entitle(line)?;
        let Some(answer) = self.report.count("an entitlement", answer) else {
            return Ok(());
        };
        let entitlement = token(&answer);
        // Without a response, an unknown session may have replaced the running one.
        self.running.ask(None);
        let answer = self.user.preflight(line, &entitlement, "tv")?;
        if answer.status == 200 {
            self.running.refused();
            self.running.ask(Some(self.sessions.len()));
            self.sessions.push(Session {
                began: Instant::now(),
                stream: Stream::from_preflight(&answer, &entitlement, "tv"),
            });
        }
        self.report.settle("a preflight", &mut self.running, answer);
        Ok(())
    }

    fn beat(&mut self, line: &mut Connection, at: usize) -> Result<String, NoResponse> {
        let answer = self.user.beat(line, &self.sessions[at].stream)?;
        Ok(status_and_code(&answer))
    }

    fn stop(&mut self, line: &mut Connection, at: usize) -> Result<(), NoResponse> {
        self.running.ask(None);
        let answer = self.user.stop(line, &self.sessions[at].stream)?;
        self.report
            .settle("an end of play", &mut self.running, answer);
        Ok(())
    }
}

impl Actor for Player {
    fn act(&mut self, line: &mut Connection, rng: &mut Rng) -> Result<(), NoResponse> {
        match *self.running.now() {
            Some(at) if rng.once_in(3) => {
                let status = self.beat(line, at)?;
                if !status.starts_with("200") && !status.starts_with("429") {
                    self.report
                        .wrong(&format!("heartbeat of a running session: {status}"));
                }
                Ok(())
            }
            Some(at) if rng.once_in(2) => self.stop(line, at),
            _ => self.start(line),
        }
    }

    fn check(
        &mut self,
        line: &mut Connection,
        allowed_loss: &AllowedLoss,
        _: &mut Rng,
    ) -> Result<(), NoResponse> {
        let mut running = None;
        for at in 0..self.sessions.len() {
            let known = allowed_loss.keeps(self.sessions[at].began);
            match self.beat(line, at)?.as_str() {
                // A running session may have reached its rate limit.
                "200 " | "429 RATE_LIMITED" => {
                    if let Some(other) = running.replace(at) {
                        let both = format!("sessions {other} and {at} of one device are running");
                        self.report.wrong(&both);
                    }
                }
                "410 SESSION_ENDED" => {}
                "404 SESSION_NOT_FOUND" if !known => {}
                other => self.report.lost(&format!("session {at}: {other}")),
            }
        }
        let add_result = self
            .running
            .judge("the running session", running, allowed_loss);
        self.report.add_result(add_result);
        // Sessions that had ended are not checked again.
        self.sessions = running
            .map(|at| self.sessions[at].clone())
            .into_iter()
            .collect();
        self.running.seen(running.map(|_| 0));
        Ok(())
    }

    fn report(&mut self) -> &mut ActorReport {
        &mut self.report
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
