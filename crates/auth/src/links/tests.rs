use http::{HeaderMap, HeaderValue};
use windlass_server::Access;

use super::*;

const NOW: u64 = 1_000;
const OLD: &str = "b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xkb2w=";
const NEW: &str = "6e6577206e6577206e6577206e6577206e6577206e6577206e6577206e657720";

fn keys(secrets: &[(&str, &str)]) -> LinkKeys {
    let mut keys = LinkKeys::default();
    for (id, secret) in secrets {
        keys.insert(*id, &secret.parse().unwrap());
    }
    keys
}

fn link() -> Link {
    Link {
        id: "7".to_owned(),
        method: "POST".to_owned(),
        host: "up.example.com".to_owned(),
        path: "/upload/farm/v1/animals".to_owned(),
        query: Vec::new(),
        expires: NOW + 1,
        max_size: None,
        media_type: None,
        origin: None,
        once: false,
        principal: None,
    }
}

/// A request. By default it is the request for which the link is signed.
struct Ask {
    method: HttpMethod,
    base: &'static str,
    target: &'static str,
    origins: &'static [&'static str],
    now: u64,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            method: HttpMethod::POST,
            base: "https://up.example.com:8443",
            target: "/upload/farm/v1/animals?uploadType=media",
            origins: &[],
            now: NOW,
        }
    }
}

impl Ask {
    fn with(&self, keys: &LinkKeys, link: &str) -> Result<Principal, String> {
        let mut headers = HeaderMap::new();
        for origin in self.origins {
            headers.append(ORIGIN, HeaderValue::from_static(origin));
        }
        let uri = self.target.parse().unwrap();
        let request =
            AccessRequest::new(Access::Call, &self.method, &uri, &headers).at_base_url(self.base);
        let found = keys.principal(link, &request, self.now);
        found.map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(self, link: &Link, refused: &str) {
        let keys = keys(&[("k", OLD)]);
        let answer = self.with(&keys, &keys.sign(link).unwrap());
        match answer {
            Ok(_) => assert_eq!(refused, ""),
            Err(problem) => {
                assert!(
                    !refused.is_empty() && problem.contains(refused),
                    "{problem}"
                );
            }
        }
    }
}

#[test]
fn link_is_written_byte_for_byte_as_the_documentation_says() {
    let link = Link {
        expires: 1_790_000_000,
        max_size: Some(1024),
        media_type: Some("image/*".parse().unwrap()),
        once: true,
        ..link()
    };
    let signed = keys(&[("k", OLD)]).sign(&link).unwrap();
    let (text, _) = signed.rsplit_once('.').unwrap();
    let claims = text.strip_prefix("1.k.").unwrap();
    let claims = String::from_utf8(URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(
        claims,
        r#"{"id":"7","method":"POST","host":"up.example.com","path":"/upload/farm/v1/animals","expires":1790000000,"max_size":1024,"media_type":"image/*","once":true}"#
    );
    // By `printf %s TEXT | openssl dgst -sha256 -mac HMAC -macopt hexkey:...`.
    assert_eq!(signed, include_str!("vector.txt").trim_end());
}

#[test]
fn request_is_the_one_that_the_link_is_for() {
    let ask = Ask::default;
    ask().check(&link(), "");
    let expired = Ask {
        now: NOW + 1,
        ..ask()
    };
    expired.check(&link(), "has expired");
    for method in [HttpMethod::PUT, HttpMethod::GET, HttpMethod::DELETE] {
        Ask { method, ..ask() }.check(&link(), "is for POST, not for");
    }
    for target in [
        "/upload/farm/v1/animals/",
        "/upload/farm/v1/%61nimals",
        "/farm/v1/animals",
        "/",
    ] {
        Ask { target, ..ask() }.check(&link(), "another path");
    }
    for base in ["https://example.com", "", "https://up.example.com.evil"] {
        Ask { base, ..ask() }.check(&link(), "another host");
    }
    let base = "https://up.example.com/mount";
    Ask { base, ..ask() }.check(&link(), "another path");
    let mounted = Link {
        path: "/mount/upload/farm/v1/animals".to_owned(),
        ..link()
    };
    Ask { base, ..ask() }.check(&mounted, "");
}

#[test]
fn link_for_get_allows_head() {
    let get = Link {
        method: "GET".to_owned(),
        ..link()
    };
    for method in [HttpMethod::GET, HttpMethod::HEAD] {
        Ask {
            method,
            ..Ask::default()
        }
        .check(&get, "");
    }
    Ask::default().check(&get, "is for GET, not for POST");
}

#[test]
fn origin_must_be_stated_once_and_be_the_signed_one() {
    let link = Link {
        origin: Some("https://app.example.com".to_owned()),
        ..link()
    };
    for (origins, refused) in [
        (&["https://app.example.com"][..], ""),
        (&[], "only by pages of https://app.example.com"),
        (&["https://app.example.com:8443"], "only by pages of"),
        (&["null"], "only by pages of"),
        (
            &["https://app.example.com", "https://evil.example"],
            "only by pages of",
        ),
    ] {
        Ask {
            origins,
            ..Ask::default()
        }
        .check(&link, refused);
    }
}

#[test]
fn signed_parameters_must_be_sent_as_they_are_and_others_are_free() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let link = Link {
        query: vec![pair("name", "a b"), pair("tag", "x"), pair("tag", "y")],
        ..link()
    };
    let fixed = "sets the parameter";
    for (target, refused) in [
        (
            "/upload/farm/v1/animals?name=a+b&tag=x&tag=y&uploadType=media",
            "",
        ),
        ("/upload/farm/v1/animals?tag=y&tag=x&n%61me=a%20b", ""),
        ("/upload/farm/v1/animals?tag=x&tag=y", fixed),
        ("/upload/farm/v1/animals?name=other&tag=x&tag=y", fixed),
        (
            "/upload/farm/v1/animals?name=a+b&name=other&tag=x&tag=y",
            fixed,
        ),
        (
            "/upload/farm/v1/animals?name=other&name=a+b&tag=x&tag=y",
            fixed,
        ),
        ("/upload/farm/v1/animals?name=a+b&tag=x", fixed),
        ("/upload/farm/v1/animals?name=a+b&tag=x&tag=x", fixed),
    ] {
        Ask {
            target,
            ..Ask::default()
        }
        .check(&link, refused);
    }
}

#[test]
fn altered_link_is_refused_whichever_character_it_is() {
    let keys = keys(&[("k", OLD)]);
    let signed = keys.sign(&link()).unwrap();
    let ask = Ask::default();
    assert!(ask.with(&keys, &signed).is_ok());
    for at in 0..signed.len() {
        let mut altered = signed.clone().into_bytes();
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();
        assert!(ask.with(&keys, &altered).is_err(), "{at}");
        assert!(ask.with(&keys, &signed[..at]).is_err(), "{at}");
    }
    for link in [
        "",
        ".",
        "...",
        "1.k..",
        &format!("{signed}A"),
        &format!("{signed}."),
    ] {
        assert!(ask.with(&keys, link).is_err(), "{link}");
    }
}

#[test]
fn each_field_is_covered_by_the_signature() {
    let keys = keys(&[("k", OLD)]);
    let honest = keys.sign(&link()).unwrap();
    let (_, signature) = honest.rsplit_once('.').unwrap();
    let text = |text: &str| Some(text.to_owned());
    for other in [
        Link {
            id: "8".to_owned(),
            ..link()
        },
        Link {
            method: "PUT".to_owned(),
            ..link()
        },
        Link {
            host: "example.com".to_owned(),
            ..link()
        },
        Link {
            path: "/".to_owned(),
            ..link()
        },
        Link {
            query: vec![("a".to_owned(), "b".to_owned())],
            ..link()
        },
        Link {
            expires: NOW + 2,
            ..link()
        },
        Link {
            max_size: Some(1),
            ..link()
        },
        Link {
            media_type: Some(MediaRange::All),
            ..link()
        },
        Link {
            origin: text("https://a.example"),
            ..link()
        },
        Link {
            once: true,
            ..link()
        },
        Link {
            principal: text("alice"),
            ..link()
        },
    ] {
        let forged = keys.sign(&other).unwrap();
        let (claims, own) = forged.rsplit_once('.').unwrap();
        assert_ne!(own, signature, "{other:?}");
        let refused = Ask::default().with(&keys, &format!("{claims}.{signature}"));
        assert!(refused.unwrap_err().contains("altered"), "{other:?}");
    }
}

#[test]
fn first_key_signs_and_all_verify() {
    let (old, new) = (keys(&[("old", OLD)]), keys(&[("new", NEW), ("old", OLD)]));
    let ask = Ask::default();
    let signed_before = old.sign(&link()).unwrap();
    let signed_after = new.sign(&link()).unwrap();
    assert!(signed_after.starts_with("1.new."));
    for signed in [&signed_before, &signed_after] {
        assert!(ask.with(&new, signed).is_ok());
    }
    let removed = keys(&[("new", NEW)]);
    let refused = ask.with(&removed, &signed_before).unwrap_err();
    assert!(
        refused.contains("a key that this server does not have"),
        "{refused}"
    );
    let replaced = keys(&[("old", NEW)]);
    let refused = ask.with(&replaced, &signed_before).unwrap_err();
    assert!(refused.contains("altered"), "{refused}");
    assert_eq!(LinkKeys::default().sign(&link()), None);
}

#[test]
fn revoked_link_is_refused_until_its_expiry() {
    let mut keys = keys(&[("k", OLD)]);
    let signed = keys.sign(&link()).unwrap();
    let revocation = |id: &str, expires| Revocation {
        id: id.to_owned(),
        expires,
    };
    keys.revoke(revocation("8", None));
    keys.revoke(revocation("7", Some(NOW)));
    assert!(Ask::default().with(&keys, &signed).is_ok());
    for expires in [Some(NOW + 1), None] {
        keys.revoke(revocation("7", expires));
        let refused = Ask::default().with(&keys, &signed).unwrap_err();
        assert!(refused.contains("revoked"), "{refused}");
    }
}

#[test]
fn link_of_a_newer_version_is_refused_and_not_read_in_part() {
    let keys = keys(&[("k", OLD)]);
    let sign = |version: &str, claims: &str| {
        let signed = format!("{version}.k.{}", URL_SAFE_NO_PAD.encode(claims));
        let signature = hmac::sign(&keys.keys[0].key, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    };
    let claims = serde_json::to_string(&link()).unwrap();
    assert!(Ask::default().with(&keys, &sign("1", &claims)).is_ok());
    assert!(Ask::default().with(&keys, &sign("2", &claims)).is_err());
    let further = claims.replace("{\"id\"", "{\"further\":1,\"id\"");
    let refused = Ask::default().with(&keys, &sign("1", &further));
    assert!(refused.unwrap_err().contains("newer version"));
}

#[test]
fn principal_is_that_of_the_link_and_bears_its_terms() {
    let keys = keys(&[("k", OLD)]);
    let of = |link: &Link| {
        Ask::default()
            .with(&keys, &keys.sign(link).unwrap())
            .unwrap()
    };
    let plain = of(&link());
    assert_eq!(plain.id(), "link:7");
    assert_eq!(plain.link(), Some(&LinkTerms::new(LinkPurpose::Upload)));
    // The request has the signed parameter.
    let signed = of(&Link {
        query: vec![("uploadType".to_owned(), "media".to_owned())],
        ..link()
    });
    let signs = |name| signed.link().expect("it came by one").signs(name);
    assert!(signs("uploadType") && !signs("predefinedAcl"));
    let bound = of(&Link {
        principal: Some("alice".to_owned()),
        max_size: Some(5),
        media_type: Some(MediaRange::All),
        once: true,
        ..link()
    });
    let terms = LinkTerms::new(LinkPurpose::Upload).with_max_size(5);
    let terms = terms.with_media_type(MediaRange::All).once("7", NOW + 1);
    assert_eq!((bound.id(), bound.link()), ("alice", Some(&terms)));
}

#[test]
fn request_with_two_links_is_refused() {
    let link =
        |target: &'static str| find(&Uri::from_static(target)).map(|it| it.map(Cow::into_owned));
    assert_eq!(link("/a?b=c"), Ok(None));
    assert_eq!(link("/a?X-Windlass-Link=1.2"), Ok(Some("1.2".to_owned())));
    assert!(link("/a?X-Windlass-Link=1&X%2DWindlass-Link=1").is_err());
}

#[test]
fn secret_is_32_bytes_and_is_never_shown() {
    for text in [OLD, NEW, &OLD[..43], &format!("{NEW}\n")] {
        let secret: LinkSecret = text.parse().unwrap();
        assert_eq!(format!("{secret:?}"), "LinkSecret");
    }
    for wrong in [
        "",
        "abc",
        &NEW[2..],
        "b2xkb2xk",
        "a phrase of people, which is long enough",
    ] {
        assert_eq!(wrong.parse::<LinkSecret>().unwrap_err(), InvalidSecret);
    }
    let shown = format!("{:?}", keys(&[("k", OLD)]));
    assert!(
        shown.contains("LinkKey(\"k\")") && !shown.contains("111"),
        "{shown}"
    );
}
