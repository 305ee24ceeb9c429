//! `playgate user sessions`, `user devices`, `user streams` and `user watching`: log-ins, devices and running streams.

use serde_json::Value;

use super::named_user::NamedUser;
use crate::client::{Admin, path, with_query};
use crate::output::{self, CommandResult, Failure, members};

pub(crate) async fn logins(admin: &mut Admin, user: &NamedUser) -> CommandResult {
    let sessions = admin.get(&user.path(&["sessions"])).await?;
    let columns = [
        ("ID", "sessionId"),
        ("SINCE", "createdTimestamp"),
        ("LAST USE", "lastUsedTimestamp"),
        ("EXPIRES", "expires"),
        ("PROGRAM", "program"),
        ("DEVICE", "deviceId"),
    ];
    output::list(&sessions, &columns, user.json)
}

pub(crate) async fn devices(
    admin: &mut Admin,
    user: &NamedUser,
    remove: Option<&str>,
) -> CommandResult {
    if let Some(id) = remove {
        admin.delete(&user.path(&["devices", id])).await?;
        return user.done("removed", &format!("removed the device {id}"));
    }
    let devices = admin.get(&user.path(&["devices"])).await?;
    if !user.json {
        let account = admin.get(&user.path(&[])).await?;
        output::line(&format!(
            "{}\n",
            device_usage(members::all(&devices).len(), &account)
        ))?;
    }
    let columns = [
        ("ID", "deviceId"),
        ("MODEL", "deviceModel"),
        ("PLATFORM", "devicePlatform"),
        ("TYPE", "deviceType"),
        ("SINCE", "since"),
        ("LAST START", "lastStart"),
    ];
    output::list(&devices, &columns, user.json)
}

pub(crate) async fn streams(
    admin: &mut Admin,
    user: &NamedUser,
    end: Option<&str>,
) -> CommandResult {
    let streams = admin.get(&user.path(&["streams"])).await?;
    if let Some(id) = end {
        // Only a stream of this user: the id may have been copied from elsewhere.
        let list = streams.as_array().into_iter().flatten();
        let mut ids = list.filter_map(|stream| stream.get("sessionId")?.as_str());
        if !ids.any(|stream_id| stream_id == id) {
            return Err(Failure::new(
                crate::output::Exit::NotFound,
                format!("{} has no running stream {id}", user.user),
            ));
        }
        admin.delete(&path(&["sessions", id])).await?;
        return user.done("ended", &format!("ended the stream {id}"));
    }
    output::list(&streams, &STREAMS, user.json)
}

const STREAMS: [output::Column; 7] = [
    ("ID", "sessionId"),
    ("ASSET", "assetId"),
    ("CHANNEL", "livestreamName"),
    ("PROGRAMME", "title"),
    ("MODEL", "deviceModel"),
    ("SINCE", "since"),
    ("LAST SEEN", "lastSeen"),
];

pub(crate) async fn watching(admin: &mut Admin, asset: Option<&str>, json: bool) -> CommandResult {
    let target = with_query(path(&["sessions"]), &[("asset", asset)]);
    let columns: Vec<_> = [("USER", "email")].into_iter().chain(STREAMS).collect();
    output::list(&admin.get(&target).await?, &columns, json)
}

/// Says how many devices are registered, and how many the user may have.
fn device_usage(count: usize, account: &Value) -> String {
    match account["deviceLimit"].as_u64() {
        None => format!("{count} devices; a tag of the user lifts the limit"),
        Some(limit) if count as u64 >= limit => {
            format!("{count} of {limit} devices: full, so a new one is refused")
        }
        Some(limit) => format!("{count} of {limit} devices"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::device_usage;

    #[test]
    fn a_full_list_of_devices_is_reported() {
        let account = json!({"deviceLimit": 5});
        assert_eq!(device_usage(4, &account), "4 of 5 devices");
        assert_eq!(
            device_usage(5, &account),
            "5 of 5 devices: full, so a new one is refused"
        );
        assert_eq!(
            device_usage(5, &json!({})),
            "5 devices; a tag of the user lifts the limit"
        );
    }
}
