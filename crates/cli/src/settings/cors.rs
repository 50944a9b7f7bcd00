//! The settings of CORS: the origins that may call all APIs, and the origins of single APIs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use windlass_server::{AllowedOrigin, CorsPolicy, CredentialsForAll, NotAnOrigin};

/// The keys of the table `cors`.
#[derive(Debug, Clone)]
pub(crate) struct CorsSettings {
    /// The origins that all APIs allow.
    pub(crate) origins: Vec<AllowedOrigin>,
    /// Whether pages may send credentials.
    pub(crate) credentials: bool,
    /// How long browsers may keep the answer to a preflight.
    pub(crate) max_age: Duration,
    /// APIs with separate origins.
    pub(crate) apis: Vec<ApiOrigins>,
}

impl CorsSettings {
    /// Returns the policy of all APIs without separate origins, or `None` if no origins are set.
    pub(crate) fn policy(&self) -> Result<Option<CorsPolicy>, CredentialsForAll> {
        let policy = || policy(&self.origins, self.credentials, self.max_age);
        (!self.origins.is_empty()).then(policy).transpose()
    }

    /// Returns the policy of an API with separate origins, or `None` if it has no separate origins.
    pub(super) fn policy_of(&self, name: &str) -> Result<Option<CorsPolicy>, CredentialsForAll> {
        let own = self.apis.iter().rev().find(|own| own.name == name);
        own.map(|own| own.policy(self)).transpose()
    }
}

impl Default for CorsSettings {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            credentials: false,
            max_age: CorsPolicy::MAX_AGE,
            apis: Vec::new(),
        }
    }
}

fn policy(
    origins: &[AllowedOrigin],
    credentials: bool,
    max_age: Duration,
) -> Result<CorsPolicy, CredentialsForAll> {
    let policy = CorsPolicy::new(origins.iter().cloned()).with_max_age(max_age);
    if credentials {
        policy.with_credentials()
    } else {
        Ok(policy)
    }
}

/// The origins of an API, written `NAME=ORIGIN ORIGIN`. `credentials=true` or `false` and
/// `max_age=DURATION` may follow; without them, the values for all APIs apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiOrigins {
    pub(super) name: String,
    origins: Vec<AllowedOrigin>,
    credentials: Option<bool>,
    max_age: Option<Duration>,
}

/// Why a text does not state the origins of an API.
#[derive(Debug, Error)]
pub(crate) enum ApiOriginsError {
    #[error("`{text}` is not the name of an API with origins, such as drive=https://app.example")]
    Form { text: String },
    #[error(transparent)]
    Origin(#[from] NotAnOrigin),
}

impl ApiOrigins {
    pub(super) fn policy(&self, usual: &CorsSettings) -> Result<CorsPolicy, CredentialsForAll> {
        let credentials = self.credentials.unwrap_or(usual.credentials);
        let max_age = self.max_age.unwrap_or(usual.max_age);
        policy(&self.origins, credentials, max_age)
    }

    fn read(&mut self, word: &str) -> Result<(), ApiOriginsError> {
        let form = || ApiOriginsError::Form {
            text: word.to_owned(),
        };
        match word.split_once('=') {
            None => self.origins.push(word.parse()?),
            Some(("credentials", value)) => {
                self.credentials = Some(value.parse().map_err(|_| form())?);
            }
            Some(("max_age", value)) => {
                let max_age = humantime::parse_duration(value).map_err(|_| form())?;
                self.max_age = Some(max_age);
            }
            Some(_) => return Err(form()),
        }
        Ok(())
    }
}

impl FromStr for ApiOrigins {
    type Err = ApiOriginsError;

    fn from_str(text: &str) -> Result<Self, ApiOriginsError> {
        let parts = text.split_once('=').map(|(name, rest)| (name.trim(), rest));
        let Some((name, rest)) = parts.filter(|(name, _)| !name.is_empty()) else {
            return Err(ApiOriginsError::Form {
                text: text.to_owned(),
            });
        };
        let mut own = Self {
            name: name.to_owned(),
            origins: Vec::new(),
            credentials: None,
            max_age: None,
        };
        rest.split_whitespace()
            .try_for_each(|word| own.read(word))?;
        Ok(own)
    }
}

impl fmt::Display for ApiOrigins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<_> = self.origins.iter().map(ToString::to_string).collect();
        words.extend(self.credentials.map(|it| format!("credentials={it}")));
        let max_age = self.max_age.map(|it| it.as_millis());
        words.extend(max_age.map(|it| format!("max_age={it}ms")));
        write!(f, "{}={}", self.name, words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_of_an_api_are_read_with_what_differs_for_it() {
        let text =
            "drive=https://app.example https://*.example.com credentials=true max_age=90000ms";
        let own: ApiOrigins = text.parse().unwrap();
        assert_eq!(own.to_string(), text);
        let usual = CorsSettings::default();
        let expected =
            ["https://app.example", "https://*.example.com"].map(|it| it.parse().unwrap());
        let expected = CorsPolicy::new(expected).with_max_age(Duration::from_secs(90));
        assert_eq!(own.policy(&usual), expected.with_credentials());
        let none: ApiOrigins = "gmail=".parse().unwrap();
        assert_eq!(none.policy(&usual), Ok(CorsPolicy::new([])));
    }

    #[test]
    fn malformed_origins_of_an_api_are_refused() {
        for text in [
            "drive",
            "=https://app.example",
            "drive=app.example",
            "drive=credentials=1",
            "drive=max_age=long",
            "drive=https://app.example age=1",
        ] {
            assert!(text.parse::<ApiOrigins>().is_err(), "{text}");
        }
    }
}
