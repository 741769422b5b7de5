//! The destinations of copies: multicast groups and clone sessions, as the control plane configures them.

use crate::{Group, Pages, Replica};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A clone (mirror) session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Destinations.
    pub replicas: Vec<Replica>,
    /// A multicast group, for each destination of which there is one more copy.
    pub group: Option<u32>,
    /// The class of service of the copies.
    pub class_of_service: u32,
    /// Maximum number of bytes of the frame that copies keep.
    pub bytes_max: Option<u32>,
}

/// A version of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Multicast groups by number.
    pub groups: Pages<Group>,
    /// Clone sessions by number.
    pub sessions: Pages<Arc<Session>>,
}

/// The result of a lookup by a copy statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Targets<'a> {
    group: Option<&'a Group>,
    own: &'a [Replica],
    /// The class of service, 0 for groups.
    pub class_of_service: u32,
    /// Maximum number of bytes of the frame that copies keep.
    pub bytes_max: Option<u32>,
}

impl<'a> Targets<'a> {
    /// Returns the destinations, in the order of the copies.
    pub fn replicas(&self) -> impl Iterator<Item = Replica> + use<'a> {
        self.group.into_iter().flat_map(Group::replicas).chain(self.own.iter().copied())
    }
}

impl Destinations {
    /// Returns the destinations of a multicast group; none if it is not configured.
    pub fn group(&self, id: u64) -> Targets<'_> {
        let group = u32::try_from(id).ok().and_then(|id| self.groups.get(id));
        Targets { group, ..Targets::default() }
    }

    /// Returns the destinations of a clone session; none if it is not configured. Those of its group come first, as in
    /// bmv2.
    pub fn session(&self, id: u64) -> Targets<'_> {
        let Some(session) = u32::try_from(id).ok().and_then(|id| self.sessions.get(id)) else {
            return Targets::default();
        };
        let group = session.group.and_then(|group| self.groups.get(group));
        Targets {
            group,
            own: &session.replicas,
            class_of_service: session.class_of_service,
            bytes_max: session.bytes_max,
        }
    }
}

/// The configuration, shared by the control plane and all workers. A reader keeps its version until a newer one exists.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    now: RwLock<Arc<Destinations>>,
    version: AtomicU64,
}

impl Replication {
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub fn get(&self) -> Arc<Destinations> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn change(&self, change: impl FnOnce(&mut Destinations)) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut now));
        self.version.fetch_add(1, Ordering::Release);
    }
}
