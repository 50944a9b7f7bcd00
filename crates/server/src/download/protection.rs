//! Headers that make media harmless in a browser. Uploaded media must not act as a page of the
//! server's origin, nor inside pages of other origins.
//!
//! | header | effect |
//! |---|---|
//! | `X-Content-Type-Options: nosniff` | the stated type applies: a picture is no script |
//! | `Content-Security-Policy: sandbox; default-src 'none'` | a document runs nothing, loads nothing, and has an opaque origin |
//! | `Content-Disposition: attachment` | a browser saves media that is not on the list of types to show, such as PDF: a viewer would run its script in spite of the sandbox |
//! | `Cross-Origin-Resource-Policy` | pages of other origins do not embed it |

use http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use windlass_discovery::{MediaRange, MediaType};

use crate::config::Downloads;
use crate::reply::NOSNIFF;

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// The disposition of media that browsers save.
const ATTACHMENT: &[u8] = b"attachment";

/// Completes the headers of a reply with media. They already contain the media's type and
/// disposition.
pub(super) fn protect(headers: &mut HeaderMap, settings: &Downloads) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    let policy = HeaderValue::from_static(settings.resource_policy.as_str());
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, policy);
    if !is_shown(headers.get(CONTENT_TYPE), &settings.inline) {
        let saved = saved(headers.get(CONTENT_DISPOSITION));
        headers.insert(CONTENT_DISPOSITION, saved);
    }
}

/// Whether browsers may show media of this type.
fn is_shown(content_type: Option<&HeaderValue>, inline: &[MediaRange]) -> bool {
    // Of several types, browsers take the last one (Fetch standard, "extract a MIME type").
    let text = content_type.and_then(|value| value.to_str().ok());
    let text = text.filter(|text| !text.contains(','));
    let parsed = text.and_then(|text| text.parse::<MediaType>().ok());
    parsed.is_some_and(|media_type| inline.iter().any(|range| range.accepts(&media_type)))
}

/// Returns the disposition of media that browsers save: the handler's disposition, with
/// `attachment` as its type.
///
/// Clients that upload to Cloud Storage choose the disposition. They must not decide whether their
/// media can act on people who open it. The file name is kept.
fn saved(own: Option<&HeaderValue>) -> HeaderValue {
    let attachment = HeaderValue::from_static("attachment");
    let Some(own) = own else {
        return attachment;
    };
    let bytes = own.as_bytes();
    let end = bytes.iter().position(|byte| *byte == b';');
    let (kind, parameters) = bytes.split_at(end.unwrap_or(bytes.len()));
    if kind.trim_ascii().eq_ignore_ascii_case(ATTACHMENT) {
        return own.clone();
    }
    HeaderValue::from_bytes(&[ATTACHMENT, parameters].concat()).unwrap_or(attachment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disposition(content_type: &'static str, own: Option<&'static str>) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(own) = own {
            headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(own));
        }
        protect(&mut headers, &Downloads::default());
        let value = headers.get(CONTENT_DISPOSITION);
        value.map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn media_of_types_that_may_act_is_saved() {
        for shown in [
            "image/png",
            "IMAGE/JPEG",
            "video/mp4",
            "audio/x",
            "text/plain; charset=utf-8",
        ] {
            assert_eq!(disposition(shown, None), None, "{shown}");
        }
        for saved in [
            "image/svg+xml",
            "text/html",
            "application/pdf",
            "application/json",
            "application/octet-stream",
            "text/xml",
            "",
            "png",
            "image/png, text/html",
            "image/png; x, text/html",
            "image/png; a=\",text/html",
        ] {
            let expected = Some("attachment".to_owned());
            assert_eq!(disposition(saved, None), expected, "{saved}");
        }
    }

    #[test]
    fn disposition_of_a_handler_does_not_show_what_may_act() {
        let cases = [
            ("text/html", "inline", "attachment"),
            (
                "text/html",
                "inline; filename=\"a\"",
                "attachment; filename=\"a\"",
            ),
            ("text/html", "INLINE;filename=a", "attachment;filename=a"),
            ("text/html", "filename=a", "attachment"),
            (
                "text/html",
                "Attachment; filename=a",
                "Attachment; filename=a",
            ),
            ("image/png", "inline; filename=a", "inline; filename=a"),
            ("image/png", "attachment", "attachment"),
        ];
        for (content_type, own, expected) in cases {
            let found = disposition(content_type, Some(own));
            assert_eq!(found.as_deref(), Some(expected), "{content_type} {own}");
        }
    }
}
