//! Describes the objects of a program.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use p4jet_analysis::control_names::{self, NameSpace, ObjectKind};
use p4jet_analysis::substitute;
use p4jet_analysis::typed::{
    ActionId, ActionRef as TypedActionRef, Expr, Local, Program, Table as TypedTable, TableId, Type,
    ValueSetId,
};
use p4jet_suggest as suggest;
use p4jet_syntax::ast::{Annotation, AnnotationBody, Direction, ExprKind as AstExprKind, StructKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

use crate::annotations::{self, Shown, find, shown};
use crate::blocks::{Blocks, Const, ExternObject, Object, ScopeId, full_name};
use crate::constraints::{self, Constraint, Subject};
use crate::ids::{BadId, Symbols};
use crate::proto::config::{
    Action, ActionParam, ActionProfile, ActionRef, ControllerPacketMetadata, Counter, CounterSpec,
    CounterUnit, Digest, DirectCounter, DirectMeter, Documentation, IdleTimeoutBehavior, Match, MatchField,
    MatchType, Metadata, Meter, MeterSpec, MeterType, MeterUnit, P4Info, P4NamedType, PkgInfo,
    PlatformProperties, Preamble, Prefix, Register, Scope, SelectorSizeSemantics, SumOfMembers, SumOfWeights,
    Table, TableActionCall, TableActionCallArgument, ValueSet,
};
use crate::types::{Types, flat_fields, padded};

/// The size of a table that declares none, or 0.
const SIZE_DEFAULT: i64 = 1_024;

/// The match kind of keys that select a member of a group and are not part of the key.
const SELECTOR: &str = "selector";

/// Annotations of action profiles that P4Info has fields for.
const PROFILE_ANNOTATIONS: [&str; 3] = ["max_group_size", "selector_size_semantics", "max_member_weight"];

/// An architecture's names for the objects that P4Info describes.
struct Vocabulary {
    counter: &'static str,
    direct_counter: &'static str,
    meter: &'static str,
    direct_meter: &'static str,
    register: &'static str,
    profile: &'static str,
    selector: &'static str,
    /// Extern type whose instances are digests.
    digest: Option<&'static str>,
    /// Extern function whose calls are digests.
    digest_function: Option<&'static str>,
    /// Constructor parameters with the number of cells.
    counter_size: &'static str,
    meter_size: &'static str,
    /// True if counters, meters and registers have the type of their index as last type argument.
    index_types: bool,
    /// Table properties.
    implementation: &'static str,
    counters: &'static str,
    meters: &'static str,
    timeout: &'static str,
}

const V1MODEL: Vocabulary = Vocabulary {
    counter: "counter",
    direct_counter: "direct_counter",
    meter: "meter",
    direct_meter: "direct_meter",
    register: "register",
    profile: "action_profile",
    selector: "action_selector",
    digest: None,
    digest_function: Some("digest"),
    counter_size: "size",
    meter_size: "size",
    index_types: false,
    implementation: "implementation",
    counters: "counters",
    meters: "meters",
    timeout: "support_timeout",
};

const PSA: Vocabulary = Vocabulary {
    counter: "Counter",
    direct_counter: "DirectCounter",
    meter: "Meter",
    direct_meter: "DirectMeter",
    register: "Register",
    profile: "ActionProfile",
    selector: "ActionSelector",
    digest: Some("Digest"),
    digest_function: None,
    counter_size: "n_counters",
    meter_size: "n_meters",
    index_types: true,
    implementation: "psa_implementation",
    counters: "psa_direct_counter",
    meters: "psa_direct_meter",
    timeout: "psa_idle_timeout",
};

fn local_actions(program: &Program) -> HashSet<ActionId> {
    let locals = program.controls.iter().filter_map(|c| c.body.as_ref()).flat_map(|b| &b.locals);
    let action = |local: &Local| match local {
        Local::Action(id) => Some(*id),
        _ => None,
    };
    locals.filter_map(action).collect()
}

/// A table in an instance of a control.
pub(crate) struct FoundTable {
    pub(crate) scope: ScopeId,
    pub(crate) id: TableId,
    pub(crate) name: String,
}

/// A direct resource or action profile of a table.
struct Resource {
    name: String,
    /// The object.
    object: ExternObject,
    /// True if the table's property constructs it.
    in_place: bool,
}

#[derive(Default)]
pub(crate) struct Found {
    pub(crate) tables: Vec<FoundTable>,
    /// An action, and whether a table lists it: otherwise it has no parameters for the control plane.
    actions: Vec<(String, ActionId, ScopeId, bool)>,
    externs: Vec<ExternObject>,
    value_sets: Vec<(String, ScopeId, ValueSetId)>,
    digests: Vec<(String, Type, Span)>,
    /// Keyed by the full name of the table.
    profiles: HashMap<String, Resource>,
    counters: HashMap<String, Resource>,
    meters: HashMap<String, Resource>,
}

pub(crate) struct Generator<'a> {
    pub(crate) program: &'a Program,
    words: &'static Vocabulary,
    pub(crate) blocks: Blocks<'a>,
    pub(crate) types: Types<'a>,
    pub(crate) symbols: Symbols,
    local_actions: HashSet<ActionId>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) constraint_errors: Vec<Diagnostic>,
    pub(crate) info: P4Info,
    /// Each name, with the first object that has it.
    names: HashMap<(NameSpace, String), (ObjectKind, Span)>,
}

/// The kind of the objects whose ids have this prefix.
fn object_kind(prefix: Prefix) -> ObjectKind {
    match prefix {
        Prefix::Table => ObjectKind::Table,
        Prefix::Action => ObjectKind::Action,
        Prefix::ActionProfile => ObjectKind::ActionProfile,
        Prefix::Counter => ObjectKind::Counter,
        Prefix::DirectCounter => ObjectKind::DirectCounter,
        Prefix::Meter => ObjectKind::Meter,
        Prefix::DirectMeter => ObjectKind::DirectMeter,
        Prefix::ControllerHeader => ObjectKind::ControllerHeader,
        Prefix::ValueSet => ObjectKind::ValueSet,
        Prefix::Digest => ObjectKind::Digest,
        Prefix::Register => ObjectKind::Register,
        Prefix::Unspecified | Prefix::PsaExternsStart | Prefix::OtherExternsStart | Prefix::Max => {
            unreachable!("no object has such an id")
        }
    }
}

/// The calls of v1model's `digest` whose data have no named type, in the order of their numbers: the place of each, the type of its
/// data, which may differ where a function has type parameters, and the name of the digest.
#[derive(Debug, Default)]
pub struct Numbered(Vec<(Span, Type, String)>);

impl Numbered {
    /// Finds those of a program.
    pub fn of(program: &Program) -> Self {
        let mut numbered = Numbered::default();
        let blocks = program.main.and_then(|main| Blocks::of(program, main).ok());
        for (function, types, span) in blocks.map(|blocks| blocks.calls).unwrap_or_default() {
            if Some(function) == V1MODEL.digest_function
                && let Some(ty) = types.first().filter(|ty| program.control_name(ty).is_none())
            {
                numbered.add(span, ty);
            }
        }
        numbered
    }

    /// Returns the name of a call's digest. A call that is not known, such as one in a parser, which P4Info lacks, gets the next
    /// number.
    pub fn add(&mut self, span: Span, ty: &Type) -> String {
        let known = self.0.iter().find(|(known, of, _)| *known == span && of == ty);
        if let Some((_, _, name)) = known {
            return name.clone();
        }
        let name = format!("digest_{}", self.0.len());
        self.0.push((span, ty.clone(), name.clone()));
        name
    }
}

impl<'a> Generator<'a> {
    pub(crate) fn new(program: &'a Program, arch: &str, blocks: Blocks<'a>) -> Generator<'a> {
        Generator {
            program,
            words: if arch == "psa" { &PSA } else { &V1MODEL },
            blocks,
            types: Types { program, info: None, errors: Vec::new() },
            symbols: Symbols::default(),
            local_actions: local_actions(program),
            warnings: Vec::new(),
            constraint_errors: Vec::new(),
            info: P4Info::default(),
            names: HashMap::new(),
        }
    }

    fn error(&mut self, error: Diagnostic) {
        self.types.errors.push(error);
    }

    fn warn(&mut self, code: &'static str, span: Span, text: String) {
        self.warnings.push(Diagnostic::warning(code, span, text));
    }

    pub(crate) fn action_name(&self, id: ActionId, scope: ScopeId) -> String {
        let action = &self.program.actions[id.index()];
        let path = if self.local_actions.contains(&id) { self.blocks.scope(scope).path.as_str() } else { "" };
        full_name(path, &action.control_name)
    }

    // -----------------------------------------------------------------------------------------------------------------
    // The objects

    pub(crate) fn collect(&mut self) -> Found {
        let mut found = Found::default();
        let program = self.program;
        for (scope, id) in self.blocks.tables.clone() {
            let table = &program.tables[id.index()];
            let name = full_name(&self.blocks.scope(scope).path, &table.control_name);
            self.add(Prefix::Table, &name, &table.annotations, table.span);
            for listed in table.actions.iter().map(|a| &a.action).chain([&table.default]) {
                let action = &program.actions[listed.action.index()];
                let name = self.action_name(listed.action, scope);
                if !found.actions.iter().any(|(known, ..)| *known == name) {
                    self.add(Prefix::Action, &name, &action.annotations, action.span);
                    found.actions.push((name, listed.action, scope, true));
                }
            }
            let words = self.words;
            if let Some(resource) =
                self.resource(table, scope, &name, words.implementation, &[words.profile, words.selector])
            {
                found.profiles.insert(name.clone(), resource);
            }
            if let Some(resource) =
                self.resource(table, scope, &name, words.counters, &[words.direct_counter])
            {
                found.counters.insert(name.clone(), resource);
            }
            if let Some(resource) = self.resource(table, scope, &name, words.meters, &[words.direct_meter]) {
                found.meters.insert(name.clone(), resource);
            }
            found.tables.push(FoundTable { scope, id, name });
        }
        for (scope, id) in self.blocks.called.clone() {
            let action = &program.actions[id.index()];
            let name = self.action_name(id, scope);
            if !found.actions.iter().any(|(known, ..)| *known == name) {
                self.add(Prefix::Action, &name, &action.annotations, action.span);
                found.actions.push((name, id, scope, false));
            }
        }
        for (kind, resources) in [
            (Prefix::ActionProfile, &found.profiles),
            (Prefix::DirectCounter, &found.counters),
            (Prefix::DirectMeter, &found.meters),
        ] {
            for resource in resources.values().filter(|r| r.in_place) {
                // It has no `@id`, so the call cannot fail.
                let _ = self.symbols.add(kind, &resource.name, None);
            }
        }
        for object in self.blocks.externs.clone() {
            let Object::Extern(object) = self.blocks.object(object).clone() else { continue };
            if let Some(kind) = self.kind(&object)
                && let Some(instance) = object.instance
            {
                let annotations = &program.instances[instance.index()].annotations;
                self.add(kind, &object.name, annotations, object.span);
            }
            found.externs.push(object);
        }
        for (scope, id) in self.blocks.value_sets.clone() {
            let set = &program.value_sets[id.index()];
            let name = full_name(&self.blocks.scope(scope).path, &set.name);
            self.add(Prefix::ValueSet, &name, &set.annotations, set.span);
            found.value_sets.push((name, scope, id));
        }
        for header in
            program.structs.iter().filter(|s| s.kind == StructKind::Header && s.type_params.is_empty())
        {
            if find(&header.annotations, "controller_header").is_some() {
                let name = annotations::name(&header.annotations, &header.name);
                self.add(Prefix::ControllerHeader, &name, &header.annotations, header.span);
            }
        }
        self.collect_digests(&mut found);
        found
    }

    /// The digests of v1model are calls.
    fn collect_digests(&mut self, found: &mut Found) {
        let calls = std::mem::take(&mut self.blocks.calls);
        if !calls.is_empty() && self.words.digest_function.is_some() {
            self.types.info.get_or_insert_default();
        }
        let mut numbered = Numbered::default();
        for (function, types, span) in calls {
            let Some(ty) = types.into_iter().next().filter(|_| Some(function) == self.words.digest_function)
            else {
                continue;
            };
            let name = self.program.control_name(&ty).unwrap_or_else(|| numbered.add(span, &ty));
            if !found.digests.iter().any(|(known, ..)| *known == name) {
                let _ = self.symbols.add(Prefix::Digest, &name, None);
                found.digests.push((name, ty, span));
            }
        }
    }

    fn add(&mut self, kind: Prefix, name: &str, annotations: &[Annotation], span: Span) {
        let id = annotations::id(annotations, &mut self.types.errors);
        let Err(bad) = self.symbols.add(kind, name, id) else { return };
        let span = find(annotations, "id").map_or(span, |a| a.span);
        let error = match bad {
            BadId::Prefix(prefix) => {
                let text = format!("the highest byte of this `@id` is not that of the kind of `{name}`");
                Diagnostic::error("annotation", span, text).note(format!(
                    "ids of this kind start with 0x{:02x}; write that, or 0 to have it filled in",
                    prefix >> 24
                ))
            }
            BadId::Taken => {
                let text = format!("the `@id` of `{name}` is also that of another object of its kind");
                Diagnostic::error("annotation", span, text).note("each object of a kind needs a different id")
            }
            BadId::Zero => Diagnostic::error("annotation", span, format!("the `@id` of `{name}` is 0"))
                .note("an id is a number from 1 to 0xffffff, perhaps with the byte of its kind before it"),
        };
        self.error(error);
    }

    fn kind(&self, object: &ExternObject) -> Option<Prefix> {
        let (words, name) = (self.words, self.program.externs[object.ext.index()].name.as_str());
        Some(match name {
            _ if name == words.counter => Prefix::Counter,
            _ if name == words.direct_counter => Prefix::DirectCounter,
            _ if name == words.meter => Prefix::Meter,
            _ if name == words.direct_meter => Prefix::DirectMeter,
            _ if name == words.register => Prefix::Register,
            _ if name == words.profile || name == words.selector => Prefix::ActionProfile,
            _ if Some(name) == words.digest => Prefix::Digest,
            _ => return None,
        })
    }

    /// Returns the object that a table's property names.
    fn resource(
        &mut self,
        table: &TypedTable,
        scope: ScopeId,
        table_name: &str,
        property: &str,
        types: &[&str],
    ) -> Option<Resource> {
        let (_, value) = table.properties.iter().find(|(name, _)| name == property)?;
        let Const::Object(object) = self.blocks.value(value, scope) else { return None };
        let Object::Extern(object) = self.blocks.object(object).clone() else { return None };
        let of = self.program.externs[object.ext.index()].name.as_str();
        if !types.contains(&of) {
            let text = format!("property `{property}` of table `{}` is an object of type `{of}`", table.name);
            self.error(Diagnostic::error("table", value.span, text).choices("types of this property", types));
            return None;
        }
        let in_place = object.instance.is_none();
        let name = match in_place {
            false => object.name.clone(),
            true => {
                let own = table.property_annotations.iter().find(|(name, _)| name == property);
                match own.and_then(|(_, annotations)| find(annotations, "name")).and_then(annotations::text) {
                    // Like p4c, without the names of the enclosing controls.
                    Some(name) => full_name("", &name),
                    // The name that runtime commands use.
                    None => format!("{table_name}.{property}"),
                }
            }
        };
        Some(Resource { name, object, in_place })
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Their descriptions

    pub(crate) fn describe(&mut self, found: &Found) {
        for table in &found.tables {
            self.table(table, found);
        }
        for (name, id, scope, listed) in &found.actions {
            self.action(name, *id, *scope, *listed);
        }
        let mut profiles: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (table, resource) in &found.profiles {
            profiles.entry(&resource.name).or_default().insert(table);
        }
        for object in &found.externs {
            self.extern_object(object, &profiles);
        }
        for table in &found.tables {
            if let Some(resource) = found.profiles.get(&table.name).filter(|r| r.in_place) {
                let declared = &self.program.tables[table.id.index()];
                let own =
                    declared.property_annotations.iter().find(|(name, _)| name == self.words.implementation);
                let annotations = own.map_or(&[][..], |(_, annotations)| annotations);
                self.profile(&resource.name, &resource.object, annotations, &profiles);
            }
        }
        for (name, scope, id) in &found.value_sets {
            self.value_set(name, *scope, *id);
        }
        for (name, ty, span) in &found.digests {
            let preamble = Some(self.claimed(Prefix::Digest, name, *span, &[], &[]));
            let type_spec = Some(self.types.spec(ty, *span));
            self.info.digests.push(Digest { preamble, type_spec });
        }
        self.controller_headers();
    }

    fn shown(&mut self, annotations: &[Annotation], hidden: &[&str]) -> Shown {
        shown(self.program, annotations, hidden, &mut self.types.errors)
    }

    /// The preamble of an object at `span`, whose name must differ from others.
    fn claimed(
        &mut self,
        kind: Prefix,
        name: &str,
        span: Span,
        annotations: &[Annotation],
        hidden: &[&str],
    ) -> Preamble {
        self.claim(kind, name, span);
        self.preamble(kind, name, annotations, hidden)
    }

    /// Gives a name to an object. Reports another one that P4Runtime could not distinguish from it.
    fn claim(&mut self, kind: Prefix, name: &str, span: Span) {
        let kind = object_kind(kind);
        let mut earlier = None;
        for space in kind.spaces() {
            match self.names.entry((*space, name.to_string())) {
                Entry::Vacant(vacant) => {
                    vacant.insert((kind, span));
                }
                Entry::Occupied(occupied) => {
                    earlier.get_or_insert(*occupied.get());
                }
            }
        }
        let Some((first, first_span)) = earlier else { return };
        let error = control_names::duplicate(name, first, kind, span);
        let error = match first_span == span {
            true => error.note("its declaration is instantiated twice under one name"),
            false => error.related(first_span, "the first is here"),
        };
        self.error(error.note("give one of them another name: `@name(\"…\")`"));
    }

    fn preamble(
        &mut self,
        kind: Prefix,
        name: &str,
        annotations: &[Annotation],
        hidden: &[&str],
    ) -> Preamble {
        let shown = self.shown(annotations, hidden);
        Preamble {
            id: self.symbols.id(kind, name),
            name: name.to_string(),
            alias: self.symbols.alias(name),
            annotations: shown.texts,
            doc: shown.doc,
            structured_annotations: shown.structured,
            ..Preamble::default()
        }
    }

    /// Returns the ids of fields: those of `@id`, and for the others the next positions that are free.
    pub(crate) fn field_ids<'n>(
        &mut self,
        fields: impl Iterator<Item = (&'n [Annotation], Span)> + Clone,
    ) -> Vec<u32> {
        let mut taken = HashSet::new();
        let mut ids = Vec::new();
        for (annotations, span) in fields {
            let id = annotations::id(annotations, &mut self.types.errors);
            if let Some(id) = id {
                let wrong = match id {
                    0 => Some("0 is not an `@id`".to_string()),
                    _ if !taken.insert(id) => Some(format!("`@id` {id} is given twice")),
                    _ => None,
                };
                if let Some(text) = wrong {
                    let span = find(annotations, "id").map_or(span, |a| a.span);
                    self.error(
                        Diagnostic::error("annotation", span, text)
                            .note("each field, parameter or key needs a different positive number"),
                    );
                }
            }
            ids.push(id);
        }
        let mut next = 1;
        ids.into_iter()
            .map(|id| match id {
                Some(id) => {
                    next += 1;
                    id
                }
                None => {
                    while !taken.insert(next) {
                        next += 1;
                    }
                    next
                }
            })
            .collect()
    }

    fn table(&mut self, found: &FoundTable, all: &Found) {
        let program = self.program;
        let table = &program.tables[found.id.index()];
        if find(&table.annotations, "hidden").is_some() {
            return;
        }
        self.types.info.get_or_insert_default();
        let preamble = Some(self.claimed(Prefix::Table, &found.name, table.span, &table.annotations, &[]));
        // A hidden object has no name for clients.
        let hidden = |id: ActionId| find(&program.actions[id.index()].annotations, "hidden").is_some();
        let default = self.action_name(table.default.action, found.scope);
        let default =
            if hidden(table.default.action) { 0 } else { self.symbols.id(Prefix::Action, &default) };
        let mut out = Table {
            preamble,
            size: self.table_size(table, found.scope),
            const_default_action_id: if table.const_default { default } else { 0 },
            initial_default_action: (default != 0).then(|| TableActionCall {
                action_id: default,
                arguments: self.arguments(&table.default, found.scope),
            }),
            is_const_table: table.const_entries,
            has_initial_entries: !table.entries.is_empty(),
            ..Table::default()
        };
        let mut fields = Vec::new();
        let ids = self.field_ids(table.keys.iter().map(|k| (&k.annotations[..], k.span)));
        for (key, id) in table.keys.iter().zip(ids) {
            if key.match_kind == SELECTOR {
                continue;
            }
            let ty = self.blocks.substituted(&key.expr.ty, found.scope);
            let shown = self.shown(&key.annotations, &[]);
            if let Some(kind) = constraints::Kind::of_match(&key.match_kind) {
                let (name, width) = (key.name.clone(), self.types.compared_width(&ty));
                fields.push(constraints::Field { name, kind, width });
            }
            out.match_fields.push(MatchField {
                id,
                name: key.name.clone(),
                annotations: shown.texts,
                bitwidth: self.width(&ty, key.span, "a key"),
                r#match: Some(matching(&key.match_kind)),
                doc: shown.doc,
                type_name: self.types.named(&ty, key.span),
                structured_annotations: shown.structured,
                ..MatchField::default()
            });
        }
        let listed_default = table.actions.iter().any(|a| a.action.action == table.default.action);
        for listed in table.actions.iter().filter(|listed| !hidden(listed.action.action)) {
            let name = self.action_name(listed.action.action, found.scope);
            let has = |name: &str| find(&listed.annotations, name).is_some();
            let scope = match (has("tableonly"), has("defaultonly")) {
                (true, true) => {
                    let text = format!("action `{name}` is both `@tableonly` and `@defaultonly`");
                    self.error(
                        Diagnostic::error("annotation", listed.action.span, text).note("drop one of them"),
                    );
                    Scope::TableOnly
                }
                (true, false) => Scope::TableOnly,
                (false, true) => Scope::DefaultOnly,
                (false, false) => Scope::TableAndDefault,
            };
            let shown = self.shown(&listed.annotations, &[]);
            out.action_refs.push(ActionRef {
                id: self.symbols.id(Prefix::Action, &name),
                scope: scope as i32,
                annotations: shown.texts,
                structured_annotations: shown.structured,
                ..ActionRef::default()
            });
        }
        if !listed_default && default != 0 {
            // The default `NoAction`, which the program need not list.
            out.action_refs.push(ActionRef {
                id: default,
                scope: Scope::DefaultOnly as i32,
                annotations: vec!["@defaultonly".to_string()],
                ..ActionRef::default()
            });
        }
        if let Some(profile) = all.profiles.get(&found.name) {
            out.implementation_id = self.symbols.id(Prefix::ActionProfile, &profile.name);
        }
        if let Some(counter) = all.counters.get(&found.name) {
            out.direct_resource_ids.push(self.direct_counter(counter, &found.name));
        }
        if let Some(meter) = all.meters.get(&found.name) {
            out.direct_resource_ids.push(self.direct_meter(meter, &found.name));
        }
        if self.times_out(table, found.scope) {
            out.idle_timeout_behavior = IdleTimeoutBehavior::NotifyControl as i32;
        }
        let subject = Subject { fields, is_table: true };
        self.check_constraint(&found.name, &table.annotations, "entry_restriction", &subject);
        self.info.tables.push(out);
    }

    fn table_size(&mut self, table: &TypedTable, scope: ScopeId) -> i64 {
        let size = match table.size {
            Some(size) => i64::from(size),
            None => match table.properties.iter().find(|(name, _)| name == "size") {
                Some((_, size)) => match self.blocks.value(size, scope) {
                    Const::Int(size) => size.to_i64().unwrap_or(i64::MAX),
                    _ => 0,
                },
                None => 0,
            },
        };
        if size > 0 { size } else { SIZE_DEFAULT }
    }

    fn times_out(&mut self, table: &TypedTable, scope: ScopeId) -> bool {
        let Some((_, value)) = table.properties.iter().find(|(name, _)| name == self.words.timeout) else {
            return false;
        };
        match self.blocks.value(value, scope) {
            Const::Bool(timeout) => timeout,
            Const::Member(id, member) => self.member(id, member) == "NOTIFY_CONTROL",
            _ => false,
        }
    }

    fn member(&self, id: p4jet_analysis::typed::EnumId, member: u32) -> &str {
        self.program.enums[id.index()].members.get(member as usize).map_or("", |(name, _)| name)
    }

    /// Returns the width that the control plane sees, and reports types without one.
    fn width(&mut self, ty: &Type, span: Span, what: &str) -> i32 {
        match self.types.width(ty) {
            Some(width) => width as i32,
            None => {
                self.error(
                    Diagnostic::unsupported(span, format_args!("{what} of this type in P4Info")).note(
                        "P4Runtime has numbers of fixed width, `bool`, `error`, and enums with an underlying type here: write \
                         `enum bit<8> E { … }`",
                    ),
                );
                0
            }
        }
    }

    /// Returns the arguments of an action as the control plane would give them.
    fn arguments(&mut self, action: &TypedActionRef, scope: ScopeId) -> Vec<TableActionCallArgument> {
        let bound = self.bound(action, scope);
        bound.into_iter().map(|(param_id, value)| TableActionCallArgument { param_id, value }).collect()
    }

    /// Returns the ids and values of an action's arguments that are action data.
    pub(crate) fn bound(&mut self, action: &TypedActionRef, scope: ScopeId) -> Vec<(u32, Bytes)> {
        let program = self.program;
        let params = &program.actions[action.action.index()].params;
        let span = action.span;
        let data = || params.iter().filter(|p| p.dir == Direction::None);
        let ids = self.field_ids(data().map(|p| (&p.annotations[..], span)));
        let args = params.iter().zip(&action.args).filter(|(p, _)| p.dir == Direction::None);
        let mut out = Vec::new();
        for ((param, arg), id) in args.zip(ids) {
            let Some(arg) = arg else { continue };
            let ty = self.blocks.substituted(&program.vars[param.var.index()].ty, scope);
            if let Some(value) = self.bytes(arg, &ty, scope) {
                out.push((id, value));
            }
        }
        out
    }

    /// Returns a compile-time value as the control plane would give it.
    pub(crate) fn bytes(&mut self, value: &Expr, ty: &Type, scope: ScopeId) -> Option<Bytes> {
        let number = self.number(value, scope)?;
        let width = self.types.width(ty).unwrap_or(0);
        Some(padded(&number, width))
    }

    /// Returns a compile-time value as a number, and reports others.
    pub(crate) fn number(&mut self, value: &Expr, scope: ScopeId) -> Option<BigInt> {
        match self.blocks.value(value, scope) {
            Const::Int(n) => Some(n),
            Const::Bool(b) => Some(BigInt::from(u8::from(b))),
            _ => {
                self.error(
                    Diagnostic::unsupported(value.span, "a value of this type for the control plane")
                        .note("P4Runtime has numbers and `bool` here"),
                );
                None
            }
        }
    }

    fn action(&mut self, name: &str, id: ActionId, scope: ScopeId, listed: bool) {
        let program = self.program;
        let action = &program.actions[id.index()];
        if find(&action.annotations, "hidden").is_some() {
            return;
        }
        let preamble = Some(self.claimed(Prefix::Action, name, action.span, &action.annotations, &[]));
        let data = || action.params.iter().filter(|p| listed && p.dir == Direction::None);
        let ids = self.field_ids(data().map(|p| (&p.annotations[..], action.span)));
        let (mut params, mut fields) = (Vec::new(), Vec::new());
        for (param, id) in data().zip(ids) {
            let var = &program.vars[param.var.index()];
            let ty = self.blocks.substituted(&var.ty, scope);
            let shown = self.shown(&param.annotations, &[]);
            let without_width = matches!(&ty, Type::Enum(e) if program.enums[e.index()].underlying.is_none());
            let type_name = match &ty {
                Type::Enum(e) if without_width => {
                    self.types.spec(&ty, var.span);
                    let declared = &program.enums[e.index()];
                    Some(P4NamedType { name: annotations::name(&declared.annotations, &declared.name) })
                }
                ty => self.types.named(ty, var.span),
            };
            let name = param.control_name.strip_prefix('.').unwrap_or(&param.control_name).to_string();
            let width = self.types.compared_width(&ty);
            fields.push(constraints::Field { name: name.clone(), kind: constraints::Kind::Number, width });
            params.push(ActionParam {
                id,
                name,
                annotations: shown.texts,
                bitwidth: if without_width { 0 } else { self.width(&ty, var.span, "a parameter") },
                doc: shown.doc,
                type_name,
                structured_annotations: shown.structured,
                ..ActionParam::default()
            });
        }
        let subject = Subject { fields, is_table: false };
        self.check_constraint(name, &action.annotations, "action_restriction", &subject);
        self.info.actions.push(Action { preamble, params });
    }

    /// Checks a constraint, and reports the place of an error in the source.
    fn check_constraint(&mut self, of: &str, given: &[Annotation], name: &str, subject: &Subject) {
        let Some(annotation) = find(given, name) else { return };
        let Some(text) = constraints::annotation_text(&[annotations::written(annotation)], name) else {
            return;
        };
        let Err(bad) = Constraint::parse(&text, subject) else { return };
        let (span, text) = match annotations::place(&self.program.sources, annotation, bad.at) {
            Some(span) => (span, format!("`@{name}` of `{of}`: {}", bad.message)),
            None => (annotation.span, format!("`@{name}` of `{of}`: {bad}")),
        };
        self.constraint_errors.push(Diagnostic::error("annotation", span, text));
    }

    /// Returns a constructor argument by the parameter's name.
    fn argument<'o>(&self, object: &'o ExternObject, name: &str) -> Option<&'o Const> {
        Const::of(object, self.program, name)
    }
}

impl Const {
    fn of<'o>(object: &'o ExternObject, program: &Program, name: &str) -> Option<&'o Const> {
        let constructor =
            program.externs[object.ext.index()].constructors.get(object.constructor as usize)?;
        let at = constructor.params.iter().position(|p| program.vars[p.var.index()].name == name)?;
        object.args.get(at)?.as_ref()
    }
}

impl Generator<'_> {
    /// Returns a constructor argument that is a number.
    fn size(&mut self, object: &ExternObject, name: &str) -> i64 {
        match self.argument(object, name) {
            Some(Const::Int(n)) => n.to_i64().unwrap_or(i64::MAX),
            _ => {
                self.error(Diagnostic::error(
                    "not-constant",
                    object.span,
                    format!("the argument `{name}` of `{}` must be known at compile time", object.name),
                ));
                0
            }
        }
    }

    fn size32(&mut self, object: &ExternObject, name: &str) -> i32 {
        let size = self.size(object, name);
        i32::try_from(size).unwrap_or_else(|_| {
            self.error(
                Diagnostic::error("out-of-range", object.span, format!("`{}` has {size} cells", object.name))
                    .note(format!("P4Info has room for at most {} there", i32::MAX)),
            );
            0
        })
    }

    /// Returns what a counter or meter counts: the name of the enum's member.
    fn unit(&self, object: &ExternObject) -> String {
        match self.argument(object, "type") {
            Some(Const::Member(id, member)) => self.member(*id, *member).to_ascii_lowercase(),
            _ => String::new(),
        }
    }

    fn counter_spec(&self, object: &ExternObject) -> Option<CounterSpec> {
        let unit = match self.unit(object).as_str() {
            "packets" => CounterUnit::Packets,
            "bytes" => CounterUnit::Bytes,
            "packets_and_bytes" => CounterUnit::Both,
            _ => CounterUnit::Unspecified,
        };
        Some(CounterSpec { unit: unit as i32 })
    }

    fn meter_spec(&self, object: &ExternObject) -> Option<MeterSpec> {
        let unit = match self.unit(object).as_str() {
            "packets" => MeterUnit::Packets,
            "bytes" => MeterUnit::Bytes,
            _ => MeterUnit::Unspecified,
        };
        let annotations = self.declared_annotations(object);
        let kinds = [
            ("single_rate_three_color", MeterType::SingleRateThreeColor),
            ("single_rate_two_color", MeterType::SingleRateTwoColor),
        ];
        let kind = kinds.into_iter().find(|(name, _)| find(&annotations, name).is_some());
        let kind = kind.map_or(MeterType::TwoRateThreeColor, |(_, kind)| kind);
        Some(MeterSpec { unit: unit as i32, r#type: kind as i32 })
    }

    fn index_type(&mut self, object: &ExternObject, at: usize) -> Option<P4NamedType> {
        let ty = object.types.get(at).filter(|_| self.words.index_types)?.clone();
        self.types.named(&ty, object.span)
    }

    fn declared_annotations(&self, object: &ExternObject) -> Vec<Annotation> {
        object.instance.map_or(Vec::new(), |id| self.program.instances[id.index()].annotations.clone())
    }

    fn direct_counter(&mut self, resource: &Resource, table: &str) -> u32 {
        let id = self.symbols.id(Prefix::DirectCounter, &resource.name);
        let annotations = self.declared_annotations(&resource.object);
        let preamble = Some(self.claimed(
            Prefix::DirectCounter,
            &resource.name,
            resource.object.span,
            &annotations,
            &[],
        ));
        let spec = self.counter_spec(&resource.object);
        let direct_table_id = self.symbols.id(Prefix::Table, table);
        self.info.direct_counters.push(DirectCounter { preamble, spec, direct_table_id });
        id
    }

    fn direct_meter(&mut self, resource: &Resource, table: &str) -> u32 {
        let id = self.symbols.id(Prefix::DirectMeter, &resource.name);
        let annotations = self.declared_annotations(&resource.object);
        let preamble =
            Some(self.claimed(Prefix::DirectMeter, &resource.name, resource.object.span, &annotations, &[]));
        let spec = self.meter_spec(&resource.object);
        let direct_table_id = self.symbols.id(Prefix::Table, table);
        self.info.direct_meters.push(DirectMeter { preamble, spec, direct_table_id });
        id
    }

    fn extern_object(&mut self, object: &ExternObject, profiles: &BTreeMap<&str, BTreeSet<&str>>) {
        self.types.info.get_or_insert_default();
        let Some(kind) = self.kind(object) else { return };
        let annotations = self.declared_annotations(object);
        match kind {
            Prefix::Counter => {
                let preamble = Some(self.claimed(kind, &object.name, object.span, &annotations, &[]));
                let (spec, size) = (self.counter_spec(object), self.size(object, self.words.counter_size));
                // Counter<W, S>: S is the type of the index.
                let index_type_name = self.index_type(object, 1);
                self.info.counters.push(Counter { preamble, spec, size, index_type_name });
            }
            Prefix::Meter => {
                let preamble = Some(self.claimed(kind, &object.name, object.span, &annotations, &[]));
                let (spec, size) = (self.meter_spec(object), self.size(object, self.words.meter_size));
                let index_type_name = self.index_type(object, 0);
                self.info.meters.push(Meter { preamble, spec, size, index_type_name });
            }
            Prefix::Register => {
                let preamble = Some(self.claimed(kind, &object.name, object.span, &annotations, &[]));
                let size = self.size32(object, "size");
                let type_spec = object.types.first().cloned().map(|ty| self.types.spec(&ty, object.span));
                let index_type_name = self.index_type(object, 1);
                self.info.registers.push(Register { preamble, type_spec, size, index_type_name });
            }
            Prefix::ActionProfile => self.profile(&object.name, object, &annotations, profiles),
            Prefix::Digest => {
                let preamble = Some(self.claimed(kind, &object.name, object.span, &annotations, &[]));
                let type_spec = object.types.first().cloned().map(|ty| self.types.spec(&ty, object.span));
                self.info.digests.push(Digest { preamble, type_spec });
            }
            // Tables bring theirs along.
            _ => {}
        }
    }

    fn profile(
        &mut self,
        name: &str,
        object: &ExternObject,
        annotations: &[Annotation],
        profiles: &BTreeMap<&str, BTreeSet<&str>>,
    ) {
        if self.info.action_profiles.iter().any(|p| p.preamble.as_ref().is_some_and(|p| p.name == name)) {
            return;
        }
        let with_selector = self.program.externs[object.ext.index()].name == self.words.selector;
        let tables = profiles.get(name).into_iter().flatten();
        let mut out = ActionProfile {
            preamble: Some(self.claimed(
                Prefix::ActionProfile,
                name,
                object.span,
                annotations,
                &PROFILE_ANNOTATIONS,
            )),
            table_ids: tables.map(|table| self.symbols.id(Prefix::Table, table)).collect(),
            with_selector,
            size: self.size(object, "size"),
            ..ActionProfile::default()
        };
        for name in PROFILE_ANNOTATIONS {
            let Some(annotation) = find(annotations, name) else { continue };
            if !with_selector {
                let text = format!("`@{name}` has no effect on an action profile without selector");
                self.warn("ignore", annotation.span, text);
                continue;
            }
            let number = annotation.body.integer().and_then(|n| n.to_i32());
            match (name, number) {
                ("selector_size_semantics", _) => {
                    let text = annotations::text(annotation).unwrap_or_default();
                    out.selector_size_semantics = match text.to_ascii_lowercase().as_str() {
                        "sum_of_weights" => Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
                        "sum_of_members" => {
                            Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers::default()))
                        }
                        _ => {
                            let choices = ["sum_of_weights", "sum_of_members"];
                            let found = format!("`@selector_size_semantics` says \"{text}\"");
                            self.error(
                                Diagnostic::error("annotation", annotation.span, found)
                                    .choices("its values", &choices),
                            );
                            None
                        }
                    };
                }
                (_, None) => {
                    let text = format!("`@{name}` needs a number from 0 to {}", i32::MAX);
                    self.error(
                        Diagnostic::error("annotation", annotation.span, text)
                            .note(format!("write `@{name}(128)`")),
                    );
                }
                ("max_group_size", Some(size)) => out.max_group_size = size,
                (_, Some(weight)) => match &mut out.selector_size_semantics {
                    Some(SelectorSizeSemantics::SumOfMembers(members)) => members.max_member_weight = weight,
                    _ => {
                        let text = "`@max_member_weight` has an effect only beside \
                                    `@selector_size_semantics(\"sum_of_members\")`";
                        self.warn("ignore", annotation.span, text.to_string());
                    }
                },
            }
        }
        self.info.action_profiles.push(out);
    }

    fn value_set(&mut self, name: &str, scope: ScopeId, id: ValueSetId) {
        let program = self.program;
        let set = &program.value_sets[id.index()];
        let preamble = Some(self.claimed(Prefix::ValueSet, name, set.span, &set.annotations, &[]));
        let mut fields = Vec::new();
        match self.blocks.substituted(&set.ty, scope) {
            Type::Struct(id, args) if program.structs[id.index()].kind == StructKind::Struct => {
                let declared = &program.structs[id.index()];
                let ids = self.field_ids(declared.fields.iter().map(|f| (&f.annotations[..], set.span)));
                for (field, id) in declared.fields.iter().zip(ids) {
                    let ty = substitute(&field.ty, &declared.type_params, &args);
                    let what = format!("field `{}` of a value set", field.name);
                    let kind = match find(&field.annotations, "match").map(|a| &a.body) {
                        Some(AnnotationBody::Tokens(tokens)) => {
                            tokens.first().map_or("exact", |t| t.text.as_str())
                        }
                        _ => "exact",
                    };
                    let shown = self.shown(&field.annotations, &["match"]);
                    fields.push(MatchField {
                        id,
                        name: annotations::name(&field.annotations, &field.name),
                        annotations: shown.texts,
                        bitwidth: self.width(&ty, set.span, &what),
                        r#match: Some(matching(kind)),
                        doc: shown.doc,
                        type_name: self.types.named(&ty, set.span),
                        structured_annotations: shown.structured,
                        ..MatchField::default()
                    });
                }
            }
            ty => {
                let bitwidth = self.width(&ty, set.span, "a value set");
                fields.push(MatchField {
                    id: 1,
                    bitwidth,
                    r#match: Some(matching("exact")),
                    type_name: self.types.named(&ty, set.span),
                    ..MatchField::default()
                });
            }
        }
        let size = i32::try_from(set.size).unwrap_or(i32::MAX);
        self.info.value_sets.push(ValueSet { preamble, r#match: fields, size });
    }

    fn controller_headers(&mut self) {
        let program = self.program;
        for header in
            program.structs.iter().filter(|s| s.kind == StructKind::Header && s.type_params.is_empty())
        {
            let Some(annotation) = find(&header.annotations, "controller_header") else { continue };
            if find(&header.annotations, "hidden").is_some() {
                continue;
            }
            let Some(controller_name) = annotations::text(annotation) else {
                self.error(
                    Diagnostic::error("annotation", annotation.span, "`@controller_header` needs a string")
                        .note("write `@controller_header(\"packet_in\")` or `@controller_header(\"packet_out\")`"),
                );
                continue;
            };
            let name = annotations::name(&header.annotations, &header.name);
            let mut preamble = self.preamble(Prefix::ControllerHeader, &name, &header.annotations, &[]);
            self.claim(Prefix::ControllerHeader, &controller_name, header.span);
            (preamble.name, preamble.alias) = (controller_name.clone(), controller_name);
            let flat = flat_fields(program, header, &[]);
            let own: Vec<Vec<Annotation>> =
                flat.iter().map(|f| f.annotations.iter().map(|a| (*a).clone()).collect()).collect();
            let ids = self.field_ids(own.iter().map(|a| (&a[..], header.span)));
            let mut metadata = Vec::new();
            for ((field, annotations), id) in flat.iter().zip(&own).zip(ids) {
                if find(annotations, "hidden").is_some() {
                    continue;
                }
                self.types.info.get_or_insert_default();
                let shown = self.shown(annotations, &[]);
                let what = format!("field `{}` of a header with `@controller_header`", field.name);
                metadata.push(Metadata {
                    id,
                    name: field.name.clone(),
                    annotations: shown.texts,
                    bitwidth: self.width(&field.ty, header.span, &what),
                    type_name: self.types.named(&field.ty, header.span),
                    structured_annotations: shown.structured,
                    ..Metadata::default()
                });
            }
            self.info
                .controller_packet_metadata
                .push(ControllerPacketMetadata { preamble: Some(preamble), metadata });
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // The program as a whole

    pub(crate) fn package(&mut self, main: p4jet_analysis::typed::InstanceId, arch: &str) {
        let annotations = &self.program.instances[main.index()].annotations;
        let mut package = PkgInfo { arch: arch.to_string(), ..PkgInfo::default() };
        if let Some(annotation) = find(annotations, "pkginfo") {
            for (key, value, span) in self.pairs(annotation) {
                let place = match key.as_str() {
                    "name" => &mut package.name,
                    "version" => &mut package.version,
                    "organization" => &mut package.organization,
                    "contact" => &mut package.contact,
                    "url" => &mut package.url,
                    "arch" => {
                        let text =
                            "`arch` in `@pkginfo` has no effect: it is the architecture of the program";
                        self.warn("ignore", span, text.to_string());
                        continue;
                    }
                    _ => {
                        let keys = ["name", "version", "organization", "contact", "url"];
                        self.unknown_key("pkginfo", &key, &keys, span);
                        continue;
                    }
                };
                match value {
                    PairValue::Text(text) => *place = text,
                    _ => {
                        let text = format!("`{key}` in `@pkginfo` is not a string");
                        self.error(
                            Diagnostic::error("annotation", span, text)
                                .note(format!("write `{key} = \"…\"`")),
                        );
                    }
                }
            }
        }
        if let Some(annotation) = find(annotations, "platform_property") {
            let mut properties = PlatformProperties::default();
            for (key, value, span) in self.pairs(annotation) {
                let place = match key.as_str() {
                    "multicast_group_table_size" => &mut properties.multicast_group_table_size,
                    "multicast_group_table_total_replicas" => {
                        &mut properties.multicast_group_table_total_replicas
                    }
                    "multicast_group_table_max_replicas_per_entry" => {
                        &mut properties.multicast_group_table_max_replicas_per_entry
                    }
                    _ => {
                        let keys = [
                            "multicast_group_table_size",
                            "multicast_group_table_total_replicas",
                            "multicast_group_table_max_replicas_per_entry",
                        ];
                        self.unknown_key("platform_property", &key, &keys, span);
                        continue;
                    }
                };
                match value {
                    PairValue::Int(n) if n.to_i32().is_some_and(|n| n >= 0) => {
                        *place = n.to_i32().unwrap_or(0)
                    }
                    _ => {
                        let text =
                            format!("`{key}` in `@platform_property` is not a number from 0 to {}", i32::MAX);
                        self.error(
                            Diagnostic::error("annotation", span, text).note(format!("write `{key} = 100`")),
                        );
                    }
                }
            }
            package.platform_properties = Some(properties);
        }
        let shown = self.shown(annotations, &["pkginfo", "platform_property"]);
        package.annotations = shown.texts;
        package.structured_annotations = shown.structured;
        package.doc = shown.doc.filter(|doc| *doc != Documentation::default());
        self.info.pkg_info = Some(package);
    }

    fn unknown_key(&mut self, annotation: &str, key: &str, keys: &[&str], span: Span) {
        let meant = suggest::did_you_mean(key, keys.iter().copied());
        let keys = suggest::list(keys);
        self.warn("unknown", span, format!("`@{annotation}` has no key `{key}`: {meant}its keys: {keys}"));
    }

    /// Returns the pairs of `@name(k = v, …)` or `@name[k = v, …]`.
    fn pairs(&mut self, annotation: &Annotation) -> Vec<(String, PairValue, Span)> {
        let mut pairs: Vec<(String, PairValue, Span)> = Vec::new();
        match &annotation.body {
            AnnotationBody::KeyValues(given) => {
                for (key, value) in given {
                    let value_found = match &value.kind {
                        AstExprKind::String(text) => PairValue::Text(text.clone()),
                        AstExprKind::Int(literal) => PairValue::Int(literal.value.clone()),
                        _ => PairValue::Other,
                    };
                    pairs.push((key.text.clone(), value_found, key.span));
                }
            }
            AnnotationBody::Tokens(tokens) => {
                for pair in tokens.split(|t| t.text == "," && !t.is_string) {
                    let [key, equals, value @ ..] = pair else {
                        self.bad_pairs(annotation);
                        return pairs;
                    };
                    if equals.text != "=" || equals.is_string || value.is_empty() {
                        self.bad_pairs(annotation);
                        return pairs;
                    }
                    let number = AnnotationBody::Tokens(value.to_vec()).integer();
                    let value = match number {
                        Some(n) => PairValue::Int(n),
                        None if value.iter().all(|t| t.is_string || t.text == "++") => PairValue::Text(
                            value.iter().filter(|t| t.is_string).map(|t| t.text.as_str()).collect(),
                        ),
                        None => PairValue::Other,
                    };
                    pairs.push((key.text.clone(), value, key.span));
                }
            }
            AnnotationBody::Empty => {}
            AnnotationBody::Exprs(_) => self.bad_pairs(annotation),
        }
        for (i, (key, _, span)) in pairs.iter().enumerate() {
            if let Some((_, _, first)) = pairs[..i].iter().find(|(earlier, ..)| earlier == key) {
                let text = format!("`@{}` gives `{key}` twice", annotation.name.text);
                self.types
                    .errors
                    .push(Diagnostic::error("annotation", *span, text).related(*first, "given here first"));
            }
        }
        pairs
    }

    fn bad_pairs(&mut self, annotation: &Annotation) {
        let name = &annotation.name.text;
        let text = format!("`@{name}` needs keys with values");
        self.error(
            Diagnostic::error("annotation", annotation.span, text)
                .note(format!("write `@{name}(key = value, …)`")),
        );
    }
}

/// A value in `@pkginfo` or `@platform_property`.
enum PairValue {
    Text(String),
    Int(BigInt),
    Other,
}

fn matching(kind: &str) -> Match {
    Match::MatchType(match kind {
        "exact" => MatchType::Exact,
        "lpm" => MatchType::Lpm,
        "ternary" => MatchType::Ternary,
        "range" => MatchType::Range,
        "optional" => MatchType::Optional,
        other => return Match::OtherMatchType(other.to_string()),
    } as i32)
}
