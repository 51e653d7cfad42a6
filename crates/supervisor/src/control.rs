//! The connection between `meshlock run` and CMD's supervisor: small packets, and the descriptors that the supervisor needs.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};

/// Maximum number of descriptors that are sent with the order to start: standard input, the session, and the keep-alive.
const MAX_DESCRIPTORS: usize = 4;

/// Maximum length of a packet.
const MAX_PACKET_BYTES: usize = 128;

/// One end of the connection.
#[derive(Debug)]
pub struct Control(OwnedFd);

/// The order to start CMD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOrder {
    /// Whether CMD comes to the terminal's foreground first.
    pub foreground: bool,
    /// Whether the second descriptor is one that CMD inherits, to keep the session.
    pub keep_alive: bool,
    /// The values of `MESHLOCK_FENCE` and `MESHLOCK_SLOT`.
    pub fence: String,
    pub slot: String,
}

/// What the supervisor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromSupervisor {
    /// CMD was started as this process, which leads a process group.
    Started(i32),
    /// This signal has stopped CMD.
    Stopped(i32),
    /// CMD has ended with this exit code, or could not be started. `is_last`: no other process that it started is left.
    Ended { code: u8, is_last: bool },
}

impl Control {
    /// Creates a connection: the end of `meshlock run`, and that of the supervisor.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Control(ours), theirs))
    }

    /// Returns the supervisor's end, which is its standard input.
    pub(crate) fn of_stdin() -> io::Result<Self> {
        Ok(Control(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Sends the order to start, with copies of these descriptors.
    pub fn order(&self, order: &StartOrder, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let flags = u8::from(order.foreground) | u8::from(order.keep_alive) << 1;
        let text = format!("{flags}\n{}\n{}", order.fence, order.slot);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        sendmsg(&self.0, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the order to start. Returns `None` if the other end has gone.
    pub(crate) fn receive_order(&self) -> io::Result<Option<(StartOrder, Vec<OwnedFd>)>> {
        let mut bytes = [0; MAX_PACKET_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let count = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received.bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                descriptors.extend(more);
            }
        }
        let text = String::from_utf8_lossy(&bytes[..count]);
        let mut lines = text.split('\n').map(str::to_owned);
        let (Some(flags), Some(fence), Some(slot)) = (lines.next(), lines.next(), lines.next()) else {
            return Ok(None);
        };
        let flags: u8 = flags.parse().unwrap_or(0);
        let (foreground, keep_alive) = (flags & 1 != 0, flags & 2 != 0);
        Ok(Some((StartOrder { foreground, keep_alive, fence, slot }, descriptors)))
    }

    /// Tells `meshlock run` something.
    pub(crate) fn say(&self, what: FromSupervisor) -> io::Result<()> {
        send(&self.0, &what.encode(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for what the supervisor tells next. Returns `None` if it has gone.
    pub fn receive(&self) -> io::Result<Option<FromSupervisor>> {
        let mut bytes = [0; MAX_PACKET_BYTES];
        loop {
            match recv(&self.0, &mut bytes[..], RecvFlags::empty()) {
                Ok((_, count)) => return Ok(FromSupervisor::decode(&bytes[..count])),
                Err(Errno::CONNRESET) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether what the supervisor tells next, if it has told anything, is that CMD has ended. It is read later.
    pub fn tells_the_end(&self) -> bool {
        let mut bytes = [0; MAX_PACKET_BYTES];
        match recv(&self.0, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, count)) => {
                matches!(FromSupervisor::decode(&bytes[..count]), Some(FromSupervisor::Ended { .. }))
            }
            Err(_) => false,
        }
    }

    /// Whether `meshlock run`, which has said nothing yet, is there: its end of the connection is open.
    pub(crate) fn has_peer(&self) -> bool {
        let mut bytes = [0; MAX_PACKET_BYTES];
        match recv(&self.0, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, count)) => count > 0,
            Err(error) => error == Errno::AGAIN,
        }
    }

    /// Whether the other end, from which nothing more is expected, has gone. To be called when there is something to read.
    pub(crate) fn is_over(&self) -> bool {
        let mut bytes = [0; MAX_PACKET_BYTES];
        !matches!(
            recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT),
            Ok((_, 1..)) | Err(Errno::INTR | Errno::AGAIN)
        )
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl FromSupervisor {
    fn encode(self) -> [u8; 5] {
        let (kind, number) = match self {
            FromSupervisor::Started(process) => (b'p', process),
            FromSupervisor::Stopped(signal) => (b's', signal),
            FromSupervisor::Ended { code, is_last: false } => (b'e', i32::from(code)),
            FromSupervisor::Ended { code, is_last: true } => (b'l', i32::from(code)),
        };
        let [a, b, c, d] = number.to_ne_bytes();
        [kind, a, b, c, d]
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, number) = bytes.split_first()?;
        let number = i32::from_ne_bytes(number.try_into().ok()?);
        let code = u8::try_from(number).unwrap_or(u8::MAX);
        match kind {
            b'p' => Some(FromSupervisor::Started(number)),
            b's' => Some(FromSupervisor::Stopped(number)),
            b'e' => Some(FromSupervisor::Ended { code, is_last: false }),
            b'l' => Some(FromSupervisor::Ended { code, is_last: true }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_with_its_descriptors() {
        let (ours, theirs) = Control::pair().unwrap();
        let theirs = Control(theirs);
        let order =
            StartOrder { foreground: false, keep_alive: true, fence: "12".to_owned(), slot: String::new() };
        let (read, write) = io::pipe().unwrap();
        ours.order(&order, &[read.as_fd(), write.as_fd()]).unwrap();
        let (received, descriptors) = theirs.receive_order().unwrap().unwrap();
        assert_eq!((received, descriptors.len()), (order, 2));
        for said in [
            FromSupervisor::Started(77),
            FromSupervisor::Stopped(20),
            FromSupervisor::Ended { code: 255, is_last: true },
        ] {
            assert!(!ours.tells_the_end());
            theirs.say(said).unwrap();
            assert_eq!(ours.tells_the_end(), matches!(said, FromSupervisor::Ended { .. }));
            assert_eq!(ours.receive().unwrap(), Some(said));
        }
        assert!(theirs.has_peer());
        drop(ours);
        assert!(!theirs.has_peer() && theirs.is_over() && theirs.receive_order().unwrap().is_none());
    }
}
