// Uploads by fetch, as a page of another origin writes them. Each returns what the suite compares.

const UPLOADS = "/upload/shelf/v1/things";

function media(length) {
  const bytes = new Uint8Array(length);
  for (let n = 0, state = length; n < length; n++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    bytes[n] = state >>> 16;
  }
  return bytes;
}

async function made(reply, bytes, more = {}) {
  if (!reply.ok) throw new Error(`${reply.status}: ${await reply.text()}`);
  return { id: (await reply.json()).id, sha256: await sha256(bytes), ...more };
}

async function simple(base, length) {
  const bytes = media(length);
  const headers = { "Content-Type": "application/octet-stream", "X-Goog-Api-Client": "page/1" };
  const reply = await fetch(`${base}${UPLOADS}?uploadType=media`, { method: "POST", headers, body: bytes });
  return made(reply, bytes);
}

async function multipart(base, length) {
  const bytes = media(length);
  const head = '--b\r\nContent-Type: application/json\r\n\r\n{"name":"page"}\r\n--b\r\nContent-Type: image/png\r\n\r\n';
  const body = new Blob([head, bytes, "\r\n--b--\r\n"]);
  const headers = { "Content-Type": "multipart/related; boundary=b", Authorization: "Bearer of the page" };
  const reply = await fetch(`${base}${UPLOADS}?uploadType=multipart`, { method: "POST", headers, body });
  return made(reply, bytes);
}

async function start(base, length) {
  const headers = {
    "Content-Type": "application/json; charset=UTF-8",
    "X-Upload-Content-Type": "image/png",
    "X-Upload-Content-Length": String(length),
  };
  const reply = await fetch(`${base}${UPLOADS}?uploadType=resumable`, { method: "POST", headers, body: '{"name":"page"}' });
  if (!reply.headers.get("X-GUploader-UploadID")) throw new Error("X-GUploader-UploadID cannot be read");
  return reply.headers.get("Location");
}

// The bytes that a 308 says are committed.
function committed(reply) {
  const range = reply.headers.get("Range");
  return range ? Number(range.split("-")[1]) + 1 : 0;
}

async function query(uri) {
  const reply = await fetch(uri, { method: "PUT", headers: { "Content-Range": "bytes */*" } });
  return { status: reply.status, committed: committed(reply) };
}

// In chunks; a chunk that does not arrive is followed by a query and by what is missing.
async function resumable(base, length, chunk) {
  const bytes = media(length);
  const uri = await start(base, length);
  let resumed = 0;
  for (let at = 0; ; ) {
    const end = Math.min(at + chunk, length);
    const headers = { "Content-Range": `bytes ${at}-${end - 1}/${length}` };
    try {
      const reply = await fetch(uri, { method: "PUT", headers, body: bytes.slice(at, end) });
      if (reply.status !== 308) return made(reply, bytes, { resumed });
      at = committed(reply);
    } catch (error) {
      if (!(error instanceof TypeError) || ++resumed > 5) throw error;
      at = (await query(uri)).committed;
    }
  }
}

async function xGoogUpload(base, length, chunk) {
  const bytes = media(length);
  const command = (text, more) => ({ "X-Goog-Upload-Command": text, ...more });
  const first = { "X-Goog-Upload-Protocol": "resumable", "X-Goog-Upload-Header-Content-Type": "image/png" };
  const started = await fetch(`${base}${UPLOADS}`, { method: "POST", headers: command("start", first), body: '{"name":"page"}' });
  const uri = started.headers.get("X-Goog-Upload-URL");
  const post = (headers, body) => fetch(uri, { method: "POST", headers, body });
  await post(command("upload", { "X-Goog-Upload-Offset": "0" }), bytes.slice(0, chunk));
  const asked = await post(command("query"));
  const at = Number(asked.headers.get("X-Goog-Upload-Size-Received"));
  if (at !== chunk) throw new Error(`${at} bytes are there, not ${chunk}`);
  const reply = await post(command("upload, finalize", { "X-Goog-Upload-Offset": String(at) }), bytes.slice(at));
  return made(reply, bytes, { status: reply.headers.get("X-Goog-Upload-Status") });
}

async function cancel(base) {
  const uri = await start(base, 10);
  return (await fetch(uri, { method: "DELETE" })).status;
}

async function download(base, id, range) {
  const reply = await fetch(`${base}/shelf/v1/things/${id}?alt=media`, { headers: { Range: range } });
  const { status, headers } = reply;
  return { status, length: (await reply.arrayBuffer()).byteLength, range: headers.get("Content-Range"), etag: headers.get("ETag") };
}

async function error(base) {
  const reply = await fetch(`${base}/shelf/v1/things/none`);
  return { status: reply.status, reason: (await reply.json()).error.errors[0].reason };
}

// Whether an element loads its source.
function embed(name, source, attributes = {}) {
  return new Promise((resolve) => {
    const element = Object.assign(document.createElement(name), attributes);
    element.onload = () => resolve("loaded");
    element.onerror = () => resolve("refused");
    element.src = source;
    document.body.append(element);
  });
}

// What the server says of an upload or a download that it refuses, in JSON.
class Refused extends Error {
  constructor(status, body) {
    super(`${status}: ${body}`);
    this.said = { status, message: JSON.parse(body).error.message };
  }
}

async function accepted(reply, statuses = [200, 201]) {
  if (!statuses.includes(reply.status)) throw new Refused(reply.status, await reply.text());
  return reply;
}

async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function typed(link, type) {
  const url = new URL(link);
  url.searchParams.set("uploadType", type);
  return url;
}

async function simpleByLink(link, contentType, length) {
  const bytes = media(length);
  const reply = await fetch(typed(link, "media"), { method: "POST", headers: { "Content-Type": contentType }, body: bytes });
  return made(await accepted(reply), bytes);
}

// What follows the start has the session URI alone.
async function resumableByLink(link, contentType, length, chunk) {
  const bytes = media(length);
  const headers = { "X-Upload-Content-Type": contentType, "X-Upload-Content-Length": String(length) };
  const started = await accepted(await fetch(typed(link, "resumable"), { method: "POST", headers }));
  const uri = started.headers.get("Location");
  for (let at = 0, chunks = 1; ; chunks++) {
    const end = Math.min(at + chunk, length);
    const range = { "Content-Range": `bytes ${at}-${end - 1}/${length}` };
    const reply = await accepted(await fetch(uri, { method: "PUT", headers: range, body: bytes.slice(at, end) }), [200, 201, 308]);
    if (reply.status !== 308) return made(reply, bytes, { uri, chunks });
    at = committed(reply);
  }
}

async function downloadByLink(link) {
  const reply = await accepted(await fetch(link));
  return { status: reply.status, sha256: await sha256(await reply.arrayBuffer()) };
}

// What is said to a function that must be refused.
async function refusal(name, ...rest) {
  try {
    const done = await { simpleByLink, resumableByLink, downloadByLink }[name](...rest);
    throw new Error(`it was not refused: ${JSON.stringify(done)}`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.said;
  }
}
