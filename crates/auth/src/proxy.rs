//! Principals that a proxy in front of the server has established.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use windlass_server::{AccessError, Principal};

/// A proxy that authenticates users and states who they are in headers.
///
/// The headers are used only on connections from the proxy's addresses. On all other connections
/// they are ignored, because a client could have written them.
#[derive(Debug, Clone)]
pub struct TrustedProxy {
    /// Addresses of the proxy.
    pub from: Vec<IpNet>,
    /// Header with the id of the principal.
    pub principal_header: HeaderName,
    /// Header with the groups of the principal, separated by commas.
    pub groups_header: Option<HeaderName>,
}

impl TrustedProxy {
    /// Returns the principal that the proxy at `peer` states; `None` if it states none, or if
    /// `peer` is not the proxy.
    ///
    /// # Errors
    /// [`AccessError::CredentialsInvalid`] if it states two principals, or a value that is not
    /// text.
    pub(crate) fn principal(
        &self,
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Result<Option<Principal>, AccessError> {
        // An IPv4 address on a socket for both protocols is written as an IPv6 address.
        let is_proxy = |peer: IpAddr| {
            self.from
                .iter()
                .any(|net| net.contains(&peer.to_canonical()))
        };
        if !peer.is_some_and(is_proxy) {
            return Ok(None);
        }
        let mut stated = headers.get_all(&self.principal_header).iter();
        let Some(id) = stated.next() else {
            return Ok(None);
        };
        let id = id.to_str().map_err(|_| AccessError::CredentialsInvalid)?;
        if id.is_empty() || stated.next().is_some() {
            return Err(AccessError::CredentialsInvalid);
        }
        Ok(Some(Principal::new(id).with_groups(self.groups(headers))))
    }

    fn groups(&self, headers: &HeaderMap) -> Vec<String> {
        let Some(name) = &self.groups_header else {
            return Vec::new();
        };
        let lists = headers.get_all(name).iter();
        let lists = lists.filter_map(|value| value.to_str().ok());
        let groups = lists.flat_map(|list| list.split(',')).map(str::trim);
        groups
            .filter(|group| !group.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(
        peer: &str,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Option<(String, Vec<String>)>, AccessError> {
        let proxy = TrustedProxy {
            from: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
            principal_header: HeaderName::from_static("x-forwarded-user"),
            groups_header: Some(HeaderName::from_static("x-forwarded-groups")),
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let found = proxy.principal(peer.parse().ok(), &map)?;
        Ok(found.map(|found| (found.id().to_owned(), found.groups().to_vec())))
    }

    #[test]
    fn headers_count_from_the_addresses_of_the_proxy_alone() {
        let headers = [
            ("x-forwarded-user", "alice"),
            ("x-forwarded-groups", "staff, admins"),
        ];
        let alice = Ok(Some((
            "alice".to_owned(),
            vec!["staff".to_owned(), "admins".to_owned()],
        )));
        for peer in ["10.1.2.3", "::1", "::ffff:10.1.2.3"] {
            assert_eq!(ask(peer, &headers), alice, "{peer}");
        }
        for peer in ["11.0.0.1", "::2", "not an address"] {
            assert_eq!(ask(peer, &headers), Ok(None), "{peer}");
        }
    }

    #[test]
    fn proxy_that_states_no_or_two_principals_is_not_believed() {
        let refused = Err(AccessError::CredentialsInvalid);
        assert_eq!(ask("::1", &[]), Ok(None));
        assert_eq!(ask("::1", &[("x-forwarded-user", "")]), refused);
        let twice = [("x-forwarded-user", "alice"), ("x-forwarded-user", "bob")];
        assert_eq!(ask("::1", &twice), refused);
    }
}
