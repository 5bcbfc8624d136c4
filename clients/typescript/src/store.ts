/**
 * Where a device keeps its state: the message before it is sent, and the newest release that was
 * seen. Give each person in each run a store of their own. Required for privacy: what `update`
 * returns is durable, and nobody else changes the store meanwhile.
 */

export interface Store {
  read(): Promise<string | null>;
  /**
   * Replace what is stored by `change` of it, so that nobody else changes it meanwhile, and return
   * when it is durable. What `change` throws is thrown, and nothing is stored.
   */
  update(change: (kept: string | null) => string): Promise<string>;
}

/**
 * For tests, and for devices that must not remember anything: whoever reloads it may report twice.
 */
export class MemoryStore implements Store {
  constructor(private kept: string | null = null) {}

  async read(): Promise<string | null> {
    return this.kept;
  }

  async update(change: (kept: string | null) => string): Promise<string> {
    return (this.kept = change(this.kept));
  }
}

/** The page's localStorage, for small runs; tabs take turns by the Web Locks API. */
export class LocalStorageStore implements Store {
  constructor(private readonly name: string) {}

  async read(): Promise<string | null> {
    return localStorage.getItem(this.name);
  }

  async update(change: (kept: string | null) => string): Promise<string> {
    return navigator.locks.request(this.name, () => {
      const text = change(localStorage.getItem(this.name));
      localStorage.setItem(this.name, text);
      return text;
    });
  }
}

/** The page's IndexedDB: one transaction that is on disk before it is done. */
export class IndexedDBStore implements Store {
  private opened: Promise<IDBDatabase> | null = null;

  constructor(
    private readonly name: string,
    private readonly database = "confide",
  ) {}

  async read(): Promise<string | null> {
    const table = (await this.open()).transaction("devices").objectStore("devices");
    const request = table.get(this.name) as IDBRequest<string | undefined>;
    return (await resultOf(request)) ?? null;
  }

  async update(change: (kept: string | null) => string): Promise<string> {
    const database = await this.open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction("devices", "readwrite", { durability: "strict" });
      const table = transaction.objectStore("devices");
      const reading = table.get(this.name) as IDBRequest<string | undefined>;
      let text: string;
      let thrown: unknown;
      reading.onsuccess = () => {
        try {
          text = change(reading.result ?? null);
          table.put(text, this.name);
        } catch (error) {
          thrown = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(text);
      transaction.onabort = () => reject(thrown ?? transaction.error);
    });
  }

  private open(): Promise<IDBDatabase> {
    if (this.opened === null) {
      const request = indexedDB.open(this.database, 1);
      request.onupgradeneeded = () => request.result.createObjectStore("devices");
      this.opened = resultOf(request);
    }
    return this.opened;
  }
}

function resultOf<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
