//! The dimensions that figures can be grouped and filtered by.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use playgate_types::shared_text::{self, RecentValues, shared_text};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    Asset,
    Livestream,
    Platform,
    DeviceType,
    DeviceModel,
    AppVersion,
    Partner,
    Protocol,
    Drm,
    Country,
}

pub(crate) const DIMENSIONS: usize = 10;

/// Stands for all values of a dimension that are not among its top values.
pub const OTHER: &str = "other";

/// Maximum characters of a value; longer values are cut.
const VALUE_CHARS: usize = 128;

impl Dimension {
    pub const ALL: [Self; DIMENSIONS] = [
        Self::Asset,
        Self::Livestream,
        Self::Platform,
        Self::DeviceType,
        Self::DeviceModel,
        Self::AppVersion,
        Self::Partner,
        Self::Protocol,
        Self::Drm,
        Self::Country,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asset => "asset",
            Self::Livestream => "livestream",
            Self::Platform => "platform",
            Self::DeviceType => "deviceType",
            Self::DeviceModel => "deviceModel",
            Self::AppVersion => "appVersion",
            Self::Partner => "partner",
            Self::Protocol => "protocol",
            Self::Drm => "drm",
            Self::Country => "country",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dimension| dimension.as_str() == text)
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Values per hour that keep their name. Assets have the most because "which channel" is the first question.
    pub(crate) const fn values_max(self) -> usize {
        match self {
            Self::Asset => 500,
            Self::Livestream | Self::DeviceModel => 200,
            Self::Partner => 100,
            Self::AppVersion | Self::Country => 60,
            Self::Platform | Self::DeviceType => 30,
            Self::Protocol | Self::Drm => 12,
        }
    }
}

/// A view's value in each dimension; empty where it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Labels([Value; DIMENSIONS]);

/// Labels that views of the same kind share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SharedLabels(Arc<Labels>);

thread_local! {
    static RECENT: RecentValues<Labels> = RecentValues::default();
}

impl From<&Labels> for SharedLabels {
    fn from(labels: &Labels) -> Self {
        Self(RECENT.with(|recent| recent.share(labels, || Arc::new(labels.clone()))))
    }
}

impl Deref for SharedLabels {
    type Target = Labels;

    fn deref(&self) -> &Labels {
        &self.0
    }
}

impl<'de> Deserialize<'de> for SharedLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&Labels::deserialize(deserializer)?))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Value(#[serde(deserialize_with = "shared_text::deserialize")] Arc<str>);

impl Labels {
    pub fn get(&self, dimension: Dimension) -> &Arc<str> {
        // The array has one element for each dimension.
        &self.0.get(dimension.index()).unwrap_or(&self.0[0]).0
    }

    /// Removes control characters and cuts long values, because values come from players and reach terminals.
    pub fn set(&mut self, dimension: Dimension, value: &str) {
        if let Some(slot) = self.0.get_mut(dimension.index()) {
            slot.0 = shared_text(&clean(value));
        }
    }

    pub fn with(mut self, dimension: Dimension, value: &str) -> Self {
        self.set(dimension, value);
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|value| &value.0)
    }
}

fn clean(value: &str) -> Cow<'_, str> {
    // Most values are plain ASCII and need no copy.
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain && value.len() <= VALUE_CHARS {
        return Cow::Borrowed(value.trim());
    }
    let shown = value.chars().filter(|c| !c.is_control());
    let cut: String = shown.take(VALUE_CHARS).collect();
    Cow::Owned(cut.trim().to_owned())
}
