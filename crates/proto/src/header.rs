//! Header names of the protocol.

use http::HeaderName;

/// Base64 MD5 of a request's body ([RFC 1864](https://www.rfc-editor.org/rfc/rfc1864)).
pub const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// Digests of the whole media: `crc32c=...,md5=...`.
pub const X_GOOG_HASH: HeaderName = HeaderName::from_static("x-goog-hash");
/// Asks for `200` with [`X_HTTP_STATUS_CODE_OVERRIDE`] in place of `308`.
pub const X_GUPLOADER_NO_308: HeaderName = HeaderName::from_static("x-guploader-no-308");
/// The session's `upload_id`, in replies.
pub const X_GUPLOADER_UPLOADID: HeaderName = HeaderName::from_static("x-guploader-uploadid");
/// The method that a POST stands for.
pub const X_HTTP_METHOD_OVERRIDE: HeaderName = HeaderName::from_static("x-http-method-override");
/// The status that a `200` stands for.
pub const X_HTTP_STATUS_CODE_OVERRIDE: HeaderName =
    HeaderName::from_static("x-http-status-code-override");
/// Size in bytes of the media that a session is started for.
pub const X_UPLOAD_CONTENT_LENGTH: HeaderName = HeaderName::from_static("x-upload-content-length");
/// Type of the media that a session is started for.
pub const X_UPLOAD_CONTENT_TYPE: HeaderName = HeaderName::from_static("x-upload-content-type");
