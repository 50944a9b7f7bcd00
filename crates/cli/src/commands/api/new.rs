//! `windlass api new`.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::Error;
use crate::args::ApiNewArgs;
use crate::exit::Code;
use crate::output;

/// The template of a description. NAME stands for the name of the API.
const TEMPLATE: &str = include_str!("new.toml");

/// Writes a description to begin with.
pub(super) fn run(args: &ApiNewArgs) -> Result<Code, Error> {
    let name = &args.name;
    if !is_name(name) {
        return Err(Error::NotAName { name: name.clone() });
    }
    let text = TEMPLATE.replace("NAME", name);
    let path = match &args.output {
        Some(path) if path.as_os_str() == "-" => {
            output::data(text.trim_end());
            return Ok(Code::Success);
        }
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{name}.toml")),
    };
    match write_new(&path, &text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::Exists { path });
        }
        Err(source) => return Err(Error::Unwritable { path, source }),
    }
    let path = path.display();
    output::note(format!(
        "{path} is written; `windlass api show {path}` shows what it says, `windlass serve --api {path}` serves it"
    ));
    Ok(Code::Success)
}

/// Writes a file that was not there.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Names become parts of paths and of method ids. Generators of clients turn method ids into
/// identifiers.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
