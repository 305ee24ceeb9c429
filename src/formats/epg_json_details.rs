//! Details of broadcasts in JSON guides. Other programs give members of these names other forms: one that is not
//! understood is left out and counted, and costs no broadcast.

use serde_json::{Map, Value};

use playgate_domain::schedule::{
    Credit, CreditKind, Details, ImagePurpose, PreviousShowing, TypedImage, calendar_date,
};

pub(super) struct WireDetails {
    pub(super) categories: Option<Value>,
    pub(super) date: Option<Value>,
    pub(super) new: Option<Value>,
    pub(super) live: Option<Value>,
    pub(super) premiere: Option<Value>,
    pub(super) previously_shown: Option<Value>,
    pub(super) credits: Option<Value>,
}

/// What a broadcast has, and how many members of it were not understood.
#[derive(Default)]
pub(super) struct ReadDetails {
    pub(super) categories: Vec<Box<str>>,
    pub(super) details: Details,
    pub(super) left_out: u64,
}

impl WireDetails {
    pub(super) fn read(self) -> ReadDetails {
        let mut read = ReadDetails::default();
        for category in read.list(self.categories) {
            if let Some(category) = read.text(&category)
                && !read.categories.contains(&category)
            {
                read.categories.push(category);
            }
        }
        read.details.date = read.date(self.date.as_ref());
        read.details.is_new = read.flag(self.new.as_ref());
        read.details.is_live = read.flag(self.live.as_ref());
        read.details.is_premiere = read.flag(self.premiere.as_ref());
        read.details.previously_shown = read.previous(self.previously_shown.as_ref());
        for credit in read.list(self.credits) {
            match credit_of(&credit) {
                Some(credit) => read.details.add_credit(credit),
                None => read.left_out += 1,
            }
        }
        read
    }
}

impl ReadDetails {
    /// One value is a list of one.
    fn list(&mut self, value: Option<Value>) -> Vec<Value> {
        match value {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(one @ (Value::String(_) | Value::Object(_))) => vec![one],
            Some(_) => {
                self.left_out += 1;
                Vec::new()
            }
        }
    }

    fn text(&mut self, value: &Value) -> Option<Box<str>> {
        let text = text_of(value);
        self.left_out += u64::from(text.is_none());
        text
    }

    fn date(&mut self, value: Option<&Value>) -> Option<Box<str>> {
        let text = match value? {
            // A year.
            Value::Number(number) => number.to_string(),
            Value::String(text) if text.trim().is_empty() => return None,
            Value::String(text) => text.clone(),
            _ => String::new(),
        };
        let date = calendar_date(&text);
        self.left_out += u64::from(date.is_none());
        date
    }

    fn flag(&mut self, value: Option<&Value>) -> bool {
        match value {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(Value::Number(number)) if number.as_u64().is_some_and(|number| number < 2) => {
                number.as_u64() == Some(1)
            }
            Some(_) => {
                self.left_out += 1;
                false
            }
        }
    }

    fn previous(&mut self, value: Option<&Value>) -> Option<PreviousShowing> {
        match value? {
            Value::Bool(flag) => flag.then(PreviousShowing::default),
            Value::Object(members) => Some(PreviousShowing {
                start: self.showing_time(members.get("start")),
                channel: members.get("channel").and_then(text_of),
            }),
            _ => {
                self.left_out += 1;
                None
            }
        }
    }

    fn showing_time(&mut self, value: Option<&Value>) -> Option<Box<str>> {
        let time = value.and_then(Value::as_str).and_then(|text| {
            let time = chrono::DateTime::parse_from_rfc3339(text.trim()).ok()?;
            Some(time.to_utc().format("%Y-%m-%dT%H:%M:%SZ").to_string())
        });
        match time {
            Some(time) => Some(time.into()),
            None => self.date(value),
        }
    }
}

fn text_of(value: &Value) -> Option<Box<str>> {
    let text = value.as_str().map(str::trim);
    text.filter(|text| !text.is_empty()).map(Into::into)
}

fn credit_of(value: &Value) -> Option<Credit> {
    let members: &Map<String, Value> = value.as_object()?;
    Some(Credit {
        kind: CreditKind::parse(members.get("kind")?.as_str()?)?,
        name: text_of(members.get("name")?)?,
        role: members.get("role").and_then(text_of),
        guest: members.get("guest") == Some(&Value::Bool(true)),
    })
}

/// What an image has beside its members of the interface. `None` if it says nothing of them.
pub(super) fn typed_image(
    (kind, filename): (&str, &str),
    (purpose, size): (Option<&Value>, Option<&Value>),
) -> Option<TypedImage> {
    let purpose = purpose
        .and_then(Value::as_str)
        .and_then(ImagePurpose::parse);
    let size = size.and_then(Value::as_u64).filter(|n| (1..=3).contains(n));
    let size = size.and_then(|size| u8::try_from(size).ok());
    (purpose.is_some() || size.is_some()).then(|| TypedImage {
        filename: filename.into(),
        purpose,
        size,
        is_upright: match kind {
            "three-four" => Some(true),
            "sixteen-nine" => Some(false),
            _ => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> ReadDetails {
        let given = |name: &str| value.get(name).filter(|value| !value.is_null()).cloned();
        let details = WireDetails {
            categories: given("categories"),
            date: given("date"),
            new: given("new"),
            live: given("live"),
            premiere: given("premiere"),
            previously_shown: given("previouslyShown"),
            credits: given("credits"),
        };
        details.read()
    }

    #[test]
    fn details_of_the_day_route_are_read() {
        let read = read(json!({
            "categories": ["News", " ", "News", "Weather"], "date": "2020-01", "new": true, "live": false, "premiere": 1,
            "previouslyShown": {"start": "2020-01-31T21:00:00+01:00", "channel": "x"},
            "credits": [{"kind": "actor", "name": " A ", "role": "B", "guest": true}, {"kind": "director", "name": "D"}],
        }));
        let expected = Details {
            date: Some("2020-01".into()),
            is_new: true,
            is_live: false,
            is_premiere: true,
            previously_shown: Some(PreviousShowing {
                start: Some("2020-01-31T20:00:00Z".into()),
                channel: Some("x".into()),
            }),
            credits: vec![
                Credit {
                    kind: CreditKind::Actor,
                    name: "A".into(),
                    role: Some("B".into()),
                    guest: true,
                },
                Credit {
                    kind: CreditKind::Director,
                    name: "D".into(),
                    role: None,
                    guest: false,
                },
            ],
            images: Vec::new(),
        };
        assert_eq!(read.details, expected);
        assert_eq!(read.categories, ["News".into(), "Weather".into()]);
        assert_eq!(read.left_out, 1);
    }

    #[test]
    fn members_of_other_forms_are_left_out_and_counted() {
        for (value, left_out) in [
            (json!({"date": 2020, "categories": "News"}), 0),
            (
                json!({"date": "", "new": null, "previouslyShown": false}),
                0,
            ),
            (json!({"date": [2020]}), 1),
            (json!({"date": "soon", "new": "perhaps", "live": 7}), 3),
            (json!({"categories": 5, "premiere": {}}), 2),
            (json!({"credits": ["Somebody", {"name": "A"}, 5]}), 3),
            (
                json!({"credits": {"kind": "actor"}, "previouslyShown": "yes"}),
                2,
            ),
            (json!({"previouslyShown": {"start": "soon"}}), 1),
        ] {
            let shown = value.to_string();
            assert_eq!(read(value).left_out, left_out, "{shown}");
        }
    }
}
