//! Identification of the peer of a connection.

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, getsockopt, recv, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// A user of this machine.
    User(u32),
    /// An unknown user at this address.
    Address(IpAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::User(user) => write!(f, "user {user}"),
            Peer::Address(address) => write!(f, "{address}"),
        }
    }
}

/// The users of this machine that may connect over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    /// Everyone who can reach the address.
    All,
    /// The user of the switch, root, and these.
    Own(BTreeSet<u32>),
}

impl Default for Users {
    fn default() -> Users {
        Users::Own(BTreeSet::new())
    }
}

impl std::str::FromStr for Users {
    type Err = String;

    /// Parses `all`, or user numbers separated by commas.
    fn from_str(text: &str) -> Result<Users, String> {
        if text == "all" {
            return Ok(Users::All);
        }
        let users = text.split(',').map(|user| user.trim().parse::<u32>());
        users.collect::<Result<_, _>>().map(Users::Own).map_err(|_| {
            format!("`{text}`: expected `all` or numbers of users (`id -u`) with commas between them, such as 1000,1001")
        })
    }
}

impl Users {
    pub(crate) fn include(&self, peer: &Peer) -> bool {
        match (self, peer) {
            (Users::All, _) => true,
            (Users::Own(others), Peer::User(user)) => {
                *user == 0 || *user == nix::unistd::geteuid().as_raw() || others.contains(user)
            }
            (Users::Own(_), Peer::Address(_)) => false,
        }
    }

    /// Finds the user at the other end of a TCP connection from `peer` to our end at `local`, and refuses those that are not one of
    /// them.
    ///
    /// # Errors
    ///
    /// The reason, for the client; `otherwise` ends it with what else the client can do.
    pub fn admit(&self, peer: SocketAddr, local: SocketAddr, otherwise: &str) -> Result<Peer, String> {
        let peer = of_tcp(peer, local);
        if self.include(&peer) { Ok(peer) } else { Err(self.refusal(&peer, otherwise)) }
    }

    /// The reason why a peer that is not one of them is refused. `otherwise` ends it.
    pub(crate) fn refusal(&self, peer: &Peer, otherwise: &str) -> String {
        let allowed = match self {
            Users::Own(others) if !others.is_empty() => {
                let others: Vec<String> = others.iter().map(u32::to_string).collect();
                format!("its own user, root and those of --allow-users ({})", others.join(", "))
            }
            _ => "its own user and root".to_string(),
        };
        match peer {
            Peer::User(_) => format!(
                "{peer} may not control this switch, only {allowed}: start it with --allow-users{otherwise}"
            ),
            Peer::Address(_) => format!(
                "the user could not be determined, because the connection closed or comes from another network \
                 namespace; only {allowed} may control this switch: start it with --allow-users all{otherwise}"
            ),
        }
    }
}

/// The peer of a Unix socket.
pub(crate) fn of_unix(stream: &UnixStream) -> io::Result<Peer> {
    Ok(Peer::User(getsockopt(stream, sockopt::PeerCredentials)?.uid()))
}

/// The peer that connected from `peer` to our end at `local`: the user, if the connection is within this machine.
pub(crate) fn of_tcp(peer: SocketAddr, local: SocketAddr) -> Peer {
    match user_of(peer, local) {
        Ok(Some(user)) => Peer::User(user),
        _ => Peer::Address(peer.ip().to_canonical()),
    }
}

/// The length of the kernel's description of a socket (`inet_diag_msg`).
const DESCRIPTION_BYTES: usize = 72;
/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `TCP_ESTABLISHED`
const ESTABLISHED: u8 = 1;

/// The user that owns the socket bound to `from` and connected to `to`, by one query of the kernel
/// (sock_diag(7)). The kernel attributes a socket that is being closed to root, so only an open one
/// counts.
fn user_of(from: SocketAddr, to: SocketAddr) -> io::Result<Option<u32>> {
    let asking = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    setsockopt(&asking, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
    connect(asking.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let mut request = Vec::new();
    let family = match from {
        SocketAddr::V4(_) => libc_family(AddressFamily::Inet),
        SocketAddr::V6(_) => libc_family(AddressFamily::Inet6),
    };
    // `inet_diag_req_v2`: family, protocol TCP, no extensions, all states; then the two ends.
    request.extend([family, 6, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(from.port().to_be_bytes());
    request.extend(to.port().to_be_bytes());
    for end in [from, to] {
        let mut bytes = [0; 16];
        match end.ip() {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes.copy_from_slice(&ip.octets()),
        }
        request.extend(bytes);
    }
    // Any interface; no cookie.
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    // `nlmsghdr`: length, type, NLM_F_REQUEST, sequence, sender.
    let mut message = Vec::new();
    message.extend((16 + request.len() as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(1u16.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request);
    send(asking.as_raw_fd(), &message, MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let length = recv(asking.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let answer = &answer[..length];
    if length < 16 + DESCRIPTION_BYTES || answer[4..6] != BY_FAMILY.to_ne_bytes() {
        return Ok(None);
    }
    // `inet_diag_msg`: family, state, …; the user and the inode are last.
    let number = |at: usize| u32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    let (state, user, inode) = (answer[17], number(16 + 64), number(16 + 68));
    Ok((state == ESTABLISHED && inode != 0).then_some(user))
}

fn libc_family(family: AddressFamily) -> u8 {
    // AF_INET and AF_INET6 are small.
    family as i32 as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener, TcpStream};

    #[test]
    fn the_user_of_a_connection_within_the_machine() {
        let own = nix::unistd::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0", "0.0.0.0:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let host = if address.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let client = TcpStream::connect((host, port)).unwrap();
            let (served, peer) = listener.accept().unwrap();
            let local = served.local_addr().unwrap();
            assert_eq!(of_tcp(peer, local), Peer::User(own), "{address}");
            // The kernel attributes a closed socket to root.
            client.shutdown(Shutdown::Write).unwrap();
            drop(client);
            assert!(matches!(of_tcp(peer, local), Peer::Address(_)), "{address}");
        }
    }

    #[test]
    fn users_are_listed_by_number() {
        let own = nix::unistd::geteuid().as_raw();
        let users: Users = "54321, 54322".parse().unwrap();
        assert!(users.include(&Peer::User(54322)) && users.include(&Peer::User(own)));
        assert!(users.include(&Peer::User(0)) && !users.include(&Peer::User(54323)));
        let somebody = Peer::Address(IpAddr::from([127, 0, 0, 1]));
        assert!(!users.include(&somebody), "who is not known may not");
        let why = users.refusal(&somebody, "");
        assert!(why.contains("could not be determined") && !why.contains("127.0.0.1"), "{why}");
        assert!(why.contains("its own user, root and those of --allow-users (54321, 54322)"), "{why}");
        let why = Users::default().refusal(&Peer::User(54323), "");
        assert!(
            why.starts_with("user 54323 may not control this switch, only its own user and root: "),
            "{why}"
        );
        assert!("all".parse::<Users>().unwrap().include(&somebody));
        assert!("root".parse::<Users>().unwrap_err().contains("expected `all`"));
    }
}
