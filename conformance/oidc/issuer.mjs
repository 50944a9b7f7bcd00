// An issuer of access tokens on a free port, by the library oidc-provider. Its commands: {"call": NAME, ...}.
import {generateKeyPairSync} from "node:crypto";
import {createServer} from "node:http";
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

import {serve} from "../commands.mjs";

// The library says there what is not fit for production. Standard output is for answers to commands.
console.info = console.warn = () => {};

const [packages] = process.argv.slice(2);
// The packages are in another directory than this file.
const require = createRequire(pathToFileURL(`${packages}/here.js`));
const {Provider} = await import(pathToFileURL(require.resolve("oidc-provider")));

// Resources are the audiences of tokens: urn:ALGORITHM:SECONDS, or urn:opaque:SECONDS.
const resource = (name) => {
  const [, kind, seconds] = name.split(":");
  const opaque = kind === "opaque";
  return {
    scope: "read write",
    audience: name,
    accessTokenTTL: Number(seconds),
    accessTokenFormat: opaque ? "opaque" : "jwt",
    jwt: opaque ? undefined : {sign: {alg: kind}},
  };
};

const client = (client_id, grant_types) => ({
  client_id, client_secret: `${client_id}-secret: +/%`, grant_types, redirect_uris: [], response_types: [],
});

function provider(issuer, generation) {
  const key = (kid, type, options, alg) => ({...generateKeyPairSync(type, options).privateKey.export({format: "jwk"}), kid: `${kid}-${generation}`, use: "sig", alg});
  const made = new Provider(issuer, {
    jwks: {
      keys: [
        key("rs", "rsa", {modulusLength: 2048}, "RS256"),
        key("ps", "rsa", {modulusLength: 2048}, "PS256"),
        key("es", "ec", {namedCurve: "P-256"}, "ES256"),
        key("ed", "ed25519", {}, "EdDSA"),
      ],
    },
    enabledJWA: {requestObjectSigningAlgValues: ["RS256"]},
    clients: [client("uploader", ["client_credentials"]), client("windlass", [])],
    scopes: ["read", "write"],
    features: {
      devInteractions: {enabled: false},
      clientCredentials: {enabled: true},
      introspection: {enabled: true, allowedPolicy: () => true},
      revocation: {enabled: true},
      resourceIndicators: {enabled: true, getResourceServerInfo: (_, name) => resource(name)},
    },
  });
  return made.callback();
}

let generation = 1, fetches = 0, introspections = 0, callback;
const server = createServer((request, response) => {
  fetches += request.url.startsWith("/jwks");
  introspections += request.url.startsWith("/token/introspection");
  callback(request, response);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
callback = provider(issuer, generation);
const basic = `Basic ${btoa(`uploader:${encodeURIComponent("uploader-secret: +/%")}`)}`;
const headers = {authorization: basic, "content-type": "application/x-www-form-urlencoded"};

const calls = {
  async issuer() {
    return issuer;
  },
  async token({resource, scope}) {
    const body = new URLSearchParams({grant_type: "client_credentials", resource, ...(scope && {scope})});
    const reply = await fetch(`${issuer}/token`, {method: "POST", headers, body});
    const said = await reply.json();
    if (!reply.ok) throw new Error(JSON.stringify(said));
    return said.access_token;
  },
  async revoke({token}) {
    const body = new URLSearchParams({token});
    const reply = await fetch(`${issuer}/token/revocation`, {method: "POST", headers, body});
    if (!reply.ok) throw new Error(await reply.text());
  },
  // New keys, and none of the old ones.
  async rotate() {
    callback = provider(issuer, ++generation);
  },
  async counts() {
    return {fetches, introspections};
  },
};

await serve(({call, ...options}) => calls[call](options));
server.close();
server.closeAllConnections();
