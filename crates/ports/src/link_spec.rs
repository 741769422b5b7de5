//! `,delay=5ms,loss=0.01,…`: the link that a port emulates, as written after its kind.

use p4jet_suggest::did_you_mean;
use std::fmt;
use std::time::Duration;

/// The possible options, for messages.
pub(crate) const OPTIONS: &str =
    "delay=TIME, jitter=TIME, reorder, loss=P or 1/N, rate=RATE, queue=N, seed=N";
const KEYS: [&str; 7] = ["delay", "jitter", "reorder", "loss", "rate", "queue", "seed"];
/// Number of frames that wait if `rate` is given and `queue` is not, as with interfaces of Linux.
pub(crate) const QUEUE_DEFAULT: usize = 1000;
/// Maximum delay and jitter.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// The unit of fixed-point numbers: parts of a billion.
const ONE: u128 = 1_000_000_000;
/// Nanoseconds of each unit, and bits per second; the largest last.
const TIMES: [(&str, u128); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const BITS: [(&str, u128); 4] = [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];

/// The effects of a port's link on the frames that the port sends. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSpec {
    /// Delay of a frame.
    pub delay: Duration,
    /// Maximum variation of `delay`, up and down.
    pub jitter: Duration,
    /// If true, a frame with less jitter overtakes; otherwise each waits for the previous one.
    pub reorder: bool,
    /// Which frames are lost.
    pub loss: Loss,
    /// Rate at which frames leave.
    pub rate: Option<Rate>,
    /// Number of frames that may wait for `rate`; further ones are dropped.
    pub queue: Option<usize>,
    /// Seed of the random numbers; by default, the number of the port.
    pub seed: Option<u64>,
}

/// Which frames a link loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each frame with a probability of this many parts of a billion.
    Random(u32),
    /// Every Nth frame.
    Every(u64),
}

/// Rate at which frames leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Bits of frames per second, without preamble, checksum and gap.
    Bits(u64),
    /// Frames per second.
    Packets(u64),
}

impl LinkSpec {
    /// Parses the options in `texts`, which may be empty.
    pub(crate) fn parse(texts: &[&str]) -> Result<LinkSpec, String> {
        let mut link = LinkSpec::default();
        let mut seen = Vec::new();
        for text in texts {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            let key = if key == "depth" { "queue" } else { key };
            if seen.contains(&key) {
                return Err(format!("`{text}`: this option is given twice"));
            }
            seen.push(key);
            match key {
                "delay" => link.delay = time(text, value)?,
                "jitter" => link.jitter = time(text, value)?,
                "reorder" if *text == "reorder" => link.reorder = true,
                "loss" => link.loss = Loss::parse(value).ok_or_else(|| {
                    format!(
                        "`{text}`: expected a probability such as `0.01` or `1%`, or `1/100` for every 100th frame"
                    )
                })?,
                "rate" => {
                    link.rate = Some(Rate::parse(value).ok_or_else(|| {
                        format!("`{text}`: expected a rate such as `10mbit`, with the unit bit, kbit, mbit, gbit or pps")
                    })?);
                }
                "queue" => {
                    let frames = number(value).and_then(|frames| usize::try_from(frames).ok());
                    link.queue =
                        Some(frames.ok_or_else(|| format!("`{text}`: expected a number of frames"))?);
                }
                "seed" => {
                    link.seed = Some(number(value).ok_or_else(|| format!("`{text}`: expected a number"))?);
                }
                _ => {
                    let hint = did_you_mean(key, KEYS);
                    return Err(format!("unknown option `{text}`: {hint}expected {OPTIONS}"));
                }
            }
        }
        if link.queue.is_some() && link.rate.is_none() {
            return Err("`queue` without `rate=`: frames wait only where a rate limits them".into());
        }
        Ok(link)
    }

    /// True if it changes anything.
    pub(crate) fn acts(&self) -> bool {
        *self != LinkSpec { reorder: self.reorder, seed: self.seed, ..LinkSpec::default() }
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, time) in [("delay", self.delay), ("jitter", self.jitter)] {
            if !time.is_zero() {
                write!(f, ",{key}={}", with_unit(time.as_nanos(), &TIMES))?;
            }
        }
        if self.reorder {
            f.write_str(",reorder")?;
        }
        match self.loss {
            Loss::None => {}
            Loss::Random(parts) => write!(f, ",loss={}", decimal(parts))?,
            Loss::Every(each) => write!(f, ",loss=1/{each}")?,
        }
        match self.rate {
            None => {}
            Some(Rate::Bits(rate)) => write!(f, ",rate={}", with_unit(rate.into(), &BITS))?,
            Some(Rate::Packets(rate)) => write!(f, ",rate={rate}pps")?,
        }
        if let Some(frames) = self.queue {
            // This name is valid for every kind of port.
            write!(f, ",depth={frames}")?;
        }
        if let Some(seed) = self.seed {
            write!(f, ",seed={seed}")?;
        }
        Ok(())
    }
}

impl Loss {
    fn parse(value: &str) -> Option<Loss> {
        if let Some(each) = value.strip_prefix("1/") {
            return number(each).filter(|&each| each > 0).map(Loss::Every);
        }
        let parts = match value.strip_suffix('%') {
            Some(percent) => fixed(percent)? / 100,
            None => fixed(value)?,
        };
        match parts {
            0 => Some(Loss::None),
            parts if parts <= ONE => Some(Loss::Random(parts as u32)),
            _ => None,
        }
    }
}

impl Rate {
    fn parse(value: &str) -> Option<Rate> {
        if let Some(packets) = value.strip_suffix("pps") {
            return number(packets).filter(|&rate| rate > 0).map(Rate::Packets);
        }
        let rate = u64::try_from(times_unit(value, &BITS)?).ok()?;
        (rate > 0).then_some(Rate::Bits(rate))
    }
}

fn time(text: &str, value: &str) -> Result<Duration, String> {
    let ns = times_unit(value, &TIMES)
        .ok_or_else(|| format!("`{text}`: expected a time such as `5ms`, with the unit ns, us, ms or s"))?;
    match u64::try_from(ns).map(Duration::from_nanos) {
        Ok(time) if time <= TIME_MAX => Ok(time),
        _ => Err(format!("`{text}`: longer than {} s", TIME_MAX.as_secs())),
    }
}

/// Accepts only digits: `parse` would accept a plus sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Parses a decimal number in parts of a billion. Digits beyond the ninth after the point are ignored.
fn fixed(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let fraction = format!("{:0<9}", fraction.get(..9).unwrap_or(fraction));
    if text.is_empty() || text == "." || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { number(whole)? };
    Some(u128::from(whole) * ONE + u128::from(number(&fraction)?))
}

/// Parses a decimal number with a unit, in multiples of the unit 1.
fn times_unit(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let (value, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(fixed(value)? * factor / ONE)
}

/// Formats a number in the largest unit in which it is an integer.
fn with_unit(value: u128, units: &[(&str, u128)]) -> String {
    let (unit, factor) =
        units.iter().rev().find(|(_, factor)| value.is_multiple_of(*factor)).expect("a unit of 1");
    format!("{}{unit}", value / factor)
}

fn decimal(parts: u32) -> String {
    let text = format!("{}.{:09}", u128::from(parts) / ONE, u128::from(parts) % ONE);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LinkSpec, String> {
        LinkSpec::parse(&text.split(',').collect::<Vec<_>>())
    }

    #[test]
    fn options_parse_and_print() {
        let link = LinkSpec::default();
        for (text, want, printed) in [
            (
                "delay=5ms,jitter=1ms,loss=0.01,rate=10mbit,queue=100",
                LinkSpec {
                    delay: Duration::from_millis(5),
                    jitter: Duration::from_millis(1),
                    loss: Loss::Random(10_000_000),
                    rate: Some(Rate::Bits(10_000_000)),
                    queue: Some(100),
                    ..link
                },
                ",delay=5ms,jitter=1ms,loss=0.01,rate=10mbit,depth=100",
            ),
            ("loss=1/100", LinkSpec { loss: Loss::Every(100), ..link }, ",loss=1/100"),
            ("loss=1%", LinkSpec { loss: Loss::Random(10_000_000), ..link }, ",loss=0.01"),
            ("loss=1", LinkSpec { loss: Loss::Random(1_000_000_000), ..link }, ",loss=1"),
            ("loss=0.000000001", LinkSpec { loss: Loss::Random(1), ..link }, ",loss=0.000000001"),
            ("loss=0,delay=0s", link, ""),
            ("delay=1.5us", LinkSpec { delay: Duration::from_nanos(1500), ..link }, ",delay=1500ns"),
            (
                "delay=.5s,reorder",
                LinkSpec { delay: Duration::from_millis(500), reorder: true, ..link },
                ",delay=500ms,reorder",
            ),
            ("rate=2.5gbit", LinkSpec { rate: Some(Rate::Bits(2_500_000_000)), ..link }, ",rate=2500mbit"),
            (
                "rate=9pps,depth=0,seed=7",
                LinkSpec { rate: Some(Rate::Packets(9)), queue: Some(0), seed: Some(7), ..link },
                ",rate=9pps,depth=0,seed=7",
            ),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
            assert_eq!(want.to_string(), printed);
            if !printed.is_empty() {
                assert_eq!(parse(&printed[1..]), Ok(want));
            }
        }
        assert!(
            !parse("delay=0s,seed=3,reorder,loss=0").unwrap().acts() && parse("loss=1/2").unwrap().acts()
        );
    }

    #[test]
    fn wrong_values_name_the_expected_ones() {
        let time = "expected a time such as `5ms`, with the unit ns, us, ms or s";
        let loss = "expected a probability such as `0.01` or `1%`, or `1/100` for every 100th frame";
        let rate = "expected a rate such as `10mbit`, with the unit bit, kbit, mbit, gbit or pps";
        for (text, expect) in [
            ("delay=5", time.to_owned()),
            ("delay=", time.to_owned()),
            ("delay", time.to_owned()),
            ("jitter=5 ms", time.to_owned()),
            ("jitter=-5ms", time.to_owned()),
            ("delay=.ms", time.to_owned()),
            ("delay=1.2.3ms", time.to_owned()),
            ("delay=3601s", "longer than 3600 s".to_owned()),
            ("delay=99999999999999999999s", time.to_owned()),
            ("loss=1.1", loss.to_owned()),
            ("loss=101%", loss.to_owned()),
            ("loss=2/100", loss.to_owned()),
            ("loss=1/0", loss.to_owned()),
            ("rate=10", rate.to_owned()),
            ("rate=0pps", rate.to_owned()),
            ("rate=10Mbit", rate.to_owned()),
            ("rate=0.5bit", rate.to_owned()),
            ("queue=+1", "expected a number of frames".to_owned()),
            ("seed=x", "expected a number".to_owned()),
        ] {
            assert_eq!(parse(text), Err(format!("`{text}`: {expect}")));
        }
        let options = "expected delay=TIME, jitter=TIME, reorder, loss=P or 1/N, rate=RATE, queue=N, seed=N";
        for text in ["b", "", "reorder=1"] {
            assert_eq!(parse(text), Err(format!("unknown option `{text}`: {options}")));
        }
        for (text, meant) in [("Delay=1s", "delay"), ("dealy=1ms", "delay"), ("los=1%", "loss")] {
            let expect = format!("unknown option `{text}`: did you mean `{meant}`? {options}");
            assert_eq!(parse(text), Err(expect));
        }
        assert_eq!(parse("rate=1pps,queue=1,depth=2"), Err("`depth=2`: this option is given twice".into()));
        assert_eq!(
            parse("delay=1s,queue=9"),
            Err("`queue` without `rate=`: frames wait only where a rate limits them".into())
        );
    }
}
