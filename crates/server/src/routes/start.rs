//! Requests that start sessions: an upload of its own, a partial upload, or one that is concatenated
//! from partial uploads.

use http::{HeaderValue, Uri};
use windlass_engine::identifiers::session_id;
use windlass_engine::{Error as EngineError, Partial};
use windlass_proto::command::{StartBody, StartHead};
use windlass_proto::concat::PartialUri;
use windlass_proto::dialect::{Dialect, SessionPath};
use windlass_proto::metadata::parse_metadata;
use windlass_proto::parameters::{Parameters, UploadId};
use windlass_rest::registry::plain_path;

use super::session_call::{BodyPart, Call, ReplyTo, SessionCall, Started, final_reply};
use super::{Routed, Routing, no_such};
use crate::batch::without_mount;
use crate::body::RequestBody;
use crate::error::Error;
use crate::uploads::access::SessionTarget;
use crate::uploads::start_request::{StartRequest, UploadHead, usable_name};
use crate::uploads::stated_fields::to_metadata;

/// What a start has said, besides its request.
enum Beginning {
    /// The metadata of an upload whose data follows.
    Metadata,
    /// The first part of the media, if the body is that.
    Data(Option<BodyPart>),
    /// The partial uploads from which the media is concatenated.
    Partials(Vec<PartialUri>),
}

impl Routed<'_> {
    /// Starts a session. If the request has brought data as well, its session takes them.
    pub(super) async fn start(
        &self,
        dialect: &dyn Dialect,
        upload: &UploadHead<'_>,
        start: StartHead,
        body: &mut Option<RequestBody>,
    ) -> Result<Routing, Error> {
        let declared = start.declared_total();
        let unread = body.as_mut().expect("nobody has taken the body yet");
        let (request, beginning) = self.start_request(upload, start, unread).await?;
        let request = request.for_origin(upload.headers);
        let part = match beginning {
            Beginning::Metadata => None,
            Beginning::Data(part) => part,
            Beginning::Partials(partials) => {
                return self.concatenate(dialect, request, &partials).await;
            }
        };
        let started = {
            let engine = &self.site.server.engine;
            engine.start(request, declared, dialect.name()).await?
        };
        let location = self.session_uri(dialect, &started.upload_id)?;
        let call = SessionCall {
            target: self.session_target(upload.path),
            dialect: dialect.name(),
            call: Call::first_part(&started.upload_id, part.as_ref()),
            started: Some(Started {
                location,
                expires: started.expires,
                declared,
                with_data: part.is_some(),
                is_told: false,
            }),
        };
        if part.is_some() {
            return Ok(Routing::Session(call));
        }
        call.report_start(self.site.server, dialect)
            .map(Routing::Answered)
    }

    /// Makes an upload of partial uploads, and ends it.
    async fn concatenate(
        &self,
        dialect: &dyn Dialect,
        request: StartRequest,
        partials: &[PartialUri],
    ) -> Result<Routing, Error> {
        let partials = partials.iter().map(|partial| self.partial(partial));
        let partials = partials.collect::<Result<_, _>>()?;
        let engine = &self.site.server.engine;
        let finished = engine.concatenate_partials(request, partials, dialect.name());
        let (started, reply) = finished.await?;
        let to = ReplyTo {
            upload_id: Some(&UploadId::from(&*started.upload_id)),
            location: Some(self.session_uri(dialect, &started.upload_id)?),
            kept: None,
        };
        Ok(Routing::Answered(final_reply(dialect, reply, to)))
    }

    /// Returns the session of a partial upload, as this request asks for it.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if it is no session URI of this server.
    fn partial(&self, partial: &PartialUri) -> Result<Partial<SessionTarget>, EngineError> {
        let found = || {
            let base: Uri = self.context.base_url.parse().ok()?;
            let uri = partial.uri();
            let is_here = |authority| Some(authority) == base.authority();
            let is_of_others = !uri.authority().is_none_or(is_here);
            if is_of_others {
                return None;
            }
            let target = without_mount(&base, uri.path_and_query()?.as_str());
            let target: Uri = target.parse().ok()?;
            let dialects = &self.site.server.dialects;
            let target = dialects.session_in_query(&target).unwrap_or(target);
            let query = Parameters::parse(target.query()).ok()?;
            let session = SessionTarget {
                // The conditions are those of the new upload.
                conditions: Vec::new(),
                ..self.session_target(plain_path(target.path())?)
            };
            Some(Partial {
                session: session_id(query.upload_id()?.as_str()),
                request: session,
            })
        };
        found().ok_or(EngineError::NotFound)
    }

    /// Reads what a start says, and what its body is.
    async fn start_request(
        &self,
        upload: &UploadHead<'_>,
        start: StartHead,
        body: &mut RequestBody,
    ) -> Result<(StartRequest, Beginning), Error> {
        let limits = &self.site.server.settings.limits;
        let length = start.length;
        let data = |part: Option<_>| Beginning::Data(part.map(|part| BodyPart { part, length }));
        let (file_name, fields, beginning) = match start.body {
            StartBody::Metadata => {
                let metadata = body.collect_json(limits.metadata).await?;
                let metadata = parse_metadata(&metadata, limits.json())?;
                let request = upload.with_body(&metadata, start.content_type, start.expected)?;
                let request = request.with_statements(None, start.kept);
                return Ok((request, Beginning::Metadata));
            }
            StartBody::Partial { part } => {
                let request = upload.of_partial().with_statements(None, start.kept);
                return Ok((request, data(part)));
            }
            StartBody::Data {
                file_name,
                fields,
                part,
            } => (file_name, fields, data(part)),
            StartBody::Concatenated {
                file_name,
                fields,
                partials,
            } => (file_name, fields, Beginning::Partials(partials)),
        };
        let name = file_name.as_deref().and_then(usable_name);
        let metadata = to_metadata(upload.method, &fields, name.as_deref());
        let request = upload.with_body(&metadata, start.content_type, start.expected)?;
        let request = request.with_statements(name, start.kept);
        let request = match beginning {
            Beginning::Partials(_) => request.concatenated(),
            Beginning::Metadata | Beginning::Data(_) => request,
        };
        Ok((request, beginning))
    }

    /// Returns the URI of a session that this request has started.
    fn session_uri(&self, dialect: &dyn Dialect, upload_id: &str) -> Result<HeaderValue, Error> {
        let (base, path) = (&self.context.base_url, self.head.uri.path());
        let location = if let Some(segment) = dialect.session_segment() {
            let session = SessionPath {
                segment,
                upload_id,
                plain: plain_path(path).unwrap_or(path),
            };
            format!("{base}{session}")
        } else {
            // A session has an upload URI, even if it was started at the plain path.
            let prefix = plain_path(path).map_or("/upload", |_| "");
            let parameters = dialect.session_parameters();
            format!("{base}{prefix}{path}?{parameters}&upload_id={upload_id}")
        };
        HeaderValue::try_from(location).map_err(|_| no_such(path))
    }
}
