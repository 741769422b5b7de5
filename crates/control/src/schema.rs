//! The control interface of a program: its objects by name, the shape of its tables, and the legal changes.

use crate::describe::{
    ActionInfo, CrcInfo, Description, TableInfo, describe_instances, instances, table_info,
};
use crate::error::{ControlError, INVALID_INDEX, Subject};
use crate::fields::KeyField;
use crate::names::NameIndex;
use crate::notes::{NOTE_BYTES_MAX, Noted};
use crate::update::{Act, Cell, CloneDestination, Update};
use p4jet_dataplane::QUEUES_MAX;
use p4jet_externs::{Rates, Replica};
use p4jet_ir::{
    Function, Instance, InstanceId, InstanceKind, MatchKind, Op, Program, Table, TableAction, TableId,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The largest priority of an entry: bmv2's is a signed 32-bit number.
pub const PRIORITY_MAX: u32 = i32::MAX as u32;
/// The largest port, group and replication id of multicast: 16 bits, as in bmv2.
pub const MULTICAST_MAX: u32 = u16::MAX as u32;
/// The largest clone session, as in bmv2.
pub const SESSION_MAX: u32 = 32_767;
/// The highest class of service of a clone session: the highest priority of a port's queues.
pub const CLASS_MAX: u32 = QUEUES_MAX as u32 - 1;
/// Maximum number of copies that an update gives to a multicast group or clone session.
pub const REPLICAS_MAX: usize = 1 << 16;
/// The largest length to which a clone session cuts copies: no frame has more bytes.
pub const SESSION_BYTES_MAX: u32 = 65_535;

/// The objects of a program. A name is a full name in the program, or an unambiguous dotted suffix of one.
pub struct Schema {
    tables: NameIndex,
    actions: NameIndex,
    counters: NameIndex,
    registers: NameIndex,
    meters: NameIndex,
    profiles: NameIndex,
    value_sets: NameIndex,
    crcs: NameIndex,
    /// The width of each custom CRC: 16 or 32.
    crc_widths: Vec<u32>,
    /// The properties of each table.
    shapes: Vec<Shape>,
    /// For each action profile, a table that uses it.
    profile_tables: BTreeMap<InstanceId, TableId>,
    /// All objects with their shapes. Value sets are not among the tables.
    description: Description,
    /// The place of each table in the description.
    places: Vec<Place>,
    /// The counters, meters, registers, action profiles and digests, by id.
    instances: Vec<Instance>,
    /// The registers that packets both read and write.
    updated_registers: BTreeSet<InstanceId>,
}

/// The place of a table in a [`Description`].
#[derive(Clone, Copy)]
enum Place {
    Table(usize),
    ValueSet(usize),
}

/// The kind of object that a name denotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Tables.
    Table,
    /// Actions, by their ids; of those with the same name, the first.
    Action,
    /// The actions of a table, by their indices in its list.
    ActionOf(TableId),
    /// Counters, including direct ones.
    Counter,
    /// Registers.
    Register,
    /// Meters, including direct ones.
    Meter,
    /// Action profiles and action selectors.
    Profile,
    /// Parser value sets, which are tables without actions.
    ValueSet,
    /// Custom CRCs, by their numbers in the schema.
    Crc,
}

/// Properties of a table that changes need besides its declaration.
pub struct Shape {
    /// Its actions, as indices in its list.
    actions: NameIndex,
    /// True if entries have a priority: some key field is ternary, range or optional.
    pub needs_priority: bool,
    /// The kind of the table in bmv2's words.
    pub match_kind: &'static str,
    /// Its direct counters.
    pub direct_counters: Vec<InstanceId>,
    /// Its direct meters.
    pub direct_meters: Vec<InstanceId>,
}

/// The cells of a counter or meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// An array with this number of cells.
    Array(u32),
    /// One for each entry of the table, and one for packets that match no entry.
    Direct(TableId),
}

/// The cells of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterCells {
    /// The width of each in bits.
    pub width: u32,
    /// Their number.
    pub size: u32,
}

impl Schema {
    /// The schema of a program.
    pub fn new(program: &Program) -> Schema {
        let named = |hidden: bool| {
            let of_kind = tables(program).filter(move |(_, table)| table.hidden == hidden);
            of_kind.map(|(id, table)| (table.name.clone(), id.0))
        };
        // The first of those that share a name represents all of them; names such as `$member` are the compiler's.
        let mut actions = BTreeMap::new();
        for (a, i) in program.actions.iter().zip(0..).filter(|(a, _)| !a.control_name.starts_with('$')) {
            actions.entry(a.control_name.clone()).or_insert(i);
        }
        let of_kind = |wanted: fn(&InstanceKind) -> bool| {
            let all = instances(program).filter(move |(_, instance)| wanted(&instance.kind));
            all.map(|(id, instance)| (instance.name.clone(), id.0))
        };
        let is_register = |k: &InstanceKind| matches!(k, InstanceKind::Register { .. });
        let is_counter =
            |k: &InstanceKind| matches!(k, InstanceKind::Counter { .. } | InstanceKind::DirectCounter { .. });
        let is_meter =
            |k: &InstanceKind| matches!(k, InstanceKind::Meter { .. } | InstanceKind::DirectMeter { .. });
        let is_profile = |k: &InstanceKind| matches!(k, InstanceKind::ActionProfile { .. });
        let crcs = custom_crcs(program);
        let mut profile_tables = BTreeMap::new();
        for (id, table) in tables(program) {
            if let Some(profile) = table.profile {
                profile_tables.entry(profile).or_insert(id);
            }
        }
        let mut description = Description { program: program.name.clone(), ..Description::default() };
        let mut places = Vec::with_capacity(program.tables.len());
        for (id, table) in tables(program) {
            let info = table_info(program, id, needs_priority(table));
            if table.hidden {
                places.push(Place::ValueSet(description.value_sets.len()));
                description.value_sets.push(info);
            } else {
                places.push(Place::Table(description.tables.len()));
                description.tables.push(info);
            }
        }
        describe_instances(program, &mut description);
        let crc = |(name, width): (&String, &u32)| CrcInfo { name: name.clone(), width: *width };
        description.crcs = crcs.iter().map(crc).collect();
        Schema {
            profile_tables,
            description,
            places,
            instances: program.instances.clone(),
            updated_registers: program.updated_registers(),
            tables: NameIndex::new("table", named(false)),
            actions: NameIndex::new("action", actions),
            counters: NameIndex::new("counter", of_kind(is_counter)),
            registers: NameIndex::new("register", of_kind(is_register)),
            meters: NameIndex::new("meter", of_kind(is_meter)),
            profiles: NameIndex::new("action profile", of_kind(is_profile)),
            value_sets: NameIndex::new("parser value set", named(true)),
            crc_widths: crcs.values().copied().collect(),
            crcs: NameIndex::new("custom CRC", crcs.into_keys().zip(0..)),
            shapes: tables(program).map(|(id, table)| shape(program, id, table)).collect(),
        }
    }

    /// The names of all objects of a kind.
    pub fn names(&self, kind: ObjectKind) -> &NameIndex {
        match kind {
            ObjectKind::Table => &self.tables,
            ObjectKind::Action => &self.actions,
            ObjectKind::ActionOf(table) => &self.shapes[table.index()].actions,
            ObjectKind::Counter => &self.counters,
            ObjectKind::Register => &self.registers,
            ObjectKind::Meter => &self.meters,
            ObjectKind::Profile => &self.profiles,
            ObjectKind::ValueSet => &self.value_sets,
            ObjectKind::Crc => &self.crcs,
        }
    }

    /// The table of this name.
    ///
    /// # Errors
    ///
    /// The program has no such table, or the name is ambiguous: the code is `UNKNOWN_NAME`.
    pub fn table(&self, name: &str) -> Result<TableId> {
        Ok(TableId(self.tables.find(name)?))
    }

    /// The index of an action in a table's list.
    ///
    /// # Errors
    ///
    /// There is no such table, or it has no such action, or the name is ambiguous: the code is `UNKNOWN_NAME` for a name.
    pub fn action(&self, table: TableId, name: &str) -> Result<u32> {
        let shape = self.shapes.get(table.index()).ok_or_else(|| self.tables.no_such())?;
        let found = shape.actions.find(name);
        found.map_err(|error| ControlError::from(error).entity(self.table_name(table)))
    }

    /// The counter of this name, direct or not.
    ///
    /// # Errors
    ///
    /// The program has no such counter, or the name is ambiguous: the code is `UNKNOWN_NAME`.
    pub fn counter(&self, name: &str) -> Result<InstanceId> {
        Ok(InstanceId(self.counters.find(name)?))
    }

    /// The register of this name.
    ///
    /// # Errors
    ///
    /// The program has no such register, or the name is ambiguous: the code is `UNKNOWN_NAME`.
    pub fn register(&self, name: &str) -> Result<InstanceId> {
        Ok(InstanceId(self.registers.find(name)?))
    }

    /// The meter of this name, direct or not.
    ///
    /// # Errors
    ///
    /// The program has no such meter, or the name is ambiguous: the code is `UNKNOWN_NAME`.
    pub fn meter(&self, name: &str) -> Result<InstanceId> {
        Ok(InstanceId(self.meters.find(name)?))
    }

    /// The action profile or action selector of this name.
    ///
    /// # Errors
    ///
    /// The program has no such action profile, or the name is ambiguous: the code is `UNKNOWN_NAME`.
    pub fn profile(&self, name: &str) -> Result<InstanceId> {
        Ok(InstanceId(self.profiles.find(name)?))
    }

    /// The parser value set of this name: a table of which only the key is used.
    ///
    /// # Errors
    ///
    /// The program has no such parser value set, or the name is ambiguous: the code is `UNKNOWN_NAME`.
    pub fn value_set(&self, name: &str) -> Result<TableId> {
        Ok(TableId(self.value_sets.find(name)?))
    }

    /// The number of the custom CRC of this name.
    ///
    /// # Errors
    ///
    /// The program has no such custom CRC, or the name is ambiguous: the code is `UNKNOWN_NAME`.
    pub fn crc(&self, name: &str) -> Result<u32> {
        Ok(self.crcs.find(name)?)
    }

    /// All objects of the program with their shapes: key fields, actions with their parameters, sizes, what is const. Constraints (`@entry_restriction`)
    /// are P4Runtime's: its server evaluates them.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// A table or parser value set with its key fields, actions and size; none if the program has no such table.
    pub fn table_info(&self, table: TableId) -> Option<&TableInfo> {
        match *self.places.get(table.index())? {
            Place::Table(place) => self.description.tables.get(place),
            Place::ValueSet(place) => self.description.value_sets.get(place),
        }
    }

    /// The full name of a table or parser value set, empty if the program has no such table.
    pub fn table_name(&self, table: TableId) -> &str {
        self.table_info(table).map_or("", |info| &info.name)
    }

    /// The full name of a counter, meter, register or action profile, empty if the program has none with this id.
    pub fn instance_name(&self, instance: InstanceId) -> &str {
        self.instances.get(instance.index()).map_or("", |instance| &instance.name)
    }

    /// The table of a direct counter or meter; none for anything else.
    pub fn direct_table(&self, instance: InstanceId) -> Option<TableId> {
        match self.instances.get(instance.index())?.kind {
            InstanceKind::DirectCounter { table, .. } | InstanceKind::DirectMeter { table, .. } => {
                Some(table)
            }
            _ => None,
        }
    }

    /// The cells of a counter.
    ///
    /// # Errors
    ///
    /// The program has no such counter.
    pub fn counter_cells(&self, counter: InstanceId) -> Result<Cells> {
        self.instance(counter, ObjectKind::Counter, |kind| match kind {
            InstanceKind::Counter { size, .. } => Some(Cells::Array(*size)),
            InstanceKind::DirectCounter { table, .. } => Some(Cells::Direct(*table)),
            _ => None,
        })
    }

    /// The cells of a meter.
    ///
    /// # Errors
    ///
    /// The program has no such meter.
    pub fn meter_cells(&self, meter: InstanceId) -> Result<Cells> {
        self.instance(meter, ObjectKind::Meter, |kind| match kind {
            InstanceKind::Meter { size, .. } => Some(Cells::Array(*size)),
            InstanceKind::DirectMeter { table, .. } => Some(Cells::Direct(*table)),
            _ => None,
        })
    }

    /// The maximum number of members of an action profile; none if it has no limit of its own.
    pub fn profile_size(&self, profile: InstanceId) -> Option<u32> {
        match self.instances.get(profile.index())?.kind {
            InstanceKind::ActionProfile { size, .. } => Some(size).filter(|size| *size > 0),
            _ => None,
        }
    }

    /// The number of cells that an update sets in a register that packets read and write; 0 for other updates. A packet overwrites
    /// such an update if that falls between its read and its write, unless packets are held meanwhile
    /// ([`SharedControl::between_packets`](crate::SharedControl::between_packets)). A reset of the whole state, and the undoing of a
    /// batch, do not hold packets.
    pub fn held_cells(&self, update: &Update) -> u64 {
        let (register, is_reset) = match update {
            Update::WriteRegister { register, .. } => (register, false),
            Update::ResetRegister(register) => (register, true),
            _ => return 0,
        };
        match self.updated_registers.contains(register) {
            false => 0,
            true if is_reset => self.register_cells(*register).map_or(1, |cells| cells.size.max(1).into()),
            true => 1,
        }
    }

    /// The cells of a register.
    ///
    /// # Errors
    ///
    /// The program has no such register.
    pub fn register_cells(&self, register: InstanceId) -> Result<RegisterCells> {
        self.instance(register, ObjectKind::Register, |kind| match kind {
            InstanceKind::Register { width, size, .. } => Some(RegisterCells { width: *width, size: *size }),
            _ => None,
        })
    }

    /// The fields of a table's key.
    pub fn key(&self, table: TableId) -> &[KeyField] {
        self.table_info(table).map_or(&[], |info| &info.key)
    }

    /// The actions of a table, in the order of their numbers.
    pub fn actions_of(&self, table: TableId) -> &[ActionInfo] {
        self.table_info(table).map_or(&[], |info| &info.actions)
    }

    /// The properties of a table.
    pub fn shape(&self, table: TableId) -> &Shape {
        &self.shapes[table.index()]
    }

    /// The width of a custom CRC, 16 or 32; none if the program has no such CRC.
    pub fn crc_width(&self, crc: u32) -> Option<u32> {
        self.crc_widths.get(crc as usize).copied()
    }

    /// A table that uses an action profile. Its list of actions is that of the members.
    ///
    /// # Errors
    ///
    /// The program has no such action profile, or no table uses it.
    pub fn profile_table(&self, profile: InstanceId) -> Result<TableId> {
        self.profile_tables.get(&profile).copied().ok_or_else(|| {
            let name = self.profiles.name(profile.0);
            if name.is_empty() {
                return self.profiles.no_such();
            }
            ControlError::new(format!("no table has the action profile `{name}`"))
                .entity(name)
                .field("action profile")
        })
    }

    /// Refuses updates that the program never allows. Tables check keys and action data themselves.
    ///
    /// # Errors
    ///
    /// The program does not allow the update; the error has the field that is wrong.
    pub fn check(&self, program: &Program, update: &Update) -> Result<()> {
        match update {
            Update::Insert { table: id, priority, act, .. } => {
                check_entries_open(self.visible(program, *id)?)?;
                self.check_priority(program, *id, *priority)?;
                self.check_entry_act(program, *id, act)
            }
            Update::Modify { table: id, act, .. } => {
                check_entries_open(self.visible(program, *id)?)?;
                self.check_entry_act(program, *id, act)
            }
            Update::Delete { table, .. } | Update::Clear(table) => {
                check_entries_open(self.visible(program, *table)?)
            }
            Update::SetDefault { table: id, act } => {
                let table = self.visible(program, *id)?;
                match act {
                    Act::Action(action) => {
                        check_direct(program, table)?;
                        check_default_action(program, table, action.action)
                    }
                    Act::Member(_) | Act::Group(_) => {
                        check_member_or_group(program, table, act)?;
                        match table.const_default {
                            true => Err(const_default(table, "DEFAULT_ENTRY_IS_CONST")),
                            false => Ok(()),
                        }
                    }
                }
            }
            Update::ResetDefault(table) => self.visible(program, *table).map(drop),
            Update::SetTimeout { table, .. } => check_timeouts(self.visible(program, *table)?),

            Update::CreateMember { profile, action } | Update::ModifyMember { profile, action, .. } => {
                self.profile_table(*profile)?;
                // Entries of every table that uses the profile may refer to the member.
                let mut tables = program.tables.iter().filter(|table| table.profile == Some(*profile));
                let checked = tables.try_for_each(|table| check_entry_action(program, table, action.action));
                let name = self.instance_name(*profile);
                checked.map_err(|error| ControlError { entity: Some(name.into()), ..error })
            }
            Update::DeleteMember { profile, .. } => self.profile_table(*profile).map(drop),
            Update::CreateGroup { profile }
            | Update::DeleteGroup { profile, .. }
            | Update::AddToGroup { profile, .. }
            | Update::RemoveFromGroup { profile, .. } => {
                self.profile_table(*profile)?;
                check_selector(program, *profile)
            }
            Update::SetGroup { profile, members, .. } => {
                self.profile_table(*profile)?;
                check_selector(program, *profile)?;
                let weight = members.iter().map(|share| u64::from(share.weight)).sum();
                check_places(weight).map_err(|error| error.entity(self.instance_name(*profile)))
            }

            Update::WriteCounter { counter, cell, .. } => {
                self.check_cell(Subject::Counter, *counter, self.counter_cells(*counter)?, cell)
            }
            Update::ResetCounter(counter) => self.counter_cells(*counter).map(drop),
            Update::WriteRegister { register, index, value } => {
                let RegisterCells { width, size } = self.register_cells(*register)?;
                self.check_index(Subject::Register, *register, Cells::Array(size), *index)?;
                if value.bits() > u64::from(width) {
                    let message = format!("found a value of {} bits, expected bit<{width}>", value.bits());
                    let name = self.instance_name(*register);
                    return Err(ControlError::new(message).entity(name).field("value"));
                }
                Ok(())
            }
            Update::ResetRegister(register) => self.register_cells(*register).map(drop),
            Update::SetMeter { meter, cell, rates } => {
                let cells = self.meter_cells(*meter)?;
                check_rates(rates.as_ref()).map_err(|error| error.entity(self.instance_name(*meter)))?;
                self.check_cell(Subject::Meter, *meter, cells, cell)
            }
            Update::SetMeterArray { meter, rates } => {
                self.meter_cells(*meter)?;
                check_rates(rates.as_ref()).map_err(|error| error.entity(self.instance_name(*meter)))
            }
            Update::SetCrc { crc, params } => {
                let width = self.crc_width(*crc).ok_or_else(|| self.crcs.no_such())?;
                let name = self.crcs.name(*crc);
                if params.width != width {
                    let message =
                        format!("found constants of {} bits, expected {width} for `{name}`", params.width);
                    return Err(ControlError::new(message).entity(name).field("width"));
                }
                let constants = [("polynomial", params.poly), ("initial", params.init), ("xor", params.xor)];
                match constants.into_iter().find(|(_, value)| value >> width != 0) {
                    Some((field, value)) => {
                        let message = format!(
                            "found {field} value {value:#x} of `{name}`, expected at most {width} bits"
                        );
                        Err(ControlError::new(message).entity(name).field(field))
                    }
                    None => Ok(()),
                }
            }

            Update::AddToValueSet { set, .. }
            | Update::RemoveFromValueSet { set, .. }
            | Update::ClearValueSet(set) => match program.tables.get(set.index()).is_some_and(|t| t.hidden) {
                true => Ok(()),
                false => Err(self.value_sets.no_such()),
            },

            Update::CreateMulticastGroup(group) => check_group(*group),
            Update::CreateNode { replication_id, ports, lags } => {
                check_range("replication id", *replication_id, MULTICAST_MAX)?;
                check_set("port", ports, multicast_port_max(program))?;
                check_set("lag", lags, MULTICAST_MAX)
            }
            Update::UpdateNode { ports, lags, .. } => {
                check_set("port", ports, multicast_port_max(program))?;
                check_set("lag", lags, MULTICAST_MAX)
            }
            Update::SetLag { lag, ports } => {
                check_range("lag", *lag, MULTICAST_MAX)?;
                check_set("port", ports, multicast_port_max(program))
            }
            Update::SetSession { session, to, bytes_max } => {
                check_session(*session)?;
                match to {
                    CloneDestination::Port(port) => check_range("port", *port, program.port_max())?,
                    CloneDestination::Group(group) => check_group(*group)?,
                }
                check_bytes(*bytes_max)
            }
            Update::SetReplicas { session, replicas, class_of_service, bytes_max } => {
                check_session(*session)?;
                check_replicas(program, replicas)?;
                check_class(*class_of_service)?;
                check_bytes(*bytes_max)
            }
            Update::SetMulticastGroup { group, replicas } => {
                check_group(*group)?;
                check_replicas(program, replicas.as_deref().unwrap_or_default())
            }
            Update::Note { of, note } => match note {
                Some(note) if note.len() > NOTE_BYTES_MAX => {
                    let (found, max) = (note.len(), NOTE_BYTES_MAX);
                    let message = format!("found a note of {found} bytes, expected at most {max}");
                    Err(self.of_noted(ControlError::new(message), of).field("note"))
                }
                _ => match of {
                    Noted::Entry(table, _) | Noted::Default(table) => {
                        self.visible(program, *table)?;
                        Ok(())
                    }
                    _ => Ok(()),
                },
            },
            Update::Queue(update) => update.check(program),
            Update::DestroyMulticastGroup(_)
            | Update::Associate { .. }
            | Update::Dissociate { .. }
            | Update::DestroyNode(_)
            | Update::DeleteSession(_)
            | Update::Reset => Ok(()),
        }
    }

    fn check_cell(&self, kind: Subject, id: InstanceId, cells: Cells, cell: &Cell) -> Result<()> {
        match (cell, cells) {
            (Cell::Index(index), _) => self.check_index(kind, id, cells, *index),
            (Cell::Entry(_), Cells::Direct(_)) => Ok(()),
            (Cell::Entry(_), Cells::Array(_)) => Err(self.not_direct(id).subject(kind)),
        }
    }

    /// Refuses an index outside an array. The index of a direct cell is the handle of an entry.
    ///
    /// # Errors
    ///
    /// The array has fewer cells.
    pub fn check_index(&self, kind: Subject, id: InstanceId, cells: Cells, index: u32) -> Result<()> {
        let why = match cells {
            Cells::Array(0) => "the array has no cells".to_string(),
            Cells::Array(size) if index >= size => format!("found index {index}, expected 0 to {}", size - 1),
            Cells::Array(_) | Cells::Direct(_) => return Ok(()),
        };
        Err(ControlError::refused(kind, INVALID_INDEX, why).entity(self.instance_name(id)).field("index"))
    }

    /// The error for an entry in place of an index.
    pub(crate) fn not_direct(&self, id: InstanceId) -> ControlError {
        let name = self.instance_name(id);
        let message = format!("found an entry, expected an index: `{name}` is not direct");
        ControlError::new(message).code(INVALID_INDEX).entity(name).field("index")
    }

    /// Adds the object of a note to an error, if it has a name.
    pub(crate) fn of_noted(&self, error: ControlError, of: &Noted) -> ControlError {
        match of {
            Noted::Entry(table, _) | Noted::Default(table) => error.entity(self.table_name(*table)),
            Noted::Group(profile, _) => error.entity(self.instance_name(*profile)),
            Noted::Digest(name) | Noted::Own(name) => error.entity(name),
            Noted::MulticastGroup(_) | Noted::Session(_) => error,
        }
    }

    /// Refuses the id of a table that the program does not have.
    pub(crate) fn known_table(&self, id: TableId) -> Result<()> {
        if id.index() < self.shapes.len() { Ok(()) } else { Err(self.tables.no_such()) }
    }

    /// Returns a table that is not a value set.
    fn visible<'p>(&self, program: &'p Program, id: TableId) -> Result<&'p Table> {
        let table = program.tables.get(id.index()).filter(|table| !table.hidden);
        table.ok_or_else(|| self.tables.no_such())
    }

    fn check_priority(&self, program: &Program, id: TableId, priority: u32) -> Result<()> {
        let name = &program.tables[id.index()].name;
        let message = match self.shape(id).needs_priority {
            true if priority <= PRIORITY_MAX => return Ok(()),
            true => {
                format!("found priority {priority} of an entry of `{name}`, expected 0 to {PRIORITY_MAX}")
            }
            false if priority == 0 => return Ok(()),
            false => format!("found priority {priority}, expected 0: entries of `{name}` have no priority"),
        };
        Err(ControlError::new(message).entity(name).field("priority"))
    }

    fn check_entry_act(&self, program: &Program, id: TableId, act: &Act) -> Result<()> {
        let table = &program.tables[id.index()];
        match act {
            Act::Action(action) => {
                check_direct(program, table)?;
                check_entry_action(program, table, action.action)
            }
            Act::Member(_) | Act::Group(_) => check_member_or_group(program, table, act),
        }
    }

    /// The result of `of` for an instance of this kind.
    fn instance<T>(
        &self,
        id: InstanceId,
        kind: ObjectKind,
        of: impl Fn(&InstanceKind) -> Option<T>,
    ) -> Result<T> {
        let found = self.instances.get(id.index()).and_then(|instance| of(&instance.kind));
        found.ok_or_else(|| self.names(kind).no_such())
    }
}

type Result<T> = std::result::Result<T, ControlError>;

/// The tables of a program, value sets included, with their ids.
pub(crate) fn tables(program: &Program) -> impl Iterator<Item = (TableId, &Table)> {
    (0..).map(TableId).zip(&program.tables)
}

/// Refuses tables whose entries are members and groups of an action profile.
pub fn check_direct(program: &Program, table: &Table) -> Result<()> {
    let Some(profile) = table.profile else { return Ok(()) };
    let profile = &program.instances[profile.index()].name;
    let why = format!("the entries of `{}` are members and groups of `{profile}`", table.name);
    Err(ControlError::refused(Subject::Table, "WRONG_TABLE_TYPE", why).entity(&table.name).field("action"))
}

/// Refuses tables without an action profile, whose entries are actions. Returns the action profile.
pub fn check_indirect(table: &Table) -> Result<InstanceId> {
    table.profile.ok_or_else(|| {
        let why = format!("`{}` has no action profile", table.name);
        ControlError::refused(Subject::Table, "WRONG_TABLE_TYPE", why).entity(&table.name).field("action")
    })
}

fn check_member_or_group(program: &Program, table: &Table, act: &Act) -> Result<()> {
    let profile = check_indirect(table)?;
    if matches!(act, Act::Group(_)) { check_selector(program, profile) } else { Ok(()) }
}

/// Refuses changes to the entries of a table with const entries only.
fn check_entries_open(table: &Table) -> Result<()> {
    if !table.const_entries {
        return Ok(());
    }
    let why = format!("`{}` has const entries", table.name);
    Err(ControlError::refused(Subject::Table, "IMMUTABLE_TABLE_ENTRIES", why)
        .entity(&table.name)
        .field("table"))
}

/// Refuses to change or delete a const entry.
pub(crate) fn check_entry_open(table: &Table, handle: u32) -> Result<()> {
    check_entries_open(table)?;
    if !is_const_entry(table, handle) {
        return Ok(());
    }
    let why = format!("entry {handle} of `{}` is const in the program", table.name);
    Err(ControlError::refused(Subject::Table, "IMMUTABLE_TABLE_ENTRIES", why)
        .entity(&table.name)
        .field("handle"))
}

/// True if a handle is that of a const entry. The program's entries come first, so their handles are their indices. A const
/// entry is never deleted, so no other entry gets its handle.
pub fn is_const_entry(table: &Table, handle: u32) -> bool {
    table.entries.get(handle as usize).is_some_and(|e| e.is_const)
}

/// Refuses an action, given by its index in a table's list, unless it is there and `fits`. `unfit` is the reason, given the
/// names of the action and of the table.
fn check_action(
    program: &Program,
    table: &Table,
    action: u32,
    fits: impl Fn(&TableAction) -> bool,
    unfit: impl Fn(&str, &str) -> String,
) -> Result<()> {
    let name = |listed: &TableAction| program.actions[listed.action.index()].control_name.as_str();
    let why = match table.actions.get(action as usize) {
        Some(listed) if fits(listed) => return Ok(()),
        Some(listed) => unfit(name(listed), &table.name),
        None => format!("`{}` has no action number {action}", table.name),
    };
    Err(ControlError::refused(Subject::Table, "INVALID_ACTION_NAME", why)
        .entity(&table.name)
        .field("action")
        .choices(table.actions.iter().filter(|listed| fits(listed)).map(name)))
}

/// Refuses entries with an action that is for defaults only.
fn check_entry_action(program: &Program, table: &Table, action: u32) -> Result<()> {
    let unfit = |name: &str, table: &str| {
        format!("`{name}` may only be the default action of `{table}` (@defaultonly)")
    };
    check_action(program, table, action, |listed| !listed.default_only, unfit)
}

/// Refuses a default action that the program does not allow.
fn check_default_action(program: &Program, table: &Table, action: u32) -> Result<()> {
    if table.const_default {
        let same = table.default.action == action;
        let code = if same { "DEFAULT_ENTRY_IS_CONST" } else { "DEFAULT_ACTION_IS_CONST" };
        return Err(const_default(table, code));
    }
    let unfit =
        |name: &str, table: &str| format!("`{name}` may not be the default action of `{table}` (@tableonly)");
    check_action(program, table, action, |listed| !listed.table_only, unfit)
}

fn const_default(table: &Table, code: &str) -> ControlError {
    let why = format!("`{}` has a const default_action", table.name);
    ControlError::refused(Subject::Table, code, why).entity(&table.name).field("action")
}

/// Refuses tables whose entries do not age.
fn check_timeouts(table: &Table) -> Result<()> {
    if table.idle_timeout {
        return Ok(());
    }
    let message = format!(
        "table {} does not support entry timeouts: the program does not declare `support_timeout`",
        table.name
    );
    Err(ControlError::new(message).entity(&table.name).field("table"))
}

/// Refuses action profiles without groups.
pub fn check_selector(program: &Program, profile: InstanceId) -> Result<()> {
    let is_selector =
        |instance: &Instance| matches!(instance.kind, InstanceKind::ActionProfile { selector: true, .. });
    let instance = &program.instances[profile.index()];
    if is_selector(instance) {
        return Ok(());
    }
    let selectors = program.instances.iter().filter(|instance| is_selector(instance));
    let message = format!("this needs an action profile with a selector: `{}` has no groups", instance.name);
    Err(ControlError::new(message)
        .entity(&instance.name)
        .field("action profile")
        .choices(selectors.map(|instance| instance.name.as_str())))
}

/// Refuses invalid meter rates.
pub fn check_rates(rates: Option<&Rates>) -> Result<()> {
    let Some(rates) = rates else { return Ok(()) };
    if rates.iter().any(|rate| !rate.per_us.is_finite() || rate.per_us < 0.0) {
        return Err(ControlError::new("expected rates of 0 or more").field("rate"));
    }
    if rates[0].per_us > rates[1].per_us {
        let why = "the committed rate is above the peak rate: the smaller comes first";
        return Err(ControlError::refused(Subject::Meter, "INVALID_INFO_RATE_VALUE", why).field("rate"));
    }
    Ok(())
}

fn check_range(what: &str, found: u32, max: u32) -> Result<()> {
    match found <= max {
        true => Ok(()),
        false => Err(ControlError::new(format!("found {what} {found}, expected 0 to {max}")).field(what)),
    }
}

/// Maximum sum of the weights in a group: the number of its places.
pub const PLACES_MAX: u64 = 1 << 16;

/// Refuses groups with too many places.
pub fn check_places(places: u64) -> Result<()> {
    match places <= PLACES_MAX {
        true => Ok(()),
        false => {
            let message = format!("found weights of {places} together, expected at most {PLACES_MAX}");
            Err(ControlError::new(message).field("weight"))
        }
    }
}

/// The largest port to which multicast can send.
pub fn multicast_port_max(program: &Program) -> u32 {
    program.port_max().min(MULTICAST_MAX)
}

/// Checks the copies of a multicast group or clone session one after the other.
pub struct CopyCheck {
    port_max: u32,
    known: HashSet<(u32, u32)>,
}

impl CopyCheck {
    /// The check of this many copies.
    ///
    /// # Errors
    ///
    /// There are too many: the code is `LIMIT`.
    pub fn new(program: &Program, copies: usize) -> Result<CopyCheck> {
        match copies <= REPLICAS_MAX {
            true => {
                Ok(CopyCheck { port_max: multicast_port_max(program), known: HashSet::with_capacity(copies) })
            }
            false => {
                let message = format!("found {copies} replicas, expected at most {REPLICAS_MAX}");
                Err(ControlError::limit(message).field("replicas"))
            }
        }
    }

    /// Checks the next copy.
    ///
    /// # Errors
    ///
    /// Its port or replication id is too large, or an earlier copy is equal.
    pub fn check(&mut self, Replica { port, replication_id }: Replica) -> Result<()> {
        check_range("port", port, self.port_max)?;
        check_range("replication id", replication_id, MULTICAST_MAX)?;
        match self.known.insert((port, replication_id)) {
            true => Ok(()),
            false => {
                let message = format!(
                    "found port {port} with replication id {replication_id} twice, expected different copies"
                );
                Err(ControlError::new(message).field("replicas"))
            }
        }
    }
}

fn check_replicas(program: &Program, replicas: &[Replica]) -> Result<()> {
    let mut copies = CopyCheck::new(program, replicas.len())?;
    replicas.iter().try_for_each(|replica| copies.check(*replica))
}

/// Refuses numbers that no clone session can have.
pub fn check_session(session: u32) -> Result<()> {
    check_range("session", session, SESSION_MAX)
}

/// Refuses classes of service that no queue has.
pub fn check_class(class_of_service: u32) -> Result<()> {
    check_range("class of service", class_of_service, CLASS_MAX)
}

/// Refuses a length to which no session can cut copies.
fn check_bytes(bytes_max: Option<u32>) -> Result<()> {
    match bytes_max {
        Some(0) => {
            let message =
                format!("copies of 0 bytes: expected 1 to {SESSION_BYTES_MAX}, or none for all bytes");
            Err(ControlError::new(message).field("length"))
        }
        Some(bytes) => check_range("length", bytes, SESSION_BYTES_MAX),
        None => Ok(()),
    }
}

fn check_set(what: &str, numbers: &BTreeSet<u32>, max: u32) -> Result<()> {
    numbers.last().map_or(Ok(()), |last| check_range(what, *last, max))
}

/// Refuses numbers that no multicast group can have.
pub fn check_group(group: u32) -> Result<()> {
    match group {
        0 => {
            let message = format!("found multicast group 0, which means none: expected 1 to {MULTICAST_MAX}");
            Err(ControlError::new(message).field("group"))
        }
        1..=MULTICAST_MAX => Ok(()),
        _ => {
            let message = format!("found group {group}, expected 1 to {MULTICAST_MAX}");
            Err(ControlError::new(message).field("group"))
        }
    }
}

/// The CRCs whose constants can be set, with their widths; their calls have the name as first text.
fn custom_crcs(program: &Program) -> BTreeMap<String, u32> {
    let bodies = program.blocks.iter().map(|b| &b.body).chain(program.actions.iter().map(|a| &a.body));
    let mut crcs = BTreeMap::new();
    for stmt in bodies.flat_map(|body| &body.nodes).flat_map(|node| &node.stmts) {
        if let Op::Extern { function: Function::Hash(hash), text, .. } = &stmt.op
            && let Some(width) = hash.algorithm.custom_width()
            && let Some(name) = text.first()
        {
            crcs.insert(name.clone(), width);
        }
    }
    crcs
}

/// The kind of a table in bmv2's words, in the order in which p4c decides it.
fn match_kind(table: &p4jet_ir::Table) -> &'static str {
    let has = |kinds: &[MatchKind]| table.keys.iter().any(|k| kinds.contains(&k.kind));
    if has(&[MatchKind::Range]) {
        "range"
    } else if has(&[MatchKind::Ternary, MatchKind::Optional]) {
        "ternary"
    } else if has(&[MatchKind::Lpm]) {
        "lpm"
    } else {
        "exact"
    }
}

/// True if the entries of a table have priorities.
pub fn needs_priority(table: &p4jet_ir::Table) -> bool {
    matches!(match_kind(table), "range" | "ternary")
}

fn shape(program: &Program, id: TableId, table: &p4jet_ir::Table) -> Shape {
    let name = |a: &p4jet_ir::TableAction| program.actions[a.action.index()].control_name.clone();
    let actions = table.actions.iter().zip(0..).map(|(a, i)| (name(a), i));
    let of_kind = |wanted: &dyn Fn(&InstanceKind) -> bool| {
        instances(program).filter(|(_, instance)| wanted(&instance.kind)).map(|(id, _)| id).collect()
    };
    let direct_counters =
        of_kind(&|k| matches!(k, InstanceKind::DirectCounter { table, .. } if *table == id));
    let direct_meters = of_kind(&|k| matches!(k, InstanceKind::DirectMeter { table, .. } if *table == id));
    Shape {
        actions: NameIndex::of("action", "table", actions),
        needs_priority: needs_priority(table),
        match_kind: match_kind(table),
        direct_counters,
        direct_meters,
    }
}
