//! The device that the server offers: who controls it, which pipeline configuration it has, and the order of changes.
//!
//! One thread makes all changes: updates of entities and new pipeline configurations, those of a client in their order. So a Write
//! waits for the compilation of a pipeline that will run, but arbitration, packets and Reads do not. The answers to short changes that
//! follow each other are sent together, so that the server's thread wakes once for all of them. Another thread checks and decodes long
//! Writes, so that requests which are refused delay no change.

use super::API_VERSION;
use super::headers::Headers;
use super::outbox::Outbox;
use super::queue::{Jobs, OWN, Todo, queue};
use super::roles::{Role, Roles};
use crate::digests::Lists;
use crate::kept;
use crate::owner::Owner;
use crate::pipeline::Pipeline;
use crate::programs::{self, DeviceConfig};
use crate::refusal::{DETAILS_BYTES_MAX, REASONS_MAX, cut};
use crate::session::{
    Notice, ROLE_NAME_MAX, Refusal, Request, RoleView, Rules, Sessions, Standing, StreamId,
};
use crate::wire;
use bytes::Bytes;
use p4jet_control::{Control, Keep, Program, Ready, SharedControl};
use p4jet_dataplane::{Cancel, Switch};
use p4jet_p4info::proto::{config, google, v1};
use prost::Message;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};
use tonic::{Code, Status};

/// Maximum size of a P4Info in bytes.
pub const P4INFO_BYTES_MAX: usize = 8 << 20;
/// Maximum number of messages, strings and byte strings in a P4Info, which bounds the memory of the decoded P4Info.
pub const P4INFO_FIELDS_MAX: usize = 1 << 19;
/// The depth to which they are counted: messages that are nested more deeply are types in types.
const P4INFO_DEPTH: u32 = 8;
/// Maximum number of messages and byte strings in a Write, which bounds the memory of the decoded Write.
pub const FIELDS_MAX: usize = 1 << 23;
/// Bytes of all long Writes together that are decoded, unless one has more: a message or byte string takes at least 2 bytes, so
/// they have at most `FIELDS_MAX`.
pub const DECODED_BYTES_MAX: usize = 16 << 20;
const _: () = assert!(DECODED_BYTES_MAX <= 2 * FIELDS_MAX);
/// Maximum number of fields at the top of a request to set the pipeline.
const HEAD_FIELDS_MAX: usize = 4096;
/// Maximum number of updates of a Write.
pub const UPDATES_MAX: usize = 500_000;
/// Maximum number of entities in the request of a Read.
pub const WANTED_MAX: usize = 4096;
/// Maximum number of messages and byte strings in the request of a Read, and in a message on a stream.
pub const WANTED_FIELDS_MAX: usize = 1 << 16;
/// Maximum time for the compilation of a program from the network.
pub const COMPILE_WAIT: Duration = Duration::from_secs(60);
/// Bytes of an answer of a Read with several entities: by default, clients take at most 4 MiB.
const ANSWER_BYTES: usize = 1 << 20;
/// Maximum number of streams of all roles.
pub const STREAMS_MAX: usize = 1024;
/// Maximum time that an arbitration update waits for the end of another stream with its election id.
const OTHER_WAIT: Duration = Duration::from_millis(200);

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves no half-done change behind: the locked values are replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pipeline configuration that fits a program.
pub struct Configured {
    /// The P4Info's bytes as the client sent them.
    pub p4info: Bytes,
    /// The client's bytes; empty for a program that no client sent.
    pub device_config: Bytes,
    /// The client's cookie.
    pub cookie: Option<u64>,
    /// Its objects.
    pub pipeline: Arc<Pipeline>,
    /// The packet-in and packet-out headers.
    headers: Arc<Headers>,
}

impl Configured {
    fn new(
        p4info: Bytes,
        device_config: Bytes,
        cookie: Option<u64>,
        own: &config::P4Info,
        control: &Control,
    ) -> Result<Configured, Vec<String>> {
        let message = config::P4Info::decode(p4info.clone())
            .map_err(|error| vec![format!("the P4Info cannot be decoded: {}", decode_error(&error))])?;
        let differences = crate::types::check(&message, own);
        let pipeline = Pipeline::new(message, control).map_err(|mut reasons| {
            reasons.extend_from_slice(&differences);
            reasons
        })?;
        if !differences.is_empty() {
            return Err(differences);
        }
        let pipeline = Arc::new(pipeline);
        let headers = Arc::new(Headers::new(&pipeline, own).map_err(|why| vec![why])?);
        Ok(Configured { p4info, device_config, cookie, pipeline, headers })
    }

    /// The packet-out header of a controller's packet.
    ///
    /// # Errors
    /// The metadata is not that of the header.
    pub fn packet_out_header(&self, metadata: &[v1::PacketMetadata]) -> Result<Vec<u8>, String> {
        self.headers.pack(metadata, &self.pipeline.strings)
    }

    /// A StreamMessageResponse with a packet in binary form; `None` if the frame is shorter than the header.
    pub fn packet_in(&self, frame: &[u8]) -> Option<Bytes> {
        self.headers.packet_in(frame, &self.pipeline.strings)
    }

    /// A ForwardingPipelineConfig in binary form with the cookie, and the other parts if wanted.
    fn encode(&self, p4info: bool, device_config: bool) -> Vec<u8> {
        let mut config = Vec::new();
        if p4info {
            wire::put_bytes(&mut config, 1, &self.p4info);
        }
        if device_config && !self.device_config.is_empty() {
            wire::put_bytes(&mut config, 2, &self.device_config);
        }
        if let Some(cookie) = self.cookie {
            wire::put_bytes(&mut config, 3, &v1::Cookie { cookie }.encode_to_vec());
        }
        config
    }

    /// The configuration that [`encode`](Self::encode) wrote, if it fits the program.
    fn decode(config: &Bytes, own: &config::P4Info, control: &Control) -> Option<Configured> {
        let cookie = wire::message_field(config, 3).and_then(|cookie| v1::Cookie::decode(cookie).ok());
        let p4info = wire::message_field(config, 1)?;
        let device_config = wire::bytes_field(config, 2);
        Configured::new(p4info, device_config, cookie.map(|cookie| cookie.cookie), own, control).ok()
    }

    fn is_of(&self, control: &Control) -> bool {
        self.pipeline.check_program(control).is_ok()
    }

    /// The same P4Info without the client's cookie and program.
    fn of_other_program(&self) -> Configured {
        Configured {
            p4info: self.p4info.clone(),
            device_config: Bytes::new(),
            cookie: None,
            pipeline: Arc::clone(&self.pipeline),
            headers: Arc::clone(&self.headers),
        }
    }
}

/// A configuration that waits for COMMIT. Reads and Writes apply to it.
struct Saved {
    configured: Arc<Configured>,
    ready: Ready,
    /// Control of its switch, which receives no packets yet.
    switch: SharedControl,
}

#[derive(Default)]
struct Configs {
    running: Option<Arc<Configured>>,
    saved: Option<Saved>,
    /// The switch of a server that started without a program, or whose program has no P4Info.
    none: Option<Weak<Switch>>,
    /// The number of programs that others had loaded when `running` was last checked.
    loads: u64,
}

/// A request to set the pipeline whose sender may do so.
pub struct Asked {
    action: v1::ConfigAction,
    sender: Request,
    config: Option<Bytes>,
    cookie: Option<u64>,
}

/// The beginning of a Write or SetForwardingPipelineConfig: their common fields, read without decoding the rest.
struct Head {
    sender: Request,
    role_id: u64,
    /// How often field 4 occurs, and its last number: the updates, or the action.
    fourth: (usize, u64),
}

impl Head {
    /// Reads a request with at most `fields_max` fields.
    fn read(raw: &[u8], fields_max: usize) -> Result<Head, Status> {
        use wire::Value::{Bytes, Number};
        let (mut device, mut role_id, mut role, mut id) = (0, 0, &b""[..], None);
        let mut fourth = (0, 0);
        for (place, field) in wire::Fields(raw).enumerate() {
            if place >= fields_max {
                let text = format!("the request has more than {fields_max} fields, which is the limit");
                return Err(Status::resource_exhausted(text));
            }
            match field.ok_or_else(no_message)? {
                (1, Number(number)) => device = number,
                (2, Number(number)) => role_id = number,
                (3, Bytes(bytes)) => {
                    id.get_or_insert_with(v1::Uint128::default).merge(bytes).map_err(self::malformed)?;
                }
                (4, Number(number)) => fourth = (fourth.0 + 1, number),
                (4, Bytes(_)) => fourth.0 += 1,
                (6, Bytes(bytes)) => role = bytes,
                _ => {}
            }
        }
        let role = std::str::from_utf8(role).map_err(|_| Status::invalid_argument("role is no UTF-8"))?;
        let sender = Request { device, role: role.to_string(), election_id: election_id(id.as_ref()) };
        Ok(Head { sender, role_id, fourth })
    }
}

/// A verified pipeline configuration.
pub struct Verified {
    configured: Arc<Configured>,
    /// The program; `None` if the running one stays as it is.
    ready: Option<Ready>,
}

/// A client's stream.
pub struct Stream {
    /// Its messages.
    pub outbox: Arc<Outbox>,
    /// The device id, and the role as the client named it.
    role: Option<(u64, Option<v1::Role>)>,
    /// The number of programs that others had loaded when it was opened.
    loads: u64,
}

/// The streams and their roles.
struct Arbitration {
    sessions: Sessions,
    roles: Roles,
    streams: HashMap<StreamId, Stream>,
}

/// A change that waits for its turn.
pub struct Job {
    /// Makes it, unless it gets no turn.
    pub change: Box<dyn FnOnce(Result<(), Status>) -> Option<Answer> + Send>,
    pub is_short: bool,
}

/// Gives a client its answer.
pub type Answer = Box<dyn FnOnce() + Send>;

/// Where the result of a change goes.
pub type ToCaller<T> = oneshot::Sender<Result<T, Status>>;

/// Waits for the result of a change.
pub async fn result<T>(of: oneshot::Receiver<Result<T, Status>>) -> Result<T, Status> {
    of.await.unwrap_or_else(|_| Err(Status::internal("bug in p4jet: the change failed")))
}

/// The answers to changes, which a task of the server gives. At most one waits for each request under way.
pub struct Answers(mpsc::UnboundedReceiver<Vec<Answer>>);

impl Answers {
    /// Gives the answers until the device ends.
    pub async fn give(mut self) {
        while let Some(answers) = self.0.recv().await {
            answers.into_iter().for_each(|answer| answer());
        }
    }
}

/// Answers that are given together at most, and how long the first of them waits at most for a change that is about to be made.
const TOGETHER_MAX: usize = 64;
const TOGETHER_WAIT: Duration = Duration::from_micros(500);

/// Makes changes until the device ends.
fn make_changes(todo: &Todo, to_clients: &mpsc::UnboundedSender<Vec<Answer>>) {
    // It ends with the device, which holds the other end.
    while let Some(first) = todo.take() {
        let (begun, mut next, mut answers) = (Instant::now(), Some(first), Vec::new());
        while let Some(Job { change, is_short }) = next {
            if !is_short && !answers.is_empty() {
                let _ = to_clients.send(std::mem::take(&mut answers));
            }
            // A panic is a bug, but no reason to refuse all further changes.
            let change = std::panic::AssertUnwindSafe(|| change(Ok(())));
            answers.extend(std::panic::catch_unwind(change).ok().flatten());
            let goes_on = is_short && answers.len() < TOGETHER_MAX && begun.elapsed() < TOGETHER_WAIT;
            next = if goes_on { todo.try_take() } else { None };
        }
        if !answers.is_empty() {
            let _ = to_clients.send(answers);
        }
    }
}

/// The device.
pub struct Device {
    /// The switch.
    pub switch: SharedControl,
    arbitration: Mutex<Arbitration>,
    configs: Mutex<Configs>,
    /// The running configuration as last seen, for users that must not wait for a batch of changes.
    known: Mutex<Option<Arc<Configured>>>,
    jobs: Jobs,
    /// Long Writes to check and decode.
    long: std::sync::mpsc::Sender<Box<dyn FnOnce() + Send>>,
    /// Jobs that wait or run.
    pending: Arc<AtomicUsize>,
    streams: AtomicU64,
    /// Tells that a stream has ended.
    ended: Notify,
    /// Writes a line to the log.
    pub log: Arc<dyn Fn(String) + Send + Sync>,
    /// The lists of digests.
    pub lists: Mutex<Lists>,
    /// Counts of dropped packets and digests.
    pub counts: Counts,
}

/// Counts of dropped packets and digests.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets that no controller took.
    pub packet_ins_dropped: AtomicU64,
    /// Packets for controllers without the header that the P4Info names.
    pub packet_ins_short: AtomicU64,
    /// Packets of controllers that were refused or had no room.
    pub packet_outs_dropped: AtomicU64,
    /// Digests that no controller took.
    pub digests_dropped: AtomicU64,
}

/// The election id in a message.
pub fn election_id(id: Option<&v1::Uint128>) -> Option<u128> {
    id.map(|id| u128::from(id.high) << 64 | u128::from(id.low))
}

/// The status of a refusal.
pub fn refused(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Device(found, own) => {
            Status::not_found(format!("there is no device {found}; this switch is device {own}"))
        }
        Refusal::Role(role) => Status::not_found(format!("no client has opened a stream for role `{role}`")),
        Refusal::LongName(found) => Status::resource_exhausted(format!(
            "the role's name has {found} bytes, expected at most {ROLE_NAME_MAX}"
        )),
        // Clients look for these words.
        Refusal::ElectionIdExists(id) => {
            Status::invalid_argument(format!("Election id already exists: another stream has {id}"))
        }
        Refusal::Moved(what) => {
            Status::failed_precondition(format!("the {what} of a stream cannot change: open another stream"))
        }
        Refusal::Full(what, max) => {
            Status::resource_exhausted(format!("there are as many {what} as there may be: {max}"))
        }
        Refusal::NotPrimary { given, primary, highest } => {
            let given = given.map_or("no election id".to_string(), |id| format!("the election id {id}"));
            let needed = match (primary, highest) {
                (Some(primary), _) => format!("the primary has {primary}"),
                (None, highest) => no_primary(*highest),
            };
            Status::permission_denied(format!("Not primary: the request has {given}, and {needed}"))
        }
    }
}

/// Why no client is primary of a role, whose highest election id is given.
fn no_primary(highest: Option<u128>) -> String {
    match highest {
        Some(highest) => {
            format!("no client is primary until a stream has an election id of at least {highest}")
        }
        None => "no client is primary until a stream has an election id".to_string(),
    }
}

fn config_lost(refusal: &crate::refusal::Refusal) -> String {
    format!("a restart will lose the pipeline configuration and its cookie: {}", refusal.message)
}

impl Device {
    /// Serves a switch. `has_program` is false if it started without a program.
    pub fn new(
        switch: SharedControl,
        rules: Rules,
        has_program: bool,
        log: Arc<dyn Fn(String) + Send + Sync>,
    ) -> std::io::Result<(Device, Answers)> {
        let (jobs, todo) = queue();
        let (to_clients, answers) = mpsc::unbounded_channel();
        p4jet_threads::spawn("p4runtime write", move || make_changes(&todo, &to_clients))?;
        // Each caller waits for room before it sends one.
        let (long, to_decode) = channel::<Box<dyn FnOnce() + Send>>();
        p4jet_threads::spawn("p4runtime decode", move || {
            for decode in to_decode {
                // As above.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode));
            }
        })?;
        switch.control().set_note_owner(&Owner);
        let loads = switch.loads();
        let none = (!has_program).then(|| Arc::downgrade(switch.control().switch()));
        let device = Device {
            switch,
            arbitration: Mutex::new(Arbitration {
                sessions: Sessions::new(rules),
                roles: Roles::default(),
                streams: HashMap::new(),
            }),
            configs: Mutex::new(Configs { none, loads, ..Configs::default() }),
            known: Mutex::default(),
            jobs,
            long,
            pending: Arc::default(),
            streams: AtomicU64::new(0),
            ended: Notify::new(),
            log,
            lists: Mutex::default(),
            counts: Counts::default(),
        };
        for (role, highest) in kept::highest_ids(&device.switch.control()) {
            lock(&device.arbitration).sessions.restore(role, highest);
        }
        drop(device.active());
        Ok((device, Answers(answers)))
    }

    /// Refuses another device's id.
    pub fn check_device(&self, id: u64) -> Result<(), Status> {
        lock(&self.arbitration).sessions.check_device(id).map_err(|refusal| refused(&refusal))
    }

    /// What the sender of a request may read and write.
    ///
    /// # Errors
    /// It is not the primary of its role.
    fn check_primary(&self, request: &Request) -> Result<RoleView, Status> {
        let arbitration = lock(&self.arbitration);
        arbitration.sessions.check_primary(request).map_err(|refusal| refused(&refusal))?;
        Ok(arbitration.roles.view(&request.role))
    }

    /// Carries out a change of the server's own after all earlier ones.
    pub async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        is_short: bool,
        change: impl FnOnce(&Device) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let (caller, of) = oneshot::channel();
        self.submit(OWN, is_short, caller, change);
        result(of).await
    }

    /// Puts a change at the end of a client's line. The answer to a short change may wait a little for other short changes.
    pub fn submit<T: Send + 'static>(
        self: &Arc<Self>,
        client: u64,
        is_short: bool,
        caller: ToCaller<T>,
        change: impl FnOnce(&Device) -> Result<T, Status> + Send + 'static,
    ) {
        let device = Arc::clone(self);
        self.pending.fetch_add(1, Ordering::AcqRel);
        let pending = Pending(Arc::clone(&self.pending));
        let change = Box::new(move |turn: Result<(), Status>| {
            let result = turn.and_then(|()| change(&device));
            // A client that has gone needs no answer.
            let give: Answer = Box::new(move || {
                let _pending = pending;
                let _ = caller.send(result);
            });
            Some(give)
        });
        if let Err((refused, max, whose)) = self.jobs.put(client, Job { change, is_short }) {
            let text = format!("{max} requests{whose} are waiting, which is the limit; try again later");
            if let Some(give) = (refused.change)(Err(Status::resource_exhausted(text))) {
                give();
            }
        }
    }

    /// Checks and decodes a long Write beside the changes. `decode` begins after those of earlier ones.
    pub fn decode(&self, decode: impl FnOnce() + Send + 'static) {
        // The thread ends with the device.
        let _ = self.long.send(Box::new(decode));
    }

    // ------------------------------------------------------------------------------------------------------------------------
    // Arbitration

    /// Registers a stream, which has no role yet.
    pub fn open(&self) -> Result<(StreamId, Arc<Outbox>), Status> {
        let mut arbitration = lock(&self.arbitration);
        if arbitration.streams.len() >= STREAMS_MAX {
            let text = format!("there are {STREAMS_MAX} streams, which is the limit");
            return Err(Status::resource_exhausted(text));
        }
        let id = StreamId(self.streams.fetch_add(1, Ordering::Relaxed) + 1);
        let outbox = Arc::new(Outbox::default());
        let loads = self.switch.loads();
        arbitration.streams.insert(id, Stream { outbox: Arc::clone(&outbox), role: None, loads });
        Ok((id, outbox))
    }

    /// Deregisters a stream that has ended for any reason.
    pub fn close(&self, stream: StreamId) {
        let mut arbitration = lock(&self.arbitration);
        arbitration.streams.remove(&stream);
        let notices = arbitration.sessions.close(stream);
        arbitration.notify(&notices);
        drop(arbitration);
        self.ended.notify_waiters();
    }

    /// Handles an arbitration update.
    ///
    /// # Errors
    /// The status with which the stream ends.
    pub async fn arbitrate(
        self: &Arc<Self>,
        stream: StreamId,
        update: v1::MasterArbitrationUpdate,
    ) -> Result<(), Status> {
        let role = update.role.clone().unwrap_or_default();
        let ignored = lock(&self.arbitration).sessions.ignores_role_config();
        let given = role.config.filter(|config| !ignored && *config != google::Any::default());
        let config = given.map(|given| Role::new(&role.name, given)).transpose();
        let config = config.map_err(Status::invalid_argument)?;
        if role.name.is_empty() && role.id != 0 {
            return Err(Status::invalid_argument(
                "role.id is set without role.name: since P4Runtime 1.4, roles have names",
            ));
        }
        let request = Request {
            device: update.device_id,
            role: role.name,
            election_id: election_id(update.election_id.as_ref()),
        };
        self.wait_for_other(stream, &request).await;
        {
            let mut arbitration = lock(&self.arbitration);
            if !arbitration.streams.contains_key(&stream) {
                return Ok(());
            }
            if let Some(config) = &config {
                arbitration.roles.check(&request.role, config).map_err(Status::invalid_argument)?;
            }
            let was_primary = arbitration.sessions.is_primary(stream);
            let mut arbitrated = arbitration.sessions.update(stream, &request);
            if let Some(role) = &arbitrated.forgotten {
                arbitration.roles.set(role, None);
            }
            if let Some(refusal) = arbitrated.ended {
                arbitration.notify(&arbitrated.notices);
                return Err(refused(&refusal));
            }
            let Some(known) = arbitration.streams.get_mut(&stream) else { return Ok(()) };
            known.role = Some((update.device_id, update.role));
            if arbitration.sessions.is_primary(stream) {
                // the configuration is that of the primary.
                if !ignored {
                    arbitration.sessions.set_configured(stream, config.is_some());
                    arbitration.roles.set(&request.role, config);
                }
                self.keep_ids(&arbitration);
            }
            // Requests that the previous primary started are finished before the new primary is notified.
            let takes_over = arbitration.sessions.is_primary(stream) && !was_primary;
            if takes_over {
                // The new primary has seen none of the digests.
                lock(&self.lists).forget();
            }
            if !takes_over || self.pending.load(Ordering::Acquire) == 0 {
                arbitration.notify(&arbitrated.notices);
                return Ok(());
            }
            arbitrated.notices.retain(|notice| notice.stream != stream);
            arbitration.notify(&arbitrated.notices);
        }
        // Requests of the old primary that have not started are refused at their turn.
        self.change(true, |_| Ok(())).await?;
        let arbitration = lock(&self.arbitration);
        if let Some(notice) = arbitration.sessions.notice(stream) {
            arbitration.notify(&[notice]);
        }
        Ok(())
    }

    /// Waits a little if another stream has the election id of an update: when a client opens a stream in the place of an
    /// older one, the end of the older one may arrive later.
    async fn wait_for_other(&self, stream: StreamId, request: &Request) {
        let until = tokio::time::Instant::now() + OTHER_WAIT;
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // An end after the look counts.
            ended.as_mut().enable();
            let must_wait = {
                let arbitration = lock(&self.arbitration);
                arbitration.streams.contains_key(&stream) && arbitration.sessions.has_other(stream, request)
            };
            if !must_wait || tokio::time::timeout_at(until, ended).await.is_err() {
                return;
            }
        }
    }

    /// Keeps the highest election ids, after the waiting changes.
    fn keep_ids(&self, arbitration: &Arbitration) {
        let ids = arbitration.sessions.highest_ids();
        let (switch, log) = (self.switch.clone(), Arc::clone(&self.log));
        // If the queue is full, the next arbitration update keeps them.
        let change = Box::new(move |turn: Result<(), Status>| {
            turn.ok()?;
            if let Ok(Some(note)) = kept::keep_highest_ids(&switch, &ids) {
                log(note);
            }
            None
        });
        let _ = self.jobs.put(OWN, Job { change, is_short: true });
    }

    /// The primaries of the default role, and of the roles whose configuration grants an object.
    pub fn primaries_of(&self, id: u32) -> Vec<Arc<Outbox>> {
        let arbitration = lock(&self.arbitration);
        let mut roles = arbitration.roles.with_id(id).collect::<Vec<_>>();
        roles.push("");
        roles.into_iter().flat_map(|role| arbitration.primaries(role)).collect()
    }

    /// The primaries that receive packets, with the configuration of their role if it has one.
    pub fn receivers(&self) -> Vec<(Arc<Outbox>, Option<Arc<Role>>)> {
        let arbitration = lock(&self.arbitration);
        let all = arbitration.primaries("").into_iter().map(|primary| (primary, None));
        let mut all: Vec<_> = all.collect();
        for (name, role) in arbitration.roles.receivers() {
            all.extend(
                arbitration.primaries(name).into_iter().map(|primary| (primary, Some(Arc::clone(role)))),
            );
        }
        all
    }

    /// The objects that a role may read and write.
    pub fn view(&self, role: &str) -> RoleView {
        lock(&self.arbitration).roles.view(role)
    }

    /// True if the stream is the primary of its role, and that role may send packets.
    pub fn may_send(&self, stream: StreamId) -> bool {
        lock(&self.arbitration).sessions.is_primary(stream)
    }

    /// Ends all streams that were opened before this number of programs was loaded.
    fn end_streams(&self, loads: u64, status: &Status) {
        let arbitration = lock(&self.arbitration);
        let old = arbitration.streams.values().filter(|stream| stream.loads < loads);
        old.for_each(|stream| stream.outbox.end(Err(status.clone())));
    }

    // ------------------------------------------------------------------------------------------------------------------------
    // Pipeline configurations

    /// The configuration that Reads and Writes apply to, and control of its switch. `None` without one.
    pub fn active(&self) -> Option<(Arc<Configured>, SharedControl)> {
        let mut configs = lock(&self.configs);
        if let Some(saved) = &configs.saved {
            return Some((Arc::clone(&saved.configured), saved.switch.clone()));
        }
        let running = self.running_of(&mut configs)?;
        Some((running, self.switch.clone()))
    }

    /// The configuration of the running program as last seen.
    pub fn known(&self) -> Option<Arc<Configured>> {
        lock(&self.known).clone()
    }

    /// The configuration of the running program.
    pub fn running(&self) -> Option<Arc<Configured>> {
        self.running_of(&mut lock(&self.configs))
    }

    fn running_of(&self, configs: &mut Configs) -> Option<Arc<Configured>> {
        let running = self.find_running(configs);
        let mut known = lock(&self.known);
        let is_known = match (&*known, &running) {
            (Some(known), Some(running)) => Arc::ptr_eq(known, running),
            (known, running) => known.is_none() && running.is_none(),
        };
        if !is_known {
            known.clone_from(&running);
        }
        running
    }

    /// If `ctl load` replaced the program, the client's P4Info stays if it fits the new program, without its cookie and program;
    /// otherwise the program's own replaces it.
    fn find_running(&self, configs: &mut Configs) -> Option<Arc<Configured>> {
        let (control, loads) = self.switch.control_and_loads();
        if std::mem::replace(&mut configs.loads, loads) != loads && kept::config(&control).is_none() {
            if let Some(running) = &mut configs.running {
                *running = Arc::new(running.of_other_program());
            }
            let running = self.find_running_of(configs, &control);
            self.keep_after_load(running.clone());
            return running;
        }
        self.find_running_of(configs, &control)
    }

    fn find_running_of(&self, configs: &mut Configs, control: &Control) -> Option<Arc<Configured>> {
        if let Some(running) = configs.running.as_ref().filter(|running| running.is_of(control)) {
            return Some(Arc::clone(running));
        }
        let is_none = |none: &Weak<Switch>| std::ptr::eq(none.as_ptr(), Arc::as_ptr(control.switch()));
        if configs.none.as_ref().is_some_and(is_none) {
            return None;
        }
        let own = match self.switch.p4info() {
            // Another program was loaded meanwhile: the next request sees it.
            Ok((switch, _)) if !Arc::ptr_eq(&switch, control.switch()) => return None,
            Ok((_, p4info)) => Bytes::from(p4info),
            Err(error) => {
                configs.running = None;
                configs.none = Some(Arc::downgrade(control.switch()));
                (self.log)(format!(
                    "the program has no P4Info, so P4Runtime has no pipeline: {}",
                    error.message
                ));
                return None;
            }
        };
        let message = config::P4Info::decode(own.clone()).unwrap_or_default();
        if let Some(before) = configs.running.take() {
            let (p4info, device_config) = (before.p4info.clone(), before.device_config.clone());
            match Configured::new(p4info, device_config, before.cookie, &message, control) {
                Ok(configured) => configs.running = Some(Arc::new(configured)),
                Err(why) => {
                    let loads = configs.loads;
                    let text = format!(
                        "another program was loaded, which the P4Info of this session does not fit: {}",
                        why.first().map_or("", String::as_str)
                    );
                    self.end_streams(loads, &Status::aborted(text));
                }
            }
        }
        if configs.running.is_none() {
            // P-35: after a restart with the same program, it is that of the client.
            let kept = kept::config(control);
            let kept = kept.and_then(|config| Configured::decode(&config, &message, control));
            configs.running = kept.map(Arc::new);
        }
        if configs.running.is_none() {
            match Configured::new(own, Bytes::new(), None, &message, control) {
                Ok(configured) => configs.running = Some(Arc::new(configured)),
                Err(why) => {
                    configs.none = Some(Arc::downgrade(control.switch()));
                    (self.log)(format!("P4Runtime has no pipeline: {}", why.join("; ")));
                }
            }
        }
        configs.running.clone()
    }

    /// SetForwardingPipelineConfig, in the order of changes. `raw` is the request.
    pub fn set_pipeline(&self, raw: &Bytes) -> Result<(), Status> {
        let asked = self.asked(raw)?;
        if asked.action == v1::ConfigAction::Commit {
            let saved = lock(&self.configs).saved.take();
            let saved =
                saved.ok_or_else(|| Status::not_found("no config was saved: send VERIFY_AND_SAVE first"))?;
            return self.run(saved.configured, saved.ready, Keep::Own, Some(&saved.switch));
        }
        let verified = self.verify(&asked)?;
        self.apply(&asked, verified)
    }

    /// Refuses a sender that may not set the pipeline.
    fn check_may_set(&self, sender: &Request) -> Result<(), Status> {
        self.check_primary(sender)?;
        let role = &sender.role;
        if !lock(&self.arbitration).roles.may_set_pipeline(role) {
            let text = format!("the configuration of the role `{role}` does not let it set the pipeline");
            return Err(Status::permission_denied(text));
        }
        Ok(())
    }

    /// Refuses a request SetForwardingPipelineConfig whose sender may not set the pipeline. True if it does not change what runs.
    pub fn check_set(&self, raw: &[u8]) -> Result<bool, Status> {
        use v1::ConfigAction as Action;
        let head = Head::read(raw, HEAD_FIELDS_MAX)?;
        self.check_may_set(&head.sender)?;
        Ok([Action::Verify, Action::VerifyAndSave].iter().any(|verifies| *verifies as u64 == head.fourth.1))
    }

    /// The request SetForwardingPipelineConfig.
    pub fn asked(&self, raw: &Bytes) -> Result<Asked, Status> {
        use v1::ConfigAction as Action;
        let Head { sender, fourth, .. } = Head::read(raw, HEAD_FIELDS_MAX)?;
        self.check_may_set(&sender)?;
        let number = fourth.1 as i32;
        let action = Action::try_from(number).unwrap_or(Action::Unspecified);
        let config = wire::message_field(raw, 5);
        if config.as_ref().is_some_and(|config| wire::Fields(config).any(|field| field.is_none())) {
            return Err(no_message());
        }
        if action == Action::Unspecified {
            return Err(Status::invalid_argument(format!(
                "action is {number}, expected VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, COMMIT or RECONCILE_AND_COMMIT"
            )));
        }
        if action == Action::Commit && config.is_some() {
            return Err(Status::invalid_argument("COMMIT takes no config: it runs the saved one"));
        }
        let cookie = config.as_ref().and_then(|config| wire::message_field(config, 3));
        let cookie = cookie.map(v1::Cookie::decode).transpose().map_err(malformed)?;
        Ok(Asked { action, sender, config, cookie: cookie.map(|cookie| cookie.cookie) })
    }

    /// Compiles the program of a request and checks that the P4Info fits it.
    pub fn verify(&self, asked: &Asked) -> Result<Verified, Status> {
        use v1::ConfigAction as Action;
        let (action, cookie) = (asked.action, asked.cookie);
        let Some(config) = &asked.config else {
            return Err(Status::invalid_argument("config is missing"));
        };
        let p4info = wire::message_field(config, 1).unwrap_or_default();
        if p4info.len() > P4INFO_BYTES_MAX {
            let text = format!("the P4Info has {} bytes, the limit is {P4INFO_BYTES_MAX}", p4info.len());
            return Err(Status::invalid_argument(text));
        }
        if wire::weight(&p4info, P4INFO_DEPTH, P4INFO_FIELDS_MAX) > P4INFO_FIELDS_MAX {
            let what = "messages, strings and byte strings";
            let text = format!("the P4Info has more than {P4INFO_FIELDS_MAX} {what}, which is the limit");
            return Err(Status::invalid_argument(text));
        }
        let device_config = wire::bytes_field(config, 2);
        let what = programs::recognise(&device_config).map_err(Status::invalid_argument)?;
        let source = match &what {
            DeviceConfig::Program(source) => Some(source),
            DeviceConfig::Empty if self.running().is_none() => {
                return Err(Status::invalid_argument("no program runs, and p4_device_config is empty"));
            }
            DeviceConfig::Empty => None,
        };
        // With the same program, only the P4Info may change.
        if source.is_none() && matches!(action, Action::Verify | Action::ReconcileAndCommit) {
            let control = self.switch.control();
            let own = self.switch.p4info().map_err(|error| Status::invalid_argument(error.message))?.1;
            let own = config::P4Info::decode(&own[..]).unwrap_or_default();
            let configured = Configured::new(p4info, device_config, cookie, &own, &control).map_err(unfit)?;
            return Ok(Verified { configured: Arc::new(configured), ready: None });
        }
        let cancel = Cancel::default();
        let ready = {
            let _timer = CancelAfter::new(cancel.clone(), COMPILE_WAIT);
            let program = source.map(Program::Whole);
            self.switch.prepare_pipeline(program.as_ref(), &cancel).map_err(|error| {
                match cancel.is_cancelled() {
                    true => Status::invalid_argument(format!(
                        "the compilation took longer than {} s, which is the limit",
                        COMPILE_WAIT.as_secs()
                    )),
                    false if matches!(&*error.code, "LIMIT" | "NO_MEMORY") => {
                        Status::resource_exhausted(error.message)
                    }
                    false => Status::invalid_argument(error.message),
                }
            })?
        };
        let control = Control::new(Arc::clone(&ready.switch));
        control.set_note_owner(&Owner);
        let own = config::P4Info::decode(&ready.p4info[..]).unwrap_or_default();
        let configured = Configured::new(p4info, device_config, cookie, &own, &control).map_err(unfit)?;
        Ok(Verified { configured: Arc::new(configured), ready: Some(ready) })
    }

    /// Carries out a verified request, in the order of changes.
    pub fn apply(&self, asked: &Asked, Verified { configured, ready }: Verified) -> Result<(), Status> {
        use v1::ConfigAction as Action;
        // Another client may have become primary meanwhile.
        self.check_may_set(&asked.sender)?;
        match (asked.action, ready) {
            (Action::VerifyAndSave, Some(ready)) => {
                let control = Control::new(Arc::clone(&ready.switch));
                control.set_note_owner(&Owner);
                let switch = SharedControl::new(control, None);
                lock(&self.configs).saved = Some(Saved { configured, ready, switch });
                Ok(())
            }
            (Action::VerifyAndCommit, Some(ready)) => self.run(configured, ready, Keep::Own, None),
            (Action::ReconcileAndCommit, Some(ready)) => self.run(configured, ready, Keep::Old, None),
            (Action::ReconcileAndCommit, None) => {
                let mut configs = lock(&self.configs);
                if let Some(old) = self.running_of(&mut configs)
                    && let Some(lost) = self.switch.at_one_moment(|control| {
                        old.pipeline.lost_with(&configured.pipeline, control, control)
                    })
                {
                    return Err(state_lost(&format!("this would be lost:\n{lost}")));
                }
                (configs.running, configs.saved) = (Some(configured), None);
                lock(&self.known).clone_from(&configs.running);
                drop(configs);
                self.keep_config();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Runs a program. `aside` is control of its state, if clients wrote to it before COMMIT.
    fn run(
        &self,
        configured: Arc<Configured>,
        ready: Ready,
        keep: Keep,
        aside: Option<&SharedControl>,
    ) -> Result<(), Status> {
        // Requests see the old program and its configuration, or the new ones.
        let mut configs = lock(&self.configs);
        let mut refitted = None;
        let own = config::P4Info::decode(&ready.p4info[..]).unwrap_or_default();
        let old = (keep == Keep::Old).then(|| self.running_of(&mut configs)).flatten();
        let next = Control::new(Arc::clone(&ready.switch));
        let check = |control: &Control| {
            let old = old.filter(|old| old.is_of(control))?;
            old.pipeline.lost_with(&configured.pipeline, control, &next)
        };
        let loaded = self.switch.run_pipeline(ready, keep, aside, check, |control| {
            configured.pipeline.take_kept(control);
            configured.pipeline.strings.make_stale();
            // With the old state, the tables are not those for which the configuration was created.
            refitted = Some(match configured.is_of(control) {
                true => Ok(Arc::clone(&configured)),
                false => {
                    let Configured { p4info, device_config, cookie, .. } = &*configured;
                    Configured::new(p4info.clone(), device_config.clone(), *cookie, &own, control)
                        .map(Arc::new)
                }
            });
        });
        let loaded = loaded.map_err(|error| match keep {
            Keep::Old => state_lost(&error.message),
            Keep::Own => Status::internal(error.message),
        })?;
        // They contain digests of the old program.
        lock(&self.lists).clear();
        (configs.running, configs.saved, configs.none) = (refitted.and_then(Result::ok), None, None);
        lock(&self.known).clone_from(&configs.running);
        drop(configs);
        self.follow_ports(None);
        self.keep_ids(&lock(&self.arbitration));
        self.keep_config();
        if let Some(note) = loaded.note {
            (self.log)(note);
        }
        Ok(())
    }

    /// Keeps the running configuration, without the program if it is large.
    fn keep_config(&self) {
        let Some(running) = self.running() else { return };
        // Encoded as they are needed.
        let parts = [true, false].into_iter().map(|device_config| running.encode(true, device_config));
        match kept::keep_config(&self.switch, parts) {
            Ok(None) => {}
            Ok(Some(note)) => (self.log)(note),
            Err(refusal) => (self.log)(config_lost(&refusal)),
        }
    }

    /// Keeps the configuration after others have loaded another program, once the waiting changes are made.
    fn keep_after_load(&self, running: Option<Arc<Configured>>) {
        let (switch, log) = (self.switch.clone(), Arc::clone(&self.log));
        // If the queue is full, a restart without the new program finds the old configuration.
        let change = Box::new(move |turn: Result<(), Status>| {
            turn.ok()?;
            let control = switch.control();
            if !kept::has_config(&control) || kept::config(&control).is_some() {
                // No client has set one, or one has set another since.
                return None;
            }
            let running = running.filter(|running| running.is_of(&control));
            let parts = running.map(|running| running.encode(true, false));
            match kept::keep_config(&switch, parts) {
                Ok(None) => {}
                Ok(Some(note)) => log(note),
                Err(refusal) => log(config_lost(&refusal)),
            }
            None
        });
        let _ = self.jobs.put(OWN, Job { change, is_short: true });
    }

    /// GetForwardingPipelineConfig. `raw` is the request, in binary form; so is the answer.
    pub fn get_pipeline(&self, raw: &Bytes) -> Result<Bytes, Status> {
        let request = v1::GetForwardingPipelineConfigRequest::decode(raw.clone()).map_err(malformed)?;
        self.check_device(request.device_id)?;
        use v1::ResponseType as Type;
        let (p4info, device_config) = match Type::try_from(request.response_type) {
            Ok(Type::All) => (true, true),
            Ok(Type::CookieOnly) => (false, false),
            Ok(Type::P4infoAndCookie) => (true, false),
            Ok(Type::DeviceConfigAndCookie) => (false, true),
            Err(_) => {
                let text = format!("response_type is {}, expected 0 to 3", request.response_type);
                return Err(Status::invalid_argument(text));
            }
        };
        let Some((configured, _)) = self.active() else { return Ok(Bytes::new()) };
        let config = configured.encode(p4info, device_config);
        let mut answer = Vec::with_capacity(config.len() + 16);
        wire::put_bytes(&mut answer, 1, &config);
        Ok(answer.into())
    }

    /// Capabilities. `raw` is the request, in binary form; so is the answer.
    pub fn capabilities(&self, raw: &Bytes) -> Result<Bytes, Status> {
        let request = v1::CapabilitiesRequest::decode(raw.clone()).map_err(malformed)?;
        if request.device_id != 0 {
            self.check_device(request.device_id)?;
        }
        let p4runtime_api_version = API_VERSION.to_string();
        let answer = v1::CapabilitiesResponse { p4runtime_api_version, ..Default::default() };
        Ok(answer.encode_to_vec().into())
    }

    /// The request of a Read, which is for this device.
    pub fn read_request(&self, raw: Bytes) -> Result<v1::ReadRequest, Status> {
        if wire::weight(&raw, 4, WANTED_FIELDS_MAX) > WANTED_FIELDS_MAX {
            let text = format!(
                "the request has more than {WANTED_FIELDS_MAX} messages and byte strings, which is the limit"
            );
            return Err(Status::resource_exhausted(text));
        }
        let request = v1::ReadRequest::decode(raw).map_err(malformed)?;
        self.check_device(request.device_id)?;
        let count = request.entities.len();
        if count > WANTED_MAX {
            let text = format!("the request has {count} entities, the limit is {WANTED_MAX}");
            return Err(Status::resource_exhausted(text));
        }
        Ok(request)
    }

    /// Read: sends the answers until `send` is false.
    pub fn read(&self, request: &v1::ReadRequest, send: &dyn Fn(Result<Bytes, Status>) -> bool) {
        let role = self.view(&request.role);
        let Some((configured, switch)) = self.active() else {
            send(Err(no_pipeline()));
            return;
        };
        let mut goes_on = true;
        let mut page = |entities: Vec<v1::Entity>| {
            let mut parts = vec![v1::ReadResponse { entities }];
            while let Some(mut answer) = parts.pop() {
                let count = answer.entities.len();
                if count > 1 && answer.encoded_len() > ANSWER_BYTES {
                    let entities = answer.entities.split_off(count / 2);
                    parts.extend([v1::ReadResponse { entities }, answer]);
                    continue;
                }
                goes_on = goes_on && send(Ok(answer.encode_to_vec().into()));
            }
            goes_on
        };
        let read = crate::read::read(&configured.pipeline, &switch, &role, &request.entities, &mut page);
        if let (Err(errors), true) = (read, goes_on)
            && errors.iter().any(|error| error.canonical_code != 0)
        {
            send(Err(failed("Read failure", "requests", errors)));
        }
    }

    /// Refuses a Write whose sender is not the primary, without decoding its updates. Returns their number.
    pub fn check_write(&self, raw: &[u8]) -> Result<usize, Status> {
        let head = Head::read(raw, usize::MAX)?;
        if head.role_id != 0 && head.sender.role.is_empty() {
            return Err(Status::not_found(
                "role_id is set without role: since P4Runtime 1.4, roles have names",
            ));
        }
        self.check_primary(&head.sender)?;
        Ok(head.fourth.0)
    }

    /// Checks and decodes a Write.
    pub fn decode_write(&self, raw: Bytes) -> Result<v1::WriteRequest, Status> {
        let count = self.check_write(&raw)?;
        if count > UPDATES_MAX {
            let text = format!("the request has {count} updates, the limit is {UPDATES_MAX}");
            return Err(Status::resource_exhausted(text));
        }
        if wire::weight(&raw, 4, FIELDS_MAX) > FIELDS_MAX {
            let text = format!(
                "the request has more than {FIELDS_MAX} messages and byte strings, which is the limit"
            );
            return Err(Status::resource_exhausted(text));
        }
        v1::WriteRequest::decode(raw).map_err(malformed)
    }

    /// Carries out a Write, in the order of changes.
    pub fn write(&self, request: v1::WriteRequest) -> Result<(), Status> {
        let sender = Request {
            device: request.device_id,
            role: request.role,
            election_id: election_id(request.election_id.as_ref()),
        };
        // Another client may have become primary meanwhile.
        let role = self.check_primary(&sender)?;
        let (configured, switch) = self.active().ok_or_else(no_pipeline)?;
        let Ok(atomicity) = v1::Atomicity::try_from(request.atomicity) else {
            return Err(Status::invalid_argument(format!(
                "atomicity is {}, expected CONTINUE_ON_ERROR, ROLLBACK_ON_ERROR or DATAPLANE_ATOMIC",
                request.atomicity
            )));
        };
        let written = crate::write::write(&configured.pipeline, &switch, &role, request.updates, atomicity);
        if let Some(note) = written.note {
            (self.log)(note);
        }
        if let Some(refusal) = written.refused {
            let error = refusal.into_error();
            return Err(Status::new(Code::from_i32(error.canonical_code), error.message));
        }
        match written.errors {
            None => Ok(()),
            Some(errors) if errors.iter().all(|error| error.canonical_code == 0) => Ok(()),
            Some(errors) => Err(failed("Write failure", "updates", errors)),
        }
    }
}

/// A job that waits or runs.
struct Pending(Arc<AtomicUsize>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Arbitration {
    /// The primaries of a role.
    fn primaries(&self, role: &str) -> Vec<Arc<Outbox>> {
        let primaries = self.sessions.primaries(role);
        primaries.filter_map(|id| Some(Arc::clone(&self.streams.get(&id)?.outbox))).collect()
    }

    /// Sends notices to streams. The stream of a client that does not read is closed.
    fn notify(&self, notices: &[Notice]) {
        for notice in notices {
            let Some(stream) = self.streams.get(&notice.stream) else { continue };
            let Some((device_id, role)) = &stream.role else { continue };
            let (code, message) = match notice.standing {
                Standing::Primary => (Code::Ok, String::new()),
                Standing::Backup => {
                    let highest = notice.highest.unwrap_or_default();
                    let why = format!("Is backup: another client is primary, with the election id {highest}");
                    (Code::AlreadyExists, why)
                }
                Standing::NoPrimary => (Code::NotFound, format!("Is backup: {}", no_primary(notice.highest))),
            };
            let mut role = role.clone();
            if let Some(role) = role.as_mut()
                && let Some(config) = self.roles.get(&role.name)
            {
                // that of the primary.
                role.config = Some(config.given.clone());
            }
            let update = v1::MasterArbitrationUpdate {
                device_id: *device_id,
                role,
                election_id: notice.highest.map(|id| v1::Uint128 { high: (id >> 64) as u64, low: id as u64 }),
                status: Some(google::Status { code: code as i32, message, details: Vec::new() }),
            };
            let update = v1::StreamResponse::Arbitration(update);
            let message = v1::StreamMessageResponse { update: Some(update) };
            if !stream.outbox.put(message.encode_to_vec().into()) && !stream.outbox.is_gone() {
                let text = "the client does not read its stream";
                stream.outbox.end(Err(Status::resource_exhausted(text)));
            }
        }
    }
}

/// Cancels a compilation after a while, unless it is dropped earlier.
struct CancelAfter {
    _until_dropped: SyncSender<()>,
}

impl CancelAfter {
    fn new(cancel: Cancel, after: Duration) -> CancelAfter {
        let (end, ended) = sync_channel(0);
        let _ = p4jet_threads::spawn("p4runtime timer", move || {
            if ended.recv_timeout(after) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                cancel.cancel();
            }
        });
        CancelAfter { _until_dropped: end }
    }
}

/// The status for bytes that cannot be decoded as the message.
pub fn malformed(error: prost::DecodeError) -> Status {
    Status::invalid_argument(format!("the request cannot be decoded: {}", decode_error(&error)))
}

/// An error without the middle of the path to its place, which is long for nested messages.
fn decode_error(error: &prost::DecodeError) -> String {
    let text = error.to_string();
    let parts: Vec<&str> = text.split(": ").collect();
    match &parts[..] {
        // What failed, the outermost message, the innermost one, and why.
        [first @ .., _, _, _] if first.len() > 3 => {
            let end = &parts[parts.len() - 3..];
            format!("{}: …: {}", first[..3].join(": "), end.join(": "))
        }
        _ => text,
    }
}

/// The status for bytes that are no message at all.
fn no_message() -> Status {
    Status::invalid_argument("the request cannot be decoded: it is no protobuf message")
}

/// The status without a pipeline configuration.
pub fn no_pipeline() -> Status {
    Status::failed_precondition("No forwarding pipeline config set for this device")
}

/// The refusal of RECONCILE_AND_COMMIT.
fn state_lost(why: &str) -> Status {
    Status::invalid_argument(format!("the state cannot be kept: {why}"))
}

/// Maximum size of each reason of a refusal, in bytes: clients take trailers of 8 KiB.
const REASON_BYTES_MAX: usize = 300;

fn unfit(why: Vec<String>) -> Status {
    // Those of `Reasons`, with the line that counts the others.
    let shown: Vec<_> = why.iter().take(REASONS_MAX + 1).map(|why| cut(why, REASON_BYTES_MAX)).collect();
    Status::invalid_argument(shown.join("\n"))
}

/// The code of updates that another one of the batch made void.
const ABORTED: i32 = Code::Aborted as i32;
/// The type of the details of a failed batch.
const ERROR_TYPE: &str = "type.googleapis.com/p4.v1.Error";

/// The status of a request that failed in part: its details have one error for each part. If they are too long, their messages are
/// left out; if they are still too long, the status has the first message and no details.
pub fn failed(what: &str, parts: &str, mut errors: Vec<v1::Error>) -> Status {
    let bad = errors.iter().filter(|error| error.canonical_code != 0).count();
    let message = format!("{what}: {bad} of {} {parts}", errors.len());
    // At most: tags and lengths take less than 16 bytes.
    let bytes = |error: &v1::Error| ERROR_TYPE.len() + error.encoded_len() + 16;
    let fit = |errors: &[v1::Error]| errors.iter().map(bytes).sum::<usize>() <= DETAILS_BYTES_MAX;
    if !fit(&errors) {
        let first = errors.iter().position(|error| !matches!(error.canonical_code, 0 | ABORTED));
        let first = first.map(|place| (place, std::mem::take(&mut errors[place].message)));
        errors.iter_mut().for_each(|error| error.message = String::new());
        if !fit(&errors) {
            let first = first.map(|(place, why)| format!("; number {place}, counted from 0: {why}"));
            return Status::resource_exhausted(format!(
                "{message}; their errors exceed {DETAILS_BYTES_MAX} bytes, the limit{}",
                first.unwrap_or_default()
            ));
        }
    }
    let any = |error: v1::Error| google::Any {
        type_url: ERROR_TYPE.to_string(),
        // Clients read only a few kilobytes, so successes are empty.
        value: if error.canonical_code == 0 { Bytes::new() } else { error.encode_to_vec().into() },
    };
    let code = Code::Unknown;
    let status = google::Status {
        code: code as i32,
        message: message.clone(),
        details: errors.into_iter().map(any).collect(),
    };
    Status::with_details(code, message, status.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of this many results, with an error of this message at every second place, and the results in its details.
    fn details(count: usize, message: &str) -> (Status, Vec<v1::Error>) {
        let error = |place: usize| match place % 2 {
            0 => v1::Error::default(),
            _ => v1::Error { canonical_code: 5, message: message.to_string(), code: 8, ..Default::default() },
        };
        let status = failed("Write failure", "updates", (0..count).map(error).collect());
        let decoded = google::Status::decode(status.details()).unwrap();
        let errors = decoded.details.into_iter().map(|any| v1::Error::decode(any.value).unwrap()).collect();
        (status, errors)
    }

    #[test]
    fn t_8_errors_of_nested_messages_are_short() {
        let mut data = v1::P4Data::default();
        for _ in 0..90 {
            let members = vec![data];
            data = v1::P4Data { data: Some(v1::DataValue::Tuple(v1::P4StructLike { members })) };
        }
        let entry = v1::RegisterEntry { register_id: 1, data: Some(data), ..Default::default() };
        let entity = Some(v1::Entity { entity: Some(v1::EntityKind::RegisterEntry(entry)) });
        let update = v1::Update { r#type: 2, entity };
        let request = v1::WriteRequest { updates: vec![update], ..Default::default() };
        let error = v1::WriteRequest::decode(&request.encode_to_vec()[..]).unwrap_err();
        let message = malformed(error).message().to_string();
        assert!(message.contains("WriteRequest.updates: ") && message.len() < 250, "{message}");
        assert!(message.ends_with(": recursion limit reached"), "{message}");
        let error = v1::WriteRequest::decode(&b"\x22\x05a"[..]).unwrap_err();
        assert_eq!(decode_error(&error), error.to_string());
        // Names in a P4Info may be as long as the P4Info.
        let reasons = vec!["x".repeat(1 << 20); 1000];
        assert!(unfit(reasons).message().len() < 7000);
    }

    #[test]
    fn long_details_lose_their_messages_first() {
        let (status, errors) = details(1000, &"x".repeat(1000));
        assert_eq!((status.code(), errors.len(), errors[1].message.len()), (Code::Unknown, 1000, 1000));
        let (status, errors) = details(10_000, &"x".repeat(1000));
        assert_eq!((status.code(), errors.len()), (Code::Unknown, 10_000));
        assert_eq!((errors[9999].canonical_code, &*errors[9999].message), (5, ""));
        assert!(status.details().len() <= DETAILS_BYTES_MAX);
        let (status, errors) = details(100_000, "why");
        assert_eq!((status.code(), errors.len()), (Code::ResourceExhausted, 0));
        assert!(status.message().contains(": 50000 of 100000 updates"), "{status}");
        assert!(status.message().ends_with("number 1, counted from 0: why"), "{status}");
    }
}
