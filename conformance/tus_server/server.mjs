// A server of tus with its files in a directory: node server.mjs DIRECTORY PORT. Prints its port.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.NODE_PACKAGES, "x"));
const { Server } = require("@tus/server");
const { FileStore } = require("@tus/file-store");

const [directory, port] = process.argv.slice(2);
const tus = new Server({ path: "/files", datastore: new FileStore({ directory }) });
const listener = createServer((request, response) => tus.handle(request, response));
listener.listen(Number(port), "127.0.0.1", () => console.log(listener.address().port));
