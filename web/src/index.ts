// `@windlass/upload`: Google's resumable upload protocol for web pages.

export type { AccessOptions } from "./access.js";
export type { RetryPolicy } from "./backoff.js";
export { UploadError } from "./errors.js";
export type { ErrorCode } from "./errors.js";
export { TooManyFiles, fromDirectory, fromHandle, fromInput, fromTransfer } from "./files.js";
export { IndexedDbJournal, MemoryJournal } from "./journal.js";
export type { Journal, JournalRecord } from "./journal.js";
export type { Reply, Resource } from "./reply.js";
export type { Source } from "./source.js";
export { Broken } from "./transport.js";
export type { Request, Send, SendOptions } from "./transport.js";
export { Upload } from "./upload.js";
export type { Progress, UploadEvents, UploadOptions, UploadState, Waiting } from "./upload.js";
export { Uploader } from "./uploader.js";
export type { Rejection, Unfinished, UploaderEvents, UploaderOptions } from "./uploader.js";
