//! Every extern function against what it should compute, written differently.

use num_bigint::BigUint;
use p4jet_externs::*;
use p4jet_ir::Function;
use proptest::prelude::*;

fn state(instances: &[(&str, InstanceKind)]) -> State {
    let specs: Vec<InstanceSpec> =
        instances.iter().map(|(name, kind)| InstanceSpec { name: name.to_string(), kind: *kind }).collect();
    State::new(&specs, 2).unwrap()
}

struct Call<'a> {
    name: &'a str,
    instance: Option<u32>,
    args: Vec<(BigUint, u32)>,
    outs: Vec<u32>,
    text: Vec<&'a str>,
}

fn limbs(value: &BigUint, width: u32) -> Vec<u64> {
    let mut limbs = value.to_u64_digits();
    limbs.resize(width.div_ceil(64) as usize, 0);
    limbs
}

fn big(limbs: &[u64]) -> BigUint {
    limbs.iter().rev().fold(BigUint::default(), |v, limb| v << 64 | BigUint::from(*limb))
}

fn call(env: &mut Env<'_>, call: Call<'_>) -> Vec<BigUint> {
    let function: Function = call.name.parse().expect("it is declared");
    let arg_widths = call.args.iter().map(|(_, width)| *width).collect();
    let text = call.text.iter().map(ToString::to_string).collect();
    let site = CallSite::new(function, call.instance, arg_widths, call.outs.clone(), text).unwrap();
    let args: Vec<u64> = call.args.iter().flat_map(|(value, width)| limbs(value, *width)).collect();
    let mut outs = vec![u64::MAX; call.outs.iter().map(|width| width.div_ceil(64) as usize).sum()];
    site.call(env, &args, &mut outs);
    let mut rest = outs.as_slice();
    (call.outs.iter())
        .map(|width| {
            let (value, after) = rest.split_at(width.div_ceil(64) as usize);
            rest = after;
            let value = big(value);
            assert!(
                value.bits() <= u64::from(*width),
                "{}: result {value:x} has more than {width} bits",
                call.name
            );
            value
        })
        .collect()
}

fn hash(env: &mut Env<'_>, name: &str, args: &[(BigUint, u32)], out: u32) -> BigUint {
    call(env, Call { name, instance: None, args: args.to_vec(), outs: vec![out], text: vec![] }).remove(0)
}

fn bytes(text: &[u8]) -> Vec<(BigUint, u32)> {
    text.iter().map(|byte| ((*byte).into(), 8)).collect()
}

#[test]
fn known_hashes() {
    let state = state(&[]);
    let mut env = state.env(0);
    let digits = bytes(b"123456789");
    let one = vec![(BigUint::from_bytes_be(b"123456789"), 72)];
    for args in [&digits, &one] {
        assert_eq!(hash(&mut env, "crc16", args, 16), 0xbb3du32.into());
        assert_eq!(hash(&mut env, "crc16_custom", args, 16), 0xbb3du32.into());
        assert_eq!(hash(&mut env, "crc32", args, 32), 0xcbf4_3926u32.into());
        assert_eq!(hash(&mut env, "crc32_custom", args, 32), 0xcbf4_3926u32.into());
        assert_eq!(hash(&mut env, "crc32", args, 14), (0xcbf4_3926u32 & 0x3fff).into(), "cut");
        assert_eq!(hash(&mut env, "crc32", args, 100), 0xcbf4_3926u32.into(), "extended");
        assert_eq!(hash(&mut env, "identity", args, 64), 0x3132_3334_3536_3738u64.into());
        assert_eq!(hash(&mut env, "xor16", args, 16), (0x3132u32 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900).into());
    }
    // 5 bits, padded with zeros on the right: 0b10101000.
    assert_eq!(hash(&mut env, "identity", &[(0b10101u32.into(), 5)], 32), 0xa8u32.into());
    assert_eq!(hash(&mut env, "csum16", &[], 16), 0xffffu32.into());
    env.with_packet(b"6789", 60, |env| {
        assert_eq!(hash(env, "crc32_payload", &bytes(b"12345"), 32), 0xcbf4_3926u32.into());
        assert_eq!(hash(env, "crc16_payload", &bytes(b"12345"), 32), 0xbb3du32.into());
        assert_eq!(hash(env, "identity_payload", &bytes(b"12345"), 64), 0x3132_3334_3536_3738u64.into());
    });
    assert_eq!(
        hash(&mut env, "identity_payload", &bytes(b"1"), 64),
        0x31u32.into(),
        "the payload is forgotten"
    );
}

/// The header of RFC 1071's age: an IPv4 header whose checksum is known.
#[test]
fn ipv4_header() {
    let state = state(&[]);
    let mut env = state.env(0);
    let mut header = vec![(4u32, 4), (5, 4), (0, 8), (0x73, 16), (0, 16), (2, 3), (0, 13), (64, 8), (17, 8)];
    header.extend([(0xc0a8_0001, 32), (0xc0a8_00c7, 32)]);
    let mut header: Vec<(BigUint, u32)> = header.into_iter().map(|(v, w)| (v.into(), w)).collect();
    assert_eq!(hash(&mut env, "csum16", &header, 16), 0xb861u32.into());
    header.push((0xb861u32.into(), 16));
    assert_eq!(hash(&mut env, "csum16", &header, 16), 0u32.into(), "verifies");
}

#[test]
fn custom_crc_by_name() {
    let state = state(&[]);
    let mut env = state.env(0);
    let of = |env: &mut Env<'_>, text: Vec<&str>| {
        let args = bytes(b"123456789");
        call(env, Call { name: "crc16_custom", instance: None, args, outs: vec![16], text }).remove(0)
    };
    assert_eq!(of(&mut env, vec!["calc"]), 0xbb3du32.into());
    let ccitt =
        CrcParams { width: 16, poly: 0x1021, init: 0xffff, xor: 0, reflect_in: false, reflect_out: false };
    state.set_crc("calc", ccitt);
    assert_eq!(of(&mut env, vec!["calc"]), 0x29b1u32.into());
    assert_eq!(of(&mut env, vec!["calc_0"]), 0xbb3du32.into());
    assert_eq!(of(&mut env, vec![]), 0xbb3du32.into());
    assert_eq!((state.crc("calc"), state.crc("calc_0")), (Some(ccitt), None));
}

#[test]
fn random_numbers() {
    let state = state(&[]);
    let draw = |env: &mut Env<'_>, lo: u128, hi: u128, width: u32| {
        let args = vec![(lo.into(), width), (hi.into(), width)];
        call(env, Call { name: "random", instance: None, args, outs: vec![width], text: vec![] }).remove(0)
    };
    let mut env = state.env(0);
    let mut seen = [0; 6];
    for _ in 0..600 {
        let x = draw(&mut env, 10, 15, 8);
        seen[x.iter_u32_digits().next().unwrap() as usize - 10] += 1;
    }
    assert!(seen.iter().all(|n| (50..150).contains(n)), "{seen:?}");
    assert_eq!(draw(&mut env, 7, 7, 8), 7u32.into());
    assert_eq!(draw(&mut env, 9, 3, 8), 9u32.into());
    let (lo, hi) = (1u128 << 100, (1u128 << 100) + 5);
    assert!((0..50).all(|_| (lo.into()..=hi.into()).contains(&draw(&mut env, lo, hi, 128))));
    assert!((0..50).map(|_| draw(&mut env, 0, u128::MAX, 128)).any(|x| x.bits() > 100));

    let some = |worker| (0..5).map(|_| draw(&mut state.env(worker), 0, 1 << 40, 64)).collect::<Vec<_>>();
    state.set_random_seed(4);
    let (first, second) = (some(0), some(1));
    assert_ne!(first, second, "workers draw different numbers");
    assert_ne!(first[0], first[1], "a new environment continues the sequence");
    state.set_random_seed(4);
    assert_eq!(some(0), first);
}

#[test]
fn messages_and_assertions() {
    let state = state(&[]);
    let mut env = state.env(0);
    let say = |env: &mut Env<'_>, name: &str, args: &[u32], text: &str| {
        let args = args.iter().map(|v| (BigUint::from(*v), 32)).collect();
        call(env, Call { name, instance: None, args, outs: vec![], text: vec![text] });
    };
    say(&mut env, "log_msg", &[], "plain");
    say(&mut env, "log_msg", &[1, 0xff], "{} and {hex}: {}");
    say(&mut env, "log_msg", &[3], "open { brace");
    assert_eq!(env.take_log(), ["plain", "1 and 255: {}", "open { brace"]);
    say(&mut env, "assert", &[1], "fine");
    assert!(!env.take_failed());
    say(&mut env, "assume", &[0], "x > 0");
    assert!(env.take_failed() && !env.take_failed());
    assert_eq!(env.take_log(), ["assume failed: x > 0"]);
    for _ in 0..5000 {
        say(&mut env, "log_msg", &[], "again");
    }
    let log = env.take_log();
    assert_eq!(log.len(), 4097);
    assert!(log[4096].starts_with("(904 more lines were dropped"), "{}", log[4096]);
    for _ in 0..4097 {
        say(&mut env, "log_msg", &[], "again");
    }
    assert!(env.take_log()[4096].starts_with("(1 more line was dropped"));
    // Long lines fill the log by their bytes.
    let long = "x".repeat(60_000);
    for _ in 0..100 {
        say(&mut env, "log_msg", &[], &long);
    }
    let log = env.take_log();
    assert_eq!(log.len(), (1 << 20) / 60_000 + 1);
    let last = "(83 more lines were dropped: at most 4096 lines and 1048576 bytes are kept)";
    assert_eq!(log.last().map(String::as_str), Some(last));
    say(&mut env, "log_msg", &[], &long);
    assert_eq!(env.take_log(), [long]);
    // No character is searched twice.
    let start = std::time::Instant::now();
    say(&mut env, "log_msg", &[], &"{".repeat(1 << 20));
    say(&mut env, "log_msg", &[1], &"{".repeat(1 << 20));
    say(&mut env, "log_msg", &[1], &format!("{{}}{}}}", "{".repeat(1 << 20)));
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn registers() {
    let state = state(&[
        ("wide", InstanceKind::Register { width: 100, size: 3 }),
        ("c", InstanceKind::Counter { unit: Unit::Both, size: 3 }),
        ("narrow", InstanceKind::Register { width: 9, size: 2 }),
    ]);
    let mut env = state.env(1);
    let read = |env: &mut Env<'_>, instance, index: u128, width| {
        let args = vec![(index.into(), 128)];
        let outs = vec![width];
        call(env, Call { name: "register.read", instance: Some(instance), args, outs, text: vec![] })
            .remove(0)
    };
    let write = |env: &mut Env<'_>, instance, index: u128, value: u128, width| {
        let args = vec![(index.into(), 128), (value.into(), width)];
        call(
            env,
            Call { name: "register.write", instance: Some(instance), args, outs: vec![], text: vec![] },
        );
    };
    let value = (1u128 << 99) + 5;
    write(&mut env, 0, 2, value, 100);
    write(&mut env, 2, 1, 0x1ff, 9);
    for beyond in [3, 1 << 64, u128::MAX] {
        write(&mut env, 0, beyond, 1, 100);
        assert_eq!(read(&mut env, 0, beyond, 100), 0u32.into());
    }
    assert_eq!(read(&mut env, 0, 2, 100), value.into());
    assert_eq!(read(&mut env, 0, 1, 100), 0u32.into());
    assert_eq!(read(&mut state.env(0), 2, 1, 9), 0x1ffu32.into(), "workers share registers");
    assert_eq!(state.register_read(0, 2).unwrap(), value.into());
    assert!(state.register_base(1).is_null() && !state.register_base(2).is_null());

    state.register_write(2, 0, &7u32.into()).unwrap();
    assert_eq!(read(&mut env, 2, 0, 9), 7u32.into());
    let error = state.register_write(2, 0, &512u32.into()).unwrap_err();
    assert_eq!(error.to_string(), "`narrow`: found a value of 10 bits, expected at most 9");
    let error = state.register_read(2, 2).unwrap_err();
    assert_eq!(error.to_string(), "`narrow`: found index 2, expected one below 2");
    assert_eq!(state.register_read(1, 0).unwrap_err().to_string(), "extern instance 1 is no register");
    state.register_reset(2).unwrap();
    assert_eq!(state.register_read(2, 1).unwrap(), 0u32.into());
}

#[test]
fn counters() {
    let state = state(&[
        ("c", InstanceKind::Counter { unit: Unit::Packets, size: 3 }),
        ("d", InstanceKind::DirectCounter { unit: Unit::Both, table_size: 4 }),
    ]);
    let (mut a, mut b) = (state.env(0), state.env(1));
    let count = |env: &mut Env<'_>, name: &str, instance, index: u64, bytes: u32| {
        env.with_packet(&[], bytes, |env| {
            let args = vec![(index.into(), 64)];
            call(env, Call { name, instance: Some(instance), args, outs: vec![], text: vec![] });
        });
    };
    let value = |packets, bytes| CounterValue { packets, bytes };
    count(&mut a, "counter.count", 0, 2, 60);
    count(&mut b, "counter.count", 0, 2, 100);
    for beyond in [3, u64::MAX, 1 << 32] {
        count(&mut a, "counter.count", 0, beyond, 1);
    }
    assert_eq!(state.counter_read(0, 2), Ok(value(2, 160)));
    assert_eq!(state.counter_read(0, 1), Ok(value(0, 0)));
    state.counter_write(0, 2, value(10, 20)).unwrap();
    count(&mut a, "counter.count", 0, 2, 1);
    assert_eq!(state.counter_read(0, 2), Ok(value(11, 21)));
    state.counter_reset(0).unwrap();
    assert_eq!(state.counter_read(0, 2), Ok(value(0, 0)));
    let error = state.counter_read(0, 3).unwrap_err();
    assert_eq!(error.to_string(), "`c`: found index 3, expected one below 3");

    // The entry in slot 1 of a table of 4 has row 2, later 2 + 5 and so on: one counter.
    count(&mut a, "direct_counter.count", 1, 2, 60);
    b.count(1, 2 + 5, 40);
    b.count(1, 2 + 7 * 5, 1);
    b.count(1, 3, 1000);
    assert_eq!(state.counter_read(1, 2), Ok(value(3, 101)));
    assert_eq!(state.counter_read(1, 7), Ok(value(3, 101)));
    state.counter_write(1, 7, value(0, 0)).unwrap();
    assert_eq!(state.counter_read(1, 2), Ok(value(0, 0)));
    b.count(1, 40, 1);
    assert!(state.counter_read(1, 40).is_err());

    // Generated code writes these cells.
    let cells = state.counter_base(0, 0);
    assert!(!cells.is_null() && cells != state.counter_base(0, 1));
    assert!(state.register_base(0).is_null());
}

#[test]
fn too_large() {
    let of = |width, size| {
        let kind = InstanceKind::Register { width, size };
        State::new(&[InstanceSpec { name: "r".into(), kind }], 1).err().map(|e| e.to_string())
    };
    assert_eq!(of(32, 1 << 26), None);
    let text = "`r` makes 4294967295 cells of registers, counters and meters, expected at most 268435456";
    assert_eq!(of(32, u32::MAX).as_deref(), Some(text));
    assert!(of(65, 1 << 28).is_some(), "a wide cell counts by its words");
}

#[test]
fn every_function_has_a_unique_name_and_a_computation() {
    for function in Function::all() {
        assert_eq!(function.to_string().parse(), Ok(function.clone()));
        assert!(CallSite::new(function.clone(), None, vec![], vec![], vec![]).is_ok(), "{function}");
        assert_eq!(function.reads_payload(), function.to_string().contains("_payload"), "{function}");
    }
    assert_eq!("crc99".parse::<Function>(), Err("no extern function `crc99`".to_string()));
    let foreign = "foreign.popcount".parse::<Function>().unwrap();
    assert_eq!(foreign.to_string(), "foreign.popcount");
    let why = CallSite::new(foreign, None, vec![], vec![], vec![]).unwrap_err();
    assert!(why.starts_with("only the program declares the extern `popcount`"), "{why}");
}

/// The concatenation by arithmetic on one large number.
fn concatenated(args: &[(BigUint, u32)]) -> Vec<u8> {
    let width: u32 = args.iter().map(|(_, width)| width).sum();
    let bits = args.iter().fold(BigUint::default(), |all, (value, width)| all << *width | value);
    let count = width.div_ceil(8) as usize;
    let mut bytes = vec![0; count];
    let padded = (bits << (count as u32 * 8 - width)).to_bytes_be();
    if count > 0 {
        let padded = &padded[padded.len().saturating_sub(count)..];
        bytes[count - padded.len()..].copy_from_slice(padded);
    }
    bytes
}

/// RFC 1071, section 4.1.
fn rfc1071(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn argument() -> impl Strategy<Value = (BigUint, u32)> {
    (1u32..200, prop::collection::vec(any::<u64>(), 4)).prop_map(|(width, limbs)| {
        let value = big(&limbs);
        (value & ((BigUint::from(1u32) << width) - 1u32), width)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_widths(
        args in prop::collection::vec(argument(), 0..8),
        lengths in prop::collection::vec(prop_oneof![Just(0u32), 0u32..250], 8),
        payload in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let state = state(&[]);
        let mut env = state.env(0);
        let plain = concatenated(&args);
        let (mut pieces, mut cut) = (Vec::new(), Vec::new());
        for ((value, width), length) in args.iter().zip(&lengths) {
            pieces.extend([((*length).into(), 32), (value.clone(), *width)]);
            let length = length.min(width);
            cut.push((value & ((BigUint::from(1u32) << *length) - 1u32), *length));
        }
        let cut = concatenated(&cut);
        let with_payload = |bytes: &[u8]| [bytes, &payload].concat();
        env.with_packet(&payload, 0, |env| {
            for (suffix, args, bytes) in [
                ("", &args, &plain),
                ("_payload", &args, &with_payload(&plain)),
                ("_pieces", &pieces, &cut),
                ("_payload_pieces", &pieces, &with_payload(&cut)),
            ] {
                let mut of = |name: &str| hash(env, &format!("{name}{suffix}"), args, 64);
                prop_assert_eq!(of("csum16"), rfc1071(bytes).into());
                let crc16 = crc::Crc::<u16>::new(&crc::CRC_16_ARC).checksum(bytes);
                prop_assert_eq!(of("crc16"), crc16.into());
                prop_assert_eq!(of("crc16_custom"), crc16.into());
                let crc32 = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(bytes);
                prop_assert_eq!(of("crc32"), crc32.into());
                prop_assert_eq!(of("crc32_custom"), crc32.into());
                prop_assert_eq!(of("identity"), BigUint::from_bytes_be(&bytes[..bytes.len().min(8)]));
                let mut even = bytes.clone();
                even.resize(even.len().next_multiple_of(2), 0);
                let xor = even.chunks(2).map(|w| u16::from_be_bytes([w[0], w[1]])).fold(0, |a, b| a ^ b);
                prop_assert_eq!(of("xor16"), xor.into());
            }
            for name in ["crc16", "crc32", "crc16_custom", "crc32_custom"] {
                let nothing = hash(env, name, &[], 64);
                for (more, args, plain) in [("_more", &args, &plain), ("_more_pieces", &pieces, &cut)] {
                    let before = [(BigUint::default(), 32)];
                    let more = hash(env, &format!("{name}{more}"), &[&before, args.as_slice()].concat(), 64);
                    prop_assert_eq!(more ^ &nothing, hash(env, name, &bytes(plain), 64));
                }
            }
            Ok(())
        })?;
    }
}

const RATES: Rates = [Rate { per_us: 0.3, burst: 700 }, Rate { per_us: 1.7, burst: 1900 }];

fn meter(env: &mut Env<'_>, name: &str, args: &[u64], bytes: u32) -> u32 {
    let args = args.iter().map(|value| (BigUint::from(*value), 32)).collect();
    let call = Call { name, instance: Some(0), args, outs: vec![8], text: vec![] };
    let colour = env.with_packet(&[], bytes, |env| self::call(env, call).remove(0));
    u32::try_from(colour).unwrap()
}

/// A meter as RFC 2698 describes it, with buckets that are filled step by step.
struct Model {
    rates: Rates,
    /// Committed and peak: tokens, and the tokens added since the start.
    buckets: [(u64, u64); 2],
}

impl Model {
    fn new(rates: Rates) -> Model {
        Model { rates, buckets: rates.map(|rate| (rate.burst, 0)) }
    }

    fn colour(&mut self, now: u64, tokens: u64, given: u32) -> u32 {
        for (bucket, rate) in self.buckets.iter_mut().zip(self.rates) {
            let made = (now as f64 * rate.per_us) as u64;
            *bucket = ((bucket.0 + made - bucket.1).min(rate.burst), made);
        }
        let [committed, peak] = &mut self.buckets;
        if given == 2 || peak.0 < tokens {
            return 2;
        }
        peak.0 -= tokens;
        if given == 1 || committed.0 < tokens {
            return 1;
        }
        committed.0 -= tokens;
        0
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn meters_as_the_model(
        committed in (0.0..4.0f64, 0u64..3000),
        more in (0.0..4.0f64, 0u64..3000),
        bytes: bool,
        packets in prop::collection::vec((0u64..1500, 0u32..1600, 0u64..3), 1..200),
    ) {
        let peak = Rate { per_us: committed.0 + more.0, burst: more.1 };
        let rates = [Rate { per_us: committed.0, burst: committed.1 }, peak];
        let state = state(&[("m", InstanceKind::Meter { bytes, size: 4 })]);
        state.meter_set_rates(0, 2, Some(rates)).unwrap();
        let mut env = state.env(1);
        let (mut now, mut model) = (0, Model::new(rates));
        for (passed, length, given) in packets {
            now += passed;
            env.set_now(now);
            let expected = model.colour(now, if bytes { length.into() } else { 1 }, given as u32);
            prop_assert_eq!(meter(&mut env, "meter.execute", &[2, given], length), expected);
        }
    }
}

#[test]
fn meters_without_rates_and_beyond_the_end_are_green() {
    let state = state(&[("m", InstanceKind::Meter { bytes: false, size: 2 })]);
    let mut env = state.env(0);
    let none = [Rate::default(); 2];
    state.meter_set_rates(0, 1, Some(none)).unwrap();
    let colours: Vec<u32> =
        [0, 1, 2, u64::from(u32::MAX)].iter().map(|i| meter(&mut env, "meter.execute", &[*i], 60)).collect();
    assert_eq!(colours, [0, 2, 0, 0], "only cell 1 has rates, and they let nothing pass");
    assert_eq!(meter(&mut env, "meter.execute", &[7, 1], 60), 1, "the colour that the packet had");
    assert_eq!(state.meter_rates(0, 0), Ok(None));
    assert_eq!(state.meter_rates(0, 1), Ok(Some(none)));
    state.meter_set_rates(0, 1, None).unwrap();
    assert_eq!(state.meter_rates(0, 1), Ok(None));
    assert_eq!(meter(&mut env, "meter.execute", &[1], 60), 0);
    let wrong = [RATES[1], RATES[0]];
    assert_eq!(state.meter_set_rates(0, 1, Some(wrong)), Err(StateError::Rates { name: "m".to_string() }));
    let index = StateError::Index { name: "m".to_string(), found: 2, size: 2 };
    assert_eq!(state.meter_set_rates(0, 2, Some(RATES)), Err(index));
    assert_eq!(
        state.meter_set_cells_rates(0, 0..2, Some(wrong)),
        Err(StateError::Rates { name: "m".to_string() })
    );
    state.meter_set_cells_rates(0, 1..u32::MAX, Some(RATES)).unwrap();
    assert_eq!(state.meter_values(0).collect::<Vec<_>>(), [(1, RATES)]);
    state.meter_set_cells_rates(0, 0..1, Some(RATES)).unwrap();
    assert_eq!(state.meter_values(0).collect::<Vec<_>>(), [(0, RATES), (1, RATES)]);
}

/// Rows of one entry (other banks) are one meter.
#[test]
fn direct_meters_are_by_entry() {
    let state = state(&[("m", InstanceKind::DirectMeter { bytes: false, table_size: 9 })]);
    let mut env = state.env(0);
    let rate = Rate { per_us: 0.0, burst: 3 };
    state.meter_set_rates(0, 4, Some([rate; 2])).unwrap();
    let colours: Vec<u32> = [4, 14, 24, 34, 5, 0]
        .iter()
        .map(|row| meter(&mut env, "direct_meter.execute", &[*row], 60))
        .collect();
    assert_eq!(colours, [0, 0, 0, 2, 0, 0]);
}

/// Tokens are given out once, however many workers ask.
#[test]
fn meters_shared_by_workers() {
    let state = state(&[("m", InstanceKind::Meter { bytes: false, size: 1 })]);
    let rates = [Rate { per_us: 0.0, burst: 3000 }, Rate { per_us: 0.0, burst: 5000 }];
    state.meter_set_rates(0, 0, Some(rates)).unwrap();
    let counts = std::thread::scope(|scope| {
        let worker = |worker| {
            let state = &state;
            scope.spawn(move || {
                let mut env = state.env(worker);
                let mut counts = [0; 3];
                for _ in 0..4000 {
                    counts[meter(&mut env, "meter.execute", &[0], 60) as usize] += 1;
                }
                counts
            })
        };
        [worker(0), worker(1)].map(|thread| thread.join().unwrap())
    });
    let sum: Vec<u32> = (0..3).map(|colour| counts[0][colour] + counts[1][colour]).collect();
    assert_eq!(sum, [3000, 2000, 3000]);
}

#[test]
fn digests_wait_until_they_are_taken() {
    let state = state(&[("r", InstanceKind::ActionProfile), ("d", InstanceKind::Digest)]);
    let mut env = state.env(0);
    let mut send = |value: u64| {
        let args = vec![(BigUint::from(value), 48), (BigUint::from(3u32), 9)];
        call(&mut env, Call { name: "digest.send", instance: Some(1), args, outs: vec![], text: vec![] });
    };
    let taken = |max: usize| {
        let mut taken = Vec::new();
        state.take_digests(max, |digest| taken.push(digest));
        taken
    };
    send(0xffff_0000_0001);
    let digest = Digest { instance: 1, now_us: 0, limbs: [0xffff_0000_0001, 3].into() };
    assert_eq!(taken(10), [digest]);
    assert_eq!(taken(10), []);
    for value in 0..9000 {
        send(value);
    }
    // Each takes four words of 32768.
    let counts = DigestCounts { sent: 9001, without_subscriber: 0, dropped: 808 };
    assert_eq!(state.digest_counts(), counts);
    assert_eq!(taken(1000).len(), 1000);
    let rest = taken(usize::MAX);
    assert_eq!((rest.len(), &*rest[7191].limbs), (7192, &[8191, 3][..]), "the oldest stay");
    state.hear_digests(false);
    send(1);
    assert_eq!(taken(10), []);
    assert_eq!(state.digest_counts(), DigestCounts { sent: 9002, without_subscriber: 1, dropped: 808 });
    state.hear_digests(true);
    send(2);
    assert_eq!(taken(10).len(), 1);
}

#[test]
fn digests_are_taken_while_they_are_sent() {
    let state = state(&[("d", InstanceKind::Digest)]);
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut env = state.env(0);
            for value in 0..100_000u32 {
                // Messages of all lengths, so that they cross the end of the ring at every position.
                let args = vec![(BigUint::from(value), 32 + 64 * (value % 5))];
                let call_it =
                    Call { name: "digest.send", instance: Some(0), args, outs: vec![], text: vec![] };
                call(&mut env, call_it);
            }
        });
        while !sender.is_finished() {
            state.take_digests(usize::MAX, |digest| got.push(digest));
        }
    });
    state.take_digests(usize::MAX, |digest| got.push(digest));
    assert_eq!(got.len() as u64 + state.digest_counts().dropped, 100_000);
    assert!(got.iter().all(|digest| digest.limbs.len() as u64 == 1 + digest.limbs[0] % 5));
    assert!(got.is_sorted_by_key(|digest| digest.limbs[0]));
}
