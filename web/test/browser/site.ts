// A site of its own origin with the built modules, as a page that uses them without a build.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

const TYPES: Record<string, string> = { html: "text/html", js: "text/javascript" };

export class Site {
  /** Paths and what is there; those that end in `.js` are modules. */
  readonly files = new Map<string, string>();
  /** The policy of all pages. */
  policy = "";
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<Site> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const site = new Site(server);
    for (const name of ["index", "element"]) {
      site.files.set(`/${name}.js`, readFileSync(`dist/${name}.js`, "utf8"));
    }
    server.on("request", ({ url }, response) => {
      const path = url!.replace(/\?.*/, "");
      const file = site.files.get(path);
      const type = TYPES[path.split(".").at(-1)!] ?? "text/html";
      response.writeHead(file === undefined ? 404 : 200, {
        "Content-Type": `${type}; charset=utf-8`,
        "Content-Security-Policy": site.policy,
      });
      response.end(file);
    });
    return site;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A page with the component; its address. */
  page(path: string, attributes: Record<string, string>, more = ""): string {
    const escaped = (value: string) => value.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    const quoted = Object.entries(attributes)
      .map(([name, value]) => `${name}="${escaped(value)}"`)
      .join(" ");
    this.files.set(
      path,
      `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
      <meta name="color-scheme" content="light dark"><title>Uploads</title>
      <script type="module" src="/element.js"></script>
      <style>body { margin: 16px; } main { max-width: 45rem; margin: auto; }</style>
      <main><h1>Uploads</h1><windlass-upload ${quoted}></windlass-upload></main>${more}</html>`,
    );
    return `${this.url}${path}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
