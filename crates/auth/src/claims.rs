//! An issuer's statements about a token: the claims of a JWT, or the reply to an introspection.

use std::time::Duration;

use serde_json::{Map, Value};
use windlass_server::{AccessError, Principal};
use windlass_store::Timestamp;

/// Claims by their names.
pub(crate) type Claims = Map<String, Value>;

/// The claims from which a principal is made.
#[derive(Debug, Clone)]
pub(crate) struct PrincipalClaims {
    /// Names of the claims with the id. The first claim that is present is used.
    pub(crate) id: Vec<String>,
    /// The prefix of the principal's id.
    pub(crate) prefix: String,
    /// Claim with the groups.
    pub(crate) groups: String,
    /// The claims that the policy names. Further claims are not kept, so that a cached token is
    /// small.
    pub(crate) kept: Vec<String>,
}

impl PrincipalClaims {
    /// Returns the principal that the claims are about.
    ///
    /// # Errors
    /// [`AccessError::CredentialsInvalid`] if the claims have no id, or scopes in another form.
    pub(crate) fn principal(&self, claims: &Claims) -> Result<Principal, AccessError> {
        let id = self.id.iter().find_map(|name| claims.get(name));
        let id = id.and_then(Value::as_str).filter(|id| !id.is_empty());
        let id = id.ok_or(AccessError::CredentialsInvalid)?;
        let groups = claims.get(&self.groups).map(texts).unwrap_or_default();
        let kept = self.kept.iter();
        let kept = kept.filter_map(|name| Some((name.clone(), claims.get(name)?.clone())));
        let principal = Principal::new(format!("{}{id}", self.prefix))
            .with_groups(groups)
            .with_claims(kept.collect());
        Ok(match scopes(claims)? {
            Some(scopes) => principal.with_scopes(scopes),
            None => principal,
        })
    }
}

/// Returns the scopes in `scope` (RFC 9068, section 2.2.3, RFC 7662, section 2.2) or in `scp`, the
/// name that some issuers use: words in a text, or an array.
///
/// Without either claim, the token is not limited to scopes. The RFC says that an issuer writes the
/// claim if the client has asked for scopes. An issuer without scopes, such as Firebase's issuer
/// for its users, never writes the claim. Only the issuer can omit it.
fn scopes(claims: &Claims) -> Result<Option<Vec<String>>, AccessError> {
    let Some(value) = claims.get("scope").or_else(|| claims.get("scp")) else {
        return Ok(None);
    };
    match value {
        Value::String(words) => Ok(Some(
            words.split_ascii_whitespace().map(str::to_owned).collect(),
        )),
        Value::Array(_) => Ok(Some(texts(value))),
        // Reading another form as no limit would give the token more rights than it states.
        _ => Err(AccessError::CredentialsInvalid),
    }
}

/// Whether the token is for one of these audiences (RFC 7519, section 4.1.3).
pub(crate) fn has_audience(claims: &Claims, wanted: &[String]) -> bool {
    let audiences = claims.get("aud").map(texts).unwrap_or_default();
    audiences.iter().any(|audience| wanted.contains(audience))
}

/// Refuses a token that does not prove that its sender is the principal. Two kinds are refused: a
/// token bound to a key, which a bearer need not hold (`cnf`: RFC 7800, RFC 8705, RFC 9449), and a
/// token that reports events (RFC 8417), such as a logout.
pub(crate) fn check_kind(claims: &Claims) -> Result<(), AccessError> {
    let is_other = ["cnf", "events"]
        .iter()
        .any(|name| claims.contains_key(*name));
    if is_other {
        return Err(AccessError::CredentialsInvalid);
    }
    Ok(())
}

/// Checks `exp`, `nbf` and `iat`, if they are present. Returns the time at which the token expires:
/// `exp` plus the allowed clock skew.
pub(crate) fn check_times(
    claims: &Claims,
    now: Timestamp,
    skew: Duration,
) -> Result<Option<Timestamp>, AccessError> {
    for name in ["nbf", "iat"] {
        let begins = time(claims, name)?;
        if begins.is_some_and(|begins| begins > now.saturating_add(skew)) {
            return Err(AccessError::CredentialsInvalid);
        }
    }
    let expires = time(claims, "exp")?.map(|expires| expires.saturating_add(skew));
    if expires.is_some_and(|expires| expires <= now) {
        return Err(AccessError::CredentialsExpired);
    }
    Ok(expires)
}

/// A `NumericDate`: seconds since the epoch, perhaps with a fraction (RFC 7519, section 2).
fn time(claims: &Claims, name: &str) -> Result<Option<Timestamp>, AccessError> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let whole = value.as_u64().map(Duration::from_secs);
    let fraction = || Duration::try_from_secs_f64(value.as_f64()?).ok();
    let since_epoch = whole.or_else(fraction);
    let since_epoch = since_epoch.ok_or(AccessError::CredentialsInvalid)?;
    Ok(Some(Timestamp::from_millis(0).saturating_add(since_epoch)))
}

/// The text, or the texts in the array. Other values are left out.
fn texts(value: &Value) -> Vec<String> {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    let texts = values.iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(claims: &Value) -> Claims {
        claims.as_object().expect("it is an object").clone()
    }

    fn names() -> PrincipalClaims {
        PrincipalClaims {
            id: vec!["sub".to_owned(), "client_id".to_owned()],
            prefix: "idp:".to_owned(),
            groups: "groups".to_owned(),
            kept: vec!["tier".to_owned()],
        }
    }

    #[test]
    fn principal_is_made_of_the_named_claims() {
        let claims = of(&json!({
            "sub": "alice", "client_id": "app", "groups": ["staff", 1], "tier": 2, "email": "a@b.c",
        }));
        let alice = names().principal(&claims).unwrap();
        assert_eq!((alice.id(), alice.scopes()), ("idp:alice", None));
        assert_eq!(alice.groups(), ["staff"]);
        assert_eq!(Value::Object(alice.claims().clone()), json!({"tier": 2}));
        let app = names().principal(&of(&json!({"client_id": "app", "groups": "staff"})));
        let app = app.unwrap();
        assert_eq!(
            (app.id(), app.groups()),
            ("idp:app", &["staff".to_owned()][..])
        );
        for wrong in [
            json!({}),
            json!({"sub": ""}),
            json!({"sub": 7, "client_id": "app"}),
        ] {
            let refused = names().principal(&of(&wrong)).unwrap_err();
            assert_eq!(refused, AccessError::CredentialsInvalid);
        }
    }

    #[test]
    fn scopes_are_words_or_an_array_and_no_limit_if_absent() {
        let some = |scopes: &[&str]| Ok(Some(scopes.iter().map(|it| (*it).to_owned()).collect()));
        for (claims, expected) in [
            (json!({}), Ok(None)),
            (json!({"scope": "a  b"}), some(&["a", "b"])),
            (json!({"scope": ""}), some(&[])),
            (json!({"scp": ["a", "b"]}), some(&["a", "b"])),
            (json!({"scp": "a"}), some(&["a"])),
            (json!({"scope": "a", "scp": "b"}), some(&["a"])),
            (json!({"scope": null}), Err(AccessError::CredentialsInvalid)),
            (json!({"scope": {}}), Err(AccessError::CredentialsInvalid)),
        ] {
            assert_eq!(scopes(&of(&claims)), expected, "{claims}");
        }
    }

    #[test]
    fn times_are_checked_with_the_skew() {
        let now = Timestamp::from_millis(1_000_000);
        let check = |claims: Value| check_times(&of(&claims), now, Duration::from_secs(60));
        let until = |seconds: u64| Ok(Some(Timestamp::from_millis(seconds * 1000)));
        let invalid = Err(AccessError::CredentialsInvalid);
        for (claims, expected) in [
            (json!({}), Ok(None)),
            (json!({"exp": 1000}), until(1060)),
            (json!({"exp": 940}), Err(AccessError::CredentialsExpired)),
            (json!({"exp": 941}), until(1001)),
            (json!({"exp": 941.0}), until(1001)),
            (json!({"exp": 0}), Err(AccessError::CredentialsExpired)),
            (json!({"exp": "2000"}), invalid.clone()),
            (json!({"exp": -1}), invalid.clone()),
            (json!({"exp": null}), invalid.clone()),
            (json!({"nbf": 1060, "iat": 1060}), Ok(None)),
            (json!({"nbf": 1061}), invalid.clone()),
            (json!({"iat": 1061}), invalid.clone()),
            (json!({"iat": 1e300}), invalid),
        ] {
            assert_eq!(check(claims.clone()), expected, "{claims}");
        }
    }

    #[test]
    fn audience_is_one_of_the_token_s() {
        let wanted = ["a".to_owned(), "b".to_owned()];
        for (claims, expected) in [
            (json!({"aud": "a"}), true),
            (json!({"aud": ["c", "b"]}), true),
            (json!({"aud": ["c"]}), false),
            (json!({"aud": {"a": "a"}}), false),
            (json!({"aud": "a b"}), false),
            (json!({}), false),
        ] {
            assert_eq!(has_audience(&of(&claims), &wanted), expected, "{claims}");
        }
    }
}
