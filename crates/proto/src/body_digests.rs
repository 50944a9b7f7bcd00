//! Digests of the body of one request, which may be a part of the media: `Content-Digest`
//! ([RFC 9530](https://www.rfc-editor.org/rfc/rfc9530)) and the `Upload-Checksum` of tus
//! (docs/protocol.md, 2.14).
//!
//! The bytes of such a body count only if it has the stated digests. So none of them may be
//! committed before its end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::TRAILER;
use http::{HeaderMap, HeaderName};
use windlass_digest::{Algorithm, Checksum, ChecksumHasher};

use crate::command::ContentCoding;
use crate::digest_fields;
use crate::error::BodyDigestError;
use crate::header::{CONTENT_DIGEST, UPLOAD_CHECKSUM};

#[cfg(test)]
mod tests;

/// A field that states digests of the body, in the head or in the trailer section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestField {
    /// `Content-Digest`: digests by several algorithms. Algorithms that are not known are ignored
    /// beside one that is.
    ContentDigest,
    /// `Upload-Checksum`: one digest.
    UploadChecksum,
}

/// What the head of a request states about the digests of its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodyDigests {
    stated: Vec<(DigestField, Checksum)>,
    /// The fields that are announced for the trailer section.
    announced: Vec<DigestField>,
}

impl BodyDigests {
    /// Reads the fields of a head, and what its `Trailer` announces. A trailer that is not announced
    /// is not read.
    ///
    /// # Errors
    /// If a field is malformed, states no known algorithm, or covers a body with a content coding.
    pub fn of(headers: &HeaderMap, fields: &[DigestField]) -> Result<Self, BodyDigestError> {
        let mut digests = Self::default();
        for field in fields {
            let stated = field.read(headers)?;
            digests
                .stated
                .extend(stated.into_iter().map(|checksum| (*field, checksum)));
            if field.is_announced(headers) {
                digests.announced.push(*field);
            }
        }
        let stated = digests.stated.first().map(|(field, _)| field);
        if let Some(field) = stated.or(digests.announced.first())
            && !matches!(
                ContentCoding::from_headers(headers),
                Ok(ContentCoding::Identity)
            )
        {
            let field = field.text();
            return Err(BodyDigestError::OfCodedBytes { field });
        }
        Ok(digests)
    }

    /// Whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        self.stated.is_empty() && self.announced.is_empty()
    }

    /// Returns what checks the body.
    pub fn into_check(self) -> BodyCheck {
        let stated = self.stated.iter();
        let stated = stated.map(|(_, checksum)| checksum.algorithm());
        // A trailer names its algorithm only at the end.
        let of_trailer = Algorithm::ALL.into_iter();
        let of_trailer = of_trailer.filter(|_| !self.announced.is_empty());
        BodyCheck {
            hasher: ChecksumHasher::new(stated.chain(of_trailer)),
            digests: self,
        }
    }
}

/// Checks whether a body has the stated digests.
#[derive(Debug)]
pub struct BodyCheck {
    digests: BodyDigests,
    hasher: ChecksumHasher,
}

impl BodyCheck {
    /// Adds the next bytes of the body.
    pub fn update(&mut self, data: &[u8]) {
        self.hasher.update(data);
    }

    /// Checks the whole body. `trailers` is its trailer section.
    ///
    /// # Errors
    /// If the body has another digest, or an announced trailer is missing or unusable.
    pub fn end(self, trailers: &HeaderMap) -> Result<(), BodyDigestError> {
        let BodyDigests {
            mut stated,
            announced,
        } = self.digests;
        for field in announced {
            let of_trailer = field.read(trailers)?;
            if of_trailer.is_empty() {
                let field = field.text();
                return Err(BodyDigestError::Missing { field });
            }
            stated.extend(of_trailer.into_iter().map(|checksum| (field, checksum)));
        }
        let computed = self.hasher.finish();
        let wrong = stated.iter().find(|(_, it)| !computed.contains(it));
        wrong.map_or(Ok(()), |(field, checksum)| {
            Err(BodyDigestError::Mismatch {
                field: field.text(),
                algorithm: checksum.algorithm(),
            })
        })
    }
}

impl DigestField {
    fn name(self) -> HeaderName {
        match self {
            Self::ContentDigest => CONTENT_DIGEST,
            Self::UploadChecksum => UPLOAD_CHECKSUM,
        }
    }

    /// The name in its usual spelling.
    fn text(self) -> &'static str {
        match self {
            Self::ContentDigest => "Content-Digest",
            Self::UploadChecksum => "Upload-Checksum",
        }
    }

    /// The algorithms that the field may name, by their names there.
    fn algorithms(self) -> &'static [(&'static str, Algorithm)] {
        match self {
            Self::ContentDigest => &[
                ("sha-256", Algorithm::Sha256),
                ("sha-512", Algorithm::Sha512),
                ("crc32c", Algorithm::Crc32c),
                ("md5", Algorithm::Md5),
                ("sha", Algorithm::Sha1),
            ],
            Self::UploadChecksum => &[
                ("sha1", Algorithm::Sha1),
                ("sha256", Algorithm::Sha256),
                ("sha512", Algorithm::Sha512),
                ("md5", Algorithm::Md5),
                ("crc32c", Algorithm::Crc32c),
            ],
        }
    }

    /// The names of these algorithms, as a text.
    pub(crate) fn known(self) -> &'static str {
        match self {
            Self::ContentDigest => "sha-256,sha-512,crc32c,md5,sha",
            Self::UploadChecksum => "sha1,sha256,sha512,md5,crc32c",
        }
    }

    fn algorithm(self, name: &str) -> Option<Algorithm> {
        let mut known = self.algorithms().iter();
        known.find(|(known, _)| *known == name).map(|(_, it)| *it)
    }

    /// Whether the head announces the field for the trailer section.
    fn is_announced(self, headers: &HeaderMap) -> bool {
        let announced = headers.get_all(TRAILER).into_iter();
        let mut names = announced.flat_map(|names| names.as_bytes().split(|byte| *byte == b','));
        names.any(|it| it.trim_ascii().eq_ignore_ascii_case(self.text().as_bytes()))
    }

    /// Returns the digests in the field; none if it is absent.
    fn read(self, fields: &HeaderMap) -> Result<Vec<Checksum>, BodyDigestError> {
        if !fields.contains_key(self.name()) {
            return Ok(Vec::new());
        }
        let field = self.text();
        let malformed = BodyDigestError::Malformed { field };
        let stated = match self {
            Self::ContentDigest => {
                digest_fields::members(fields, &CONTENT_DIGEST).ok_or(malformed)?
            }
            Self::UploadChecksum => vec![word_and_bytes(fields).ok_or(malformed)?],
        };
        let is_empty = stated.is_empty();
        let mut checksums = Vec::new();
        for (name, digest) in stated {
            if let Some(algorithm) = self.algorithm(&name) {
                let digest = digest.and_then(|digest| Checksum::new(algorithm, digest));
                checksums.push(digest.ok_or(malformed)?);
            }
        }
        if checksums.is_empty() && !is_empty {
            let known = self.known();
            return Err(BodyDigestError::Unsupported { field, known });
        }
        Ok(checksums)
    }
}

/// Returns the algorithm and the digest in `Upload-Checksum`; `None` if it is malformed.
fn word_and_bytes(fields: &HeaderMap) -> Option<(String, Option<Vec<u8>>)> {
    let mut lines = fields.get_all(UPLOAD_CHECKSUM).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let (name, digest) = line.to_str().ok()?.trim_ascii().split_once(' ')?;
    Some((name.to_owned(), STANDARD.decode(digest.trim_ascii()).ok()))
}
