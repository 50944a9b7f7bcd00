//! `windlass man` and `windlass completions`: pages and scripts generated from the command line.

use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use super::Error;
use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::exit::Code;
use crate::output;

/// The last section of a command's help, and its heading in manual pages.
const SECTIONS: [(&str, &str); 2] = [
    ("Examples:\n", "EXAMPLES"),
    ("Exit codes:\n", "\"EXIT STATUS\""),
];

/// Writes all pages to a directory, or prints the first.
pub(super) fn man(args: &ManArgs) -> Result<Code, Error> {
    // `windlass help` has no page: it only prints the pages of other commands.
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        write(&command, &mut page).expect("memory takes everything");
        output::raw(&page);
        return Ok(Code::Success);
    };
    write_all(&command, directory).map_err(|source| Error::Write {
        path: directory.clone(),
        source,
    })?;
    Ok(Code::Success)
}

/// Writes the page of a command and the pages of its subcommands.
fn write_all(command: &Command, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let name = Man::new(command.clone()).get_filename();
    let mut page = Vec::new();
    write(command, &mut page)?;
    std::fs::write(directory.join(name), page)?;
    let mut commands = command.get_subcommands();
    commands.try_for_each(|command| write_all(command, directory))
}

/// Writes a page. Examples and exit codes are written here, because a section of `clap_mangen`
/// would not keep their lines.
fn write(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let rest = command.get_after_long_help().or(command.get_after_help());
    let rest = rest.map(ToString::to_string).unwrap_or_default();
    for paragraph in rest.split("\n\n") {
        let section = SECTIONS
            .iter()
            .find_map(|(head, name)| Some((name, paragraph.strip_prefix(head)?)));
        match section {
            Some((name, text)) => write!(page, ".SH {name}\n.nf\n{}\n.fi\n", as_it_is(text))?,
            None => write!(page, ".PP\n.nf\n{}\n.fi\n", as_it_is(paragraph))?,
        }
    }
    Ok(())
}

/// Escapes text for roff.
fn as_it_is(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| format!("\\&{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints the script of a shell.
pub(super) fn completions(args: &CompletionsArgs) {
    let mut script = Vec::new();
    let mut command = Args::command();
    clap_complete::generate(args.shell, &mut command, "windlass", &mut script);
    output::raw(&script);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_the_lines_of_examples_and_exit_codes() {
        let mut command = Args::command().disable_help_subcommand(true);
        command.build();
        let upload = command.find_subcommand("upload").expect("the command");
        let mut page = Vec::new();
        write(upload, &mut page).expect("memory takes everything");
        let page = String::from_utf8(page).expect("text");
        for text in [
            ".TH windlass-upload 1",
            ".SH OPTIONS",
            ".SH EXAMPLES\n.nf\n\\&  windlass upload cow.jpg http://",
            "/animals \\e\n\\&    \\-\\-metadata '{",
            ".SH \"EXIT STATUS\"",
            "\n\\&  0  done\n",
        ] {
            assert!(page.contains(text), "no {text} in {page}");
        }
    }
}
