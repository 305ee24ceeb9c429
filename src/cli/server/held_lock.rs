//! The lock of the data directory of a server. It lives as long as the process, and passes to the program that replaces the
//! process: a command that looks for the store in between must not find it free.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use parking_lot::Mutex;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use playgate_store::StoreLock;

enum Held {
    Nothing,
    /// Handed over by the program that this one has replaced; not checked yet.
    Inherited(File),
    Lock(StoreLock),
}

// Global, because the lock belongs to the process, as its listening sockets do.
static LOCK: Mutex<Held> = Mutex::new(Held::Nothing);

/// Keeps a lock until the process ends.
pub(crate) fn keep(lock: Option<StoreLock>) {
    *LOCK.lock() = lock.map_or(Held::Nothing, Held::Lock);
}

/// Gives up the lock, so that a command can repair or restore a store that cannot be opened.
pub(crate) fn release() {
    keep(None);
}

/// Returns the lock that was handed over, if it is the one of this directory.
pub(crate) fn inherited(directory: &Path) -> Option<StoreLock> {
    match std::mem::replace(&mut *LOCK.lock(), Held::Nothing) {
        // A reload may have changed the data directory.
        Held::Inherited(file) => StoreLock::adopt(file, directory),
        Held::Nothing | Held::Lock(_) => None,
    }
}

/// Returns a socket with the lock in its queue, for the program that replaces this one. Safe code cannot adopt a descriptor by
/// its number, but it can receive one.
pub(crate) fn pack() -> io::Result<Option<OwnedFd>> {
    let held = LOCK.lock();
    let Held::Lock(lock) = &*held else {
        return Ok(None);
    };
    let (near, far) = socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let descriptors = [std::os::fd::AsFd::as_fd(lock)];
    message.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(
        &near,
        &[IoSlice::new(b"lock")],
        &mut message,
        SendFlags::empty(),
    )?;
    Ok(Some(far))
}

pub(crate) fn unpack(socket: &UnixDatagram) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut received = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; 8];
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut text)],
        &mut received,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    for message in received.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(lock) = descriptors.next()
        {
            *LOCK.lock() = Held::Inherited(lock.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_store::StoreError;

    #[test]
    fn a_packed_lock_is_held_until_it_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let busy = || StoreLock::acquire(place, false).err() == Some(StoreError::InUse);
        keep(Some(StoreLock::acquire(place, false).unwrap()));
        let packed = pack().unwrap().unwrap();
        // As when the old program ends.
        release();
        assert!(busy());
        unpack(&packed.into()).unwrap();
        assert!(busy());
        let lock = inherited(place).unwrap();
        assert!(busy());
        assert!(inherited(place).is_none());
        drop(lock);
        assert!(!busy());
    }
}
