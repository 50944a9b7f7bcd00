// The tus server for Node with its file store, as its README sets it up: node tus.mjs DIRECTORY | --version

import { FileStore } from "@tus/file-store";
import { Server } from "@tus/server";

import { directory, serve } from "./shared.mjs";

const files = directory("@tus/server", "@tus/file-store");
const server = new Server({ path: "/files", datastore: new FileStore({ directory: files }) });
// Its own GET is passed by: it ends the process when a client closes the connection as soon as it has the last byte.
serve(files, (request, response) => server.handle(request, response));
