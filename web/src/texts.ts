// What the component says, in English. Another language replaces these texts.

import type { Progress } from "./upload.js";
import type { Rejection } from "./uploader.js";

/** The texts of the component. `name` is that of a file, in a form that can be shown. */
export interface Texts {
  drop: string;
  chooseFiles: string;
  chooseFolder: string;
  pauseAll: string;
  resumeAll: string;
  cancelAll: string;
  pause: string;
  resume: string;
  cancel: string;
  retry: string;
  remove: string;
  unfinished: string;
  continue: string;
  chooseAgain: string;
  discard: string;
  ready: string;
  starting: string;
  verifying: string;
  finished: string;
  /** The name of a button for people who do not see its row: `Pause cow.jpg`. */
  action(action: string, name: string): string;
  sending(progress: Progress): string;
  waiting(why: string, attempt: number, of: number): string;
  paused(progress: Progress): string;
  summary(finished: number, failed: number, count: number, progress: Progress): string;
  announceFinished(name: string): string;
  announceFailed(name: string, why: string): string;
  announceAll(finished: number, failed: number): string;
  rejected(name: string, why: Rejection): string;
  tooMany(most: number): string;
  unreadable: string;
  otherFile(name: string): string;
  left(progress: { sent: number; size: number }): string;
}

export const ENGLISH: Texts = {
  drop: "Drop or paste files here",
  chooseFiles: "Choose files",
  chooseFolder: "Choose a folder",
  pauseAll: "Pause all",
  resumeAll: "Resume all",
  cancelAll: "Cancel all",
  pause: "Pause",
  resume: "Resume",
  cancel: "Cancel",
  retry: "Try again",
  remove: "Remove",
  unfinished: "Not finished earlier",
  continue: "Continue",
  chooseAgain: "Choose the file again",
  discard: "Discard",
  ready: "Waits for its turn",
  starting: "Starting",
  verifying: "All is sent; comparing checksums",
  finished: "Finished",
  action: (action, name) => `${action}: ${name}`,
  sending: (progress) => `${share(progress)} of ${bytes(progress.total)}${speed(progress)}`,
  waiting: (why, attempt, of) => `Tries again (${attempt} of ${of}): ${why}`,
  paused: (progress) => `Paused at ${share(progress)} of ${bytes(progress.total)}`,
  summary: (finished, failed, count, progress) =>
    `${finished} of ${count} finished${failed > 0 ? `, ${failed} failed` : ""}, ` +
    `${share(progress)} of ${bytes(progress.total)}${speed(progress)}`,
  announceFinished: (name) => `${name} is finished`,
  announceFailed: (name, why) => `${name} has failed: ${why}`,
  announceAll: (finished, failed) =>
    `${finished} finished${failed > 0 ? `, ${failed} failed` : ""}`,
  rejected: (name, why) =>
    why.is === "size"
      ? `${name} is larger than ${bytes(why.maxSize)}`
      : `${name} has a type that is not accepted here (${why.accept})`,
  tooMany: (most) => `More than ${most} files were chosen at once`,
  unreadable: "The browser could not read what was chosen",
  otherFile: (name) => `This is not the file that was begun: ${name}`,
  left: ({ sent, size }) => `About ${share({ sent, total: size })} of ${bytes(size)} sent`,
};

/** A size in bytes with three digits or so: `1.5 MB`. */
export function bytes(count: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"] as const;
  let at = 0;
  for (; count >= 999.5 && at < units.length - 1; at++) count /= 1000;
  return new Intl.NumberFormat("en", {
    style: "unit",
    unit: units[at]!,
    unitDisplay: at === 0 ? "long" : "short",
    maximumFractionDigits: count < 10 && at > 0 ? 1 : 0,
  }).format(count);
}

function share({ sent, total }: { sent: number; total: number }): string {
  return `${total > 0 ? Math.floor((100 * sent) / total) : 0} %`;
}

function speed({ rate, remaining }: Progress): string {
  if (rate === null) return "";
  const left = remaining === null ? "" : `, ${time(remaining)} left`;
  return `, ${bytes(rate)}/s${left}`;
}

function time(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** The longest name that is shown whole. */
const LONGEST_NAME = 120;

/**
 * A name as it can be shown: what would turn the direction of a text or break its line is visible,
 * and a long name loses its middle.
 */
export function shownName(name: string): string {
  const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;
  if (name.length > LONGEST_NAME) {
    const half = LONGEST_NAME / 2;
    name = `${name.slice(0, half)}…${name.slice(-half)}`;
  }
  return name.replace(unsafe, "\ufffd").toWellFormed();
}
