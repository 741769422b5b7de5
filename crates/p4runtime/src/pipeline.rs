//! A P4Info whose ids are resolved to objects of the running program.
//!
//! A [`Pipeline`] pairs each object of a P4Info with the object of the program that has its name, once, so that updates need no
//! names. A P4Info that does not fit the program is refused with all reasons.

use crate::data::{ENUM_BITS, Size, Sizes, Types, VALUES_MAX};
use crate::refusal::{Code, Reason, Reasons, Refusal, Result, choices};
use crate::session::RoleView;
use crate::types::shown_type;
use crate::value::{Field, Outside, Strings, ones, shown_field};
use num_bigint::BigUint;
use p4jet_control::schema::{MULTICAST_MAX, REPLICAS_MAX};
use p4jet_control::{Control, SharedControl};
use p4jet_dataplane::Switch;
use p4jet_ir::{ActionId, CounterUnit, InstanceId, InstanceKind, MatchKind, Program, TableId};
use p4jet_p4info::constraints::{Constraint, Field as Named, Kind, Subject, annotation_text};
use p4jet_p4info::proto::config::{
    self, DataType, IdleTimeoutBehavior, Match, MatchType, MeterType, P4DataTypeSpec, P4Info, P4NamedType,
    P4TypeInfo, Preamble, Prefix, Representation, Scope, SdnType, SelectorSizeSemantics,
};
use p4jet_p4info::proto::v1;
use p4jet_tables::KeyMatch;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// The digests that clients have configured, by id.
pub(crate) type Wanted = BTreeMap<u32, v1::DigestConfig>;

/// A P4Info whose ids are resolved to objects of a program.
pub struct Pipeline {
    p4info: P4Info,
    /// See [`shape_of`].
    shape: u64,
    /// The switch that last ran the program.
    known: Mutex<Weak<Switch>>,
    /// The number of restored dumps that it has followed ([`Control::restores`]).
    pub(crate) restores: AtomicU64,
    pub(crate) strings: Strings,
    /// The URIs of the spaces of `strings`.
    uris: Vec<String>,
    pub(crate) tables: BTreeMap<u32, Table>,
    pub(crate) actions: BTreeMap<u32, Action>,
    pub(crate) profiles: BTreeMap<u32, Profile>,
    pub(crate) counters: BTreeMap<u32, Array>,
    pub(crate) meters: BTreeMap<u32, Array>,
    pub(crate) registers: BTreeMap<u32, Register>,
    pub(crate) value_sets: BTreeMap<u32, ValueSet>,
    pub(crate) digests: BTreeMap<u32, String>,
    /// The fields of packet-in and packet-out headers, by the name of the header.
    pub(crate) packet_fields: BTreeMap<String, Vec<Field>>,
    /// The digests that clients want.
    wanted: Mutex<Wanted>,
}

/// A table.
pub(crate) struct Table {
    pub id: u32,
    pub name: String,
    pub table: TableId,
    /// In the order of the P4Info.
    pub keys: Vec<Key>,
    /// True if entries have a priority.
    pub has_priority: bool,
    pub actions: Vec<Listed>,
    /// The default action of the program: its index in the list of the program's table.
    pub default: u32,
    /// Maps an action's index in the list of the program's table to its index in `actions`.
    pub by_index: Vec<Option<usize>>,
    /// Id of the action profile.
    pub profile: Option<u32>,
    pub is_const: bool,
    pub const_default: bool,
    pub idle_timeout: bool,
    /// The entries that the program declares, by their handles: the priority in the table, and the one that clients see.
    pub of_program: Vec<(u32, i32)>,
    /// Their handles by key, those that win first.
    pub by_key: HashMap<Vec<KeyMatch>, Vec<u32>>,
    pub counter: Option<InstanceId>,
    pub meter: Option<InstanceId>,
    pub meter_type: MeterType,
    /// The role it belongs to (`@p4runtime_role`).
    pub role: Option<String>,
    pub constraint: Option<Constraint>,
}

/// A field of a key.
pub(crate) struct Key {
    pub field: Field,
    pub kind: MatchKind,
    /// Its position in the key of the program.
    pub place: usize,
    /// The largest value.
    pub max: BigUint,
}

/// An action of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub id: u32,
    /// Its index in the list of the table.
    pub index: u32,
    pub scope: Scope,
    /// True if packets that run it are counted by the table's direct counter.
    pub counts: bool,
    /// True if packets that run it are measured by the table's direct meter.
    pub measures: bool,
}

/// An action.
pub(crate) struct Action {
    pub name: String,
    /// In the order of the P4Info.
    pub params: Vec<Param>,
    pub constraint: Option<Constraint>,
}

/// A parameter of an action.
pub(crate) struct Param {
    pub field: Field,
    /// Its position among the parameters of the program.
    pub place: usize,
}

/// An action profile.
pub(crate) struct Profile {
    pub name: String,
    pub instance: InstanceId,
    /// Ids of its tables. All have the same actions.
    pub tables: Vec<u32>,
    pub selector: bool,
    pub max_group_size: i32,
    /// The maximum weight of a member, if sizes count members; 0 is no maximum.
    pub members_counted: Option<i32>,
    pub weights_disallowed: bool,
}

/// An array of counters or meters.
pub(crate) struct Array {
    pub name: String,
    pub instance: InstanceId,
    pub size: u32,
    /// For meters.
    pub meter_type: MeterType,
}

/// A register.
pub(crate) struct Register {
    pub name: String,
    pub instance: InstanceId,
    pub size: u32,
    pub spec: P4DataTypeSpec,
}

/// A parser value set.
pub(crate) struct ValueSet {
    pub name: String,
    pub table: TableId,
    pub keys: Vec<Key>,
    pub size: i32,
}

/// The configurations that a meter takes; unknown types are those of 1.3.
fn meter_type(spec: Option<&config::MeterSpec>) -> MeterType {
    spec.and_then(|spec| MeterType::try_from(spec.r#type).ok()).unwrap_or_default()
}

impl Pipeline {
    /// Finds the objects of a P4Info in the program of a switch.
    ///
    /// # Errors
    /// All reasons for which the P4Info does not fit the program.
    pub fn new(p4info: P4Info, control: &Control) -> std::result::Result<Pipeline, Vec<String>> {
        let mut maker = Maker::new(&p4info, control);
        maker.check_ids();
        // From here on, each object of the program is that of one object of the P4Info.
        if !maker.reasons.is_empty() {
            return Err(maker.reasons.into_lines());
        }
        maker.check_platform();
        maker.string_types();
        maker.check_types();
        let actions = maker.actions();
        let mut profiles = maker.profiles();
        let tables = maker.tables(&actions, &mut profiles);
        let (counters, meters) = (maker.counters(), maker.meters());
        maker.check_directs(&tables);
        let (registers, value_sets) = (maker.registers(), maker.value_sets());
        let packet_fields = maker.packet_fields();
        let digests =
            p4info.digests.iter().map(|digest| (id_of(&digest.preamble), name_of(&digest.preamble)));
        let digests = digests.collect();
        let strings = Strings::new(maker.uris.iter().map(|(_, width)| *width));
        let uris = maker.uris.iter().map(|(uri, _)| uri.clone()).collect();
        if !maker.reasons.is_empty() {
            return Err(maker.reasons.into_lines());
        }
        let pipeline = Pipeline {
            shape: shape_of(control.program()),
            known: Mutex::new(std::sync::Arc::downgrade(control.switch())),
            restores: AtomicU64::new(control.restores()),
            strings,
            uris,
            tables,
            actions,
            profiles,
            counters,
            meters,
            registers,
            value_sets,
            digests,
            packet_fields,
            wanted: Mutex::default(),
            p4info,
        };
        // So that strings of packets get numbers that the state does not have.
        pipeline.strings.begin(control.changes_of_others());
        pipeline.scan(control);
        pipeline.take_kept(control);
        Ok(pipeline)
    }

    /// The URIs of types that are translated to strings.
    pub(crate) fn uris(&self) -> &[String] {
        &self.uris
    }

    /// The digests that clients want.
    pub(crate) fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The P4Info.
    pub fn p4info(&self) -> &P4Info {
        &self.p4info
    }

    /// The control of the running program, if this pipeline belongs to that program.
    pub(crate) fn control(&self, switch: &SharedControl) -> Result<Control> {
        let control = switch.control();
        self.check_program(&control)?;
        Ok(control)
    }

    /// Refuses a program that this pipeline does not belong to.
    pub(crate) fn check_program(&self, control: &Control) -> Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(known.as_ptr(), std::sync::Arc::as_ptr(control.switch())) {
            // The same program may have been compiled again, which leaves all ids as they are.
            if shape_of(control.program()) != self.shape {
                let why = "the program of this P4Info does not run any more: another one was loaded";
                return Err(Refusal::new(Code::FailedPrecondition, Reason::Program, why));
            }
            self.strings.make_stale();
            *known = std::sync::Arc::downgrade(control.switch());
        }
        Ok(())
    }

    /// Scans the state for numbers of translated types. Returns those that strings have lost, with their space
    /// ([`Strings::end_scan`]).
    pub(crate) fn scan(&self, control: &Control) -> Vec<(usize, u64)> {
        if self.uris.is_empty() {
            return Vec::new();
        }
        let is_string = |field: &Field| matches!(field.outside, Outside::String(_));
        let has_string = |keys: &[Key]| keys.iter().any(|key| is_string(&key.field));
        let acts = |table: &Table| {
            let params = table.actions.iter().flat_map(|listed| &self.actions[&listed.id].params);
            params.into_iter().any(|param| is_string(&param.field))
        };
        self.strings.begin_scan();
        // Values are noted when they are shown.
        for table in self.tables.values() {
            let (has_string, acts) = (has_string(&table.keys), acts(table));
            if has_string || acts {
                for (_, entry) in control.switch().table(table.table).entries() {
                    self.show_key(&table.keys, &entry.key);
                    self.show_act(control, table, None, &entry.action);
                }
            }
            if acts {
                self.show_default_act(control, table);
            }
        }
        for profile in self.profiles.values() {
            let table = self.profile_table(profile).ok().filter(|table| acts(table));
            let store = control.schema().profile_table(profile.instance).and_then(|of| control.profile(of));
            let (Some(table), Ok(store)) = (table, store) else { continue };
            for (_, action) in store.members() {
                self.show_action(table, &action);
            }
        }
        for set in self.value_sets.values().filter(|set| has_string(&set.keys)) {
            for (_, entry) in control.switch().table(set.table).entries() {
                self.show_key(&set.keys, &entry.key);
            }
        }
        for register in self.registers.values() {
            let show = |strings: &Strings, value: &BigUint| {
                self.with_types(control, true, |types| {
                    let types = crate::data::Types { strings, ..*types };
                    // A register of another type cannot be written.
                    let _ = crate::data::show(&register.spec, &types, value);
                });
            };
            let has_string = {
                let strings = Strings::new(self.uris.iter().map(|_| 0));
                strings.begin_scan();
                show(&strings, &BigUint::ZERO);
                strings.has_seen()
            };
            for cell in 0..if has_string { register.size } else { 0 } {
                show(&self.strings, &control.register_value(register.instance, cell).unwrap_or_default());
            }
        }
        self.strings.end_scan()
    }

    /// The table with an id.
    pub(crate) fn table(&self, id: u32) -> Result<&Table> {
        self.tables.get(&id).ok_or_else(|| {
            let all = self.tables.iter().map(|(id, table)| (*id, table.name.as_str()));
            self.unknown("table", id, choices(all))
        })
    }

    /// The table with an id of the program.
    pub(crate) fn table_of(&self, of: TableId) -> Option<&Table> {
        self.tables.values().find(|table| table.table == of)
    }

    pub(crate) fn profile(&self, id: u32) -> Result<&Profile> {
        self.profiles.get(&id).ok_or_else(|| {
            let all = self.profiles.iter().map(|(id, profile)| (*id, profile.name.as_str()));
            self.unknown("action profile", id, choices(all))
        })
    }

    pub(crate) fn counter(&self, id: u32) -> Result<&Array> {
        self.counters.get(&id).ok_or_else(|| self.unknown_array("counter", id, &self.counters))
    }

    pub(crate) fn meter(&self, id: u32) -> Result<&Array> {
        self.meters.get(&id).ok_or_else(|| self.unknown_array("meter", id, &self.meters))
    }

    pub(crate) fn register(&self, id: u32) -> Result<&Register> {
        self.registers.get(&id).ok_or_else(|| {
            let all = self.registers.iter().map(|(id, register)| (*id, register.name.as_str()));
            self.unknown("register", id, choices(all))
        })
    }

    pub(crate) fn value_set(&self, id: u32) -> Result<&ValueSet> {
        self.value_sets.get(&id).ok_or_else(|| {
            let all = self.value_sets.iter().map(|(id, set)| (*id, set.name.as_str()));
            self.unknown("value set", id, choices(all))
        })
    }

    pub(crate) fn digest(&self, id: u32) -> Result<&str> {
        self.digests.get(&id).map(String::as_str).ok_or_else(|| {
            let all = self.digests.iter().map(|(id, name)| (*id, name.as_str()));
            self.unknown("digest", id, choices(all))
        })
    }

    /// The refusal of an id.
    fn unknown(&self, kind: &str, id: u32, choices: String) -> Refusal {
        let what = match id {
            0 => format!("no {kind} is named: its id is 0 or unset"),
            _ => format!("the P4Info has no {kind} with the id {id}"),
        };
        let why = match self.p4info == P4Info::default() {
            true => format!("{what}; the P4Info of this configuration is empty"),
            false => format!("{what}; {kind}s: {choices}"),
        };
        Refusal::invalid(Reason::Id, why)
    }

    fn unknown_array(&self, kind: &str, id: u32, all: &BTreeMap<u32, Array>) -> Refusal {
        self.unknown(kind, id, choices(all.iter().map(|(id, array)| (*id, array.name.as_str()))))
    }
}

impl Pipeline {
    /// The objects that a role may access. R-3: without configuration all of them, unless the P4Info assigns tables to roles.
    pub(crate) fn view(&self, role: &RoleView) -> RoleView {
        let has_marks = self.tables.values().any(|table| table.role.is_some());
        match role.ids.is_none() && !has_marks {
            true => RoleView::default(),
            false => role.clone(),
        }
    }
}

impl RoleView {
    /// True if the role may access an object.
    pub(crate) fn covers(&self, id: u32, owner: Option<&str>) -> bool {
        let granted = owner.is_none() && self.ids.as_ref().is_some_and(|ids| ids.contains(&id));
        // The default role may access everything; other roles the objects that carry their name or that their configuration grants.
        self.name.is_empty() || owner == Some(&self.name) || granted
    }

    /// Refuses objects that the role may not access.
    pub(crate) fn check(&self, id: u32, name: &str, owner: Option<&str>) -> Result<()> {
        if self.covers(id, owner) {
            return Ok(());
        }
        let why = match owner {
            Some(owner) => {
                format!("`{name}` belongs to the role `{owner}`, and the sender has the role `{}`", self.name)
            }
            None => format!("`{name}` is not granted to the role `{}`, which the sender has", self.name),
        };
        Err(Refusal::new(Code::PermissionDenied, Reason::Role, why))
    }
}

/// The instances whose functions an action calls.
fn called(action: &p4jet_ir::Action) -> BTreeSet<InstanceId> {
    let ops = action.body.nodes.iter().flat_map(|node| &node.stmts).map(|stmt| &stmt.op);
    let instance = |op: &p4jet_ir::Op| match op {
        p4jet_ir::Op::Extern { instance, .. } => *instance,
        _ => None,
    };
    ops.filter_map(instance).collect()
}

/// A hash of everything in a program that a pipeline relies on.
fn shape_of(program: &Program) -> u64 {
    let mut hasher = DefaultHasher::new();
    for table in &program.tables {
        (&table.name, table.size, table.const_entries, table.const_default, table.hidden).hash(&mut hasher);
        for key in &table.keys {
            (&key.name, key.width, key.kind).hash(&mut hasher);
        }
        for listed in &table.actions {
            let action = &program.actions[listed.action.index()];
            (&action.control_name, listed.table_only, listed.default_only).hash(&mut hasher);
            for param in &action.params {
                program.width(*param).hash(&mut hasher);
            }
            called(action).hash(&mut hasher);
        }
    }
    for instance in &program.instances {
        instance.name.hash(&mut hasher);
        match &instance.kind {
            InstanceKind::Register { width, size, .. } => (0, *width, *size).hash(&mut hasher),
            InstanceKind::Counter { size, .. } => (1, *size).hash(&mut hasher),
            InstanceKind::DirectCounter { table, .. } => (2, table.index()).hash(&mut hasher),
            InstanceKind::Meter { size, .. } => (3, *size).hash(&mut hasher),
            InstanceKind::DirectMeter { table, .. } => (4, table.index()).hash(&mut hasher),
            InstanceKind::ActionProfile { size, selector } => (5, *size, *selector).hash(&mut hasher),
            InstanceKind::Digest { fields } => (6, fields).hash(&mut hasher),
        }
    }
    hasher.finish()
}

pub(crate) fn id_of(preamble: &Option<Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |preamble| preamble.id)
}

fn name_of(preamble: &Option<Preamble>) -> String {
    preamble.as_ref().map_or_else(String::new, |preamble| preamble.name.clone())
}

struct Maker<'a> {
    info: &'a P4Info,
    program: &'a Program,
    control: &'a Control,
    /// The URIs of strings, with the width of their numbers.
    uris: Vec<(String, u32)>,
    /// Their places in `uris`.
    spaces: HashMap<&'a str, usize>,
    /// The objects of the program by name.
    tables: HashMap<&'a str, TableId>,
    value_sets: HashMap<&'a str, TableId>,
    actions: HashMap<&'a str, ActionId>,
    instances: HashMap<&'a str, InstanceId>,
    /// Its translated types with their widths.
    translated: HashMap<&'a str, u32>,
    reasons: Reasons,
}

/// Maps the names of objects to their ids; the first of several with one name counts.
fn by_name<'a, T>(named: impl Iterator<Item = (&'a String, T)>) -> HashMap<&'a str, T> {
    let mut map = HashMap::new();
    for (name, id) in named {
        map.entry(name.as_str()).or_insert(id);
    }
    map
}

impl<'a> Maker<'a> {
    fn new(info: &'a P4Info, control: &'a Control) -> Maker<'a> {
        let program = control.program();
        let tables = |hidden: bool| {
            let all = program.tables.iter().zip((0..).map(TableId));
            by_name(all.filter(|(table, _)| table.hidden == hidden).map(|(table, id)| (&table.name, id)))
        };
        let actions = program.actions.iter().map(|action| &action.control_name);
        let instances = program.instances.iter().map(|instance| &instance.name);
        Maker {
            info,
            program,
            control,
            uris: Vec::new(),
            spaces: HashMap::new(),
            tables: tables(false),
            value_sets: tables(true),
            actions: by_name(actions.zip((0..).map(ActionId))),
            instances: by_name(instances.zip((0..).map(InstanceId))),
            translated: by_name(program.translated.iter().map(|(name, width)| (name, *width))),
            reasons: Reasons::default(),
        }
    }

    fn refuse(&mut self, why: String) {
        self.reasons.push(|| why);
    }

    /// Checks ids and names: ids are not 0, of the right kind and unique; names are unique within a kind.
    fn check_ids(&mut self) {
        fn all<T>(list: &[T], preamble: impl Fn(&T) -> &Option<Preamble>) -> Vec<(u32, String, String)> {
            let of = |object| {
                let preamble = preamble(object).clone().unwrap_or_default();
                (preamble.id, preamble.name, preamble.alias)
            };
            list.iter().map(of).collect()
        }
        let i = self.info;
        let kinds = [
            ("action", Prefix::Action, all(&i.actions, |o| &o.preamble)),
            ("table", Prefix::Table, all(&i.tables, |o| &o.preamble)),
            ("value set", Prefix::ValueSet, all(&i.value_sets, |o| &o.preamble)),
            (
                "controller header",
                Prefix::ControllerHeader,
                all(&i.controller_packet_metadata, |o| &o.preamble),
            ),
            ("action profile", Prefix::ActionProfile, all(&i.action_profiles, |o| &o.preamble)),
            ("counter", Prefix::Counter, all(&i.counters, |o| &o.preamble)),
            ("direct counter", Prefix::DirectCounter, all(&i.direct_counters, |o| &o.preamble)),
            ("meter", Prefix::Meter, all(&i.meters, |o| &o.preamble)),
            ("direct meter", Prefix::DirectMeter, all(&i.direct_meters, |o| &o.preamble)),
            ("register", Prefix::Register, all(&i.registers, |o| &o.preamble)),
            ("digest", Prefix::Digest, all(&i.digests, |o| &o.preamble)),
        ];
        let mut ids: HashMap<u32, String> = HashMap::new();
        for (kind, prefix, objects) in kinds {
            let (mut names, mut aliases) = (HashMap::new(), HashMap::new());
            for (id, name, alias) in objects {
                if id >> 24 != prefix as u32 || id & 0xff_ffff == 0 {
                    let first = prefix as u32;
                    self.refuse(format!(
                        "the id {id:#010x} of the {kind} `{name}` is wrong: ids of this kind are {first:#04x}000001 to \
                         {first:#04x}ffffff"
                    ));
                }
                if let Some(other) = ids.insert(id, name.clone()) {
                    self.refuse(format!("`{other}` and `{name}` have the same id {id}"));
                }
                if names.insert(name.clone(), ()).is_some() {
                    self.refuse(format!("two {kind}s have the name `{name}`"));
                }
                if !alias.is_empty() && aliases.insert(alias.clone(), ()).is_some() {
                    self.refuse(format!("two {kind}s have the alias `{alias}`"));
                }
            }
        }
    }

    /// The form in which clients send values of a type.
    fn outside(&mut self, type_name: Option<&P4NamedType>, width: u32) -> Outside {
        let types = self.info.type_info.as_ref();
        let mut name = type_name.map(|named| named.name.as_str());
        // Bounded, because a wrong message may have a cycle of types.
        for _ in 0..100 {
            let Some(new) = name.and_then(|name| types?.new_types.get(name)) else { break };
            match &new.representation {
                Some(Representation::TranslatedType(translated)) => match &translated.sdn_type {
                    Some(SdnType::SdnBitwidth(bits)) => return Outside::Bits((*bits).max(0) as u32),
                    Some(SdnType::SdnString(_)) => {
                        let space = *self.spaces.entry(&translated.uri).or_insert_with(|| {
                            self.uris.push((translated.uri.clone(), width));
                            self.uris.len() - 1
                        });
                        self.uris[space].1 = self.uris[space].1.min(width);
                        return Outside::String(space);
                    }
                    None => break,
                },
                Some(Representation::OriginalType(P4DataTypeSpec {
                    type_spec: Some(DataType::NewType(inner)),
                })) => name = Some(&inner.name),
                _ => break,
            }
        }
        Outside::Same
    }

    /// Finds the types that are translated to strings, including those that only registers and digests use.
    fn string_types(&mut self) {
        let Some(types) = &self.info.type_info else { return };
        for name in types.new_types.keys() {
            let named = P4NamedType { name: name.clone() };
            if let Some(width) = self.translated_width(Some(&named)) {
                self.outside(Some(&named), width);
            }
        }
    }

    /// The width of a translated type in the program.
    fn translated_width(&self, type_name: Option<&P4NamedType>) -> Option<u32> {
        self.translated.get(type_name?.name.as_str()).copied()
    }

    /// Refuses requirements that the switch cannot meet; 0 requires nothing.
    fn check_platform(&mut self) {
        let package = self.info.pkg_info.as_ref();
        let Some(demands) = package.and_then(|package| package.platform_properties.as_ref()) else { return };
        let (groups, replicas) = (i64::from(MULTICAST_MAX), REPLICAS_MAX as i64);
        for (name, found, max) in [
            ("multicast_group_table_size", demands.multicast_group_table_size, groups),
            (
                "multicast_group_table_total_replicas",
                demands.multicast_group_table_total_replicas,
                groups * replicas,
            ),
            (
                "multicast_group_table_max_replicas_per_entry",
                demands.multicast_group_table_max_replicas_per_entry,
                replicas,
            ),
        ] {
            if !(0..=max).contains(&i64::from(found)) {
                self.refuse(format!("platform_properties: `{name}` is {found}, expected 0 to {max}"));
            }
        }
    }

    fn packet_fields(&mut self) -> BTreeMap<String, Vec<Field>> {
        let mut headers = BTreeMap::new();
        for header in &self.info.controller_packet_metadata {
            let name = name_of(&header.preamble);
            let mut fields = Vec::new();
            for field in &header.metadata {
                let type_name = field.type_name.as_ref();
                let width = self.translated_width(type_name).unwrap_or(field.bitwidth.max(0) as u32);
                let given = (field.id, field.name.as_str(), field.bitwidth);
                fields.push(self.field(&name, given, type_name, width));
            }
            headers.insert(name, fields);
        }
        headers
    }

    /// True for the type of values that have no width in a P4Info, but are numbers in the switch: an enum without representation,
    /// or `error`, which has no name there.
    fn is_without_width(&self, type_name: Option<&P4NamedType>) -> bool {
        let types = self.info.type_info.as_ref();
        types.is_some_and(|types| match type_name {
            Some(named) => types.enums.contains_key(&named.name),
            None => types.error.is_some(),
        })
    }

    /// A field of a key or a parameter, if its width is that of the program.
    fn field(
        &mut self,
        of: &str,
        (id, name, bitwidth): (u32, &str, i32),
        type_name: Option<&P4NamedType>,
        width: u32,
    ) -> Field {
        let outside = self.outside(type_name, width);
        let expected = match outside {
            Outside::Same => width,
            Outside::Bits(bits) => bits,
            Outside::String(_) => 0,
        };
        let has_no_width = || {
            bitwidth == 0
                && outside == Outside::Same
                && width == ENUM_BITS
                && self.is_without_width(type_name)
        };
        if bitwidth != expected as i32 && !has_no_width() {
            let shown = shown_field(id, name);
            self.refuse(format!(
                "{shown} of `{of}` has {bitwidth} bits in the P4Info and {expected} in the program"
            ));
        }
        Field { id, name: name.to_string(), width, outside }
    }

    fn constraint(
        &mut self,
        of: &str,
        annotations: &[String],
        name: &str,
        subject: Subject,
    ) -> Option<Constraint> {
        let text = annotation_text(annotations, name)?;
        match Constraint::parse(&text, &subject) {
            Ok(constraint) => Some(constraint),
            Err(bad) => {
                self.refuse(format!("@{name} of `{of}`: {bad}"));
                None
            }
        }
    }

    fn actions(&mut self) -> BTreeMap<u32, Action> {
        let mut actions = BTreeMap::new();
        for action in &self.info.actions {
            let Some(preamble) = &action.preamble else { continue };
            let name = &preamble.name;
            let mut params = Vec::new();
            // The program lacks actions that no table lists; no request can use them.
            if let Some(ir) = self.actions.get(name.as_str()).copied() {
                let fields = &self.program.actions[ir.index()].params;
                let names: Vec<&str> =
                    fields.iter().map(|field| self.program.param_name(ir, *field)).collect();
                for param in &action.params {
                    let Some(place) = names.iter().position(|name| *name == param.name) else {
                        self.refuse(format!("the action `{name}` has no parameter `{}`", param.name));
                        continue;
                    };
                    let width = self.program.width(fields[place]);
                    let given = (param.id, param.name.as_str(), param.bitwidth);
                    let field = self.field(name, given, param.type_name.as_ref(), width);
                    params.push(Param { field, place });
                }
                for missing in names.iter().filter(|n| !action.params.iter().any(|p| p.name == **n)) {
                    self.refuse(format!("the P4Info lacks the parameter `{missing}` of the action `{name}`"));
                }
            }
            let fields = action.params.iter().map(|param| Named {
                name: param.name.clone(),
                kind: Kind::Number,
                width: match param.bitwidth {
                    0 => self.translated_width(param.type_name.as_ref()).unwrap_or(0),
                    bits => bits.max(0) as u32,
                },
            });
            let subject = Subject { fields: fields.collect(), is_table: false };
            let constraint = self.constraint(name, &preamble.annotations, "action_restriction", subject);
            actions.insert(preamble.id, Action { name: name.clone(), params, constraint });
        }
        actions
    }

    fn instance(&self, name: &str, wanted: impl Fn(&InstanceKind) -> bool) -> Option<InstanceId> {
        self.instances.get(name).copied().filter(|id| wanted(&self.program.instances[id.index()].kind))
    }

    fn profiles(&mut self) -> BTreeMap<u32, Profile> {
        let mut profiles = BTreeMap::new();
        // The tables by id, and by profile.
        let tables: HashMap<u32, &config::Table> =
            self.info.tables.iter().map(|table| (id_of(&table.preamble), table)).collect();
        let mut users: HashMap<u32, Vec<u32>> = HashMap::new();
        for table in &self.info.tables {
            users.entry(table.implementation_id).or_default().push(id_of(&table.preamble));
        }
        for profile in &self.info.action_profiles {
            let Some(preamble) = &profile.preamble else { continue };
            let by_name =
                self.instance(&preamble.name, |kind| matches!(kind, InstanceKind::ActionProfile { .. }));
            // A profile that a table's property constructs may have another name, so it is found by its tables.
            let by_table = || {
                let name = &tables.get(profile.table_ids.first()?)?.preamble.as_ref()?.name;
                self.program.tables[self.tables.get(name.as_str())?.index()].profile
            };
            let Some(instance) = by_name.or_else(by_table) else {
                self.refuse(format!("the program has no action profile `{}`", preamble.name));
                continue;
            };
            let InstanceKind::ActionProfile { size, selector } =
                self.program.instances[instance.index()].kind
            else {
                continue;
            };
            if selector != profile.with_selector {
                self.refuse(format!(
                    "`{}` is a selector in one of P4Info and program, and none in the other",
                    preamble.name
                ));
            }
            if profile.size != i64::from(size) {
                self.refuse(format!(
                    "`{}` has the size {} in the P4Info and {size} in the program",
                    preamble.name, profile.size
                ));
            }
            let other = |id: &&u32| tables.get(id).is_none_or(|table| table.implementation_id != preamble.id);
            if let Some(id) = profile.table_ids.iter().find(other) {
                let mut fit = users.get(&preamble.id).cloned().unwrap_or_default();
                fit.sort_unstable();
                let fit = choices(fit.into_iter().map(|table| (table, "")));
                let name = &preamble.name;
                self.refuse(format!(
                    "`{name}`: `table_ids` has {id}, which is no table with this `implementation_id`; those with it: {fit}"
                ));
            }
            let members_counted = match &profile.selector_size_semantics {
                Some(SelectorSizeSemantics::SumOfMembers(counted)) => Some(counted.max_member_weight),
                _ => None,
            };
            profiles.insert(
                preamble.id,
                Profile {
                    name: preamble.name.clone(),
                    instance,
                    tables: profile.table_ids.clone(),
                    selector,
                    max_group_size: profile.max_group_size,
                    members_counted,
                    weights_disallowed: profile.weights_disallowed,
                },
            );
        }
        profiles
    }

    /// The fields of a key, each with its position in the program's key.
    fn keys(
        &mut self,
        name: &str,
        fields: &[config::MatchField],
        table: TableId,
        by_place: bool,
    ) -> Vec<Key> {
        let declared = &self.program.tables[table.index()].keys;
        let mut used = vec![false; declared.len()];
        let mut keys = Vec::new();
        for (n, field) in fields.iter().enumerate() {
            let free = |(place, key): &(usize, &p4jet_ir::Key)| {
                !used[*place] && (key.name == field.name || (by_place && *place == n))
            };
            let Some((place, key)) = declared.iter().enumerate().find(free) else {
                self.refuse(format!("the key of `{name}` has no {}", shown_field(field.id, &field.name)));
                continue;
            };
            used[place] = true;
            let found = match field.r#match {
                Some(Match::MatchType(kind)) => match MatchType::try_from(kind) {
                    Ok(MatchType::Exact) => Some(MatchKind::Exact),
                    Ok(MatchType::Lpm) => Some(MatchKind::Lpm),
                    Ok(MatchType::Ternary) => Some(MatchKind::Ternary),
                    Ok(MatchType::Range) => Some(MatchKind::Range),
                    Ok(MatchType::Optional) => Some(MatchKind::Optional),
                    Ok(MatchType::Unspecified) | Err(_) => None,
                },
                _ => None,
            };
            if found != Some(key.kind) {
                let found = found.map_or("no known match type", MatchKind::name);
                let expected = key.kind.name();
                self.refuse(format!(
                    "{} of `{name}` is {found} in the P4Info and {expected} in the program",
                    shown_field(field.id, &field.name)
                ));
            }
            let (kind, width) = (key.kind, key.width);
            let given = (field.id, field.name.as_str(), field.bitwidth);
            let field = self.field(name, given, field.type_name.as_ref(), width);
            keys.push(Key { field, kind, place, max: ones(width) });
        }
        for (key, _) in declared.iter().zip(&used).filter(|(_, used)| !**used) {
            self.refuse(format!("the P4Info lacks the field `{}` of `{name}`", key.name));
        }
        keys
    }

    fn tables(
        &mut self,
        actions: &BTreeMap<u32, Action>,
        profiles: &mut BTreeMap<u32, Profile>,
    ) -> BTreeMap<u32, Table> {
        let mut tables = BTreeMap::new();
        let counters = self.info.direct_counters.iter().map(|c| (&c.preamble, c.direct_table_id));
        let meters = self.info.direct_meters.iter().map(|m| (&m.preamble, m.direct_table_id));
        let directs = counters.chain(meters).map(|(preamble, table)| (id_of(preamble), table)).collect();
        // The types of direct meters, by table; the first of several counts.
        let mut meter_types = HashMap::new();
        for meter in &self.info.direct_meters {
            meter_types.entry(meter.direct_table_id).or_insert_with(|| meter_type(meter.spec.as_ref()));
        }
        for table in &self.info.tables {
            let Some(preamble) = &table.preamble else { continue };
            let name = &preamble.name;
            let Some(id) = self.tables.get(name.as_str()).copied() else {
                self.refuse(format!("the program has no table `{name}`"));
                continue;
            };
            let ir = &self.program.tables[id.index()];
            let shape = self.control.schema().shape(id);
            let (counter, meter) =
                (shape.direct_counters.first().copied(), shape.direct_meters.first().copied());
            let keys = self.keys(name, &table.match_fields, id, false);
            let mut by_index = vec![None; ir.actions.len()];
            let mut listed = Vec::new();
            for reference in &table.action_refs {
                let Some(action) = actions.get(&reference.id) else {
                    self.refuse(format!(
                        "`{name}` lists an action with the id {}, which is not in the P4Info",
                        reference.id
                    ));
                    continue;
                };
                let named = |listed: &p4jet_ir::TableAction| {
                    self.program.actions[listed.action.index()].control_name == action.name
                };
                let Some(index) = ir.actions.iter().position(named) else {
                    self.refuse(format!("the table `{name}` of the program has no action `{}`", action.name));
                    continue;
                };
                if by_index[index].is_some() {
                    self.refuse(format!("`{name}` lists the action `{}` twice", action.name));
                    continue;
                }
                by_index[index] = Some(listed.len());
                let scope = Scope::try_from(reference.scope).unwrap_or(Scope::TableAndDefault);
                let called = called(&self.program.actions[ir.actions[index].action.index()]);
                let counts =
                    counter.is_some_and(|counter| ir.direct.contains(&counter) || called.contains(&counter));
                let measures = meter.is_some_and(|meter| called.contains(&meter));
                let index = index as u32;
                listed.push(Listed { id: reference.id, index, scope, counts, measures });
            }
            self.check_references(table, name, ir, actions, &directs);
            let profile = (table.implementation_id != 0).then_some(table.implementation_id);
            if profile.is_some() != ir.profile.is_some() {
                self.refuse(format!("only one of P4Info and program gives `{name}` an action profile"));
            }
            if let Some(profile) = profile {
                match profiles.get_mut(&profile) {
                    None => self.refuse(format!(
                        "`{name}` has an action profile that is not in the P4Info: {profile}"
                    )),
                    Some(of) if Some(of.instance) != ir.profile => {
                        self.refuse(format!("`{name}` has another action profile in the program"));
                    }
                    Some(of) if !of.tables.contains(&preamble.id) => of.tables.push(preamble.id),
                    Some(_) => {}
                }
            }
            let size = if table.size == 0 { 1024 } else { table.size };
            if size != i64::from(ir.size) && !ir.const_entries && !ir.keys.is_empty() {
                self.refuse(format!(
                    "`{name}` has {size} entries in the P4Info and {} in the program",
                    ir.size
                ));
            }
            let has_timeouts = table.idle_timeout_behavior == IdleTimeoutBehavior::NotifyControl as i32;
            if has_timeouts != ir.idle_timeout {
                self.refuse(format!("only one of P4Info and program gives `{name}` idle timeouts"));
            }
            if table.is_const_table != ir.const_entries {
                self.refuse(format!("only one of P4Info and program gives `{name}` const entries"));
            }
            let fields = keys.iter().map(|key| Named {
                name: key.field.name.clone(),
                kind: match key.kind {
                    MatchKind::Exact => Kind::Exact,
                    MatchKind::Lpm => Kind::Lpm,
                    MatchKind::Ternary => Kind::Ternary,
                    MatchKind::Range => Kind::Range,
                    MatchKind::Optional => Kind::Optional,
                },
                width: match key.field.outside {
                    // SAI P4 compares strings as their numbers.
                    Outside::String(_) => key.field.width,
                    _ => key.field.outer_width(),
                },
            });
            let subject = Subject { fields: fields.collect(), is_table: true };
            let constraint = self.constraint(name, &preamble.annotations, "entry_restriction", subject);
            let mut by_key: HashMap<Vec<KeyMatch>, Vec<u32>> = HashMap::new();
            for (entry, handle) in ir.entries.iter().zip(0..) {
                by_key.entry(entry.key.clone()).or_default().push(handle);
            }
            for handles in by_key.values_mut() {
                handles.sort_by_key(|handle| ir.entries[*handle as usize].priority);
            }
            tables.insert(
                preamble.id,
                Table {
                    id: preamble.id,
                    name: name.clone(),
                    table: id,
                    keys,
                    has_priority: shape.needs_priority,
                    actions: listed,
                    default: ir.default.action,
                    by_index,
                    profile,
                    is_const: ir.const_entries,
                    const_default: ir.const_default,
                    idle_timeout: ir.idle_timeout,
                    of_program: ir
                        .entries
                        .iter()
                        .map(|e| (e.priority, e.shown_priority.max(1) as i32))
                        .collect(),
                    by_key,
                    counter,
                    meter,
                    meter_type: meter_types.get(&preamble.id).copied().unwrap_or_default(),
                    role: annotation_text(&preamble.annotations, "p4runtime_role"),
                    constraint,
                },
            );
        }
        tables
    }

    /// Checks the default action and the direct counters and meters that a table of the P4Info names. `directs` maps the ids of
    /// direct counters and meters to those of their tables.
    fn check_references(
        &mut self,
        table: &config::Table,
        name: &str,
        ir: &p4jet_ir::Table,
        actions: &BTreeMap<u32, Action>,
        directs: &HashMap<u32, u32>,
    ) {
        let default = ir.actions.get(ir.default.action as usize);
        let default = default.map_or("", |listed| &self.program.actions[listed.action.index()].control_name);
        let initial = table.initial_default_action.as_ref().map_or(0, |call| call.action_id);
        let named =
            [("const_default_action_id", table.const_default_action_id), ("initial_default_action", initial)];
        for (field, id) in named.into_iter().filter(|(_, id)| *id != 0) {
            let found = actions.get(&id).map(|action| action.name.as_str());
            let wrong = match found {
                None => "which is not in the P4Info".to_string(),
                Some(found) if found != default => format!("`{found}`"),
                Some(_) if field == "const_default_action_id" && !ir.const_default => {
                    self.refuse(format!(
                        "`{name}`: `{field}` is {id}, expected 0: the default action of the program is not const"
                    ));
                    continue;
                }
                Some(_) => continue,
            };
            self.reasons.push(|| {
                let known = actions.iter().find(|(_, action)| action.name == default);
                let expected = known.map_or("an action".to_string(), |(id, _)| id.to_string());
                format!(
                    "`{name}`: `{field}` is {id}, {wrong}, expected {expected}, the default action `{default}` of the program"
                )
            });
        }
        let own = id_of(&table.preamble);
        // The first wrong one is enough: there may be millions.
        for id in &table.direct_resource_ids {
            let wrong = match directs.get(id) {
                Some(table) if *table == own => continue,
                Some(_) => "that of another table",
                None => "which is not in the P4Info",
            };
            self.reasons.push(|| {
                let mut fit: Vec<u32> =
                    directs.iter().filter(|(_, of)| **of == own).map(|(id, _)| *id).collect();
                fit.sort_unstable();
                let fit = choices(fit.into_iter().map(|id| (id, "")));
                format!(
                    "`{name}`: `direct_resource_ids` has {id}, {wrong}; direct counters and meters of the table: {fit}"
                )
            });
            break;
        }
    }

    fn array(
        &mut self,
        kind: &str,
        name: &str,
        size: i64,
        found: Option<(InstanceId, u32)>,
    ) -> Option<Array> {
        match found {
            None => {
                self.refuse(format!("the program has no {kind} `{name}`"));
                None
            }
            Some((_, expected)) if i64::from(expected) != size => {
                self.refuse(format!(
                    "the {kind} `{name}` has {size} cells in the P4Info and {expected} in the program"
                ));
                None
            }
            Some((instance, size)) => {
                Some(Array { name: name.to_string(), instance, size, meter_type: MeterType::default() })
            }
        }
    }

    fn counters(&mut self) -> BTreeMap<u32, Array> {
        let mut arrays = BTreeMap::new();
        for counter in &self.info.counters {
            let name = name_of(&counter.preamble);
            let found = self.instance(&name, |kind| matches!(kind, InstanceKind::Counter { .. }));
            let found = found.and_then(|id| match self.program.instances[id.index()].kind {
                InstanceKind::Counter { size, .. } => Some((id, size)),
                _ => None,
            });
            let array = self.array("counter", &name, counter.size, found);
            self.check_counter_unit(&name, counter.spec.as_ref(), array.as_ref().map(|array| array.instance));
            arrays.extend(array.map(|array| (id_of(&counter.preamble), array)));
        }
        arrays
    }

    fn meters(&mut self) -> BTreeMap<u32, Array> {
        let mut arrays = BTreeMap::new();
        for meter in &self.info.meters {
            let name = name_of(&meter.preamble);
            let found = self.instance(&name, |kind| matches!(kind, InstanceKind::Meter { .. }));
            let found = found.and_then(|id| match self.program.instances[id.index()].kind {
                InstanceKind::Meter { size, .. } => Some((id, size)),
                _ => None,
            });
            let array = self.array("meter", &name, meter.size, found);
            self.check_meter_unit(&name, meter.spec.as_ref(), array.as_ref().map(|array| array.instance));
            let meter_type = meter_type(meter.spec.as_ref());
            arrays.extend(array.map(|array| (id_of(&meter.preamble), Array { meter_type, ..array })));
        }
        arrays
    }

    /// Refuses a counter with another unit than in the program. Both may leave it open.
    fn check_counter_unit(&mut self, name: &str, spec: Option<&config::CounterSpec>, of: Option<InstanceId>) {
        let found = spec.and_then(|spec| config::CounterUnit::try_from(spec.unit).ok()).unwrap_or_default();
        let unit = of.map(|of| &self.program.instances[of.index()].kind);
        let Some(InstanceKind::Counter { unit, .. } | InstanceKind::DirectCounter { unit, .. }) = unit else {
            return;
        };
        let expected = match unit {
            CounterUnit::Packets => config::CounterUnit::Packets,
            CounterUnit::Bytes => config::CounterUnit::Bytes,
            CounterUnit::Both => config::CounterUnit::Both,
        };
        if found != expected && found != config::CounterUnit::Unspecified {
            self.refuse(format!(
                "the counter `{name}` has the unit {found:?} in the P4Info and {expected:?} in the program"
            ));
        }
    }

    /// The same for a meter.
    fn check_meter_unit(&mut self, name: &str, spec: Option<&config::MeterSpec>, of: Option<InstanceId>) {
        let found = spec.and_then(|spec| config::MeterUnit::try_from(spec.unit).ok()).unwrap_or_default();
        let unit = of.map(|of| &self.program.instances[of.index()].kind);
        let Some(InstanceKind::Meter { unit, .. } | InstanceKind::DirectMeter { unit, .. }) = unit else {
            return;
        };
        let expected = match unit {
            CounterUnit::Bytes => config::MeterUnit::Bytes,
            CounterUnit::Packets | CounterUnit::Both => config::MeterUnit::Packets,
        };
        if found != expected && found != config::MeterUnit::Unspecified {
            self.refuse(format!(
                "the meter `{name}` has the unit {found:?} in the P4Info and {expected:?} in the program"
            ));
        }
    }

    /// Finds direct counters and meters by their tables.
    fn check_directs(&mut self, tables: &BTreeMap<u32, Table>) {
        for counter in &self.info.direct_counters {
            let instance = tables.get(&counter.direct_table_id).and_then(|table| table.counter);
            self.check_counter_unit(&name_of(&counter.preamble), counter.spec.as_ref(), instance);
        }
        for meter in &self.info.direct_meters {
            let instance = tables.get(&meter.direct_table_id).and_then(|table| table.meter);
            self.check_meter_unit(&name_of(&meter.preamble), meter.spec.as_ref(), instance);
        }
        let counters = self.info.direct_counters.iter().map(|c| (&c.preamble, c.direct_table_id, true));
        let meters = self.info.direct_meters.iter().map(|m| (&m.preamble, m.direct_table_id, false));
        let known: BTreeSet<u32> = self.info.tables.iter().map(|table| id_of(&table.preamble)).collect();
        for (preamble, id, counts) in counters.chain(meters) {
            let name = name_of(preamble);
            if !known.contains(&id) {
                self.refuse(format!("`{name}` belongs to a table that is not in the P4Info: {id}"));
            }
            // Tables that the program lacks are refused as such.
            let Some(table) = tables.get(&id) else { continue };
            let (what, found) = if counts { ("counter", table.counter) } else { ("meter", table.meter) };
            if found.is_none() {
                self.refuse(format!("`{name}`: `{}` has no direct {what} in the program", table.name));
            }
        }
    }

    /// Checks that the types of registers and digests can be used, and have as many bits as in the program.
    fn check_types(&mut self) {
        let (info, program, none) = (self.info, self.program, P4TypeInfo::default());
        let uris: Vec<String> = self.uris.iter().map(|(uri, _)| uri.clone()).collect();
        let types = Types {
            info: info.type_info.as_ref().unwrap_or(&none),
            program,
            uris: &uris,
            strings: &Strings::default(),
            has_validity: true,
        };
        let kind = |id: InstanceId| &program.instances[id.index()].kind;
        let mut sizes = Sizes::new(types);
        for register in &info.registers {
            let name = name_of(&register.preamble);
            let found = self.instance(&name, |kind| matches!(kind, InstanceKind::Register { .. }));
            let width = found.and_then(|id| match kind(id) {
                InstanceKind::Register { width, .. } => Some(u64::from(*width)),
                _ => None,
            });
            let what = format!("a cell of the register `{name}`");
            self.check_size(&mut sizes, &what, register.type_spec.as_ref(), width);
        }
        // Headers in a digest are valid.
        let mut sizes = Sizes::new(Types { has_validity: false, ..types });
        for digest in &info.digests {
            let name = name_of(&digest.preamble);
            let found = self.instance(&name, |kind| matches!(kind, InstanceKind::Digest { .. }));
            let width = found.and_then(|id| match kind(id) {
                InstanceKind::Digest { fields } => {
                    Some(fields.iter().map(|(_, width)| u64::from(*width)).sum())
                }
                _ => None,
            });
            let what = format!("the digest `{name}`");
            self.check_size(&mut sizes, &what, digest.type_spec.as_ref(), width);
        }
    }

    /// Checks the size of a type that has this many bits in the program.
    fn check_size<'s>(
        &mut self,
        sizes: &mut Sizes<'s>,
        what: &str,
        spec: Option<&'s P4DataTypeSpec>,
        width: Option<u64>,
    ) {
        let Some(size) = spec.map(|spec| sizes.of(spec)) else { return };
        match (size, width) {
            (Err(why), _) => self.refuse(format!("{what}, {}: {why}", shown_type(spec))),
            (Ok(Size { bits: Some(found), .. }), Some(width)) if found != width => {
                self.refuse(format!("{what} has {found} bits in the P4Info and {width} in the program"));
            }
            (Ok(Size { values, .. }), _) if values > VALUES_MAX => {
                let shown = shown_type(spec);
                self.refuse(format!("{what}, {shown}, has {values} values, the limit is {VALUES_MAX}"));
            }
            _ => {}
        }
    }

    fn registers(&mut self) -> BTreeMap<u32, Register> {
        let mut registers = BTreeMap::new();
        for register in &self.info.registers {
            let name = name_of(&register.preamble);
            let found = self.instance(&name, |kind| matches!(kind, InstanceKind::Register { .. }));
            let kind = found.map(|id| (id, &self.program.instances[id.index()].kind));
            let Some((instance, InstanceKind::Register { size, .. })) = kind else {
                self.refuse(format!("the program has no register `{name}`"));
                continue;
            };
            let size = *size;
            if i64::from(register.size) != i64::from(size) {
                self.refuse(format!(
                    "the register `{name}` has {} cells in the P4Info and {size} in the program",
                    register.size
                ));
            }
            let spec = register.type_spec.clone().unwrap_or_default();
            registers.insert(id_of(&register.preamble), Register { name, instance, size, spec });
        }
        registers
    }

    fn value_sets(&mut self) -> BTreeMap<u32, ValueSet> {
        let mut sets = BTreeMap::new();
        for set in &self.info.value_sets {
            let name = name_of(&set.preamble);
            let Some(table) = self.value_sets.get(name.as_str()).copied() else {
                self.refuse(format!("the program has no value set `{name}`"));
                continue;
            };
            // The only field of a set of numbers has no name.
            let keys = self.keys(&name, &set.r#match, table, true);
            let size = self.program.tables[table.index()].size;
            if set.size != i32::try_from(size).unwrap_or(i32::MAX) {
                self.refuse(format!(
                    "the value set `{name}` has the size {} in the P4Info and {size} in the program",
                    set.size
                ));
            }
            sets.insert(id_of(&set.preamble), ValueSet { name, table, keys, size: set.size });
        }
        sets
    }
}

impl Pipeline {
    /// Calls `then` with the types of the P4Info.
    pub(crate) fn with_types<T>(
        &self,
        control: &Control,
        has_validity: bool,
        then: impl FnOnce(&crate::data::Types<'_>) -> T,
    ) -> T {
        let none = P4TypeInfo::default();
        let (info, program) = (self.p4info.type_info.as_ref().unwrap_or(&none), control.program());
        then(&crate::data::Types { info, program, uris: &self.uris, strings: &self.strings, has_validity })
    }
}
