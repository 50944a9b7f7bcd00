//! Replies of the proxy's own.

/// A 503 like the reply of a load balancer: HTML, whatever the client accepts.
pub(super) fn unavailable(retry_after: Option<u64>) -> Vec<u8> {
    let retry_after = retry_after.map(|seconds| format!("Retry-After: {seconds}\r\n"));
    reply(
        503,
        &retry_after.unwrap_or_default(),
        "<html><head><title>Error 503</title></head><body><h1>Service Unavailable</h1></body></html>\n",
    )
}

/// Any status with any body.
pub(super) fn replacement(status: u16, body: &str) -> Vec<u8> {
    reply(status, "", body)
}

/// The connection is closed after it, because the rest of the request would precede the next
/// request.
fn reply(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let content_type = if body.starts_with('{') {
        "application/json"
    } else {
        "text/html"
    };
    let (reason, length) = (reason(status), body.len());
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}; charset=UTF-8\r\n{headers}\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        308 => "Resume Incomplete",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Precondition Failed",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Another",
    }
}
