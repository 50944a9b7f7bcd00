// The component in a real Chromium, against a windlass binary.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";

import { chromium } from "playwright-core";
import type { BrowserContext, Locator, Page } from "playwright-core";

import { MIB } from "../replies.js";
import { TOKEN, Windlass } from "../windlass.js";
import { CuttingProxy } from "./proxy.js";
import { Site } from "./site.js";

/** Where screenshots go, for people to look at. */
const SHOTS = process.env["SCREENSHOTS"];

let folder: string;
let profile: string;
let server: Windlass;
let proxy: CuttingProxy;
let site: Site;
let context: BrowserContext;
let address: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-web-"));
  profile = join(folder, "profile");
  site = await Site.start();
  server = await Windlass.start({ cors_origins: site.url });
  proxy = await CuttingProxy.start(server.url);
  address = site.page("/", { url: `${proxy.url}/upload/farm/v1/animals`, "name-field": "name" });
  context = await launch();
});

after(async () => {
  await context?.close();
  proxy?.close();
  site?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

afterEach(async () => {
  await context.setOffline(false);
  proxy.rate = Infinity;
  proxy.cuts = [];
  site.policy = "";
  for (const page of context.pages()) await page.close();
});

function launch(): Promise<BrowserContext> {
  return chromium.launchPersistentContext(profile, {
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: ["--disable-dev-shm-usage", "--disable-gpu"],
    chromiumSandbox: process.getuid?.() !== 0,
    viewport: { width: 1000, height: 700 },
  });
}

/** A file on disk, of bytes that depend on its name and size. */
function fileOf(name: string, size: number): string {
  const bytes = Buffer.alloc(size, createHash("sha512").update(`${name} ${size}`).digest());
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, bytes);
  return path;
}

async function open(url = address): Promise<Page> {
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  // Chromium is asked to hand out choosers now: at the first wait for one it may be too late.
  page.on("filechooser", () => {});
  await page.goto(url);
  await page.evaluate(() => {
    const results: unknown[] = [];
    Object.assign(window, { results });
    addEventListener("upload-finished", (event) => results.push(event.detail.resource));
  });
  return page;
}

async function choose(page: Page, ...paths: string[]): Promise<void> {
  await page.locator("input[type=file]").first().setInputFiles(paths);
}

/** The line of an upload of this page. */
function row(page: Page, name: string): Locator {
  const list = page.locator("ul").first();
  return list.locator("li", { has: page.getByText(name, { exact: true }) });
}

/** The ids of the resources that this page has made, when there are so many. */
async function finished(page: Page, count = 1): Promise<string[]> {
  const results = () => (window as unknown as { results: { id: string }[] }).results;
  const enough = (n: number) => (window as never as { results: [] }).results.length >= n;
  await page.waitForFunction(enough, count);
  return (await page.evaluate(results)).map(({ id }) => id);
}

async function checkMedia(id: string, path: string): Promise<void> {
  const hash = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
  assert.equal(hash(await server.media(id)), hash(readFileSync(path)));
}

/** Bytes that have passed are at least so many more than now. */
async function passes(bytes: number): Promise<void> {
  const end = proxy.passed + bytes;
  while (proxy.passed < end) await new Promise((resolve) => setTimeout(resolve, 20));
}

describe("uploads", () => {
  test("a file is uploaded from a page of another origin", async () => {
    const page = await open();
    const path = fileOf("cow.jpg", 3 * MIB + 7);
    await choose(page, path);
    const [id] = await finished(page);
    await checkMedia(id!, path);
    await row(page, "cow.jpg").getByText("Finished").waitFor();
  });

  test("200 MB arrive through a proxy that cuts three times", async () => {
    const page = await open();
    const path = fileOf("big.bin", 200_000_000);
    proxy.passed = 0;
    proxy.cuts = [20e6, 70e6, 130e6];
    await choose(page, path);
    const [id] = await finished(page);
    await checkMedia(id!, path);
    assert.equal(proxy.cuts.length, 0);
    assert.ok(proxy.passed < 300e6, `${proxy.passed} bytes were sent`);
  });

  test("five files at once", async () => {
    const page = await open();
    const paths = [1, 2, 3, 4, 5].map((n) => fileOf(`five-${n}.png`, n * 500_000));
    await choose(page, ...paths);
    await finished(page, 5);
    await page.getByText("5 of 5 finished, 100 % of 7.5 MB").waitFor();
  });

  test("a folder of 300", async () => {
    const page = await open();
    for (let n = 0; n < 300; n++) fileOf(`many/${n % 7}/${n}.txt`, 1000 + n);
    await page.locator("input[type=file]").nth(1).setInputFiles(join(folder, "many"));
    await finished(page, 300);
    await page.getByText("300 of 300 finished").waitFor();
    const names = await page.evaluate(() =>
      (window as never as { results: { name: string }[] }).results.map(({ name }) => name),
    );
    assert.equal(new Set(names).size, 300);
    assert.ok(names.includes("many/3/10.txt"));
  });

  test("what is dropped and what is pasted", async () => {
    const page = await open();
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
      const element = document.querySelector("windlass-upload")!;
      element.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
      const pasted = new DataTransfer();
      pasted.items.add(new File(["pasted"], "pasted.txt", { type: "text/plain" }));
      document.body.dispatchEvent(
        new ClipboardEvent("paste", { clipboardData: pasted, bubbles: true, cancelable: true }),
      );
    });
    await finished(page, 2);
    await row(page, "dropped.txt").getByText("Finished").waitFor();
    await row(page, "pasted.txt").getByText("Finished").waitFor();
  });

  test("an empty file", async () => {
    const page = await open();
    const path = fileOf("empty.txt", 0);
    await choose(page, path);
    const [id] = await finished(page);
    await checkMedia(id!, path);
  });

  test("the checksum is compared where the page's policy forbids workers", async () => {
    site.policy = "worker-src 'none'";
    const page = await open();
    const path = fileOf("policy.jpg", 2 * MIB);
    await choose(page, path);
    const [id] = await finished(page);
    await checkMedia(id!, path);
  });

  test("the checksum is computed in a worker", async () => {
    const page = await open();
    const worker = page.waitForEvent("worker");
    await choose(page, fileOf("worker.jpg", 2 * MIB));
    await worker;
    await finished(page);
  });

  test("hostile names are shown as text", async () => {
    const page = await open();
    const markup = "<img src=x onerror=alert(1)>.txt";
    await page.evaluate((name) => {
      const file = (name: string) => new File(["x"], name, { type: "text/plain" });
      const long = `${"long ".repeat(200_000)}.txt`;
      document.querySelector("windlass-upload")!.add([
        file(name),
        file("photo\u202egnp.exe.txt"),
        file(long),
        new File(["x"], "<b>refused</b>.html", { type: "text/html" }),
      ]);
      addEventListener("error", (event) => Object.assign(window, { failed: event.message }));
    }, markup.replaceAll("/", ":"));
    await page.getByText(markup).first().waitFor();
    await page.getByText("photo\ufffdgnp.exe.txt").first().waitFor();
    await page.getByText("<b>refused</b>.html").first().waitFor();
    await row(page, "<b>refused</b>.html").getByText("status 400").waitFor();
    assert.equal(await page.locator("li img, li b").count(), 0);
    const longest = await page.evaluate(() => document.querySelector("windlass-upload")!
      .shadowRoot!.querySelector("ul")!.textContent!.length);
    assert.ok(longest < 5000, `${longest} characters are shown`);
  });
});

describe("the user", () => {
  test("pauses and resumes", async () => {
    const page = await open();
    const path = fileOf("pause.bin", 20 * MIB);
    proxy.rate = 10e6;
    await choose(page, path);
    await passes(5 * MIB);
    const item = row(page, "pause.bin");
    await item.getByRole("button", { name: "Pause:" }).click();
    await item.getByText("Paused at").waitFor();
    proxy.rate = Infinity;
    proxy.take();
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.deepEqual(proxy.take(), []);
    await item.getByRole("button", { name: "Resume:" }).click();
    const [id] = await finished(page);
    await checkMedia(id!, path);
  });

  test("cancels, and nothing is left", async () => {
    const page = await open();
    proxy.rate = 5e6;
    await choose(page, fileOf("cancel.bin", 20 * MIB));
    await passes(2 * MIB);
    proxy.take();
    await row(page, "cancel.bin").getByRole("button", { name: "Cancel:" }).click();
    await row(page, "cancel.bin").waitFor({ state: "detached" });
    while (!proxy.take().some((line) => line.startsWith("DELETE"))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await page.reload();
    await page.getByText("Choose files").waitFor();
    assert.equal(await page.getByText("cancel.bin").isVisible(), false);
  });

  test("is told of a type that is not accepted, and may try again after a failure", async () => {
    const page = await open();
    await choose(page, fileOf("page.html", 1000));
    const item = row(page, "page.html");
    await item.getByText("status 400").waitFor();
    await item.getByRole("button", { name: "Try again" }).click();
    await item.getByText("status 400").waitFor();
    await item.getByRole("button", { name: "Remove" }).click();
    await item.waitFor({ state: "detached" });
  });

  test("is told of files that the page does not take", async () => {
    const url = `${proxy.url}/upload/farm/v1/animals`;
    const page = await open(site.page("/some", { url, accept: "image/*", "max-size": "1000" }));
    await choose(page, fileOf("large.png", 1001));
    await page.getByText("large.png is larger than 1 kB").waitFor();
    await choose(page, fileOf("text.txt", 10));
    await page.getByText("text.txt has a type that is not accepted here").waitFor();
  });

  test("does all by keyboard", async () => {
    const url = `${proxy.url}/upload/farm/v1/animals`;
    const page = await open(site.page("/keys", { url, accept: "*/*" }));
    proxy.rate = 5e6;
    await page.keyboard.press("Tab");
    const first = await page.evaluate(() => {
      const { activeElement } = document.querySelector("windlass-upload")!.shadowRoot!;
      return activeElement?.textContent;
    });
    assert.equal(first, "Choose files");
    const chooser = page.waitForEvent("filechooser");
    await page.keyboard.press("Enter");
    await (await chooser).setFiles(fileOf("keys.bin", 20 * MIB));
    await passes(MIB);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Space");
    await row(page, "keys.bin").getByText("Paused at").waitFor();
    const name = await page.evaluate(() => {
      const { activeElement } = document.querySelector("windlass-upload")!.shadowRoot!;
      return activeElement!.getAttribute("aria-label");
    });
    assert.equal(name, "Resume: keys.bin");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await row(page, "keys.bin").waitFor({ state: "detached" });
    const focused = await page.evaluate(() => {
      const { activeElement } = document.querySelector("windlass-upload")!.shadowRoot!;
      return activeElement!.textContent;
    });
    assert.equal(focused, "Choose files");
  });
});

describe("an upload continues", () => {
  /** Begins an upload of 30 MiB and leaves the page in its middle, as `leave` does. */
  async function begin(name: string, leave: (page: Page) => Promise<void>): Promise<string> {
    const page = await open();
    const path = fileOf(name, 30 * MIB);
    proxy.rate = 10e6;
    await choose(page, path);
    await passes(10 * MIB);
    await leave(page);
    proxy.rate = Infinity;
    // What has not reached the server is not counted below.
    await new Promise((resolve) => setTimeout(resolve, 300));
    proxy.passed = 0;
    proxy.take();
    return path;
  }

  /** The page lists the upload; with the file chosen again it goes on where it was. */
  async function goOn(page: Page, path: string, name: string): Promise<void> {
    const item = page.locator("section li", { has: page.getByText(name) });
    await item.getByText(/About [1-9]\d % of 31 MB sent/).waitFor();
    const chooser = page.waitForEvent("filechooser");
    await item.getByRole("button", { name: "Choose the file again" }).click();
    await (await chooser).setFiles(path);
    const [id] = await finished(page);
    await checkMedia(id!, path);
    const [first] = proxy.take();
    assert.match(first ?? "", /^(OPTIONS|PUT)/);
    assert.ok(proxy.passed < 28 * MIB, `${proxy.passed} bytes were sent again`);
    await item.waitFor({ state: "detached" });
  }

  test("after a reload", async () => {
    const path = await begin("reload.bin", (page) => page.reload().then(() => {}));
    await goOn(await open(), path, "reload.bin");
  });

  test("after a crash of its tab", async () => {
    const path = await begin("crash.bin", async (page) => {
      const crashed = page.waitForEvent("crash");
      page.goto("chrome://crash").catch(() => {});
      await crashed;
      await page.close();
    });
    await goOn(await open(), path, "crash.bin");
  });

  test("after the whole browser was closed", async () => {
    const path = await begin("closed.bin", () => context.close());
    context = await launch();
    await goOn(await open(), path, "closed.bin");
  });

  test("with a handle, without choosing the file again", async () => {
    const name = "handle.bin";
    const page = await open();
    proxy.rate = 10e6;
    await page.evaluate(async (name) => {
      const root = await navigator.storage.getDirectory();
      const handle = await root.getFileHandle(name, { create: true });
      const writable = await handle.createWritable();
      await writable.write(new Uint8Array(20_000_000).fill(7));
      await writable.close();
      const file = await handle.getFile();
      document.querySelector("windlass-upload")!.add([{ file, path: name, handle }]);
    }, name);
    await passes(5 * MIB);
    await page.close();
    proxy.rate = Infinity;
    const later = await open();
    await later.getByRole("button", { name: `Continue: ${name}` }).click();
    const [id] = await finished(later);
    assert.deepEqual(await server.media(id), Buffer.alloc(20_000_000, 7));
  });

  test("not with another file", async () => {
    await begin("other.bin", (page) => page.close());
    const page = await open();
    const item = page.locator("section li", { has: page.getByText("other.bin") });
    const chooser = page.waitForEvent("filechooser");
    await item.getByRole("button", { name: "Choose the file again" }).click();
    await (await chooser).setFiles(fileOf("another.bin", 1000));
    await page.getByText("This is not the file that was begun: other.bin").waitFor();
    await item.getByRole("button", { name: "Discard" }).click();
    await item.waitFor({ state: "detached" });
    assert.ok(proxy.take().some((line) => line.startsWith("DELETE")));
  });

  test("in one tab at a time", async () => {
    const first = await open();
    const second = await open();
    const path = fileOf("tabs.bin", 20 * MIB);
    proxy.rate = 10e6;
    await choose(first, path);
    await passes(2 * MIB);
    await choose(second, path);
    await second.getByText("being uploaded already").waitFor();
    proxy.rate = Infinity;
    const [id] = await finished(first);
    await checkMedia(id!, path);
  });

  test("when the network is back", async () => {
    const page = await open();
    const path = fileOf("network.bin", 20 * MIB);
    proxy.rate = 10e6;
    await choose(page, path);
    await passes(3 * MIB);
    await context.setOffline(true);
    // Chromium lets a request that is under way go on, and repeats it itself.
    proxy.cuts = Array(50).fill(0);
    await page.getByText("there is no network").waitFor();
    proxy.cuts = [];
    proxy.rate = Infinity;
    await context.setOffline(false);
    const [id] = await finished(page);
    await checkMedia(id!, path);
  });
});

describe("credentials", () => {
  let closed: Windlass;

  before(async () => {
    closed = await Windlass.start({ cors_origins: site.url }, true);
  });

  after(() => closed.stop());

  test("a signed link, with what it allows", async () => {
    const url = await closed.sign("--max-size", "2MB", "--type", "image/*", "--origin", site.url);
    const page = await open(site.page("/link", { url }));
    await choose(page, fileOf("link.png", 1_500_000), fileOf("link.txt", 10));
    await finished(page);
    await row(page, "link.png").getByText("Finished").waitFor();
    await row(page, "link.txt").locator(".status", { hasText: "status 4" }).waitFor();
    await choose(page, fileOf("large.png", 2_500_000));
    await row(page, "large.png").locator(".status", { hasText: "status 413" }).waitFor();
    const shown = await page.locator("windlass-upload").innerText();
    assert.doesNotMatch(shown, /X-Windlass-Link|1\.k\./);
  });

  test("an expired link, and one for another origin, are refused", async () => {
    const expired = await closed.sign("--expires", "1s");
    await new Promise((resolve) => setTimeout(resolve, 2100));
    const others = await closed.sign("--origin", "https://other.example");
    for (const [at, url] of [["/expired", expired], ["/others", others]] as const) {
      const page = await open(site.page(at, { url }));
      await choose(page, fileOf("refused.png", 10));
      await row(page, "refused.png").locator(".status", { hasText: "status 403" }).waitFor();
    }
  });

  test("a bearer token that a function returns", async () => {
    const page = await open(site.page("/token", { url: closed.uploads }));
    await page.evaluate((right) => {
      const asked: boolean[] = [];
      const token = (refused: boolean) => (asked.push(refused), refused ? right : "expired");
      document.querySelector("windlass-upload")!.options = { token };
      Object.assign(window, { asked });
    }, TOKEN);
    await choose(page, fileOf("token.png", 1000));
    await finished(page);
    const asked = await page.evaluate(() => (window as never as { asked: boolean[] }).asked);
    assert.deepEqual(asked, [false, true]);
  });

  test("without credentials the reason is shown", async () => {
    const page = await open(site.page("/none", { url: closed.uploads }));
    await choose(page, fileOf("none.png", 1000));
    await row(page, "none.png").locator(".status", { hasText: "status 401" }).waitFor();
  });

  test("a server that does not know the page's origin is named as a reason", async () => {
    const stranger = await Site.start();
    const url = `${proxy.url}/upload/farm/v1/animals`;
    const page = await open(stranger.page("/", { url }));
    await page.evaluate(() => {
      document.querySelector("windlass-upload")!.options = { retryPolicy: { waits: 1, unit: 10 } };
    });
    await choose(page, fileOf("stranger.png", 10));
    await row(page, "stranger.png").getByText("this page may not use the server").waitFor();
    stranger.close();
  });
});

describe("how it looks", () => {
  const axe = readFileSync("node_modules/axe-core/axe.min.js", "utf8");

  const STATES = ["pausing.bin", "sending.bin", "other.bin"];

  /** A page with uploads in several states. */
  async function severalStates(page: Page): Promise<void> {
    proxy.rate = 3e6;
    await choose(page, fileOf("A cow in the fields.jpg", 300_000), fileOf("page.html", 1000));
    await finished(page);
    await page.getByText("status 400").waitFor();
    await choose(page, fileOf("Ein langer Name von einer Datei mit vielen Wörtern.bin", 30 * MIB));
    await choose(page, ...STATES.map((name) => fileOf(name, 30 * MIB)));
    await row(page, "pausing.bin").getByRole("button", { name: "Pause:" }).click();
    await row(page, "pausing.bin").getByText("Paused").waitFor();
    await passes(4 * MIB);
  }

  const views = [
    ["light", 1000], ["dark", 1000], ["light", 360], ["dark", 360], ["light", 3840],
  ] as const;
  for (const [colorScheme, width] of views) {
    test(`${colorScheme}, ${width} px: axe finds nothing, nothing is cut off`, async () => {
      const page = await open();
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      await severalStates(page);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() =>
        (window as never as { axe: { run(): Promise<{ violations: unknown[] }> } }).axe.run(),
      );
      assert.deepEqual(violations, []);
      const [scrolls, wide] = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        return [scrollWidth, clientWidth];
      });
      assert.ok(scrolls! <= wide!, `${scrolls} px in ${wide}`);
      if (SHOTS) {
        mkdirSync(SHOTS, { recursive: true });
        await page.screenshot({ path: join(SHOTS, `${colorScheme}-${width}.png`), fullPage: true });
      }
      await page.getByRole("button", { name: "Cancel all" }).click();
      for (const name of STATES) await row(page, name).waitFor({ state: "detached" });
    });
  }

  test("unfinished uploads of an earlier page", async () => {
    const page = await open();
    proxy.rate = 5e6;
    await choose(page, fileOf("Left behind.bin", 20 * MIB));
    await passes(5 * MIB);
    await page.reload();
    await page.getByText("Not finished earlier").waitFor();
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() =>
      (window as never as { axe: { run(): Promise<{ violations: unknown[] }> } }).axe.run(),
    );
    assert.deepEqual(violations, []);
    if (SHOTS) await page.screenshot({ path: join(SHOTS, "unfinished.png"), fullPage: true });
    const discard = page.getByRole("button", { name: "Discard: Left behind.bin" });
    await discard.click();
    await discard.waitFor({ state: "detached" });
  });
});
