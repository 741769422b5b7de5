//! Rates of meters.

use super::apply::{Done, Result, Undo, UndoOther, no_cell, refused};
use super::parse::{Command, Line, LineParser, Named, Parsed, Token, cell, entry_handle, named};
use super::{Control, Reply, data};
use crate::error::CommandError;
use p4jet_externs::{Rate, Rates};
use p4jet_ir::{InstanceId, InstanceKind, TableId};
use p4jet_tables::{EntryHandle, TableError};

/// What a command does with a meter. The index of a direct meter is an entry's handle.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MeterCommand {
    Set { meter: InstanceId, index: u32, rates: Rates },
    SetAll { meter: InstanceId, rates: Rates },
    Get { meter: InstanceId, index: u32 },
}

/// `0.125:9000`
pub(super) fn parse_rate(text: &str) -> Option<Rate> {
    let (per_us, burst) = text.split_once(':')?;
    let (per_us, burst) = (per_us.parse::<f64>().ok()?, burst.parse::<u64>().ok()?);
    (per_us.is_finite() && per_us >= 0.0).then_some(Rate { per_us, burst })
}

fn rate(token: Token<'_>) -> Parsed<Rate> {
    parse_rate(token.text).ok_or_else(|| {
        let message = format!(
            "Error: Error while parsing rates: found `{}`, expected units per microsecond, a colon and the burst in units, \
             such as 0.125:9000",
            token.text
        );
        CommandError::new(message).at(token.span())
    })
}

/// A rate as Python writes it, which is what scripts read: `0.125`, `1e-05`.
fn rate_text(per_us: f64) -> String {
    if per_us == 0.0 || (1e-4..1e16).contains(&per_us) {
        return format!("{per_us:?}");
    }
    let text = format!("{per_us:e}");
    let (digits, exponent) = text.split_once('e').expect("the format writes one");
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

impl<'a> LineParser<'_, 'a> {
    pub(super) fn meter_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let Named { id: meter, .. } = named(&self.names.meters, line.get(1, "a meter name")?, InstanceId)?;
        let index = || {
            let token = line.get(2, "an index")?;
            match self.program.instances[meter.index()].kind {
                InstanceKind::Meter { size, .. } => cell(token, "meter", size),
                // The index of a direct meter is an entry's handle.
                _ => entry_handle(token).map(|handle| handle.0),
            }
        };
        let rates = |from: usize| {
            let found = line.tokens.len().saturating_sub(from);
            if found != 2 {
                let message = format!(
                    "Error: Invalid number of rates, expected 2 but got {found}: the committed rate, then the peak rate"
                );
                return Err(CommandError::new(message).at(line.after(line.tokens.len())));
            }
            let rates = [rate(line.tokens[from])?, rate(line.tokens[from + 1])?];
            if rates[0].per_us > rates[1].per_us {
                let why = "the committed rate is above the peak rate: the smaller comes first";
                return Err(CommandError::refused("meter", "INVALID_INFO_RATE_VALUE", why));
            }
            Ok(rates)
        };
        Ok(Command::Meter(match line.spec.name {
            "meter_set_rates" => MeterCommand::Set { meter, index: index()?, rates: rates(3)? },
            "meter_array_set_rates" => MeterCommand::SetAll { meter, rates: rates(2)? },
            _ => {
                let index = index()?;
                line.ends_after(3)?;
                MeterCommand::Get { meter, index }
            }
        }))
    }
}

impl Control {
    fn meter_table(&self, meter: InstanceId) -> Option<TableId> {
        match self.program().instances[meter.index()].kind {
            InstanceKind::DirectMeter { table, .. } => Some(table),
            _ => None,
        }
    }

    /// The cell behind an index.
    fn meter_cell(&self, meter: InstanceId, index: u32) -> Result<u32> {
        let Some(table) = self.meter_table(meter) else { return Ok(index) };
        let table = self.switch.table(table);
        let handle = EntryHandle(index);
        match table.get(handle) {
            Some(_) => Ok(table.row_of(handle)),
            None => Err(refused(TableError::InvalidHandle(handle))),
        }
    }

    pub(super) fn meter_rates(&self, meter: InstanceId, index: u32) -> Result<Option<Rates>> {
        let cell = self.meter_cell(meter, index)?;
        self.switch.state().meter_rates(meter.0, cell).map_err(|e| no_cell("meter", e))
    }

    pub(super) fn set_meter(&self, meter: InstanceId, index: u32, rates: Option<Rates>) -> Result<()> {
        let cell = self.meter_cell(meter, index)?;
        self.switch.state().meter_set_rates(meter.0, cell, rates).map_err(|e| no_cell("meter", e))
    }

    /// The indices of all cells in use.
    pub(super) fn meter_indices(&self, meter: InstanceId) -> Vec<u32> {
        match self.program().instances[meter.index()].kind {
            InstanceKind::Meter { size, .. } => (0..size).collect(),
            InstanceKind::DirectMeter { table, .. } => {
                self.switch.table(table).entries().map(|(handle, _)| handle.0).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn meter_reply(&self, meter: InstanceId, index: u32, data: bool) -> Result<Reply> {
        let rates = self.meter_rates(meter, index)?;
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

    pub(super) fn change_meter(&self, command: MeterCommand, log: Option<&mut Vec<Undo>>) -> Result<Done> {
        let (meter, indices, rates) = match command {
            MeterCommand::Set { meter, index, rates } => (meter, vec![index], rates),
            MeterCommand::SetAll { meter, rates } => (meter, self.meter_indices(meter), rates),
            MeterCommand::Get { .. } => unreachable!("not a change"),
        };
        self.set_meters(meter, &indices, Some(rates), log)?;
        Ok(Done::default())
    }

    /// Takes all rates of a meter away.
    pub(super) fn reset_meter(&self, meter: InstanceId, log: Option<&mut Vec<Undo>>) -> Result<()> {
        self.set_meters(meter, &self.meter_indices(meter), None, log)
    }

    fn set_meters(
        &self,
        meter: InstanceId,
        indices: &[u32],
        rates: Option<Rates>,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<()> {
        let old = match log {
            None => Vec::new(),
            Some(_) => {
                let old = indices.iter().map(|index| Ok((*index, self.meter_rates(meter, *index)?)));
                old.collect::<Result<_>>()?
            }
        };
        for index in indices {
            self.set_meter(meter, *index, rates)?;
        }
        if let Some(log) = log {
            log.push(Undo::Other(Box::new(UndoOther::Meters(meter, old))));
        }
        Ok(())
    }
}
