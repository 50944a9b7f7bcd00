// Google's libraries for Cloud Storage and for Drive. Their commands: {"call": NAME, ...}.
import {createReadStream} from "node:fs";
import {readFile} from "node:fs/promises";
import {createRequire} from "node:module";
import {pipeline} from "node:stream/promises";
import {pathToFileURL} from "node:url";

import {serve} from "../commands.mjs";

const [packages, rootUrl] = process.argv.slice(2);
// The packages are in another directory than this file.
const require = createRequire(pathToFileURL(`${packages}/here.js`));
const {IdempotencyStrategy, Storage} = require("@google-cloud/storage");

// Without a precondition it repeats nothing, unless it is told to. Pauses are in seconds.
const retryOptions = {idempotencyStrategy: IdempotencyStrategy.RetryAlways, maxRetryDelay: 1};
const storage = new Storage({apiEndpoint: rootUrl, projectId: "farm", retryOptions});
const bucket = storage.bucket("barn");
const drive = require("@googleapis/drive").drive({version: "v3"});

const calls = {
  async bucket() {
    await storage.createBucket("barn");
  },
  async save({name, path, options}) {
    const file = bucket.file(name);
    await file.save(await readFile(path), options);
    return file.metadata;
  },
  async stream({name, path, options}) {
    const file = bucket.file(name);
    await pipeline(createReadStream(path), file.createWriteStream(options));
    return file.metadata;
  },
  async bytes({name}) {
    const [data] = await bucket.file(name).download();
    return data.toString("base64");
  },
  async combine({names, into}) {
    const file = bucket.file(into);
    await bucket.combine(names, file);
    const [data] = await file.download();
    return data.toString("base64");
  },
  // Metadata makes it a multipart upload, whose media has to be a stream.
  async create({path, mimeType, metadata, whole}) {
    const media = {mimeType, body: whole ? await readFile(path) : createReadStream(path)};
    const parameters = {requestBody: metadata, media, fields: "id,name,mimeType,size,md5Checksum"};
    return (await drive.files.create(parameters, {rootUrl})).data;
  },
  async content({fileId}) {
    const {data} = await drive.files.get({fileId, alt: "media"}, {rootUrl, responseType: "arraybuffer"});
    return Buffer.from(data).toString("base64");
  },
};

await serve(({call, ...options}) => calls[call](options));
