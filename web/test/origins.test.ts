import assert from "node:assert/strict";
import { test } from "node:test";

import { isPrivate, mayReceiveMedia } from "../src/origins.js";

test("media goes to the same host and between hosts of Google's APIs", () => {
  for (const [upload, session, expected] of [
    ["https://h/upload", "https://h/s", true],
    ["https://h/upload", "https://h:8443/s", true],
    ["http://h/upload", "https://h/s", true],
    ["http://h:8080/upload", "http://h:8081/s", true],
    ["https://h/upload", "http://h/s", false],
    ["https://h/upload", "https://elsewhere/s", false],
    ["https://h.example/upload", "https://media.h.example/s", false],
    ["http://localhost:1/upload", "http://127.0.0.1:2/s", true],
    ["http://127.0.0.2/upload", "http://[::1]/s", true],
    ["http://h/upload", "http://127.0.0.1/s", false],
    ["https://h/upload", "https://169.254.169.254/s", false],
    ["https://www.googleapis.com/u", "https://storage.googleapis.com/s", true],
    ["https://www.googleapis.com/u", "https://googleapis.com/s", true],
    ["https://www.googleapis.com/u", "https://evilgoogleapis.com/s", false],
    ["https://www.googleapis.com/u", "https://googleapis.com.evil/s", false],
    ["https://www.googleapis.com/u", "https://x.googleapis.com:1/s", false],
    ["http://www.googleapis.com/u", "http://x.googleapis.com/s", false],
    ["https://h/upload", "https://storage.googleapis.com/s", false],
    ["https://h/upload", "ftp://h/s", false],
    ["https://h/upload", "javascript:alert(1)", false],
  ] as const) {
    const may = mayReceiveMedia(new URL(upload), new URL(session), []);
    assert.equal(may, expected, `${upload} ${session}`);
  }
});

test("an allowed origin is one scheme, host and port", () => {
  const upload = new URL("https://h/upload");
  for (const [session, expected] of [
    ["https://media.example/s", true],
    ["https://media.example:443/s", true],
    ["https://media.example:444/s", false],
    ["http://media.example/s", false],
    ["https://b.media.example/s", false],
  ] as const) {
    const may = mayReceiveMedia(upload, new URL(session), ["https://media.example"]);
    assert.equal(may, expected, session);
  }
});

test("only encryption and this machine are private", () => {
  for (const [url, expected] of [
    ["https://farm.example/", true],
    ["http://farm.example/", false],
    ["http://10.0.0.1/", false],
    ["http://0.0.0.0/", false],
    ["http://localhost:8080/", true],
    ["http://LOCALHOST./", true],
    ["http://up.localhost/", true],
    ["http://notlocalhost/", false],
    ["http://localhost.example/", false],
    ["http://127.0.0.1/", true],
    ["http://127.8.9.10:99/", true],
    ["http://2130706433/", true],
    ["http://127.0.0.1.example/", false],
    ["http://[::1]/", true],
    ["http://[::ffff:127.0.0.1]/", true],
    ["http://[::ffff:10.0.0.1]/", false],
  ] as const) {
    assert.equal(isPrivate(new URL(url)), expected, url);
  }
});
