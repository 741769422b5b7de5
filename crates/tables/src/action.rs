//! The check of actions.

use crate::{Action, ActionSpec, TableError};

/// Checks that an action is one of these, with valid data.
pub(crate) fn check_action(actions: &[ActionSpec], action: &Action) -> Result<(), TableError> {
    let Some(shape) = actions.get(action.action as usize) else {
        return Err(TableError::UnknownAction { found: action.action, expected: actions.len() });
    };
    let (found, expected) = (action.data.len(), shape.param_widths.len());
    if found != expected {
        return Err(TableError::DataCount { action: action.action, found, expected });
    }
    for (param, (value, width)) in action.data.iter().zip(&shape.param_widths).enumerate() {
        if value.bits() > u64::from(*width) {
            let (found, expected) = (value.bits(), *width);
            return Err(TableError::DataWidth { action: action.action, param, found, expected });
        }
    }
    Ok(())
}
