//! The configurations to explore: the design within several bounds, and each mutation.

use clap::ValueEnum;

use crate::rules::{Configuration, Mutation};

/// Two replicas, three leases, one late operation, and media of two cells of two units.
const BASE: Configuration = Configuration {
    name: "",
    replicas: 2,
    leases: 3,
    late_operations: 1,
    total: 4,
    cell: 2,
    loses_last_write: false,
    mutation: None,
};

/// The design, which must hold.
pub(crate) fn designs() -> Vec<Configuration> {
    vec![
        Configuration {
            name: "design, short last cell",
            total: 3,
            leases: 2,
            ..BASE
        },
        Configuration {
            name: "design, three replicas",
            replicas: 3,
            total: 2,
            cell: 1,
            ..BASE
        },
        Configuration {
            name: "design, composition of four leases",
            total: 2,
            cell: 1,
            leases: 4,
            ..BASE
        },
        Configuration {
            name: "design, two late operations",
            leases: 2,
            late_operations: 2,
            ..BASE
        },
        Configuration {
            name: "design, tails of two pieces",
            total: 3,
            cell: 3,
            ..BASE
        },
        Configuration {
            name: "design, failover that loses a write",
            leases: 2,
            loses_last_write: true,
            ..BASE
        },
        Configuration {
            name: "design, three leases",
            ..BASE
        },
    ]
}

/// The search for a mutation's counterexample stops after this number of states.
pub(crate) const MUTATION_STATES: usize = 1_000_000;

/// All mutations, each of which must be caught.
pub(crate) fn mutations() -> Vec<Configuration> {
    let all = Mutation::value_variants().iter();
    all.map(|mutation| with_mutation(*mutation)).collect()
}

/// The configuration in which a mutation is caught.
fn with_mutation(mutation: Mutation) -> Configuration {
    let base = Configuration {
        name: name(mutation),
        mutation: Some(mutation),
        ..BASE
    };
    match mutation {
        Mutation::EpochReused | Mutation::NoDelay => Configuration {
            loses_last_write: true,
            ..base
        },
        Mutation::OneNameForComposed => Configuration {
            total: 2,
            cell: 1,
            ..base
        },
        _ => base,
    }
}

fn name(mutation: Mutation) -> &'static str {
    match mutation {
        Mutation::NoFence => "no fence",
        Mutation::OffsetAlone => "offset compared alone",
        Mutation::EpochReused => "epoch reused",
        Mutation::TailRewritten => "tail rewritten",
        Mutation::NamesReused => "names reused",
        Mutation::GarbageOutsideCommit => "garbage outside the commit",
        Mutation::DeletedOnce => "garbage deleted once",
        Mutation::SecondDeletionTooEarly => "second deletion too early",
        Mutation::ListingTrusted => "listing trusted",
        Mutation::SharedUpload => "shared upload",
        Mutation::CompleteBeforeFinishing => "complete before finishing",
        Mutation::SweepByAgeAlone => "sweep by age alone",
        Mutation::NoDelay => "no delay before deletion",
        Mutation::DropAfterUnknownCommit => "drop after an unknown commit",
        Mutation::AcknowledgedEarly => "acknowledged before the commit",
        Mutation::GoneWithoutFence => "410 without the fence",
        Mutation::OneNameForComposed => "one name for what is composed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{Bounds, Exploration, Outcome, explore};

    fn explored(configuration: &Configuration, states: usize) -> Exploration {
        let states = Some(states);
        explore(configuration, Bounds { time: None, states }, |_, _| {})
    }

    /// The number of states is asserted because a model that lost a transition would hold, too.
    #[test]
    fn design_with_two_leases_holds_in_all_states() {
        let small = Configuration {
            total: 2,
            cell: 1,
            leases: 2,
            ..BASE
        };
        let exploration = explored(&small, 2_000_000);
        assert!(matches!(exploration.outcome, Outcome::Holds));
        assert_eq!((exploration.states, exploration.depth), (19_336, 21));
    }

    #[test]
    fn each_design_holds_in_its_first_states() {
        for design in designs() {
            let exploration = explored(&design, 3_000);
            let holds_so_far = matches!(exploration.outcome, Outcome::HoldsSoFar { .. });
            assert!(holds_so_far, "{}: {exploration:?}", design.name);
        }
    }

    /// The number of steps of a mutation's counterexample, which is the shortest one.
    fn expected_steps(mutation: Mutation) -> usize {
        match mutation {
            Mutation::AcknowledgedEarly => 2,
            Mutation::SweepByAgeAlone | Mutation::DropAfterUnknownCommit => 4,
            Mutation::TailRewritten
            | Mutation::NamesReused
            | Mutation::ListingTrusted
            | Mutation::CompleteBeforeFinishing => 5,
            Mutation::NoFence
            | Mutation::EpochReused
            | Mutation::GarbageOutsideCommit
            | Mutation::DeletedOnce
            | Mutation::NoDelay => 6,
            Mutation::SecondDeletionTooEarly | Mutation::SharedUpload => 7,
            Mutation::OffsetAlone | Mutation::GoneWithoutFence => 9,
            Mutation::OneNameForComposed => 17,
        }
    }

    #[test]
    fn each_mutation_is_caught_after_as_many_steps_as_before() {
        for mutation in Mutation::value_variants() {
            let exploration = explored(&with_mutation(*mutation), MUTATION_STATES);
            let Outcome::Broken(counterexample) = exploration.outcome else {
                panic!("{mutation:?} is not caught");
            };
            let steps = counterexample.steps.len();
            assert_eq!(steps, expected_steps(*mutation), "{counterexample:?}");
        }
    }

    #[test]
    fn counterexample_names_each_object_once() {
        let exploration = explored(
            &with_mutation(Mutation::DropAfterUnknownCommit),
            MUTATION_STATES,
        );
        let Outcome::Broken(counterexample) = exploration.outcome else {
            panic!("it is caught");
        };
        let expected = [
            "a replica takes lease 1 at offset 0",
            "lease 1: receives a for 0..1, puts object 1 with a",
            "lease 1: sends and gets no answer: commit of object 1 with a",
            "late, a statement of lease 1 lands: commit of object 1 with a",
        ];
        assert_eq!(counterexample.steps, expected);
        let problem = "the row names object 1 with a, which the store does not have";
        assert_eq!(counterexample.problem, problem);
    }
}
