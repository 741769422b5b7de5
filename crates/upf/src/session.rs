//! Sessions, and what their rules mean in the switch (docs/upf.md, "What a controller writes").

use crate::config::Config;
use crate::flow::Flow;
use crate::rules::{Far, Filter, Fteid, Interface, Parameters, Pdr, Qer, Tunnel, Urr};
use crate::switch::{Action, Change, Entries, Field, Key, Table, difference};
use crate::wire::{Cause, Refusal};
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Rules of one kind in a session: a rule's place in its session has 8 bits.
const RULES_MAX: usize = 255;
/// Entries that the filters of one place may need.
const SET_ENTRIES_MAX: usize = 1024;
/// Numbers of peers: those of `peers`.
const PEERS_MAX: u32 = 65_535;
/// The bit of rules for packets that come back from the buffer.
const RELEASED: u32 = 1 << 31;
/// Bursts of rates: 50 ms, at least ten packets.
const BURSTS_PER_SECOND: u64 = 20;
const BURST_MIN: u64 = 15_000;

/// A session and its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its number in the switch, from 1 on.
    pub number: u32,
    /// The SMF's identifier.
    pub remote_seid: u64,
    /// The SMF.
    pub owner: SocketAddr,
    /// Packet detection rules.
    pub pdrs: BTreeMap<u16, Pdr>,
    /// Forwarding action rules.
    pub fars: BTreeMap<u32, Far>,
    /// QoS enforcement rules.
    pub qers: BTreeMap<u32, Qer>,
    /// Usage reporting rules.
    pub urrs: BTreeMap<u32, Urr>,
    /// The place of each PDR's rule in the session.
    places: BTreeMap<u16, u8>,
    /// TEIDs that we chose, by PDR.
    chosen: BTreeMap<u16, u32>,
    /// Cells of meters by QER, and of usage by URR.
    rates: BTreeMap<u32, u32>,
    usage: BTreeMap<u32, u32>,
}

impl Session {
    /// A session without rules.
    pub fn new(number: u32, remote_seid: u64, owner: SocketAddr) -> Session {
        Session {
            number,
            remote_seid,
            owner,
            pdrs: BTreeMap::new(),
            fars: BTreeMap::new(),
            qers: BTreeMap::new(),
            urrs: BTreeMap::new(),
            places: BTreeMap::new(),
            chosen: BTreeMap::new(),
            rates: BTreeMap::new(),
            usage: BTreeMap::new(),
        }
    }

    /// The TEID that we chose for a PDR.
    pub fn chosen(&self, pdr: u16) -> Option<u32> {
        self.chosen.get(&pdr).copied()
    }

    /// The number of a PDR's rule in the switch.
    pub fn rule(&self, pdr: u16) -> Option<u32> {
        self.places.get(&pdr).map(|place| self.number << 8 | u32::from(*place))
    }

    /// The PDR of a rule's number, which may be that of packets from the buffer.
    pub fn pdr(&self, rule: u32) -> Option<&Pdr> {
        let place = (rule & 0xff) as u8;
        self.places.iter().find(|(_, p)| **p == place).and_then(|(id, _)| self.pdrs.get(id))
    }

    /// The cells of a URR: uplink and downlink usage. The credit's cell is half of the first.
    pub fn usage_cells(&self, urr: u32) -> Option<(u32, u32)> {
        self.usage.get(&urr).map(|cell| (2 * cell, 2 * cell + 1))
    }

    /// The URR of a cell of `credit`.
    pub fn urr_of_credit(&self, cell: u32) -> Option<u32> {
        self.usage.iter().find(|(_, c)| **c == cell).map(|(urr, _)| *urr)
    }
}

/// Where packets find a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Point {
    Teid(u16, u32),
    V4(u16, u32),
    V6(u16, u64),
}

/// Filters of a point, in the order of precedence: the place of the rule, filters, QoS flows.
type Set = Vec<(u8, Vec<Filter>, Vec<u8>)>;

/// Numbers for values that sessions share.
#[derive(Debug, Clone)]
struct Shared<T> {
    numbers: BTreeMap<T, (u32, u32)>,
    free: Numbers,
}

impl<T: Ord + Clone> Shared<T> {
    fn new(end: u32) -> Shared<T> {
        Shared { numbers: BTreeMap::new(), free: Numbers::new(end) }
    }

    fn number(&self, value: &T) -> Option<u32> {
        self.numbers.get(value).map(|(number, _)| *number)
    }

    /// The number of a value that has one more user.
    fn acquire(&mut self, value: &T) -> Option<u32> {
        if let Some((number, users)) = self.numbers.get_mut(value) {
            *users += 1;
            return Some(*number);
        }
        let number = self.free.take()?;
        self.numbers.insert(value.clone(), (number, 1));
        Some(number)
    }

    fn release(&mut self, value: &T) {
        if let Some((number, users)) = self.numbers.get_mut(value) {
            *users -= 1;
            if *users == 0 {
                self.free.give(*number);
                self.numbers.remove(value);
            }
        }
    }
}

/// Free numbers from 1 on.
#[derive(Debug, Clone)]
struct Numbers {
    next: u32,
    end: u32,
    given_back: Vec<u32>,
}

impl Numbers {
    fn new(end: u32) -> Numbers {
        Numbers { next: 1, end, given_back: Vec::new() }
    }

    fn take(&mut self) -> Option<u32> {
        if let Some(number) = self.given_back.pop() {
            return Some(number);
        }
        if self.next >= self.end {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    fn give(&mut self, number: u32) {
        self.given_back.push(number);
    }
}

/// What a session's entries name besides itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Uses {
    points: BTreeSet<Point>,
    peers: BTreeSet<IpAddr>,
    sets: BTreeSet<Set>,
}

/// All sessions with what they share, and so what the switch should contain.
#[derive(Debug)]
pub struct Sessions {
    config: Config,
    sessions: BTreeMap<u32, (Session, Uses)>,
    points: BTreeMap<Point, u32>,
    peers: Shared<IpAddr>,
    sets: Shared<Set>,
    numbers: Numbers,
    rates: Numbers,
    usage: Numbers,
    next_teid: u32,
}

fn full(what: &str) -> Refusal {
    Refusal { cause: Cause::NoResources, offending: None, rule: None, why: format!("no more {what}") }
}

impl Sessions {
    /// No sessions.
    pub fn new(config: Config) -> Sessions {
        let end = config.sessions_max.saturating_add(1);
        Sessions {
            sessions: BTreeMap::new(),
            points: BTreeMap::new(),
            peers: Shared::new(PEERS_MAX + 1),
            sets: Shared::new(u32::MAX),
            numbers: Numbers::new(end),
            rates: Numbers::new(end),
            usage: Numbers::new(end),
            next_teid: 1,
            config,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A session by its number, which is also our SEID.
    pub fn get(&self, number: u32) -> Option<&Session> {
        self.sessions.get(&number).map(|(session, _)| session)
    }

    /// All sessions.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().map(|(session, _)| session)
    }

    /// The number of a peer.
    pub fn peer(&self, address: IpAddr) -> Option<u32> {
        self.peers.number(&address)
    }

    /// A new session without rules, which is not yet kept. Give its number back if it is refused.
    pub fn create(&mut self, remote_seid: u64, owner: SocketAddr) -> Result<Session, Refusal> {
        Ok(Session::new(self.numbers.take().ok_or_else(|| full("sessions"))?, remote_seid, owner))
    }

    /// Gives back the number of a session that was refused.
    pub fn forget(&mut self, session: &Session) {
        if !self.sessions.contains_key(&session.number) {
            self.numbers.give(session.number);
        }
    }

    /// Ends a session.
    pub fn remove(&mut self, number: u32) -> Vec<Change> {
        let Some((session, uses)) = self.sessions.remove(&number) else { return Vec::new() };
        let mut before = self.entries_of(&session).unwrap_or_default();
        before.extend(self.shared_entries(&uses));
        self.release(&uses);
        let after = self.shared_entries(&uses);
        for cell in session.rates.values() {
            self.rates.give(*cell);
        }
        for cell in session.usage.values() {
            self.usage.give(*cell);
        }
        self.numbers.give(number);
        difference(&before, &after)
    }

    /// Keeps a new or changed session, and returns the changes of the switch. Nothing has changed if it is refused.
    pub fn keep(&mut self, mut session: Session) -> Result<Vec<Change>, Refusal> {
        let old = self.sessions.get(&session.number).cloned();
        if session.pdrs.len() > RULES_MAX
            || session.fars.len() > RULES_MAX
            || session.qers.len() > RULES_MAX
            || session.urrs.len() > RULES_MAX
        {
            return Err(full("rules in a session"));
        }
        let mut registers = Vec::new();
        if old.is_none() {
            registers.push(Change::Register { name: "arrived", cell: session.number, value: 0 });
            registers.push(Change::Register { name: "notified", cell: session.number, value: 0 });
        }
        // What the session needs for itself, given back if it is refused.
        let (mut rates, mut usage) = (Vec::new(), Vec::new());
        let result = self.assign(&mut session, &mut rates, &mut usage).and_then(|()| self.uses_of(&session));
        let result = result.and_then(|uses| {
            self.acquire(&uses, session.number)?;
            let entries = self.entries_of(&session);
            if entries.is_err() {
                self.release(&uses);
            }
            entries.map(|entries| (uses, entries))
        });
        let (uses, entries) = match result {
            Ok(done) => done,
            Err(refusal) => {
                rates.into_iter().for_each(|cell| self.rates.give(cell));
                usage.into_iter().for_each(|cell| self.usage.give(cell));
                return Err(refusal);
            }
        };
        // Points, peers and sets of both, as they were and as they will be.
        let old_uses = old.as_ref().map(|(_, uses)| uses.clone()).unwrap_or_default();
        let mut before =
            old.as_ref().map_or_else(Entries::new, |(s, _)| self.entries_of(s).unwrap_or_default());
        before.extend(self.shared_entries(&old_uses));
        for peer in uses.peers.difference(&old_uses.peers) {
            if self.peers.numbers.get(peer).is_some_and(|(_, users)| *users > 1) {
                before.extend(self.peer_entries(*peer));
            }
        }
        for set in uses.sets.difference(&old_uses.sets) {
            if self.sets.numbers.get(set).is_some_and(|(_, users)| *users > 1) {
                before.extend(self.set_entries(set));
            }
        }
        self.release_kept(&old_uses, &uses);
        let mut after = entries;
        after.extend(self.shared_entries(&old_uses));
        after.extend(self.shared_entries(&uses));
        let mut changes = registers;
        changes.extend(self.cells(old.as_ref().map(|(s, _)| s), &session));
        changes.extend(difference(&before, &after));
        // Cells of rules that are gone.
        if let Some((old, _)) = &old {
            for (id, cell) in &old.rates {
                if !session.rates.contains_key(id) {
                    self.rates.give(*cell);
                }
            }
            for (id, cell) in &old.usage {
                if !session.usage.contains_key(id) {
                    self.usage.give(*cell);
                }
            }
        }
        self.sessions.insert(session.number, (session, uses));
        Ok(changes)
    }

    /// Places for rules, TEIDs, cells of meters and registers.
    fn assign(
        &mut self,
        session: &mut Session,
        rates: &mut Vec<u32>,
        usage: &mut Vec<u32>,
    ) -> Result<(), Refusal> {
        session.places.retain(|id, _| session.pdrs.contains_key(id));
        session.chosen.retain(|id, _| session.pdrs.contains_key(id));
        session.rates.retain(|id, _| session.qers.contains_key(id));
        session.usage.retain(|id, _| session.urrs.contains_key(id));
        let mut together: BTreeMap<u8, u32> = BTreeMap::new();
        for pdr in session.pdrs.values() {
            if let Some(Fteid::Choose { id: Some(id), .. }) = pdr.fteid
                && let Some(teid) = session.chosen.get(&pdr.id)
            {
                together.insert(id, *teid);
            }
        }
        for pdr in session.pdrs.values() {
            if !session.places.contains_key(&pdr.id) {
                let taken: BTreeSet<u8> = session.places.values().copied().collect();
                let place =
                    (0..=u8::MAX).find(|p| !taken.contains(p)).ok_or_else(|| full("places for rules"))?;
                session.places.insert(pdr.id, place);
            }
            if let Some(Fteid::Choose { id, .. }) = pdr.fteid
                && !session.chosen.contains_key(&pdr.id)
            {
                let teid = match id.and_then(|id| together.get(&id)) {
                    Some(teid) => *teid,
                    None => self.free_teid()?,
                };
                if let Some(id) = id {
                    together.insert(id, teid);
                }
                session.chosen.insert(pdr.id, teid);
            }
        }
        for qer in session.qers.values().filter(|q| q.mbr.is_some() || q.gbr.is_some()) {
            if let Slot::Vacant(slot) = session.rates.entry(qer.id) {
                let cell = self.rates.take().ok_or_else(|| full("meters"))?;
                rates.push(cell);
                slot.insert(cell);
            }
        }
        for urr in session.urrs.values().filter(|u| u.volume) {
            if let Slot::Vacant(slot) = session.usage.entry(urr.id) {
                let cell = self.usage.take().ok_or_else(|| full("usage counters"))?;
                usage.push(cell);
                slot.insert(cell);
            }
        }
        Ok(())
    }

    /// A TEID that none of our addresses has. 0 is reserved (TS 29.281, clause 5.1).
    fn free_teid(&mut self) -> Result<u32, Refusal> {
        for _ in 0..=self.points.len() {
            let teid = self.next_teid;
            self.next_teid = if teid == u32::MAX { 1 } else { teid + 1 };
            if !self.config.endpoints.iter().any(|e| self.points.contains_key(&Point::Teid(e.number, teid))) {
                return Ok(teid);
            }
        }
        Err(full("TEIDs"))
    }

    /// Where packets find a PDR.
    fn points_of(&self, session: &Session, pdr: &Pdr) -> Result<Vec<Point>, Refusal> {
        let id = u32::from(pdr.id);
        let mut points = Vec::new();
        match pdr.fteid {
            Some(Fteid::Given { teid, v4, v6 }) => {
                for address in v4.map(IpAddr::V4).into_iter().chain(v6.map(IpAddr::V6)) {
                    let number = self.config.endpoint(address);
                    let number = number
                        .ok_or_else(|| Refusal::rule(0, id, format!("{address} is not our address")))?;
                    points.push(Point::Teid(number, teid));
                }
            }
            Some(Fteid::Choose { v4, v6, .. }) => {
                let teid = session.chosen.get(&pdr.id).copied().unwrap_or_default();
                let missing = |family| Refusal::rule(0, id, format!("we have no address of {family}"));
                if v4 {
                    points.push(Point::Teid(self.config.v4().ok_or_else(|| missing("IPv4"))?.0, teid));
                }
                if v6 {
                    points.push(Point::Teid(self.config.v6().ok_or_else(|| missing("IPv6"))?.0, teid));
                }
            }
            None => {
                let network = self.config.network(pdr.network.as_deref());
                let network = network.ok_or_else(|| Refusal::rule(0, id, "unknown network instance"))?.number;
                points.extend(pdr.v4.map(|a| Point::V4(network, a.into())));
                points.extend(pdr.v6.map(|p| Point::V6(network, p)));
                if points.is_empty() || !pdr.is_destination {
                    return Err(Refusal::rule(
                        0,
                        id,
                        "neither a local F-TEID nor the UE's address as destination",
                    ));
                }
            }
        }
        Ok(points)
    }

    /// The PDRs of each point, in the order of precedence.
    fn by_point<'a>(&self, session: &'a Session) -> Result<BTreeMap<Point, Vec<&'a Pdr>>, Refusal> {
        let mut all: BTreeMap<Point, Vec<&Pdr>> = BTreeMap::new();
        for pdr in session.pdrs.values() {
            for point in self.points_of(session, pdr)? {
                all.entry(point).or_default().push(pdr);
            }
        }
        for pdrs in all.values_mut() {
            pdrs.sort_by_key(|p| (p.precedence, p.id));
        }
        Ok(all)
    }

    /// The set of filters of a point; none if its only PDR takes all packets.
    fn set_of(session: &Session, pdrs: &[&Pdr]) -> Option<Set> {
        if let [only] = pdrs
            && only.filters.iter().all(takes_all)
            && only.qfis.is_empty()
        {
            return None;
        }
        let set = pdrs.iter().map(|pdr| {
            let mut filters: Vec<Filter> = pdr.filters.iter().filter(|f| is_for(f, pdr)).cloned().collect();
            for flow in filters.iter_mut().filter_map(|f| f.flow.as_mut()) {
                flow.user = None;
            }
            // Filters that cannot match any packet of this UE match none, rather than all.
            let is_dead = filters.is_empty() && !pdr.filters.is_empty();
            (session.places[&pdr.id], filters, pdr.qfis.clone(), is_dead)
        });
        Some(
            set.filter(|(.., is_dead)| !is_dead)
                .map(|(place, filters, qfis, _)| (place, filters, qfis))
                .collect(),
        )
    }

    fn uses_of(&self, session: &Session) -> Result<Uses, Refusal> {
        let mut uses = Uses::default();
        for (point, pdrs) in self.by_point(session)? {
            uses.points.insert(point);
            uses.sets.extend(Self::set_of(session, &pdrs));
        }
        for far in session.fars.values() {
            let duplicate = far.duplicate.iter().filter(|_| far.action & Far::DUPLICATE != 0);
            uses.peers.extend(far.forward.iter().chain(duplicate).filter_map(|p| p.tunnel).map(|t| t.peer));
        }
        Ok(uses)
    }

    fn acquire(&mut self, uses: &Uses, number: u32) -> Result<(), Refusal> {
        if let Some(point) =
            uses.points.iter().find(|p| self.points.get(p).is_some_and(|owner| *owner != number))
        {
            let why = format!("another session has {point:?}");
            return Err(Refusal { cause: Cause::RuleFailure, offending: None, rule: None, why });
        }
        for set in &uses.sets {
            if set_size(set) > SET_ENTRIES_MAX {
                return Err(full("entries for filters"));
            }
        }
        let mut done = Uses::default();
        for peer in &uses.peers {
            if self.peers.acquire(peer).is_none() {
                self.release(&done);
                return Err(full("peers"));
            }
            done.peers.insert(*peer);
        }
        for set in &uses.sets {
            if self.sets.acquire(set).is_none() {
                self.release(&done);
                return Err(full("sets of filters"));
            }
            done.sets.insert(set.clone());
        }
        for point in &uses.points {
            self.points.insert(*point, number);
        }
        Ok(())
    }

    /// Points of a refused change of a session that were not its before are free again.
    fn release(&mut self, uses: &Uses) {
        uses.peers.iter().for_each(|peer| self.peers.release(peer));
        uses.sets.iter().for_each(|set| self.sets.release(set));
        for point in &uses.points {
            let is_kept = self.points.get(point).and_then(|n| self.sessions.get(n));
            if !is_kept.is_some_and(|(_, kept)| kept.points.contains(point)) {
                self.points.remove(point);
            }
        }
    }

    /// Gives back what a session had and no longer has.
    fn release_kept(&mut self, old: &Uses, new: &Uses) {
        old.peers.iter().for_each(|peer| self.peers.release(peer));
        old.sets.iter().for_each(|set| self.sets.release(set));
        for point in old.points.difference(&new.points) {
            self.points.remove(point);
        }
    }

    /// The entries of peers and sets that have users.
    fn shared_entries(&self, uses: &Uses) -> Entries {
        let peers =
            uses.peers.iter().filter(|p| self.peers.number(p).is_some()).flat_map(|p| self.peer_entries(*p));
        let sets =
            uses.sets.iter().filter(|s| self.sets.number(s).is_some()).flat_map(|s| self.set_entries(s));
        peers.chain(sets).collect()
    }

    fn peer_entries(&self, peer: IpAddr) -> Entries {
        let Some(number) = self.peers.number(&peer) else { return Entries::new() };
        let link = &self.config.underlay;
        let key = |table| Key { table, fields: vec![Field::Exact(number.into())], priority: None };
        // IP and UDP, GTP-U with its optional part, and the container.
        let (overhead, name, source, sums) = match peer {
            IpAddr::V4(_) => (
                20 + 8 + 16,
                "encapsulate_v4",
                self.config.v4().map(|(_, a)| u128::from(u32::from(a))),
                link.sums,
            ),
            IpAddr::V6(_) => {
                (40 + 8 + 16, "encapsulate_v6", self.config.v6().map(|(_, a)| u128::from(a)), true)
            }
        };
        let destination = match peer {
            IpAddr::V4(a) => u128::from(u32::from(a)),
            IpAddr::V6(a) => u128::from(a),
        };
        let via =
            Action { name: "via", data: vec![link.port.into(), link.mtu.saturating_sub(overhead).into()] };
        let data = vec![
            link.mac.into(),
            link.next_hop.into(),
            link.vid.into(),
            source.unwrap_or_default(),
            destination,
            64,
            49152,
            16383,
            sums.into(),
        ];
        Entries::from([(key(Table::Peers), via), (key(Table::Encapsulations), Action { name, data })])
    }

    fn set_entries(&self, set: &Set) -> Entries {
        let mut entries = Entries::new();
        let Some(number) = self.sets.number(set) else { return entries };
        let every = [(0, u16::MAX)];
        for (order, (place, filters, qfis)) in set.iter().enumerate() {
            let any = [Filter { flow: None, tos: None }];
            let filters = if filters.is_empty() { &any[..] } else { filters };
            let qfis: Vec<(u128, u128)> = if qfis.is_empty() {
                vec![(0, 0)]
            } else {
                qfis.iter().map(|q| (u128::from(*q), 0x3f)).collect()
            };
            for filter in filters {
                let flow = filter.flow.clone().unwrap_or(NO_FLOW);
                let remote_ports = if flow.remote_ports.is_empty() { &every[..] } else { &flow.remote_ports };
                let user_ports = if flow.user_ports.is_empty() { &every[..] } else { &flow.user_ports };
                let (tos, tos_mask) = filter.tos.unwrap_or_default();
                for table in [Table::FiltersV4, Table::FiltersV6] {
                    let remote = match (table, flow.remote) {
                        (_, None) => Field::Ternary(0, 0),
                        (Table::FiltersV4, Some((IpAddr::V4(a), length))) => {
                            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                            Field::Ternary((u32::from(a) & mask).into(), mask.into())
                        }
                        (Table::FiltersV6, Some((IpAddr::V6(a), length))) => {
                            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                            Field::Ternary(u128::from(a) & mask, mask)
                        }
                        _ => continue,
                    };
                    let protocol =
                        flow.protocol.map_or(Field::Ternary(0, 0), |p| Field::Ternary(p.into(), 0xff));
                    for (low, high) in remote_ports {
                        for (user_low, user_high) in user_ports {
                            for (qfi, qfi_mask) in &qfis {
                                let fields = vec![
                                    Field::Exact(number.into()),
                                    remote,
                                    protocol,
                                    Field::Range(*low, *high),
                                    Field::Range(*user_low, *user_high),
                                    Field::Ternary((tos & tos_mask).into(), tos_mask.into()),
                                    Field::Ternary(*qfi, *qfi_mask),
                                ];
                                let priority = Some(order as u32 + 1);
                                let action = Action { name: "position", data: vec![(*place).into()] };
                                entries.insert(Key { table, fields, priority }, action);
                            }
                        }
                    }
                }
            }
        }
        entries
    }

    /// The entries of a session alone.
    fn entries_of(&self, session: &Session) -> Result<Entries, Refusal> {
        let mut entries = Entries::new();
        let base = session.number << 8;
        for (point, pdrs) in self.by_point(session)? {
            let set = Self::set_of(session, &pdrs);
            let filters = set.as_ref().and_then(|s| self.sets.number(s)).unwrap_or(0);
            let rule = match set {
                None => base | u32::from(session.places[&pdrs[0].id]),
                Some(_) => base,
            };
            let (key, name, mut data) = match point {
                Point::Teid(endpoint, teid) => {
                    let fields = vec![Field::Exact(endpoint.into()), Field::Exact(teid.into())];
                    let is_uplink = pdrs.iter().all(|p| p.source == Interface::Access && !p.is_destination);
                    let name = if is_uplink { "tunnel" } else { "tunnel_to_ue" };
                    (Key { table: Table::Teids, fields, priority: None }, name, vec![0; 4])
                }
                Point::V4(network, address) => {
                    let fields = vec![Field::Exact(network.into()), Field::Exact(address.into())];
                    (Key { table: Table::UesV4, fields, priority: None }, "ue", vec![0; 3])
                }
                Point::V6(network, prefix) => {
                    let fields = vec![Field::Exact(network.into()), Field::Exact(prefix.into())];
                    (Key { table: Table::UesV6, fields, priority: None }, "ue", vec![0; 3])
                }
            };
            data[0] = session.number.into();
            data[1] = rule.into();
            data[2] = filters.into();
            if name == "tunnel" {
                let checks = pdrs.iter().all(|p| p.v4.is_some() || p.v6.is_some());
                let v4 = pdrs.iter().find_map(|p| p.v4).map_or(0, u32::from);
                let v6 = pdrs.iter().find_map(|p| p.v6).unwrap_or(0);
                data.extend::<[u128; 3]>([checks.into(), v4.into(), v6.into()]);
            }
            entries.insert(key, Action { name, data });
        }
        for pdr in session.pdrs.values() {
            let rule = base | u32::from(session.places[&pdr.id]);
            self.rule_entries(session, pdr, rule, &mut entries)?;
        }
        Ok(entries)
    }

    fn rule_entries(
        &self,
        session: &Session,
        pdr: &Pdr,
        rule: u32,
        entries: &mut Entries,
    ) -> Result<(), Refusal> {
        let id = u32::from(pdr.id);
        let far = pdr.far.ok_or_else(|| Refusal::rule(0, id, "a PDR without FAR"))?;
        let far =
            session.fars.get(&far).ok_or_else(|| Refusal::rule(0, id, format!("there is no FAR {far}")))?;
        let is_up = pdr.source == Interface::Access;
        let mut qers = Vec::new();
        for qer in &pdr.qers {
            qers.push(
                session
                    .qers
                    .get(qer)
                    .ok_or_else(|| Refusal::rule(0, id, format!("there is no QER {qer}")))?,
            );
        }
        let qfi = qers.iter().find_map(|q| q.qfi);
        let rqi = qers.iter().any(|q| q.rqi);
        let way = usize::from(!is_up);
        let mut meters = [0; 2];
        let mut place = 0;
        for qer in &qers {
            if let Some(cell) = session.rates.get(&qer.id) {
                *meters
                    .get_mut(place)
                    .ok_or_else(|| Refusal::rule(0, id, "more than two QERs with rates"))? =
                    2 * cell + way as u32;
                place += 1;
            }
        }
        let mut counts = [(0, 0); 2];
        place = 0;
        for urr in &pdr.urrs {
            let urr = session
                .urrs
                .get(urr)
                .ok_or_else(|| Refusal::rule(0, id, format!("there is no URR {urr}")))?;
            if let Some(cell) = session.usage.get(&urr.id) {
                let has_credit = credit_of(urr).is_some_and(|(_, ways)| ways[way]);
                *counts.get_mut(place).ok_or_else(|| Refusal::rule(0, id, "more than two URRs"))? =
                    (2 * cell + way as u32, if has_credit { *cell } else { 0 });
                place += 1;
            }
        }
        let mut copies = (0, 0);
        if far.action & Far::DUPLICATE != 0 {
            let to = far.duplicate.as_ref().and_then(|p| p.tunnel.map(|t| (p, t)));
            let (parameters, tunnel) =
                to.ok_or_else(|| Refusal::rule(1, far.id, "copies need a tunnel (Outer Header Creation)"))?;
            let (tos, mask) = parameters.marking.unwrap_or_default();
            let data = vec![
                self.peer_number(tunnel, far.id)?,
                tunnel.teid.into(),
                qfi.is_some().into(),
                qfi.unwrap_or(0).into(),
                tos.into(),
                mask.into(),
            ];
            let fields = vec![Field::Exact(rule.into()), Field::Exact(0)];
            entries.insert(
                Key { table: Table::Copies, fields, priority: None },
                Action { name: "copy_to_tunnel", data },
            );
            copies = (self.config.underlay.copies, rule);
        }
        let common = [
            meters[0].into(),
            meters[1].into(),
            0,
            counts[0].0.into(),
            counts[0].1.into(),
            counts[1].0.into(),
            counts[1].1.into(),
            copies.0.into(),
            copies.1.into(),
        ];
        let bar = if far.action & Far::NOTIFY != 0 { session.number } else { 0 };
        let qfi_data = u128::from(qfi.unwrap_or(0));
        let mut insert = |rule: u32, action| {
            entries.insert(
                Key { table: Table::Rules, fields: vec![Field::Exact(rule.into())], priority: None },
                action,
            );
        };
        let simple = |name| Action { name, data: Vec::new() };
        if qers.iter().any(|q| if is_up { q.closed.0 } else { q.closed.1 }) {
            insert(rule, simple("gate_closed"));
        } else if far.action & Far::DROP != 0 && bar != 0 {
            insert(rule, Action { name: "drop_and_notify", data: vec![bar.into(), qfi_data] });
        } else if far.action & Far::DROP != 0 {
            insert(rule, simple("drop_packet"));
        } else if far.action & Far::BUFFER != 0 {
            let released = rule | RELEASED;
            insert(rule, Action { name: "buffer", data: vec![released.into(), bar.into(), qfi_data] });
            // What it will be when the UE is reachable again, if that is known.
            let forward = far.forward.as_ref().filter(|p| p.destination.is_some());
            let action = match forward {
                Some(parameters) => self.forward(far, parameters, qfi, rqi, &common)?,
                None => simple("drop_packet"),
            };
            insert(released, action);
        } else {
            let parameters = far.forward.as_ref();
            let parameters =
                parameters.ok_or_else(|| Refusal::rule(1, far.id, "no forwarding parameters"))?;
            let action = self.forward(far, parameters, qfi, rqi, &common)?;
            insert(rule | RELEASED, action.clone());
            insert(rule, action);
        }
        Ok(())
    }

    fn peer_number(&self, tunnel: Tunnel, far: u32) -> Result<u128, Refusal> {
        let has_source = match tunnel.peer {
            IpAddr::V4(_) => self.config.v4().is_some(),
            IpAddr::V6(_) => self.config.v6().is_some(),
        };
        let number = self.peers.number(&tunnel.peer).filter(|_| has_source);
        number
            .map(u128::from)
            .ok_or_else(|| Refusal::rule(1, far, format!("no own address for a tunnel to {}", tunnel.peer)))
    }

    fn forward(
        &self,
        far: &Far,
        to: &Parameters,
        qfi: Option<u8>,
        rqi: bool,
        common: &[u128],
    ) -> Result<Action, Refusal> {
        if let Some(tunnel) = to.tunnel {
            let (tos, mask) = to.marking.unwrap_or_default();
            let data = [
                self.peer_number(tunnel, far.id)?,
                tunnel.teid.into(),
                qfi.is_some().into(),
                qfi.unwrap_or(0).into(),
                rqi.into(),
                tos.into(),
                mask.into(),
            ];
            return Ok(Action { name: "to_tunnel", data: [&data[..], common].concat() });
        }
        match to.destination {
            Some(Interface::Core | Interface::Services) => {
                let network = self.config.network(to.network.as_deref());
                let network = network.ok_or_else(|| Refusal::rule(1, far.id, "unknown network instance"))?;
                Ok(Action { name: "to_network", data: [&[network.next_hop.into()][..], common].concat() })
            }
            Some(Interface::Control) => Ok(Action { name: "to_controller", data: Vec::new() }),
            _ => Err(Refusal::rule(1, far.id, "no tunnel to the access network")),
        }
    }

    /// Rates and credits that are new.
    fn cells(&self, old: Option<&Session>, session: &Session) -> Vec<Change> {
        let mut changes = Vec::new();
        for (id, cell) in &session.rates {
            let qer = &session.qers[id];
            let before = old.and_then(|o| o.qers.get(id).filter(|_| o.rates.get(id) == Some(cell)));
            if before.is_some_and(|b| (b.mbr, b.gbr) == (qer.mbr, qer.gbr)) {
                continue;
            }
            for (way, pick) in [(0, (|r: (u64, u64)| r.0) as fn((u64, u64)) -> u64), (1, |r| r.1)] {
                // kbit/s.
                let mbr = qer.mbr.map(pick).map(|k| k.saturating_mul(125));
                let gbr = qer.gbr.map(pick).map(|k| k.saturating_mul(125));
                let rate = |bytes: u64| (bytes, (bytes / BURSTS_PER_SECOND).max(BURST_MIN));
                let peak = mbr.or(gbr).unwrap_or_default();
                changes.push(Change::Rate {
                    cell: 2 * cell + way,
                    committed: rate(gbr.unwrap_or(peak).min(peak)),
                    peak: rate(peak),
                });
            }
        }
        for (id, cell) in &session.usage {
            let urr = &session.urrs[id];
            let before = old.and_then(|o| o.urrs.get(id).filter(|_| o.usage.get(id) == Some(cell)));
            if before.is_none() {
                for way in 0..2 {
                    changes.push(Change::Register { name: "usage", cell: 2 * cell + way, value: 0 });
                }
            }
            if before.is_none_or(|b| credit_of(b) != credit_of(urr)) {
                let value = credit_of(urr).map_or(0, |(bytes, _)| bytes);
                changes.push(Change::Register { name: "credit", cell: *cell, value });
            }
        }
        changes
    }
}

/// The bytes until a report, and in which directions they count. Of several thresholds the total one is taken.
pub fn credit_of(urr: &Urr) -> Option<(u64, [bool; 2])> {
    let ways = [[true, true], [true, false], [false, true]];
    let found = urr.threshold.iter().zip(ways).find_map(|(bytes, ways)| bytes.map(|b| (b.max(1), ways)));
    found.filter(|_| urr.volume && urr.at_threshold)
}

const NO_FLOW: Flow =
    Flow { protocol: None, remote: None, user: None, remote_ports: Vec::new(), user_ports: Vec::new() };

fn takes_all(filter: &Filter) -> bool {
    filter.tos.is_none_or(|(_, mask)| mask == 0) && filter.flow.as_ref().is_none_or(|flow| *flow == NO_FLOW)
}

/// Whether a filter can match this UE: the UE's address in it is this UE's.
fn is_for(filter: &Filter, pdr: &Pdr) -> bool {
    match filter.flow.as_ref().and_then(|f| f.user) {
        None => true,
        Some((IpAddr::V4(a), length)) => pdr.v4.is_none_or(|v4| {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            u32::from(a) & mask == u32::from(v4) & mask
        }),
        Some((IpAddr::V6(a), length)) => pdr.v6.is_none_or(|v6| {
            let mask = u64::MAX.checked_shl(64_u32.saturating_sub(length.into())).unwrap_or(0);
            (u128::from(a) >> 64) as u64 & mask == v6 & mask
        }),
    }
}

fn set_size(set: &Set) -> usize {
    let one = |filters: &Vec<Filter>, qfis: &Vec<u8>| {
        let combinations = |f: &Filter| {
            let flow = f.flow.as_ref();
            flow.map_or(1, |f| f.remote_ports.len().max(1) * f.user_ports.len().max(1))
        };
        filters.iter().map(combinations).sum::<usize>().max(1) * qfis.len().max(1)
    };
    set.iter().map(|(_, filters, qfis)| one(filters, qfis)).sum()
}
