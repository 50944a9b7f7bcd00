// Answers commands, each a line of JSON on standard input, by a line on standard output:
// {"result": ...} or {"error": CODE or MESSAGE, "name": NAME, "status": STATUS, if the library knows one}.
import {createInterface} from "node:readline";

// `replacer` is that of JSON.stringify.
export async function serve(answer, replacer) {
  for await (const line of createInterface({input: process.stdin})) {
    const said = await answer(JSON.parse(line)).then(
      (result) => ({result: result ?? null}),
      (error) => ({error: error.code ?? String(error.message), name: error.name ?? typeof error, status: error.status}),
    );
    console.log(JSON.stringify(said, replacer));
  }
}
