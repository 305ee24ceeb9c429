//! One viewer who plays: entitlements and sessions, which are logged before the reply.

use std::time::Instant;

use serde_json::Value;

use super::{Actor, Client, Diary, Keys, told};
use crate::dice::Dice;
use crate::fact::{Class, Fact, Survival};
use crate::line::{Line, Silence};

const HEARTBEAT: &str = "/api/playback/v1/heartbeat";

#[derive(Clone)]
struct Session {
    began: Instant,
    id: String,
    entitlement: String,
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
    pub fn new(keys: &Keys, line: &mut Line) -> Result<Self, Silence> {
        Ok(Self {
            user: Client::sign_up(keys, line, "player@example.com")?,
            sessions: Vec::new(),
            running: Fact::new(Class::Logged, None),
            diary: Diary::default(),
        })
    }

    fn begin(&mut self, line: &mut Line) -> Result<(), Silence> {
        let target = "/api/entitlement/v2/asset/clear";
        let answer = self.user.ask(line, "POST", target, &[], &Value::Null)?;
        let Some(answer) = self.diary.sort("an entitlement", answer) else {
            return Ok(());
        };
        let entitlement = answer.json()["token"].as_str().unwrap().to_owned();
        // Where no answer comes, a session that nobody knows may have taken the place of this one.
        self.running.ask(None);
        let headers = headers(&entitlement);
        let target = "/api/playback/v2/preflight/asset/clear";
        let answer = self
            .user
            .ask(line, "POST", target, &headers, &Value::Null)?;
        if answer.status == 200 {
            self.running.refused();
            self.running.ask(Some(self.sessions.len()));
            let id = &answer.json()["headers"]["Service-Play-Session"];
            self.sessions.push(Session {
                began: Instant::now(),
                id: id.as_str().unwrap().to_owned(),
                entitlement,
            });
        }
        self.diary.settle("a preflight", &mut self.running, answer);
        Ok(())
    }

    fn beat(&mut self, line: &mut Line, at: usize) -> Result<String, Silence> {
        let session = &self.sessions[at];
        let now = std::time::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_secs()
            .to_string();
        let mut headers = headers(&session.entitlement);
        headers.extend([
            ("Service-Play-Session", session.id.as_str()),
            ("Service-Play-Timestamp", now.as_str()),
            ("Service-Play-Bitrate", "2500000"),
            ("Service-Play-ResolutionWidth", "1280"),
            ("Service-Play-ResolutionHeight", "720"),
        ]);
        let answer = self
            .user
            .ask(line, "POST", HEARTBEAT, &headers, &Value::Null)?;
        Ok(told(&answer))
    }

    fn stop(&mut self, line: &mut Line, at: usize) -> Result<(), Silence> {
        self.running.ask(None);
        let headers = [("Service-Play-Session", self.sessions[at].id.as_str())];
        let answer = self
            .user
            .ask(line, "DELETE", HEARTBEAT, &headers, &Value::Null)?;
        self.diary
            .settle("an end of play", &mut self.running, answer);
        Ok(())
    }
}

/// The usual headers of a preflight.
pub fn headers(entitlement: &str) -> Vec<(&'static str, &str)> {
    vec![
        ("Service-Play-DRM", "none"),
        ("Service-Play-Protocol", "hls"),
        ("Service-Play-EntitlementId", entitlement),
        ("Service-Play-DevicePlatform", "linux"),
        ("Service-Play-DeviceType", "tv"),
        ("Service-Play-DeviceModel", "Model"),
        ("Service-Play-DeviceId", "tv"),
    ]
}

impl Actor for Player {
    fn act(&mut self, line: &mut Line, dice: &mut Dice) -> Result<(), Silence> {
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

    fn check(&mut self, line: &mut Line, survival: &Survival, _: &mut Dice) -> Result<(), Silence> {
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
