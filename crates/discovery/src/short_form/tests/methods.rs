//! Schemas and methods that are described one by one.

use super::*;
use crate::byte_size::ByteSize;
use crate::method::Method;
use crate::schema::Schema;

const MAIL: &str = include_str!("../methods.toml");

fn send(document: &Value) -> &Value {
    &document["resources"]["users"]["resources"]["messages"]["methods"]["send"]
}

/// The head of an API and a method, with these lines after them.
fn with_method(lines: &str) -> String {
    format!("[methods.ping]\nhttp = \"GET\"\npath = \"ping\"\n{lines}")
}

#[test]
fn method_form_has_all_fields_of_a_document() {
    let mail = document(MAIL);
    let mut send = send(&mail).clone();
    let parameters = send["parameters"].take();
    let path = "mail/v1/users/{userId}/messages/send";
    assert_eq!(
        send,
        json!({
            "id": "mail.users.messages.send",
            "path": path,
            "flatPath": path,
            "httpMethod": "POST",
            "description": "Sends a message.",
            "parameters": null,
            "parameterOrder": ["userId", "format"],
            "request": {"$ref": "Message"},
            "response": {"$ref": "Message"},
            "scopes": ["https://mail.example/send"],
            "supportsMediaUpload": true,
            "mediaUpload": {
                "accept": ["message/*"],
                "maxSize": "36700160",
                "protocols": {
                    "simple": {"multipart": true, "path": format!("/upload/{path}")},
                    "resumable": {"multipart": true, "path": format!("/resumable/upload/{path}")}
                }
            }
        })
    );
    assert_eq!(
        parameters,
        json!({
            "userId": {"type": "string", "location": "path", "required": true, "default": "me"},
            "notify": {"type": "boolean", "location": "query"},
            "labelIds": {"type": "string", "location": "query", "repeated": true},
            "format": {
                "type": "string", "location": "query", "required": true, "enum": ["full", "minimal"]
            },
            "limit": {
                "type": "integer", "format": "uint32", "location": "query",
                "minimum": "1", "maximum": "500", "default": "100"
            }
        })
    );
    assert_eq!(
        mail["auth"],
        json!({"oauth2": {"scopes": {
            "https://mail.example/send": {"description": "https://mail.example/send"}
        }}})
    );
}

#[test]
fn variables_of_the_path_are_required_strings_by_themselves() {
    let mail = document(MAIL);
    let get = &mail["resources"]["users"]["resources"]["messages"]["methods"]["get"];
    let variable = json!({"type": "string", "location": "path", "required": true});
    assert_eq!(
        get["parameters"],
        json!({"userId": variable, "id": variable})
    );
    assert_eq!(get["parameterOrder"], json!(["userId", "id"]));
    assert_eq!(get["supportsMediaDownload"], true);
    assert_eq!(get["useMediaDownloadService"], true);
    assert_eq!(get.get("mediaUpload"), None);
    assert_eq!(get.get("scopes"), None);
}

#[test]
fn a_required_variable_of_the_path_is_ordered_once() {
    let required = "{ type = \"string\", required = true }";
    let lines = format!(
        "[methods.ping]\nhttp = \"GET\"\npath = \"ping/{{x}}\"\n\
         parameters.x = {required}\nparameters.a = {required}"
    );
    let ping = document(&with_head(&lines))["methods"]["ping"].take();
    assert_eq!(ping["parameterOrder"], json!(["x", "a"]));
}

#[test]
fn a_schema_has_the_fields_that_are_declared_and_no_others() {
    let mail = document(MAIL);
    assert_eq!(
        mail["schemas"]["Message"],
        json!({
            "id": "Message",
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "labelIds": {"type": "array", "items": {"type": "string"}},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "parts": {"type": "array", "items": {"$ref": "Part"}},
                "kind": {"type": "string", "default": "mail#message"},
                "size": {
                    "type": "string", "format": "uint64", "readOnly": true, "description": "In bytes."
                },
                "raw": {
                    "type": "string", "format": "byte",
                    "annotations": {"required": ["mail.users.messages.send"]}
                },
                "priority": {
                    "type": "string", "enum": ["low", "high"], "pattern": "^[a-z]+$", "required": true
                }
            }
        })
    );
}

#[test]
fn what_is_said_of_a_container_and_of_its_values_goes_where_it_belongs() {
    let pond = document(&with_head(&with_method(
        "[schemas.Pond]\nfrogs = { type = \"Frog{}[]\", description = \"All.\", required = true }\n\
         sizes = { type = \"string{}\", format = \"int64\", enum = [\"1\"] }\n[schemas.Frog]",
    )));
    let properties = &pond["schemas"]["Pond"]["properties"];
    let map = json!({"type": "object", "additionalProperties": {"$ref": "Frog"}});
    let frogs = json!({"type": "array", "items": map, "description": "All.", "required": true});
    assert_eq!(properties["frogs"], frogs);
    let size = json!({"type": "string", "format": "int64", "enum": ["1"]});
    let sizes = json!({"type": "object", "additionalProperties": size});
    assert_eq!(properties["sizes"], sizes);
}

#[test]
fn the_described_api_is_usable_without_a_finding() {
    let api = Api::from_toml(MAIL).unwrap();
    let send = api.method("mail.users.messages.send").unwrap();
    assert_eq!(send.collection(), "users.messages");
    assert_eq!(
        send.template.as_str(),
        "mail/v1/users/{userId}/messages/send"
    );
    let upload = send.upload.as_ref().unwrap();
    assert_eq!(upload.max_size, Some(ByteSize::from_bytes(35 << 20)));
    let raw = api.schema("Message").and_then(|it| it.property("raw"));
    assert!(raw.is_some_and(|it| it.is_required_for(&send.id)));
    assert_eq!(crate::lint::lint(api.document()), []);
    let read = Api::from_json(&serde_json::to_string(api.document()).unwrap()).unwrap();
    assert_eq!(read.document(), api.document());
}

#[test]
fn methods_stand_beside_collections_and_share_their_schemas() {
    let api = Api::from_toml(&with_head(
        "scopes = [\"all\"]\n[collections.animals]\nmethods = [\"get\"]\n\
         [collections.animals.schema]\nbarn = \"Barn\"\n[schemas.Barn]\nhome = \"Animal[]\"\n\
         [methods.\"animals.feed\"]\nhttp = \"POST\"\npath = \"animals/{+id}:feed\"\n\
         response = \"Animal\"\nscopes = [\"feed\"]\n\
         [methods.ping]\nhttp = \"GET\"\npath = \"/ping\"",
    ))
    .unwrap();
    let ids: Vec<_> = api.methods().iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["farm.ping", "farm.animals.feed", "farm.animals.get"]);
    let templates = |it: &Method| it.template.as_str().to_owned();
    assert_eq!(templates(&api.methods()[0]), "farm/v1/ping");
    assert_eq!(templates(&api.methods()[1]), "farm/v1/animals/{+id}:feed");
    let scopes: Vec<_> = api.methods().iter().map(|it| it.scopes.clone()).collect();
    assert_eq!(scopes, [["all"], ["feed"], ["all"]]);
    let home = api.schema("Barn").and_then(|it| it.property("home"));
    let animals = Schema::array_of(Schema::reference_to("Animal"));
    assert_eq!(home, Some(&animals));
    let auth = api.document().auth.as_ref().unwrap();
    assert_eq!(auth["oauth2"]["scopes"].as_object().unwrap().len(), 2);
}

#[test]
fn digests_are_those_of_the_method_and_else_of_its_collection() {
    let api = Api::from_toml(&with_head(
        "checksum_part = true\n[collections.animals.media]\ndigests = [\"md5\"]\n\
         [methods.\"animals.feed\"]\nhttp = \"POST\"\npath = \"feed\"\n\
         media = { digests = [\"sha256\"] }\n\
         [methods.\"animals.wash\"]\nhttp = \"POST\"\npath = \"wash\"\nmedia = {}",
    ))
    .unwrap();
    let digests = |id: &str| api.settings().digests_of(api.method(id).unwrap()).to_vec();
    assert_eq!(digests("farm.animals.insert"), [Digest::Md5]);
    assert_eq!(digests("farm.animals.feed"), [Digest::Sha256]);
    assert_eq!(digests("farm.animals.wash"), []);
    assert!(api.settings().checksum_part);
    assert!(!Api::from_toml(FARM).unwrap().settings().checksum_part);
}

#[test]
fn a_document_may_leave_the_resumable_path_out() {
    let mail = MAIL.replace(
        "multipart = true, resumable = true",
        "resumable = false, multipart = false",
    );
    let mail = document(&mail);
    let simple =
        json!({"multipart": false, "path": "/upload/mail/v1/users/{userId}/messages/send"});
    assert_eq!(
        send(&mail)["mediaUpload"]["protocols"],
        json!({"simple": simple})
    );
    let farm = document(&with_head("[collections.animals.media]\nresumable = false"));
    let upload = &farm["resources"]["animals"]["methods"]["insert"]["mediaUpload"];
    assert_eq!(upload["protocols"].get("resumable"), None);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of errors")]
fn errors_of_schemas_and_methods_show_the_line_and_the_key() {
    let refused = |lines: &str, expected: &[&str]| check_refused(&with_method(lines), expected);
    refused(
        "[schemas.Frog]\nx = \"Leg\"",
        &["line 7", "`schemas.Frog.x`: there is no schema `Leg`"],
    );
    refused(
        "[schemas.Frog]\nx = \"text\"",
        &["line 7", "`text` is not a type"],
    );
    refused(
        "[schemas.Frog]\nx = \"string[][][][]\"",
        &["line 7", "`string[][][][]` is not a type"],
    );
    refused(
        "[schemas.Frog]\nx = { type = \"any\", least = 1 }",
        &["line 7", "x.least`: unknown key"],
    );
    refused(
        "[schemas.Frog]\n\"x y\" = \"any\"",
        &["line 7", "`x y` is not a name"],
    );
    refused(
        "[schemas.frog]",
        &["line 6", "`frog` is not the name of a schema"],
    );
    refused(
        "response = \"Frog\"",
        &[
            "line 6",
            "`methods.ping.response`: there is no schema `Frog`",
        ],
    );
    refused(
        "request = \"frog\"",
        &["line 6", "`frog` is not the name of a schema"],
    );
    refused(
        "media = {}",
        &[
            "line 6",
            "`methods.ping.media`: it needs http = POST, PUT or PATCH, not GET",
        ],
    );
    refused(
        "parameters.x = \"object\"",
        &["line 6", "`object` is not a type of a parameter"],
    );
    refused(
        "parameters.x = 5",
        &["line 6", "a type such as \"string\", or a table"],
    );
    refused(
        "parameters.x = {}",
        &["line 6", "the key `type` is missing"],
    );
    refused(
        "parameters.\"a b\" = \"string\"",
        &["line 6", "`a b` is not a name"],
    );
    refused(
        "htpp = \"GET\"",
        &[
            "line 6",
            "`methods.ping.htpp`: unknown key; did you mean `http`?",
        ],
    );
    let described = |head: &str, rest: &str| format!("[methods.{head}]\n{rest}");
    check_refused(
        &described("ping", "path = \"a\""),
        &["line 3", "the key `http` is missing"],
    );
    check_refused(
        &described("ping", "http = \"HEAD\""),
        &["line 4", "`HEAD`", "`PATCH`"],
    );
    check_refused(
        &described("ping", "path = \"a/{b\""),
        &["line 4", "`a/{b` is not a path: the segment `{b`"],
    );
    for name in [
        "\"a..b\"",
        "\"a/b\"",
        "\"\"",
        &format!("\"{}a\"", "a.".repeat(16)),
    ] {
        check_refused(
            &described(name, ""),
            &["line 3", "is not the name of a method"],
        );
    }
}

#[test]
fn what_a_collection_makes_cannot_be_described_again() {
    let animals = "[collections.animals]\n[collections.animals.schema]\nx = \"Leg\"\n";
    check_refused(
        animals,
        &[
            "line 5",
            "`collections.animals.schema.x`: there is no schema `Leg`",
        ],
    );
    let animals = "[collections.animals]\n";
    for schema in ["Animal", "AnimalList"] {
        let lines = format!("{animals}[schemas.{schema}]");
        let expected = format!("`schemas.{schema}`: `collections.animals` makes it already");
        check_refused(&lines, &["line 4", &expected]);
    }
    check_refused(
        &format!("{animals}[methods.\"animals.get\"]\nhttp = \"GET\"\npath = \"a\""),
        &[
            "line 4",
            "`methods.\"animals.get\"`: it is a method of `collections.animals` already",
        ],
    );
}

#[test]
fn bounds_and_defaults_are_numbers_or_texts() {
    let lines = with_method(
        "parameters.a = { type = \"number\", minimum = -0.5, maximum = \"1\" }\n\
         parameters.b = { type = \"boolean\", default = true }",
    );
    let parameters = document(&with_head(&lines))["methods"]["ping"]["parameters"].take();
    assert_eq!(parameters["a"]["minimum"], "-0.5");
    assert_eq!(parameters["a"]["maximum"], "1");
    assert_eq!(parameters["b"]["default"], "true");
    check_refused(
        &with_method("parameters.a = { type = \"string\", default = [] }"),
        &["line 6", "a string, a number or a boolean"],
    );
}
