// What the Node servers have in common.

import { createReadStream, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { basename, join } from "node:path";

// The directory of the command line. With --version it says which versions of packages are installed, and ends.
export function directory(...packages) {
  const [argument] = process.argv.slice(2);
  if (argument !== "--version") return argument;
  const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
  console.log(`${packages.map((name) => `${name} ${version(name)}`).join(", ")}, node ${process.version}`);
  process.exit();
}

// Listens. A GET of an upload's URL answers with the file as it lies on the disk; the rest is left to `handle`.
export function serve(directory, handle) {
  const listener = createServer((request, response) => {
    if (request.method === "GET") download(directory, request.url, response);
    else handle(request, response);
  });
  listener.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${listener.address().port}`));
}

function download(directory, url, response) {
  const { pathname, searchParams } = new URL(url, "http://localhost");
  const file = createReadStream(join(directory, basename(searchParams.get("upload_id") ?? pathname)));
  file.on("error", () => response.writeHead(404).end());
  file.pipe(response);
}
