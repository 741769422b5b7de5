//! Extern functions other than hashes.

use crate::bits::{self, arguments, number, saturate};
use crate::{Call, CallSite, Env, GREEN, hash};
use num_bigint::BigUint;
use p4jet_ir::Function;
use std::fmt::Write;

/// Returns the computation of a function; `None` for a foreign one.
pub(crate) fn computation(function: &Function) -> Option<Call> {
    Some(match function {
        Function::Hash(hash) => hash::computation(*hash),
        Function::Random => random,
        Function::LogMsg => log_msg,
        Function::Assert => |e, s, a, _| check(e, s, a, "assert"),
        Function::Assume => |e, s, a, _| check(e, s, a, "assume"),
        Function::RegisterRead => register_read,
        Function::RegisterWrite => register_write,
        Function::RegisterLock => register_lock,
        Function::RegisterUnlock => register_unlock,
        Function::AtomicBegin | Function::AtomicEnd => |_, _, _, _| {},
        Function::Count | Function::CountDirect => count,
        Function::Meter => |e, s, a, o| meter(e, s, a, o, false),
        Function::MeterDirect => |e, s, a, o| meter(e, s, a, o, true),
        Function::SendDigest => send_digest,
        Function::Foreign(_) => return None,
    })
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
    let values: Vec<BigUint> = arguments(site, args).map(|(value, _)| number(value)).collect();
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
    // Like bmv2, ignores the text between the braces. Each character is searched once, because the text may be long.
    while let Some((before, inside)) = rest.split_once('{') {
        let Some((_, after)) = inside.split_once('}') else { break };
        let Some((value, _)) = values.next() else { break };
        write!(line, "{before}{}", number(value)).expect("a String takes everything");
        rest = after;
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

fn meter(env: &mut Env<'_>, site: &CallSite, args: &[u64], outs: &mut [u64], direct: bool) {
    let mut values = arguments(site, args).map(|(value, _)| saturate(value));
    let index = values.next().and_then(|index| u32::try_from(index).ok());
    let mut colour = values.next().unwrap_or(GREEN);
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

fn put_big(outs: &mut [u64], value: &BigUint, width: u32) {
    outs.fill(0);
    for (i, (out, digit)) in outs.iter_mut().zip(value.iter_u64_digits()).enumerate() {
        *out = bits::mask_low(digit, width.saturating_sub(64 * i as u32));
    }
}
