//! Looks up network interfaces of the kernel and their state.

// Reason: system calls on C structures.
#![allow(unsafe_code)]

use crate::{LinkStatus, PortError};
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Opens a socket that is closed on exec.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    owned(fd)
}

/// The descriptor that a system call returned.
pub(crate) fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The result of a system call that returns a count, or -1.
pub(crate) fn result(value: isize) -> io::Result<usize> {
    usize::try_from(value).map_err(|_| io::Error::last_os_error())
}

/// Sets a socket option to a value of the type that the kernel expects. Pointers in it must be valid.
pub(crate) fn set_option<T: Copy>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which the kernel only reads.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    result(status as isize).map(drop)
}

/// Reads a socket option of integers.
pub(crate) fn get_option<const N: usize>(socket: &OwnedFd, level: i32, option: i32) -> io::Result<[u32; N]> {
    let mut value = [0; N];
    let mut len = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`, and any bytes are valid integers.
    let status = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut len)
    };
    result(status as isize).map(|_| value)
}

/// A request about the interface `name`, which is shorter than `IFNAMSIZ`.
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: `ifreq` holds integers and a union of plain data; all zeros are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// The name in a request that the kernel answered.
pub(crate) fn name(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.map(|byte| byte as u8);
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}

fn ioctl(name: &str, code: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    debug_assert!(name.len() < libc::IFNAMSIZ);
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: the codes used here read and write an `ifreq`; `ethtool` is responsible for the other effects of
    // SIOCETHTOOL.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), code, std::ptr::from_mut(request)) };
    result(status as isize).map(drop)
}

/// Returns its number, or `None` if there is no such interface.
pub(crate) fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a string that ends in 0.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// The state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Up,
    /// Up, but without a carrier from the other end.
    NoCarrier,
    /// Down (administratively, `ip link set NAME down`).
    Down,
    Gone,
}

impl LinkState {
    /// Returns the link status of a port on the interface `name` in this state.
    pub(crate) fn status(self, name: &str) -> LinkStatus {
        match self {
            LinkState::Up => LinkStatus::Up,
            LinkState::NoCarrier => LinkStatus::Down(format!(
                "interface `{name}` has no carrier: its other end is down, or no cable is plugged in"
            )),
            LinkState::Down => LinkStatus::Down(format!(
                "interface `{name}` is down; frames will flow once it is up (`ip link set {name} up`)"
            )),
            LinkState::Gone => LinkStatus::Down(gone(name)),
        }
    }
}

/// Returns the reason why no frames flow if the interface `name` no longer exists.
pub(crate) fn gone(name: &str) -> String {
    format!(
        "interface `{name}` is gone: deleted, renamed or moved to another namespace; frames will flow when there is one called `{name}` again"
    )
}

/// Returns the state of the interface with this number. If the query fails, the interface counts as deleted.
pub(crate) fn state(index: u32) -> LinkState {
    socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_or(LinkState::Gone, |any| state_at(&any, index))
}

/// Returns the state of the interface with this number in the namespace of `socket`, which may be of any kind.
pub(crate) fn state_at(socket: &OwnedFd, index: u32) -> LinkState {
    let mut request = request("");
    request.ifr_ifru.ifru_ifindex = index as i32;
    for code in [libc::SIOCGIFNAME, libc::SIOCGIFFLAGS] {
        // SAFETY: both read and write an `ifreq`; the second concerns the name that the first returned.
        let status =
            unsafe { libc::ioctl(socket.as_raw_fd(), code as libc::Ioctl, std::ptr::from_mut(&mut request)) };
        if status < 0 {
            return LinkState::Gone;
        }
    }
    // SAFETY: SIOCGIFFLAGS filled this member of the union.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    if flags & libc::IFF_UP == 0 {
        LinkState::Down
    } else if flags & libc::IFF_RUNNING == 0 {
        LinkState::NoCarrier
    } else {
        LinkState::Up
    }
}

/// True if the interface with this number, in the namespace of `socket`, is called `name`.
pub(crate) fn is_called(socket: &OwnedFd, index: u32, name: &str) -> bool {
    let mut asked = request("");
    asked.ifr_ifru.ifru_ifindex = index as i32;
    let code = libc::SIOCGIFNAME as libc::Ioctl;
    // SAFETY: it reads and writes an `ifreq`.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), code, std::ptr::from_mut(&mut asked)) };
    status >= 0 && self::name(&asked) == name
}

/// Makes a socket receive nothing, until [`accept_all`].
pub(crate) fn refuse_all(socket: &OwnedFd) -> io::Result<()> {
    // Returns how many bytes of the frame to keep: none.
    let mut program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program, which lives until then.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Removes the filter of [`refuse_all`].
pub(crate) fn accept_all(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// True if it carries Ethernet frames, as loopback does, or if that is unknown.
pub(crate) fn is_ethernet(name: &str) -> bool {
    let mut request = request(name);
    if ioctl(name, libc::SIOCGIFHWADDR as libc::Ioctl, &mut request).is_err() {
        return true;
    }
    // SAFETY: SIOCGIFHWADDR filled this member of the union.
    let kind = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&kind)
}

/// Sets it up.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    let mut request = request(name);
    ioctl(name, libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    // SAFETY: SIOCGIFFLAGS filled this member of the union.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags }) | libc::IFF_UP;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    ioctl(name, libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}

/// Returns the maximum number of bytes of an Ethernet frame's payload.
pub(crate) fn mtu(name: &str) -> io::Result<usize> {
    let mut request = request(name);
    ioctl(name, libc::SIOCGIFMTU as libc::Ioctl, &mut request)?;
    // SAFETY: SIOCGIFMTU filled this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.max(0) as usize)
}

/// Returns the numbers of its receive and transmit queues; one each if the driver does not report them.
pub(crate) fn queues(name: &str) -> (u32, u32) {
    /// `struct ethtool_channels`: command, four maxima, then receive, send, other and combined queues.
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = [0u32; 9];
    channels[0] = GET_CHANNELS;
    // SAFETY: the kernel writes the structure of this command, as long as the array.
    if unsafe { ethtool(name, channels.as_mut_ptr().cast()) }.is_err() {
        return (1, 1);
    }
    let [.., rx, tx, _, combined] = channels;
    ((rx + combined).max(1), (tx + combined).max(1))
}

/// Returns the name of its driver; empty if that is unknown.
pub(crate) fn driver(name: &str) -> String {
    /// `struct ethtool_drvinfo`: command, then the driver's name in 32 bytes, then 160 bytes that do not matter here.
    const GET_DRIVER_INFO: u32 = 3;
    let mut info = [0u32; 49];
    info[0] = GET_DRIVER_INFO;
    // SAFETY: the kernel writes the structure of this command, as long as the array.
    if unsafe { ethtool(name, info.as_mut_ptr().cast()) }.is_err() {
        return String::new();
    }
    let bytes = info[1..9].iter().flat_map(|word| word.to_ne_bytes());
    bytes.take_while(|&byte| byte != 0).map(char::from).collect()
}

/// True if its hardware merges received TCP segments in a way that cannot be reversed (LRO). Merging by the kernel (GRO)
/// can be reversed.
pub(crate) fn merges_segments(name: &str) -> bool {
    /// `struct ethtool_value`: command and value, which here is a set of flags.
    const GET_FLAGS: u32 = 0x25;
    const FLAG_LRO: u32 = 1 << 15;
    let mut flags = [GET_FLAGS, 0];
    // SAFETY: the kernel writes the structure of this command, as long as the array.
    unsafe { ethtool(name, flags.as_mut_ptr().cast()) }.is_ok() && flags[1] & FLAG_LRO != 0
}

/// # Safety
///
/// `data` points to the structure of the command in its first word, which the kernel reads and writes.
unsafe fn ethtool(name: &str, data: *mut libc::c_char) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_data = data;
    ioctl(name, libc::SIOCETHTOOL as libc::Ioctl, &mut request)
}

/// Returns the names of all interfaces, ordered by number.
pub(crate) fn names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: `if_nameindex` returns an array that ends with an entry of index 0 and lives until `if_freenameindex`;
    // each entry before it has a name that ends in 0.
    unsafe {
        let array = libc::if_nameindex();
        if array.is_null() {
            return names;
        }
        let mut entry = array;
        while (*entry).if_index != 0 {
            names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(array);
    }
    names
}

/// Returns the error for a missing interface `name`.
pub(crate) fn missing(name: &str) -> PortError {
    PortError::environment(format!(
        "no network interface `{name}`; the interfaces here are {}",
        names().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_nonsense_is_not() {
        let Some(lo) = index("lo") else { return };
        let any = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        assert!(state(lo) != LinkState::Gone && names().contains(&"lo".to_owned()));
        assert_eq!(state_at(&any, i32::MAX as u32), LinkState::Gone);
        assert_eq!((index("no-such-if"), index("a\0b")), (None, None));
        assert!(!merges_segments("lo") && !merges_segments("no-such-if"));
        let error = missing("no-such-if").to_string();
        assert!(
            error.starts_with("no network interface `no-such-if`; the interfaces here are ")
                && error.contains("`lo`")
        );
    }
}
