//! `windlass failpoints`, in builds for the proof only.

use windlass_store_local::failpoint::{Failpoint, UnknownFailpoint, arm as arm_failpoint};

use crate::output;
use crate::settings::{FAILPOINT_VARIABLE, client_variable};

/// Prints the names of all failpoints, one a line.
pub(super) fn run() {
    for point in Failpoint::ALL {
        output::data(point.name());
    }
}

/// Arms what the environment names, if it names one.
pub(super) fn arm() -> Result<(), UnknownFailpoint> {
    let wanted = client_variable(FAILPOINT_VARIABLE);
    wanted.map_or(Ok(()), |wanted| arm_failpoint(&wanted.to_string_lossy()))
}
