mod methods;
mod mistakes;

use serde_json::{Value, json};

use super::*;
use crate::api::Api;
use crate::byte_size::ByteSize;
use crate::settings::Digest;

const FARM: &str = r#"
name = "farm"
version = "v1"
title = "Farm API"

[collections.animals]
schema = { name = "string", species = "string" }
methods = ["insert", "update", "get", "list", "delete"]

[collections.animals.media]
accept = ["image/*", "video/*", "application/pdf", "application/zip"]
max_size = "5GB"
digests = ["md5"]
"#;

fn document(text: &str) -> Value {
    let (document, _) = compile(text).unwrap();
    serde_json::to_value(document).unwrap()
}

/// The head of an API with these lines after it.
fn with_head(lines: &str) -> String {
    format!("name = \"farm\"\nversion = \"v1\"\n{lines}")
}

#[track_caller]
fn check_refused(lines: &str, expected: &[&str]) {
    let error = compile(&with_head(lines)).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "{part:?} is not in:\n{error}");
    }
}

#[test]
fn the_example_of_the_documentation_compiles() {
    let farm = document(include_str!("example.toml"));
    assert_eq!(farm["documentationLink"], "https://farm.example");
    assert_eq!(farm["schemas"]["Animal"]["description"], "An animal.");
    assert!(
        farm["schemas"]["Animal"]["properties"]
            .get("sha256Hash")
            .is_some()
    );
}

#[test]
fn the_farm_has_the_head_of_a_discovery_document() {
    let farm = document(FARM);
    for (field, expected) in [
        ("kind", "discovery#restDescription"),
        ("discoveryVersion", "v1"),
        ("id", "farm:v1"),
        ("name", "farm"),
        ("version", "v1"),
        ("title", "Farm API"),
        ("protocol", "rest"),
        ("servicePath", "farm/v1/"),
        ("basePath", "/farm/v1/"),
        ("batchPath", "batch/farm/v1"),
    ] {
        assert_eq!(farm[field], expected, "{field}");
    }
    let parameters: Vec<_> = farm["parameters"].as_object().unwrap().keys().collect();
    assert_eq!(
        parameters,
        [
            "$.xgafv",
            "access_token",
            "alt",
            "callback",
            "fields",
            "key",
            "oauth_token",
            "prettyPrint",
            "quotaUser",
            "uploadType",
            "upload_protocol"
        ]
    );
    assert_eq!(farm["parameters"]["alt"]["enum"], json!(["json", "media"]));
}

#[test]
fn insert_takes_metadata_and_media() {
    assert_eq!(
        document(FARM)["resources"]["animals"]["methods"]["insert"],
        json!({
            "id": "farm.animals.insert",
            "path": "animals",
            "flatPath": "animals",
            "httpMethod": "POST",
            "description": "Creates a new animal.",
            "request": {"$ref": "Animal"},
            "response": {"$ref": "Animal"},
            "supportsMediaUpload": true,
            "mediaUpload": {
                "accept": ["image/*", "video/*", "application/pdf", "application/zip"],
                "maxSize": "5368709120",
                "protocols": {
                    "simple": {"multipart": true, "path": "/upload/farm/v1/animals"},
                    "resumable": {"multipart": true, "path": "/resumable/upload/farm/v1/animals"}
                }
            }
        })
    );
}

#[test]
fn update_names_its_animal_in_both_paths() {
    let update = document(FARM)["resources"]["animals"]["methods"]["update"].take();
    assert_eq!(update["httpMethod"], "PUT");
    assert_eq!(update["path"], "animals/{animalId}");
    assert_eq!(update["parameters"]["animalId"]["location"], "path");
    assert_eq!(update["parameters"]["animalId"]["required"], true);
    assert_eq!(update["parameterOrder"], json!(["animalId"]));
    let protocols = &update["mediaUpload"]["protocols"];
    assert_eq!(
        protocols["simple"]["path"],
        "/upload/farm/v1/animals/{animalId}"
    );
    assert_eq!(
        protocols["resumable"]["path"],
        "/resumable/upload/farm/v1/animals/{animalId}"
    );
}

#[test]
fn get_list_and_delete_take_no_media() {
    let methods = document(FARM)["resources"]["animals"]["methods"].take();
    assert_eq!(methods["get"]["supportsMediaDownload"], true);
    assert_eq!(methods["get"]["response"], json!({"$ref": "Animal"}));
    assert_eq!(methods["list"]["response"], json!({"$ref": "AnimalList"}));
    let limit = &methods["list"]["parameters"]["maxResults"];
    assert_eq!(
        (&limit["type"], &limit["format"], &limit["minimum"]),
        (&json!("integer"), &json!("uint32"), &json!("1"))
    );
    assert_eq!(
        methods["list"]["parameters"]["pageToken"]["location"],
        "query"
    );
    assert_eq!(methods["delete"]["httpMethod"], "DELETE");
    for verb in ["get", "list", "delete"] {
        assert_eq!(methods[verb].get("mediaUpload"), None, "{verb}");
        assert_eq!(methods[verb].get("request"), None, "{verb}");
    }
    assert_eq!(methods["delete"].get("response"), None);
    assert_eq!(methods.get("patch"), None, "it was not asked for");
}

#[test]
fn the_resource_has_declared_and_standard_fields() {
    let schemas = document(FARM)["schemas"].take();
    let properties = schemas["Animal"]["properties"].as_object().unwrap();
    let names: Vec<_> = properties.keys().collect();
    assert_eq!(
        names,
        [
            "crc32c",
            "createdTime",
            "etag",
            "id",
            "kind",
            "md5Hash",
            "mimeType",
            "name",
            "selfLink",
            "sha256Hash",
            "size",
            "species",
            "updatedTime"
        ]
    );
    assert_eq!(properties["kind"]["default"], "farm#animal");
    assert_eq!(
        (&properties["size"]["type"], &properties["size"]["format"]),
        (&json!("string"), &json!("uint64"))
    );
    assert_eq!(properties["createdTime"]["format"], "date-time");
    assert_eq!(properties["name"], json!({"type": "string"}));

    let list = &schemas["AnimalList"]["properties"];
    assert_eq!(list["kind"]["default"], "farm#animalList");
    assert_eq!(
        list["items"],
        json!({"type": "array", "items": {"$ref": "Animal"}})
    );
    assert_eq!(list["nextPageToken"]["type"], "string");
}

#[test]
fn a_collection_without_media_has_neither_uploads_nor_their_fields() {
    let farm = document(&with_head("[collections.barns]"));
    let methods = farm["resources"]["barns"]["methods"].as_object().unwrap();
    let names: Vec<_> = methods.keys().collect();
    assert_eq!(
        names,
        ["delete", "get", "insert", "list", "patch", "update"]
    );
    assert!(
        methods
            .values()
            .all(|method| method.get("mediaUpload").is_none())
    );
    assert_eq!(methods["get"].get("supportsMediaDownload"), None);
    assert_eq!(methods["patch"]["httpMethod"], "PATCH");
    let properties = farm["schemas"]["Barn"]["properties"].as_object().unwrap();
    for absent in ["mimeType", "size", "crc32c", "md5Hash", "sha256Hash"] {
        assert!(!properties.contains_key(absent), "{absent}");
    }
}

#[test]
fn fields_are_types_or_tables() {
    let farm = document(&with_head(
        r#"
        [collections.barns.schema]
        area = "number"
        tags = "string[]"
        anything = "any"
        built = { type = "string", format = "date" }
        [collections.barns.schema.sounds]
        type = "string[]"
        description = "What is heard."
        enum = ["moo", "oink"]
        "#,
    ));
    let properties = &farm["schemas"]["Barn"]["properties"];
    for (name, expected) in [
        ("area", json!({"type": "number"})),
        ("anything", json!({"type": "any"})),
        (
            "tags",
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        ("built", json!({"type": "string", "format": "date"})),
        (
            "sounds",
            json!({
                "type": "array",
                "description": "What is heard.",
                "items": {"type": "string", "enum": ["moo", "oink"]}
            }),
        ),
    ] {
        assert_eq!(properties[name], expected, "{name}");
    }
}

#[test]
fn resources_are_the_singular_unless_they_are_given() {
    for (collection, resource) in [
        ("animals", "Animal"),
        ("stories", "Story"),
        ("boxes", "Box"),
        ("classes", "Class"),
        ("branches", "Branch"),
        ("horses", "Horse"),
        ("glass", "Glass"),
        ("sheep", "Sheep"),
        ("s", "S"),
    ] {
        let farm = document(&with_head(&format!("[collections.{collection}]")));
        assert!(
            farm["schemas"].get(resource).is_some(),
            "{collection}: {}",
            farm["schemas"]
        );
    }
    let farm = document(&with_head("[collections.geese]\nresource = \"goose\""));
    let get = &farm["resources"]["geese"]["methods"]["get"];
    assert_eq!(get["path"], "geese/{gooseId}");
    assert_eq!(get["response"], json!({"$ref": "Goose"}));
}

#[test]
fn the_service_path_has_one_slash_at_its_end() {
    for (given, expected) in [
        ("api", "api/"),
        ("/api/v2/", "api/v2/"),
        ("", ""),
        ("/", ""),
    ] {
        let farm = document(&with_head(&format!(
            "service_path = \"{given}\"\n[collections.animals]"
        )));
        assert_eq!(farm["servicePath"], expected, "{given:?}");
        assert_eq!(farm["basePath"], format!("/{expected}"), "{given:?}");
    }
}

#[test]
fn settings_stay_out_of_the_document() {
    let keys = "created_status = 200\naccess = \"owner\"\ntitle =";
    let farm = Api::from_toml(&FARM.replace("title =", keys)).unwrap();
    assert_eq!(farm.settings().created_status, CreatedStatus::Ok);
    assert_eq!(farm.settings().access, Access::Owner);
    let insert = farm.method("farm.animals.insert").unwrap();
    assert_eq!(farm.settings().digests_of(insert), [Digest::Md5]);
    let text = serde_json::to_string(farm.document()).unwrap();
    assert!(!text.contains("created_status") && !text.contains("digests"));
    assert!(!text.contains("\"access\"") && !text.contains("\"owner\""));
    let farm = Api::from_toml(FARM).unwrap();
    assert_eq!(farm.settings().created_status, CreatedStatus::Created);
    assert_eq!(farm.settings().access, Access::Shared);
}

#[test]
fn a_document_of_the_short_form_reads_back_as_the_same_api() {
    let farm = Api::from_toml(FARM).unwrap();
    let text = serde_json::to_string(farm.document()).unwrap();
    let read = Api::from_json(&text).unwrap();
    assert_eq!(read.document(), farm.document());
    let kind = read.schema("Animal").and_then(crate::Schema::kind);
    assert_eq!(kind, Some("farm#animal"));
}

#[test]
fn errors_show_the_line_and_the_key() {
    check_refused(
        "tilte = \"x\"\n[collections.a]",
        &[
            "line 3, column 1",
            "`tilte`: unknown key; did you mean `title`?",
        ],
    );
    check_refused(
        "[collections.a]\nmethods = [\"upsert\"]",
        &["line 4", "upsert", "insert"],
    );
    check_refused(
        "[collections.a.media]\nmax_size = \"5XB\"",
        &["line 4", "max_size", "`XB` is not a unit"],
    );
    check_refused(
        "[collections.a.media]\nmax_size = -1",
        &["line 4", "max_size"],
    );
    check_refused(
        "[collections.a.media]\naccept = [\"pdf\"]",
        &["line 4", "accept", "`pdf` is not a media type"],
    );
    check_refused(
        "[collections.a.media]\ndigests = [\"md4\"]",
        &["line 4", "md4"],
    );
    check_refused(
        "[collections.a]\nschema = { x = \"text\" }",
        &["line 4", "`text` is not a type"],
    );
    check_refused(
        "[collections.a.schema.x]\ntype = \"any\"\nleast = 1",
        &["line 5", "least"],
    );
    check_refused(
        "[collections.a.schema]\nsize = \"integer\"",
        &["line 4", "`size` is a field that the server fills in"],
    );
    check_refused("[collections.\"a/b\"]", &["line 3", "`a/b` is not a name"]);
    check_refused(
        "created_status = 204\n[collections.a]",
        &["line 3", "200 or 201, not 204"],
    );
    check_refused(
        "access = \"mine\"\n[collections.a]",
        &["line 3", "unknown variant `mine`", "`owner` or `shared`"],
    );
    check_refused("", &["neither `collections` nor `methods`"]);
}

#[test]
fn media_needs_a_method_that_takes_it() {
    check_refused(
        "\n[collections.animals]\nmethods = [\"get\"]\n[collections.animals.media]\naccept = []",
        &["line 6", "collections.animals.media"],
    );
}

#[test]
fn two_collections_cannot_share_a_schema() {
    let names = ["collections.beasts", "collections.animals"];
    check_refused(
        "[collections.animals]\n[collections.beasts]\nresource = \"animal\"",
        &[names[0], names[1], "`Animal`"],
    );
    check_refused(
        "[collections.animals]\n[collections.beasts]\nresource = \"animalList\"",
        &[names[0], names[1], "`AnimalList`"],
    );
}

#[test]
fn what_only_the_document_shows_is_checked_there() {
    let bad_name = Api::from_toml("name = \"a/b\"\nversion = \"v1\"\n[collections.a]");
    assert_eq!(
        bad_name.unwrap_err().to_string(),
        "name: `a/b` is not a name of letters, digits, `.`, `_` and `-` that begins with a letter or digit"
    );
}

#[test]
fn schemas_of_the_short_form_are_enforced_and_those_of_documents_are_not() {
    let own = Api::from_toml(FARM).unwrap();
    assert!(own.settings().strict);
    let published = Api::from_document(own.document().clone()).unwrap();
    assert!(!published.settings().strict);
}

#[test]
fn bounds_of_fields_are_in_the_document() {
    let shown = document(&with_head(
        "[collections.a.schema]\n\
         legs = { type = \"integer\", min = 0, max = 8 }\n\
         names = { type = \"string[]\", max_length = 3, pattern = \"[a-z]+\" }\n\
         code = { type = \"string\", min_length = 2 }",
    ));
    let fields = &shown["schemas"]["A"]["properties"];
    assert_eq!(
        fields["legs"],
        json!({"type": "integer", "minimum": "0", "maximum": "8"})
    );
    let element = json!({"type": "string", "pattern": "[a-z]+"});
    assert_eq!(
        fields["names"],
        json!({"type": "array", "items": element, "maxItems": 3})
    );
    assert_eq!(fields["code"], json!({"type": "string", "minLength": 2}));
}

#[test]
fn bounds_and_defaults_must_suit_their_field() {
    let cases = [
        ("integer\", min = 2, max = 1", "`min` is greater than `max`"),
        ("integer\", min = \"x\"", "`x` is not a number"),
        ("string\", max = 1", "are for numbers"),
        ("integer\", min_length = 1", "for strings and arrays"),
        ("string{}\", min_length = 1", "for strings and arrays"),
        (
            "string\", min_length = 2, max_length = 1",
            "is greater than",
        ),
        ("integer\", pattern = \"a\"", "`pattern` is for strings"),
        (
            "string\", pattern = \"(\"",
            "the pattern `(` cannot be checked",
        ),
        (
            "integer\", default = \"x\"",
            "`x` is not a value of its type",
        ),
        ("boolean\", default = 1", "`1` is not a value of its type"),
        ("string[]\", default = \"x\"", "is not a value of its type"),
        (
            "integer\", max = 3, default = 4",
            "the default `4` must be at most 3",
        ),
        (
            "string\", enum = [\"a\"], default = \"b\"",
            "`b` is not in `enum`",
        ),
        (
            "string\", pattern = \"a\", default = \"b\"",
            "`b` does not match the pattern",
        ),
    ];
    for (declared, problem) in cases {
        let lines = format!("[collections.a.schema]\nx = {{ type = \"{declared} }}");
        check_refused(&lines, &["line 4", "`collections.a.schema.x`", problem]);
    }
}

#[test]
fn media_ranges_can_have_a_size_each() {
    let accept = "accept = { \"video/*\" = \"2KB\", \"image/png\" = 10 }";
    let api = Api::from_toml(&with_head(&format!("[collections.a.media]\n{accept}"))).unwrap();
    let insert = api.method("farm.a.insert").unwrap();
    let described = &document(&with_head(&format!("[collections.a.media]\n{accept}")));
    let media = &described["resources"]["a"]["methods"]["insert"]["mediaUpload"];
    assert_eq!(media["accept"], json!(["image/png", "video/*"]));
    assert_eq!(media["maxSize"], "2048");
    for (content_type, limit) in [("video/mp4", 2048), ("Image/PNG; a=b", 10), ("x", 2048)] {
        let found = api.settings().max_size(insert, content_type);
        assert_eq!(found.map(ByteSize::bytes), Some(limit), "{content_type}");
    }
    check_refused(
        &format!("[collections.a.media]\nmax_size = 1\n{accept}"),
        &[
            "line 3",
            "`collections.a.media`",
            "`max_size` has no meaning",
        ],
    );
    check_refused(
        "[collections.a.media]\naccept = { image = 1 }",
        &["line 4", "`image` is not a media type"],
    );
}

#[test]
fn collections_that_refuse_unknown_fields_say_so() {
    let farm = document(&with_head(
        "[collections.a]\nunknown_fields = \"refuse\"\n[collections.b]",
    ));
    let others = |name: &str| farm["schemas"][name].get("additionalProperties").is_some();
    assert!(!others("A") && others("B"));
    check_refused(
        "[collections.a]\nunknown_fields = \"drop\"",
        &["line 4", "unknown variant `drop`", "`keep` or `refuse`"],
    );
}

#[test]
fn a_collection_inside_of_resources_has_their_ids_in_its_paths() {
    let album = document(&with_head(
        "[collections.photos]\n[collections.comments]\nparent = \"photos\"\n\
         [collections.replies]\nparent = \"comments\"\nresource = \"reply\"\n[collections.replies.media]",
    ));
    let comments = &album["resources"]["photos"]["resources"]["comments"];
    let get = &comments["methods"]["get"];
    assert_eq!(get["id"], "farm.photos.comments.get");
    assert_eq!(get["path"], "photos/{photoId}/comments/{commentId}");
    assert_eq!(get["parameterOrder"], json!(["photoId", "commentId"]));
    let list = &comments["methods"]["list"];
    assert_eq!(list["path"], "photos/{photoId}/comments");
    assert_eq!(list["parameters"]["photoId"]["required"], true);
    let insert = &comments["resources"]["replies"]["methods"]["insert"];
    assert_eq!(
        insert["mediaUpload"]["protocols"]["simple"]["path"],
        "/upload/farm/v1/photos/{photoId}/comments/{commentId}/replies"
    );
    assert_eq!(insert["response"], json!({"$ref": "Reply"}));
}

#[test]
fn parents_and_references_are_collections() {
    for (lines, key, problem) in [
        (
            "[collections.a]\nparent = \"b\"",
            "a.parent",
            "there is no collection `b`",
        ),
        (
            "[collections.a]\nparent = \"a\"",
            "a.parent",
            "form a circle",
        ),
        (
            "[collections.a]\non_parent_delete = \"cascade\"",
            "a.on_parent_delete",
            "no meaning without `parent`",
        ),
        (
            "[collections.a]\nschema.x = { type = \"string\", references = \"b\" }",
            "a.schema.x",
            "there is no collection `b`",
        ),
        (
            "[collections.a]\nschema.x = { type = \"integer\", references = \"a\" }",
            "a.schema.x",
            "is for a string",
        ),
        (
            "[collections.b]\n[collections.a]\nparent = \"b\"\n\
             schema.x = { type = \"string\", references = \"a\" }",
            "a.schema.x",
            "`a` has a parent",
        ),
    ] {
        check_refused(lines, &[&format!("`collections.{key}`"), problem]);
    }
    check_refused(
        "[collections.a]\n[schemas.B]\nx = { type = \"string\", references = \"a\" }",
        &["`schemas.B.x`", "for the fields of a collection"],
    );
}

#[test]
fn lists_say_what_they_are_filtered_and_ordered_by() {
    let lines = "[collections.a]\nfilter_by = [\"x\", \"createdTime\"]\norder_by = [\"y desc\", \"x\"]\n\
                 schema = { x = \"string\", y = \"number\" }";
    let farm = document(&with_head(lines));
    let parameters = &farm["resources"]["a"]["methods"]["list"]["parameters"];
    assert_eq!(parameters["orderBy"]["enum"], json!(["y desc", "x"]));
    let filter = parameters["filter"]["description"].as_str().unwrap();
    assert!(filter.contains("Fields: x, createdTime."), "{filter}");
    for (keys, key, problem) in [
        (
            "filter_by = [\"z\"]",
            "filter_by",
            "`z` is not a field of the schema, nor one of createdTime",
        ),
        (
            "filter_by = [\"x desc\"]",
            "filter_by",
            "`x desc` is not a field",
        ),
        (
            "order_by = [\"x asc\"]",
            "order_by",
            "neither a field nor `FIELD desc`",
        ),
        ("order_by = [\"list\"]", "order_by", "which can be compared"),
        (
            "order_by = [\"x\", \"x desc\", \"size\"]",
            "order_by",
            "at most 2 entries",
        ),
        (
            "methods = [\"get\"]\nfilter_by = [\"x\"]",
            "filter_by",
            "no method `list`",
        ),
    ] {
        let lines =
            format!("[collections.a]\n{keys}\nschema = {{ x = \"string\", list = \"string[]\" }}");
        check_refused(&lines, &[&format!("`collections.a.{key}`"), problem]);
    }
}

#[test]
fn services_are_absolute_urls_and_stay_out_of_the_document() {
    let lines = "[collections.a]\nmedia = {}\non = { finished = \"http://127.0.0.1:9000/done\" }\n\
                 [methods.\"a.like\"]\nhttp = \"POST\"\npath = \"a/{aId}:like\"\n\
                 backend = \"https://b.example/like?x=1\"";
    let api = Api::from_toml(&with_head(lines)).unwrap();
    let services: Vec<_> = api.settings().services().collect();
    assert_eq!(
        services,
        ["https://b.example/like?x=1", "http://127.0.0.1:9000/done"]
    );
    assert_eq!(api.settings().backends["farm.a.like"], services[0]);
    let shown = document(&with_head(lines)).to_string();
    assert!(
        !shown.contains("9000") && !shown.contains("b.example"),
        "{shown}"
    );
    for url in [
        "like",
        "/like",
        "ftp://a/b",
        "http://u:p@a/",
        "http://a/#b",
        "http:///a",
    ] {
        let lines = format!("[collections.a]\nmedia = {{}}\non.finished = \"{url}\"");
        check_refused(&lines, &["line 5", "is not a URL such as"]);
    }
    check_refused(
        "[collections.a]\non.finished = \"http://a/\"",
        &["`collections.a.on`", "without `media`"],
    );
    let with_media = lines.replace("\nbackend", "\nmedia = {}\nbackend");
    check_refused(
        &with_media,
        &["`methods.\"a.like\".backend`", "see `on` of a collection"],
    );
    let download = lines.replace("\nbackend", "\ndownload = true\nbackend");
    check_refused(&download, &["a method that gives media has no backend"]);
}
