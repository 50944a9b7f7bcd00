// A windlass binary that serves while tests run.

import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

export const BINARY = process.env["PROGRAM_UNDER_TEST"] ?? "";

/** The bearer token of a server with credentials. */
export const TOKEN = randomBytes(32).toString("hex");

/** Credentials, and the key of signed links. */
const AUTH = `[[tokens]]
principal = "suite"
sha256 = "${createHash("sha256").update(TOKEN).digest("hex")}"

[[links.keys]]
id = "k"
secret = "${randomBytes(32).toString("hex")}"
`;

export class Windlass {
  readonly url: string;
  readonly #process: ChildProcess;
  readonly #folder: string;

  private constructor(process: ChildProcess, folder: string, url: string) {
    this.#process = process;
    this.#folder = folder;
    this.url = url;
  }

  /** Settings are those of docs/configuration.md, with `_` for the dot. */
  static async start(settings: Record<string, string> = {}, auth = false): Promise<Windlass> {
    // Beside the program: a temporary file system may be one that the server refuses.
    const folder = await mkdtemp(join(dirname(BINARY), "web-"));
    const options = ["--listen", "127.0.0.1:0", "--data", join(folder, "data")];
    const file = join(folder, "auth.toml");
    await writeFile(file, AUTH, { mode: 0o600 });
    if (auth) settings = { ...settings, auth_file: file };
    const env = { ...process.env };
    for (const [name, value] of Object.entries(settings)) {
      env[`WINDLASS_${name.toUpperCase()}`] = value;
    }
    const server = spawn(BINARY, ["serve", ...options, "--allow-unsafe-filesystem"], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...env, WINDLASS_LOG: "error" },
    });
    for await (const line of createInterface({ input: server.stdout! })) {
      const url = /^listening on (\S+)$/.exec(line)?.[1];
      if (!url) break;
      return new Windlass(server, folder, url);
    }
    await rm(folder, { recursive: true, force: true });
    throw new Error("the server did not start");
  }

  get uploads(): string {
    return `${this.url}/upload/farm/v1/animals`;
  }

  /** A signed link for uploads. */
  async sign(...flags: string[]): Promise<string> {
    const file = join(this.#folder, "auth.toml");
    if (!flags.includes("--expires")) flags = ["--expires", "1h", ...flags];
    const options = ["sign", "--json", "--key-file", file, ...flags, this.uploads];
    const { stdout } = await promisify(execFile)(BINARY, options);
    return (JSON.parse(stdout) as { url: string }).url;
  }

  /** The media of a resource. */
  async media(id: unknown): Promise<Buffer> {
    const reply = await fetch(`${this.url}/farm/v1/animals/${id}?alt=media`);
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    return Buffer.from(await reply.arrayBuffer());
  }

  async stop(): Promise<void> {
    this.#process.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
