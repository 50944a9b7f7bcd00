//! Where a call looks: the user's own Drive, which is all that is here.
//!
//! The service has shared drives, a folder of each app and the files of a domain as well. A call
//! that asks for one of them is refused, so that it never finds files of the user's Drive instead.

use windlass_rest::handler::{Call, Refusal, RefusalKind, Rejection};

use super::refusals::{invalid_value, no_app_folders, not_implemented};

/// Id of the folder of an app, and name of the space that it is in.
pub(super) const APP_DATA: &str = "appDataFolder";

/// Name of the space of the user's Drive.
const DRIVE: &str = "drive";

/// Names of the parameter that names a shared drive. The second one is deprecated.
const DRIVE_IDS: [&str; 2] = ["driveId", "teamDriveId"];

/// Names of the flag that adds the files of shared drives to a list.
const INCLUDES: [&str; 2] = ["includeItemsFromAllDrives", "includeTeamDriveItems"];

/// Names of the flag by which a client says that it knows shared drives.
const SUPPORTS: [&str; 2] = ["supportsAllDrives", "supportsTeamDrives"];

/// Checks that a list covers only the user's Drive.
///
/// The valid combinations of parameters are the same as in the service. A list of all drives is
/// allowed, because this server has no drives besides the user's Drive.
pub(super) fn check_list(call: &Call<'_>) -> Result<(), Rejection> {
    check_drive(call)?;
    check_corpora(call)?;
    if has(call, &INCLUDES) && !has(call, &SUPPORTS) {
        let problem = "includeItemsFromAllDrives needs supportsAllDrives=true";
        return Err(forbidden("supportsTeamDrivesRequired", problem));
    }
    check_spaces(call, "spaces")
}

/// Checks that a call names no shared drive. None exists.
pub(super) fn check_drive(call: &Call<'_>) -> Result<(), Rejection> {
    let named = DRIVE_IDS.iter().find_map(|name| {
        let id = call.query.first(name).filter(|id| !id.is_empty())?;
        Some((*name, id))
    });
    let Some((name, id)) = named else {
        return Ok(());
    };
    let message = format!("Shared drive not found: {id}");
    let refusal = Refusal::new(RefusalKind::NotFound, "notFound", message);
    Err(refusal.at_parameter(name).into())
}

/// Checks the spaces that a parameter names, with commas between them.
pub(super) fn check_spaces(call: &Call<'_>, parameter: &'static str) -> Result<(), Rejection> {
    let spaces = call.query.first(parameter).filter(|it| !it.is_empty());
    for space in spaces.unwrap_or(DRIVE).split(',').map(str::trim) {
        match space {
            DRIVE => {}
            APP_DATA => return Err(no_app_folders().at_parameter(parameter).into()),
            _ => {
                let problem = format!("{space:?} is not a space; the only space is drive");
                return Err(invalid_value(parameter, problem));
            }
        }
    }
    Ok(())
}

/// Checks the collections of files that the call names, with commas between them.
fn check_corpora(call: &Call<'_>) -> Result<(), Rejection> {
    for parameter in ["corpora", "corpus"] {
        let corpora = call.query.first(parameter).filter(|it| !it.is_empty());
        for corpus in corpora.unwrap_or("user").split(',') {
            check_corpus(call, parameter, corpus.trim())?;
        }
    }
    Ok(())
}

fn check_corpus(call: &Call<'_>, parameter: &'static str, corpus: &str) -> Result<(), Rejection> {
    match corpus {
        "domain" => {
            let problem = "this server has no domains whose files are shared; use user";
            Err(not_implemented(problem).at_parameter(parameter).into())
        }
        "drive" | "allDrives" | "teamDrive" | "allTeamDrives" if !has(call, &INCLUDES) => {
            let problem = "a list of shared drives needs includeItemsFromAllDrives=true";
            Err(forbidden("includeTeamDriveItemsRequired", problem))
        }
        "drive" | "teamDrive" => {
            let problem = "a list of one shared drive needs its id in driveId";
            Err(forbidden("teamDriveIdRequiresTeamDriveCorpora", problem))
        }
        "user" | "allDrives" | "allTeamDrives" => Ok(()),
        other => {
            let problem = format!("{other:?} is none of user, domain, drive and allDrives");
            Err(invalid_value(parameter, problem))
        }
    }
}

/// Returns whether a flag of one of these names is set. The service takes the word alone.
fn has(call: &Call<'_>, names: &[&str]) -> bool {
    let set = |name: &&str| {
        let value = call.query.first(name);
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    };
    names.iter().any(set)
}

fn forbidden(reason: &'static str, problem: &str) -> Rejection {
    Refusal::new(RefusalKind::Forbidden, reason, problem).into()
}
