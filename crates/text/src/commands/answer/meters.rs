//! Output of meter commands.

use super::{Answerer, Reply, Result, data};
use p4jet_externs::Rate;
use p4jet_ir::InstanceId;

/// A rate in Python's notation, which scripts read: `0.125`, `1e-05`.
fn rate_text(per_us: f64) -> String {
    if per_us == 0.0 || (1e-4..1e16).contains(&per_us) {
        return format!("{per_us:?}");
    }
    let text = format!("{per_us:e}");
    let (digits, exponent) = text.split_once('e').expect("the format writes one");
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

impl Answerer<'_> {
    pub(super) fn meter_reply(self, meter: InstanceId, index: u32, data: bool) -> Result<Reply> {
        let rates = self.control.meter_rates(meter, index)?;
        let text = match &rates {
            None => "WARNING: expected 2 rates but only received 0\n".to_string(),
            Some(rates) => {
                let line = |(i, rate): (usize, &Rate)| {
                    format!("{i}: info rate = {}, burst size = {}\n", rate_text(rate.per_us), rate.burst)
                };
                rates.iter().enumerate().map(line).collect()
            }
        };
        Ok(Reply::new(text, data.then(|| data::rates(rates.as_ref()))))
    }
}
