//! The breadth-first search through all states of a configuration.

mod fingerprint;

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::environment::transitions;
use crate::event::Labels;
use crate::invariants::{Violation, violation};
use crate::rules::Configuration;
use crate::state::State;
use fingerprint::{Fingerprint, FingerprintHasher};

/// The time between two reports of progress.
const PROGRESS_PERIOD: Duration = Duration::from_secs(10);

/// The number of states after which a search looks at the clock.
const STATES_PER_LOOK: usize = 256;

/// The bounds at which a search stops before it has seen all states.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) time: Option<Duration>,
    pub(crate) states: Option<usize>,
}

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Exploration {
    /// The number of different states.
    pub(crate) states: usize,
    /// The number of steps from the first state to the last state of the search.
    pub(crate) depth: u32,
    pub(crate) time: Duration,
    pub(crate) outcome: Outcome,
}

/// How a search ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The invariants hold in all states.
    Holds,
    /// The invariants hold in the states that were seen; the bounds stopped the search.
    HoldsSoFar {
        /// The number of states that were found and not expanded.
        waiting: usize,
    },
    /// An invariant is broken, after the fewest steps that break one.
    Broken(Counterexample),
}

/// The steps to a broken invariant.
#[derive(Debug)]
pub(crate) struct Counterexample {
    /// The broken invariant.
    pub(crate) problem: String,
    pub(crate) steps: Vec<String>,
}

/// The state from which a state was first reached, and the number of the transition.
struct Parent {
    state: u32,
    transition: u16,
}

/// A search under way.
struct Search<'a> {
    configuration: &'a Configuration,
    seen: HashSet<Fingerprint, FingerprintHasher>,
    /// One for each state, in the order in which the states were found.
    parents: Vec<Parent>,
    waiting: VecDeque<State>,
}

/// Explores a configuration. `progress` receives the number of states and the depth now and then.
pub(crate) fn explore(
    configuration: &Configuration,
    bounds: Bounds,
    mut progress: impl FnMut(usize, u32),
) -> Exploration {
    let begun = Instant::now();
    let mut next_progress = PROGRESS_PERIOD;
    let mut search = Search::new(configuration);
    let mut depth = 0;
    let mut end_of_level = 0;
    let mut index = 0;
    let outcome = loop {
        let Some(state) = search.waiting.pop_front() else {
            break Outcome::Holds;
        };
        if index > end_of_level {
            depth += 1;
            end_of_level = search.parents.len() - 1;
        }
        if let Some(violation) = search.expand(&state, index) {
            depth += 1;
            break Outcome::Broken(search.counterexample(violation));
        }
        index += 1;
        let mut is_over = bounds
            .states
            .is_some_and(|most| search.parents.len() >= most);
        if index % STATES_PER_LOOK == 0 {
            let elapsed = begun.elapsed();
            is_over |= bounds.time.is_some_and(|longest| elapsed >= longest);
            if elapsed >= next_progress {
                next_progress = elapsed + PROGRESS_PERIOD;
                progress(search.parents.len(), depth);
            }
        }
        if is_over && !search.waiting.is_empty() {
            let waiting = search.waiting.len();
            break Outcome::HoldsSoFar { waiting };
        }
    };
    Exploration {
        states: search.parents.len(),
        depth,
        time: begun.elapsed(),
        outcome,
    }
}

impl<'a> Search<'a> {
    fn new(configuration: &'a Configuration) -> Self {
        let (first, _) = State::new(configuration).canonical();
        Self {
            configuration,
            seen: HashSet::from_iter([Fingerprint::of(&first)]),
            parents: vec![Parent {
                state: 0,
                transition: 0,
            }],
            waiting: VecDeque::from([first]),
        }
    }

    /// Adds the states that follow a state, if they are new. Stops at a state that breaks an
    /// invariant, which is then the last state.
    fn expand(&mut self, state: &State, index: usize) -> Option<Violation> {
        let all = transitions(self.configuration, state);
        for (number, transition) in all.into_iter().enumerate() {
            let (next, _) = transition.state.canonical();
            if !self.seen.insert(Fingerprint::of(&next)) {
                continue;
            }
            self.parents.push(Parent {
                state: u32::try_from(index).expect("memory ends before"),
                transition: u16::try_from(number).expect("a state has few transitions"),
            });
            if let Some(violation) = violation(self.configuration, &next) {
                return Some(violation);
            }
            self.waiting.push_back(next);
        }
        None
    }

    /// Returns the steps to the last state, which breaks an invariant.
    fn counterexample(&self, violation: Violation) -> Counterexample {
        let mut path = Vec::new();
        let mut index = self.parents.len() - 1;
        while index != 0 {
            let parent = &self.parents[index];
            path.push(usize::from(parent.transition));
            index = parent.state as usize;
        }
        let (mut state, _) = State::new(self.configuration).canonical();
        let mut labels = Labels::default();
        let mut steps = Vec::new();
        for number in path.into_iter().rev() {
            let transition = transitions(self.configuration, &state).swap_remove(number);
            labels.add_new(&transition.state);
            steps.push(labels.event(&transition.event));
            let (next, old_ids) = transition.state.canonical();
            labels.renumber(&old_ids);
            state = next;
        }
        Counterexample {
            problem: violation.describe(&labels),
            steps,
        }
    }
}
