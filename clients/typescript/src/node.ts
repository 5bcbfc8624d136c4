/** A store in a file, for Node. */
import { open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import type { Store } from "./store.js";

/**
 * One file, replaced as a whole and on disk before it counts. Node has no locks on files: use one
 * object for a file, in one process at a time. Two processes could each store a message of their
 * own, and two noisy messages of one episode reveal more than one.
 */
export class FileStore implements Store {
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly path: string) {}

  async read(): Promise<string | null> {
    try {
      return await readFile(this.path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw error;
    }
  }

  update(change: (kept: string | null) => string): Promise<string> {
    const written = this.last.then(async () => {
      const text = change(await this.read());
      await this.write(text);
      return text;
    });
    this.last = written.catch(() => undefined);
    return written;
  }

  private async write(text: string): Promise<void> {
    const draft = `${this.path}.new`;
    const file = await open(draft, "w", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, this.path);
    const folder = await open(dirname(this.path), "r");
    await folder.sync().finally(() => folder.close());
  }
}
