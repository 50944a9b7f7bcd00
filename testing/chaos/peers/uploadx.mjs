// node-uploadx with its storage on the local disk, as its README sets it up: node uploadx.mjs DIRECTORY | --version
//
// It leaves downloads to the application.

import { setTimeout } from "node:timers/promises";

import uploadx from "@uploadx/core";

import { directory, serve } from "./shared.mjs";

const files = directory("@uploadx/core");
const uploads = new uploadx.Uploadx({ uploadDir: files });
// Until then it refuses whatever comes.
while (!uploads.storage.isReady) await setTimeout(1);
serve(files, uploads.handle);
