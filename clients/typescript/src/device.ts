/**
 * One person's device in one run: verify what the service says, act by the round, report once.
 *
 * The service is not trusted. Everything that it sends is checked before it is used (checks.ts).
 * What leaves this file is one report, whose bytes are the same for every retry. Required for
 * privacy: a report is stored before it is sent, and `join` checks the run's promise before
 * anything is sent. The device of Python (confide.service.device.client) does the same.
 */
import { checkKeys, checkManifest, checkRound, fields, own, parseJson } from "./checks.js";
import type { Episode } from "./contribution.js";
import { checkChain, checkSignature, digest, statementBytes, type Statement } from "./documents.js";
import {
  fromBase64,
  systemEntropy,
  toBase64,
  toBigInt,
  toHex,
  type Take,
} from "./entropy.js";
import {
  InvalidDocument,
  isFinalRefusal,
  LateReport,
  ServiceRefused,
  SignatureError,
  StoreError,
} from "./errors.js";
import { messageOf, type AnsweredRound } from "./message.js";
import { act, drawnPolicy, type Policy, type RoundDocument } from "./policy.js";
import { checkAccepts, checkPromise, type Accepts, type Manifest } from "./promise.js";
import type { Store } from "./store.js";

// The numbers are a matter of taste, and the same as in confide/service/device/transport.py.
/** How often one request is sent before the client gives up. */
const MAX_ATTEMPTS = 8;
/** After these answers the same request may succeed later. */
const RETRIED_STATUSES = [408, 429, 500, 502, 503, 504];
/** An answer may take so many seconds. */
const ANSWER_SECONDS = 30;
/** A device waits at most so many seconds, whatever the service asks for. */
const MAX_WAIT_SECONDS = 300;
/** The first wait. Each wait doubles it, and is shortened at random by up to half. */
const FIRST_WAIT_MILLISECONDS = 100;
/** An answer has at most so many bytes. */
const MAX_ANSWER_BYTES = 2 ** 26;
/** So many batches may close while a device joins. */
const JOIN_ATTEMPTS = 3;
/** An idempotency key has so many random bytes, so that two are never equal by chance. */
const NONCE_BYTES = 24;
/** A number with so many random bytes chooses one of several policies. */
const CHOICE_BYTES = 16;

export type Outcome = "counted" | "same";
type NotCounted = "late" | "another-round";

const NOT_COUNTED = {
  late: "the release that the report was planned with is closed: it was not counted",
  "another-round":
    "the service has planned another round than the one that the report answers: " +
    "it was not counted",
};

export interface DeviceOptions {
  /** Of the service, without /v1. */
  url: string;
  run: string;
  /** Who the person is, as the service's operator knows people. */
  subject: string;
  /** Of role device. */
  apiKey: string;
  accepts: Accepts;
  store: Store;
  /**
   * Pins the run's signing key, 64 hexadecimal digits. Without it the first manifest that is seen
   * is trusted.
   */
  key?: string;
  fetch?: typeof fetch;
  sleep?: (milliseconds: number) => Promise<void>;
  /** Random bytes. Only tests pass others than the system's. */
  take?: Take;
}

/** What is in the store, as JSON. The names are a format: stores of earlier versions have them. */
interface StoredState {
  run: string;
  subject: string;
  /** A number that chooses one of several policies, drawn before there are any data. */
  which: string;
  /** The run's first signing key, and the digest of its manifest. */
  key?: string;
  manifest?: string;
  /** Of the newest release that was seen. */
  generation?: number;
  digest?: string;
  /** The bytes of the report, until the service has answered, and its idempotency key. */
  sent?: string;
  nonce?: string;
  outcome?: Outcome | NotCounted | "refused";
  /** The status and the kind of a refusal for good. */
  refused?: [number, string];
}

interface Answer {
  status: number;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
}

/** How this person is served now. */
export interface Round {
  generation: number;
  policy: Policy;
  document: RoundDocument;
}

export class Device {
  manifest: Manifest | null = null;
  round: Round | null = null;
  private manifestDigest = "";
  /** The public signing keys of the run that were verified, by id. */
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

  /**
   * Verify the manifest, its promise, the current release and the round after it. Return how the
   * person is served.
   */
  async join(): Promise<Round> {
    const manifest = this.manifest ?? (await this.readManifest());
    const [release, generation, answer] = await this.readReleaseAndRound();
    const previous = header(release, "digest");
    const statement = await this.statementAbout("round", generation, answer.body, previous);
    await this.checkSigned(answer, statement);
    const local = manifest.promise.trust === "local";
    const body = parseJson("the round", answer.body);
    const document = checkRound(body, this.options.run, generation, local);
    const { which } = await this.readState();
    this.round = { generation, policy: drawnPolicy(document, BigInt(which)), document };
    return this.round;
  }

  /**
   * The newest release, its generation, and the round after it. A batch may close between the two.
   * Then both are read again.
   */
  private async readReleaseAndRound(): Promise<[Answer, number, Answer]> {
    for (let attempt = 1; ; attempt++) {
      const release = await this.get("release");
      const generation = await this.checkRelease(release);
      try {
        return [release, generation, await this.get(`round/${generation}`)];
      } catch (error) {
        const closed = error instanceof ServiceRefused && error.status === 410;
        if (!closed || attempt === JOIN_ATTEMPTS) throw error;
      }
    }
  }

  private async readManifest(): Promise<Manifest> {
    const answer = await this.get("manifest");
    const manifest = checkManifest(parseJson("the manifest", answer.body));
    const key = manifest.key.public;
    const manifestDigest = await digest(answer.body);
    const state = await this.readState();
    const expectedKey = this.options.key ?? state.key;
    if (expectedKey !== undefined && key !== expectedKey) {
      throw new SignatureError(
        "the manifest is signed by another key than the one this device knows",
      );
    }
    const statement: Statement = {
      kind: "manifest",
      run: this.options.run,
      manifest: "",
      generation: 0,
      body: manifestDigest,
    };
    await checkSignature(key, header(answer, "signature"), statementBytes(statement));
    const firstDigest = state.manifest ?? manifestDigest;
    if (manifest.run !== this.options.run || firstDigest !== manifestDigest) {
      throw new SignatureError("the run has another manifest than the one this device knows");
    }
    checkPromise(manifest, this.options.accepts);
    this.keys = await this.readKeys(key);
    await this.updateState((old) => ({ ...old, key, manifest: manifestDigest }));
    this.manifestDigest = manifestDigest;
    this.manifest = manifest;
    return manifest;
  }

  private async readKeys(trusted: string): Promise<Map<string, string>> {
    const answer = await this.get("keys");
    return checkChain(checkKeys(parseJson("the list of keys", answer.body)), trusted);
  }

  /** Verify a release, compare it with those that were seen, and return its generation. */
  private async checkRelease(release: Answer): Promise<number> {
    const generation = releaseNumber(header(release, "generation"));
    const releaseDigest = header(release, "digest");
    const previous = header(release, "previous");
    const statement = await this.statementAbout("release", generation, release.body, previous);
    await this.checkSigned(release, statement);
    await this.updateState((old) => {
      const { generation: newest = -1, digest: newestDigest = "" } = old;
      if (generation < newest) {
        throw new SignatureError(
          `the service shows release ${generation}, and this device has seen release ${newest}`,
        );
      }
      if (generation === newest && releaseDigest !== newestDigest) {
        throw new SignatureError(`the service shows two different releases ${generation}`);
      }
      if (generation === newest + 1 && newestDigest && previous !== newestDigest) {
        throw new SignatureError(
          `release ${generation} does not follow the one that this device has seen`,
        );
      }
      return { ...old, generation, digest: releaseDigest };
    });
    return generation;
  }

  private async statementAbout(
    kind: "release" | "round",
    generation: number,
    body: Uint8Array<ArrayBuffer>,
    previous: string,
  ): Promise<Statement> {
    return {
      kind,
      run: this.options.run,
      manifest: this.manifestDigest,
      generation,
      body: await digest(body),
      previous,
    };
  }

  /** Refuse a document that no key of the run has signed. */
  private async checkSigned(answer: Answer, statement: Statement): Promise<void> {
    const id = header(answer, "key");
    if (!this.keys.has(id)) {
      // There may be a new key, which a key that is known has endorsed.
      const state = await this.readState();
      this.keys = await this.readKeys(state.key!);
    }
    const key = this.keys.get(id);
    if (key === undefined) {
      throw new SignatureError("the document is signed by a key that is none of the run's");
    }
    const bytes = statementBytes(statement);
    await checkSignature(key, header(answer, "signature"), bytes);
    if ((await digest(bytes)) !== header(answer, "digest")) {
      throw new SignatureError("the document has another digest than it says");
    }
  }

  // acting and reporting

  /** The action of this person's policy; `join` comes first. */
  act(
    step: number,
    state: number | readonly number[] | readonly (readonly number[])[],
  ): number | number[] {
    if (this.round === null) throw new Error("call join first");
    return act(this.round.policy, step, state, this.take);
  }

  /**
   * Send one report about the episode: `counted`, or `same` if the service had it. The report is
   * stored before it is sent. Asked again, the same bytes are sent, whatever the episode is. Steps
   * after the run's horizon are left out.
   *
   * `LateReport` if the release that the episode was planned with is closed. `ServiceRefused` if
   * the service refuses the report. If it would refuse the same bytes each time, the report is
   * deleted, and this store never sends another one, because a second noisy message would reveal
   * more than the person accepts.
   */
  async report(episode: Episode): Promise<Outcome> {
    const state = await this.readState();
    if (state.sent === undefined && state.outcome === undefined) {
      const sent = toBase64(this.episodeBody(episode));
      const nonce = toHex(this.take(NONCE_BYTES));
      await this.updateState((old) => {
        // Another tab may have been faster. Then its report is sent, and this one never is.
        const isFirst = old.sent === undefined && old.outcome === undefined;
        return isFirst ? { ...old, sent, nonce } : old;
      });
    }
    return (await this.resume()) ?? "same";
  }

  /**
   * Whether a report is stored that the service has not answered: after a reload, or when the
   * network was away.
   */
  async pending(): Promise<boolean> {
    return (await this.readState()).sent !== undefined;
  }

  /** Send the stored report again, the same bytes; null if none waits. Needs no `join`. */
  resume(): Promise<Outcome | null> {
    this.sending ??= this.sendReport().finally(() => (this.sending = null));
    return this.sending;
  }

  private async sendReport(): Promise<Outcome | null> {
    const { sent, nonce, outcome: earlier, refused } = await this.readState();
    if (refused !== undefined) throw new ServiceRefused(...refused);
    if (earlier === "late" || earlier === "another-round") {
      throw new LateReport(NOT_COUNTED[earlier]);
    }
    if (sent === undefined || nonce === undefined) return null;
    const headers = {
      "Idempotency-Key": nonce,
      "Content-Type": "application/json",
      Authorization: `Bearer ${this.options.apiKey}`,
    };
    const answer = await this.requestWithRetries("POST", "reports", headers, fromBase64(sent));
    if (answer.status === 410) {
      const why = problemKind(answer) === "another-round" ? "another-round" : "late";
      await this.finish(why);
      throw new LateReport(NOT_COUNTED[why]);
    }
    if (answer.status !== 200 && answer.status !== 201) {
      const refusal: [number, string] = [answer.status, problemKind(answer)];
      if (isFinalRefusal(refusal)) await this.finish("refused", refusal);
      throw new ServiceRefused(...refusal);
    }
    const outcome = outcomeOf(answer);
    await this.finish(outcome);
    return outcome;
  }

  /**
   * Delete the report, which is not needed any more and may be somebody's data, and store what
   * became of it. `refused` is why it can never be counted.
   */
  private async finish(
    outcome: Outcome | NotCounted | "refused",
    refused?: [number, string],
  ): Promise<void> {
    const result = refused === undefined ? { outcome } : { outcome, refused };
    await this.updateState(({ sent: _, nonce: __, refused: ___, ...old }) => ({
      ...old,
      ...result,
    }));
  }

  /** The bytes of a report. Under local privacy each call draws noise. */
  private episodeBody(episode: Episode): Uint8Array {
    if (this.round === null || this.manifest === null) {
      throw new Error("a report is about an episode that was planned: call join first");
    }
    const { states, actions, rewards } = episode;
    if (states.length !== actions.length + 1 || rewards.length !== actions.length) {
      throw new Error(
        "an episode has as many rewards as actions and one state more, " +
          `not ${states.length} states, ${actions.length} actions and ${rewards.length} rewards`,
      );
    }
    const { subject, accepts } = this.options;
    const { generation, document } = this.round;
    if (this.manifest.promise.trust !== "local") {
      return jointBody(document, subject, episode, this.manifest.problem.horizon);
    }
    const { channel, statistic } = document;
    const message = messageOf(channel!, statistic!, episode, document, accepts, this.take);
    return jsonBytes({ generation, message: toBase64(message), subject });
  }

  // the store

  private async readState(): Promise<StoredState> {
    const text = await this.options.store.read();
    return text === null ? this.updateState((fresh) => fresh) : this.parseState(text);
  }

  /** Change what is stored. It is durable when the promise is fulfilled. */
  private async updateState(change: (old: StoredState) => StoredState): Promise<StoredState> {
    const { run, subject } = this.options;
    const which = toBigInt(this.take(CHOICE_BYTES)).toString();
    const fresh: StoredState = { run, subject, which };
    const text = await this.options.store.update((old) =>
      JSON.stringify(change(old === null ? fresh : this.parseState(old))),
    );
    return this.parseState(text);
  }

  private parseState(text: string): StoredState {
    const state = JSON.parse(text) as StoredState;
    if (state.run !== this.options.run || state.subject !== this.options.subject) {
      throw new StoreError("the store is of another person, or of a device in another run");
    }
    const isRefused = state.outcome === "refused";
    const hasReason = Object.hasOwn(state, "refused");
    if (hasReason !== isRefused || (isRefused && !isFinalRefusal(state.refused))) {
      throw new StoreError("the store is damaged: it is not that of a device");
    }
    return state;
  }

  // sending

  private async get(path: string): Promise<Answer> {
    const answer = await this.requestWithRetries("GET", path, {}, undefined);
    if (answer.status !== 200) throw new ServiceRefused(answer.status, problemKind(answer));
    return answer;
  }

  /** Send the same bytes again, later and later, and never before `Retry-After`. */
  private async requestWithRetries(
    method: string,
    path: string,
    headers: Record<string, string>,
    body: Uint8Array<ArrayBuffer> | undefined,
  ): Promise<Answer> {
    const sleep = this.options.sleep ?? pause;
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt === MAX_ATTEMPTS - 1;
      let askedSeconds = 0;
      try {
        const answer = await this.request(method, path, headers, body);
        if (!RETRIED_STATUSES.includes(answer.status) || isLast) return answer;
        askedSeconds = Math.min(
          retryAfterSeconds(answer.headers.get("retry-after")),
          MAX_WAIT_SECONDS,
        );
      } catch (error) {
        if (error instanceof InvalidDocument) throw error;
        if (isLast) throw new ServiceRefused(0, (error as Error).name);
      }
      const random = 0.5 + Math.random() / 2;
      await sleep(Math.max(1000 * askedSeconds, random * FIRST_WAIT_MILLISECONDS * 2 ** attempt));
    }
  }

  private async request(
    method: string,
    path: string,
    headers: Record<string, string>,
    body: Uint8Array<ArrayBuffer> | undefined,
  ): Promise<Answer> {
    const response = await (this.options.fetch ?? fetch)(`${this.base}/${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
      credentials: "omit",
      // A redirect would carry the API key to an address that nobody chose.
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(1000 * ANSWER_SECONDS),
    });
    return {
      status: response.status,
      headers: response.headers,
      body: await readBody(response),
    };
  }
}

/** Wait until the time is over, or until a browser is online again. */
function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(goOn, milliseconds);
    const target = globalThis as Partial<Pick<Window, "addEventListener" | "removeEventListener">>;
    target.addEventListener?.("online", goOn);
    function goOn(): void {
      clearTimeout(timer);
      target.removeEventListener?.("online", goOn);
      resolve();
    }
  });
}

/** The body of an answer, of which no more is read than a device should hold. */
async function readBody(response: Response): Promise<Uint8Array<ArrayBuffer>> {
  const reader = response.body?.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const part = await reader?.read();
    if (part === undefined || part.done) break;
    size += part.value.length;
    if (size > MAX_ANSWER_BYTES) {
      await reader?.cancel();
      throw new InvalidDocument(`an answer must have at most ${MAX_ANSWER_BYTES} bytes`);
    }
    chunks.push(part.value);
  }
  const body = new Uint8Array(size);
  let place = 0;
  for (const chunk of chunks) {
    body.set(chunk, place);
    place += chunk.length;
  }
  return body;
}

function header(answer: Answer, name: string): string {
  const value = answer.headers.get(`confide-${name}`);
  if (value === null) throw new SignatureError(`the answer has no header confide-${name}`);
  return value;
}

/** The number of a release, from a header. */
function releaseNumber(text: string): number {
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(value)) {
    throw new InvalidDocument("confide-generation must be a whole number");
  }
  return value;
}

/** The seconds of a header Retry-After. What is no number of seconds asks for nothing. */
function retryAfterSeconds(text: string | null): number {
  return text !== null && /^[0-9]+$/.test(text) ? Number(text) : 0;
}

function outcomeOf(answer: Answer): Outcome {
  const body = fields("the answer to a report", parseJson("the answer to a report", answer.body));
  const outcome = own(body, "outcome");
  if (outcome !== "counted" && outcome !== "same") {
    throw new InvalidDocument("the answer to a report must be counted or same");
  }
  return outcome;
}

/**
 * The bytes of a report of a joint run: the episode itself. What is no number of JSON is null. The
 * service counts no step after the horizon, and refuses a body that is too long, so these steps are
 * left out. If the horizon is 0, it is not known, and the whole episode is sent.
 */
export function jointBody(
  { generation, round }: AnsweredRound,
  subject: string,
  episode: Episode,
  horizon = 0,
): Uint8Array {
  const firstEntries = (part: unknown, length: number) =>
    toJson(horizon > 0 && Array.isArray(part) ? part.slice(0, length) : part);
  const actions = firstEntries(episode.actions, horizon);
  const rewards = firstEntries(episode.rewards, horizon);
  // The state after the last step is one more than the steps.
  const states = firstEntries(episode.states, horizon + 1);
  return jsonBytes({ generation, round, subject, trajectory: { actions, rewards, states } });
}

function toJson(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(toJson);
  const isExact = typeof part === "number" && Math.abs(part) < 2 ** 53;
  return typeof part === "boolean" || isExact ? part : null;
}

/** JSON as RFC 8785 writes it, if the names of the document are in order. */
function jsonBytes(document: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}

/** The kind of a problem (RFC 9457). */
function problemKind(answer: Answer): string {
  try {
    const type = own(fields("a problem", parseJson("a problem", answer.body)), "type");
    const kind = typeof type === "string" ? type.split("/").pop()! : "";
    return /^[a-z-]{1,40}$/.test(kind) ? kind : "no reason given";
  } catch {
    return "no reason given";
  }
}
