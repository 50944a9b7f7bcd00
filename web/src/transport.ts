// One request and its reply. A request that gets no whole reply is broken.

import type { Reply } from "./reply.js";

/** A request to send. */
export interface Request {
  method: string;
  url: string;
  headers: Record<string, string>;
  /** Null for none: its length is then stated as 0. */
  body: Blob | string | null;
}

/** How a request is sent. */
export interface SendOptions {
  /** Ends the request; what `send` returns then rejects with the signal's reason. */
  signal: AbortSignal;
  /** Called with the number of bytes of the body that have left this page. */
  onSent?: ((bytes: number) => void) | undefined;
  /** Whether cookies go to other origins, too. */
  credentials: boolean;
}

/** Sends a request. Rejects with `Broken` if no whole reply arrives. */
export type Send = (request: Request, options: SendOptions) => Promise<Reply>;

/** The connection broke, was silent for too long, or could not be established. */
export class Broken extends Error {
  override readonly name = "Broken";
}

/** Limits of one request. */
export interface Limits {
  /** Milliseconds in which some of the body must leave. */
  bodySilence: number;
  /** Milliseconds in which a reply must begin, and again in which it must end. */
  replySilence: number;
  /** The longest reply in bytes. */
  replyLength: number;
}

export const LIMITS: Limits = {
  bodySilence: 60_000,
  replySilence: 120_000,
  replyLength: 4 * 1024 * 1024,
};

/** `XMLHttpRequest`, which alone tells how much of a body has left; `fetch` where it is missing. */
export function defaultSend(limits: Limits = LIMITS): Send {
  return typeof XMLHttpRequest === "undefined" ? byFetch(limits) : byXhr(limits);
}

export function byXhr(limits: Limits): Send {
  return ({ method, url, headers, body }, { signal, onSent, credentials }) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const xhr = new XMLHttpRequest();
      const silence = new Silence(() => end(() => reject(new Broken("silent"))));
      const abort = () => end(() => reject(signal.reason));
      const end = (settle: () => void) => {
        silence.end();
        signal.removeEventListener("abort", abort);
        xhr.onload = xhr.onerror = xhr.onabort = xhr.onprogress = null;
        xhr.onreadystatechange = xhr.upload.onprogress = null;
        xhr.abort();
        settle();
      };
      signal.addEventListener("abort", abort);
      xhr.open(method, url);
      xhr.withCredentials = credentials;
      for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
      xhr.onload = () => {
        const reply = replyOf(xhr, url);
        end(() => resolve(reply));
      };
      xhr.onerror = xhr.onabort = () => end(() => reject(new Broken("no whole reply")));
      xhr.onprogress = ({ loaded }) => {
        if (loaded > limits.replyLength) end(() => reject(new Broken("too long a reply")));
      };
      xhr.onreadystatechange = () => {
        if (xhr.readyState === xhr.HEADERS_RECEIVED) silence.limit(limits.replySilence);
      };
      if (onSent) {
        xhr.upload.onprogress = ({ loaded, total }) => {
          silence.limit(loaded < total ? limits.bodySilence : limits.replySilence);
          onSent(loaded);
        };
      }
      silence.limit(onSent ? limits.bodySilence : limits.replySilence);
      xhr.send(body);
    });
}

/** Copies what is needed, as the request is ended afterwards. */
function replyOf(xhr: XMLHttpRequest, url: string): Reply {
  const status = redirected(xhr.responseURL, url) ? 0 : xhr.status;
  const headers = new Headers();
  for (const line of xhr.getAllResponseHeaders().split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return { status, header: (name) => headers.get(name), body: xhr.responseText };
}

/**
 * A page cannot keep the browser from following a redirection. What another address answered is
 * no reply of the server: it counts as one without a status.
 */
function redirected(answered: string, asked: string): boolean {
  return answered !== "" && answered !== new URL(asked).href.replace(/#.*/, "");
}

export function byFetch(limits: Limits): Send {
  return async ({ method, url, headers, body }, { signal, onSent, credentials }) => {
    const silent = new AbortController();
    const silence = new Silence(() => silent.abort());
    // Nothing tells how much of a body has left, so that no part of it can be waited for.
    if (!body) silence.limit(limits.replySilence);
    try {
      const response = await fetch(url, {
        method,
        headers,
        body,
        signal: AbortSignal.any([signal, silent.signal]),
        credentials: credentials ? "include" : "same-origin",
      });
      silence.limit(limits.replySilence);
      const text = await bounded(response, limits.replyLength);
      if (body instanceof Blob) onSent?.(body.size);
      const status = redirected(response.url, url) ? 0 : response.status;
      return { status, header: (name) => response.headers.get(name), body: text };
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof Broken ? error : new Broken("no whole reply", { cause: error });
    } finally {
      silence.end();
    }
  };
}

async function bounded(response: Response, limit: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  if (!response.body) return text;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    length += value.length;
    if (length > limit) {
      await reader.cancel();
      throw new Broken("too long a reply");
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** A timer that begins again whenever something has moved. */
class Silence {
  readonly #over: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(over: () => void) {
    this.#over = over;
  }

  limit(milliseconds: number): void {
    this.end();
    this.#timer = setTimeout(this.#over, milliseconds);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
