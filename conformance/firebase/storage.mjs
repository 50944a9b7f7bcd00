// Firebase's library. Its commands: {"call": NAME, ...}.
import {readFile} from "node:fs/promises";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

import {serve} from "../commands.mjs";

const [packages, port] = process.argv.slice(2);
// The packages are in another directory than this file.
const {resolve} = createRequire(pathToFileURL(`${packages}/here.js`));
const {initializeApp} = await import(pathToFileURL(resolve("firebase/app")));
const storageOf = await import(pathToFileURL(resolve("firebase/storage")));
const {ref} = storageOf;

const app = initializeApp({projectId: "farm", storageBucket: "barn", apiKey: "any"});
const storage = storageOf.getStorage(app);
storageOf.connectStorageEmulator(storage, "127.0.0.1", Number(port));

const calls = {
  async upload({path, name, metadata}) {
    const done = await storageOf.uploadBytes(ref(storage, name), await readFile(path), metadata);
    return done.metadata;
  },
  async resumable({path, name, metadata, pauseAt}) {
    const task = storageOf.uploadBytesResumable(ref(storage, name), await readFile(path), metadata);
    const seen = [];
    task.on("state_changed", ({bytesTransferred, state}) => {
      seen.push(bytesTransferred);
      if (pauseAt !== undefined && state === "running" && bytesTransferred >= pauseAt) {
        pauseAt = undefined;
        task.pause();
        setTimeout(() => task.resume(), 100);
      }
    });
    const done = await task;
    return {...done.metadata, seen};
  },
  async cancel({path, name}) {
    const task = storageOf.uploadBytesResumable(ref(storage, name), await readFile(path));
    task.on("state_changed", ({bytesTransferred}) => bytesTransferred && task.cancel());
    await task;
  },
  async bytes({name}) {
    return Buffer.from(await storageOf.getBytes(ref(storage, name))).toString("base64");
  },
  url: ({name}) => storageOf.getDownloadURL(ref(storage, name)),
  metadata: ({name}) => storageOf.getMetadata(ref(storage, name)),
  update: ({name, metadata}) => storageOf.updateMetadata(ref(storage, name), metadata),
  delete: ({name}) => storageOf.deleteObject(ref(storage, name)),
  async list({name}) {
    const [items, prefixes] = [[], []];
    let pageToken;
    do {
      const page = await storageOf.list(ref(storage, name), {maxResults: 2, pageToken});
      items.push(...page.items.map((item) => item.fullPath));
      prefixes.push(...page.prefixes.map((prefix) => prefix.fullPath));
      pageToken = page.nextPageToken;
    } while (pageToken);
    return {items, prefixes};
  },
};

// `ref` belongs to the library and refers to itself.
await serve(({call, ...options}) => calls[call](options), (key, value) => (key === "ref" ? undefined : value));
process.exit(0);
