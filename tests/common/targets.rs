//! The targets of fuzzing: one function for each place that receives text from outside. A panic is a finding.
//!
//! tests/fuzz.rs runs them on mutated texts in CI; fuzz/ connects them to the coverage-guided fuzzer.
//!
//! Blind spots: whether an answer is correct, except that both engines agree; files and their names.

use super::chain::{Outcome, compile};
use super::mutate::Vocabulary;
use bytes::Bytes;
use num_bigint::BigUint;
use p4jet_control::{
    Atomicity, Control, ControlError, Host, Keep, NamedUpdate, PortStats, Ready, Rights, SharedControl, Swap,
    Swapped, Update,
};
use p4jet_dataplane::{Cancel, EngineKind, Processed, Switch, Worker};
use p4jet_ir::random::{self, Rng};
use p4jet_ir::{ActionCall, Entry, KeyMatch, Loc, MatchKind, Program, Table};
use p4jet_p4info::proto::config::P4Info;
use p4jet_p4info::proto::v1;
use p4jet_p4info::reflect::Reflect;
use p4jet_p4runtime::client::errors;
use p4jet_p4runtime::server::InProcess;
use p4jet_syntax::{Options, parse_text, render};
use p4jet_text::{Commands, runtime_command, stf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A place that receives text.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Runs a text, and returns how far it got.
    pub run: fn(&str) -> &'static str,
    /// The vocabulary of its texts.
    pub vocabulary: &'static Vocabulary,
}

/// The preprocessor, in front of the parser, with files to include.
pub const PREPROCESSOR: Target = Target { name: "preprocessor", run: preprocessor, vocabulary: &DIRECTIVES };
/// The parser.
pub const PARSER: Target = Target { name: "parser", run: parser, vocabulary: &P4 };
/// The whole compiler, then packets through both engines.
pub const COMPILER: Target = Target { name: "compiler", run: compiler, vocabulary: &P4 };
/// Like [`COMPILER`], on programs with every construct of the language.
pub const LANGUAGE: Target = Target { name: "language", run: compiler, vocabulary: &P4 };
/// The IR's text form: reader, printer, verifier, passes, both engines.
pub const IR: Target = Target { name: "ir", run: ir, vocabulary: &IR_WORDS };
/// Packet tests.
pub const STF: Target = Target { name: "stf", run: packet_tests, vocabulary: &STF_WORDS };
/// Runtime commands.
pub const COMMANDS: Target = Target { name: "commands", run: commands, vocabulary: &COMMAND_WORDS };

/// Batches of updates by name, one JSON object a line.
pub const UPDATES: Target = Target { name: "updates", run: updates, vocabulary: &UPDATE_WORDS };

/// Messages of P4Runtime, in blocks: the name of a method or `StreamMessageRequest`, then the message in text form or `bytes` with
/// hexadecimal digits. `$` and an alias is an id of the P4Info.
pub const P4RUNTIME: Target = Target { name: "p4runtime", run: p4runtime, vocabulary: &MESSAGE_WORDS };

/// All targets.
pub const ALL: &[&Target] =
    &[&PREPROCESSOR, &PARSER, &COMPILER, &LANGUAGE, &IR, &STF, &COMMANDS, &UPDATES, &P4RUNTIME];

fn preprocessor(text: &str) -> &'static str {
    const FILES: &[(&str, &str)] = &[
        ("core.p4", "#ifndef CORE\n#define CORE\nerror { NoError }\n#endif\n"),
        ("twice.p4", "#define PAIR(a, b) a##b #a __LINE__\nconst bit<8> X = PAIR(1, 2);\n"),
        ("again.p4", "#include <again.p4>\n#include \"twice.p4\"\n"),
        ("open.p4", "#if 1\n/* not closed"),
    ];
    parse(text, FILES)
}

fn parser(text: &str) -> &'static str {
    parse(text, &[("core.p4", "error { NoError }\n")])
}

fn parse(text: &str, files: &[(&'static str, &'static str)]) -> &'static str {
    let options = Options { builtins: files.to_vec(), ..Options::default() };
    let parsed = parse_text("fuzz.p4", text, &options);
    for diagnostic in &parsed.diagnostics {
        let file = &parsed.sources.files[diagnostic.span.file.0 as usize];
        let (lo, hi) = (diagnostic.span.lo as usize, diagnostic.span.hi as usize);
        assert!(lo <= hi && hi <= file.text.len(), "a place beyond the file: {diagnostic:?}");
    }
    let printed = render(&parsed.diagnostics, &parsed.sources, false);
    assert_eq!(printed.is_empty(), parsed.diagnostics.is_empty());
    if printed.is_empty() { "accepted" } else { "refused" }
}

fn compiler(text: &str) -> &'static str {
    forward(text, &[], &[])
}

/// Compiles, then runs packets through both engines: the given ones, after the given commands, and some generated for
/// the program.
pub fn forward(text: &str, commands: &[&str], frames: &[Vec<u8>]) -> &'static str {
    let mut rng = Rng::new(digest(text));
    match compile("fuzz.p4", text, some_options(&mut rng)) {
        Outcome::Refused(stage) => stage,
        Outcome::Compiled { reference, optimised } => {
            let mut program = reference.program().clone();
            let mut commands: Vec<String> = commands.iter().map(|line| line.to_string()).collect();
            commands.extend(some_entries(&mut rng, &mut program));
            let mut frames = [common_frames(), frames.to_vec()].concat();
            frames.extend((0..FRAMES_EACH).map(|_| random::packet(rng.next_u64(), &program)));
            compare(&reference, &optimised, &commands, &frames);
            FORWARDED
        }
    }
}

/// Returns code generation options that otherwise only large programs use, from time to time.
fn some_options(rng: &mut Rng) -> p4jet_jit::Options {
    p4jet_jit::Options {
        cut_entries_min: rng.once_in(3).then_some(0),
        live_limbs_max: rng.once_in(3).then(|| rng.below(100)),
        optimised_max: rng.once_in(3).then_some(0),
        listing: false,
        plan: false,
        measured: rng.once_in(4),
        counted: rng.once_in(4),
        threads: None,
    }
}

/// The result of [`forward`] for a program that compiles.
pub const FORWARDED: &str = "packets forwarded";

/// Number of packets generated for a program, in addition to [`common_frames`].
const FRAMES_EACH: usize = 12;

fn ir(text: &str) -> &'static str {
    let Ok(program) = p4jet_ir::text::parse(text) else { return "text refused" };
    if p4jet_ir::verify::verify(&program).is_err() {
        return "verifier refused";
    }
    let printed = p4jet_ir::text::print(&program);
    match p4jet_ir::text::parse(&printed) {
        Ok(again) => assert!(again == program, "the text form changed the program to\n{printed}"),
        Err(error) => panic!("{error} in the printed text:\n{printed}"),
    }
    let mut optimised = program.clone();
    p4jet_ir::passes::run(&mut optimised);
    if let Err(errors) = p4jet_ir::verify::verify(&optimised) {
        panic!("invalid IR after the passes: {}", errors[0]);
    }
    let mut rng = Rng::new(digest(text));
    let optimised = Switch::with_options(optimised, some_options(&mut rng), 1);
    let (Ok(reference), Ok(optimised)) = (Switch::new(program), optimised) else {
        return "tables refused";
    };
    if optimised.code().is_err() {
        return "machine code refused";
    }
    let frames: Vec<_> = (0..6).map(|_| random::packet(rng.next_u64(), reference.program())).collect();
    compare(&reference, &optimised, &[], &frames);
    FORWARDED
}

fn packet_tests(text: &str) -> &'static str {
    match stf::parse(text) {
        Err(errors) => {
            for error in errors {
                assert!(error.text.get(error.span.clone()).is_some(), "a place beyond the line: {error:?}");
                assert!(!error.render("fuzz.stf").is_empty());
            }
            "refused"
        }
        Ok(script) => {
            let fresh = || sample_switch().map(Control::new);
            let [interp, jit] = [EngineKind::Interp, EngineKind::Jit].map(|engine| {
                let switch = sample_switch().expect("the sample is valid");
                let mut worker = switch.worker(engine, 0).expect("the sample compiles");
                let control = Control::new(switch);
                let outcome = stf::run_traced(&script, &control, &mut worker, &fresh);
                assert_eq!(outcome.report("fuzz").lines().count(), 1);
                (outcome.passed(), outcome.report("fuzz"), outcome.details())
            });
            assert!(interp == jit, "interpreter: {interp:?}\nmachine code: {jit:?}");
            if interp.0 { "passed" } else { "failed" }
        }
    }
}

fn commands(text: &str) -> &'static str {
    let control = Control::new(sample_switch().expect("the sample is valid"));
    let mut carried_out = 0;
    for line in text.lines() {
        match control.execute(line) {
            Ok(_) => carried_out += 1,
            Err(error) => {
                assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
                // Code that shows the line splits it there.
                assert!(error.span.is_none_or(|span| line.get(span).is_some()), "{line}");
            }
        }
        let (start, _) = control.complete(line, line.len() / 2);
        assert!(line.is_char_boundary(start));
    }
    // As a file: all commands run or none.
    let switch = sample_switch().expect("the sample is valid");
    if let Err(error) = Control::new(switch).load("fuzz.cmd", text) {
        assert!(!error.render().is_empty() && !error.to_string().is_empty());
    }
    match carried_out {
        0 => "refused",
        n if n == text.lines().count() => "carried out",
        _ => "carried out in part",
    }
}

/// Control of a switch in which something of every sort is set.
fn filled() -> Control {
    let control = Control::new(sample_switch().expect("the sample is valid"));
    let updates =
        named_updates(EVERYTHING).map(|named| control.schema().resolve(&named).expect("it is set up"));
    assert!(control.write(updates.collect(), Atomicity::AllOrNothing).in_effect);
    control
}

fn named_updates(text: &str) -> impl Iterator<Item = NamedUpdate> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The whole configuration, without the generations of handles: undo does not restore the generations of removed objects.
fn all_set(control: &Control) -> String {
    let kept = |line: &str| {
        let end = line.find(r#","generations":"#).unwrap_or(line.len());
        line[..end].trim_end_matches('}').to_string() + "\n"
    };
    control.dump(true).lines().map(kept).collect()
}

fn updates(text: &str) -> &'static str {
    let (together, each) = (filled(), filled());
    let read: Vec<NamedUpdate> = named_updates(text).collect();
    let mut batch: Vec<Update> = Vec::new();
    for named in &read {
        match together.schema().resolve(named) {
            Ok(update) => {
                let command = runtime_command(together.schema(), &update, |_, _, value| value.to_string());
                assert!(command.is_none_or(|command| !command.contains('\n')));
                // An update that the program allows has a name.
                if together.schema().check(together.program(), &update).is_ok() {
                    assert_eq!(
                        together.schema().resolve(&together.schema().named(&update)).as_ref(),
                        Ok(&update)
                    );
                }
                batch.push(update);
            }
            Err(error) => assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}"),
        }
    }
    let before = all_set(&together);
    let written = together.write(batch.clone(), Atomicity::AllOrNothing);
    assert_eq!(written.results.len(), batch.len());
    if !written.in_effect {
        assert_eq!(all_set(&together), before, "a refused batch changed something");
    }
    let alone = each.write(batch, Atomicity::ContinueOnError);
    let done = alone.results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(written.in_effect, done == alone.results.len(), "{written:?}\n{alone:?}");
    if written.in_effect {
        assert_eq!(all_set(&together), all_set(&each));
    }
    match (read.len(), done) {
        (0, _) => "not read",
        (_, 0) => "refused",
        (n, done) if n == done => "carried out",
        _ => "carried out in part",
    }
}

/// The program of the tests of P4Runtime entities.
const ENTITIES: &str = include_str!("../../crates/p4runtime/tests/common/entities.p4");

/// Returns a program in IR and its P4Info, or why it is refused.
fn with_p4info(text: &str) -> Result<(Program, P4Info), String> {
    let options = Options { builtins: p4jet_analysis::BUILTINS.to_vec(), ..Options::default() };
    let parsed = parse_text("fuzz.p4", text, &options);
    let (typed, _) = p4jet_compile::analyse(parsed, |_| ()).map_err(|refused| refused.text())?;
    let shown = |found: Vec<_>| render(&found, &typed.sources, false);
    let architecture = p4jet_compile::architecture(&typed).map_err(|found| shown(vec![*found]))?;
    let compiled = p4jet_compile::lower(&typed, architecture, "fuzz", false).map_err(shown)?;
    let generated = p4jet_p4info::generate(&typed, architecture.name()).map_err(shown)?;
    Ok((compiled.lowered, generated.p4info))
}

/// The running program and its P4Info: a host without ports and packets.
struct Hosted(Arc<Mutex<(Arc<Switch>, Vec<u8>)>>);

impl Hosted {
    fn lock(&self) -> MutexGuard<'_, (Arc<Switch>, Vec<u8>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for Hosted {
    fn prepare(&self, _: &p4jet_control::Program<'_>, _: &Cancel) -> Result<Swap, ControlError> {
        Err(ControlError::new("there are no files"))
    }

    fn prepare_queues(&self) -> Result<Swap, ControlError> {
        Err(ControlError::new("there are no queues"))
    }

    fn prepare_pipeline(
        &self,
        program: Option<&p4jet_control::Program<'_>>,
        _: &Cancel,
    ) -> Result<Ready, ControlError> {
        let (switch, p4info) = match program {
            Some(p4jet_control::Program::Whole(source)) => {
                let text = source.texts.get(&source.path).map_or("", String::as_str);
                let (program, p4info) = with_p4info(text).map_err(ControlError::new)?;
                (Switch::new(program).map_err(ControlError::new)?, p4info.encode())
            }
            _ => {
                let now = self.lock();
                let again = Switch::new(now.0.program().clone()).map_err(ControlError::new)?;
                (again, now.1.clone())
            }
        };
        let (now, new) = (Arc::clone(&self.0), (Arc::clone(&switch), p4info.clone()));
        let run = Box::new(move |keep| {
            if keep == Keep::Old {
                return Err(ControlError::new("the state is not kept here"));
            }
            let switch = Arc::clone(&new.0);
            *now.lock().unwrap_or_else(PoisonError::into_inner) = new;
            Ok(Swapped { switch, report: String::new() })
        });
        Ok(Ready { switch, p4info, run })
    }

    fn p4info(&self) -> Result<(Arc<Switch>, Vec<u8>), ControlError> {
        Ok(self.lock().clone())
    }

    fn subscribe(&self, _: p4jet_control::Topics) -> Result<p4jet_dataplane::Subscription, ControlError> {
        Err(ControlError::new("there are no events"))
    }

    fn ports(&self) -> Vec<PortStats> {
        Vec::new()
    }

    fn add_port(&self, _: u32, _: &str, _: &Rights) -> Result<(), ControlError> {
        Err(ControlError::new("there are no ports"))
    }

    fn remove_port(&self, _: u32) -> Result<(), ControlError> {
        Err(ControlError::new("there are no ports"))
    }

    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        change();
        Ok(())
    }

    fn stop(&self) {}
}

/// A server of the program of the entities, with control of its switch. The client's stream is primary.
struct Served {
    server: InProcess,
    control: SharedControl,
}

impl Served {
    fn new() -> Served {
        let (program, p4info) = entities();
        let switch = Switch::new(program.clone()).expect("the program is valid");
        let host = Hosted(Arc::new(Mutex::new((Arc::clone(&switch), p4info.encode()))));
        let control = SharedControl::new(Control::new(switch), Some(Arc::new(host)));
        let server = InProcess::new(control.clone()).expect("there are threads");
        let mut served = Served { server, control };
        served.become_primary();
        served
    }

    fn become_primary(&mut self) {
        let election_id = Some(v1::Uint128 { high: 0, low: 1 });
        let update = v1::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
        let update = Some(v1::StreamRequest::Arbitration(update));
        // A higher id may have come before.
        let _ = self.server.say(v1::StreamMessageRequest { update }.encode().into());
    }

    fn state(&self) -> String {
        all_set(&self.control.control())
    }

    /// Handles a message. Returns whether it was accepted, and which updates of a Write.
    fn take(&mut self, method: &str, raw: &Bytes) -> (bool, Vec<bool>) {
        if method == "StreamMessageRequest" {
            let taken = self.server.say(raw.clone());
            if taken.is_err() {
                self.become_primary();
            }
            return (taken.is_ok(), Vec::new());
        }
        let before = self.state();
        let result = self.server.call(method, raw.clone());
        let (mut written, mut all_or_nothing) = (Vec::new(), true);
        if method == "Write" {
            let mut request = v1::WriteRequest::default();
            // Bytes that are no message are refused as a whole.
            if request.merge(raw.clone()).is_ok() {
                all_or_nothing = request.atomicity != 0;
                written = vec![result.is_ok(); request.updates.len()];
            }
        }
        let mut in_part = false;
        if let Err(status) = &result {
            assert!(!status.message().is_empty() && status.code() != tonic::Code::Internal, "{status:?}");
            let errors = errors(status);
            if method == "Write" && status.code() == tonic::Code::Unknown {
                assert_eq!(errors.len(), written.len(), "{status:?}");
                let done = errors.iter().map(|error| error.canonical_code == 0);
                written = done.collect();
                in_part = !all_or_nothing;
                assert!(!all_or_nothing || !written.contains(&true), "{errors:?}");
            }
        }
        let changes =
            matches!(method, "Write" | "SetForwardingPipelineConfig") && (result.is_ok() || in_part);
        assert!(changes || self.state() == before, "a refused or reading message changed something");
        if let (Ok(answers), "Read") = (&result, method) {
            for answer in answers {
                v1::ReadResponse::default().merge(answer.clone()).expect("an answer is a message");
            }
        }
        (result.is_ok(), written)
    }
}

/// The program of the entities. It is compiled once.
fn entities() -> &'static (Program, P4Info) {
    static PROGRAM: OnceLock<(Program, P4Info)> = OnceLock::new();
    PROGRAM.get_or_init(|| with_p4info(ENTITIES).unwrap_or_else(|e| panic!("the program: {e}")))
}

/// Replaces `$` and an alias by the id of that object.
fn with_ids(text: &str) -> String {
    static IDS: OnceLock<Vec<(String, u32)>> = OnceLock::new();
    let ids = IDS.get_or_init(|| {
        let p4info = &entities().1;
        let all = (p4info.tables.iter().map(|of| &of.preamble))
            .chain(p4info.actions.iter().map(|of| &of.preamble))
            .chain(p4info.action_profiles.iter().map(|of| &of.preamble))
            .chain(p4info.counters.iter().map(|of| &of.preamble))
            .chain(p4info.meters.iter().map(|of| &of.preamble))
            .chain(p4info.registers.iter().map(|of| &of.preamble))
            .chain(p4info.value_sets.iter().map(|of| &of.preamble))
            .chain(p4info.digests.iter().map(|of| &of.preamble));
        all.flatten().map(|object| (object.alias.clone(), object.id)).collect()
    });
    let mut pieces = text.split('$');
    let mut out = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
        let id = ids.iter().find(|(alias, _)| *alias == piece[..end]).map_or(0, |(_, id)| *id);
        out += &format!("{id}{}", &piece[end..]);
    }
    out
}

/// A message in binary form; `None` if the text is no message of the method.
fn message(method: &str, text: &str) -> Option<Bytes> {
    if let Some(digits) = text.trim().strip_prefix("bytes ") {
        let digit = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        return (0..digits.len()).step_by(2).map(digit).collect::<Option<Vec<u8>>>().map(Bytes::from);
    }
    let mut read: Box<dyn Reflect> = match method {
        "Write" => Box::<v1::WriteRequest>::default(),
        "Read" => Box::<v1::ReadRequest>::default(),
        "SetForwardingPipelineConfig" => Box::<v1::SetForwardingPipelineConfigRequest>::default(),
        "GetForwardingPipelineConfig" => Box::<v1::GetForwardingPipelineConfigRequest>::default(),
        "Capabilities" => Box::<v1::CapabilitiesRequest>::default(),
        "StreamMessageRequest" => Box::<v1::StreamMessageRequest>::default(),
        _ => return None,
    };
    p4jet_p4info::text::parse(&with_ids(text), &mut *read).ok()?;
    Some(read.encode().into())
}

fn p4runtime(text: &str) -> &'static str {
    let (mut together, mut each) = (Served::new(), Served::new());
    let mut rng = Rng::new(digest(text));
    let (mut read, mut accepted) = (0, 0);
    for block in text.split("\n\n") {
        let Some((method, text)) = block.trim().split_once('\n') else { continue };
        let Some(mut raw) = message(method.trim(), text) else { continue };
        // What no text says.
        if rng.once_in(8) && !raw.is_empty() {
            let mut bytes = raw.to_vec();
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
            raw = bytes.into();
        }
        read += 1;
        let (is_accepted, written) = together.take(method.trim(), &raw);
        accepted += usize::from(is_accepted);
        if method.trim() != "Write" {
            each.take(method.trim(), &raw);
            continue;
        }
        // Without the updates that were refused, and one by one.
        let mut request = v1::WriteRequest::default();
        if request.merge(raw).is_err() {
            continue;
        }
        for (update, _) in
            std::mem::take(&mut request.updates).into_iter().zip(written).filter(|(_, done)| *done)
        {
            let alone = v1::WriteRequest { updates: vec![update], ..request.clone() };
            let (is_accepted, _) = each.take("Write", &alone.encode().into());
            assert!(is_accepted, "alone it is refused: {alone:?}");
        }
        let states = (together.state(), each.state());
        // A refused update may have given a text its number, so that the next texts have others.
        let numbers = |state: &str| -> Vec<String> {
            state.lines().filter(|line| line.contains("p4runtime text ")).map(str::to_string).collect()
        };
        if numbers(&states.0) != numbers(&states.1) {
            break;
        }
        assert_eq!(states.0, states.1, "updates of a batch and single ones differ");
    }
    match (read, accepted) {
        (0, _) => "not read",
        (_, 0) => "refused",
        (read, accepted) if read == accepted => "accepted",
        _ => "accepted in part",
    }
}

/// Returns a fresh switch with a table of every kind. Its program is read once.
fn sample_switch() -> Result<Arc<Switch>, String> {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    let program = PROGRAM
        .get_or_init(|| p4jet_ir::text::parse(SAMPLE).unwrap_or_else(|e| panic!("the sample program: {e}")));
    Ok(Switch::new(program.clone())?)
}

/// The program of the control plane's own tests.
const SAMPLE: &str = include_str!("../../crates/control/tests/common/sample.ir");

/// Updates that set something of every sort in it.
const EVERYTHING: &str = include_str!("../../crates/control/tests/common/everything.json");

/// FNV-1a: derives all further choices of a case from its text.
fn digest(text: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Returns commands that add entries to the program's tables. The entries are also added to `program`, so that matching
/// packets can be generated.
fn some_entries(rng: &mut Rng, program: &mut Program) -> Vec<String> {
    let mut commands = Vec::new();
    let widths: Vec<u32> = program.fields.iter().map(|f| f.width).collect();
    let actions = program.actions.clone();
    for table in program.tables.iter_mut().filter(|t| !t.const_entries && !t.hidden) {
        for _ in 0..rng.below(5) {
            let choice = rng.below(table.actions.len());
            let action = &actions[table.actions[choice].action.index()];
            let data: Vec<_> = action.params.iter().map(|p| rng.value(widths[p.index()])).collect();
            let key: Vec<KeyMatch> = table.keys.iter().map(|k| some_match(rng, k.width, k.kind)).collect();
            let words: Vec<String> = data.iter().map(|v| format!("{v:#x}")).collect();
            if table.keys.is_empty() || rng.once_in(6) {
                let words = words.join(" ");
                commands.push(format!("table_set_default {} {} {words}", table.name, action.control_name));
                continue;
            }
            commands.push(table_add(table, &action.control_name, &key, &words, rng.below(100)));
            let action = ActionCall { action: choice as u32, data };
            let shown_priority = rng.below(100) as u32;
            table.entries.push(Entry {
                key,
                priority: 0,
                shown_priority,
                is_const: false,
                action,
                loc: Loc(0),
            });
        }
    }
    commands
}

fn table_add(table: &Table, action: &str, key: &[KeyMatch], data: &[String], priority: usize) -> String {
    let words = key.iter().zip(&table.keys).map(|(m, k)| match m {
        KeyMatch::Exact(v) => format!("{v:#x}"),
        KeyMatch::Lpm { value, prefix_len } => format!("{value:#x}/{prefix_len}"),
        KeyMatch::Ternary { value, mask } => format!("{value:#x}&&&{mask:#x}"),
        KeyMatch::Range { lo, hi } => format!("{lo:#x}->{hi:#x}"),
        KeyMatch::Optional(None) => "0&&&0".to_string(),
        KeyMatch::Optional(Some(v)) => format!("{v:#x}&&&{:#x}", ones(k.width)),
    });
    let mut line = format!("table_add {} {action}", table.name);
    for word in words.chain(["=>".to_string()]).chain(data.iter().cloned()) {
        line += &format!(" {word}");
    }
    if table.keys.iter().any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm)) {
        line += &format!(" {priority}");
    }
    line
}

fn ones(width: u32) -> BigUint {
    (BigUint::from(1u32) << width) - 1u32
}

fn some_match(rng: &mut Rng, width: u32, kind: MatchKind) -> KeyMatch {
    let value = rng.value(width);
    match kind {
        MatchKind::Exact => KeyMatch::Exact(value),
        MatchKind::Lpm => {
            let prefix_len = rng.range(0, width as usize) as u32;
            let mask = ones(width) ^ ones(width - prefix_len);
            KeyMatch::Lpm { value: value & mask, prefix_len }
        }
        MatchKind::Ternary => {
            let mask = rng.value(width);
            KeyMatch::Ternary { value: value & &mask, mask }
        }
        MatchKind::Range => {
            let other = rng.value(width);
            KeyMatch::Range { lo: value.clone().min(other.clone()), hi: value.max(other) }
        }
        MatchKind::Optional => KeyMatch::Optional((!rng.once_in(3)).then_some(value)),
    }
}

/// Returns a few packets that exercise most of what common programs do.
fn common_frames() -> Vec<Vec<u8>> {
    // Ethernet, IPv4, UDP.
    let udp = |ttl: u8| {
        let mut frame = vec![0u8; 60];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, ttl, 17]);
        frame[26..38].copy_from_slice(&[192, 0, 2, 1, 10, 0, 0, 1, 3, 232, 0, 53]);
        frame[39] = 26;
        frame
    };
    let mut options = udp(64);
    options[14] = 0x47;
    let mut ipv6 = udp(64);
    ipv6[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 17, 64]);
    let mut short = udp(64);
    short.truncate(30);
    vec![udp(64), udp(1), options, ipv6, short, vec![0; 14], vec![7], vec![0xff; 200]]
}

/// Checks that both engines agree on every packet, and both switches on every runtime command.
fn compare(reference: &Arc<Switch>, optimised: &Arc<Switch>, commands: &[String], frames: &[Vec<u8>]) {
    let mut controls = [reference, optimised].map(|switch| Control::new(switch.clone()));
    let mut command = |line: &str| {
        let [a, b] = controls.each_mut().map(|control| control.execute(line));
        assert!(a == b, "`{line}` gives {a:?} and {b:?}");
    };
    // Commands that do not fit the program are refused.
    commands.iter().for_each(|line| command(line));
    let workers = (reference.worker(EngineKind::Interp, 0), optimised.worker(EngineKind::Jit, 0));
    let (Ok(mut interp), Ok(mut jit)) = workers else { return };
    let run = |worker: &mut Worker| -> Vec<Processed> {
        let one = |(i, frame): (usize, &Vec<u8>)| {
            worker.set_time(Some(1000 * i as u64));
            worker.process_one(i as u32 % 3, frame)
        };
        frames.iter().enumerate().map(one).collect()
    };
    let expected = run(&mut interp);
    let agree = |got: &[Processed], expected: &[Processed], what: &str| {
        for ((i, got), want) in got.iter().enumerate().zip(expected) {
            assert!(
                got == want,
                "the engines differ on packet {} at port {}, after {commands:#?}\n  \
                 interpreter: {}\n  {what}: {}",
                to_hex(&frames[i]),
                i % 3,
                shown(want),
                shown(got),
            );
        }
    };
    agree(&run(&mut jit), &expected, "machine code");
    // Repeated with code for these packets.
    let packets = frames.iter().zip(0..).map(|(frame, i)| (i % 3, frame.as_slice()));
    if let Ok(code) = optimised.seen(packets).map(|seen| optimised.code_for_seen(&seen)) {
        let code = code.unwrap_or_else(|e| panic!("{}", optimised.program_error(&e)));
        if jit.change_code(&code) {
            let expected = run(&mut interp);
            agree(&run(&mut jit), &expected, "machine code for them");
        }
    }
    for instance in &reference.program().instances {
        command(&format!("register_read {}", instance.name));
        (0..4).for_each(|i| command(&format!("counter_read {} {i}", instance.name)));
    }
}

fn shown(processed: &Processed) -> String {
    let sent = processed.sent.iter().map(|(port, frame)| format!("{} at port {port}", to_hex(frame)));
    let dropped = processed.dropped.iter().map(|reason| format!("dropped, {reason}"));
    sent.chain(dropped).collect::<Vec<_>>().join(", ")
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

const P4: Vocabulary = Vocabulary {
    spices: &[
        "0",
        "1",
        "8",
        "63",
        "64",
        "65",
        "128",
        "129",
        "2048",
        "4294967295",
        "18446744073709551616",
        "0x0",
        "8w255",
        "8s127",
        "-1",
        "<<",
        ">>",
        "++",
        "|+|",
        "|-|",
        "&&&",
        "..",
        "_",
        "==",
        "!=",
        "?",
        "[0]",
        "[7:0]",
        "bit",
        "int",
        "bool",
        "varbit",
        "error",
        "in",
        "out",
        "inout",
        "return",
        "exit",
        "accept",
        "reject",
        "default",
        "true",
        "false",
        "exact",
        "lpm",
        "ternary",
        "range",
        "optional",
        "setValid()",
        "setInvalid()",
        "isValid()",
        "valid",
        "const",
        "apply",
        "action",
        "table",
        "control",
        "parser",
        "header",
        "struct",
        "size",
        "entries",
        "@name(\"x\")",
        "this",
        "{",
        "}",
        "(",
        ")",
        ";",
        "{#}",
        "...",
        "mark_to_drop(standard_metadata)",
        "transition",
        "select",
        "start",
    ],
    kinds: &[
        &[
            "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "++", "|+|", "|-|", "==", "!=", "<", "<=",
            ">", ">=", "&&", "||",
        ],
        &[
            "bit<1>",
            "bit<8>",
            "bit<16>",
            "bit<9>",
            "bit<64>",
            "bit<65>",
            "bit<128>",
            "int<16>",
            "int",
            "bool",
            "varbit<320>",
        ],
        &["exact", "lpm", "ternary", "range", "optional"],
        &["in", "out", "inout"],
        &["true", "false"],
        &["isValid", "setValid", "setInvalid", "apply", "extract", "emit", "lookahead", "advance", "length"],
        &["bit<8>", "bit<16>", "bit<32>", "bit<48>"],
    ],
    keywords: &[
        "action",
        "actions",
        "apply",
        "bool",
        "const",
        "control",
        "default",
        "default_action",
        "else",
        "entries",
        "error",
        "exit",
        "false",
        "header",
        "if",
        "in",
        "include",
        "inout",
        "int",
        "key",
        "out",
        "parser",
        "return",
        "select",
        "size",
        "state",
        "struct",
        "switch",
        "table",
        "transition",
        "true",
        "tuple",
        "typedef",
        "void",
    ],
    line_end: ";",
};

const DIRECTIVES: Vocabulary = Vocabulary {
    spices: &[
        "\n#define A B\n",
        "\n#define B A\n",
        "\n#define F(x) x F\n",
        "\n#define F(x, y) x##y #x\n",
        "\n#undef A\n",
        "\n#if ",
        "\n#ifdef A\n",
        "\n#ifndef A\n",
        "\n#elif A\n",
        "\n#else\n",
        "\n#endif\n",
        "\n#include <core.p4>\n",
        "\n#include <again.p4>\n",
        "\n#include \"twice.p4\"\n",
        "\n#include <open.p4>\n",
        "\n#include A\n",
        "\n#error x\n",
        "\n#warning x\n",
        "\n#line 7 \"x.p4\"\n",
        "\n#pragma x y\n",
        "\n#\n",
        "#",
        "##",
        "\\\n",
        "A",
        "B",
        "F",
        "F(",
        "F(A, B)",
        ",",
        "(",
        ")",
        "defined",
        "defined(A)",
        "__LINE__",
        "__FILE__",
        "__VA_ARGS__",
        "...",
        "/*",
        "*/",
        "//",
        "\"",
        "1",
        "0x",
        "-",
        "/ 0",
        "% 0",
        "<<",
        "1 << 99",
        "?",
        ":",
        "&&",
        "'",
        "\u{1F600}",
        "9223372036854775808",
    ],
    kinds: &[
        &["if", "ifdef", "ifndef", "elif", "else", "endif", "define", "undef", "include", "error"],
        &["A", "B", "F", "__LINE__", "__FILE__"],
        &["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||"],
    ],
    keywords: &["if", "ifdef", "ifndef", "elif", "else", "endif", "define", "undef", "include", "defined"],
    line_end: "",
};

const IR_WORDS: Vocabulary = Vocabulary {
    spices: &[
        "0x0",
        "0x1:1",
        "0xff:8",
        "0x0:32",
        "1",
        "64",
        "65",
        "65536",
        "n0",
        "n1",
        "drop",
        "return",
        "exit",
        "reject",
        "goto",
        "if",
        "then",
        "else",
        "switch",
        "apply",
        "extract",
        "emit",
        "advance",
        "lookahead",
        "call",
        "entry",
        "const",
        "key",
        "action",
        "default",
        "size",
        "block",
        "parser",
        "control",
        "deparser",
        "field",
        "header",
        "valid",
        "data",
        "metadata",
        "register",
        "counter",
        "direct",
        "{",
        "}",
        "(",
        ")",
        ",",
        "\"",
    ],
    kinds: &[
        &["exact", "lpm", "ternary", "range", "optional"],
        &[
            "add", "sub", "mul", "divu", "remu", "sataddu", "satsubu", "satadds", "satsubs", "and", "or",
            "xor",
        ],
        &["eq", "ne", "ltu", "leu", "lts", "les"],
        &["shl", "shru", "shrs"],
        &["not", "neg"],
        &["1", "8", "16", "32", "64", "65", "128"],
        &["n0", "n1", "n2", "n3", "n4", "n5"],
    ],
    keywords: &["block", "field", "table", "action", "header", "key", "instance", "size", "default", "entry"],
    line_end: "",
};

const STF_WORDS: Vocabulary = Vocabulary {
    spices: &[
        "add ",
        "setdefault ",
        "packet ",
        "expect ",
        "no_packet",
        "wait",
        "remove ",
        "all",
        "check_counter ",
        "l2 ",
        "acl ",
        "ipv4_lpm ",
        "dst:",
        "hdr.eth.dst:",
        "src:",
        "hdr.ipv4.src:0x0a****** ",
        "out(port:1)",
        "deny()",
        "(",
        ")",
        ":",
        "0x1*",
        "0b*1",
        "0 ",
        "1 ",
        "99999999999999999999",
        "$",
        "*",
        "\"",
        "a.b",
        "[0]",
        "= R",
        "seen(",
        "$R",
        " packets == 1",
        "register_read cells ",
        "counter_read ",
        "register_write wide 1 ",
        "é",
        "#",
        "/",
        "->",
        "&&&",
        "0xffffffffffffffffffffffffffffffffffffffff",
        "00 ",
        "aa",
        "10.0.0.1",
        "\t",
        "remove all",
        "mirroring_add 1 2",
        "mc_mgrp_create 1",
        "mc_node_create 1 2 3",
        "mc_node_associate 1 0",
    ],
    kinds: &[&["==", "!=", "<", "<=", ">", ">="], &["packets", "bytes"]],
    keywords: &["add", "packet", "expect", "setdefault", "wait", "check_counter"],
    line_end: "",
};

const MESSAGE_WORDS: Vocabulary = Vocabulary {
    spices: &[
        "$l2",
        "$acl",
        "$routes",
        "$aged",
        "$spread",
        "$counted",
        "$paths",
        "$constant",
        "$keyless",
        "$forward",
        "$classify",
        "\"\"",
        "\"\\xff\"",
        "\"\\x00\"",
        "0",
        "1",
        "2",
        "7",
        "4294967295",
        "18446744073709551615",
        "match",
        "priority",
        "is_default_action",
        "true",
        "is_const",
        "counter_data",
        "meter_config",
        "metadata",
        "weight",
        "watch_port",
    ],
    kinds: &[
        &["INSERT", "MODIFY", "DELETE", "UNSPECIFIED"],
        &["CONTINUE_ON_ERROR", "ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"],
        &["exact", "ternary", "lpm", "range", "optional"],
        &[
            "table_entry",
            "direct_counter_entry",
            "direct_meter_entry",
            "counter_entry",
            "meter_entry",
            "register_entry",
        ],
        &["action_profile_member", "action_profile_group", "digest_entry", "value_set_entry"],
        &["VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT", "COMMIT", "RECONCILE_AND_COMMIT"],
        &["Write", "Read", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Capabilities"],
        &[
            "$l2",
            "$acl",
            "$routes",
            "$lpm_only",
            "$aged",
            "$labels",
            "$spread",
            "$counted",
            "$indirect",
            "$constant",
        ],
        &["$forward", "$send", "$classify", "$drop_it", "$NoAction", "$measured", "$tag"],
    ],
    keywords: &[],
    line_end: "",
};

const UPDATE_WORDS: Vocabulary = Vocabulary {
    spices: &[
        "l2",
        "acl",
        "route",
        "next_hop",
        "ecmp",
        "hops",
        "pairs",
        "hits",
        "seen",
        "cells",
        "out",
        "deny",
        "made",
        "insert",
        "modify",
        "delete",
        "clear",
        "set_default",
        "create_member",
        "delete_member",
        "create_group",
        "delete_group",
        "add_to_group",
        "remove_from_group",
        "set_session",
        "create_node",
        "destroy_node",
        "associate",
        "dissociate",
        "reset",
        "member",
        "group",
        "entry",
        "index",
        "0",
        "1",
        "2",
        "4294967295",
        "16777216",
        "-1",
        "null",
        "[]",
        "{}",
        "1e308",
        "0x10",
        "5&&&7",
        "0->65535",
        "10.0.0.0/8",
    ],
    kinds: &[
        &["l2", "acl", "route", "next_hop", "ipv4_lpm", "fixed"],
        &["out", "deny", "forward", "NoAction"],
    ],
    keywords: &["true", "false", "null"],
    line_end: "}",
};

const COMMAND_WORDS: Vocabulary = Vocabulary {
    spices: &[
        "table_add",
        "table_modify",
        "table_delete",
        "table_set_default",
        "table_clear",
        "table_dump",
        "table_info",
        "table_dump_entry",
        "table_dump_entry_from_key",
        "table_reset_default",
        "table_num_entries",
        "counter_read",
        "counter_write",
        "counter_reset",
        "register_read",
        "register_write",
        "register_reset",
        "set_crc16_parameters",
        "help",
        "show_tables",
        "mc_mgrp_create",
        "l2",
        "ipv4_lpm",
        "acl",
        "fixed",
        "ipv4_out",
        "value_set",
        "forward",
        "deny",
        "out",
        "NoAction",
        "=>",
        "0",
        "1",
        "2",
        "16777216",
        "4294967295",
        "0x10",
        "-1",
        "10.0.0.0/8",
        "1&&&3",
        "1->5",
        "5->1",
        "6",
        "0&&&0",
        "::1",
        "00:11:22:33:44:55",
        "seen",
        "hits",
        "cells",
        "wide",
        "calc",
        "true",
        "#",
        "é",
        "\u{a0}",
        "/",
        "&&&",
        "->",
        "1/99999999999",
        "0x",
        "_",
        ".",
        "1->0",
        "|",
        "mc_node_create",
        "mc_node_associate",
        "mirroring_add",
    ],
    kinds: &[
        &["ingress.l2", "ingress.acl", "ingress.ipv4_lpm", "ingress.fixed", "egress.ipv4_out"],
        &["ingress.forward", "ingress.out", "ingress.deny", "NoAction"],
    ],
    keywords: &[],
    line_end: "",
};
