//! Network interfaces whose other end is a file descriptor, from which a host's frames are read.

#![expect(
    unsafe_code,
    reason = "the ioctl that creates the interface has no safe form"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::ioctl::{self, Updater};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// `TUNSETIFF` and its flags, of `linux/if_tun.h`.
const TUNSETIFF: ioctl::Opcode = 0x4004_54ca;
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;

/// `struct ifreq` of `linux/if.h`.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// The outer end of an Ethernet interface in a network namespace.
#[derive(Debug)]
pub(crate) struct Tap(File);

impl Tap {
    /// Creates the interface `eth0` in the network namespace of a process.
    ///
    /// The calling thread is in that namespace afterwards.
    pub(crate) fn in_network_of(pid: u32) -> io::Result<Self> {
        let namespace = File::open(Path::new("/proc").join(pid.to_string()).join("ns/net"))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nonblocking)
            .open("/dev/net/tun")?;
        let mut request = Request {
            name: *b"eth0\0\0\0\0\0\0\0\0\0\0\0\0",
            flags: IFF_TAP | IFF_NO_PI,
            rest: [0; 22],
        };
        // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, which `Request` is, field by field
        // and in size.
        let update = unsafe { Updater::<TUNSETIFF, Request>::new(&mut request) };
        // SAFETY: `update` pairs the opcode with the type that it works on; the descriptor is open.
        unsafe { ioctl::ioctl(&file, update) }?;
        Ok(Self(file))
    }

    /// The next frame from the host, or `None` if there is none yet.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a frame to the host. A host that cannot take it loses it, as on any wire.
    pub(crate) fn send(&self, frame: &[u8]) {
        // A frame is written whole or not at all.
        (&self.0).write_all(frame).ok();
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const _: () = assert!(size_of::<Request>() == 40);
