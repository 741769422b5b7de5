//! Clone sessions.

use crate::control::Control;
use crate::error::{ControlError, Subject};
use crate::update::{CloneDestination, Update};
use p4jet_externs::{Replica, Session};
use std::sync::Arc;

/// The error for a clone session that does not exist.
pub(crate) fn no_session(session: u32) -> ControlError {
    let why = format!("there is no session {session}");
    ControlError::refused(Subject::CloneSessions, "SESSION_NOT_FOUND", why).field("session")
}

/// True if a session has a group, or one copy of class 0 and replication id 0.
pub(crate) fn is_plain(session: &Session) -> bool {
    let one = matches!(session.replicas.as_slice(), [Replica { replication_id: 0, .. }]);
    session.class_of_service == 0 && (session.group.is_some() || one)
}

/// The update that restores a clone session.
pub(crate) fn session_update(session: u32, was: Option<&Session>) -> Update {
    let Some(was) = was else { return Update::DeleteSession(session) };
    if !is_plain(was) {
        let replicas = was.replicas.clone();
        let (class_of_service, bytes_max) = (was.class_of_service, was.bytes_max);
        return Update::SetReplicas { session, replicas, class_of_service, bytes_max };
    }
    let to = match (was.replicas.first(), was.group) {
        (Some(replica), _) => CloneDestination::Port(replica.port),
        (None, group) => CloneDestination::Group(group.unwrap_or(0)),
    };
    Update::SetSession { session, to, bytes_max: was.bytes_max }
}

impl Control {
    /// Creates, replaces or deletes a clone session. Returns the former one.
    pub(crate) fn set_session(&self, number: u32, session: Option<Session>) -> Option<Arc<Session>> {
        let state = self.switch.state();
        let old = state.destinations().sessions.get(number).cloned();
        let session = session.map(Arc::new);
        state.change_destinations(|destinations| destinations.sessions.set(number, session));
        old
    }
}
