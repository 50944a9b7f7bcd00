use std::mem::discriminant;

use windlass_engine::LimitedResource;

use super::*;
use crate::callers::CallerLimit;

const CONFIGURATION: &str = include_str!("../../../../docs/configuration.md");

/// The rows of the table of checks in docs/configuration.md: the name, and the settings.
fn documented() -> Vec<(String, Vec<String>)> {
    let (_, section) = CONFIGURATION
        .split_once("\n#### The order of checks\n")
        .expect("there is a section");
    let (section, _) = section.split_once("\n#### ").expect("another one follows");
    let in_code = |text: &str| -> Vec<String> {
        let parts = text.split('`').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(in_code).collect();
        (cells[1].concat(), cells[2].clone())
    };
    rows.map(row).collect()
}

#[test]
fn documented_checks_are_the_stages_in_their_order() {
    let stages = STAGES.iter().map(|stage| {
        let limits = stage.limits.iter().map(|&limit| limit.to_owned());
        (stage.name.to_owned(), limits.collect())
    });
    assert_eq!(documented(), stages.collect::<Vec<_>>());
}

#[test]
fn stages_of_a_phase_follow_one_another() {
    let mut phases: Vec<_> = STAGES
        .iter()
        .map(|stage| discriminant(&stage.check))
        .collect();
    phases.dedup();
    for (number, phase) in phases.iter().enumerate() {
        assert!(!phases[..number].contains(phase), "{:?}", STAGES[number]);
    }
}

#[test]
fn labels_of_refusals_are_names_of_stages() {
    let callers = [
        CallerLimit::Connections,
        CallerLimit::AddressRate,
        CallerLimit::PrincipalRate,
        CallerLimit::Quota,
    ];
    let resources = [
        LimitedResource::Connections,
        LimitedResource::Metadata,
        LimitedResource::Requests,
        LimitedResource::Uploads,
    ];
    let labels = callers.map(CallerLimit::name).into_iter();
    for label in labels.chain(resources.map(LimitedResource::label)) {
        assert!(STAGES.iter().any(|stage| stage.name == label), "{label}");
    }
}
