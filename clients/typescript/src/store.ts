/** Where a device keeps its state: the message before it is sent, the newest release that was seen. One store for one person in one run. */

export interface Store {
  read(): Promise<string | null>;
  /**
   * Replace what is stored by `change` of it, so that nobody else changes it meanwhile, and return when it is durable. What `change` throws
   * is thrown, and nothing is stored.
   */
  update(change: (kept: string | null) => string): Promise<string>;
}

/** For tests, and for devices that must not remember anything: whoever reloads it may report twice. */
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
      const made = change(localStorage.getItem(this.name));
      localStorage.setItem(this.name, made);
      return made;
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
    return (await done(table.get(this.name) as IDBRequest<string | undefined>)) ?? null;
  }

  async update(change: (kept: string | null) => string): Promise<string> {
    const database = await this.open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction("devices", "readwrite", { durability: "strict" });
      const table = transaction.objectStore("devices");
      const found = table.get(this.name) as IDBRequest<string | undefined>;
      let made: string;
      let thrown: unknown;
      found.onsuccess = () => {
        try {
          made = change(found.result ?? null);
          table.put(made, this.name);
        } catch (error) {
          thrown = error;
          transaction.abort();
        }
      };
      transaction.oncomplete = () => resolve(made);
      transaction.onabort = () => reject(thrown ?? transaction.error);
    });
  }

  private open(): Promise<IDBDatabase> {
    if (this.opened === null) {
      const request = indexedDB.open(this.database, 1);
      request.onupgradeneeded = () => request.result.createObjectStore("devices");
      this.opened = done(request);
    }
    return this.opened;
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
