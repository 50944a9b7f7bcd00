//! Warnings about a configuration that is valid but may not do what its author expects. Both the
//! start and `--check-config` print them.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_apis::FilesPath;
use windlass_server::{Registry, ServedApi};

use super::authentication::Authentication;
use crate::output;
use crate::settings::{Merged, Surroundings};

/// Number of methods that a warning names.
const NAMED: usize = 3;

/// Warns of settings without an effect.
pub(super) fn of_idle_settings(
    merged: &Merged,
    apis: &Registry,
    authentication: Option<&Arc<Authentication>>,
) {
    let around = Surroundings {
        has_principals: authentication.is_some_and(|it| it.has_principals()),
        has_certificates: authentication.is_some_and(|it| it.has_certificates()),
        calls_services: apis.service_connections() > 0,
        serves_files: apis.serves("files"),
        serves_gmail: apis.serves("gmail"),
    };
    for idle in merged.idle(around) {
        output::warning(idle, None);
    }
    if around.has_certificates && merged.settings.tls_client_ca.is_none() {
        output::warning(
            "the certificates of auth.file have no effect: without tls_client_ca no client is \
             asked for one",
            None,
        );
    }
}

/// Warns of methods that name no scopes, where credentials are limited to scopes.
pub(super) fn of_scopes(apis: &Registry, authentication: Option<&Arc<Authentication>>) {
    if !authentication.is_some_and(|it| it.has_scopes()) {
        return;
    }
    let mut by_api = BTreeMap::<_, Vec<_>>::new();
    for method in apis.without_scopes() {
        let api = method.split('.').next().unwrap_or_default();
        by_api.entry(api).or_default().push(method);
    }
    for (api, methods) in by_api {
        let named = methods[..methods.len().min(NAMED)].join(", ");
        let more = match methods.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        output::warning(
            format_args!(
                "the scopes of credentials do not limit these methods of {api}, which name \
                 none: {named}{more}"
            ),
            Some(
                "write `scopes` into the description of the API, or limit principals by [[allow]]",
            ),
        );
    }
}

/// Warns of APIs that answer at the path of the API `files`, or right below it, and get no requests
/// there.
pub(super) fn of_shadowed_apis(apis: &Registry, path: &FilesPath) {
    let files = apis.served().find(|served| served.api.name() == "files");
    let Some(files) = files.filter(|files| answers_at(files, path.as_str())) else {
        return;
    };
    let below = format!("{path}/ID");
    for other in apis.served().filter(|it| it.api.name() != "files") {
        let meets = files.host.is_none() || other.host.is_none() || files.host == other.host;
        if meets && (answers_at(other, path.as_str()) || answers_at(other, &below)) {
            output::warning(
                format_args!(
                    "requests to {path} and below are for the API files, not for {other}, which has \
                     such paths too"
                ),
                Some("the key files.path moves the API files, for example to /uploads"),
            );
        }
    }
}

/// Whether a method of the API, or an alias of one, has this path.
fn answers_at(served: &ServedApi, path: &str) -> bool {
    let mut methods = served.api.methods().iter();
    methods.any(|method| method.template.match_path(path).is_some())
        || served.handler.alias(&served.api, path).is_some()
}
