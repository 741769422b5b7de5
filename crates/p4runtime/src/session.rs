//! Client arbitration: the primary stream of each role, and the notifications of changes.
//!
//! P4Runtime specification 1.5, section 5 "Client arbitration and controller replication" and section 15 "Roles". This module is
//! only the state machine: it knows no sockets and no messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Identifies a stream for as long as the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A 128-bit election id. Unset is lower than every id and never primary.
pub type ElectionId = u128;

/// Maximum length of a role's name, in bytes.
pub const ROLE_NAME_MAX: usize = 256;
/// Maximum number of roles that a server remembers.
pub const ROLES_MAX: usize = 1024;

/// The part of the pipeline that a role may read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleView {
    /// The role's name; empty for the default role. Tables marked `@p4runtime_role` belong to the role of that name, and to
    /// the default role.
    pub name: String,
    /// The ids of the P4Info that the role's configuration grants; `None` if it grants all.
    pub ids: Option<BTreeSet<u32>>,
}

/// The contents of a client's `MasterArbitrationUpdate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The device.
    pub device: u64,
    /// The role's name; empty for the default role.
    pub role: String,
    /// The election id, if set.
    pub election_id: Option<ElectionId>,
}

/// A notification to a stream about its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The stream.
    pub stream: StreamId,
    /// The highest election id ever accepted for the role.
    pub highest: Option<ElectionId>,
    /// The stream's standing.
    pub standing: Standing,
}

/// The position of a stream within its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the primary.
    Primary,
    /// It is a backup, and there is a primary.
    Backup,
    /// It is a backup, and there is no primary.
    NoPrimary,
}

/// The reason why a stream ends or a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The device is not this one.
    Device(u64, u64),
    /// No stream has ever had this role.
    Role(String),
    /// The role's name has this number of bytes.
    LongName(usize),
    /// Another live stream of the role has this election id.
    ElectionIdExists(ElectionId),
    /// The stream already has another device or role.
    Moved(&'static str),
    /// There is no room for another stream or role.
    Full(&'static str, usize),
    /// The sender is not the primary of its role.
    NotPrimary {
        /// Its election id.
        given: Option<ElectionId>,
        /// The primary's.
        primary: Option<ElectionId>,
        /// The highest ever accepted for the role.
        highest: Option<ElectionId>,
    },
}

/// The result of an arbitration update.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arbitrated {
    /// The notifications in order. The new primary's is last.
    pub notices: Vec<Notice>,
    /// The reason why the sender's stream ends, if it does. It is then deregistered.
    pub ended: Option<Refusal>,
    /// The role that was forgotten to make room for a new one.
    pub forgotten: Option<String>,
}

/// The rules of arbitration.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The device's id; `None` if every id names the device.
    pub device: Option<u64>,
    /// Maximum number of streams of one role.
    pub streams_max: usize,
    /// True for bmv2's rules: a role's highest election id is forgotten when its last stream ends, requests without
    /// election id are accepted while no client has a stream, and `role.config` is ignored.
    pub as_bmv2: bool,
}

/// The streams of all roles.
#[derive(Debug)]
pub struct Sessions {
    rules: Rules,
    roles: HashMap<(u64, String), Role>,
    of_stream: HashMap<StreamId, (u64, String)>,
    /// The number of roles whose last stream has ended.
    deserted: u64,
}

#[derive(Debug, Default)]
struct Role {
    highest: Option<ElectionId>,
    primary: Option<StreamId>,
    streams: BTreeMap<StreamId, Option<ElectionId>>,
    /// True if it has a configuration.
    is_configured: bool,
    /// The value of [`Sessions::deserted`] when its last stream ended; 0 if it had none since the start.
    deserted: u64,
}

impl Role {
    fn standing(&self, stream: StreamId) -> Standing {
        match self.primary {
            Some(primary) if primary == stream => Standing::Primary,
            Some(_) => Standing::Backup,
            None => Standing::NoPrimary,
        }
    }

    fn notice(&self, stream: StreamId) -> Notice {
        Notice { stream, highest: self.highest, standing: self.standing(stream) }
    }

    /// The election id of a request, if another stream has it.
    fn id_of_other(&self, stream: StreamId, request: &Request) -> Option<ElectionId> {
        let id = request.election_id?;
        self.streams.iter().any(|(other, held)| *other != stream && *held == Some(id)).then_some(id)
    }

    /// Notifications for all streams, the primary's last.
    fn notices(&self) -> Vec<Notice> {
        let others = self.streams.keys().copied().filter(|stream| Some(*stream) != self.primary);
        others.chain(self.primary).map(|stream| self.notice(stream)).collect()
    }
}

impl Sessions {
    /// Creates an empty set of streams.
    pub fn new(rules: Rules) -> Sessions {
        Sessions { rules, roles: HashMap::new(), of_stream: HashMap::new(), deserted: 0 }
    }

    /// Restores the highest election id of a role after a restart.
    pub fn restore(&mut self, role: String, highest: ElectionId) {
        let Some(device) = self.rules.device.filter(|_| !self.rules.as_bmv2) else { return };
        if self.roles.len() < ROLES_MAX {
            let role = self.roles.entry((device, role)).or_default();
            role.highest = role.highest.max(Some(highest));
        }
    }

    /// The highest election ids of roles that survive a restart.
    pub fn highest_ids(&self) -> Vec<(String, ElectionId)> {
        if self.rules.as_bmv2 {
            return Vec::new();
        }
        self.roles.iter().filter_map(|((_, name), role)| Some((name.clone(), role.highest?))).collect()
    }

    /// True if another stream of the role has the election id of an update.
    pub fn has_other(&self, stream: StreamId, request: &Request) -> bool {
        let role = self.roles.get(&(request.device, request.role.clone()));
        role.is_some_and(|role| role.id_of_other(stream, request).is_some())
    }

    /// Handles an arbitration update of a stream.
    pub fn update(&mut self, stream: StreamId, request: &Request) -> Arbitrated {
        let mut forgotten = None;
        match self.accept(stream, request, &mut forgotten) {
            Ok(notices) => Arbitrated { notices, ended: None, forgotten },
            // The stream ends. If it was the primary, its role is notified.
            Err(refusal) => Arbitrated { notices: self.close(stream), ended: Some(refusal), forgotten },
        }
    }

    /// Forgets a role without streams: of those without configuration, if there are any, the one that has had none for the longest
    /// time. The default role stays.
    fn forget_one(&mut self) -> Option<String> {
        let deserted =
            self.roles.iter().filter(|((_, name), role)| role.streams.is_empty() && !name.is_empty());
        let oldest = deserted.min_by_key(|(_, role)| (role.is_configured, role.deserted));
        let oldest = oldest.map(|(key, _)| key.clone())?;
        self.roles.remove(&oldest);
        Some(oldest.1)
    }

    fn accept(
        &mut self,
        stream: StreamId,
        request: &Request,
        forgotten: &mut Option<String>,
    ) -> Result<Vec<Notice>, Refusal> {
        // A stream that changes either ends for this reason, even if the new one does not exist.
        match self.of_stream.get(&stream) {
            Some((device, _)) if *device != request.device => return Err(Refusal::Moved("device id")),
            Some((_, role)) if *role != request.role => return Err(Refusal::Moved("role")),
            _ => {}
        }
        self.check_device(request.device)?;
        if request.role.len() > ROLE_NAME_MAX {
            return Err(Refusal::LongName(request.role.len()));
        }
        let key = (request.device, request.role.clone());
        if !self.roles.contains_key(&key) && self.roles.len() >= ROLES_MAX {
            *forgotten = self.forget_one();
            if forgotten.is_none() {
                return Err(Refusal::Full("roles", ROLES_MAX));
            }
        }
        let role = self.roles.entry(key.clone()).or_default();
        let is_new = !role.streams.contains_key(&stream);
        if is_new && role.streams.len() >= self.rules.streams_max {
            return Err(Refusal::Full("streams of a role", self.rules.streams_max));
        }
        if let Some(id) = role.id_of_other(stream, request) {
            return Err(Refusal::ElectionIdExists(id));
        }
        let was_primary = role.primary == Some(stream);
        role.streams.insert(stream, request.election_id);
        self.of_stream.insert(stream, key);
        // An id at least as high as every earlier one makes its sender the primary.
        let wins = request.election_id.is_some_and(|id| Some(id) >= role.highest);
        if wins {
            role.highest = request.election_id;
            role.primary = Some(stream);
            return Ok(role.notices());
        }
        if was_primary {
            role.primary = None;
            return Ok(role.notices());
        }
        Ok(vec![role.notice(stream)])
    }

    /// Removes a stream that has ended. Returns the notifications: the rest of its role, if it was the primary.
    pub fn close(&mut self, stream: StreamId) -> Vec<Notice> {
        let Some(key) = self.of_stream.remove(&stream) else { return Vec::new() };
        let Some(role) = self.roles.get_mut(&key) else { return Vec::new() };
        role.streams.remove(&stream);
        let was_primary = role.primary == Some(stream);
        if was_primary {
            role.primary = None;
        }
        let notices = if was_primary { role.notices() } else { Vec::new() };
        if role.streams.is_empty() {
            self.deserted += 1;
            role.deserted = self.deserted;
            if self.rules.as_bmv2 || role.highest.is_none() {
                self.roles.remove(&key);
            }
        }
        notices
    }

    /// Refuses another device's id.
    ///
    /// # Errors
    /// The id of another device.
    pub fn check_device(&self, device: u64) -> Result<(), Refusal> {
        match self.rules.device {
            Some(own) if own != device => Err(Refusal::Device(device, own)),
            _ => Ok(()),
        }
    }

    /// Refuses a request that the primary of the role did not send.
    ///
    /// # Errors
    /// Another device, a role that no stream has had, or a sender that is not the primary.
    pub fn check_primary(&self, request: &Request) -> Result<(), Refusal> {
        self.check_device(request.device)?;
        if request.role.len() > ROLE_NAME_MAX {
            return Err(Refusal::LongName(request.role.len()));
        }
        if self.rules.as_bmv2 && self.of_stream.is_empty() && request.election_id.is_none() {
            return Ok(());
        }
        let role = self.roles.get(&(request.device, request.role.clone()));
        // The default role always exists.
        if role.is_none() && !request.role.is_empty() {
            return Err(Refusal::Role(request.role.clone()));
        }
        let primary = role.and_then(|role| role.streams[&role.primary?]);
        let given = request.election_id;
        match primary.is_some() && primary == given {
            true => Ok(()),
            false => Err(Refusal::NotPrimary { given, primary, highest: role.and_then(|role| role.highest) }),
        }
    }

    /// Notes whether the role of a stream has a configuration.
    pub fn set_configured(&mut self, stream: StreamId, is_configured: bool) {
        if let Some(role) = self.of_stream.get(&stream).and_then(|key| self.roles.get_mut(key)) {
            role.is_configured = is_configured;
        }
    }

    /// True if configurations of roles are ignored instead of refused.
    pub fn ignores_role_config(&self) -> bool {
        self.rules.as_bmv2
    }

    /// True if the stream is the primary of its role.
    pub fn is_primary(&self, stream: StreamId) -> bool {
        let role = self.of_stream.get(&stream).and_then(|key| self.roles.get(key));
        role.is_some_and(|role| role.primary == Some(stream))
    }

    /// The standing of a stream, after its first arbitration update.
    pub fn notice(&self, stream: StreamId) -> Option<Notice> {
        let role = self.of_stream.get(&stream).and_then(|key| self.roles.get(key))?;
        Some(role.notice(stream))
    }

    /// The primaries of all roles with this name, one for each device id in use.
    pub fn primaries(&self, role: &str) -> impl Iterator<Item = StreamId> {
        self.roles.iter().filter(move |((_, name), _)| name == role).filter_map(|(_, role)| role.primary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { device: Some(1), streams_max: 16, as_bmv2: false };

    fn request(role: &str, election_id: Option<u128>) -> Request {
        Request { device: 1, role: role.to_string(), election_id }
    }

    fn not_primary(given: Option<u128>, primary: Option<u128>, highest: Option<u128>) -> Result<(), Refusal> {
        Err(Refusal::NotPrimary { given, primary, highest })
    }

    fn standings(arbitrated: &Arbitrated) -> Vec<(u64, Standing)> {
        assert_eq!(arbitrated.ended, None);
        arbitrated.notices.iter().map(|notice| (notice.stream.0, notice.standing)).collect()
    }

    #[test]
    fn a_8_another_stream_has_the_id() {
        let mut sessions = Sessions::new(RULES);
        sessions.update(StreamId(1), &request("", Some(5)));
        sessions.update(StreamId(2), &request("", Some(4)));
        // Its own id is no conflict.
        assert_eq!(standings(&sessions.update(StreamId(2), &request("", Some(4)))), [(2, Standing::Backup)]);
        let arbitrated = sessions.update(StreamId(2), &request("", Some(5)));
        assert_eq!(arbitrated.ended, Some(Refusal::ElectionIdExists(5)));
        // the earlier state remains, without the stream.
        assert!(
            arbitrated.notices.is_empty()
                && sessions.is_primary(StreamId(1))
                && !sessions.of_stream.contains_key(&StreamId(2))
        );
        // other roles may have the same id at the same time.
        assert_eq!(
            standings(&sessions.update(StreamId(3), &request("other", Some(5)))),
            [(3, Standing::Primary)]
        );
    }

    #[test]
    fn a_10_zero_is_an_id_and_unset_is_none() {
        let mut sessions = Sessions::new(RULES);
        assert_eq!(standings(&sessions.update(StreamId(1), &request("", None))), [(1, Standing::NoPrimary)]);
        let arbitrated = sessions.update(StreamId(2), &request("", Some(0)));
        assert_eq!(standings(&arbitrated), [(1, Standing::Backup), (2, Standing::Primary)]);
        assert!(sessions.check_primary(&request("", Some(0))).is_ok());
        assert_eq!(sessions.check_primary(&request("", None)), not_primary(None, Some(0), Some(0)));
        // `high` decides first.
        let high = 1u128 << 64;
        assert_eq!(
            standings(&sessions.update(StreamId(1), &request("", Some(high)))),
            [(2, Standing::Backup), (1, Standing::Primary)]
        );
    }

    #[test]
    fn a_11_only_an_id_as_high_as_every_earlier_one_is_primary() {
        let mut sessions = Sessions::new(RULES);
        sessions.update(StreamId(1), &request("", Some(7)));
        assert_eq!(sessions.close(StreamId(1)), []);
        // no client is promoted, and a client with an id lower than an earlier one stays backup.
        let arbitrated = sessions.update(StreamId(2), &request("", Some(6)));
        assert_eq!(standings(&arbitrated), [(2, Standing::NoPrimary)]);
        assert_eq!(arbitrated.notices[0].highest, Some(7));
        assert_eq!(
            standings(&sessions.update(StreamId(3), &request("", Some(7)))),
            [(2, Standing::Backup), (3, Standing::Primary)]
        );
    }

    #[test]
    fn z_3_bmv2_forgets_ids_with_the_last_stream() {
        let mut sessions = Sessions::new(Rules { device: None, as_bmv2: true, ..RULES });
        sessions.update(StreamId(1), &request("", Some(1 << 64)));
        sessions.close(StreamId(1));
        assert_eq!(standings(&sessions.update(StreamId(2), &request("", Some(1)))), [(2, Standing::Primary)]);
    }

    #[test]
    fn z_4_bmv2_accepts_requests_without_election_id_while_no_client_has_a_stream() {
        let strict = Sessions::new(RULES);
        assert_eq!(strict.check_primary(&request("", None)), not_primary(None, None, None));
        let mut sessions = Sessions::new(Rules { device: None, as_bmv2: true, ..RULES });
        assert_eq!(sessions.check_primary(&request("", None)), Ok(()));
        assert_eq!(sessions.check_primary(&request("", Some(1))), not_primary(Some(1), None, None));
        sessions.update(StreamId(1), &request("", Some(1)));
        assert_eq!(sessions.check_primary(&request("", None)), not_primary(None, Some(1), Some(1)));
        sessions.close(StreamId(1));
        assert_eq!(sessions.check_primary(&request("", None)), Ok(()));
    }

    #[test]
    fn a_9_a_primary_can_step_back() {
        let mut sessions = Sessions::new(RULES);
        sessions.update(StreamId(1), &request("", Some(7)));
        sessions.update(StreamId(2), &request("", Some(3)));
        let arbitrated = sessions.update(StreamId(1), &request("", Some(2)));
        assert_eq!(standings(&arbitrated), [(1, Standing::NoPrimary), (2, Standing::NoPrimary)]);
        assert_eq!(sessions.check_primary(&request("", Some(2))), not_primary(Some(2), None, Some(7)));
    }

    #[test]
    fn a_14_a_primary_that_repeats_its_update_reaches_everybody() {
        let mut sessions = Sessions::new(RULES);
        sessions.update(StreamId(1), &request("", Some(7)));
        sessions.update(StreamId(2), &request("", Some(3)));
        let all = [(2, Standing::Backup), (1, Standing::Primary)];
        assert_eq!(standings(&sessions.update(StreamId(1), &request("", Some(7)))), all);
        // a backup that remains one is answered alone. A-19: its end causes no notification.
        assert_eq!(standings(&sessions.update(StreamId(2), &request("", Some(4)))), [(2, Standing::Backup)]);
        assert_eq!(sessions.close(StreamId(2)), []);
    }

    #[test]
    fn a_18_all_hear_of_the_end_of_the_primary_once() {
        let mut sessions = Sessions::new(RULES);
        for (stream, id) in [(1, 7), (2, 3), (3, 4)] {
            sessions.update(StreamId(stream), &request("", Some(id)));
        }
        let notices = sessions.close(StreamId(1));
        let expected =
            |stream| Notice { stream: StreamId(stream), highest: Some(7), standing: Standing::NoPrimary };
        assert_eq!(notices, [expected(2), expected(3)]);
        assert_eq!(sessions.close(StreamId(1)), []);
        // the id of a closed stream is free at once.
        assert!(sessions.update(StreamId(4), &request("", Some(7))).ended.is_none());
    }

    #[test]
    fn a_7_a_stream_keeps_its_device_and_role() {
        let mut sessions = Sessions::new(Rules { device: None, ..RULES });
        sessions.update(StreamId(1), &request("", Some(7)));
        sessions.update(StreamId(2), &request("", Some(1)));
        let arbitrated = sessions.update(StreamId(1), &Request { device: 2, ..request("", Some(7)) });
        assert_eq!(arbitrated.ended, Some(Refusal::Moved("device id")));
        // The stream was the primary: its role is notified of the end.
        assert_eq!(
            arbitrated.notices,
            [Notice { stream: StreamId(2), highest: Some(7), standing: Standing::NoPrimary }]
        );
        let arbitrated = sessions.update(StreamId(2), &request("other", Some(7)));
        assert_eq!(arbitrated.ended, Some(Refusal::Moved("role")));
        // The same if the other device does not exist, or the role has no valid name.
        let long = "x".repeat(ROLE_NAME_MAX + 1);
        for (moved, to) in [
            ("device id", Request { device: 2, ..request("", Some(7)) }),
            ("role", request(&long, Some(7))),
            ("device id", Request { device: 2, ..request(&long, Some(7)) }),
        ] {
            let mut sessions = Sessions::new(RULES);
            sessions.update(StreamId(1), &request("", Some(7)));
            assert_eq!(sessions.update(StreamId(1), &to).ended, Some(Refusal::Moved(moved)));
        }
    }

    #[test]
    fn excess_is_refused() {
        let mut sessions = Sessions::new(Rules { streams_max: 2, ..RULES });
        sessions.update(StreamId(1), &request("", Some(1)));
        sessions.update(StreamId(2), &request("", None));
        //
        assert_eq!(
            sessions.update(StreamId(3), &request("", None)).ended,
            Some(Refusal::Full("streams of a role", 2))
        );
        //
        let other = Request { device: 9, ..request("", None) };
        assert_eq!(sessions.update(StreamId(4), &other).ended, Some(Refusal::Device(9, 1)));
        //
        assert_eq!(
            sessions.check_primary(&request("nobody", Some(1))),
            Err(Refusal::Role("nobody".to_string()))
        );
        let long = request(&"x".repeat(257), None);
        assert_eq!(sessions.update(StreamId(5), &long).ended, Some(Refusal::LongName(257)));
        assert_eq!(sessions.check_primary(&long), Err(Refusal::LongName(257)));
    }

    #[test]
    fn a_new_role_takes_the_place_of_one_without_streams() {
        let mut sessions = Sessions::new(RULES);
        let mut next = 0;
        let mut open = |sessions: &mut Sessions, role: &str, is_configured| {
            next += 1;
            let arbitrated = sessions.update(StreamId(next), &request(role, Some(7)));
            sessions.set_configured(StreamId(next), is_configured);
            (StreamId(next), arbitrated)
        };
        sessions.restore("restored".to_string(), 5);
        for (role, is_configured) in [("", false), ("configured", true), ("old", false)] {
            let (stream, _) = open(&mut sessions, role, is_configured);
            sessions.close(stream);
        }
        // All others have streams.
        let streams: Vec<StreamId> = (0..ROLES_MAX - 4)
            .map(|number| {
                let (stream, arbitrated) = open(&mut sessions, &number.to_string(), false);
                assert_eq!((arbitrated.ended, arbitrated.forgotten), (None, None));
                stream
            })
            .collect();
        for (role, forgotten) in [("new", "restored"), ("newer", "old"), ("newest", "configured")] {
            let (_, arbitrated) = open(&mut sessions, role, false);
            assert_eq!((arbitrated.ended, arbitrated.forgotten.as_deref()), (None, Some(forgotten)));
            let gone = sessions.check_primary(&request(forgotten, Some(7)));
            assert_eq!(gone, Err(Refusal::Role(forgotten.to_string())));
        }
        let (_, arbitrated) = open(&mut sessions, "another", false);
        assert_eq!(arbitrated.ended, Some(Refusal::Full("roles", ROLES_MAX)));
        // The default role stays, with its highest id, although it has no stream.
        assert_eq!(sessions.check_primary(&request("", Some(7))), not_primary(Some(7), None, Some(7)));
        sessions.close(streams[0]);
        let (_, arbitrated) = open(&mut sessions, "another", false);
        assert_eq!((arbitrated.ended, arbitrated.forgotten.as_deref()), (None, Some("0")));
        assert_eq!(sessions.roles.len(), ROLES_MAX);
    }
}
