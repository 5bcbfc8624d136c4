/**
 * What a server sends, checked before anything else looks at it.
 *
 * A server may be hostile: every value has its type, its range and its length, or the document is
 * refused. What is returned is new, and has nothing in it but what was checked. The device of
 * Python checks the same (confide/service/device/checks.py), and ../hostile.json has documents that
 * both must refuse.
 *
 * A check may be made stricter. Ranges of grids, noise and contributions are required for privacy:
 * the proofs of contribution.ts rest on them. The other limits bound time and memory, and are a
 * matter of taste.
 */
import type { Answers, Budget, Statistic, Transitions } from "./contribution.js";
import { InvalidDocument, Unsupported } from "./errors.js";
import type { Channel } from "./message.js";
import type { Policy, RoundDocument } from "./policy.js";
import type { Manifest } from "./promise.js";
import type { SigningKey } from "./documents.js";
import { checkReport } from "./reports.js";

export const ROUND_FORMAT = "confide-round/2";
/** Numbers in one table, and in one message. */
const MAX_NUMBERS = 2 ** 24;
const MAX_COORDINATES = 2 ** 22;
const MAX_POLICIES = 2 ** 14;
const MAX_KEYS = 1000;
const MAX_STEPS = 2 ** 24;
/** A contribution has smaller numbers, so that sums and distances are exact. */
export const WHOLE_LIMIT = 2 ** 50;
const BUDGET = 2 ** 40;
/** Rewards count at most as much as transitions. A balance of one is 2^8. */
const MAX_BALANCE = 2 ** 8;
/** The grid of contributions, and how wide noise may be in steps of it. */
const GRIDS = [2 ** -80, 2 ** 40] as const;
const WIDTHS = [2 ** -20, 2 ** 52] as const;

type Fields = Record<string, unknown>;

/** Bytes as JSON. */
export function parseJson(name: string, body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) as unknown;
  } catch {
    throw new InvalidDocument(`${name} is not JSON`);
  }
}

export function checkManifest(value: unknown): Manifest {
  const document = fields("the manifest", value);
  const promise = fields("promise", own(document, "promise"));
  const key = fields("key", own(document, "key"));
  const problem = Object.hasOwn(document, "problem") ? fields("problem", document["problem"]) : {};
  const simulation = own(document, "simulation");
  if (typeof simulation !== "boolean") {
    throw new InvalidDocument("simulation must be true or false");
  }
  const horizon = Object.hasOwn(problem, "horizon") ? problem["horizon"] : 0;
  return {
    ...document,
    run: text("run", own(document, "run"), /^.{1,200}$/su),
    simulation,
    promise: {
      trust: oneOf("trust", own(promise, "trust"), ["joint", "local"]),
      epsilon: real("epsilon", own(promise, "epsilon"), 0, Number.MAX_VALUE),
      delta: real("delta", own(promise, "delta"), 0, 1),
      relation: oneOf("relation", own(promise, "relation"), ["replace", "null"]),
    },
    key: { public: text("public", own(key, "public"), /^[0-9a-f]{64}$/) },
    // If the horizon is 0, the manifest does not state it.
    problem: { ...problem, horizon: whole("horizon", horizon, 0, MAX_STEPS) },
  } as Manifest;
}

export function checkKeys(value: unknown): SigningKey[] {
  return entries("keys", own(fields("the keys", value), "keys"), 0, MAX_KEYS).map((entry) => {
    const key = fields("a key", entry);
    return {
      id: text("id", own(key, "id"), /^[0-9a-f]{16}$/),
      public: text("public", own(key, "public"), /^[0-9a-f]{64}$/),
      endorsed_by: text("endorsed_by", own(key, "endorsed_by"), /^([0-9a-f]{16})?$/),
      endorsement: text("endorsement", own(key, "endorsement"), /^([0-9a-f]{128})?$/),
    };
  });
}

/**
 * The round of this run and this generation. Under local privacy it says how messages are made;
 * otherwise that part is left out.
 */
export function checkRound(
  value: unknown,
  run: string,
  generation: number,
  local: boolean,
): RoundDocument {
  const document = fields("the round", value);
  const format = oneOf("format", own(document, "format"), [ROUND_FORMAT]);
  if (own(document, "run") !== run || own(document, "generation") !== generation) {
    throw new InvalidDocument("the round is of another run or another release");
  }
  const policies = entries("policies", own(document, "policies"), 1, MAX_POLICIES).map(checkPolicy);
  const shares = entries(
    "shares",
    own(document, "shares"),
    policies.length,
    policies.length,
  ).map((share) => real("a share", share, 0, 1));
  if (!(shares.reduce((sum, entry) => sum + entry, 0) > 0)) {
    throw new InvalidDocument("the shares of the policies must have a positive sum");
  }
  const digest = text("round", own(document, "round"), /^[0-9a-f]{64}$/);
  const round: RoundDocument = { format, run, generation, round: digest, policies, shares };
  if (!local) return round;
  const channel = checkChannel(own(document, "channel"));
  return { ...round, channel, statistic: checkStatistic(own(document, "statistic"), channel) };
}

function checkPolicy(value: unknown): Policy {
  const document = fields("a policy", value);
  const kind = own(document, "kind");
  const table = (name: string, depth: number, check: Check) =>
    rectangle(name, own(document, name), depth, check);
  const weight: Check = (entry) => real("a number of a policy", entry, -1e100, 1e100);
  switch (kind) {
    case "tabular": {
      const choices = whole("choices", own(document, "choices"), 1, 2 ** 31);
      const checkAction: Check = (entry) => whole("an action", entry, 0, choices - 1);
      return { kind, choices, actions: table("actions", 2, checkAction) as number[][] };
    }
    case "stochastic": {
      const checkProbability: Check = (entry) => real("a probability", entry, 0, 1);
      const weights = table("weights", 3, checkProbability) as number[][][];
      const isPositive = (row: number[]) => row.reduce((sum, weight) => sum + weight, 0) > 0;
      const possible = weights.every((step) => step.every(isPositive));
      if (!possible) {
        throw new InvalidDocument("the probabilities of actions must have a positive sum");
      }
      return { kind, weights };
    }
    case "linear":
      return { kind, gains: table("gains", 3, weight) as number[][][] };
    case "context": {
      const weights = table("weights", 1, weight) as unknown as number[];
      const hasWidths = own(document, "widths") !== null;
      const widths = hasWidths ? (table("widths", 2, weight) as number[][]) : null;
      if (widths !== null && widths[0]!.length !== weights.length) {
        throw new InvalidDocument("widths must fit the weights");
      }
      return { kind, weights, widths };
    }
    case "random":
      return { kind, choices: whole("choices", own(document, "choices"), 1, 2 ** 31) };
    default:
      throw new Unsupported("this client does not know the kind of a policy of the round");
  }
}

/** How messages are made. What the noise is worth is not checked here: see `checkNoise`. */
export function checkChannel(value: unknown): Channel {
  const document = fields("the channel", value);
  const noise = fields("noise", own(document, "noise"));
  const distribution = own(noise, "distribution");
  const grid = powerOfTwo("grid", own(document, "grid"));
  const channel = {
    id: text("id", own(document, "id"), /^[0-9a-f]{16}$/),
    size: whole("size", own(document, "size"), 1, MAX_COORDINATES),
    grid,
    source: oneOf("source", own(document, "source"), ["secure", "fast"]),
  };
  if (distribution === "codebook" || distribution === "signs") {
    const report = checkReport(noise, distribution, channel.size);
    return { ...channel, kind: oneOf("kind", own(document, "kind"), ["index"]), noise: report };
  }
  if (distribution !== "gaussian" && distribution !== "laplace") {
    throw new Unsupported("this client does not know the distribution of the noise");
  }
  if (own(noise, "step") !== grid) {
    throw new Unsupported("this client adds noise on the grid of the contributions only");
  }
  const scale = real("scale", own(noise, "scale"), WIDTHS[0] * grid, WIDTHS[1] * grid);
  const kind = oneOf("kind", own(document, "kind"), ["numbers"]);
  return { ...channel, kind, noise: { distribution, scale, step: grid } };
}

/**
 * The tables from which a contribution is computed. All lengths fit each other and the channel.
 */
export function checkStatistic(value: unknown, channel: Channel): Statistic {
  if (value === null || value === undefined) {
    throw new Unsupported("this client cannot compute what this run's users contribute");
  }
  const document = fields("the statistic", value);
  switch (own(document, "kind")) {
    case "transitions":
      return checkTransitions(document, channel);
    case "answers":
      return checkAnswers(document, channel);
    case "budget":
      return checkBudget(document, channel);
    default:
      throw new Unsupported("this client cannot compute what this run's users contribute");
  }
}

function checkTransitions(document: Fields, channel: Channel): Transitions {
  const steps = whole("steps", own(document, "steps"), 1, MAX_STEPS);
  const most = Math.floor(WHOLE_LIMIT / steps) - 1;
  const checkNumber: Check = (entry) => whole("a number of the table", entry, -most, most);
  const table = rectangle("table", own(document, "table"), 4, checkNumber) as number[][][][];
  checkSize(steps * table[0]![0]![0]!.length, channel.size);
  return { kind: "transitions", steps, table };
}

function checkAnswers(document: Fields, channel: Channel): Answers {
  const questions = channel.size;
  if (channel.grid > 0.5) throw new InvalidDocument("the grid is too coarse for answers");
  const steps = entries("steps", own(document, "steps"), questions, questions).map((step) =>
    whole("a step", step, 0, MAX_STEPS),
  );
  const rewards = entries("rewards", own(document, "rewards"), questions, questions);
  if (!rewards.every((entry) => typeof entry === "boolean")) {
    throw new InvalidDocument("rewards must be true or false");
  }
  const checkSign: Check = (entry) => whole("a sign", entry, -1, 1);
  const signs = rectangle("signs", own(document, "signs"), 4, checkSign) as number[][][][];
  checkSize(signs.length, questions);
  if (!(channel.grid * WHOLE_LIMIT > 1)) {
    throw new InvalidDocument("the grid is too fine for answers");
  }
  return { kind: "answers", steps, signs, rewards };
}

function checkBudget(document: Fields, channel: Channel): Budget {
  const size = (name: string, most: number) => whole(name, own(document, name), 1, most);
  const layers = size("layers", MAX_STEPS);
  const states = size("states", MAX_NUMBERS);
  const actions = size("actions", MAX_NUMBERS);
  const steps = size("steps", MAX_STEPS);
  const balance = whole("balance", own(document, "balance"), 0, MAX_BALANCE);
  const pairs = layers * states * actions;
  if (pairs > MAX_NUMBERS) {
    throw new InvalidDocument("the round has too many pairs of a state and an action");
  }
  const costs = entries("costs", own(document, "costs"), pairs, pairs).map((cost) =>
    whole("a cost", cost, 0, BUDGET),
  );
  const successors = entries("successors", own(document, "successors"), 1, MAX_NUMBERS).map(
    (state) => whole("a successor", state, 0, states - 1),
  );
  const indptr = entries("indptr", own(document, "indptr"), pairs + 1, pairs + 1).map((place) =>
    whole("a place", place, 0, successors.length),
  );
  const ordered = indptr.every((place, i) => i === 0 || indptr[i - 1]! <= place);
  if (!ordered || indptr[0] !== 0 || indptr[pairs] !== successors.length) {
    // Required for privacy: if two pairs shared a place, what they add would add up.
    throw new InvalidDocument("the pairs of a budget must have places of their own");
  }
  checkSize(successors.length + (balance ? pairs : 0), channel.size);
  return { kind: "budget", layers, states, actions, steps, balance, indptr, successors, costs };
}

function checkSize(numbers: number, size: number): void {
  if (numbers !== size) {
    throw new InvalidDocument(`the statistic has ${numbers} numbers, and the channel ${size}`);
  }
}

// values

/**
 * A field of the object itself: what every object of JavaScript inherits was not sent by anybody.
 */
export function own(document: Fields, name: string): unknown {
  return Object.hasOwn(document, name) ? document[name] : undefined;
}

export function fields(name: string, value: unknown): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new InvalidDocument(`${name} must be an object`);
  }
  return value as Fields;
}

export function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most) {
    throw new InvalidDocument(`${name} must be a whole number from ${least} to ${most}`);
  }
  return value;
}

export function real(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !(value >= least && value <= most)) {
    throw new InvalidDocument(`${name} must be a number from ${least} to ${most}`);
  }
  return value;
}

function powerOfTwo(name: string, value: unknown): number {
  const document = real(name, value, ...GRIDS);
  if (2 ** Math.round(Math.log2(document)) !== document) {
    throw new InvalidDocument(`${name} must be a power of two`);
  }
  return document;
}

function text(name: string, value: unknown, pattern: RegExp): string {
  if (typeof value !== "string" || !pattern.test(value)) {
    throw new InvalidDocument(`${name} is not the text that it must be`);
  }
  return value;
}

function oneOf<T extends string>(name: string, value: unknown, choices: readonly T[]): T {
  if (!choices.includes(value as T)) {
    throw new InvalidDocument(`${name} must be ${choices.join(" or ")}`);
  }
  return value as T;
}

function entries(name: string, value: unknown, least: number, most: number): unknown[] {
  if (!Array.isArray(value) || value.length < least || value.length > most) {
    const expected = least === most ? `${least}` : `${least} to ${most}`;
    throw new InvalidDocument(`${name} must be a list with ${expected} entries`);
  }
  return value;
}

type Check = (value: unknown) => number;
type Nested = number | Nested[];

/**
 * Lists of lists of numbers, of which all on one level are equally long. The depth is the caller's,
 * never the server's.
 */
function rectangle(name: string, value: unknown, depth: number, check: Check): Nested[] {
  const shape: number[] = [];
  let numbers = 1;
  for (let level = value, left = depth; left > 0; left--) {
    const length = entries(name, level, 1, MAX_NUMBERS).length;
    shape.push(length);
    numbers *= length;
    level = (level as unknown[])[0];
  }
  if (numbers > MAX_NUMBERS) {
    throw new InvalidDocument(`${name} has more than ${MAX_NUMBERS} numbers`);
  }
  const copy = (part: unknown, level: number): Nested =>
    level === depth
      ? check(part)
      : entries(name, part, shape[level]!, shape[level]!).map((entry) => copy(entry, level + 1));
  return copy(value, 0) as Nested[];
}
