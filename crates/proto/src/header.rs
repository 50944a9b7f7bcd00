//! Header names of the protocol.

use http::HeaderName;

/// The media types that a resource accepts in a PATCH
/// ([RFC 5789](https://www.rfc-editor.org/rfc/rfc5789)).
pub const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// Digests of a message's content ([RFC 9530](https://www.rfc-editor.org/rfc/rfc9530)).
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// Base64 MD5 of a request's body ([RFC 1864](https://www.rfc-editor.org/rfc/rfc1864)).
pub const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// Digests of the whole representation ([RFC 9530](https://www.rfc-editor.org/rfc/rfc9530)).
pub const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// The digests that a client would like to get in [`REPR_DIGEST`], with weights.
pub const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");
/// Digests of the whole media: `crc32c=...,md5=...`.
pub const X_GOOG_HASH: HeaderName = HeaderName::from_static("x-goog-hash");
/// The algorithms of [`UPLOAD_CHECKSUM`] that a server knows.
pub const TUS_CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("tus-checksum-algorithm");
/// The extensions of tus that a server has.
pub const TUS_EXTENSION: HeaderName = HeaderName::from_static("tus-extension");
/// Maximum size in bytes of an upload by tus.
pub const TUS_MAX_SIZE: HeaderName = HeaderName::from_static("tus-max-size");
/// The version of tus that a request or a reply uses.
pub const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
/// The versions of tus that a server speaks.
pub const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
/// Digest of the body of one request, in tus.
pub const UPLOAD_CHECKSUM: HeaderName = HeaderName::from_static("upload-checksum");
/// Whether the upload ends with the request, in the IETF draft.
pub const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
/// What an upload is concatenated from, in tus.
pub const UPLOAD_CONCAT: HeaderName = HeaderName::from_static("upload-concat");
/// States that the length comes later, in tus.
pub const UPLOAD_DEFER_LENGTH: HeaderName = HeaderName::from_static("upload-defer-length");
/// Version of the IETF draft.
pub const UPLOAD_DRAFT_INTEROP_VERSION: HeaderName =
    HeaderName::from_static("upload-draft-interop-version");
/// When an unfinished upload ends, in tus.
pub const UPLOAD_EXPIRES: HeaderName = HeaderName::from_static("upload-expires");
/// The inverse of [`UPLOAD_COMPLETE`] in older versions of the IETF draft.
pub const UPLOAD_INCOMPLETE: HeaderName = HeaderName::from_static("upload-incomplete");
/// Length in bytes of the whole media, in tus and in the IETF draft.
pub const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
/// The limits on uploads in the IETF draft.
pub const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
/// What the client states about the file, in tus.
pub const UPLOAD_METADATA: HeaderName = HeaderName::from_static("upload-metadata");
/// Offset of the body's first byte, or number of committed bytes, in tus and in the IETF draft.
pub const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
/// Number of bytes that each chunk but the last should be a multiple of.
pub const X_GOOG_UPLOAD_CHUNK_GRANULARITY: HeaderName =
    HeaderName::from_static("x-goog-upload-chunk-granularity");
/// The command of a request in the dialect `X-Goog-Upload`.
pub const X_GOOG_UPLOAD_COMMAND: HeaderName = HeaderName::from_static("x-goog-upload-command");
/// Size in bytes of the media that a session is started for; an older name.
pub const X_GOOG_UPLOAD_CONTENT_LENGTH: HeaderName =
    HeaderName::from_static("x-goog-upload-content-length");
/// Type of the media that a session is started for; an older name.
pub const X_GOOG_UPLOAD_CONTENT_TYPE: HeaderName =
    HeaderName::from_static("x-goog-upload-content-type");
/// The session URI, for commands without data.
pub const X_GOOG_UPLOAD_CONTROL_URL: HeaderName =
    HeaderName::from_static("x-goog-upload-control-url");
/// Size in bytes of the media that a session is started for.
pub const X_GOOG_UPLOAD_HEADER_CONTENT_LENGTH: HeaderName =
    HeaderName::from_static("x-goog-upload-header-content-length");
/// Type of the media that a session is started for.
pub const X_GOOG_UPLOAD_HEADER_CONTENT_TYPE: HeaderName =
    HeaderName::from_static("x-goog-upload-header-content-type");
/// Offset of the body's first byte in the media.
pub const X_GOOG_UPLOAD_OFFSET: HeaderName = HeaderName::from_static("x-goog-upload-offset");
/// How the media comes: `resumable`, `multipart` or `raw`.
pub const X_GOOG_UPLOAD_PROTOCOL: HeaderName = HeaderName::from_static("x-goog-upload-protocol");
/// Size in bytes of the media that a session is started for; the name of Google Photos.
pub const X_GOOG_UPLOAD_RAW_SIZE: HeaderName = HeaderName::from_static("x-goog-upload-raw-size");
/// Number of committed bytes.
pub const X_GOOG_UPLOAD_SIZE_RECEIVED: HeaderName =
    HeaderName::from_static("x-goog-upload-size-received");
/// State of the upload: `active`, `final` or `cancelled`.
pub const X_GOOG_UPLOAD_STATUS: HeaderName = HeaderName::from_static("x-goog-upload-status");
/// The session URI.
pub const X_GOOG_UPLOAD_URL: HeaderName = HeaderName::from_static("x-goog-upload-url");
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
