/** One person's device in one run: verify what the service says, act by the round, report once. */
import { checkKeys, checkManifest, checkRound, fields, own, parseJson } from "./checks.js";
import type { Episode } from "./contribution.js";
import { checkChain, checkSignature, digest, statementBytes, type Statement } from "./documents.js";
import { fromBase64, systemEntropy, toBase64, toBigInt, toHex, type Take } from "./entropy.js";
import { InvalidDocument, isFinalRefusal, LateReport, ServiceRefused, SignatureError, StoreError } from "./errors.js";
import { messageOf, type AnsweredRound } from "./message.js";
import { act, drawnPolicy, type Policy, type RoundDocument } from "./policy.js";
import { checkAccepts, checkPromise, type Accepts, type Manifest } from "./promise.js";
import type { Store } from "./store.js";

const TRIES = 8;
const RETRY = [408, 429, 500, 502, 503, 504];
const SECONDS = 30; // for one answer
/** Seconds that a service may ask a device to wait. */
const LONGEST_WAIT = 300;
/** Bytes of one answer. */
const MOST_BYTES = 2 ** 26;

export type Outcome = "counted" | "same";
type NotCounted = "late" | "another-round";

const WHY = {
  late: "the release that the report was planned with is closed: it was not counted",
  "another-round": "the service has planned another round than the one that the report answers: it was not counted",
};

export interface DeviceOptions {
  url: string; // of the service, without /v1
  run: string;
  subject: string; // who the person is, as the service's operator knows people
  apiKey: string; // of role device
  accepts: Accepts;
  store: Store;
  key?: string; // pins the run's signing key, 64 hexadecimal digits; without it the first manifest that is seen is trusted
  fetch?: typeof fetch;
  sleep?: (milliseconds: number) => Promise<void>;
  take?: Take; // random bytes; only tests pass others than the system's
}

/** What is in the store, as JSON. */
interface Kept {
  run: string;
  subject: string;
  which: string; // of several policies: drawn before there are any data
  key?: string;
  manifest?: string;
  generation?: number;
  digest?: string;
  sent?: string; // the bytes of the report, until the service has answered
  nonce?: string;
  outcome?: Outcome | NotCounted | "refused";
  refused?: [number, string]; // the status and the kind of a refusal for good
}

interface Answer {
  status: number;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
}

export interface Round {
  generation: number;
  policy: Policy;
  document: RoundDocument;
}

export class Device {
  manifest: Manifest | null = null;
  round: Round | null = null;
  private manifestDigest = "";
  private keys = new Map<string, string>();
  private readonly base: string;
  private readonly take: Take;
  private readonly options: DeviceOptions;
  private sending: Promise<Outcome | null> | null = null;

  constructor(options: DeviceOptions) {
    checkAccepts(options.accepts);
    this.options = options;
    this.base = `${options.url.replace(/\/+$/, "")}/v1/runs/${options.run}`;
    this.take = options.take ?? systemEntropy();
  }

  // reading

  /** Verify the manifest, its promise and the current release; the round after it. */
  async join(): Promise<Round> {
    const manifest = this.manifest ?? (await this.readManifest());
    const [release, generation, answer] = await this.current();
    await this.check(answer, await this.about("round", generation, answer.body, header(release, "digest")));
    const document = checkRound(parseJson("the round", answer.body), this.options.run, generation, manifest.promise.trust === "local");
    const { which } = await this.kept();
    this.round = { generation, policy: drawnPolicy(document, BigInt(which)), document };
    return this.round;
  }

  /** The newest release and the round after it; a batch may close between the two. */
  private async current(): Promise<[Answer, number, Answer]> {
    for (let tried = 1; ; tried++) {
      const release = await this.get("release");
      const generation = await this.checkRelease(release);
      try {
        return [release, generation, await this.get(`round/${generation}`)];
      } catch (error) {
        if (!(error instanceof ServiceRefused && error.status === 410) || tried === 3) throw error;
      }
    }
  }

  private async readManifest(): Promise<Manifest> {
    const answer = await this.get("manifest");
    const manifest = checkManifest(parseJson("the manifest", answer.body));
    const key = manifest.key.public;
    const body = await digest(answer.body);
    const kept = await this.kept();
    const known = this.options.key ?? kept.key;
    if (known !== undefined && key !== known) {
      throw new SignatureError("the manifest is signed by another key than the one this device knows");
    }
    const statement: Statement = { kind: "manifest", run: this.options.run, manifest: "", generation: 0, body };
    await checkSignature(key, header(answer, "signature"), statementBytes(statement));
    if (manifest.run !== this.options.run || (kept.manifest ?? body) !== body) {
      throw new SignatureError("the run has another manifest than the one this device knows");
    }
    checkPromise(manifest, this.options.accepts);
    this.keys = await this.readKeys(key);
    await this.keep((old) => ({ ...old, key, manifest: body }));
    this.manifestDigest = body;
    return (this.manifest = manifest);
  }

  private async readKeys(trusted: string): Promise<Map<string, string>> {
    return checkChain(checkKeys(parseJson("the list of keys", (await this.get("keys")).body)), trusted);
  }

  private async checkRelease(release: Answer): Promise<number> {
    const generation = number(header(release, "generation"));
    const found = header(release, "digest");
    const previous = header(release, "previous");
    await this.check(release, await this.about("release", generation, release.body, previous));
    await this.keep((old) => {
      const { generation: newest = -1, digest: seen = "" } = old;
      if (generation < newest) {
        throw new SignatureError(`the service shows release ${generation}, and this device has seen release ${newest}`);
      }
      if (generation === newest && found !== seen) throw new SignatureError(`the service shows two different releases ${generation}`);
      if (generation === newest + 1 && seen && previous !== seen) {
        throw new SignatureError(`release ${generation} does not follow the one that this device has seen`);
      }
      return { ...old, generation, digest: found };
    });
    return generation;
  }

  private async about(kind: "release" | "round", generation: number, body: Uint8Array<ArrayBuffer>, previous: string): Promise<Statement> {
    return { kind, run: this.options.run, manifest: this.manifestDigest, generation, body: await digest(body), previous };
  }

  private async check(answer: Answer, statement: Statement): Promise<void> {
    const id = header(answer, "key");
    if (!this.keys.has(id)) this.keys = await this.readKeys((await this.kept()).key!); // a new one, endorsed by one that is known
    const key = this.keys.get(id);
    if (key === undefined) throw new SignatureError("the document is signed by a key that is none of the run's");
    const bytes = statementBytes(statement);
    await checkSignature(key, header(answer, "signature"), bytes);
    if ((await digest(bytes)) !== header(answer, "digest")) throw new SignatureError("the document has another digest than it says");
  }

  // acting and reporting

  /** The action of this person's policy; `join` comes first. */
  act(step: number, state: number | readonly number[] | readonly (readonly number[])[]): number | number[] {
    if (this.round === null) throw new Error("call join first");
    return act(this.round.policy, step, state, this.take);
  }

  /**
   * Send one report about the episode: `counted`, or `same` if the service had it. The report is stored before it is sent; asked again, the
   * same bytes are sent, whatever the episode is. Steps after the run's horizon are left out. `LateReport` if the release that the episode
   * was planned with is closed. `ServiceRefused` if the service refuses the report. If it would refuse the same bytes each time, the report
   * is deleted, and this store never sends another one, because a second noisy message would reveal more than the person accepts.
   */
  async report(episode: Episode): Promise<Outcome> {
    const kept = await this.kept();
    if (kept.sent === undefined && kept.outcome === undefined) {
      if (this.round === null || this.manifest === null) throw new Error("a report is about an episode that was planned: call join first");
      const { states, actions, rewards } = episode;
      if (states.length !== actions.length + 1 || rewards.length !== actions.length) {
        const sizes = `${states.length} states, ${actions.length} actions and ${rewards.length} rewards`;
        throw new Error(`an episode has as many rewards as actions and one state more, not ${sizes}`);
      }
      const sent = toBase64(this.body(this.round, this.manifest, episode));
      const nonce = toHex(this.take(24));
      await this.keep((old) => (old.sent === undefined && old.outcome === undefined ? { ...old, sent, nonce } : old)); // another tab may have been faster
    }
    return (await this.resume()) ?? "same";
  }

  /** Whether a report is stored that the service has not answered: after a reload, or when the network was away. */
  async pending(): Promise<boolean> {
    return (await this.kept()).sent !== undefined;
  }

  /** Send the stored report again, the same bytes; null if none waits. Needs no `join`. */
  resume(): Promise<Outcome | null> {
    this.sending ??= this.send().finally(() => (this.sending = null));
    return this.sending;
  }

  private async send(): Promise<Outcome | null> {
    const { sent, nonce, outcome: before, refused } = await this.kept();
    if (refused !== undefined) throw new ServiceRefused(...refused);
    if (before === "late" || before === "another-round") throw new LateReport(WHY[before]);
    if (sent === undefined || nonce === undefined) return null;
    const headers = { "Idempotency-Key": nonce, "Content-Type": "application/json", Authorization: `Bearer ${this.options.apiKey}` };
    const answer = await this.retried("POST", "reports", headers, fromBase64(sent));
    if (answer.status === 410) {
      const why = problem(answer) === "another-round" ? "another-round" : "late";
      await this.finish(why);
      throw new LateReport(WHY[why]);
    }
    if (answer.status !== 200 && answer.status !== 201) {
      const refusal: [number, string] = [answer.status, problem(answer)];
      if (isFinalRefusal(refusal)) await this.finish("refused", refusal);
      throw new ServiceRefused(...refusal);
    }
    const outcome = outcomeOf(answer);
    await this.finish(outcome);
    return outcome;
  }

  /** What was sent is not needed any more, and may be somebody's data. `refused`: why it can never be counted. */
  private async finish(outcome: Outcome | NotCounted | "refused", refused?: [number, string]): Promise<void> {
    const about = refused === undefined ? { outcome } : { outcome, refused };
    await this.keep(({ sent: _, nonce: __, refused: ___, ...old }) => ({ ...old, ...about }));
  }

  private body(round: Round, manifest: Manifest, episode: Episode): Uint8Array {
    const { subject, accepts } = this.options;
    const { generation, document } = round;
    if (manifest.promise.trust !== "local") return jointBody(document, subject, episode, manifest.problem.horizon);
    const made = messageOf(document.channel!, document.statistic!, episode, document, accepts, this.take);
    return jsonBytes({ generation, message: toBase64(made), subject });
  }

  // the store

  private async kept(): Promise<Kept> {
    const found = await this.options.store.read();
    return found === null ? this.keep((fresh) => fresh) : this.parsed(found);
  }

  private async keep(change: (kept: Kept) => Kept): Promise<Kept> {
    const { run, subject } = this.options;
    const fresh: Kept = { run, subject, which: toBigInt(this.take(16)).toString() };
    const made = await this.options.store.update((old) => JSON.stringify(change(old === null ? fresh : this.parsed(old))));
    return this.parsed(made);
  }

  private parsed(text: string): Kept {
    const kept = JSON.parse(text) as Kept;
    if (kept.run !== this.options.run || kept.subject !== this.options.subject) {
      throw new StoreError("the store is of another person, or of a device in another run");
    }
    const refused = kept.outcome === "refused";
    if (Object.hasOwn(kept, "refused") !== refused || (refused && !isFinalRefusal(kept.refused))) {
      throw new StoreError("the store is damaged: it is not that of a device");
    }
    return kept;
  }

  // sending

  private async get(path: string): Promise<Answer> {
    const answer = await this.retried("GET", path, {}, undefined);
    if (answer.status !== 200) throw new ServiceRefused(answer.status, problem(answer));
    return answer;
  }

  /** The same bytes again, later and later, and never before `Retry-After`. */
  private async retried(method: string, path: string, headers: Record<string, string>, body: Uint8Array<ArrayBuffer> | undefined): Promise<Answer> {
    const sleep = this.options.sleep ?? pause;
    for (let tried = 0; ; tried++) {
      let asked = 0;
      try {
        const answer = await this.sent(method, path, headers, body);
        if (!RETRY.includes(answer.status) || tried === TRIES - 1) return answer;
        asked = Math.min(seconds(answer.headers.get("retry-after")), LONGEST_WAIT);
      } catch (error) {
        if (error instanceof InvalidDocument) throw error;
        if (tried === TRIES - 1) throw new ServiceRefused(0, (error as Error).name);
      }
      await sleep(Math.max(1000 * asked, (0.5 + Math.random() / 2) * 100 * 2 ** tried));
    }
  }

  private async sent(method: string, path: string, headers: Record<string, string>, body: Uint8Array<ArrayBuffer> | undefined): Promise<Answer> {
    const answer = await (this.options.fetch ?? fetch)(`${this.base}/${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(1000 * SECONDS),
    });
    return { status: answer.status, headers: answer.headers, body: await bytesOf(answer) };
  }
}

/** Until the time is over, or until a browser is online again. */
function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, milliseconds);
    const target = globalThis as Partial<Pick<Window, "addEventListener" | "removeEventListener">>;
    target.addEventListener?.("online", done);
    function done(): void {
      clearTimeout(timer);
      target.removeEventListener?.("online", done);
      resolve();
    }
  });
}

/** The body of an answer, of which no more is read than a device should hold. */
async function bytesOf(answer: Response): Promise<Uint8Array<ArrayBuffer>> {
  const reader = answer.body?.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (let part = await reader?.read(); part !== undefined && !part.done; part = await reader?.read()) {
    size += part.value.length;
    if (size > MOST_BYTES) {
      await reader?.cancel();
      throw new InvalidDocument(`an answer must have at most ${MOST_BYTES} bytes`);
    }
    chunks.push(part.value);
  }
  const body = new Uint8Array(size);
  chunks.reduce((place, chunk) => (body.set(chunk, place), place + chunk.length), 0);
  return body;
}

function header(answer: Answer, name: string): string {
  const value = answer.headers.get(`confide-${name}`);
  if (value === null) throw new SignatureError(`the answer has no header confide-${name}`);
  return value;
}

/** The number of a release. */
function number(text: string): number {
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(value)) throw new InvalidDocument("confide-generation must be a whole number");
  return value;
}

/** Of Retry-After; what is no number of seconds asks for nothing. */
function seconds(text: string | null): number {
  return text !== null && /^[0-9]+$/.test(text) ? Number(text) : 0;
}

function outcomeOf(answer: Answer): Outcome {
  const outcome = own(fields("the answer to a report", parseJson("the answer to a report", answer.body)), "outcome");
  if (outcome !== "counted" && outcome !== "same") throw new InvalidDocument("the answer to a report must be counted or same");
  return outcome;
}

/**
 * A report of a joint run: the episode itself. What is no number of JSON is null. The service counts no step after the horizon, and refuses a
 * body that is too long, so these steps are left out. If the horizon is 0, it is not known, and the whole episode is sent.
 */
export function jointBody({ generation, round }: AnsweredRound, subject: string, episode: Episode, horizon = 0): Uint8Array {
  const first = (part: unknown, length: number) => plain(horizon > 0 && Array.isArray(part) ? part.slice(0, length) : part);
  const actions = first(episode.actions, horizon);
  const rewards = first(episode.rewards, horizon);
  const states = first(episode.states, horizon + 1); // the state after the last step is one more than the steps
  return jsonBytes({ generation, round, subject, trajectory: { actions, rewards, states } });
}

function plain(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(plain);
  return typeof part === "boolean" || (typeof part === "number" && Math.abs(part) < 2 ** 53) ? part : null;
}

/** Names in order and no spaces, as RFC 8785 writes it. */
function jsonBytes(document: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}

function problem(answer: Answer): string {
  try {
    const type = own(fields("a problem", parseJson("a problem", answer.body)), "type");
    const kind = typeof type === "string" ? type.split("/").pop()! : "";
    return /^[a-z-]{1,40}$/.test(kind) ? kind : "no reason given";
  } catch {
    return "no reason given";
  }
}
