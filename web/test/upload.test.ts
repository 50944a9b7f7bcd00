import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";

import { UploadError } from "../src/errors.js";
import { MemoryJournal, targetOf } from "../src/journal.js";
import type { JournalRecord } from "../src/journal.js";
import { LIMITS, byFetch } from "../src/transport.js";
import type { Send } from "../src/transport.js";
import { Upload } from "../src/upload.js";
import type { UploadOptions, UploadState } from "../src/upload.js";
import { MIB, Q } from "./replies.js";
import { FaultyServer } from "./server.js";
import type { Answer, Fault } from "./server.js";

/** Waits are short, so that a test may have many. */
const FAST = { unit: 2, longest: 20 };

let server: FaultyServer;
let journal: MemoryJournal;

beforeEach(async () => {
  server = await FaultyServer.start();
  journal = new MemoryJournal();
});

afterEach(() => server.close());

function fileOf(size: number, name = "cow.jpg", type = "image/jpeg"): File {
  const bytes = Uint8Array.from({ length: size }, (_, n) => (n * 31 + (n >>> 8)) & 255);
  return new File([bytes], name, { type, lastModified: 1_700_000_000_000 });
}

function uploadOf(file: File, options: Partial<UploadOptions> = {}): Upload {
  return new Upload(file, { url: server.url, journal, retryPolicy: FAST, ...options });
}

/** The file is on the server once, and whole; the journal is empty. */
async function checkFinished(file: File): Promise<void> {
  assert.equal(server.finished.length, 1);
  assert.deepEqual(server.finished[0], Buffer.from(await file.arrayBuffer()));
  assert.deepEqual(await journal.list(), []);
}

function failsWith(code: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof UploadError, String(error));
    assert.equal(error.code, code, error.message);
    return true;
  };
}

/** Resolves when the upload reaches a state. */
function reaches(upload: Upload, state: UploadState): Promise<void> {
  return new Promise((resolve) => {
    const off = upload.on("state", (event) => {
      if (event.state !== state) return;
      off();
      resolve();
    });
  });
}

describe("requests", () => {
  test("a file is uploaded in a start and a request for its bytes", async () => {
    const file = fileOf(MIB);
    const upload = uploadOf(file, { metadata: { name: "Bella" } });
    const resource = await upload.run();
    assert.equal(resource?.["id"], "7");
    assert.equal(upload.state, "finished");
    await checkFinished(file);
    const [start, data] = server.seen;
    assert.equal(start!.method, "POST");
    assert.equal(start!.url, "/upload/farm/v1/animals?uploadType=resumable");
    assert.equal(start!.headers["x-upload-content-type"], "image/jpeg");
    assert.equal(start!.headers["x-upload-content-length"], String(MIB));
    assert.match(start!.headers["content-type"]!, /^application\/json/);
    assert.deepEqual(JSON.parse(start!.body.toString()), { name: "Bella" });
    assert.equal(data!.method, "PUT");
    assert.equal(data!.headers["content-range"], `bytes 0-${MIB - 1}/${MIB}`);
    assert.equal(data!.headers["content-length"], String(MIB));
    assert.equal(server.story, "start data");
  });

  test("without metadata the start is empty", async () => {
    await uploadOf(fileOf(10)).run();
    assert.equal(server.seen[0]!.headers["content-length"], "0");
    assert.equal(server.seen[0]!.headers["content-type"], undefined);
  });

  test("an empty file is finished by an empty request", async () => {
    const file = fileOf(0);
    await uploadOf(file).run();
    await checkFinished(file);
    assert.equal(server.seen[1]!.headers["content-range"], "bytes */0");
    assert.equal(server.seen[1]!.headers["content-length"], "0");
  });

  test("a set chunk size is kept to", async () => {
    const file = fileOf(2 * Q + 5);
    await uploadOf(file, { chunkSize: Q }).run();
    await checkFinished(file);
    const ranges = server.seen.slice(1).map(({ headers }) => headers["content-range"]);
    assert.deepEqual(ranges, [
      `bytes 0-${Q - 1}/${2 * Q + 5}`,
      `bytes ${Q}-${2 * Q - 1}/${2 * Q + 5}`,
      `bytes ${2 * Q}-${2 * Q + 4}/${2 * Q + 5}`,
    ]);
  });

  test("uploadType replaces an earlier one, and the rest of the URL stays as it is", async () => {
    const query = "uploadType=media&name=a%20b+c&upload_protocol=raw&X-Windlass-Link=1.k.e.s";
    const url = `${server.url}?${query}#x`;
    await uploadOf(fileOf(10), { url }).run();
    const expected = "?name=a%20b+c&X-Windlass-Link=1.k.e.s&uploadType=resumable";
    assert.equal(server.seen[0]!.url, `/upload/farm/v1/animals${expected}`);
  });

  test("the method of the start can be chosen", async () => {
    await uploadOf(fileOf(10), { method: "PATCH" }).run();
    assert.equal(server.seen[0]!.method, "PATCH");
  });

  test("headers and the token go to the origin of the URL, in a session, too", async () => {
    await uploadOf(fileOf(10), { token: "t1", headers: { "X-Goog-Api-Key": "k" } }).run();
    for (const { headers } of server.seen) {
      assert.equal(headers.authorization, "Bearer t1");
      assert.equal(headers["x-goog-api-key"], "k");
    }
  });

  test("neither headers nor the token go to a session of another origin", async () => {
    const other = await FaultyServer.start();
    server.sessionsAt = other.origin;
    other.faults.data.push(() => ({ status: 200, body: "{}" }));
    await uploadOf(fileOf(10), { token: "t1", headers: { "X-Goog-Api-Key": "k" } }).run();
    assert.equal(other.story, "data");
    assert.equal(other.seen[0]!.headers.authorization, undefined);
    assert.equal(other.seen[0]!.headers["x-goog-api-key"], undefined);
    other.close();
  });

  test("a token is not sent over plain http to another machine", () => {
    const url = "http://farm.example/upload";
    assert.throws(() => uploadOf(fileOf(1), { url, token: "t" }), TypeError);
    uploadOf(fileOf(1), { url, token: "t", allowPlainHttp: true });
    uploadOf(fileOf(1), { url });
  });

  test("a session at a host that was not allowed gets nothing", async () => {
    server.sessionsAt = "http://media.example";
    const upload = uploadOf(fileOf(10));
    await assert.rejects(upload.run(), failsWith("session-elsewhere"));
    assert.equal(server.story, "start");
    assert.deepEqual(await journal.list(), []);
  });

  test("a session in a relative location is one of the same server", async () => {
    server.sessionsAt = "";
    await uploadOf(fileOf(10)).run();
    assert.equal(server.story, "start data");
  });
});

describe("faults", () => {
  const file = fileOf(MIB + 7);
  const html: Answer = { status: 200, headers: { "Content-Type": "text/html" }, body: "<html>" };
  const unavailable = () => ({ status: 503 });
  const tooLarge = () => ({ status: 413 });
  const page = () => html;
  const badRange = () => ({ status: 308, headers: { Range: "bytes=x" } });
  const passing: [string, Partial<Record<"start" | "query" | "data", Fault[]>>, string][] = [
    ["a start without a connection", { start: ["refuse"] }, "start start data"],
    ["a lost reply to a start", { start: ["lose reply"] }, "start start data"],
    ["503 to a start", { start: [unavailable] }, "start start data"],
    ["a cut in the middle", { data: ["cut"] }, "start data query data"],
    ["two cuts in a row", { data: ["cut", "cut"] }, "start data query data query data"],
    ["503 in the middle", { data: [unavailable] }, "start data query data"],
    ["a lost final reply", { data: ["lose reply"] }, "start data query"],
    ["a truncated final reply", { data: ["truncate reply"] }, "start data query"],
    [
      "a final reply lost twice",
      { data: ["lose reply"], query: ["lose reply"] },
      "start data query query",
    ],
    ["an expired session", { data: ["forget"] }, "start data start data"],
    ["a dead session", { data: ["kill"] }, "start data start data"],
    [
      "a session lost before a query",
      { data: ["cut"], query: ["forget"] },
      "start data query start data",
    ],
    ["a chunk of which a part is kept", { data: ["keep a part"] }, "start data data data data"],
    [
      "an offset that goes back",
      { data: ["keep a part", "rewind"] },
      "start data data query data data data",
    ],
    ["503 to a query", { data: ["cut"], query: [unavailable] }, "start data query query data"],
    ["a proxy's page to a query", { data: ["cut"], query: [page] }, "start data query query data"],
    ["a proxy's page to data", { data: [page] }, "start data query data"],
    [
      "a proxy that takes no large body",
      { data: [tooLarge] },
      "start data query data data data data data",
    ],
    [
      "409 and 425",
      { data: [() => ({ status: 409 }), () => ({ status: 425 })] },
      "start data query data query data data data",
    ],
    ["a malformed range", { data: [badRange] }, "start data query data"],
  ];
  for (const [name, faults, story] of passing) {
    test(`the file arrives after ${name}`, async () => {
      for (const [kind, list] of Object.entries(faults)) {
        server.faults[kind as "data"].push(...list);
      }
      await uploadOf(file).run();
      assert.equal(server.story, story);
      await checkFinished(file);
    });
  }

  test("a gap is asked about, and the file arrives", async () => {
    // The server claims more than it has; the next chunk is then behind what it has.
    const claim = () => ({ status: 308, headers: { Range: `bytes=0-${Q - 1}` } });
    server.faults.data.push(claim);
    await uploadOf(file).run();
    assert.equal(server.story, "start data data query data data data data data");
    await checkFinished(file);
  });

  test("a server that is silent is given up, in a session with its record", async () => {
    server.faults.data.push("silence");
    server.faults.query.push(...Array<Fault>(5).fill("silence"));
    const limits = { bodySilence: 50, replySilence: 50, replyLength: 1000 };
    const upload = uploadOf(file, { send: byFetch(limits), retryPolicy: { ...FAST, waits: 1 } });
    server.faults.data.unshift("cut");
    await assert.rejects(upload.run(), failsWith("gave-up"));
    assert.equal(upload.error?.resumable, true);
    assert.equal((await journal.list()).length, 1);
  });

  test("a reply that is too long counts as a broken connection", async () => {
    server.faults.data.push(() => ({ status: 200, body: `{"a":"${"x".repeat(2000)}"}` }));
    const limits = { bodySilence: 5000, replySilence: 5000, replyLength: 1000 };
    await uploadOf(file, { send: byFetch(limits) }).run();
    await checkFinished(file);
  });

  test("after six attempts the upload fails, and another run continues it", async () => {
    const unavailable = Array<Fault>(5).fill(() => ({ status: 503 }));
    server.faults.data.push("cut");
    server.faults.query.push(...unavailable);
    const upload = uploadOf(file);
    await assert.rejects(upload.run(), failsWith("gave-up"));
    assert.equal(upload.error?.status, 503);
    assert.equal(upload.state, "failed");
    await upload.run();
    assert.equal(upload.state, "finished");
    assert.equal(upload.error, null);
    assert.equal(server.seen.filter(({ kind }) => kind === "start").length, 1);
    await checkFinished(file);
  });

  test("a refusal fails at once with the server's reason", async () => {
    const error = { code: 400, message: "no images", errors: [{ reason: "invalid" }] };
    server.faults.start.push(() => ({ status: 400, body: JSON.stringify({ error }) }));
    const upload = uploadOf(file);
    await assert.rejects(upload.run(), (thrown: UploadError) => {
      assert.equal(thrown.code, "refused");
      assert.equal(thrown.status, 400);
      assert.equal(thrown.reason, "invalid");
      assert.match(thrown.message, /no images/);
      return true;
    });
    assert.equal(server.story, "start");
  });

  test("a session that was cancelled on the server is not replaced", async () => {
    server.faults.data.push(() => ({ status: 499 }));
    await assert.rejects(uploadOf(file).run(), failsWith("cancelled"));
    assert.deepEqual(await journal.list(), []);
  });

  test("an offset beyond what was sent fails", async () => {
    server.faults.data.push(() => ({ status: 308, headers: { Range: "bytes=0-9999999" } }));
    await assert.rejects(uploadOf(file).run(), failsWith("offset-beyond-sent"));
    assert.deepEqual(await journal.list(), []);
  });

  test("a server that loses every session is given up", async () => {
    server.faults.data.push("kill", "forget", "kill", "forget");
    await assert.rejects(uploadOf(file).run(), failsWith("sessions-lost"));
    assert.equal(server.story, "start data start data start data start data");
  });

  test("a lost session leaves no record", async () => {
    server.faults.data.push("kill");
    server.faults.start.push(undefined, () => ({ status: 403 }));
    await assert.rejects(uploadOf(file).run(), failsWith("refused"));
    assert.deepEqual(await journal.list(), []);
  });

  test("the answer of a server that a redirection led to is not believed", async () => {
    const other = await FaultyServer.start();
    server.faults.data.push(() => ({ status: 302, headers: { Location: other.origin } }));
    await uploadOf(file).run();
    assert.equal(server.story, "start data query data");
    await checkFinished(file);
    other.close();
  });

  test("a start that is redirected fails", async () => {
    const other = await FaultyServer.start();
    server.faults.start.push(() => ({ status: 307, headers: { Location: `${other.url}?x` } }));
    await assert.rejects(uploadOf(file).run(), failsWith("unexpected"));
    other.close();
  });

  test("no text of an error has the session's URI", async () => {
    for (const fault of [() => ({ status: 403 }), "kill"] as Fault[]) {
      server.faults.data.push(fault);
      const retryPolicy = { ...FAST, restarts: 0 };
      const error = await uploadOf(file, { retryPolicy }).run().catch((thrown) => thrown);
      assert.doesNotMatch(`${error.stack} ${error.message}`, /secret|upload_id/);
    }
  });

  test("random faults: every upload ends, whole or with an error", async () => {
    const faults: (Fault | undefined)[] = [
      undefined, undefined, undefined, "cut", "refuse", "lose reply", "truncate reply", "forget",
      "kill", "rewind", "keep a part", () => ({ status: 503 }), () => ({ status: 429 }),
      () => ({ status: 413 }), () => html,
    ];
    const isForStarts = (fault?: Fault) =>
      fault !== "rewind" && fault !== "kill" && fault !== "forget";
    let state = 42;
    const draw = () => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return faults[(state >>> 16) % faults.length];
    };
    let whole = 0;
    for (let n = 0; n < 40; n++) {
      const before = server.finished.length;
      for (const kind of ["start", "query", "data"] as const) {
        server.faults[kind] = Array.from({ length: 6 }, draw);
        if (kind === "start") server.faults[kind] = server.faults[kind].filter(isForStarts);
      }
      const upload = uploadOf(file, { retryPolicy: { ...FAST, longest: 5 } });
      try {
        await upload.run();
        whole += 1;
        // Twice if the server lost a session that had just been finished.
        assert.ok(server.finished.length > before);
        assert.equal(server.finished.at(-1)!.length, file.size);
      } catch (error) {
        assert.ok(error instanceof UploadError, String(error));
        upload.cancel();
        assert.equal(upload.state, "cancelled");
      }
      journal = new MemoryJournal();
    }
    assert.ok(whole > 10, `${whole} of 40 arrived`);
  });
});

describe("tokens", () => {
  const unauthorized = () => ({ status: 401 });

  test("after a 401 the function is asked for another token", async () => {
    const asked: boolean[] = [];
    const token = (refused: boolean) => {
      asked.push(refused);
      return refused ? "new" : "old";
    };
    server.faults.start.push(unauthorized);
    server.faults.data.push(unauthorized);
    const file = fileOf(MIB);
    await uploadOf(file, { token }).run();
    assert.deepEqual(asked, [false, true, true]);
    assert.equal(server.seen[0]!.headers.authorization, "Bearer old");
    assert.equal(server.seen[1]!.headers.authorization, "Bearer new");
    assert.equal(server.story, "start start data query data");
  });

  test("a token that is refused again fails, and the session stays", async () => {
    server.faults.data.push(unauthorized);
    server.faults.query.push(unauthorized);
    const upload = uploadOf(fileOf(MIB), { token: () => "t" });
    await assert.rejects(upload.run(), failsWith("refused"));
    assert.equal(upload.error?.resumable, true);
    assert.equal((await journal.list()).length, 1);
  });

  test("a fixed token that is refused fails", async () => {
    server.faults.start.push(unauthorized);
    await assert.rejects(uploadOf(fileOf(10), { token: "t" }).run(), failsWith("refused"));
    assert.equal(server.story, "start");
  });

  test("a function that throws fails with its error as the cause", async () => {
    const cause = new Error("no login");
    const upload = uploadOf(fileOf(10), { token: () => Promise.reject(cause) });
    await assert.rejects(upload.run(), failsWith("no-token"));
    assert.equal(upload.error?.cause, cause);
    assert.equal(server.story, "");
  });
});

describe("pause and cancel", () => {
  test("a paused upload sends nothing, and continues where the server is", async () => {
    const file = fileOf(4 * Q);
    const upload = uploadOf(file, { chunkSize: Q });
    const done = upload.run();
    const off = upload.on("progress", ({ progress }) => {
      if (progress.committed >= 2 * Q) upload.pause();
    });
    await reaches(upload, "paused");
    off();
    const requests = server.seen.length;
    await new Promise((resolve) => setTimeout(resolve, 30));
    assert.equal(server.seen.length, requests);
    upload.resume();
    await done;
    await checkFinished(file);
    assert.deepEqual(server.seen.filter(({ kind }) => kind === "start").length, 1);
  });

  test("a pause in a request ends it, and counts as no failure", async () => {
    server.faults.data.push("silence");
    const file = fileOf(MIB);
    const upload = uploadOf(file, { retryPolicy: { ...FAST, waits: 0 } });
    const done = upload.run();
    await reaches(upload, "sending");
    await new Promise((resolve) => setTimeout(resolve, 50));
    upload.pause();
    await reaches(upload, "paused");
    upload.resume();
    await done;
    await checkFinished(file);
  });

  test("a pause ends a wait", async () => {
    server.faults.data.push("cut");
    const upload = uploadOf(fileOf(MIB), { retryPolicy: { unit: 50_000 } });
    const done = upload.run();
    await reaches(upload, "waiting");
    assert.match(upload.waiting!.why, /connection/);
    assert.equal(upload.waiting!.attempt, 2);
    upload.pause();
    await reaches(upload, "paused");
    upload.resume();
    await done;
  });

  test("a cancelled upload tells the server and leaves no record", async () => {
    server.faults.data.push("silence");
    const upload = uploadOf(fileOf(MIB));
    const done = upload.run();
    await reaches(upload, "sending");
    upload.cancel();
    await assert.rejects(done, failsWith("cancelled"));
    assert.equal(upload.state, "cancelled");
    while (!server.story.endsWith("delete")) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(await journal.list(), []);
  });

  test("an upload can be cancelled before, while it is paused, and after it failed", async () => {
    const before = uploadOf(fileOf(10));
    before.cancel();
    assert.equal(before.state, "cancelled");
    await assert.rejects(before.run(), TypeError);

    const paused = uploadOf(fileOf(10));
    const done = paused.run();
    paused.pause();
    await reaches(paused, "paused");
    paused.cancel();
    await assert.rejects(done, failsWith("cancelled"));

    server.faults.start.push(() => ({ status: 400 }));
    const failed = uploadOf(fileOf(10));
    await assert.rejects(failed.run(), failsWith("refused"));
    failed.cancel();
    assert.equal(failed.state, "cancelled");
  });

  test("a finished upload cannot be cancelled", async () => {
    const upload = uploadOf(fileOf(10));
    await upload.run();
    upload.cancel();
    upload.pause();
    assert.equal(upload.state, "finished");
    assert.equal(server.story, "start data");
  });
});

describe("a later page", () => {
  /** An upload that ended in the middle, as with its page. */
  async function leave(file: File): Promise<void> {
    server.faults.data.push("cut");
    server.faults.query.push(...Array<Fault>(6).fill("refuse"));
    await assert.rejects(uploadOf(file).run(), failsWith("gave-up"));
    server.faults.query.length = 0;
    server.seen.length = 0;
  }

  test("the same file continues in the same session", async () => {
    const file = fileOf(MIB);
    await leave(file);
    await uploadOf(fileOf(MIB)).run();
    assert.equal(server.story, "query data");
    assert.match(server.seen[1]!.headers["content-range"]!, /^bytes [1-9]/);
    await checkFinished(file);
  });

  test("a session that was lost in between begins again", async () => {
    const file = fileOf(MIB);
    await leave(file);
    server.faults.query.push("forget");
    await uploadOf(file).run();
    assert.equal(server.story, "query start data");
    await checkFinished(file);
  });

  test("an upload that was finished without the page's knowing is finished", async () => {
    const file = fileOf(MIB);
    server.faults.data.push("lose reply");
    server.faults.query.push(...Array<Fault>(6).fill("refuse"));
    await assert.rejects(uploadOf(file).run(), failsWith("gave-up"));
    server.faults.query.length = 0;
    const resource = await uploadOf(file).run();
    assert.equal(resource?.["id"], "7");
    await checkFinished(file);
  });

  test("a file with other ends is uploaded anew, whatever its size and time", async () => {
    await leave(fileOf(MIB));
    const bytes = new Uint8Array(MIB).fill(7);
    const options = { type: "image/jpeg", lastModified: 1_700_000_000_000 };
    const other = new File([bytes], "cow.jpg", options);
    await uploadOf(other).run();
    assert.equal(server.story, "start data");
    await checkFinished(other);
  });

  test("another name, time, type, URL or metadata is another upload", async () => {
    const file = fileOf(MIB);
    await leave(file);
    const others = [
      uploadOf(fileOf(MIB, "bull.jpg")),
      uploadOf(fileOf(MIB, "cow.jpg", "image/png")),
      uploadOf(new File([file], "cow.jpg", { type: "image/jpeg", lastModified: 1 })),
      uploadOf(file, { url: `${server.url}?name=x` }),
      uploadOf(file, { metadata: { name: "Bella" } }),
      uploadOf(file, { method: "PUT" }),
    ];
    const same = uploadOf(file).key;
    for (const other of others) assert.notEqual(other.key, same);
  });

  test("another signed link for the same continues", async () => {
    const url = (link: string) => `${server.url}?name=x&X-Windlass-Link=${link}`;
    const [one, other] = ["1.a", "1.b"].map((link) => uploadOf(fileOf(9), { url: url(link) }).key);
    assert.equal(one, other);
    assert.doesNotMatch(targetOf(new URL(url("1.a.b.c"))), /1\.a/);
  });

  test("the record has neither token nor link", async () => {
    let record: JournalRecord | undefined;
    journal.put = async (put) => void (record = put);
    const url = `${server.url}?X-Windlass-Link=link-secret`;
    await uploadOf(fileOf(10), { url, token: "token-secret" }).run();
    assert.match(JSON.stringify(record), /upload_id=/);
    assert.doesNotMatch(JSON.stringify(record), /link-secret|token-secret/);
  });

  test("the record is kept before the first byte is sent", async () => {
    const stories: string[] = [];
    journal.put = async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      stories.push(server.story);
    };
    await uploadOf(fileOf(10)).run();
    assert.equal(stories[0], "start");
    assert.equal(server.story, "start data");
  });

  test("the record tells about how much was sent, at most once a second", async () => {
    const noted: number[] = [];
    journal.note = async (record) => void noted.push(record.sent);
    const send: Send = async (request, options) => {
      for (const bytes of [100, 200, 300]) options.onSent?.(bytes);
      return byFetch(LIMITS)(request, options);
    };
    await uploadOf(fileOf(MIB), { send }).run();
    assert.deepEqual(noted, [100]);
  });

  test("a record that points to another server gets nothing", async () => {
    const file = fileOf(MIB);
    await leave(file);
    const [record] = await journal.list();
    await journal.put({ ...record!, session: "http://elsewhere.example/u?upload_id=1" });
    await uploadOf(file).run();
    assert.equal(server.story, "start data");
  });

  test("a journal that fails ends no upload", async () => {
    const full = () => Promise.reject(new DOMException("full", "QuotaExceededError"));
    journal.put = journal.note = journal.get = full;
    const file = fileOf(MIB);
    const upload = uploadOf(file);
    await upload.run();
    assert.equal(upload.recorded, false);
    await checkFinished(file);
  });

  test("a file is not uploaded twice at a time", async () => {
    const file = fileOf(MIB);
    const first = uploadOf(file);
    const done = first.run();
    await assert.rejects(uploadOf(file).run(), failsWith("busy"));
    await done;
    await checkFinished(file);
    await uploadOf(file).run();
  });
});

describe("the end", () => {
  test("another checksum, or another size, is an error", async () => {
    for (const stated of [{ crc32c: "AAAAAA==" }, { size: "5" }, { size: 5 }]) {
      server.stated = stated;
      const upload = uploadOf(fileOf(MIB));
      await assert.rejects(upload.run(), failsWith("media-differs"));
      assert.equal(upload.error?.resumable, false);
      assert.deepEqual(await journal.list(), []);
    }
  });

  test("a resource that states neither is accepted", async () => {
    server.stated = { crc32c: undefined, size: undefined };
    await uploadOf(fileOf(MIB)).run();
    server.stated = { crc32c: 7, size: null };
    await uploadOf(fileOf(MIB)).run();
  });

  test("the checksum is not compared if that is not wanted", async () => {
    server.stated = { crc32c: "AAAAAA==" };
    await uploadOf(fileOf(MIB), { verify: false }).run();
  });

  test("a file that changes while it is sent fails", async () => {
    const file = fileOf(MIB);
    let readable = true;
    const slice = file.slice.bind(file);
    file.slice = (...range) => {
      if (readable) return slice(...range);
      const gone = slice(0, 0);
      gone.arrayBuffer = () => Promise.reject(new DOMException("gone", "NotReadableError"));
      return gone;
    };
    server.faults.data.push("cut");
    const upload = uploadOf(file);
    upload.on("state", ({ state }) => (readable = state !== "sending"));
    await assert.rejects(upload.run(), failsWith("file-changed"));
    assert.deepEqual(await journal.list(), []);
  });

  test("progress begins at what is committed and ends at the size", async () => {
    const file = fileOf(4 * Q);
    const upload = uploadOf(file, { chunkSize: Q });
    const committed: number[] = [];
    upload.on("progress", ({ progress }) => committed.push(progress.committed));
    await upload.run();
    assert.deepEqual([...new Set(committed)], [0, Q, 2 * Q, 3 * Q, 4 * Q]);
    assert.deepEqual(upload.progress, {
      sent: 4 * Q,
      committed: 4 * Q,
      total: 4 * Q,
      rate: null,
      remaining: null,
    });
  });

  test("states follow one another, and events come once", async () => {
    const upload = uploadOf(fileOf(MIB));
    const states: string[] = [];
    let finished = 0;
    upload.on("state", ({ state }) => states.push(state));
    upload.on("finished", () => finished++);
    server.faults.data.push("cut");
    await upload.run();
    const expected = ["starting", "sending", "waiting", "starting", "sending"];
    assert.deepEqual(states.filter((state) => state !== "verifying"), [...expected, "finished"]);
    assert.equal(finished, 1);
    await assert.rejects(upload.run(), TypeError);
  });

  test("an error that is no UploadError becomes one", async () => {
    const cause = new RangeError("a bug of the page");
    const upload = uploadOf(fileOf(10), { send: () => Promise.reject(cause) });
    await assert.rejects(upload.run(), failsWith("internal"));
    assert.equal(upload.error?.cause, cause);
    assert.equal(upload.state, "failed");
  });
});
