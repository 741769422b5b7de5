//! Rates of meters.

use super::{Command, Line, LineParser, Named, Parsed, Token, named};
use crate::error::LineError;
use p4jet_control::value::parse_rate;
use p4jet_control::{Cell, ObjectKind, Subject, Update};
use p4jet_externs::Rate;
use p4jet_ir::InstanceId;

fn rate(token: Token<'_>) -> Parsed<Rate> {
    parse_rate(token.text).ok_or_else(|| {
        let message = format!(
            "Error: Error while parsing rates: found `{}`, expected units per microsecond, a colon and the burst in units, \
             such as 0.125:9000",
            token.text
        );
        LineError::new(message).at(token.span())
    })
}

impl<'a> LineParser<'_, 'a> {
    pub(super) fn meter_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let Named { id: meter, .. } =
            named(self.schema.names(ObjectKind::Meter), line.get(1, "a meter name")?, InstanceId)?;
        let index = || {
            let cells = self.schema.meter_cells(meter)?;
            self.cell(line.get(2, "an index")?, Subject::Meter, meter, cells)
        };
        let rates = |from: usize| {
            let found = line.tokens.len().saturating_sub(from);
            if found != 2 {
                let message = format!(
                    "Error: Invalid number of rates, expected 2 but got {found}: the committed rate, then the peak rate"
                );
                return Err(LineError::new(message).at(line.after(line.tokens.len())));
            }
            let rates = [rate(line.tokens[from])?, rate(line.tokens[from + 1])?];
            Ok(Some(rates))
        };
        Ok(match line.spec.name {
            "meter_set_rates" => {
                Update::SetMeter { meter, cell: Cell::Index(index()?), rates: rates(3)? }.into()
            }
            "meter_array_set_rates" => Update::SetMeterArray { meter, rates: rates(2)? }.into(),
            _ => {
                let index = index()?;
                line.ends_after(3)?;
                Command::MeterRead { meter, index }
            }
        })
    }
}
