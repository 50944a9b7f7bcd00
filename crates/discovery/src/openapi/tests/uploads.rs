use super::*;

const FARM: &str = r#"
name = "farm"
version = "v1"

[collections.animals.schema]
name = { type = "string", required = true }

[collections.animals.media]
accept = { "image/*" = "20MB", "video/mp4" = "200MB" }
"#;

fn content<'a>(document: &'a Value, id: &str) -> &'a Value {
    &operation(document, id)["requestBody"]["content"]
}

fn types(content: &Value) -> Vec<&str> {
    let content = content.as_object().unwrap();
    content.keys().map(String::as_str).collect()
}

#[test]
fn uploads_of_one_request_and_sessions_have_paths_of_their_own() {
    let farm = of_toml(FARM);
    for (id, expected) in [
        ("animals.insert", "post /farm/v1/animals"),
        ("animals.insert.upload", "post /upload/farm/v1/animals"),
        (
            "animals.insert.resumable",
            "post /resumable/upload/farm/v1/animals",
        ),
        (
            "animals.insert.resumable.append",
            "put /resumable/upload/farm/v1/animals",
        ),
        (
            "animals.insert.resumable.cancel",
            "delete /resumable/upload/farm/v1/animals",
        ),
        (
            "animals.get.media",
            "get /download/farm/v1/animals/{animalId}",
        ),
    ] {
        assert_eq!(place(&farm, &format!("farm.{id}")), expected);
    }
    let upload_type = |id| {
        let parameter = parameter(operation(&farm, id), "uploadType").unwrap();
        assert_eq!(parameter["required"], true);
        parameter["schema"].clone()
    };
    let one = json!({"type": "string", "enum": ["media", "multipart"]});
    assert_eq!(upload_type("farm.animals.insert.upload"), one);
    let session = json!({"type": "string", "const": "resumable"});
    assert_eq!(upload_type("farm.animals.insert.resumable"), session);
}

#[test]
fn upload_has_a_body_for_each_accepted_type_with_its_largest_size() {
    let farm = of_toml(FARM);
    let content = content(&farm, "farm.animals.insert.upload");
    let expected = [
        "image/*",
        "video/mp4",
        "multipart/form-data",
        "multipart/related",
    ];
    assert_eq!(types(content), expected);
    for (range, mib) in [("image/*", 20), ("video/mp4", 200)] {
        let schema = &content[range]["schema"];
        assert_eq!(
            (&schema["type"], &schema["format"]),
            (&"string".into(), &"binary".into())
        );
        assert_eq!(schema["maxLength"], mib << 20);
        assert_eq!(schema["description"], format!("At most {mib}MB."));
    }
}

#[test]
fn form_data_has_metadata_and_then_media() {
    let document = of_toml(FARM);
    for (id, schema) in [
        ("farm.animals.insert.upload", "Animal"),
        ("farm.animals.patch.upload", "AnimalPatch"),
    ] {
        let form = &content(&document, id)["multipart/form-data"];
        let properties = form["schema"]["properties"].as_object().unwrap();
        assert_eq!(properties.keys().collect::<Vec<_>>(), ["metadata", "media"]);
        let metadata = json!({"$ref": format!("#/components/schemas/{schema}")});
        assert_eq!(properties["metadata"], metadata);
        assert_eq!(form["schema"]["required"], json!(["metadata", "media"]));
        assert_eq!(form["schema"]["additionalProperties"], false);
        let encoding = json!({
            "metadata": {"contentType": "application/json"},
            "media": {"contentType": "image/*, video/mp4"},
        });
        assert_eq!(form["encoding"], encoding);
    }
}

#[test]
fn method_without_multipart_takes_media_alone() {
    let farm = of_toml(
        "name = \"farm\"\nversion = \"v1\"\n[collections.animals.media]\nmultipart = false",
    );
    let id = "farm.animals.insert.upload";
    assert_eq!(types(content(&farm, id)), ["*/*"]);
    let upload_type = parameter(operation(&farm, id), "uploadType").unwrap();
    assert_eq!(
        upload_type["schema"],
        json!({"type": "string", "const": "media"})
    );
}

#[test]
fn start_leads_to_its_session() {
    let farm = of_toml(FARM);
    let start = operation(&farm, "farm.animals.insert.resumable");
    assert_eq!(
        types(&start["requestBody"]["content"]),
        ["application/json"]
    );
    for name in ["X-Upload-Content-Type", "X-Upload-Content-Length"] {
        assert_eq!(parameter(start, name).unwrap()["in"], "header");
    }
    let started = &start["responses"]["200"];
    assert!(started["headers"]["Location"].is_object());
    assert!(started.get("content").is_none());
    let start = operation(&farm, "farm.animals.update.resumable");
    let link = &start["responses"]["200"]["links"]["append"];
    // PUT starts sessions on this path, so POST continues them.
    let append = link["operationId"].as_str().unwrap();
    let path = "/resumable/upload/farm/v1/animals/{animalId}";
    assert_eq!(place(&farm, append), format!("post {path}"));
    let parameters = json!({
        "animalId": "$request.path.animalId",
        "upload_id": "$response.header.X-GUploader-UploadID",
    });
    assert_eq!(link["parameters"], parameters);
    for name in parameters.as_object().unwrap().keys() {
        assert!(
            parameter(operation(&farm, append), name).is_some(),
            "{name}"
        );
    }
}

#[test]
fn session_ends_with_the_status_that_the_api_answers() {
    let append = |text: &str, id: &str| {
        let document = of_toml(text);
        let responses = operation(&document, id)["responses"].as_object().unwrap();
        let statuses: Vec<_> = responses.keys().cloned().collect();
        statuses
    };
    let insert = "farm.animals.insert.resumable.append";
    assert_eq!(append(FARM, insert), ["201", "308", "default"]);
    let patch = "farm.animals.patch.resumable.append";
    assert_eq!(append(FARM, patch), ["200", "308", "default"]);
    let answers_200 = FARM.replace("version", "created_status = 200\nversion");
    assert_eq!(append(&answers_200, insert), ["200", "308", "default"]);
}

#[test]
fn path_that_begins_sessions_with_put_and_post_has_no_operation_for_their_bytes() {
    let upload = |id: &str, http_method: &str| {
        json!({
            "id": id, "path": "captions", "httpMethod": http_method, "mediaUpload": {"accept": ["*/*"]},
            "response": {"$ref": id.to_uppercase()},
        })
    };
    let schemas =
        json!({"A": {"type": "object"}, "B": {"type": "object"}, "C": {"type": "object"}});
    let document = |methods: Value| {
        of_json(&json!({"name": "tube", "version": "v1", "methods": methods, "schemas": schemas}))
    };
    let both = document(json!({"a": upload("a", "POST"), "b": upload("b", "PUT")}));
    let expected = [
        "a",
        "b",
        "a.upload",
        "b.upload",
        "a.resumable",
        "b.resumable",
        "a.resumable.cancel",
    ];
    assert_eq!(ids(&both), expected);
    let start = operation(&both, "a.resumable");
    let description = start["description"].as_str().unwrap();
    assert!(
        description.contains("no operation for that"),
        "{description}"
    );
    assert!(start["responses"]["200"].get("links").is_none());
    // Either may have begun the session.
    let two = document(json!({"b": upload("b", "PUT"), "c": upload("c", "PATCH")}));
    let append = operation(&two, "b.resumable.append");
    let schema = &append["responses"]["200"]["content"]["application/json"]["schema"];
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    assert_eq!(*schema, json!({"anyOf": [to("B"), to("C")]}));
}

#[test]
fn media_is_a_binary_reply_with_ranges() {
    let document = of_json(&json!({
        "name": "tube", "version": "v1", "schemas": {"Video": {"type": "object"}},
        "methods": {
            "get": {
                "id": "tube.get", "path": "videos/{id}", "httpMethod": "GET", "supportsMediaDownload": true,
                "parameters": {"id": {"location": "path"}}, "response": {"$ref": "Video"},
            },
            "export": {
                "id": "tube.export", "path": "videos/{id}/export", "httpMethod": "GET",
                "supportsMediaDownload": true, "parameters": {"id": {"location": "path"}},
            },
        },
    }));
    // A method without another reply gives its media on its own path.
    assert_eq!(
        ids(&document),
        ["tube.export", "tube.get", "tube.get.media"]
    );
    for (id, path) in [
        ("tube.get.media", "get /download/videos/{id}"),
        ("tube.export", "get /videos/{id}/export"),
    ] {
        assert_eq!(place(&document, id), path);
        let operation = operation(&document, id);
        assert!(parameter(operation, "Range").is_some());
        for status in ["200", "206"] {
            let media = &operation["responses"][status]["content"]["*/*"]["schema"];
            assert_eq!(*media, json!({"type": "string", "format": "binary"}));
        }
    }
    let plain = operation(&document, "tube.get");
    assert_eq!(
        types(&plain["responses"]["200"]["content"]),
        ["application/json"]
    );
    assert!(
        plain["description"]
            .as_str()
            .unwrap()
            .contains("`tube.get.media`")
    );
}

#[test]
fn call_without_a_reply_is_answered_204() {
    let farm = of_toml(FARM);
    let responses = operation(&farm, "farm.animals.delete")["responses"]
        .as_object()
        .unwrap();
    assert_eq!(responses.keys().collect::<Vec<_>>(), ["204", "default"]);
}
