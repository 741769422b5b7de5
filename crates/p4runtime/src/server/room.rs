//! Room for large requests: memory is charged as a message arrives, and no client can take what others need.
//!
//! Each connection has room of its own, which nobody else can take. What exceeds it comes from the common room, of which a
//! connection has at most as much as it leaves, and a client (all connections of a user or an address) three times as much as it
//! leaves. So there is always a part that others can take.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use tonic::Status;

use super::device::lock;

/// The common room for requests of more than [`SMALL_BYTES`], in bytes.
pub const REQUESTS_BYTES_MAX: usize = 512 << 20;
/// The room of a connection of its own for these requests, in bytes.
pub const REQUESTS_OF_CONNECTION_BYTES: usize = 2 << 20;
/// Requests of at most this many bytes need no room.
pub const SMALL_BYTES: usize = 16 << 10;
/// The common room that a client may have for each byte that it leaves.
const CLIENT_SHARE: usize = 3;

/// Who a client is, whatever the number of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// A user of this machine, by number.
    User(u32),
    /// Someone at an address.
    Address(IpAddr),
}

impl Who {
    /// The client at an address. A host of IPv6 usually has all addresses with the first 64 bits.
    pub fn at(address: IpAddr) -> Who {
        Who::Address(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::from((u128::from(address) >> 64 << 64).to_be_bytes()),
            address => address,
        })
    }
}

/// The common room.
#[derive(Debug)]
pub struct Room {
    max: usize,
    taken: Mutex<Taken>,
}

/// The bytes taken of the common room.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_client: HashMap<Who, usize>,
}

impl Room {
    /// A common room of this many bytes.
    pub fn new(max: usize) -> Room {
        Room { max, taken: Mutex::default() }
    }
}

/// The room of a connection.
#[derive(Debug)]
pub struct RoomOfConnection {
    room: Arc<Room>,
    who: Who,
    of_connection: Mutex<OfConnection>,
}

/// The bytes that the requests of a connection have taken.
#[derive(Debug, Default)]
struct OfConnection {
    own: usize,
    common: usize,
}

impl RoomOfConnection {
    /// The room of a new connection of this client.
    pub fn new(room: &Arc<Room>, who: Who) -> RoomOfConnection {
        RoomOfConnection { room: Arc::clone(room), who, of_connection: Mutex::default() }
    }

    /// Takes more bytes, the first ones of its own room. Returns how many are of its own and of the common room.
    fn take(&self, bytes: usize) -> Option<(usize, usize)> {
        let mut of_connection = lock(&self.of_connection);
        let own = bytes.min(REQUESTS_OF_CONNECTION_BYTES - of_connection.own);
        let common = bytes - own;
        if common > 0 {
            let mut taken = lock(&self.room.taken);
            let left = (self.room.max - taken.all).checked_sub(common)?;
            let of_client = taken.by_client.get(&self.who).map_or(0, |bytes| *bytes) + common;
            if of_connection.common + common > left || of_client > CLIENT_SHARE * left {
                return None;
            }
            taken.all += common;
            taken.by_client.insert(self.who, of_client);
        }
        of_connection.own += own;
        of_connection.common += common;
        Some((own, common))
    }

    fn give_back(&self, own: usize, common: usize) {
        let mut of_connection = lock(&self.of_connection);
        of_connection.own -= own;
        of_connection.common -= common;
        if common > 0 {
            let mut taken = lock(&self.room.taken);
            taken.all -= common;
            if let Some(of_client) = taken.by_client.get_mut(&self.who) {
                *of_client -= common;
                if *of_client == 0 {
                    taken.by_client.remove(&self.who);
                }
            }
        }
    }
}

/// The room of a request, until it is finished.
#[derive(Debug)]
pub struct Charge {
    of: Arc<RoomOfConnection>,
    own: usize,
    common: usize,
}

impl Charge {
    /// No room yet.
    pub fn new(of: &Arc<RoomOfConnection>) -> Charge {
        Charge { of: Arc::clone(of), own: 0, common: 0 }
    }

    /// Takes what is missing for this many bytes.
    ///
    /// # Errors
    /// There is no room.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let missing = bytes.saturating_sub(self.own + self.common);
        let Some((own, common)) = self.of.take(missing) else {
            return Err(Status::resource_exhausted(format!(
                "no room for a request of {bytes} bytes or more while others are received or carried out; try again"
            )));
        };
        self.own += own;
        self.common += common;
        Ok(())
    }

    /// Gives back what exceeds this many bytes, of the common room first.
    pub fn shrink(&mut self, bytes: usize) {
        let excess = (self.own + self.common).saturating_sub(bytes);
        let common = excess.min(self.common);
        let own = excess - common;
        self.of.give_back(own, common);
        self.own -= own;
        self.common -= common;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.of.give_back(self.own, self.common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: usize = REQUESTS_OF_CONNECTION_BYTES;
    const MIB: usize = 1 << 20;

    fn connection(room: &Arc<Room>, user: u32) -> Arc<RoomOfConnection> {
        Arc::new(RoomOfConnection::new(room, Who::User(user)))
    }

    /// The most MiB that a request of this connection may have now.
    fn most(of: &Arc<RoomOfConnection>) -> usize {
        (1..=1024).take_while(|mib| Charge::new(of).grow(mib * MIB).is_ok()).last().unwrap_or(0)
    }

    #[test]
    fn a_connection_leaves_as_much_as_it_takes() {
        let room = Arc::new(Room::new(512 * MIB));
        let own = OWN / MIB;
        let (one, same, other) = (connection(&room, 1), connection(&room, 1), connection(&room, 2));
        assert_eq!(most(&one), 256 + own);
        let mut first = Charge::new(&one);
        first.grow(256 * MIB + OWN).unwrap();
        assert_eq!((most(&one), most(&same), most(&other)), (0, 128 + own, 128 + own));
        // A client leaves a quarter.
        let mut second = Charge::new(&same);
        second.grow(128 * MIB + OWN).unwrap();
        let third = connection(&room, 1);
        assert_eq!((most(&third), most(&other)), (own, 64 + own));
        // However many there are, each further connection has its own room.
        let all: Vec<_> = (3..67).map(|user| (connection(&room, user), user)).collect();
        let held = all.iter().map(|(of, _)| {
            let mut charge = Charge::new(of);
            charge.grow(most(of) * MIB).unwrap();
            charge
        });
        let held: Vec<Charge> = held.collect();
        assert_eq!(most(&connection(&room, 70)), own);
        drop((held, second));
        first.shrink(SMALL_BYTES);
        assert_eq!((most(&one), lock(&room.taken).by_client.len()), (256 + own - 1, 0));
    }

    #[test]
    fn a_client_is_a_user_or_a_network_of_ipv6() {
        let at = |text: &str| Who::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8:0:0:1:2:3:4"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }

    #[test]
    fn small_requests_need_no_room() {
        let room = Arc::new(Room::new(0));
        let of = connection(&room, 1);
        let mut full = Charge::new(&of);
        full.grow(OWN).unwrap();
        Charge::new(&of).grow(SMALL_BYTES).unwrap();
        let error = Charge::new(&of).grow(SMALL_BYTES + 1).unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
        drop(full);
        Charge::new(&of).grow(OWN).unwrap();
    }
}
