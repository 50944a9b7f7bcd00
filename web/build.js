// Builds the package: `node build.js` writes dist/ and says the sizes, and fails above the limits;
// `node build.js tests FOLDER OUT` writes a folder's tests as JavaScript.

import { build } from "esbuild";
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

/** Bytes of a compressed entry with all that it imports, which is what a page waits for. */
const LIMITS = { index: 12_000, element: 25_000 };

const COMMON = {
  bundle: true,
  format: "esm",
  target: ["es2022"],
  legalComments: "none",
  logLevel: "warning",
};

/** The worker as text: see src/digest.ts. */
async function workerSource() {
  const worker = { ...COMMON, format: "iife", minify: true, write: false };
  const { outputFiles } = await build({ ...worker, entryPoints: ["src/digest-worker.ts"] });
  return JSON.stringify(outputFiles[0].text.trim());
}

async function dist(define) {
  const entryPoints = ["src/index.ts", "src/element.ts", "src/uppy.ts"];
  const external = ["@uppy/core"];
  await build({ ...COMMON, minify: true, define, entryPoints, external, outdir: "dist" });
  for (const [entry, limit] of Object.entries(LIMITS)) {
    const size = gzipSync(readFileSync(`dist/${entry}.js`), { level: 9 }).length;
    console.log(`${entry}.js: ${size} bytes in gzip, at most ${limit}`);
    if (size > limit) process.exitCode = 1;
  }
}

async function tests(define, folder, outdir) {
  const names = readdirSync(folder).filter((name) => name.endsWith(".test.ts"));
  const entryPoints = names.map((name) => `${folder}/${name}`);
  const node = { platform: "node", sourcemap: "inline", external: ["playwright-core"] };
  await build({ ...COMMON, ...node, define, entryPoints, outdir, outExtension: { ".js": ".mjs" } });
}

const define = { WORKER_SOURCE: await workerSource() };
const [what, folder, outdir] = process.argv.slice(2);
if (what === "tests") await tests(define, folder, outdir);
else await dist(define);
