// The unfinished uploads of this origin, in IndexedDB: what a later page needs to continue them.
// A record holds a session URI, which is a credential, but neither tokens nor signed links.

/** One unfinished upload. */
export interface JournalRecord {
  /** Where to, what and from which file: equal for uploads that are the same. */
  key: string;
  /** The upload URL without what signs it. */
  target: string;
  /** A credential: whoever has it can continue the upload. */
  session: string;
  path: string;
  size: number;
  type: string;
  /** See `ends`. */
  ends: string;
  /** Bytes that were sent lately. It only informs: the server knows what it has. */
  sent: number;
  /** When the session began, in milliseconds since the epoch. */
  started: number;
  handle?: FileSystemFileHandle | undefined;
}

/** Keeps records. */
export interface Journal {
  get(key: string): Promise<JournalRecord | undefined>;
  /** Keeps a new record. It is durable when the promise is fulfilled. */
  put(record: JournalRecord): Promise<void>;
  /** Keeps a record of which only `sent` has changed. It may be lost. */
  note(record: JournalRecord): Promise<void>;
  /** Deletes a record. If a power cut brings it back, the server tells what became of it. */
  delete(key: string): Promise<void>;
  /** All records, the newest first. */
  list(): Promise<JournalRecord[]>;
}

/** A session lives no longer than a week. */
const LIFETIME = 7 * 24 * 3600 * 1000;

/** So many records are kept; older ones are dropped. */
const MOST = 10_000;

const STORE = "uploads";

/** A journal in the database `windlass-upload` of this origin. */
export class IndexedDbJournal implements Journal {
  #database: Promise<IDBDatabase> | undefined;

  async get(key: string): Promise<JournalRecord | undefined> {
    const read = (store: IDBObjectStore) => store.get(key);
    const record = await this.#run<JournalRecord | undefined>("readonly", "relaxed", read);
    return record && isAlive(record) ? record : undefined;
  }

  async put(record: JournalRecord): Promise<void> {
    await this.#run("readwrite", "strict", (store) => store.put(record));
  }

  async note(record: JournalRecord): Promise<void> {
    await this.#run("readwrite", "relaxed", (store) => store.put(record));
  }

  async delete(key: string): Promise<void> {
    await this.#run("readwrite", "relaxed", (store) => store.delete(key));
  }

  async list(): Promise<JournalRecord[]> {
    const readAll = (store: IDBObjectStore) => store.getAll();
    const records = await this.#run<JournalRecord[]>("readonly", "relaxed", readAll);
    records.sort((a, b) => b.started - a.started);
    const kept = records.filter((record, n) => n < MOST && isAlive(record));
    for (const record of records) {
      if (!kept.includes(record)) await this.delete(record.key);
    }
    return kept;
  }

  async #run<T>(
    mode: IDBTransactionMode,
    durability: IDBTransactionDurability,
    act: (store: IDBObjectStore) => IDBRequest,
  ): Promise<T> {
    this.#database ??= open();
    const database = await this.#database;
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode, { durability });
      const request = act(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result as T);
      transaction.onabort = () => reject(transaction.error);
    });
  }
}

function isAlive(record: JournalRecord): boolean {
  return Date.now() - record.started < LIFETIME;
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("windlass-upload", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "key" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** A journal that ends with the page, where there is no IndexedDB, as in some private windows. */
export class MemoryJournal implements Journal {
  readonly #records = new Map<string, JournalRecord>();

  get(key: string): Promise<JournalRecord | undefined> {
    return Promise.resolve(this.#records.get(key));
  }

  put(record: JournalRecord): Promise<void> {
    this.#records.set(record.key, record);
    return Promise.resolve();
  }

  note(record: JournalRecord): Promise<void> {
    return this.put(record);
  }

  delete(key: string): Promise<void> {
    this.#records.delete(key);
    return Promise.resolve();
  }

  list(): Promise<JournalRecord[]> {
    return Promise.resolve([...this.#records.values()].sort((a, b) => b.started - a.started));
  }
}

/** Parameters of an upload URL that are credentials. */
const CREDENTIALS = ["X-Windlass-Link", "access_token", "oauth_token", "key"];

/** An upload URL without credentials: that of another link for the same is equal. */
export function targetOf(url: URL): string {
  const target = new URL(url);
  for (const name of CREDENTIALS) target.searchParams.delete(name);
  target.username = target.password = target.hash = "";
  return target.href;
}
