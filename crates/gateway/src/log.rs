//! The events that the gateway reports.

use std::sync::Arc;

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Normal.
    Info,
    /// A problem that may be temporary.
    Warn,
}

/// Receives the controller's events: level, name of the event, text.
pub type Log = Arc<dyn Fn(Level, &'static str, String) + Send + Sync>;
