//! Tokens of a command.

use std::process::Stdio;

use tokio::process::Command;

use super::{TokenError, read_short};

/// The most that is shown of what a command complains.
const LONGEST_MESSAGE: usize = 200;

/// What the command writes to its standard output. Dropping the future ends the command.
pub(super) async fn run(command: &str) -> Result<String, TokenError> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(TokenError::Command)?;
    let stdout = child.stdout.take().expect("it is piped");
    let stderr = child.stderr.take().expect("it is piped");
    let (token, stderr_text) =
        tokio::try_join!(read_short(stdout), read_short(stderr)).map_err(TokenError::Command)?;
    let status = child.wait().await.map_err(TokenError::Command)?;
    if status.success() {
        return Ok(token);
    }
    let message = first_line(&stderr_text).unwrap_or_else(|| status.to_string());
    Err(TokenError::CommandFailed { message })
}

/// The first line that says something, fit to be printed.
fn first_line(stderr_text: &str) -> Option<String> {
    let line = stderr_text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    let shown = line.chars().filter(|char| !char.is_control());
    Some(shown.take(LONGEST_MESSAGE).collect())
}
