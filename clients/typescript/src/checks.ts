/**
 * What a server sends, checked before anything else looks at it. A server may be hostile: every value has its type, its range and its length,
 * or the document is refused. What is returned is new, and has nothing in it but what was checked.
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
const MOST_NUMBERS = 2 ** 24;
const MOST_COORDINATES = 2 ** 22;
const MOST_POLICIES = 2 ** 14;
const MOST_KEYS = 1000;
const MOST_STEPS = 2 ** 24;
/** A contribution has smaller numbers, so that sums and distances are exact. */
export const WHOLE_LIMIT = 2 ** 50;
const BUDGET = 2 ** 40;
/** Rewards count at most as much as transitions. A balance of one is 2^8. */
const MOST_BALANCE = 2 ** 8;
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
  const given = fields("the manifest", value);
  const promise = fields("promise", own(given, "promise"));
  const key = fields("key", own(given, "key"));
  const problem = Object.hasOwn(given, "problem") ? fields("problem", given["problem"]) : {};
  const simulation = own(given, "simulation");
  if (typeof simulation !== "boolean") throw new InvalidDocument("simulation must be true or false");
  return {
    ...given,
    run: text("run", own(given, "run"), /^.{1,200}$/su),
    simulation,
    promise: {
      trust: oneOf("trust", own(promise, "trust"), ["joint", "local"]),
      epsilon: real("epsilon", own(promise, "epsilon"), 0, Number.MAX_VALUE),
      delta: real("delta", own(promise, "delta"), 0, 1),
      relation: oneOf("relation", own(promise, "relation"), ["replace", "null"]),
    },
    key: { public: text("public", own(key, "public"), /^[0-9a-f]{64}$/) },
    // If the horizon is 0, the manifest does not state it.
    problem: { ...problem, horizon: Object.hasOwn(problem, "horizon") ? whole("horizon", problem["horizon"], 0, MOST_STEPS) : 0 },
  } as Manifest;
}

export function checkKeys(value: unknown): SigningKey[] {
  return list("keys", own(fields("the keys", value), "keys"), 0, MOST_KEYS).map((each) => {
    const key = fields("a key", each);
    return {
      id: text("id", own(key, "id"), /^[0-9a-f]{16}$/),
      public: text("public", own(key, "public"), /^[0-9a-f]{64}$/),
      endorsed_by: text("endorsed_by", own(key, "endorsed_by"), /^([0-9a-f]{16})?$/),
      endorsement: text("endorsement", own(key, "endorsement"), /^([0-9a-f]{128})?$/),
    };
  });
}

/** The round of this run and this generation. Under local privacy it says how messages are made; otherwise that part is left out. */
export function checkRound(value: unknown, run: string, generation: number, local: boolean): RoundDocument {
  const given = fields("the round", value);
  const format = oneOf("format", own(given, "format"), [ROUND_FORMAT]);
  if (own(given, "run") !== run || own(given, "generation") !== generation) throw new InvalidDocument("the round is of another run or another release");
  const policies = list("policies", own(given, "policies"), 1, MOST_POLICIES).map(checkPolicy);
  const shares = list("shares", own(given, "shares"), policies.length, policies.length).map((each) => real("a share", each, 0, 1));
  if (!(shares.reduce((sum, each) => sum + each, 0) > 0)) throw new InvalidDocument("the shares of the policies must have a positive sum");
  const digest = text("round", own(given, "round"), /^[0-9a-f]{64}$/);
  const round: RoundDocument = { format, run, generation, round: digest, policies, shares };
  if (!local) return round;
  const channel = checkChannel(own(given, "channel"));
  return { ...round, channel, statistic: checkStatistic(own(given, "statistic"), channel) };
}

function checkPolicy(value: unknown): Policy {
  const given = fields("a policy", value);
  const kind = own(given, "kind");
  const table = (name: string, depth: number, check: Check) => rectangle(name, own(given, name), depth, check);
  const weight: Check = (each) => real("a number of a policy", each, -1e100, 1e100);
  switch (kind) {
    case "tabular": {
      const choices = whole("choices", own(given, "choices"), 1, 2 ** 31);
      return { kind, choices, actions: table("actions", 2, (each) => whole("an action", each, 0, choices - 1)) as number[][] };
    }
    case "stochastic": {
      const weights = table("weights", 3, (each) => real("a probability", each, 0, 1)) as number[][][];
      const possible = weights.every((step) => step.every((row) => row.reduce((sum, each) => sum + each, 0) > 0));
      if (!possible) throw new InvalidDocument("the probabilities of actions must have a positive sum");
      return { kind, weights };
    }
    case "linear":
      return { kind, gains: table("gains", 3, weight) as number[][][] };
    case "context": {
      const weights = table("weights", 1, weight) as unknown as number[];
      const widths = own(given, "widths") === null ? null : (table("widths", 2, weight) as number[][]);
      if (widths !== null && widths[0]!.length !== weights.length) throw new InvalidDocument("widths must fit the weights");
      return { kind, weights, widths };
    }
    case "random":
      return { kind, choices: whole("choices", own(given, "choices"), 1, 2 ** 31) };
    default:
      throw new Unsupported("this client does not know the kind of a policy of the round");
  }
}

/** How messages are made. What the noise is worth is not checked here: see `checkNoise`. */
export function checkChannel(value: unknown): Channel {
  const given = fields("the channel", value);
  const noise = fields("noise", own(given, "noise"));
  const distribution = own(noise, "distribution");
  const grid = powerOfTwo("grid", own(given, "grid"));
  const channel = {
    id: text("id", own(given, "id"), /^[0-9a-f]{16}$/),
    size: whole("size", own(given, "size"), 1, MOST_COORDINATES),
    grid,
    source: oneOf("source", own(given, "source"), ["secure", "fast"]),
  };
  if (distribution === "codebook" || distribution === "signs") {
    const report = checkReport(noise, distribution, channel.size);
    return { ...channel, kind: oneOf("kind", own(given, "kind"), ["index"]), noise: report };
  }
  if (distribution !== "gaussian" && distribution !== "laplace") throw new Unsupported("this client does not know the distribution of the noise");
  if (own(noise, "step") !== grid) throw new Unsupported("this client adds noise on the grid of the contributions only");
  const scale = real("scale", own(noise, "scale"), WIDTHS[0] * grid, WIDTHS[1] * grid);
  return { ...channel, kind: oneOf("kind", own(given, "kind"), ["numbers"]), noise: { distribution, scale, step: grid } };
}

/** The tables from which a contribution is computed. All lengths fit each other and the channel. */
export function checkStatistic(value: unknown, channel: Channel): Statistic {
  if (value === null || value === undefined) throw new Unsupported("this client cannot compute what this run's users contribute");
  const given = fields("the statistic", value);
  switch (own(given, "kind")) {
    case "transitions":
      return checkTransitions(given, channel);
    case "answers":
      return checkAnswers(given, channel);
    case "budget":
      return checkBudget(given, channel);
    default:
      throw new Unsupported("this client cannot compute what this run's users contribute");
  }
}

function checkTransitions(given: Fields, channel: Channel): Transitions {
  const steps = whole("steps", own(given, "steps"), 1, MOST_STEPS);
  const most = Math.floor(WHOLE_LIMIT / steps) - 1;
  const table = rectangle("table", own(given, "table"), 4, (each) => whole("a number of the table", each, -most, most)) as number[][][][];
  fit(steps * table[0]![0]![0]!.length, channel.size);
  return { kind: "transitions", steps, table };
}

function checkAnswers(given: Fields, channel: Channel): Answers {
  const questions = channel.size;
  if (channel.grid > 0.5) throw new InvalidDocument("the grid is too coarse for answers");
  const steps = list("steps", own(given, "steps"), questions, questions).map((each) => whole("a step", each, 0, MOST_STEPS));
  const rewards = list("rewards", own(given, "rewards"), questions, questions).map((each) => {
    if (typeof each !== "boolean") throw new InvalidDocument("rewards must be true or false");
    return each;
  });
  const signs = rectangle("signs", own(given, "signs"), 4, (each) => whole("a sign", each, -1, 1)) as number[][][][];
  fit(signs.length, questions);
  if (!(channel.grid * WHOLE_LIMIT > 1)) throw new InvalidDocument("the grid is too fine for answers");
  return { kind: "answers", steps, signs, rewards };
}

function checkBudget(given: Fields, channel: Channel): Budget {
  const size = (name: string, most: number) => whole(name, own(given, name), 1, most);
  const layers = size("layers", MOST_STEPS);
  const states = size("states", MOST_NUMBERS);
  const actions = size("actions", MOST_NUMBERS);
  const steps = size("steps", MOST_STEPS);
  const balance = whole("balance", own(given, "balance"), 0, MOST_BALANCE);
  const pairs = layers * states * actions;
  if (pairs > MOST_NUMBERS) throw new InvalidDocument("the round has too many pairs of a state and an action");
  const costs = list("costs", own(given, "costs"), pairs, pairs).map((each) => whole("a cost", each, 0, BUDGET));
  const successors = list("successors", own(given, "successors"), 1, MOST_NUMBERS).map((each) => whole("a successor", each, 0, states - 1));
  const indptr = list("indptr", own(given, "indptr"), pairs + 1, pairs + 1).map((each) => whole("a place", each, 0, successors.length));
  const ordered = indptr.every((place, i) => i === 0 || indptr[i - 1]! <= place);
  if (!ordered || indptr[0] !== 0 || indptr[pairs] !== successors.length) {
    throw new InvalidDocument("the pairs of a budget must have places of their own"); // otherwise what they add would add up
  }
  fit(successors.length + (balance ? pairs : 0), channel.size);
  return { kind: "budget", layers, states, actions, steps, balance, indptr, successors, costs };
}

function fit(numbers: number, size: number): void {
  if (numbers !== size) throw new InvalidDocument(`the statistic has ${numbers} numbers, and the channel ${size}`);
}

// values

/** A field of the object itself: what every object of JavaScript inherits was not sent by anybody. */
export function own(given: Fields, name: string): unknown {
  return Object.hasOwn(given, name) ? given[name] : undefined;
}

export function fields(name: string, value: unknown): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new InvalidDocument(`${name} must be an object`);
  return value as Fields;
}

export function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most) {
    throw new InvalidDocument(`${name} must be a whole number from ${least} to ${most}`);
  }
  return value;
}

export function real(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !(value >= least && value <= most)) throw new InvalidDocument(`${name} must be a number from ${least} to ${most}`);
  return value;
}

function powerOfTwo(name: string, value: unknown): number {
  const given = real(name, value, ...GRIDS);
  if (2 ** Math.round(Math.log2(given)) !== given) throw new InvalidDocument(`${name} must be a power of two`);
  return given;
}

function text(name: string, value: unknown, pattern: RegExp): string {
  if (typeof value !== "string" || !pattern.test(value)) throw new InvalidDocument(`${name} is not the text that it must be`);
  return value;
}

function oneOf<T extends string>(name: string, value: unknown, choices: readonly T[]): T {
  if (!choices.includes(value as T)) throw new InvalidDocument(`${name} must be ${choices.join(" or ")}`);
  return value as T;
}

function list(name: string, value: unknown, least: number, most: number): unknown[] {
  if (!Array.isArray(value) || value.length < least || value.length > most) {
    throw new InvalidDocument(`${name} must be a list with ${least === most ? least : `${least} to ${most}`} entries`);
  }
  return value;
}

type Check = (value: unknown) => number;
type Nested = number | Nested[];

/** Lists of lists of numbers, of which all on one level are equally long. The depth is the caller's, never the server's. */
function rectangle(name: string, value: unknown, depth: number, check: Check): Nested[] {
  const shape: number[] = [];
  let numbers = 1;
  for (let level = value, left = depth; left > 0; left--) {
    const length = list(name, level, 1, MOST_NUMBERS).length;
    shape.push(length);
    numbers *= length;
    level = (level as unknown[])[0];
  }
  if (numbers > MOST_NUMBERS) throw new InvalidDocument(`${name} has more than ${MOST_NUMBERS} numbers`);
  const copy = (part: unknown, level: number): Nested =>
    level === depth ? check(part) : list(name, part, shape[level]!, shape[level]!).map((each) => copy(each, level + 1));
  return copy(value, 0) as Nested[];
}
