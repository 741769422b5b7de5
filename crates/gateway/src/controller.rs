//! The running controller.

use crate::answering::Answering;
use crate::complaint::SHOWN_MAX;
use crate::config::{Config, Health};
use crate::diff::{Change, delete, diff, diff_shares, insert, modify, summary};
use crate::health::{Verdict, Watch};
use crate::icmp::OwnAddresses;
use crate::learn::{Learned, Listener, Stations};
use crate::log::{Level, Log};
use crate::plan::{Plan, plan, station_entries};
use crate::schema::{Call, Key, Objects, Table, mac_text};
use crate::state::Actual;
use p4jet_control::{Atomicity, Update};
use p4jet_text::client::Client;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

/// Connects to the switch.
pub type Connect = Box<dyn Fn() -> io::Result<Client> + Send>;

/// Options of a controller.
pub struct Options {
    /// The configuration.
    pub path: PathBuf,
    /// The objects of the program.
    pub objects: Arc<Objects>,
    /// Connects to the switch.
    pub connect: Connect,
    /// Receives its events.
    pub log: Log,
    /// Set to stop it. What it set on the switch stays there.
    pub stop: &'static AtomicBool,
    /// Set to make it read the file and the switch again.
    pub reload: &'static AtomicBool,
}

/// Interval of the checks for events.
const TURN: Duration = Duration::from_millis(20);
/// Interval of the checks of the file and the attempts to connect.
const LOOK: Duration = Duration::from_millis(250);
/// Interval of the checks that the switch responds.
const PING: Duration = Duration::from_secs(1);
/// Time that the switch may take for a simple request before the controller reconnects.
const ANSWER: Duration = Duration::from_secs(5);
/// Time that a page of its state or a change of the whole state may take.
const BIG_ANSWER: Duration = Duration::from_secs(60);
/// Interval of the checks for silent stations.
const AGEING: Duration = Duration::from_millis(500);
/// Bytes of the configuration.
const CONFIG_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of updates in a request: even with the longest names, it is far below the switch's limits of bytes
/// and updates.
const UPDATES_MAX: usize = 100_000;
/// Maximum number of waiting messages of the switch.
const LEARNED_MAX: usize = 65_536;
/// Maximum number of waiting results of checks; further checks wait.
const VERDICTS_MAX: usize = 1024;
/// Maximum number of stations handled before anything else: each takes a request or two.
const STATIONS_A_TURN_MAX: usize = 256;
/// Number of attempts to set a switch that differs from what was just set, before another controller is suspected.
const ROUNDS_MAX: usize = 3;
/// Pause after these attempts.
const QUARREL: Duration = Duration::from_secs(5);

/// Runs until it is stopped.
pub fn run(options: Options, text: String, config: Config) {
    let (to_judge, verdicts) = sync_channel(VERDICTS_MAX);
    let (to_learn, learned) = sync_channel(LEARNED_MAX);
    let mut controller = Controller {
        stamp: stamp(&options.path),
        seen: None,
        options,
        text,
        config,
        watches: HashMap::new(),
        watches_made: 0,
        to_judge,
        verdicts,
        to_learn,
        learned,
        stations: Stations::default(),
        answering: None,
        own: None,
        planned: Plan::default(),
        aged: Instant::now(),
        link: None,
        complaint: String::new(),
        dirty: Dirty::Everything,
        wrong: false,
        accepted: None,
        looked: Instant::now(),
        pinged: Instant::now(),
        not_before: Instant::now(),
    };
    controller.watch();
    controller.answer();
    controller.connect();
    while !controller.options.stop.load(Ordering::Relaxed) {
        controller.turn();
    }
}

/// Returns modification time and size of a file: an inexpensive sign of changed content.
fn stamp(path: &std::path::Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// A back end that is being checked.
struct Watched {
    number: u64,
    health: Health,
    _watch: Watch,
    /// `None` until the first check has ended.
    alive: Option<bool>,
}

/// A connected switch, and its state.
struct Link {
    client: Client,
    objects: Arc<Objects>,
    actual: Actual,
    listener: Option<Listener>,
}

struct Controller {
    options: Options,
    /// The stamps of the file when it was last read and when it was last seen.
    stamp: Option<(SystemTime, u64)>,
    seen: Option<(SystemTime, u64)>,
    text: String,
    config: Config,
    watches: HashMap<String, Watched>,
    watches_made: u64,
    to_judge: SyncSender<Verdict>,
    verdicts: Receiver<Verdict>,
    to_learn: SyncSender<Learned>,
    learned: Receiver<Learned>,
    stations: Stations,
    /// The ICMP responder, and its addresses once the switch has them.
    answering: Option<Answering>,
    own: Option<Arc<OwnAddresses>>,
    /// The plan that the switch follows.
    planned: Plan,
    aged: Instant,
    link: Option<Link>,
    /// The reason why there is no connection, or why the switch refused; reported once.
    complaint: String,
    /// The parts of the switch that may have to be changed.
    dirty: Dirty,
    /// True if the file was wrong at the last check.
    wrong: bool,
    /// The last configuration that the switch accepted.
    accepted: Option<Config>,
    looked: Instant,
    pinged: Instant,
    not_before: Instant,
}

/// The parts of the switch that may differ from the intended state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dirty {
    Nothing,
    /// The shares of pools.
    Shares,
    Everything,
}

/// The reason why changes failed.
enum Failed {
    /// The connection failed.
    Gone(io::Error),
    /// The switch refused them.
    Refused(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Gone(error)
    }
}

impl Controller {
    fn report(&self, level: Level, event: &'static str, text: impl Into<String>) {
        (self.options.log)(level, event, text.into());
    }

    /// Reports an error unless it was also the last one.
    fn complain(&mut self, event: &'static str, text: String) {
        if self.complaint != text {
            self.report(Level::Warn, event, text.clone());
            self.complaint = text;
        }
    }

    fn turn(&mut self) {
        self.hear();
        let again = self.options.reload.swap(false, Ordering::Relaxed);
        if again || self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.look(again);
            if self.link.is_none() {
                self.connect();
            }
        }
        if again {
            self.read_switch_again();
        }
        if self.pinged.elapsed() >= PING {
            self.pinged = Instant::now();
            self.ping();
        }
        if self.aged.elapsed() >= AGEING {
            self.aged = Instant::now();
            self.age();
        }
        if self.dirty > Dirty::Nothing && Instant::now() >= self.not_before {
            self.reconcile();
        }
    }

    /// Handles events. Dead back ends come first: clients must not wait until many stations have been learned.
    fn hear(&mut self) {
        let mut first = self.learned.recv_timeout(TURN).ok();
        for _ in 0..STATIONS_A_TURN_MAX {
            let mut judged = false;
            while let Ok(verdict) = self.verdicts.try_recv() {
                self.judge(verdict);
                judged = true;
            }
            match first.take().or_else(|| self.learned.try_recv().ok()) {
                Some(learned) => self.learn(learned),
                None => return,
            }
            if judged {
                return;
            }
        }
    }

    // ---- back ends ----

    fn judge(&mut self, Verdict { watch, alive, why }: Verdict) {
        let found = self.watches.iter_mut().find(|(_, watched)| watched.number == watch);
        // It may belong to a watch that has ended.
        let Some((name, watched)) = found else { return };
        let first = watched.alive.is_none();
        watched.alive = Some(alive);
        self.dirty = self.dirty.max(Dirty::Shares);
        let name = name.clone();
        match (alive, first) {
            (true, true) => self.report(Level::Info, "back_end", format!("{name}: alive")),
            (true, false) => self.report(Level::Info, "back_end", format!("{name}: alive again")),
            (false, _) => self.report(Level::Warn, "back_end", format!("{name}: dead: {why}")),
        }
    }

    /// Starts and stops watches according to the configuration.
    fn watch(&mut self) {
        let mut old = std::mem::take(&mut self.watches);
        for back_end in &self.config.back_ends {
            let Some(health) = &back_end.health else { continue };
            let same = old.remove(&back_end.name).filter(|watched| watched.health == *health);
            if let Some(watched) = same {
                self.watches.insert(back_end.name.clone(), watched);
                continue;
            }
            self.watches_made += 1;
            let number = self.watches_made;
            match Watch::start(number, health.clone(), self.config.health, self.to_judge.clone()) {
                Ok(watch) => {
                    let watched = Watched { number, health: health.clone(), _watch: watch, alive: None };
                    self.watches.insert(back_end.name.clone(), watched);
                }
                Err(e) => self.report(Level::Warn, "back_end", format!("{}: no thread: {e}", back_end.name)),
            }
        }
    }

    // ---- ICMP ----

    /// Starts or stops answering on the configured interface.
    fn answer(&mut self) {
        let Some(port) = &self.config.controller else {
            if self.answering.take().is_some() {
                self.report(Level::Info, "icmp", "no longer answering");
            }
            return;
        };
        match &self.answering {
            Some(answering) if answering.interface() == port.interface => {
                answering.limit(port.icmp_per_second);
            }
            _ => match Answering::start(port, self.own.clone(), Arc::clone(&self.options.log)) {
                Ok(answering) => self.answering = Some(answering),
                Err(e) => self.report(Level::Warn, "icmp", format!("no answers: no thread: {e}")),
            },
        }
    }

    /// Sets the gateway's addresses once the switch has its configuration.
    fn own_addresses(&mut self) {
        let own = Arc::new(OwnAddresses::new(&self.config, &self.planned));
        if let Some(answering) = &self.answering {
            answering.set_own(Arc::clone(&own));
        }
        self.own = Some(own);
    }

    // ---- the file ----

    fn look(&mut self, again: bool) {
        let stamp = stamp(&self.options.path);
        // The writer of a file may not be done yet: it is read when it has been unchanged at two checks.
        let before = std::mem::replace(&mut self.seen, stamp);
        if !again && (stamp == self.stamp || stamp != before) {
            return;
        }
        self.stamp = stamp;
        let path = self.options.path.display().to_string();
        let text = match p4jet_files::read_text(&self.options.path, CONFIG_BYTES_MAX) {
            Ok(text) => text,
            // Some editors delete the old file before they write the new one.
            Err(e) if !again && e.kind() == io::ErrorKind::NotFound => return,
            Err(e) => {
                let text = format!("cannot read {path}: {e}; the previous version stays in effect");
                return self.report(Level::Warn, "config", text);
            }
        };
        if text == self.text {
            if std::mem::take(&mut self.wrong) {
                self.report(Level::Info, "config", format!("{path} is unchanged"));
            }
            return;
        }
        match Config::parse(&text) {
            Ok(config) => {
                self.report(Level::Info, "config", format!("{path} has changed"));
                if config.health != self.config.health {
                    self.watches.clear();
                }
                (self.text, self.config, self.dirty) = (text, config, Dirty::Everything);
                self.wrong = false;
                self.complaint.clear();
                self.watch();
                self.answer();
            }
            Err(complaints) => {
                self.wrong = true;
                for complaint in complaints.iter().take(SHOWN_MAX) {
                    self.report(Level::Warn, "config", complaint.line(&path, &text));
                }
                if complaints.len() > SHOWN_MAX {
                    let text = format!("{path}: {} errors more", complaints.len() - SHOWN_MAX);
                    self.report(Level::Warn, "config", text);
                }
                self.report(Level::Warn, "config", "the previous version stays in effect");
            }
        }
    }

    // ---- the switch ----

    fn connect(&mut self) {
        match (self.options.connect)() {
            Ok(client) => {
                // Listens first, so that events during the read are received too.
                let listener = match self.listen() {
                    Ok(listener) => Some(listener),
                    Err(e) if e.kind() == io::ErrorKind::TimedOut => return self.lost(&e),
                    Err(e) => {
                        self.complain("switch", format!("learning is off: {e}"));
                        None
                    }
                };
                self.read_switch(client, listener);
            }
            Err(e) => self.complain("switch", format!("no switch: {e}")),
        }
    }

    /// Starts listening for stations, over a separate connection.
    fn listen(&self) -> io::Result<Listener> {
        let mut own = (self.options.connect)()?;
        own.set_patience(ANSWER)?;
        Listener::start(own, self.to_learn.clone())
    }

    /// Reads the state of the switch.
    fn read_switch(&mut self, mut client: Client, listener: Option<Listener>) {
        let read = client.set_patience(BIG_ANSWER).and_then(|()| {
            let read = Actual::read(&self.options.objects, &mut client)?;
            client.set_patience(ANSWER)?;
            Ok(read)
        });
        let read = match read {
            Ok(read) => read,
            Err(e) => return self.lost(&e),
        };
        match read {
            Ok(actual) => {
                let objects = Arc::clone(&self.options.objects);
                self.link = Some(Link { client, objects, actual, listener });
                self.dirty = Dirty::Everything;
            }
            Err(why) => self.complain("switch", format!("no gateway: {why}")),
        }
    }

    /// Checks that the switch still responds.
    fn ping(&mut self) {
        let Some(link) = &mut self.link else { return };
        if let Err(e) = link.client.command("get_time_elapsed", false) {
            return self.lost(&e);
        }
        match &link.listener {
            Some(listener) if listener.has_ended() => {
                self.report(Level::Warn, "switch", "it no longer reports stations: subscribing again");
                self.link = None;
                self.connect();
            }
            Some(_) => {}
            // The subscription was refused, perhaps because of too many connections.
            None => {
                if let Ok(listener) = self.listen() {
                    self.report(Level::Info, "switch", "stations are learned again");
                    self.link.as_mut().expect("it was there").listener = Some(listener);
                }
            }
        }
    }

    fn lost(&mut self, error: &io::Error) {
        self.link = None;
        let what = if error.kind() == io::ErrorKind::TimedOut { "silent" } else { "gone" };
        self.complain("switch", format!("the switch is {what}: {error}"));
    }

    /// Brings the switch to its intended state.
    fn reconcile(&mut self) {
        // Back ends that have not been checked are not known to be dead, so the controller waits: a check takes at most
        // its timeout.
        if self.watches.values().any(|watched| watched.alive.is_none()) {
            return;
        }
        let alive: Vec<bool> = self
            .config
            .back_ends
            .iter()
            .map(|back_end| self.watches.get(&back_end.name).is_none_or(|w| w.alive == Some(true)))
            .collect();
        let alive = |at: usize| alive[at];
        if self.dirty == Dirty::Shares {
            return self.share(&alive);
        }
        for round in 0..ROUNDS_MAX {
            let Some(link) = &mut self.link else { return };
            let made = plan(&self.config, &alive, &link.actual).map_err(Failed::Refused);
            let made = made.and_then(|wanted| {
                let changes = diff(&link.objects, &wanted, &link.actual);
                let known = link.apply(&changes)?;
                Ok((wanted, changes, known))
            });
            match made {
                Ok((wanted, changes, _)) if changes.is_empty() => {
                    self.dirty = Dirty::Nothing;
                    self.planned = wanted;
                    self.adopt();
                    self.own_addresses();
                    let same = self.accepted.as_ref() == Some(&self.config);
                    if round == 0 && !(same && self.complaint.is_empty()) {
                        self.report(Level::Info, "switch", summary(&changes));
                    }
                    self.complaint.clear();
                    if !same {
                        self.accepted = Some(self.config.clone());
                    }
                    return;
                }
                Ok((_, changes, known)) => {
                    self.report(Level::Info, "switch", format!("changed: {}", summary(&changes)));
                    if !known {
                        self.read_switch_again();
                    }
                }
                Err(Failed::Gone(e)) => return self.lost(&e),
                Err(Failed::Refused(why)) => return self.refused(&why),
            }
        }
        self.not_before = Instant::now() + QUARREL;
        let text = "the switch differs from what the gateway set: does another program change it?";
        self.complain("switch", text.to_string());
    }

    /// Gives the slots of pools to the live back ends. Everything else stays as planned: after the death of a back end,
    /// the time must not depend on the size of the rest.
    fn share(&mut self, alive: &dyn Fn(usize) -> bool) {
        let Some(link) = &mut self.link else { return };
        self.planned.share(&self.config, alive);
        let changes = diff_shares(&link.objects, &self.planned, &link.actual);
        let made = if changes.is_empty() { Ok(true) } else { link.apply(&changes) };
        match made {
            Ok(known) => {
                self.dirty = Dirty::Nothing;
                if !changes.is_empty() {
                    self.report(Level::Info, "switch", format!("changed: {}", summary(&changes)));
                }
                if !known {
                    self.read_switch_again();
                }
            }
            Err(Failed::Gone(e)) => self.lost(&e),
            Err(Failed::Refused(why)) => self.refused(&why),
        }
    }
}

impl Controller {
    /// Handles that the switch refuses the configuration.
    fn refused(&mut self, why: &str) {
        self.complain("switch", format!("the switch refuses: {why}"));
        self.read_switch_again();
        // Dead back ends must still be removed, so the last accepted configuration is used.
        match self.accepted.take().filter(|accepted| *accepted != self.config) {
            Some(accepted) => {
                self.report(Level::Warn, "config", "the previous version stays in effect");
                self.config = accepted;
                self.watches.clear();
                self.watch();
                self.answer();
            }
            None => self.not_before = Instant::now() + QUARREL,
        }
    }

    fn read_switch_again(&mut self) {
        if let Some(Link { client, listener, .. }) = self.link.take() {
            self.read_switch(client, listener);
        }
    }
}

// ---- stations ----

impl Controller {
    /// Adopts the stations that the switch has.
    fn adopt(&mut self) {
        let Some(Link { actual, .. }) = &self.link else { return };
        let now = Instant::now();
        let learned = |(table, key): &(Table, Key)| match key.as_slice() {
            [network, mac] if *table == Table::Macs => {
                let station = (network.value as u16, mac.value as u64);
                (!self.planned.fixed.contains(&station)).then_some(station)
            }
            _ => None,
        };
        let has: BTreeSet<_> = actual.state.entries.keys().filter_map(learned).collect();
        self.stations.retain(|station| has.contains(station));
        for station in has {
            let known = actual.state.entries.contains_key(&place(Table::Stations, station));
            self.stations.found(station, !known, now);
        }
    }

    fn learn(&mut self, Learned { network, mac, location }: Learned) {
        let Some(link) = &mut self.link else { return };
        let station = (network, mac);
        let is_unicast = mac != 0 && mac >> 40 & 1 == 0;
        let may_be = self.planned.learning.get(&network).is_some_and(|may_be| may_be.contains(&location));
        if !is_unicast || !may_be || self.planned.fixed.contains(&station) {
            return;
        }
        if !self.stations.has(station) && self.stations.of(network) >= self.config.stations_max {
            let name = self.planned.network(network);
            let text =
                format!("network {name} has {} stations: no more are learned", self.config.stations_max);
            return self.complain("station", text);
        }
        let [macs, stations] = station_entries(network, mac, location);
        // The entry for frames to the station comes first: once the switch knows the station as a source, it no longer reports it.
        let done = link.put(macs).and_then(|news| link.put(stations).map(|_| news));
        match done {
            Ok(news) => {
                self.stations.seen(station, Instant::now());
                if news {
                    let mac = mac_text(mac);
                    let (name, at) = (self.planned.network(network), self.planned.place(location));
                    self.report(Level::Info, "station", format!("{mac} of network {name} is at {at}"));
                }
            }
            Err(error) => self.disturbed(error),
        }
    }

    fn age(&mut self) {
        let aged = self.stations.aged(self.config.age, Instant::now(), STATIONS_A_TURN_MAX);
        if aged.ask.len() + aged.forget.len() == STATIONS_A_TURN_MAX {
            // There may be more.
            self.aged = self.aged.checked_sub(AGEING).unwrap_or(self.aged);
        }
        let mut done = Ok(());
        let Some(link) = &mut self.link else { return };
        for station in &aged.ask {
            done = done.and_then(|()| link.take(place(Table::Stations, *station)));
        }
        for station in &aged.forget {
            done = done.and_then(|()| link.take(place(Table::Stations, *station)));
            done = done.and_then(|()| link.take(place(Table::Macs, *station)));
        }
        for (network, mac) in aged.forget {
            let mac = mac_text(mac);
            let name = self.planned.network(network);
            self.report(Level::Info, "station", format!("{mac} of network {name} is silent"));
        }
        if let Err(error) = done {
            self.disturbed(error);
        }
    }

    /// Handles a failure of a simple change.
    fn disturbed(&mut self, error: Failed) {
        match error {
            Failed::Gone(e) => self.lost(&e),
            Failed::Refused(why) => {
                self.complain("switch", format!("the switch refuses: {why}"));
                self.read_switch_again();
            }
        }
    }
}

fn place(table: Table, (network, mac): (u16, u64)) -> (Table, Key) {
    (table, vec![u128::from(network).into(), u128::from(mac).into()])
}

impl Link {
    /// Carries out one update, and returns the handle of the object that it creates.
    fn carry_out(&mut self, update: &Update) -> Result<Option<u32>, Failed> {
        let update = self.objects.schema().named(update);
        let mut results = self.client.write(vec![update], Atomicity::AllOrNothing)?;
        match results.pop() {
            Some(Ok(made)) => Ok(made),
            Some(Err(error)) => Err(Failed::Refused(error.message)),
            None => Err(Failed::Refused("the switch gave no result".to_string())),
        }
    }

    /// Sets an entry. True if that changed anything.
    fn put(&mut self, (place, call): ((Table, Key), Call)) -> Result<bool, Failed> {
        match self.actual.state.entries.get(&place) {
            Some(before) if *before == call => return Ok(false),
            Some(_) => {
                self.carry_out(&modify(&self.objects, &place, self.actual.handles[&place], &call))?;
            }
            None => {
                let update = insert(&self.objects, &place, &call);
                let Some(handle) = self.carry_out(&update)? else {
                    let command = self.objects.command(&update);
                    return Err(Failed::Refused(format!("`{command}` gave no handle")));
                };
                self.actual.handles.insert(place.clone(), handle);
            }
        }
        self.actual.state.entries.insert(place, call);
        Ok(true)
    }

    /// Removes an entry, if it exists.
    fn take(&mut self, place: (Table, Key)) -> Result<(), Failed> {
        let Some(handle) = self.actual.handles.get(&place) else { return Ok(()) };
        let update = delete(self.objects.id(place.0), *handle);
        self.carry_out(&update)?;
        self.actual.handles.remove(&place);
        self.actual.state.entries.remove(&place);
        Ok(())
    }

    /// Makes changes. True if the resulting state of the switch is known.
    fn apply(&mut self, changes: &[Change]) -> Result<bool, Failed> {
        let mut made = Vec::with_capacity(changes.len());
        self.client.set_patience(BIG_ANSWER)?;
        for some in changes.chunks(UPDATES_MAX) {
            let updates = some.iter().map(|change| {
                let mut update = self.objects.schema().named(&change.update);
                update.with_handles(&made);
                update
            });
            let updates = updates.collect();
            for (result, change) in self.client.write(updates, Atomicity::AllOrNothing)?.into_iter().zip(some)
            {
                match result {
                    Ok(handle) => made.push(handle),
                    Err(error) if &*error.code == "ABORTED" => {}
                    Err(error) => {
                        let command = change.command(&self.objects);
                        return Err(Failed::Refused(format!("`{command}`: {}", error.message)));
                    }
                }
            }
        }
        self.client.set_patience(ANSWER)?;
        // The changes after the death of a back end create no handles, so nothing has to be read.
        let mut known = true;
        for change in changes {
            match &change.slot {
                Some((pool, slot, call)) => {
                    if let Some(slots) = self.actual.state.pools.get_mut(pool) {
                        slots[*slot] = call.clone();
                    }
                }
                None => known = false,
            }
        }
        Ok(known)
    }
}
