// One line of the component's list. All that comes from a file or a server is set as text.

import type { Resource } from "./reply.js";
import { shownName } from "./texts.js";
import type { Texts } from "./texts.js";
import type { Upload } from "./upload.js";

/** What a row's buttons do. */
export interface RowActions {
  pause(upload: Upload): void;
  resume(upload: Upload): void;
  retry(upload: Upload): void;
  remove(upload: Upload): void;
  /** Where a finished file can be had; null for no link. */
  link(resource: Resource): string | null;
}

export class Row {
  readonly element = document.createElement("li");
  readonly #upload: Upload;
  readonly #texts: Texts;
  readonly #actions: RowActions;
  readonly #name: string;
  readonly #title = child("span", "name");
  readonly #status = child("span", "status");
  readonly #progress = document.createElement("progress");
  readonly #run: HTMLButtonElement;
  readonly #end: HTMLButtonElement;

  constructor(upload: Upload, texts: Texts, actions: RowActions) {
    this.#upload = upload;
    this.#texts = texts;
    this.#actions = actions;
    this.#name = shownName(upload.source.path);
    this.#run = button("", () => this.#toggle());
    this.#end = button("", () => actions.remove(upload));
    this.#title.append(isolated(this.#name));
    this.#progress.setAttribute("aria-label", this.#name);
    const buttons = child("div", "actions");
    buttons.append(this.#run, this.#end);
    this.element.append(this.#title, this.#status, buttons, this.#progress);
    this.update();
  }

  /** Shows what the upload is doing now. */
  update(): void {
    const { state, progress } = this.#upload;
    this.element.className = state;
    this.#status.textContent = this.#statusText();
    this.#progress.hidden = state === "finished" || state === "failed";
    // Nothing to send is nothing to wait for.
    this.#progress.max = Math.max(1, progress.total);
    this.#progress.value = progress.sent;
    const runs = runAction(state);
    this.#run.hidden = runs === null;
    if (runs) this.#label(this.#run, this.#texts[runs]);
    const ended = state === "finished" || state === "failed";
    this.#label(this.#end, ended ? this.#texts.remove : this.#texts.cancel);
    if (state === "finished") this.#linkName();
  }

  focus(): void {
    this.#end.focus();
  }

  #label(button: HTMLButtonElement, action: string): void {
    if (button.textContent === action) return;
    button.textContent = action;
    button.setAttribute("aria-label", this.#texts.action(action, this.#name));
  }

  #toggle(): void {
    const action = runAction(this.#upload.state);
    if (action) this.#actions[action](this.#upload);
  }

  #statusText(): string {
    const { state, progress, waiting, error } = this.#upload;
    switch (state) {
      case "sending":
        return this.#texts.sending(progress);
      case "waiting":
        return waiting ? this.#texts.waiting(waiting.why, waiting.attempt, waiting.of) : "";
      case "paused":
        return this.#texts.paused(progress);
      case "failed":
        return error?.message ?? "";
      case "cancelled":
        return "";
      case "ready":
      case "starting":
      case "verifying":
      case "finished":
        return this.#texts[state];
    }
  }

  #linkName(): void {
    const { resource } = this.#upload;
    const target = resource && this.#actions.link(resource);
    if (!target || this.#title.querySelector("a")) return;
    const url = new URL(target, document.baseURI);
    if (!/^https?:$/.test(url.protocol)) return;
    const link = document.createElement("a");
    link.href = url.href;
    link.append(isolated(this.#name));
    this.#title.replaceChildren(link);
  }
}

function runAction(state: Upload["state"]): "pause" | "resume" | "retry" | null {
  switch (state) {
    case "starting":
    case "sending":
    case "waiting":
      return "pause";
    case "paused":
      return "resume";
    case "failed":
      return "retry";
    case "ready":
    case "verifying":
    case "finished":
    case "cancelled":
      return null;
  }
}

export function child(tag: string, className: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  return element;
}

export function button(text: string, press: () => void): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = text;
  element.addEventListener("click", press);
  return element;
}

/** A name of any direction within a text. */
export function isolated(name: string): HTMLElement {
  const element = document.createElement("bdi");
  element.textContent = name;
  return element;
}
