//! Many faults, in batches. Each batch begins with an empty store and new clients, so that disk and
//! memory stay bounded and there is always room to upload.

use std::fmt;

use anyhow::ensure;
use windlass_testkit::checker::{Figures, Workload};

use crate::outcome::{Outcome, progress};

/// Most faults of one batch.
const BATCH: u64 = 100;

/// Number of acknowledged bytes after which a batch ends: how much clients upload between two
/// faults depends on the speed of the machine.
pub(crate) const ROOM: u64 = 2 << 30;

/// Number of faults of which at least one must follow new acknowledgements, or they prove nothing.
/// On a machine that is not slow nearly all do.
const IDLE_AT_MOST: u64 = 10;

/// A series of faults.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The seed of all random choices of the batch.
    pub(crate) seed: u64,
    /// How many faults are to be injected at most.
    faults: u64,
    injected: u64,
    busy: u64,
    acknowledgements: u64,
}

impl Batch {
    fn new(seed: u64, faults: u64) -> Self {
        Self {
            seed,
            faults,
            injected: 0,
            busy: 0,
            acknowledgements: 0,
        }
    }

    /// Whether there is another fault to inject, and room for the uploads until then. The first
    /// batch always continues.
    pub(crate) fn goes_on(&self, workload: &Workload) -> bool {
        self.injected < self.faults && workload.figures().bytes < ROOM
    }

    /// Records an injected fault, before the check: answers to queries are acknowledgements too.
    pub(crate) fn struck(&mut self, workload: &Workload) {
        self.injected += 1;
        self.busy += u64::from(workload.figures().acknowledgements > self.acknowledgements);
    }

    /// Records the acknowledgements after a check. Returns whether to continue.
    pub(crate) fn looked(&mut self, workload: &Workload) -> bool {
        self.acknowledgements = workload.figures().acknowledgements;
        workload.violations().is_empty()
    }
}

/// Injects `count` faults named `name`, batch after batch, until a rule is broken. `carry_out`
/// returns the workload of a batch after all checks.
///
/// # Errors
/// The errors of `carry_out`. Also if hardly any fault came after a new acknowledgement.
pub(crate) fn run_in_batches(
    name: &str,
    count: u64,
    mut seed: u64,
    mut carry_out: impl FnMut(&mut Batch) -> anyhow::Result<Workload>,
) -> anyhow::Result<Outcome> {
    let mut total = Total::default();
    while total.injected < count {
        let mut batch = Batch::new(seed, BATCH.min(count - total.injected));
        let workload = carry_out(&mut batch)?;
        if !workload.violations().is_empty() {
            let faults = format_args!("{} {name} with --seed {seed}", batch.injected);
            return Ok(Outcome::of_workload(faults, &workload));
        }
        total.add(&batch, workload.figures());
        progress(format_args!("{name}: {total}"));
        seed += 1;
    }
    ensure!(
        total.busy >= total.injected / IDLE_AT_MOST,
        "there was nothing to lose: {name}: {total}"
    );
    Ok(Outcome::Done {
        figures: format!("{name}: {total}"),
        violations: Vec::new(),
    })
}

#[derive(Debug, Default)]
struct Total {
    injected: u64,
    busy: u64,
    figures: Figures,
}

impl Total {
    fn add(&mut self, batch: &Batch, figures: Figures) {
        self.injected += batch.injected;
        self.busy += batch.busy;
        self.figures += figures;
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            injected,
            busy,
            figures,
        } = self;
        write!(
            f,
            "{injected}, {busy} of them after new acknowledgements; {figures}"
        )
    }
}
