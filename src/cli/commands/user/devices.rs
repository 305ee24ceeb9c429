//! `playgate user sessions`, `user devices` and `user streams`: what a viewer who calls is asked about.

use super::named_user::NamedUser;
use crate::client::{Admin, path};
use crate::output::{self, CommandResult, Failure};

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
        if !ids.any(|own| own == id) {
            return Err(Failure::new(
                crate::output::Exit::NotFound,
                format!("{} has no running stream {id}", user.user),
            ));
        }
        admin.delete(&path(&["sessions", id])).await?;
        return user.done("ended", &format!("ended the stream {id}"));
    }
    let columns = [
        ("ID", "sessionId"),
        ("ASSET", "assetId"),
        ("DEVICE", "deviceId"),
        ("MODEL", "deviceModel"),
        ("SINCE", "since"),
        ("LAST SEEN", "lastSeen"),
    ];
    output::list(&streams, &columns, user.json)
}
