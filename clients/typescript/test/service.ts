/** A service in memory that signs as the real one does. It can lie, fail and lose answers. */
import { digest, statementBytes, type SigningKey, type Statement } from "../src/documents.js";
import { toHex } from "../src/entropy.js";
import { ROUND_FORMAT } from "../src/checks.js";
import type { RoundDocument } from "../src/policy.js";
import type { HostileAnswer } from "./hostile.js";
import { vectors } from "./vectors.js";

const encode = (value: unknown) => new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

/** The body that is signed instead of the honest one. */
function changed(honest: Uint8Array<ArrayBuffer>, { text, fields }: HostileAnswer): Uint8Array<ArrayBuffer> {
  if (text !== undefined) return encode(text) as Uint8Array<ArrayBuffer>;
  if (fields === undefined) return honest;
  const document = JSON.parse(new TextDecoder().decode(honest)) as Record<string, unknown>;
  for (const [path, value] of Object.entries(fields)) {
    const names = path.split(".");
    const last = names.pop()!;
    const part = names.reduce((inner, name) => inner[name] as Record<string, unknown>, document);
    if (value === "@missing@") delete part[last];
    else part[last] = value;
  }
  return encode(JSON.stringify(document).replace(/"@([^@]*)@"/g, "$1")) as Uint8Array<ArrayBuffer>;
}

/** The answer with the status and the headers of a lie. */
function lying(answer: Response, signed: Uint8Array<ArrayBuffer> | null, lie: HostileAnswer | null): Response {
  if (lie === null) return answer;
  const headers = new Headers(answer.headers);
  for (const [name, value] of Object.entries(lie.headers ?? {})) {
    if (value === null) headers.delete(name);
    else headers.set(name, value);
  }
  const status = lie.status ?? answer.status;
  return new Response(status === 204 ? null : (signed ?? lie.text ?? answer.body), { status, headers });
}

export interface Post {
  nonce: string;
  authorization: string;
  body: string;
}

async function newKey() {
  const pair = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"])) as CryptoKeyPair;
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  return { pair, hex: toHex(raw), id: (await digest(raw)).slice(0, 16) };
}

export class FakeService {
  generation = 0;
  posts: Post[] = [];
  /** What happens to the next requests, in order: a status, "offline", or "lost" (done, but the answer does not arrive). */
  weather: (number | "offline" | "lost")[] = [];
  retryAfter = "";
  slept: number[] = [];
  round: Partial<RoundDocument> = {};
  release = "release";
  digestOfRound = "ab".repeat(32);
  closing = false; // the next round is closed when it is asked for
  previous: string | null = null;
  hostile: HostileAnswer | null = null; // one answer that is changed before it is signed
  problem: Record<string, unknown> | undefined; // in the manifest, if it is not undefined
  private key = newKey();
  private endorsements: SigningKey[] = [];
  private digests: string[] = [];
  private seen = new Map<string, string>();

  constructor(
    readonly trust: "joint" | "local",
    readonly promise: Record<string, unknown> = {},
    readonly simulation = false,
  ) {}

  readonly sleep = async (milliseconds: number) => void this.slept.push(milliseconds);

  readonly fetch = (async (url: string, options: RequestInit) => {
    const weather = this.weather.shift();
    if (weather === "offline") throw new TypeError("Failed to fetch");
    if (typeof weather === "number") return new Response("{}", { status: weather, headers: this.retryAfter ? { "Retry-After": this.retryAfter } : {} });
    const answer = await this.answer(String(url).split("/v1/runs/demo/")[1]!, options);
    if (weather === "lost") throw new TypeError("Failed to fetch");
    return answer;
  }) as typeof fetch;

  async publicKey(): Promise<string> {
    return (await this.key).hex;
  }

  async rotate(): Promise<void> {
    const old = await this.key;
    const made = await newKey();
    const body = await digest(Uint8Array.from(made.hex.match(/../g)!, (each) => parseInt(each, 16)));
    const endorsement = await this.sign(old, { kind: "key", run: "", manifest: "", generation: 0, body });
    this.endorsements.push({ id: made.id, public: made.hex, endorsed_by: old.id, endorsement });
    this.manifest = await this.manifestOf(old.hex);
    this.key = Promise.resolve(made);
    this.manifestKey = old;
  }

  private manifest: Uint8Array<ArrayBuffer> | null = null;
  private manifestKey: Awaited<ReturnType<typeof newKey>> | null = null;

  private async manifestOf(key: string): Promise<Uint8Array<ArrayBuffer>> {
    const promise = { trust: this.trust, epsilon: 4, delta: 1e-5, relation: "replace", ...this.promise };
    return encode({ run: "demo", simulation: this.simulation, promise, problem: this.problem, key: { public: key } }) as Uint8Array<ArrayBuffer>;
  }

  private async sign(key: Awaited<ReturnType<typeof newKey>>, statement: Statement): Promise<string> {
    return toHex(new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, key.pair.privateKey, statementBytes(statement))));
  }

  private async answer(path: string, options: RequestInit): Promise<Response> {
    const key = await this.key;
    const manifest = this.manifest ?? (await this.manifestOf(key.hex));
    // The release names the digest of the manifest that is sent, also of one that lies: a device that believed it would go on.
    const sentManifest = this.hostile?.path === "manifest" ? changed(manifest, this.hostile) : manifest;
    const about = { run: "demo", manifest: await digest(sentManifest) };
    const lie = this.hostile !== null && path.split("/")[0] === this.hostile.path ? this.hostile : null;
    const signed = async (statement: Statement, honest: Uint8Array<ArrayBuffer>, by = key) => {
      const body = lie === null ? honest : changed(honest, lie);
      if (lie !== null) statement = { ...statement, body: await digest(body) };
      const headers = { signature: await this.sign(by, statement), key: by.id, digest: await digest(statementBytes(statement)) };
      const more = { generation: String(this.generation), previous: statement.previous ?? "" };
      const named = Object.entries({ ...headers, ...more }).map(([name, value]) => [`confide-${name}`, value] as [string, string]);
      return lying(new Response(body, { headers: named }), body, lie);
    };
    const releaseBody = encode(`${this.release} ${this.generation}`) as Uint8Array<ArrayBuffer>;
    const release: Statement = {
      ...about,
      kind: "release",
      generation: this.generation,
      body: await digest(releaseBody),
      previous: this.previous ?? this.digests[this.generation - 1] ?? about.manifest,
    };
    this.digests[this.generation] = await digest(statementBytes(release));
    if (path === "manifest") {
      return signed({ kind: "manifest", run: "demo", manifest: "", generation: 0, body: about.manifest }, manifest, this.manifestKey ?? key);
    }
    if (path === "keys") return lying(Response.json({ keys: this.endorsements }), null, lie);
    if (path === "release") return signed(release, releaseBody);
    if (path.startsWith("round/")) {
      if (this.closing) {
        this.closing = false;
        this.generation += 1;
        return Response.json({ type: "/problems/late" }, { status: 410 });
      }
      const { channel, statistic } = vectors.messages.find((each) => each.name === "codebook")!;
      const local = this.trust === "local" ? { channel, statistic } : {};
      const policies = [{ kind: "tabular", actions: [[1, 0, 1]], choices: 2 }];
      const body = encode({ format: ROUND_FORMAT, run: "demo", round: this.digestOfRound, generation: this.generation, policies, shares: [1], ...local, ...this.round }) as Uint8Array<ArrayBuffer>;
      return signed({ ...about, kind: "round", generation: this.generation, body: await digest(body), previous: this.digests[this.generation]! }, body);
    }
    return lying(this.report(options), null, lie);
  }

  private report({ headers, body }: RequestInit): Response {
    const given = new Headers(headers);
    const post = { nonce: given.get("idempotency-key")!, authorization: given.get("authorization")!, body: new TextDecoder().decode(body as Uint8Array) };
    this.posts.push(post);
    const report = JSON.parse(post.body) as { subject: string; generation: number };
    if (report.generation !== this.generation) return Response.json({ type: "/problems/late" }, { status: 410 });
    const known = this.seen.get(report.subject);
    if (known !== undefined && known !== post.nonce) return Response.json({ type: "/problems/another-report" }, { status: 409 });
    this.seen.set(report.subject, post.nonce);
    return Response.json({ outcome: known === undefined ? "counted" : "same" }, { status: known === undefined ? 201 : 200 });
  }
}
