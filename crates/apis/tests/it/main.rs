//! The APIs that come with Windlass, served by the whole server in one process over memory.

mod conditions;
mod dfareporting;
mod documented_refusals;
mod drive;
mod firebase_storage;
mod games_configuration;
mod generative_language;
mod gmail;
mod owners;
mod photos_library;
mod refusals;
mod scopes;
mod storage;
mod world;
mod youtube;
