//! The PFCP entity of the user plane: associations, heartbeats, sessions and reports (TS 29.244, clauses 6 and 7).

use crate::config::Config;
use crate::rules::{Far, Pdr, Qer, Tunnel, Urr, identifier};
use crate::session::{Session, Sessions, credit_of};
use crate::switch::{Change, Table};
use crate::wire::{
    Cause, Header, Ies, Malformed, Refusal, Value, Writer, f_seid, ie, message, node_id, read,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

/// Answers that are kept for requests that arrive again.
const ANSWERS_MAX: usize = 65_536;
/// Associations: SMFs.
const ASSOCIATIONS_MAX: usize = 1024;
/// Requests of ours without an answer.
const WAITING_MAX: usize = 65_536;
/// Time to the first and each further retransmission, in milliseconds (T1), and how many there are (N1).
const RETRY_MS: u64 = 3_000;
const RETRIES: u32 = 3;
/// Time between heartbeats.
const HEARTBEAT_MS: u64 = 10_000;

/// What the caller is to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Change the switch, all or none.
    Change(Vec<Change>),
    /// Send an end marker through the switch (a frame of kind 3 to port 510).
    EndMarker {
        /// Number of the peer.
        peer: u32,
        /// TEID there.
        teid: u32,
    },
    /// Send a datagram.
    Send {
        /// To whom.
        to: SocketAddr,
        /// What.
        bytes: Vec<u8>,
    },
    /// Tell the operator.
    Event(String),
}

/// Reads a cell of the register `usage`: packets and bytes.
pub type Usage<'a> = &'a mut dyn FnMut(u32) -> (u64, u64);

#[derive(Debug, Clone)]
struct Association {
    recovery: u32,
    /// When its last message or answer came.
    heard: u64,
    asked: u64,
}

/// A request of ours.
#[derive(Debug, Clone)]
struct Waiting {
    to: SocketAddr,
    bytes: Vec<u8>,
    again: u64,
    retries: u32,
}

/// What has been reported of a URR: the next number of a report, and usage until then.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    number: u32,
    up: (u64, u64),
    down: (u64, u64),
}

/// The entity. Times are milliseconds of any clock that does not go back.
#[derive(Debug)]
pub struct Node {
    sessions: Sessions,
    associations: BTreeMap<SocketAddr, Association>,
    answers: HashMap<(SocketAddr, u32), Vec<u8>>,
    answered: VecDeque<(SocketAddr, u32)>,
    waiting: BTreeMap<u32, Waiting>,
    reported: BTreeMap<(u32, u32), Reported>,
    sequence: u32,
}

/// Why a report is sent: flags of Usage Report Trigger (clause 8.2.41).
const TRIGGER_THRESHOLD: [u8; 3] = [2, 0, 0];
const TRIGGER_IMMEDIATE: [u8; 3] = [0x80, 0, 0];
const TRIGGER_END: [u8; 3] = [0, 8, 0];

impl Node {
    /// An entity without associations and sessions.
    pub fn new(config: Config) -> Node {
        Node {
            sessions: Sessions::new(config),
            associations: BTreeMap::new(),
            answers: HashMap::new(),
            answered: VecDeque::new(),
            waiting: BTreeMap::new(),
            reported: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Its sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The SMFs with an association.
    pub fn associations(&self) -> impl Iterator<Item = SocketAddr> {
        self.associations.keys().copied()
    }

    /// Takes a datagram.
    pub fn receive(&mut self, now: u64, from: SocketAddr, datagram: &[u8], usage: Usage) -> Vec<Output> {
        let mut outputs = Vec::new();
        let mut rest = datagram;
        while !rest.is_empty() {
            match read(rest) {
                Ok((header, body, more)) => {
                    rest = more;
                    self.one(now, from, header, body, usage, &mut outputs);
                }
                Err(Malformed::Version(sequence)) => {
                    let header = Header { message: message::VERSION_NOT_SUPPORTED, seid: None, sequence };
                    outputs.push(Output::Send { to: from, bytes: Writer::default().message(header) });
                    break;
                }
                Err(Malformed::Length) => break,
            }
        }
        outputs
    }

    fn one(
        &mut self,
        now: u64,
        from: SocketAddr,
        header: Header,
        body: &[u8],
        usage: Usage,
        out: &mut Vec<Output>,
    ) {
        if let Some(association) = self.associations.get_mut(&from) {
            association.heard = now;
        }
        let is_response = matches!(
            header.message,
            message::HEARTBEAT_RESPONSE
                | message::SESSION_REPORT_RESPONSE
                | message::ASSOCIATION_UPDATE_RESPONSE
                | message::VERSION_NOT_SUPPORTED
        );
        if is_response {
            if self.waiting.get(&header.sequence).is_some_and(|w| w.to == from) {
                self.waiting.remove(&header.sequence);
                if header.message == message::HEARTBEAT_RESPONSE {
                    self.recovery(from, body, out);
                }
            }
            return;
        }
        if let Some(bytes) = self.answers.get(&(from, header.sequence)) {
            out.push(Output::Send { to: from, bytes: bytes.clone() });
            return;
        }
        let answer = match header.message {
            message::HEARTBEAT_REQUEST => {
                self.recovery(from, body, out);
                let mut writer = Writer::default();
                writer.ie(ie::RECOVERY_TIME_STAMP, &self.sessions.config().recovery.to_be_bytes());
                let header =
                    Header { message: message::HEARTBEAT_RESPONSE, seid: None, sequence: header.sequence };
                // Not kept: the answer to a repetition is the same.
                out.push(Output::Send { to: from, bytes: writer.message(header) });
                return;
            }
            message::ASSOCIATION_SETUP_REQUEST => self.set_up(now, from, header, body, out),
            message::ASSOCIATION_RELEASE_REQUEST => {
                self.end(from, out);
                let known = self.associations.remove(&from).is_some();
                let cause = if known { Cause::Accepted } else { Cause::NoAssociation };
                self.answer_of_node(message::ASSOCIATION_RELEASE_RESPONSE, header, cause, None, false)
            }
            message::ASSOCIATION_UPDATE_REQUEST => {
                let known = self.associations.contains_key(&from);
                let cause = if known { Cause::Accepted } else { Cause::NoAssociation };
                self.answer_of_node(message::ASSOCIATION_UPDATE_RESPONSE, header, cause, None, false)
            }
            message::SESSION_ESTABLISHMENT_REQUEST => self.establish(from, header, body, out),
            message::SESSION_MODIFICATION_REQUEST => self.modify(from, header, body, usage, out),
            message::SESSION_DELETION_REQUEST => self.delete(from, header, usage, out),
            // An unknown message is discarded (clause 7.6.3).
            _ => return,
        };
        self.remember(from, header.sequence, &answer);
        out.push(Output::Send { to: from, bytes: answer });
    }

    fn remember(&mut self, from: SocketAddr, sequence: u32, answer: &[u8]) {
        if self.answered.len() == ANSWERS_MAX
            && let Some(oldest) = self.answered.pop_front()
        {
            self.answers.remove(&oldest);
        }
        self.answered.push_back((from, sequence));
        self.answers.insert((from, sequence), answer.to_vec());
    }

    fn answer_of_node(
        &self,
        kind: u8,
        header: Header,
        cause: Cause,
        offending: Option<u16>,
        is_set_up: bool,
    ) -> Vec<u8> {
        let config = self.sessions.config();
        let mut writer = Writer::default();
        writer.ie(ie::NODE_ID, &node_id(config.address)).ie(ie::CAUSE, &[cause as u8]);
        if let Some(offending) = offending {
            writer.ie(ie::OFFENDING_IE, &offending.to_be_bytes());
        }
        if is_set_up {
            writer.ie(ie::RECOVERY_TIME_STAMP, &config.recovery.to_be_bytes());
            // FTUP: we choose F-TEIDs; EMPU: we send end markers. BUCP is not set: the control plane does not buffer.
            writer.ie(ie::UP_FUNCTION_FEATURES, &[0x10, 0x01]);
        }
        writer.message(Header { message: kind, seid: None, sequence: header.sequence })
    }

    fn set_up(
        &mut self,
        now: u64,
        from: SocketAddr,
        header: Header,
        body: &[u8],
        out: &mut Vec<Output>,
    ) -> Vec<u8> {
        let (mut node, mut recovery) = (false, None);
        let mut refusal = None;
        for item in Ies::new(body) {
            match item {
                Ok((ie::NODE_ID, _)) => node = true,
                Ok((kind @ ie::RECOVERY_TIME_STAMP, value)) => match Value::new(kind, value).u32() {
                    Ok(stamp) => recovery = Some(stamp),
                    Err(r) => refusal = Some(r),
                },
                Ok(_) => {}
                Err(r) => refusal = Some(r),
            }
        }
        let missing = |kind| Refusal::ie(Cause::MandatoryMissing, kind, "an IE is missing");
        let refusal = refusal.or_else(|| (!node).then(|| missing(ie::NODE_ID)));
        let refusal = refusal.or_else(|| recovery.is_none().then(|| missing(ie::RECOVERY_TIME_STAMP)));
        let kind = message::ASSOCIATION_SETUP_RESPONSE;
        if let Some(refusal) = refusal {
            return self.answer_of_node(kind, header, refusal.cause, refusal.offending, true);
        }
        let recovery = recovery.unwrap_or_default();
        match self.associations.get(&from) {
            None if self.associations.len() == ASSOCIATIONS_MAX => {
                return self.answer_of_node(kind, header, Cause::NoResources, None, true);
            }
            // It has begun again, or forgotten us: its sessions end (clause 6.2.6.2.2).
            _ => self.end(from, out),
        }
        self.associations.insert(from, Association { recovery, heard: now, asked: now });
        out.push(Output::Event(format!("association with {from}")));
        self.answer_of_node(kind, header, Cause::Accepted, None, true)
    }

    /// A peer's recovery time stamp: if it is another one, its sessions are gone.
    fn recovery(&mut self, from: SocketAddr, body: &[u8], out: &mut Vec<Output>) {
        for (kind, value) in Ies::new(body).flatten() {
            if kind != ie::RECOVERY_TIME_STAMP {
                continue;
            }
            if let (Ok(stamp), Some(association)) =
                (Value::new(kind, value).u32(), self.associations.get_mut(&from))
                && stamp != association.recovery
            {
                association.recovery = stamp;
                out.push(Output::Event(format!("{from} has begun again")));
                self.end(from, out);
            }
        }
    }

    /// Ends all sessions of an SMF.
    fn end(&mut self, owner: SocketAddr, out: &mut Vec<Output>) {
        let numbers: Vec<u32> = self.sessions.iter().filter(|s| s.owner == owner).map(|s| s.number).collect();
        if numbers.is_empty() {
            return;
        }
        out.push(Output::Event(format!("{} sessions of {owner} end", numbers.len())));
        for number in numbers {
            let changes = self.sessions.remove(number);
            self.forget_reports(number);
            out.push(Output::Change(changes));
        }
    }

    fn forget_reports(&mut self, session: u32) {
        let keys: Vec<_> = self.reported.range((session, 0)..=(session, u32::MAX)).map(|(k, _)| *k).collect();
        for key in keys {
            self.reported.remove(&key);
        }
    }

    fn establish(&mut self, from: SocketAddr, header: Header, body: &[u8], out: &mut Vec<Output>) -> Vec<u8> {
        let sequence = header.sequence;
        let mut remote = 0;
        let result = self.establish_session(from, body, &mut remote);
        let header =
            Header { message: message::SESSION_ESTABLISHMENT_RESPONSE, seid: Some(remote), sequence };
        let mut writer = Writer::default();
        let config = self.sessions.config();
        writer.ie(ie::NODE_ID, &node_id(config.address));
        match result {
            Ok((number, changes)) => {
                out.push(Output::Change(changes));
                writer.ie(ie::CAUSE, &[Cause::Accepted as u8]);
                writer.ie(ie::F_SEID, &f_seid(number.into(), config.address));
                self.write_created(&mut writer, number, None);
            }
            Err(refusal) => {
                write_refusal(&mut writer, &refusal);
                out.push(Output::Event(format!("{from}: session refused: {}", refusal.why)));
            }
        }
        writer.message(header)
    }

    fn establish_session(
        &mut self,
        from: SocketAddr,
        body: &[u8],
        remote: &mut u64,
    ) -> Result<(u32, Vec<Change>), Refusal> {
        let mut node = false;
        let mut seid = None;
        for item in Ies::new(body) {
            let (kind, value) = item?;
            match kind {
                ie::NODE_ID => node = true,
                ie::F_SEID => seid = Some(read_seid(value)?),
                _ => {}
            }
        }
        *remote = seid.unwrap_or_default();
        if !self.associations.contains_key(&from) {
            return Err(Refusal {
                cause: Cause::NoAssociation,
                offending: None,
                rule: None,
                why: "no association".into(),
            });
        }
        if !node {
            return Err(Refusal::ie(Cause::MandatoryMissing, ie::NODE_ID, "no node ID"));
        }
        let seid = seid.ok_or_else(|| Refusal::ie(Cause::MandatoryMissing, ie::F_SEID, "no F-SEID"))?;
        let session = self.sessions.create(seid, from)?;
        let mut changed = session.clone();
        let result = apply(&mut changed, body, &mut |_, _| ()).and_then(|_| {
            for (is_empty, kind) in
                [(changed.pdrs.is_empty(), ie::CREATE_PDR), (changed.fars.is_empty(), ie::CREATE_FAR)]
            {
                if is_empty {
                    return Err(Refusal::ie(Cause::MandatoryMissing, kind, "a session without PDR or FAR"));
                }
            }
            self.sessions.keep(changed)
        });
        match result {
            Ok(changes) => Ok((session.number, changes)),
            Err(refusal) => {
                self.sessions.forget(&session);
                Err(refusal)
            }
        }
    }

    fn write_created(&self, writer: &mut Writer, number: u32, before: Option<&Session>) {
        let Some(session) = self.sessions.get(number) else { return };
        let config = self.sessions.config();
        for pdr in session.pdrs.values() {
            let Some(teid) =
                session.chosen(pdr.id).filter(|_| before.is_none_or(|b| b.chosen(pdr.id).is_none()))
            else {
                continue;
            };
            let Some(crate::rules::Fteid::Choose { v4, v6, .. }) = pdr.fteid else { continue };
            let v4 = config.v4().filter(|_| v4).map(|(_, a)| a);
            let v6 = config.v6().filter(|_| v6).map(|(_, a)| a);
            let mut value = vec![u8::from(v4.is_some()) | u8::from(v6.is_some()) << 1];
            value.extend(teid.to_be_bytes());
            value.extend(v4.iter().flat_map(|a| a.octets()));
            value.extend(v6.iter().flat_map(|a| a.octets()));
            writer.group(ie::CREATED_PDR, |w| {
                w.ie(ie::PDR_ID, &pdr.id.to_be_bytes()).ie(ie::F_TEID, &value);
            });
        }
    }

    /// Our session of a SEID, if it is this SMF's.
    fn find(&self, from: SocketAddr, seid: Option<u64>) -> Result<Session, Refusal> {
        let refuse = |cause, why: &str| Refusal { cause, offending: None, rule: None, why: why.into() };
        if !self.associations.contains_key(&from) {
            return Err(refuse(Cause::NoAssociation, "no association"));
        }
        let number = seid.and_then(|seid| u32::try_from(seid).ok());
        let session = number.and_then(|n| self.sessions.get(n)).filter(|s| s.owner == from);
        session.cloned().ok_or_else(|| refuse(Cause::SessionNotFound, "no such session"))
    }

    fn modify(
        &mut self,
        from: SocketAddr,
        header: Header,
        body: &[u8],
        usage: Usage,
        out: &mut Vec<Output>,
    ) -> Vec<u8> {
        let mut writer = Writer::default();
        let before = match self.find(from, header.seid) {
            Ok(session) => session,
            Err(refusal) => {
                write_refusal(&mut writer, &refusal);
                let seid = Some(0);
                let kind = message::SESSION_MODIFICATION_RESPONSE;
                return writer.message(Header { message: kind, seid, sequence: header.sequence });
            }
        };
        let mut after = before.clone();
        let mut end_markers: Vec<Tunnel> = Vec::new();
        let mut updated = false;
        let result = apply(&mut after, body, &mut |old: &Far, sends| {
            updated = true;
            if sends && let Some(tunnel) = old.forward.as_ref().and_then(|p| p.tunnel) {
                end_markers.push(tunnel);
            }
        });
        let markers: Vec<(u32, u32)> = end_markers
            .iter()
            .filter_map(|t| self.sessions.peer(t.peer).map(|peer| (peer, t.teid)))
            .collect();
        let remote_seid = after.remote_seid;
        match result.and_then(|queried| self.sessions.keep(after).map(|changes| (queried, changes))) {
            Ok((queried, mut changes)) => {
                if updated {
                    changes.push(Change::Register { name: "notified", cell: before.number, value: 0 });
                }
                // The old peer's headers are still needed for the end markers.
                let is_of_peer = |change: &Change| match change {
                    Change::Remove(key) => matches!(key.table, Table::Peers | Table::Encapsulations),
                    _ => false,
                };
                let (later, now): (Vec<_>, Vec<_>) =
                    changes.into_iter().partition(|c| !markers.is_empty() && is_of_peer(c));
                out.push(Output::Change(now));
                out.extend(markers.into_iter().map(|(peer, teid)| Output::EndMarker { peer, teid }));
                if !later.is_empty() {
                    out.push(Output::Change(later));
                }
                writer.ie(ie::CAUSE, &[Cause::Accepted as u8]);
                self.write_created(&mut writer, before.number, Some(&before));
                let urrs = match queried {
                    Query::All => before.urrs.keys().copied().collect(),
                    Query::Some(urrs) => urrs,
                };
                for urr in urrs {
                    self.write_usage(
                        &mut writer,
                        ie::USAGE_REPORT_MODIFICATION,
                        &before,
                        urr,
                        TRIGGER_IMMEDIATE,
                        usage,
                    );
                }
            }
            Err(refusal) => {
                write_refusal(&mut writer, &refusal);
                out.push(Output::Event(format!(
                    "{from}: change of session {} refused: {}",
                    before.number, refusal.why
                )));
            }
        }
        let header = Header {
            message: message::SESSION_MODIFICATION_RESPONSE,
            seid: Some(remote_seid),
            sequence: header.sequence,
        };
        writer.message(header)
    }

    fn delete(&mut self, from: SocketAddr, header: Header, usage: Usage, out: &mut Vec<Output>) -> Vec<u8> {
        let mut writer = Writer::default();
        let mut seid = 0;
        match self.find(from, header.seid) {
            Ok(session) => {
                seid = session.remote_seid;
                writer.ie(ie::CAUSE, &[Cause::Accepted as u8]);
                // Packets that arrive between this and the end are not counted.
                for urr in session.urrs.keys() {
                    self.write_usage(
                        &mut writer,
                        ie::USAGE_REPORT_DELETION,
                        &session,
                        *urr,
                        TRIGGER_END,
                        usage,
                    );
                }
                let changes = self.sessions.remove(session.number);
                self.forget_reports(session.number);
                out.push(Output::Change(changes));
            }
            Err(refusal) => write_refusal(&mut writer, &refusal),
        }
        let kind = message::SESSION_DELETION_RESPONSE;
        writer.message(Header { message: kind, seid: Some(seid), sequence: header.sequence })
    }

    /// A usage report of a URR: what has been used since the last one.
    fn write_usage(
        &mut self,
        writer: &mut Writer,
        group: u16,
        session: &Session,
        urr: u32,
        trigger: [u8; 3],
        usage: Usage,
    ) {
        let Some((up, down)) = session.usage_cells(urr) else { return };
        let (up, down) = (usage(up), usage(down));
        let reported = self.reported.entry((session.number, urr)).or_default();
        let since =
            |now: (u64, u64), then: (u64, u64)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1));
        let (used_up, used_down) = (since(up, reported.up), since(down, reported.down));
        let number = reported.number;
        *reported = Reported { number: number.wrapping_add(1), up, down };
        // Total, uplink and downlink, volume and packets (clause 8.2.44).
        let mut volume = vec![0x3f];
        for value in [
            used_up.1.saturating_add(used_down.1),
            used_up.1,
            used_down.1,
            used_up.0.saturating_add(used_down.0),
            used_up.0,
            used_down.0,
        ] {
            volume.extend(value.to_be_bytes());
        }
        writer.group(group, |w| {
            w.ie(ie::URR_ID, &urr.to_be_bytes()).ie(ie::UR_SEQN, &number.to_be_bytes());
            w.ie(ie::USAGE_REPORT_TRIGGER, &trigger).ie(ie::VOLUME_MEASUREMENT, &volume);
        });
    }

    fn request(
        &mut self,
        now: u64,
        to: SocketAddr,
        kind: u8,
        seid: Option<u64>,
        writer: &Writer,
        out: &mut Vec<Output>,
    ) {
        if self.waiting.len() >= WAITING_MAX {
            return;
        }
        self.sequence = (self.sequence + 1) & 0xff_ffff;
        let bytes = writer.message(Header { message: kind, seid, sequence: self.sequence });
        let waiting = Waiting { to, bytes: bytes.clone(), again: now + RETRY_MS, retries: 0 };
        self.waiting.insert(self.sequence, waiting);
        out.push(Output::Send { to, bytes });
    }

    /// The switch has said that packets wait for a UE (digest `downlink_data_t`): a downlink data report.
    pub fn downlink_data(&mut self, now: u64, rule: u32) -> Vec<Output> {
        let mut out = Vec::new();
        let Some(session) = self.sessions.get(rule >> 8 & 0x7f_ffff) else { return out };
        let Some(pdr) = session.pdr(rule).map(|p| p.id) else { return out };
        let (owner, seid) = (session.owner, session.remote_seid);
        let mut writer = Writer::default();
        writer.ie(ie::REPORT_TYPE, &[1]);
        writer.group(ie::DOWNLINK_DATA_REPORT, |w| {
            w.ie(ie::PDR_ID, &pdr.to_be_bytes());
        });
        self.request(now, owner, message::SESSION_REPORT_REQUEST, Some(seid), &writer, &mut out);
        out
    }

    /// The switch has said that a credit is used up (digest `usage_t`): a usage report, and the next credit.
    pub fn credit_used(&mut self, now: u64, rule: u32, cell: u32, usage: Usage) -> Vec<Output> {
        let mut out = Vec::new();
        let Some(session) = self.sessions.get(rule >> 8 & 0x7f_ffff).cloned() else { return out };
        let Some(urr) = session.urr_of_credit(cell) else { return out };
        let Some((credit, _)) = credit_of(&session.urrs[&urr]) else { return out };
        let mut writer = Writer::default();
        writer.ie(ie::REPORT_TYPE, &[2]);
        self.write_usage(&mut writer, ie::USAGE_REPORT, &session, urr, TRIGGER_THRESHOLD, usage);
        out.push(Output::Change(vec![Change::Register { name: "credit", cell, value: credit }]));
        self.request(
            now,
            session.owner,
            message::SESSION_REPORT_REQUEST,
            Some(session.remote_seid),
            &writer,
            &mut out,
        );
        out
    }

    /// What is due: heartbeats, requests again, SMFs that have vanished. Call it a few times each second.
    pub fn tick(&mut self, now: u64) -> Vec<Output> {
        let mut out = Vec::new();
        let mut lost = Vec::new();
        self.waiting.retain(|_, waiting| {
            if waiting.again > now {
                return true;
            }
            if waiting.retries == RETRIES {
                lost.push(waiting.to);
                return false;
            }
            waiting.retries += 1;
            waiting.again = now + RETRY_MS;
            out.push(Output::Send { to: waiting.to, bytes: waiting.bytes.clone() });
            true
        });
        for smf in lost {
            // Another message may have come while this one was lost.
            let is_silent = self
                .associations
                .get(&smf)
                .is_some_and(|a| a.heard + u64::from(RETRIES + 1) * RETRY_MS <= now);
            if is_silent {
                self.associations.remove(&smf);
                self.waiting.retain(|_, w| w.to != smf);
                out.push(Output::Event(format!("{smf} does not answer any more")));
                self.end(smf, &mut out);
            }
        }
        let due: Vec<SocketAddr> = self
            .associations
            .iter()
            .filter(|(_, a)| a.asked + HEARTBEAT_MS <= now)
            .map(|(smf, _)| *smf)
            .collect();
        for smf in due {
            if let Some(association) = self.associations.get_mut(&smf) {
                association.asked = now;
            }
            let mut writer = Writer::default();
            writer.ie(ie::RECOVERY_TIME_STAMP, &self.sessions.config().recovery.to_be_bytes());
            self.request(now, smf, message::HEARTBEAT_REQUEST, None, &writer, &mut out);
        }
        out
    }
}

fn read_seid(value: &[u8]) -> Result<u64, Refusal> {
    let mut read = Value::new(ie::F_SEID, value);
    read.u8()?;
    read.u64()
}

fn write_refusal(writer: &mut Writer, refusal: &Refusal) {
    writer.ie(ie::CAUSE, &[refusal.cause as u8]);
    if let Some(offending) = refusal.offending {
        writer.ie(ie::OFFENDING_IE, &offending.to_be_bytes());
    }
    if let Some((kind, number)) = refusal.rule {
        // A PDR's number has two bytes (clause 8.2.80).
        let number =
            if kind == 0 { (number as u16).to_be_bytes().to_vec() } else { number.to_be_bytes().to_vec() };
        writer.ie(ie::FAILED_RULE_ID, &[&[kind][..], &number].concat());
    }
}

/// URRs whose usage is asked for.
enum Query {
    All,
    Some(Vec<u32>),
}

/// Applies the rules of an establishment or modification to a session: first what is removed, then what is new, then what
/// changes.
/// `updated` gets each FAR that changes, as it was, and whether its old path gets an end marker.
fn apply(session: &mut Session, body: &[u8], updated: &mut dyn FnMut(&Far, bool)) -> Result<Query, Refusal> {
    let mut query = Query::Some(Vec::new());
    let mut all_markers = false;
    let there_is_no =
        |kind, number, what: &str| Refusal::rule(kind, number, format!("there is no {what} {number}"));
    for item in Ies::new(body) {
        let (kind, value) = item?;
        match kind {
            ie::REMOVE_PDR => {
                let id = identifier(kind, value, ie::PDR_ID)?;
                session.pdrs.remove(&(id as u16)).ok_or_else(|| there_is_no(0, id, "PDR"))?;
            }
            ie::REMOVE_FAR => {
                let id = identifier(kind, value, ie::FAR_ID)?;
                session.fars.remove(&id).ok_or_else(|| there_is_no(1, id, "FAR"))?;
            }
            ie::REMOVE_QER => {
                let id = identifier(kind, value, ie::QER_ID)?;
                session.qers.remove(&id).ok_or_else(|| there_is_no(2, id, "QER"))?;
            }
            ie::REMOVE_URR => {
                let id = identifier(kind, value, ie::URR_ID)?;
                session.urrs.remove(&id).ok_or_else(|| there_is_no(3, id, "URR"))?;
            }
            ie::SMREQ_FLAGS => {
                let flags = Value::new(kind, value).u8()?;
                all_markers |= flags & 2 != 0;
                if flags & 4 != 0 {
                    query = Query::All;
                }
            }
            ie::QUERY_URR => {
                let id = identifier(kind, value, ie::URR_ID)?;
                if let Query::Some(urrs) = &mut query {
                    urrs.push(id);
                }
            }
            ie::F_SEID => session.remote_seid = read_seid(value)?,
            _ => {}
        }
    }
    for item in Ies::new(body) {
        let (kind, value) = item?;
        let twice = |kind, number| Refusal::rule(kind, number, format!("rule {number} exists already"));
        match kind {
            ie::CREATE_PDR => {
                let pdr = Pdr::read(value, None)?;
                let id = pdr.id;
                if session.pdrs.insert(id, pdr).is_some() {
                    return Err(twice(0, id.into()));
                }
            }
            ie::CREATE_FAR => {
                let (far, _) = Far::read(value, None)?;
                let id = far.id;
                if session.fars.insert(id, far).is_some() {
                    return Err(twice(1, id));
                }
            }
            ie::CREATE_QER => {
                let qer = Qer::read(value, None)?;
                let id = qer.id;
                if session.qers.insert(id, qer).is_some() {
                    return Err(twice(2, id));
                }
            }
            ie::CREATE_URR => {
                let urr = Urr::read(value, None)?;
                let id = urr.id;
                if session.urrs.insert(id, urr).is_some() {
                    return Err(twice(3, id));
                }
            }
            ie::UPDATE_PDR => {
                let id = identifier(kind, value, ie::PDR_ID)?;
                let pdr = session.pdrs.get_mut(&(id as u16)).ok_or_else(|| there_is_no(0, id, "PDR"))?;
                *pdr = Pdr::read(value, Some(pdr))?;
            }
            ie::UPDATE_FAR => {
                let id = identifier(kind, value, ie::FAR_ID)?;
                let far = session.fars.get_mut(&id).ok_or_else(|| there_is_no(1, id, "FAR"))?;
                let (new, sends_end_marker) = Far::read(value, Some(far))?;
                let moves = new.forward.as_ref().map(|p| p.tunnel) != far.forward.as_ref().map(|p| p.tunnel);
                updated(far, moves && (sends_end_marker || all_markers));
                *far = new;
            }
            ie::UPDATE_QER => {
                let id = identifier(kind, value, ie::QER_ID)?;
                let qer = session.qers.get_mut(&id).ok_or_else(|| there_is_no(2, id, "QER"))?;
                *qer = Qer::read(value, Some(qer))?;
            }
            ie::UPDATE_URR => {
                let id = identifier(kind, value, ie::URR_ID)?;
                let urr = session.urrs.get_mut(&id).ok_or_else(|| there_is_no(3, id, "URR"))?;
                *urr = Urr::read(value, Some(urr))?;
            }
            _ => {}
        }
    }
    Ok(query)
}
