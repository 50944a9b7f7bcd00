//! The commands of the client, as they are typed, against the real server.

mod carry_on;
mod completions;
mod description;
mod download;
mod hostile;
mod interrupt;
mod journal;
mod line;
mod print;
mod protocols;
mod refusals;
pub(crate) mod run;
mod several;
mod stopped_run;
mod terminal;
mod upload;
