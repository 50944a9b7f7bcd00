// tus-js-client in a version and a protocol. Its commands: {"call": NAME, ...}.
import {createReadStream} from "node:fs";
import {readFile} from "node:fs/promises";
import {createRequire} from "node:module";
import {PassThrough} from "node:stream";
import {pathToFileURL} from "node:url";

import {serve} from "../commands.mjs";

const [packages, name, endpoint, protocol] = process.argv.slice(2);
const {Upload} = createRequire(pathToFileURL(`${packages}/here.js`))(name);

// The library's own pauses are of seconds.
const common = {endpoint, protocol, retryDelays: [0, 100, 200], removeFingerprintOnSuccess: true};

// What the server said last, by the names of its headers.
let last;

function remember(request, response) {
  const names = ["Content-Location", "Upload-Offset", "Upload-Expires", "Tus-Resumable"];
  last = Object.fromEntries(names.map((name) => [name.toLowerCase(), response.getHeader(name) ?? null]));
}

function status(error) {
  const response = error.originalResponse;
  return Object.assign(error, {status: response ? response.getStatus() : null});
}

// Uploads to the end, or up to the first accepted chunk that ends beyond `stopAfter` bytes.
function run(upload, options, stopAfter) {
  return new Promise((resolve, reject) => {
    const end = () => resolve({url: upload.url, last});
    Object.assign(upload.options, {
      onSuccess: end,
      onError: (error) => reject(status(error)),
      onAfterResponse: remember,
      onChunkComplete: (_, accepted) => {
        if (stopAfter !== undefined && accepted > stopAfter) upload.abort().then(end, reject);
      },
      ...options,
    });
    upload.start();
  });
}

// Of a file's own stream version 4 knows the length, and announces more than is left of it. Later
// versions take no other stream.
function streamOf(path) {
  const file = createReadStream(path);
  return name === "tus-js-client" ? file.pipe(new PassThrough()) : file;
}

const calls = {
  async upload({path, stream, options, stopAfter, url}) {
    const source = stream ? streamOf(path) : await readFile(path);
    const upload = new Upload(source, {...common, uploadUrl: url ?? null});
    return run(upload, options, stopAfter);
  },
  async terminate({url}) {
    await Upload.terminate(url, {...common});
  },
};

await serve((command) => calls[command.call](command));
