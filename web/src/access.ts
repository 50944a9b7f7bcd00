// What a request needs to be let in, and where media and tokens may go.

import { UploadError } from "./errors.js";
import { isPrivate, mayReceiveMedia } from "./origins.js";
import type { Request } from "./transport.js";

export interface AccessOptions {
  /** The upload URL, or a signed link. A relative one is relative to the page. */
  url: string | URL;
  /**
   * A bearer token, or a function that returns one; it is called again, with `refused`, after a
   * 401. A token goes to the origin of the URL alone, over https or to this machine.
   */
  token?: string | ((refused: boolean) => string | Promise<string>) | undefined;
  /** Whether a token may go over plain http to another machine. Default: false. */
  allowPlainHttp?: boolean | undefined;
  /** Further headers of all requests to the origin of the URL. */
  headers?: Record<string, string> | undefined;
  /** Whether cookies go to another origin, too. Default: false. */
  credentials?: boolean | undefined;
  /** Other origins than that of the URL whose sessions may have the media. Default: none. */
  sessionOrigins?: readonly string[] | undefined;
}

export class Access {
  readonly url: URL;
  readonly credentials: boolean;
  readonly #options: AccessOptions;
  #token: string | undefined;

  constructor(options: AccessOptions) {
    this.url = absolute(options.url);
    this.credentials = options.credentials ?? false;
    this.#options = options;
    if (options.token !== undefined && !options.allowPlainHttp && !isPrivate(this.url)) {
      throw new TypeError("a token is sent over https alone, unless allowPlainHttp is set");
    }
  }

  /** Whether another token can be had after a 401. */
  get refreshable(): boolean {
    return typeof this.#options.token === "function";
  }

  /** Whether a session may have the media. */
  allows(session: URL): boolean {
    return mayReceiveMedia(this.url, session, this.#options.sessionOrigins ?? []);
  }

  /** Adds what only the origin of the upload URL may see. */
  async authorize(request: Request): Promise<void> {
    if (new URL(request.url).origin !== this.url.origin) return;
    Object.assign(request.headers, this.#options.headers);
    if (this.#options.token === undefined) return;
    if (this.#token === undefined) await this.refresh(false);
    request.headers["Authorization"] = `Bearer ${this.#token}`;
  }

  /** Gets a token; after a refused one another. */
  async refresh(refused = true): Promise<void> {
    const { token } = this.#options;
    try {
      this.#token = typeof token === "function" ? await token(refused) : token;
    } catch (cause) {
      throw new UploadError("no-token", "This page has no token", { resumable: true, cause });
    }
  }
}

/** A URL, relative to the page if there is one. */
export function absolute(url: string | URL): URL {
  return new URL(url, globalThis.document?.baseURI);
}
