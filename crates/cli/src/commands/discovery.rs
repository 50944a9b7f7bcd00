//! `windlass discovery`.

mod description;
mod error;
mod findings;
mod table;

use std::io::Read as _;

use crate::args::DiscoveryArgs;
use crate::exit::Code;
use crate::output;

pub(crate) use error::Error;

use description::Description;

/// Shows, prints or checks a description.
pub(super) fn run(args: &DiscoveryArgs) -> Result<Code, Error> {
    let description = Description::read(&args.description)?;
    if args.check {
        return Ok(check(&description, args.json));
    }
    let api = description.api()?;
    if args.json {
        let served = api.document().served_at(args.root_url.as_str());
        let served = serde_json::to_string_pretty(&served);
        output::json(served.expect("a document came from JSON or from strings"));
    } else {
        output::data(table::page(&api));
    }
    Ok(Code::Success)
}

fn check(description: &Description, json: bool) -> Code {
    let findings = findings::of(description);
    for finding in &findings {
        if json {
            output::json(finding.to_json());
        } else {
            output::data(finding);
        }
    }
    output::note(findings::summary(&findings));
    if findings.iter().any(findings::Finding::is_error) {
        Code::Failure
    } else {
        Code::Success
    }
}

fn read_stdin() -> std::io::Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}
