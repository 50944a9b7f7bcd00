//! Many faults, in lots: each lot begins with an empty store and with clients of its own, so that disk and memory stay bounded and
//! there is always room to upload.

use std::fmt;

use windlass_testkit::checker::{Figures, Fleet};

use crate::outcome::{Outcome, progress};

/// Most faults of one lot.
const LOT: usize = 100;

/// Some faults in a row.
#[derive(Debug)]
pub(crate) struct Lot {
    /// All that is left to chance in it follows from this.
    pub(crate) seed: u64,
    /// How many faults are to be injected.
    pub(crate) faults: u64,
    injected: u64,
    busy: u64,
    acknowledgements: u64,
}

impl Lot {
    /// Notes that a fault was injected and looked at. Returns whether to go on.
    pub(crate) fn note(&mut self, fleet: &Fleet) -> bool {
        let acknowledgements = fleet.figures().acknowledgements;
        self.injected += 1;
        self.busy += u64::from(acknowledgements > self.acknowledgements);
        self.acknowledgements = acknowledgements;
        fleet.violations().is_empty()
    }
}

/// Injects `count` faults, which are called `name`, lot after lot, until a rule is broken. `carry_out` returns the fleet of a lot, which has looked
/// at everything.
///
/// # Errors
/// Those of `carry_out`.
pub(crate) fn carry_out_in_lots(
    name: &str,
    count: u64,
    seed: u64,
    mut carry_out: impl FnMut(&mut Lot) -> anyhow::Result<Fleet>,
) -> anyhow::Result<Outcome> {
    let mut total = Total::default();
    for (begun, seed) in (0..count).step_by(LOT).zip(seed..) {
        let mut lot = Lot {
            seed,
            faults: (LOT as u64).min(count - begun),
            injected: 0,
            busy: 0,
            acknowledgements: 0,
        };
        let fleet = carry_out(&mut lot)?;
        if !fleet.violations().is_empty() {
            let faults = format_args!("{} {name} with --seed {seed}", lot.injected);
            return Ok(Outcome::of_fleet(faults, &fleet));
        }
        total.add(&lot, fleet.figures());
        progress(format_args!("{name}: {total}"));
    }
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
    fn add(&mut self, lot: &Lot, figures: Figures) {
        self.injected += lot.injected;
        self.busy += lot.busy;
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
