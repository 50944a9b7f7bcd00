//! Refusals as the service words them. docs/apis/youtube.md has the table.

use windlass_rest::handler::{Refusal, RefusalKind, Rejection};

/// Refuses a field of a video.
pub(super) fn video_field(
    reason: &'static str,
    path: &'static str,
    problem: impl Into<String>,
) -> Rejection {
    let refusal = Refusal::new(RefusalKind::Invalid, reason, problem);
    refusal.in_domain("youtube.video").at_field(path).into()
}

/// Refuses an unknown part.
pub(super) fn unknown_part(part: &str) -> Rejection {
    let message = format!("{part} is not a part of the resource");
    let refusal = Refusal::new(RefusalKind::Invalid, "unknownPart", message);
    refusal
        .in_domain("youtube.part")
        .at_parameter("part")
        .into()
}

/// Refuses a part that the service has, and this server has not.
pub(super) fn part_not_served(part: &str) -> Rejection {
    let message = format!("the part {part} is not supported: this server keeps no such data");
    let refusal = Refusal::new(RefusalKind::NotImplemented, "notImplemented", message);
    refusal.at_parameter("part").into()
}

/// Refuses a `part` that names none.
pub(super) fn no_part() -> Rejection {
    let message = "part is empty; name the parts of the resource, with commas between them";
    let refusal = Refusal::new(RefusalKind::Invalid, "required", message);
    refusal.at_parameter("part").into()
}

/// Refuses a page token.
pub(super) fn page_token() -> Rejection {
    let message = "The request specifies an invalid page token: it is none of this list";
    let refusal = Refusal::new(RefusalKind::Invalid, "invalidPageToken", message);
    let refusal = refusal.in_domain("youtube.parameter");
    refusal.at_parameter("pageToken").into()
}

/// Refuses a list that is asked for nothing.
pub(super) fn no_filter(filters: &str) -> Rejection {
    let message = format!("No filter selected. Expected one of: {filters}");
    let refusal = Refusal::new(RefusalKind::Invalid, "missingRequiredParameter", message);
    let refusal = refusal.in_domain("youtube.parameter");
    refusal.at_field("parameters.").into()
}

/// Refuses parameters that do not go together.
pub(super) fn incompatible(parameter: &'static str, problem: &'static str) -> Rejection {
    let refusal = Refusal::new(RefusalKind::Invalid, "incompatibleParameters", problem);
    let refusal = refusal.in_domain("youtube.parameter");
    refusal.at_parameter(parameter).into()
}

/// Refuses a video that does not exist.
pub(super) fn video_not_found(id: &str, location: Place) -> Rejection {
    let message = format!("The video that the request names was not found: {id}");
    let refusal = Refusal::new(RefusalKind::NotFound, "videoNotFound", message);
    let refusal = refusal.in_domain("youtube.video");
    match location {
        Place::Parameter(name) => refusal.at_parameter(name).into(),
        Place::Field(path) => refusal.at_field(path).into(),
    }
}

/// Where a call names a video.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Parameter(&'static str),
    Field(&'static str),
}

/// Refuses a call without the media that the method needs.
pub(super) fn media_body_required() -> Rejection {
    let message = "The request does not include the media content: send it to the path of the \
                   method under /upload";
    Refusal::new(RefusalKind::Invalid, "mediaBodyRequired", message).into()
}

/// Refuses a caption track, for a reason of the service.
pub(super) fn caption(
    kind: RefusalKind,
    reason: &'static str,
    problem: impl Into<String>,
) -> Refusal {
    Refusal::new(kind, reason, problem).in_domain("youtube.caption")
}

/// Refuses a caption track that does not exist.
pub(super) fn caption_not_found(id: &str) -> Rejection {
    let message = format!("The caption track could not be found: {id}");
    let refusal = caption(RefusalKind::NotFound, "captionNotFound", message);
    refusal.at_parameter("id").into()
}

/// The refusal of an image, with the service's reason if the refusal is about its bytes.
pub(super) fn of_image(reason: &'static str, refusal: Rejection) -> Rejection {
    match refusal {
        Rejection::InvalidMedia { problem } => {
            let message = format!("The provided image content is invalid: {problem}");
            Refusal::new(RefusalKind::Invalid, reason, message).into()
        }
        other => other,
    }
}
