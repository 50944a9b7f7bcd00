//! The resource that the path of a custom method names, as the method's service sees and changes
//! it.

use serde_json::{Map, Value};
use windlass_discovery::{Method, Schema};
use windlass_store::Resource;

use super::enforcement::{check_immutable, check_required};
use super::fields::{changed_bytes, etag, fields_of, is_server_field, patched};
use super::operation::{CallContext, named_resource};
use super::response_shape::ResponseShape;
use super::schema_validation::{Purpose, SchemaValidation};
use super::{Write, find_existing};
use crate::handler::{Answer, Call, Rejection};
use crate::pattern_checks::PatternChecks;

/// A resource, with the method that reads it.
pub(crate) struct Target {
    resource: Resource,
}

impl Target {
    /// Returns the entity tag of the resource, quotes included.
    pub(crate) fn etag(&self) -> String {
        etag(self.resource.version)
    }

    /// Returns the resource that the path of the call names; `None` if it names a collection.
    ///
    /// # Errors
    /// [`Rejection::NotFound`] if there is no such resource.
    pub(crate) async fn of(call: &Call<'_>) -> Result<Option<Self>, Rejection> {
        let Some(named) = named_resource(call) else {
            return Ok(None);
        };
        let resource = find_existing(call, &[named]).await?;
        Ok(Some(Self { resource }))
    }

    /// Returns a key of the resource that the path of the call names.
    pub(crate) fn key(call: &Call<'_>) -> Option<String> {
        let named = named_resource(call)?;
        Some(format!("{}/{}", named.collection, named.id))
    }

    /// Returns the resource as the API shows it to readers.
    pub(crate) fn shown(&self, call: &Call<'_>) -> Map<String, Value> {
        let reading = as_reading(call);
        let call = reading.as_ref().unwrap_or(call);
        ResponseShape::new(&CallContext::of(call), &self.resource).resource_fields()
    }

    /// Returns the answer to a call after its service has changed these fields. The fields are
    /// merged as by a PATCH. The service may also set fields that are read-only for clients.
    ///
    /// # Errors
    /// [`Rejection::BackendFailed`] if the fields do not suit the schema. The caller is not to
    /// blame.
    pub(crate) async fn changed(
        self,
        call: &Call<'_>,
        fields: &Map<String, Value>,
    ) -> Result<Answer, Rejection> {
        if fields.is_empty() {
            let shape = CallContext::of(call);
            let reply = ResponseShape::new(&shape, &self.resource).reply();
            let body = call.method.response.as_ref().map(|_| reply.body.into());
            return Ok(Answer {
                body,
                ..Answer::default()
            });
        }
        let failed = |error: Rejection| match error {
            Rejection::InvalidField { .. } | Rejection::MissingField { .. } => {
                Rejection::BackendFailed {
                    method: call.method.id.clone(),
                    problem: error.to_string(),
                }
            }
            error => error,
        };
        let old = self.resource;
        let reading = as_reading(call);
        let on_resource = reading.as_ref().unwrap_or(call);
        let checks = PatternChecks::default();
        let new = changed(on_resource, &old, fields, &checks).map_err(failed)?;
        checks.finish(call.lookup).await.map_err(failed)?;
        let write = Write::checked(call, Some(old), new).await.map_err(failed)?;
        let mut answer = write.answer(call).await?;
        // Without a response the reply is 204 and not an empty object.
        if call.method.response.is_none() {
            answer.body = None;
        }
        Ok(answer)
    }
}

/// The resource after the service has changed it. `call` is one of the method that reads it.
fn changed(
    call: &Call<'_>,
    old: &Resource,
    fields: &Map<String, Value>,
    checks: &PatternChecks,
) -> Result<Resource, Rejection> {
    let schema = call.method.response.as_deref();
    let schema: Option<&Schema> = schema.and_then(|name| call.api.schema(name));
    let mut fields = match schema {
        Some(schema) => SchemaValidation {
            document: call.api.document(),
            patterns: Some(checks),
            purpose: Purpose::Service,
            enforced: call.api.settings().strict,
            closed: true,
        }
        .fields(schema, fields)?,
        None => fields.clone(),
    };
    // A service may set what is read-only for clients, but not what the server computes.
    fields.retain(|name, _| !is_server_field(name));
    let after = patched(fields_of(old), fields);
    check_immutable(call, old, &after)?;
    check_required(call, old, &after)?;
    Ok(Resource {
        version: old.version + 1,
        body: changed_bytes(call, old, &after)?,
        updated: call.now,
        due: None,
        claimed_by: None,
        ..old.clone()
    })
}

/// Returns the call with the method `get` of its collection, which replies with the resource.
/// `None` if the collection has no such method.
fn as_reading<'a>(call: &Call<'a>) -> Option<Call<'a>> {
    let id = format!("{}.{}.get", call.api.name(), call.method.collection());
    let method: &'a Method = call.api.method(&id)?;
    Some(Call { method, ..*call })
}
