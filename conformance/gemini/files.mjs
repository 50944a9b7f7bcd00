// Gemini's library for JavaScript. Its commands:
//     {"upload": PATH, "mimeType": TYPE, "name": NAME or null} | {"get": NAME} | {"list": true} | {"delete": NAME}
import {pathToFileURL} from "node:url";

import {serve} from "../commands.mjs";

const [packages, baseUrl] = process.argv.slice(2);
const library = pathToFileURL(`${packages}/@google/genai/dist/node/index.mjs`);
const {GoogleGenAI} = await import(library);
// Without them nothing is tried again. Seconds.
const retryOptions = {attempts: 4, initialDelay: 0.1};
const {files} = new GoogleGenAI({apiKey: "any", httpOptions: {baseUrl, retryOptions}});

async function answer({upload, mimeType, name, get, list, delete: gone}) {
  if (upload) return files.upload({file: upload, config: {mimeType, name: name ?? undefined}});
  if (get) return files.get({name: get});
  if (gone) return files.delete({name: gone});
  const all = [];
  for await (const file of await files.list({config: {pageSize: 2}})) all.push(file);
  return all;
}

await serve(answer);
