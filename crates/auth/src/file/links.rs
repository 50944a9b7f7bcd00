//! The entries of signed links: `[links]`.

use std::path::PathBuf;

use serde::Deserialize;
use zeroize::Zeroizing;

use super::{ReadFile, RulesError, read_named};
use crate::links::{LinkKeys, LinkSecret, Revocation, is_key_id};

/// The table `[links]`: keys of signed links, and revoked links.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinksEntry {
    #[serde(default)]
    keys: Vec<LinkKeyEntry>,
    #[serde(default)]
    revoked: Vec<Revocation>,
}

impl LinksEntry {
    /// Whether no link is valid.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "LinkKeyFields")]
struct LinkKeyEntry {
    id: String,
    secret: LinkSecretSource,
}

#[derive(Debug)]
enum LinkSecretSource {
    Text(LinkSecret),
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkKeyFields {
    id: String,
    secret: Option<LinkSecret>,
    secret_file: Option<PathBuf>,
}

impl TryFrom<LinkKeyFields> for LinkKeyEntry {
    type Error = &'static str;

    fn try_from(fields: LinkKeyFields) -> Result<Self, &'static str> {
        if !is_key_id(&fields.id) {
            return Err("the id of a key has 1 to 64 letters, digits, - and _");
        }
        let secret = match (fields.secret, fields.secret_file) {
            (Some(secret), None) => LinkSecretSource::Text(secret),
            (None, Some(path)) => LinkSecretSource::File(path),
            _ => return Err("a key needs exactly one of secret and secret_file"),
        };
        Ok(Self {
            id: fields.id,
            secret,
        })
    }
}

impl LinksEntry {
    /// Returns the keys and the revocations. Reads the files that contain a key's secret.
    pub(super) fn into_keys(self, read: ReadFile<'_>) -> Result<LinkKeys, RulesError> {
        let mut links = LinkKeys::default();
        for key in self.keys {
            let secret = match key.secret {
                LinkSecretSource::Text(secret) => secret,
                LinkSecretSource::File(path) => {
                    let text = read_named("links.keys.secret_file", &path, read)?;
                    let text = Zeroizing::new(text);
                    text.parse().map_err(|_| RulesError::LinkSecret { path })?
                }
            };
            links.insert(key.id, &secret);
        }
        for revocation in self.revoked {
            links.revoke(revocation);
        }
        Ok(links)
    }
}
