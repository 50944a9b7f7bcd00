//! The tables of refusals in docs/apis: each row is a case of a test, and each case a row.

use crate::world::Reply;

/// The parts of a refusal by which clients decide.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: String,
    reason: String,
    location: String,
}

/// Checks that the replies of these cases equal the table under `## Refusals` of a page of
/// docs/apis. A case is the first cell of its row, and its reply.
pub(crate) fn check_table(page: &str, cases: &[(&str, Reply)]) {
    let rows = rows(page);
    assert!(!rows.is_empty(), "the page has no table of refusals");
    for (input, expected) in &rows {
        let case = cases.iter().find(|(case, _)| case == input);
        let (_, reply) = case.unwrap_or_else(|| panic!("no case has the input {input}"));
        assert_eq!(refusal_of(reply), *expected, "{input}: {reply:?}");
    }
    for (case, _) in cases {
        let is_row = rows.iter().any(|(input, _)| input == case);
        assert!(is_row, "the table has no row for {case}");
    }
}

fn rows(page: &str) -> Vec<(&str, Refusal)> {
    let section = page.split("\n## ").find(|it| it.starts_with("Refusals\n"));
    let lines = section.unwrap_or_default().lines();
    // The head, and the line below it.
    let rows = lines.filter(|line| line.starts_with('|')).skip(2);
    rows.map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, input, status, reason, location, source, ""] = cells[..] else {
            panic!("a row has five cells: {line}");
        };
        assert!(!source.is_empty(), "where a refusal comes from: {line}");
        let plain = |cell: &str| cell.trim_matches('`').to_owned();
        let refusal = Refusal {
            status: status.to_owned(),
            reason: plain(reason),
            location: plain(location),
        };
        (input, refusal)
    })
    .collect()
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
