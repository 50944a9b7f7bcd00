// Gemini's library for JavaScript, a command for each line on standard input:
//     {"upload": PATH, "mimeType": TYPE, "name": NAME or null} | {"get": NAME} | {"list": true} | {"delete": NAME}
// The answer is a line: {"result": ...} or {"error": MESSAGE, "status": STATUS}.
import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";

const [packages, baseUrl] = process.argv.slice(2);
const library = pathToFileURL(`${packages}/@google/genai/dist/node/index.mjs`);
const {GoogleGenAI} = await import(library);
const {files} = new GoogleGenAI({apiKey: "any", httpOptions: {baseUrl}});

async function answer({upload, mimeType, name, get, list, delete: gone}) {
  if (upload) return files.upload({file: upload, config: {mimeType, name: name ?? undefined}});
  if (get) return files.get({name: get});
  if (gone) return files.delete({name: gone});
  const all = [];
  for await (const file of await files.list({config: {pageSize: 2}})) all.push(file);
  return all;
}

for await (const line of createInterface({input: process.stdin})) {
  const said = await answer(JSON.parse(line)).then(
    (result) => ({result}),
    (error) => ({error: String(error.message), status: error.status}),
  );
  console.log(JSON.stringify(said));
}
