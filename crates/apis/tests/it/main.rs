//! The APIs that come with Windlass, served by the whole server in one process over memory.

mod games_configuration;
mod world;
