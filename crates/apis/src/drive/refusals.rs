//! Refusals as the service words them. docs/apis/drive.md has the table.

use windlass_rest::handler::{Refusal, RefusalKind, Rejection};

/// Refuses the value of a parameter.
pub(super) fn invalid_value(parameter: &'static str, problem: impl Into<String>) -> Rejection {
    let message = format!("Invalid Value: {}", problem.into());
    let refusal = Refusal::new(RefusalKind::Invalid, "invalid", message);
    refusal.at_parameter(parameter).into()
}

/// Refuses a feature that the service has and this server lacks.
pub(super) fn not_implemented(problem: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::NotImplemented, "notImplemented", problem)
}

/// Refuses a file that does not exist.
pub(super) fn file_not_found(id: &str) -> Rejection {
    let message = format!("File not found: {id}.");
    let refusal = Refusal::new(RefusalKind::NotFound, "notFound", message);
    refusal.at_parameter("fileId").into()
}

/// Refuses a change of a field that other parameters change.
pub(super) fn not_writable(field: &'static str, problem: &'static str) -> Rejection {
    let message =
        format!("The {field} field is not directly writable in update requests. {problem}");
    Refusal::new(RefusalKind::Forbidden, "fieldNotWritable", message).into()
}

/// Refuses a file in two folders.
pub(super) fn second_parent() -> Rejection {
    let message = "Increasing the number of parents is not allowed: a file is in one folder, and \
                   removeParents names the one that it leaves";
    Refusal::new(RefusalKind::Forbidden, "cannotAddParent", message).into()
}

/// Refuses a folder below too many others.
pub(super) fn too_deep(most: usize) -> Rejection {
    let message = format!("Your My Drive can't contain more than {most} levels of folders");
    let reason = "myDriveHierarchyDepthLimitExceeded";
    Refusal::new(RefusalKind::Forbidden, reason, message).into()
}

/// Refuses a folder inside of itself.
pub(super) fn cycle() -> Rejection {
    let message = "a folder cannot be inside of itself; choose another parent";
    Refusal::new(RefusalKind::Invalid, "badRequest", message).into()
}

/// Refuses the copy of a folder.
pub(super) fn folder_copied() -> Rejection {
    let message = "This file cannot be copied: it is a folder. Copy the files inside, one by one";
    Refusal::new(RefusalKind::Forbidden, "cannotCopyFile", message).into()
}

/// Refuses the folder of an app.
pub(super) fn no_app_folders() -> Refusal {
    not_implemented("this server has no appDataFolder; the only space is drive")
}

/// Refuses a download of a folder, or of a file with another type that has no media.
pub(super) fn not_downloadable() -> Rejection {
    let message = "Only files with binary content can be downloaded. Folders, shortcuts and files of \
                   Google's editors have none";
    let refusal = Refusal::new(RefusalKind::Forbidden, "fileNotDownloadable", message);
    refusal.at_parameter("alt").into()
}

/// Refuses an export of media.
pub(super) fn not_exportable() -> Rejection {
    let message =
        "Export only supports files of Google's editors. Download this file with alt=media";
    Refusal::new(RefusalKind::Forbidden, "fileNotExportable", message).into()
}

/// Refuses the acknowledgment of abusive media where none is asked for.
pub(super) fn abuse_without_download() -> Rejection {
    let message = "acknowledgeAbuse is for downloads alone; add alt=media, or leave it out";
    let refusal = Refusal::new(
        RefusalKind::Forbidden,
        "invalidAbuseAcknowledgment",
        message,
    );
    refusal.into()
}

/// Refuses a call without `fields`, because its reply has no default fields.
pub(super) fn fields_required() -> Rejection {
    let message = "The 'fields' parameter is required for this method.";
    let refusal = Refusal::new(RefusalKind::Invalid, "required", message);
    refusal.at_parameter("fields").into()
}
