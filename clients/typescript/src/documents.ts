/** What a service signs: manifests, releases, rounds and newer keys. Releases are chained. */
import { fromHex, toHex } from "./entropy.js";
import { SignatureError } from "./errors.js";

export interface Statement {
  kind: "manifest" | "release" | "round" | "key";
  run: string;
  manifest: string; // its digest; of the manifest itself, empty
  generation: number;
  body: string; // the digest of the bytes that are shown
  previous?: string; // the digest of the statement before, of releases
}

export interface SigningKey {
  id: string;
  public: string;
  endorsed_by: string;
  endorsement: string;
}

/** A statement as RFC 8785 writes it: names in order, no spaces. */
export function statementBytes(statement: Statement): Uint8Array<ArrayBuffer> {
  const { kind, run, manifest, generation, body, previous = "" } = statement;
  const ordered = { body, format: "confide-statement/1", generation, kind, manifest, previous, run };
  return new TextEncoder().encode(JSON.stringify(ordered));
}

export async function digest(data: Uint8Array<ArrayBuffer>): Promise<string> {
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", data)));
}

export async function checkSignature(key: string, signature: string, data: Uint8Array<ArrayBuffer>): Promise<void> {
  let valid = false;
  try {
    const imported = await crypto.subtle.importKey("raw", fromHex(key), { name: "Ed25519" }, false, ["verify"]);
    valid = await crypto.subtle.verify({ name: "Ed25519" }, imported, fromHex(signature), data);
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotSupportedError") throw error; // an old browser
  }
  if (!valid) throw new SignatureError("the signature is not that of the run's key about these bytes");
}

/** The keys of a run by id: the trusted one, and those that a key before them has endorsed. */
export async function checkChain(keys: readonly SigningKey[], trusted: string): Promise<Map<string, string>> {
  const found = new Map([[await keyId(trusted), trusted]]);
  for (const key of keys) {
    const id = await keyId(key.public);
    if (found.has(id)) continue;
    const by = found.get(key.endorsed_by);
    if (by === undefined) throw new SignatureError("a key of the run was endorsed by none of its keys");
    const body = await digest(fromHex(key.public));
    await checkSignature(by, key.endorsement, statementBytes({ kind: "key", run: "", manifest: "", generation: 0, body }));
    found.set(id, key.public);
  }
  return found;
}

async function keyId(key: string): Promise<string> {
  return (await digest(fromHex(key))).slice(0, 16);
}
