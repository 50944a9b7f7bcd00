// Writes the types of an OpenAPI document: generate.mjs URL FILE. Media is a Blob, where the generator's default is a string.
import { writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const BLOB = ts.factory.createTypeReferenceNode("Blob");
const [url, file] = process.argv.slice(2);
const types = await openapiTS(new URL(url), {
  // What has a default may be left out.
  defaultNonNullable: false,
  transform: (schema) => (schema.format === "binary" ? BLOB : undefined),
});
writeFileSync(file, astToString(types));
