/**
 * What a service signs: manifests, releases, rounds and newer keys. Releases are chained.
 *
 * The bytes of a statement are a format, which confide/service/documents.py writes: nothing in
 * `statementBytes` may change.
 */
import { fromHex, toHex } from "./entropy.js";
import { SignatureError } from "./errors.js";

export interface Statement {
  kind: "manifest" | "release" | "round" | "key";
  run: string;
  /** The digest of the run's manifest; empty in the statement of the manifest itself. */
  manifest: string;
  generation: number;
  /** The digest of the bytes that are shown. */
  body: string;
  /** The digest of the statement before it, in statements of releases. */
  previous?: string;
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
  const format = "confide-statement/1";
  const ordered = { body, format, generation, kind, manifest, previous, run };
  return new TextEncoder().encode(JSON.stringify(ordered));
}

export async function digest(data: Uint8Array<ArrayBuffer>): Promise<string> {
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", data)));
}

export async function checkSignature(
  key: string,
  signature: string,
  data: Uint8Array<ArrayBuffer>,
): Promise<void> {
  let valid = false;
  try {
    const algorithm = { name: "Ed25519" };
    const publicKey = await crypto.subtle.importKey("raw", fromHex(key), algorithm, false, [
      "verify",
    ]);
    valid = await crypto.subtle.verify(algorithm, publicKey, fromHex(signature), data);
  } catch (error) {
    // An old browser knows no Ed25519. This is no reason to say that the signature is wrong.
    if (error instanceof DOMException && error.name === "NotSupportedError") throw error;
  }
  if (!valid) {
    throw new SignatureError("the signature is not that of the run's key about these bytes");
  }
}

/** The keys of a run by id: the trusted one, and those that a key before them has endorsed. */
export async function checkChain(
  keys: readonly SigningKey[],
  trusted: string,
): Promise<Map<string, string>> {
  const checked = new Map([[await keyId(trusted), trusted]]);
  for (const key of keys) {
    const id = await keyId(key.public);
    if (checked.has(id)) continue;
    const endorser = checked.get(key.endorsed_by);
    if (endorser === undefined) {
      throw new SignatureError("a key of the run was endorsed by none of its keys");
    }
    const body = await digest(fromHex(key.public));
    const statement: Statement = { kind: "key", run: "", manifest: "", generation: 0, body };
    await checkSignature(endorser, key.endorsement, statementBytes(statement));
    checked.set(id, key.public);
  }
  return checked;
}

async function keyId(key: string): Promise<string> {
  return (await digest(fromHex(key))).slice(0, 16);
}
