//! Extern functions that are no hashes.

use crate::bits::{self, arguments, saturate};
use crate::{CallSite, Env, ExternDef, GREEN};
use num_bigint::BigUint;
use std::fmt::Write;

/// Functions by name.
pub(crate) static DEFS: [ExternDef; 15] = [
    impure("random", random, "(lo, hi) -> a number from lo to hi, both included; lo if hi < lo"),
    impure("log_msg", log_msg, "(values...): logs the first text, each {} in it replaced by the next value"),
    impure(
        "assert",
        |e, s, a, _| check(e, s, a, "assert"),
        "(condition): fails the packet if the condition is 0",
    ),
    impure("assume", |e, s, a, _| check(e, s, a, "assume"), "(condition): the same as assert"),
    impure("register.read", register_read, "(index) -> value; 0 beyond the end"),
    impure("register.write", register_write, "(index, value); nothing beyond the end"),
    impure(
        "register.lock",
        register_lock,
        "(): takes the register for this worker, unless it has it; waits for others",
    ),
    impure("register.unlock", register_unlock, "(): gives the register back, as often as it was taken"),
    impure("atomic.begin", |_, _, _, _| {}, "(): what follows is atomic with respect to other packets"),
    impure("atomic.end", |_, _, _, _| {}, "(): until here"),
    impure("counter.count", count, "(index): counts the packet; nothing beyond the end"),
    impure(
        "direct_counter.count",
        count,
        "(row): counts the packet in the counter of the entry with this row",
    ),
    impure(
        "meter.execute",
        meter,
        "(index) or (index, colour before) -> colour: 0 green, 1 yellow, 2 red; green, or the colour before, beyond the end",
    ),
    impure(
        "direct_meter.execute",
        meter,
        "(row) or (row, colour before) -> colour by the meter of the entry with this row",
    ),
    impure("digest.send", send_digest, "(values...): sends them to the control plane"),
];

const fn impure(
    name: &'static str,
    call: fn(&mut Env<'_>, &CallSite, &[u64], &mut [u64]),
    doc: &'static str,
) -> ExternDef {
    ExternDef { name, call, pure_function: false, uses_payload: false, doc }
}

fn register_lock(env: &mut Env<'_>, site: &CallSite, _: &[u64], _: &mut [u64]) {
    if let Some(instance) = site.instance {
        env.lock_register(instance);
    }
}

fn register_unlock(env: &mut Env<'_>, site: &CallSite, _: &[u64], _: &mut [u64]) {
    if let Some(instance) = site.instance {
        env.unlock_register(instance);
    }
}

fn random(env: &mut Env<'_>, site: &CallSite, args: &[u64], outs: &mut [u64]) {
    let values: Vec<BigUint> = arguments(site, args).map(|(value, _)| big(value)).collect();
    let [lo, hi] = values.as_slice() else { panic!("random takes 2 arguments, found {}", values.len()) };
    let result = if hi > lo { lo + env.random_below(&(hi - lo + 1u32)) } else { lo.clone() };
    let width = site.out_widths.first().copied().unwrap_or(0);
    put_big(outs, &result, width);
}

fn log_msg(env: &mut Env<'_>, site: &CallSite, args: &[u64], _: &mut [u64]) {
    let format = site.text.first().map_or("", String::as_str);
    let mut values = arguments(site, args);
    let mut line = String::new();
    let mut rest = format;
    // As in bmv2, the text between the braces does not matter.
    while let Some((before, inside)) = rest.split_once('{') {
        line.push_str(before);
        match (inside.split_once('}'), values.next()) {
            (Some((_, after)), Some((value, _))) => {
                write!(line, "{}", big(value)).expect("a String takes everything");
                rest = after;
            }
            _ => {
                line.push('{');
                rest = inside;
            }
        }
    }
    line.push_str(rest);
    env.log(line);
}

fn check(env: &mut Env<'_>, site: &CallSite, args: &[u64], name: &str) {
    if args.iter().all(|limb| *limb == 0) {
        let what = match site.text.first() {
            Some(text) => format!("{name} failed: {text}"),
            None => format!("{name} failed"),
        };
        env.fail(what);
    }
}

fn register_read(env: &mut Env<'_>, site: &CallSite, args: &[u64], outs: &mut [u64]) {
    outs.fill(0);
    if let Some(instance) = site.instance {
        env.read_cell(instance, saturate(args), outs);
    }
}

fn register_write(env: &mut Env<'_>, site: &CallSite, args: &[u64], _: &mut [u64]) {
    let mut values = arguments(site, args);
    if let (Some(instance), Some((index, _)), Some((value, _))) =
        (site.instance, values.next(), values.next())
    {
        env.write_cell(instance, saturate(index), value);
    }
}

fn count(env: &mut Env<'_>, site: &CallSite, args: &[u64], _: &mut [u64]) {
    let index = saturate(args);
    if let (Some(instance), Ok(index)) = (site.instance, u32::try_from(index)) {
        let bytes = env.packet_len() as usize;
        env.count(instance, index, bytes);
    }
}

fn meter(env: &mut Env<'_>, site: &CallSite, args: &[u64], outs: &mut [u64]) {
    let mut values = arguments(site, args).map(|(value, _)| saturate(value));
    let index = values.next().and_then(|index| u32::try_from(index).ok());
    let mut colour = values.next().unwrap_or(GREEN);
    let direct = site.def.name == "direct_meter.execute";
    if let (Some(meters), Some(index)) = (site.instance.and_then(|i| env.state().meter(i)), index)
        && (direct || index < meters.stride())
    {
        let (now_us, bytes) = (env.now_us(), env.packet_len());
        colour = match env.is_dry() {
            false => meters.execute(index, colour, now_us, bytes),
            true => meters.would_execute(index, colour, now_us, bytes),
        };
    }
    bits::put(site, outs, colour);
}

fn send_digest(env: &mut Env<'_>, site: &CallSite, args: &[u64], _: &mut [u64]) {
    if let Some(instance) = site.instance
        && !env.is_dry()
    {
        env.state().send_digest(env.worker(), instance, env.now_us(), args);
    }
}

fn big(limbs: &[u64]) -> BigUint {
    BigUint::new(limbs.iter().flat_map(|limb| [*limb as u32, (*limb >> 32) as u32]).collect())
}

fn put_big(outs: &mut [u64], value: &BigUint, width: u32) {
    outs.fill(0);
    for (i, (out, digit)) in outs.iter_mut().zip(value.iter_u64_digits()).enumerate() {
        *out = bits::mask_low(digit, width.saturating_sub(64 * i as u32));
    }
}
