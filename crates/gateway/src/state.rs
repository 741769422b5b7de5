//! The state of a switch, as far as the gateway sets it.

use crate::schema::{CRC_CUSTOM, CRC32C, Call, Field, Key, Objects, POOLS, PROFILE, Shape, Table, last};
use p4jet_control::record::{Groups, Record};
use p4jet_control::{Act, ControlError, KeyMatch, NamedSelector, Ref, TableId};
use p4jet_text::client::Client;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

/// Everything that the gateway sets, without the switch's handles. The intended and the actual state have the same
/// form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Entries.
    pub entries: BTreeMap<(Table, Key), Call>,
    /// The actions of the slots of pools.
    pub pools: BTreeMap<u16, Vec<Call>>,
    /// Flood groups: replication ids and the ports to which their copies go.
    pub floods: BTreeMap<u16, BTreeSet<(u16, u16)>>,
    /// The gateway's own addresses as ends of tunnels.
    pub own_vteps: BTreeSet<OwnVtep>,
    /// True if the custom CRC is CRC-32C.
    pub crc32c: bool,
}

/// An address in a value set of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnVtep {
    /// IPv4.
    V4(u32),
    /// IPv6.
    V6(u128),
}

/// The actual state of a switch, with its handles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actual {
    /// The part that the gateway could have set.
    pub state: State,
    /// Handles of the entries.
    pub handles: HashMap<(Table, Key), u32>,
    /// For each pool, the handle of its entry, that of its group, and those of its members by slot.
    pub pools: BTreeMap<u16, PoolHandles>,
    /// Handles of the nodes of flood groups: by group, replication id and port.
    pub nodes: BTreeMap<(u16, u16, u16), u32>,
    /// Anything that the gateway would not set.
    pub strays: Strays,
}

/// Handles of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolHandles {
    /// Handle of the entry.
    pub entry: u32,
    /// Handle of the group.
    pub group: u32,
    /// Handles of the members, by slot.
    pub members: Vec<u32>,
}

/// Anything that the gateway would not set and therefore removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Pools by number, with their entries: those that name a member, or share a group with another pool.
    pub pools: BTreeMap<u16, u32>,
    /// Groups, with their members.
    pub groups: BTreeMap<u32, Vec<u32>>,
    /// Members.
    pub members: BTreeSet<u32>,
    /// Multicast nodes, with the group of each.
    pub nodes: BTreeMap<u32, Option<u16>>,
    /// Tables whose default action is not the program's.
    pub defaults: BTreeSet<TableId>,
}

fn table_named(name: &str) -> Option<Table> {
    Table::ALL.into_iter().find(|table| table.name() == last(name))
}

impl Actual {
    /// Reads the output of `dump`. The error says why it is not that of a gateway.
    pub fn from_dump(objects: &Objects, text: &str) -> Result<Actual, String> {
        let mut reading = Reading::new(objects);
        for (line, at) in text.lines().zip(1..) {
            let record =
                Record::parse(line).map_err(|e| format!("line {at} is not a record of a dump: {e}"))?;
            let read = reading.record(record);
            // Records of another program come after those of its tables.
            read.map_err(|why| reading.check_tables().err().unwrap_or_else(|| format!("line {at}: {why}")))?;
        }
        reading.finish()
    }

    /// Reads the state of a running switch. The inner error says why it is not a gateway.
    pub fn read(objects: &Objects, client: &mut Client) -> io::Result<Result<Actual, String>> {
        let mut reading = Reading::new(objects);
        Ok(match reading.read(client)? {
            Ok(()) => reading.finish(),
            Err(why) => Err(why),
        })
    }
}

struct Reading<'o> {
    objects: &'o Objects,
    program: String,
    tables: BTreeMap<Table, Shape>,
    found: Actual,
    /// Members by handle.
    members: BTreeMap<u32, Call>,
    groups: BTreeMap<u32, Vec<u32>>,
    /// Entries of pools: pool, entry, group.
    pool_entries: Vec<(u16, u32, Option<u32>)>,
    crcs: usize,
}

impl Reading<'_> {
    fn new(objects: &Objects) -> Reading<'_> {
        Reading {
            objects,
            program: String::new(),
            tables: BTreeMap::new(),
            found: Actual::default(),
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            pool_entries: Vec::new(),
            crcs: 0,
        }
    }

    /// Reads all that the gateway could have set.
    fn read(&mut self, client: &mut Client) -> io::Result<Result<(), String>> {
        let wrong = |error: ControlError| Ok(Err(error.message));
        let schema = match client.schema()? {
            Ok(schema) => schema,
            Err(error) => return wrong(error),
        };
        self.program.clone_from(&schema.program);
        for table in Table::ALL {
            if let Some(info) = schema.table(table.name()) {
                self.tables.insert(table, info.into());
            }
        }
        if let Err(why) = self.check_tables() {
            return Ok(Err(why));
        }
        let names = Table::ALL.map(Table::name).into_iter().chain([POOLS]).map(str::to_string);
        let mut selectors = vec![
            NamedSelector::Members { profile: PROFILE.to_string() },
            NamedSelector::Groups { profile: PROFILE.to_string() },
        ];
        for table in names {
            selectors.push(NamedSelector::Default { table: table.clone() });
            selectors.push(NamedSelector::Entries { table });
        }
        selectors
            .extend(schema.value_sets.iter().map(|set| NamedSelector::ValueSet { set: set.name.clone() }));
        selectors.extend([
            NamedSelector::Crcs {},
            NamedSelector::MulticastGroups {},
            NamedSelector::Nodes {},
        ]);
        let mut multicast: Option<Groups> = None;
        for selector in selectors {
            let records = match client.read_all(&selector)? {
                Ok(records) => records,
                Err(error) => return wrong(error),
            };
            for record in records {
                let read = match record {
                    // The groups and the nodes make sense together.
                    Record::Multicast(some) => {
                        let all = multicast.get_or_insert_default();
                        all.groups.extend(some.groups);
                        all.nodes.extend(some.nodes);
                        Ok(())
                    }
                    // It is the program's own.
                    Record::Default(default)
                        if schema
                            .table(&default.table)
                            .is_some_and(|table| table.default == default.r#do) =>
                    {
                        Ok(())
                    }
                    record => self.record(record),
                };
                if let Err(why) = read {
                    return Ok(Err(why));
                }
            }
        }
        Ok(multicast.map_or(Ok(()), |multicast| self.record(Record::Multicast(multicast))))
    }

    /// Checks that the switch runs the gateway's program.
    fn check_tables(&self) -> Result<(), String> {
        for table in Table::ALL {
            self.objects.check(table, self.tables.get(&table)).map_err(|why| {
                format!("the switch runs `{}`, which {why}: expected programs/vxlan_gateway", self.program)
            })?;
        }
        Ok(())
    }

    fn record(&mut self, record: Record) -> Result<(), String> {
        let strange = |kind: &str| format!("a record `{kind}` that this version of p4jet does not support");
        match record {
            Record::State(header) => self.program = header.program,
            Record::Table(shape) => {
                if let Some(table) = table_named(&shape.name) {
                    self.tables.insert(table, Shape::new(&shape.key, &shape.actions));
                }
            }
            Record::Member(member) if last(&member.profile) == PROFILE => {
                let call = self.call(self.objects.pools, &member.r#do);
                self.members.insert(member.handle, call.ok_or_else(|| strange("member"))?);
            }
            Record::Group(group) if last(&group.profile) == PROFILE => {
                self.groups.insert(group.handle, group.members);
            }
            Record::Entry(entry) => {
                let strange = || strange("entry");
                if last(&entry.table) == POOLS {
                    let key = self.key(self.objects.pools, &entry.key).ok_or_else(strange)?;
                    let pool = key.first().and_then(|field| u16::try_from(field.value).ok());
                    let group = match self.objects.schema().act(self.objects.pools, &entry.r#do) {
                        Ok(Act::Group(Ref::Handle(group))) => Some(group),
                        _ => None,
                    };
                    self.pool_entries.push((pool.ok_or_else(strange)?, entry.handle, group));
                } else if let Some(table) = table_named(&entry.table) {
                    let id = self.objects.id(table);
                    let (key, call) = (self.key(id, &entry.key), self.call(id, &entry.r#do));
                    let place = (table, key.ok_or_else(strange)?);
                    self.found.handles.insert(place.clone(), entry.handle);
                    self.found.state.entries.insert(place, call.ok_or_else(strange)?);
                }
            }
            Record::Default(default) => {
                let name = last(&default.table);
                let id = table_named(name).map(|table| self.objects.id(table));
                let id = id.or_else(|| (name == POOLS).then_some(self.objects.pools));
                self.found.strays.defaults.extend(id);
            }
            Record::ValueSet(set) => {
                let four = last(&set.name) == "own_vteps_v4";
                let id = if four { self.objects.own_vteps_v4 } else { self.objects.own_vteps_v6 };
                for value in &set.values {
                    let key = self.key(id, value).ok_or_else(|| strange("value_set"))?;
                    let value = key.first().map_or(0, |field| field.value);
                    let own = if four { OwnVtep::V4(value as u32) } else { OwnVtep::V6(value) };
                    self.found.state.own_vteps.insert(own);
                }
            }
            Record::Crc(crc) if CRC_CUSTOM.contains(&crc.name.as_str()) => {
                let params = [crc.polynomial, crc.initial, crc.xor];
                self.crcs += usize::from(params == CRC32C && crc.reflect_in && crc.reflect_out);
            }
            Record::Multicast(groups) => self.multicast(groups).ok_or_else(|| strange("multicast"))?,
            Record::Did(_) => {
                return Err(
                    "unexpected changes after the end of the dump: expected the output of `p4jet ctl dump`"
                        .into(),
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// The key of an entry, if it fits the table.
    fn key(&self, table: TableId, words: &[String]) -> Option<Key> {
        let key: Vec<KeyMatch> = self.objects.schema().matches(table, words).ok()?;
        key.iter().map(Field::of).collect()
    }

    /// The call of an entry or a member, if it is an action of the table.
    fn call(&self, table: TableId, call: &p4jet_control::Call) -> Option<Call> {
        match self.objects.schema().act(table, call).ok()? {
            Act::Action(action) => self.objects.call(table, &action),
            Act::Member(_) | Act::Group(_) => None,
        }
    }

    fn multicast(&mut self, multicast: Groups) -> Option<()> {
        let mut of = HashMap::new();
        for (group, nodes) in multicast.groups {
            let group = u16::try_from(group).ok()?;
            self.found.state.floods.entry(group).or_default();
            of.extend(nodes.into_iter().map(|node| (node, group)));
        }
        for (handle, node) in multicast.nodes {
            let group = of.get(&handle).copied();
            let rid = u16::try_from(node.rid).ok();
            let mut ports = node.ports.iter();
            let port = match (ports.next(), ports.next(), node.lags.is_empty()) {
                (Some(port), None, true) => u16::try_from(*port).ok(),
                _ => None,
            };
            match (group, rid, port) {
                (Some(group), Some(rid), Some(port))
                    if !self.found.nodes.contains_key(&(group, rid, port)) =>
                {
                    self.found.nodes.insert((group, rid, port), handle);
                    self.found.state.floods.entry(group).or_default().insert((rid, port));
                }
                _ => {
                    self.found.strays.nodes.insert(handle, group);
                }
            }
        }
        Some(())
    }

    fn finish(self) -> Result<Actual, String> {
        self.check_tables()?;
        let Reading { mut found, members, mut groups, pool_entries, crcs, .. } = self;
        found.state.crc32c = crcs == CRC_CUSTOM.len();
        // A member of several groups does not belong to a slot.
        let mut uses: HashMap<u32, u32> = HashMap::new();
        groups.values().flatten().for_each(|member| *uses.entry(*member).or_default() += 1);
        let mut stray_members: BTreeSet<u32> = members.keys().copied().collect();
        for (pool, entry, group) in pool_entries {
            let own = |group: &u32| groups[group].iter().all(|member| uses.get(member) == Some(&1));
            match group.filter(|group| groups.contains_key(group)).filter(own) {
                Some(group) => {
                    let slots = groups.remove(&group).unwrap_or_default();
                    let calls = slots.iter().filter_map(|member| members.get(member).cloned()).collect();
                    for member in &slots {
                        stray_members.remove(member);
                    }
                    found.state.pools.insert(pool, calls);
                    found.pools.insert(pool, PoolHandles { entry, group, members: slots });
                }
                None => {
                    found.strays.pools.insert(pool, entry);
                }
            }
        }
        found.strays.groups = groups;
        found.strays.members = stray_members;
        Ok(found)
    }
}
