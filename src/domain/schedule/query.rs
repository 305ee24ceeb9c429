//! Answers the schedule routes from memory only.

use std::sync::Arc;

use bytes::Bytes;
use chrono::NaiveTime;

use super::channel::{Channel, Program, mix};
use super::snapshot::ScheduleSnapshot;
use super::{render, tv_day};
use playgate_types::{BroadcastId, LiveOffset, LivestreamId, TvDay, UnixSeconds};

#[derive(Debug, Clone)]
pub struct ScheduleResponse {
    pub body: Bytes,
    pub tag: u64,
    /// In server time; `None` if only a schedule change can change the answer.
    pub valid_until: Option<UnixSeconds>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// None of the requested livestreams is known.
    #[error("no such livestream")]
    Livestream,
    /// Only for queries of one livestream; others omit it.
    #[error("no broadcast is on air at that time")]
    Current,
    #[error("no such broadcast")]
    Broadcast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleSettings {
    pub day_start: NaiveTime,
    /// Seconds from `streamStart` to the start of a broadcast.
    pub pad_before: i64,
    /// Seconds from the stop of a broadcast to `streamStop`.
    pub pad_after: i64,
}

impl Default for ScheduleSettings {
    fn default() -> Self {
        Self {
            day_start: NaiveTime::from_hms_opt(6, 0, 0).unwrap_or(NaiveTime::MIN),
            pad_before: 0,
            pad_after: 0,
        }
    }
}

impl ScheduleSnapshot {
    pub fn live(
        &self,
        livestreams: &[LivestreamId],
        offset: LiveOffset,
        now: UnixSeconds,
    ) -> Result<ScheduleResponse, QueryError> {
        let at = offset.before(now);
        // Fast path for most requests: one livestream at the live point is pre-rendered.
        if let ([one], LiveOffset::LIVE) = (livestreams, offset) {
            let channel = self.channel(one.as_str()).ok_or(QueryError::Livestream)?;
            let present = channel.present(now);
            return Ok(ScheduleResponse {
                // In a gap, and without a guide, the body is an empty object.
                body: present.body.clone().unwrap_or(Bytes::from_static(b"{}")),
                tag: present.tag,
                valid_until: valid_until(present.until, offset),
            });
        }
        let known = self.known(livestreams)?;
        let current = known.iter().map(|channel| (*channel, channel.current(at)));
        let current: Vec<_> = current.collect();
        // The exact size avoids copying the body while it grows.
        let length = current.iter().map(|(channel, current)| {
            current.map_or(0, |current| channel.live_length(current) + 1)
        });
        let mut out = Vec::with_capacity(length.sum::<usize>() + 2);
        let (mut tag, mut until) = (0, UnixSeconds(i64::MAX));
        out.push(b'{');
        for (at_channel, (channel, current)) in current.into_iter().enumerate() {
            // The answer is valid until the first of its livestreams changes.
            until = until.min(channel.until(at));
            let more = match current {
                // In a gap the livestream is omitted from the body but counts in the tag.
                None => channel.tag,
                Some(current) => {
                    if out.len() > 1 {
                        out.push(b',');
                    }
                    channel.write_live(current, &mut out)
                }
            };
            // For a single livestream the tag equals that of its pre-rendered answer.
            tag = if at_channel == 0 {
                more
            } else {
                mix(tag, more)
            };
        }
        out.push(b'}');
        Ok(ScheduleResponse {
            body: out.into(),
            tag,
            valid_until: valid_until(until, offset),
        })
    }

    pub fn live_one(
        &self,
        livestream: &LivestreamId,
        offset: LiveOffset,
        now: UnixSeconds,
    ) -> Result<ScheduleResponse, QueryError> {
        let channel = self
            .channel(livestream.as_str())
            .ok_or(QueryError::Livestream)?;
        let at = offset.before(now);
        let moment = channel.render_live_view(at);
        let body = moment.body.ok_or(QueryError::Current)?;
        // Strip the enclosing object and the member name.
        let inner = 1 + channel.member.len()..body.len().saturating_sub(1);
        Ok(ScheduleResponse {
            body: body.slice(inner),
            tag: moment.tag,
            valid_until: valid_until(moment.until, offset),
        })
    }

    pub fn day(
        &self,
        livestreams: &[LivestreamId],
        day: TvDay,
        view: &ScheduleSettings,
    ) -> Result<ScheduleResponse, QueryError> {
        let known = self.known(livestreams)?;
        let mut pieces = Vec::with_capacity(known.len() * 2 + 1);
        let mut tag = 0;
        for (at, channel) in known.iter().enumerate() {
            let (objects, day_tag) = day_of(channel, day, view);
            // Only the heads are copied; the broadcasts are slices of the channels.
            let mut head = Vec::with_capacity(channel.member.len() + 3);
            // The head closes the list of the livestream before.
            head.extend_from_slice(if at == 0 { b"{" } else { b"]," });
            head.extend_from_slice(&channel.member);
            head.push(b'[');
            pieces.extend([head.into(), objects]);
            tag = mix(mix(tag, channel.tag), day_tag);
        }
        pieces.push(Bytes::from_static(b"]}"));
        Ok(ScheduleResponse {
            body: pieces.concat().into(),
            tag,
            valid_until: None,
        })
    }

    pub fn day_one(
        &self,
        livestream: &LivestreamId,
        day: TvDay,
        view: &ScheduleSettings,
    ) -> Result<ScheduleResponse, QueryError> {
        let channel = self
            .channel(livestream.as_str())
            .ok_or(QueryError::Livestream)?;
        let (objects, tag) = day_of(channel, day, view);
        let bracket = Bytes::from_static;
        Ok(ScheduleResponse {
            body: [bracket(b"["), objects, bracket(b"]")].concat().into(),
            tag: mix(channel.tag, tag),
            valid_until: None,
        })
    }

    pub fn by_id(&self, id: &BroadcastId) -> Result<ScheduleResponse, QueryError> {
        let (channel, index) = self.broadcast(id.as_str()).ok_or(QueryError::Broadcast)?;
        Ok(ScheduleResponse {
            body: channel.objects(index..index + 1),
            tag: channel.entries.get(index).map_or(0, |entry| entry.tag),
            valid_until: None,
        })
    }

    /// Answers with the broadcasts and the stream window of their livestreams. Unknown ids are omitted.
    pub fn by_ids(&self, ids: &[BroadcastId], view: &ScheduleSettings) -> ScheduleResponse {
        let found: Vec<_> = (ids.iter())
            .filter_map(|id| self.broadcast(id.as_str()))
            .collect();
        let length = found.iter().map(|(channel, index)| {
            let ids = 2 * channel.member.len() + channel.id_json(*index).len();
            channel.object(*index).len() + ids + render::STREAM_MOST
        });
        let mut out = Vec::with_capacity(length.sum::<usize>() + 2);
        out.push(b'{');
        // The padding is part of the body, so a change of it must change the tag.
        let mut tag = mix(
            view.pad_before.cast_unsigned(),
            view.pad_after.cast_unsigned(),
        );
        for (channel, index) in found {
            let (Some(start), Some(entry)) =
                (channel.starts.get(index), channel.entries.get(index))
            else {
                continue;
            };
            out.extend_from_slice(if out.len() > 1 { b",\"" } else { b"\"" });
            out.extend_from_slice(channel.id_json(index));
            out.extend_from_slice(b"\":");
            let span = (*start - view.pad_before, entry.stop + view.pad_after);
            let livestream = channel.member.strip_suffix(b":").unwrap_or_default();
            render::with_stream(channel.object(index), livestream, span, &mut out);
            tag = mix(mix(tag, entry.tag), channel.tag);
        }
        out.push(b'}');
        ScheduleResponse {
            body: out.into(),
            tag,
            valid_until: None,
        }
    }

    pub fn program_at(&self, livestream: &LivestreamId, at: UnixSeconds) -> Option<Program> {
        let channel = self.channel(livestream.as_str())?;
        Program::new(channel, channel.current(at)?)
    }

    /// The range of time around `at` in which the same program, or the same gap, is on air. A
    /// livestream without a guide has one unbounded gap.
    pub fn span_at(
        &self,
        livestream: &LivestreamId,
        at: UnixSeconds,
    ) -> (UnixSeconds, UnixSeconds) {
        let forever = (UnixSeconds(i64::MIN), UnixSeconds(i64::MAX));
        self.channel(livestream.as_str())
            .map_or(forever, |channel| channel.span(at))
    }

    /// The start of the next broadcast without live rights after an instant, but at most `most`.
    pub fn next_withheld(
        &self,
        livestream: &LivestreamId,
        after: UnixSeconds,
        most: UnixSeconds,
    ) -> UnixSeconds {
        let Some(channel) = self.channel(livestream.as_str()) else {
            return most;
        };
        let first = channel.starts.partition_point(|start| *start <= after);
        let coming = channel.starts.iter().zip(&channel.entries).skip(first);
        coming
            .take_while(|(start, _)| **start < most)
            .find(|(_, entry)| !entry.allowed.live())
            .map_or(most, |(start, _)| *start)
    }

    pub fn program(&self, id: &BroadcastId) -> Option<Program> {
        let (channel, index) = self.broadcast(id.as_str())?;
        Program::new(channel, index)
    }

    fn known(&self, livestreams: &[LivestreamId]) -> Result<Vec<&Arc<Channel>>, QueryError> {
        let known: Vec<_> = livestreams
            .iter()
            .filter_map(|livestream| self.channel(livestream.as_str()))
            .collect();
        // Unknown livestreams among known ones are omitted, since clients ask for the channels they
        // remember.
        if known.is_empty() {
            return Err(QueryError::Livestream);
        }
        Ok(known)
    }
}

/// Converts the end of validity from the requested point to server time.
fn valid_until(until: UnixSeconds, offset: LiveOffset) -> Option<UnixSeconds> {
    (until.0 != i64::MAX).then(|| until - i64::from(offset.seconds()))
}

fn day_of(channel: &Channel, day: TvDay, view: &ScheduleSettings) -> (Bytes, u64) {
    let (from, to) = tv_day::tv_day(channel.zone, day, view.day_start);
    let first = channel.starts.partition_point(|start| *start < from);
    let end = channel.starts.partition_point(|start| *start < to);
    // The tag covers only the broadcasts of the day, so that other changes do not invalidate it.
    let entries = channel.entries.get(first..end).unwrap_or_default();
    let tag = entries.iter().fold(0, |tag, entry| mix(tag, entry.tag));
    (channel.objects(first..end), tag)
}
