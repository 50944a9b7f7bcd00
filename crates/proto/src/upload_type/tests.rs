use super::*;

fn read(query: &str) -> Result<Option<UploadType>, UnknownUploadType> {
    UploadType::from_parameters(&Parameters::parse(Some(query)).unwrap())
}

#[test]
fn upload_type_has_a_name_and_a_synonym() {
    let table = [
        ("uploadType=media", UploadType::Media),
        ("uploadType=multipart", UploadType::Multipart),
        (
            "alt=json&prettyPrint=false&uploadType=resumable",
            UploadType::Resumable,
        ),
        ("upload_protocol=raw", UploadType::Media),
        ("upload_protocol=multipart", UploadType::Multipart),
        ("upload_protocol=resumable", UploadType::Resumable),
        ("uploadType=&upload_protocol=raw", UploadType::Media),
        (
            "upload_protocol=nonsense&uploadType=media",
            UploadType::Media,
        ),
    ];
    for (query, expected) in table {
        assert_eq!(read(query), Ok(Some(expected)), "{query:?}");
    }
}

#[test]
fn upload_type_may_be_missing() {
    for query in ["", "alt=json", "uploadType=", "uploadtype=media"] {
        assert_eq!(read(query), Ok(None), "{query:?}");
    }
}

#[test]
fn unknown_upload_type_is_refused() {
    for (query, value) in [
        ("uploadType=chunked", "chunked"),
        ("uploadType=raw", "raw"),
        ("upload_protocol=media", "media"),
    ] {
        assert_eq!(
            read(query),
            Err(UnknownUploadType {
                value: value.to_owned()
            }),
            "{query:?}"
        );
    }
}

#[test]
fn written_upload_type_parses_to_itself() {
    for upload_type in [
        UploadType::Media,
        UploadType::Multipart,
        UploadType::Resumable,
    ] {
        let read = read(&format!("uploadType={upload_type}"));
        assert_eq!(read, Ok(Some(upload_type)));
    }
}
