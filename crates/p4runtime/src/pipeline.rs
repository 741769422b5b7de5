//! A P4Info made ready for requests.

use p4jet_control::Control;
use p4jet_p4info::proto::config::P4Info;

/// A P4Info whose ids stand for objects of a program.
pub struct Pipeline {
    p4info: P4Info,
}

impl Pipeline {
    /// Finds the objects of a P4Info in the program of a switch.
    ///
    /// # Errors
    /// All reasons for which the P4Info does not fit the program.
    pub fn new(p4info: P4Info, _control: &Control) -> Result<Pipeline, Vec<String>> {
        Ok(Pipeline { p4info })
    }

    /// The P4Info.
    pub fn p4info(&self) -> &P4Info {
        &self.p4info
    }
}
