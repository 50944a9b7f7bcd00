//! The entries of client certificates: `[[certificates]]`.

use serde::Deserialize;
use windlass_server::Principal;

use super::{PrincipalId, RulesError, principal};
use crate::certificates::{CertificateName, CertificateTable, Fingerprint};

/// An entry of `[[certificates]]`: certificates, and the principal that has them.
#[derive(Debug, Deserialize)]
#[serde(try_from = "CertificateFields")]
pub(super) struct CertificateEntry {
    certificate: CertificateKey,
    principal: Principal,
}

#[derive(Debug)]
enum CertificateKey {
    Fingerprint(Fingerprint),
    Name(CertificateName),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateFields {
    name: Option<CertificateName>,
    sha256: Option<Fingerprint>,
    principal: PrincipalId,
    #[serde(default)]
    groups: Vec<String>,
    scopes: Option<Vec<String>>,
}

impl CertificateEntry {
    pub(super) fn has_scopes(&self) -> bool {
        self.principal.scopes().is_some()
    }
}

impl TryFrom<CertificateFields> for CertificateEntry {
    type Error = &'static str;

    fn try_from(fields: CertificateFields) -> Result<Self, &'static str> {
        let certificate = match (fields.sha256, fields.name) {
            (Some(fingerprint), None) => CertificateKey::Fingerprint(fingerprint),
            (None, Some(name)) => CertificateKey::Name(name),
            _ => return Err("a certificate needs exactly one of name and sha256"),
        };
        Ok(Self {
            certificate,
            principal: principal(fields.principal, fields.groups, fields.scopes),
        })
    }
}

/// Returns the table of these entries. With `names_are_principals`, other certificates are
/// principals by their names.
///
/// # Errors
/// [`RulesError::CertificateTwice`] for two entries of the same certificates.
pub(super) fn table(
    entries: Vec<CertificateEntry>,
    names_are_principals: bool,
) -> Result<CertificateTable, RulesError> {
    let mut table = CertificateTable::default().with_names_as_principals(names_are_principals);
    for CertificateEntry {
        certificate,
        principal,
    } in entries
    {
        let (shown, replaced) = match certificate {
            CertificateKey::Fingerprint(fingerprint) => (
                fingerprint.to_string(),
                table.insert_fingerprint(fingerprint, principal),
            ),
            CertificateKey::Name(name) => (name.to_string(), table.insert_name(name, principal)),
        };
        if replaced.is_some() {
            return Err(RulesError::CertificateTwice { certificate: shown });
        }
    }
    Ok(table)
}
