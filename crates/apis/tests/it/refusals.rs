//! The refusals in docs/apis: each entry of a page is a case of a test, and each case an entry.

use crate::world::Reply;

/// The parts of a refusal by which clients decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: String,
    pub(crate) reason: String,
    /// What the error blames. Empty if it names no part of the request.
    pub(crate) location: String,
}

/// Reads the list under `## Refusals` of a page of docs/apis: inputs, and their refusals.
///
/// Inputs are below their status, reason and source. A line of four spaces continues an input.
///
/// ```text
/// - **400 `invalid`**: the source
///   - an input
///   - another input, at `the location`
/// ```
pub(crate) fn listed(page: &str) -> Vec<(String, Refusal)> {
    let section = page.split("\n## ").find(|it| it.starts_with("Refusals\n"));
    let mut inputs: Vec<(String, &str, &str)> = Vec::new();
    let mut outcome = None;
    for line in section.unwrap_or_default().lines() {
        if let Some(outcome_and_source) = line.strip_prefix("- **") {
            outcome = Some(status_and_reason(outcome_and_source));
        } else if let Some(input) = line.strip_prefix("  - ") {
            let (status, reason) = outcome.expect("an outcome is above its inputs");
            inputs.push((input.to_owned(), status, reason));
        } else if let Some(rest) = line.strip_prefix("    ") {
            let (input, ..) = inputs.last_mut().expect("an input is above its rest");
            input.push(' ');
            input.push_str(rest);
        }
    }
    let entries = inputs.into_iter().map(|(input, status, reason)| {
        let (input, location) = input.rsplit_once(", at ").unwrap_or((input.as_str(), ""));
        let refusal = Refusal {
            status: status.to_owned(),
            reason: reason.to_owned(),
            location: location.replace('`', ""),
        };
        (input.to_owned(), refusal)
    });
    entries.collect()
}

/// Reads the first line of an outcome, as "400 `invalid`**: the source".
fn status_and_reason(line: &str) -> (&str, &str) {
    let (outcome, source) = line.split_once("**: ").expect("an outcome and its source");
    assert!(!source.is_empty(), "where a refusal comes from: {line}");
    let (status, reason) = outcome.split_once(' ').expect("a status and a reason");
    (status, reason.trim_matches('`'))
}

/// Checks that the replies of these cases are those of a page of docs/apis. A case is an input of
/// the page, and its reply.
pub(crate) fn check_page(page: &str, cases: &[(&str, Reply)]) {
    let listed = listed(page);
    assert!(!listed.is_empty(), "the page has no refusals");
    for (input, expected) in &listed {
        let case = cases.iter().find(|(case, _)| case == input);
        let (_, reply) = case.unwrap_or_else(|| panic!("no case has the input {input}"));
        assert_eq!(refusal_of(reply), *expected, "{input}: {reply:?}");
    }
    for (case, _) in cases {
        let is_listed = listed.iter().any(|(input, _)| input == case);
        assert!(is_listed, "the page has no input {case}");
    }
}

fn refusal_of(reply: &Reply) -> Refusal {
    let document = reply.json();
    let error = &document["error"]["errors"][0];
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    Refusal {
        status: reply.status.as_u16().to_string(),
        reason: text("reason"),
        location: text("location"),
    }
}
