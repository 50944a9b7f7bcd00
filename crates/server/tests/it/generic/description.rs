//! An API with paths and schemas of all shapes, as a discovery document.

use serde_json::{Value, json};

/// An API with paths and schemas of all shapes.
#[expect(clippy::too_many_lines, reason = "an API description")]
pub(super) fn description() -> Value {
    let method = |id: &str, verb: &str, path: &str, request: &str, response: &str| {
        let mut parameters = json!({});
        for variable in path.split('{').skip(1) {
            let name = variable
                .split('}')
                .next()
                .unwrap_or_default()
                .trim_start_matches('+');
            parameters[name] = json!({"location": "path", "type": "string", "required": true});
        }
        let mut method = json!({"id": format!("barn.{id}"), "httpMethod": verb, "path": path, "parameters": parameters});
        for (field, schema) in [("request", request), ("response", response)] {
            if !schema.is_empty() {
                method[field] = json!({"$ref": schema});
            }
        }
        method
    };
    let upload = |mut method: Value| {
        let path = format!(
            "/upload/{}",
            method["path"].as_str().expect("every method has one")
        );
        method["mediaUpload"] = json!({"protocols": {"simple": {"path": path, "multipart": true}}});
        method
    };
    let with = |mut method: Value, parameter: &str| {
        method["parameters"][parameter] = json!({"location": "query", "type": "string"});
        method
    };
    let download = |mut method: Value| {
        method["supportsMediaDownload"] = json!(true);
        method
    };
    let shaped = |mut method: Value, pattern: &str| {
        method["parameters"]["name"]["pattern"] = json!(pattern);
        method
    };
    let file = "^barns/[^/]+/hayFiles/[^/]+$";
    json!({
        "name": "barn", "version": "v1", "servicePath": "",
        "schemas": schemas(),
        "resources": {
            "barns": {"resources": {
                "hayFiles": {"methods": {
                    "create": with(method("barns.hayFiles.create", "POST", "v1/{+parent}/hayFiles", "HayFile", "HayFile"), "hayFileId"),
                    "upload": with(upload(method("barns.hayFiles.upload", "POST", "v1/{+parent}/hayFiles:upload", "UploadHayFileRequest", "UploadHayFileResponse")), "hayFileId"),
                    "get": shaped(method("barns.hayFiles.get", "GET", "v1/{+name}", "", "HayFile"), file),
                    "patch": with(shaped(method("barns.hayFiles.patch", "PATCH", "v1/{+name}", "HayFile", "HayFile"), file), "updateMask"),
                    "delete": shaped(method("barns.hayFiles.delete", "DELETE", "v1/{+name}", "", "Operation"), file),
                    "list": method("barns.hayFiles.list", "GET", "v1/{+parent}/hayFiles", "", "ListHayFilesResponse"),
                    "download": download(shaped(method("barns.hayFiles.download", "GET", "v1/{+name}:download", "", "Empty"), file)),
                    "bless": method("barns.hayFiles.bless", "POST", "v1/{+parent}/hayFiles:bless", "", "Empty"),
                }},
                "straw": {"methods": {
                    "create": method("barns.straw.create", "POST", "v1/{+parent}/straw", "HayFile", "Operation"),
                    "upload": upload(method("barns.straw.upload", "POST", "v1/{+parent}/straw:import", "UploadStrawRequest", "Operation")),
                }},
                "operations": {"methods": {
                    "get": shaped(method("barns.operations.get", "GET", "v1/{+name}", "", "Operation"), "^barns/[^/]+/operations/[^/]+$"),
                }},
            }},
            "media": {"methods": {
                "upload": upload(method("media.upload", "POST", "v1/media/{+resourceName}", "Media", "Media")),
                "download": download(method("media.download", "GET", "v1/media/{+resourceName}", "", "Media")),
            }},
            "tags": {"methods": {
                "insert": upload(method("tags.insert", "POST", "tags", "Tag", "Tag")),
                "update": method("tags.update", "PUT", "tags", "Tag", "Tag"),
                "delete": with(method("tags.delete", "DELETE", "tags", "", ""), "id"),
                "list": with(method("tags.list", "GET", "tags", "", "TagList"), "id"),
                "count": method("tags.count", "POST", "counts", "Tag", "Tag"),
                "send": upload(method("tags.send", "POST", "tags/send", "Tag", "Tag")),
                "blank": upload(method("tags.blank", "POST", "blank", "", "")),
            }},
        },
    })
}

fn schemas() -> Value {
    let text = || json!({"type": "string"});
    json!({
        "Empty": {"id": "Empty", "type": "object"},
        "HayFile": {"id": "HayFile", "type": "object", "properties": {
            "name": text(),
            "title": text(),
            "weight": {"type": "integer", "format": "int32"},
            "state": {"type": "string", "enum": ["DRY", "WET"], "annotations": {"required": ["barn.barns.hayFiles.create"]}},
            "harvest": {"$ref": "Harvest"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "createTime": {"type": "string", "format": "google-datetime", "readOnly": true},
            "sizeBytes": {"type": "string", "format": "int64"},
            "mimeType": text(),
            "digests": {"$ref": "Digests"},
        }},
        "Digests": {"id": "Digests", "type": "object", "properties": {"sha256": text(), "md5Checksum": text()}},
        "Harvest": {"id": "Harvest", "type": "object", "properties": {
            "kind": {"type": "string", "default": "barn#harvest"},
            "at": {"type": "string", "format": "date-time"},
            "loads": {"type": "array", "items": {"type": "integer", "format": "uint32"}},
            "total": {"type": "string", "format": "uint64"},
            "code": {"type": "string", "pattern": "[a-z]+-[0-9]+"},
            "seal": {"type": "string", "format": "byte"},
            "by": {"type": "string", "readOnly": true},
        }},
        "UploadHayFileRequest": {"id": "UploadHayFileRequest", "type": "object", "properties": {"hayFile": {"$ref": "HayFile"}, "hayFileId": text()}},
        "UploadHayFileResponse": {"id": "UploadHayFileResponse", "type": "object", "properties": {"hayFile": {"$ref": "HayFile"}}},
        "ListHayFilesResponse": {"id": "ListHayFilesResponse", "type": "object", "properties": {
            "hayFiles": {"type": "array", "items": {"$ref": "HayFile"}},
            "advice": {"type": "array", "items": {"$ref": "Empty"}},
            "nextPageToken": text(),
        }},
        "Operation": {"id": "Operation", "type": "object", "properties": {
            "name": text(), "done": {"type": "boolean"}, "error": {"$ref": "Empty"},
            "response": {"type": "object", "additionalProperties": {"type": "any"}},
        }},
        "UploadStrawRequest": {"id": "UploadStrawRequest", "type": "object", "properties": {"title": text()}},
        "UploadStrawResponse": {"id": "UploadStrawResponse", "type": "object", "properties": {
            "straw": {"type": "array", "items": {"$ref": "HayFile"}},
        }},
        "Media": {"id": "Media", "type": "object", "properties": {"resourceName": text(), "size": {"type": "integer"}}},
        "Tag": {"id": "Tag", "type": "object", "properties": {
            "kind": {"type": "string", "default": "barn#tag"},
            "id": {"type": "string", "format": "int64"},
            "text": text(),
        }},
        "TagList": {"id": "TagList", "type": "object", "properties": {
            "kind": {"type": "string", "default": "barn#tagList"},
            "items": {"type": "array", "items": {"$ref": "Tag"}},
        }},
    })
}
