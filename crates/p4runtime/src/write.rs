//! Updates of entities.
//!
//! A request is one batch of the control and holds its lock, so batches run one after the other. Each update is checked against the
//! P4Info and then becomes one or more typed updates. If one of these fails, the others of the same P4Runtime update are rolled
//! back.

use crate::pipeline::Pipeline;
use crate::ports::{Ports, depend_on_ports};
use crate::refusal::{Code, Errors, Reason, Refusal, Result};
use crate::session::RoleView;
use p4jet_control::{Control, ControlError, Published, SharedControl, Transaction, Update, each_held};
use p4jet_p4info::proto::v1::{self, EntityKind, UpdateType};

/// The outcome of a batch of updates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The reason why the whole request was refused; the answer has no details. Nothing has changed, unless updates of a
    /// CONTINUE_ON_ERROR batch were already settled.
    pub refused: Option<Refusal>,
    /// One result per update, in order; one with only canonical code 0 for each that succeeded. `None` if all did.
    pub errors: Option<Vec<v1::Error>>,
    /// A warning for the log: the state file could not be written.
    pub note: Option<String>,
}

impl From<Refusal> for Written {
    fn from(refusal: Refusal) -> Written {
        Written { refused: Some(refusal), ..Written::default() }
    }
}

/// A batch under way.
pub(crate) struct Writer<'a> {
    pub pipeline: &'a Pipeline,
    pub control: Control,
    pub role: &'a RoleView,
    /// The ports of the switch, if an update depends on them.
    pub ports: Ports,
    pub switch: &'a SharedControl,
    /// True if no packets are processed during the batch.
    pub held: bool,
    pub batch: Transaction<'a>,
}

/// Carries out the updates of a request, in their order.
pub fn write(
    pipeline: &Pipeline,
    switch: &SharedControl,
    role: &RoleView,
    updates: Vec<v1::Update>,
    atomicity: v1::Atomicity,
) -> Written {
    if updates.is_empty() {
        return Written::default();
    }
    let control = match pipeline.control(switch) {
        Ok(control) => control,
        Err(refusal) => return refusal.into(),
    };
    // Workers that hold packets would not answer.
    let ports = if depend_on_ports(&updates) { Ports::of(switch) } else { Ports::default() };
    let Some(batch) = switch.transaction(&control, updates.len()) else {
        let why = "another program was loaded meanwhile";
        return Refusal::new(Code::Aborted, Reason::Program, why).into();
    };
    let batch = batch.of_note_owner();
    let role = &pipeline.view(role);
    let held = atomicity == v1::Atomicity::DataplaneAtomic;
    let writer = Writer { pipeline, control, role, ports, switch, held, batch };
    let made = match atomicity {
        v1::Atomicity::DataplaneAtomic => match switch.hold_packets(|| writer.carry_out(updates, true)) {
            Ok(made) => made,
            Err(error) => return Refusal::from(error).into(),
        },
        v1::Atomicity::RollbackOnError => writer.carry_out(updates, true),
        v1::Atomicity::ContinueOnError => writer.carry_out(updates, false),
    };
    match made {
        Ok((published, errors)) => Written { errors, note: published.record(), ..Written::default() },
        Err(written) => written,
    }
}

/// Maximum number of scans of the state for numbers of strings in a Write: one if others have changed the state, and one if no number is free.
const SCANS_MAX: usize = 2;

/// The outcome of a batch that was rolled back.
fn rolled_back(total: usize, place: usize, refusal: Refusal) -> Written {
    let mut errors = Errors::new(total);
    // The reason comes first, so that its message is never left out.
    errors.put(place, refusal);
    for other in (0..total).filter(|other| *other != place) {
        let fate = if other < place { "rolled back" } else { "not attempted" };
        let why = format!("{fate}: update {place} of the batch was refused");
        errors.put(other, Refusal::new(Code::Aborted, Reason::Batch, why));
    }
    Written { errors: errors.finish(), ..Written::default() }
}

impl<'a> Writer<'a> {
    /// Carries out the updates in order. Returns the changes with one result per update, or the reason why nothing changed.
    fn carry_out(
        mut self,
        updates: Vec<v1::Update>,
        all_or_nothing: bool,
    ) -> std::result::Result<(Published<'a>, Option<Vec<v1::Error>>), Written> {
        self.pipeline.follow_restore(&self.control);
        let wanted_digests = self.pipeline.wanted().clone();
        let strings = &self.pipeline.strings;
        strings.begin(self.control.changes_of_others());
        strings.mark();
        let mut scans = SCANS_MAX;
        let total = updates.len();
        let mut errors = Errors::new(total);
        for (place, update) in updates.into_iter().enumerate() {
            let mark = self.batch.mark();
            if !all_or_nothing {
                strings.mark();
            }
            let mut done = self.update(&update);
            // Updates parse their strings before they change anything.
            while done.is_err() && scans > 0 && strings.want_scan() {
                scans -= 1;
                done = self.scan().and_then(|()| self.update(&update));
            }
            let refusal = match done {
                Ok(()) => {
                    if !all_or_nothing {
                        self.batch.settle();
                    }
                    continue;
                }
                Err(refusal) => refusal,
            };
            strings.take_back();
            if all_or_nothing {
                *self.pipeline.wanted() = wanted_digests;
                // The text names changes that could not be rolled back.
                let message = self.batch.take_back(ControlError::new(refusal.message)).message;
                return Err(rolled_back(total, place, Refusal { message, ..refusal }));
            }
            let message = self.batch.take_back_to(mark, ControlError::new(refusal.message)).message;
            errors.put(place, Refusal { message, ..refusal });
        }
        let new_strings = strings.new_ones();
        if let Err(refusal) = self.keep_strings(&new_strings) {
            let mut note = None;
            if all_or_nothing {
                strings.take_back();
                *self.pipeline.wanted() = wanted_digests;
            } else if let Ok(published) = self.batch.publish() {
                // Settled updates are in effect, so they belong in the journal.
                note = published.record();
            }
            return Err(Written { note, ..Written::from(refusal) });
        }
        match self.batch.publish() {
            Ok(published) => {
                strings.keep_new(&new_strings);
                Ok((published, errors.finish()))
            }
            Err(error) => {
                if all_or_nothing {
                    strings.take_back();
                    *self.pipeline.wanted() = wanted_digests;
                }
                Err(Refusal::from(error).into())
            }
        }
    }

    /// Makes several changes that packets see all or none of.
    pub(crate) fn together(&mut self, changes: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.held || self.switch.host().is_err() {
            return changes(self);
        }
        let switch = self.switch;
        switch.hold_packets(|| changes(self))?
    }

    /// Carries typed updates out, between packets where a packet might overwrite them.
    pub(crate) fn make_each(&mut self, updates: impl Iterator<Item = Update>) -> Result<()> {
        let (control, switch, held) = (self.control.clone(), self.switch, self.held);
        let held_cells = |update: &_| if held { 0 } else { control.schema().held_cells(update) };
        let hold = |change: &mut dyn FnMut()| switch.between_packets(change);
        each_held(updates, held_cells, hold, |update| self.make(update).map(drop))
    }

    /// Carries a typed update out.
    pub(crate) fn make(&mut self, update: Update) -> Result<Option<u32>> {
        Ok(self.batch.write(update)?)
    }

    fn update(&mut self, update: &v1::Update) -> Result<()> {
        let kind = UpdateType::try_from(update.r#type).unwrap_or(UpdateType::Unspecified);
        if kind == UpdateType::Unspecified {
            let why = "the type of the update is unset, expected INSERT, MODIFY or DELETE";
            return Err(Refusal::invalid(Reason::Form, why));
        }
        let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        let Some(entity) = entity else {
            return Err(Refusal::invalid(Reason::Form, "the entity is unset"));
        };
        match entity {
            EntityKind::TableEntry(entry) => self.table_entry(kind, entry).map_err(|refusal| match kind {
                // A deletion does not use the action.
                UpdateType::Delete => refusal,
                _ => self.explain(entry, refusal),
            }),
            EntityKind::CounterEntry(entry) => self.counter_entry(kind, entry),
            EntityKind::DirectCounterEntry(entry) => self.direct_counter_entry(kind, entry),
            EntityKind::MeterEntry(entry) => self.meter_entry(kind, entry),
            EntityKind::DirectMeterEntry(entry) => self.direct_meter_entry(kind, entry),
            EntityKind::RegisterEntry(entry) => self.register_entry(kind, entry),
            EntityKind::ValueSetEntry(entry) => self.value_set_entry(kind, entry),
            EntityKind::ActionProfileMember(member) => self.member(kind, member),
            EntityKind::ActionProfileGroup(group) => self.group(kind, group),
            EntityKind::PacketReplicationEngineEntry(entry) => self.replication(kind, entry),
            EntityKind::DigestEntry(entry) => self.digest_entry(kind, entry),
            EntityKind::ExternEntry(entry) => {
                let id = entry.extern_type_id;
                Err(match id {
                    0x81..=0xfe => Refusal::unsupported(format!("there are no externs of the type {id:#x}")),
                    _ => Refusal::invalid(
                        Reason::Id,
                        format!("found the extern type {id:#x}, expected 0x81 to 0xfe"),
                    ),
                })
            }
        }
    }
}
