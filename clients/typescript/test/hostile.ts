/** What a device does with a round: it refuses, or what it would send is within what the noise was made for. For Node and for browsers. */
import { checkRound, parseJson } from "../src/checks.js";
import { contribution, type Episode } from "../src/contribution.js";
import { below, uniform, type Take } from "../src/entropy.js";
import { ConfideError } from "../src/errors.js";
import { checkNoise, message, type Channel } from "../src/message.js";
import type { Accepts } from "../src/promise.js";

const OUTSIDE = 1 + 2 ** -12; // of a report's radius: see src/message.ts

export interface Hostile {
  accepts: Accepts;
  mu: number;
  episodes: Episode[];
  rounds: { name: string; refused: boolean; text: string }[];
  answers: HostileAnswer[];
  replies: HostileAnswer[];
}

export interface HostileAnswer {
  name: string;
  path?: string;
  status?: number;
  headers?: Record<string, string | null>;
  text?: string;
  fields?: Record<string, unknown>;
}

export type Finding = "refused" | "sent";

export function outcomeOfText(text: string, hostile: Hostile): Finding {
  let document: unknown;
  try {
    document = parseJson("the round", new TextEncoder().encode(text));
  } catch (error) {
    return refused(error);
  }
  return outcomeOf(document, hostile);
}

/** Whatever is neither a refusal nor a message within its bound throws. */
export function outcomeOf(document: unknown, hostile: Hostile): Finding {
  const { accepts, mu, episodes } = hostile;
  let channel: Channel;
  let contributions: number[][];
  try {
    const round = checkRound(document, "demo", 0, true);
    channel = round.channel!;
    checkNoise(channel, round.statistic!, accepts);
    contributions = episodes.map((episode) => contribution(round.statistic!, channel, episode));
  } catch (error) {
    return refused(error);
  }
  const sent = message(channel, contributions[0]!, { generation: 0, round: "00".repeat(32) }, bytes(1));
  const values = new DataView(sent.buffer);
  const count = channel.kind === "index" ? 1 : channel.size;
  for (let i = 1; i <= count; i++) must(Number.isFinite(values.getFloat64(sent.length - 8 * i, true)), "a message that is not finite");
  checkDistances(channel, contributions, accepts.epsilon, mu);
  return "sent";
}

function refused(error: unknown): Finding {
  if (error instanceof ConfideError) return "refused";
  throw error;
}

/** Independent of the client: how far apart contributions may be is computed from the noise and the epsilon alone. */
function checkDistances({ noise, grid, size }: Channel, contributions: number[][], epsilon: number, mu: number): void {
  const norm = (values: number[], order: 1 | 2) => values.reduce((sum, each) => sum + Math.abs(each * grid) ** order, 0) ** (1 / order);
  const highest = (values: number[]) => values.reduce((most, each) => Math.max(most, Math.abs(each * grid)), 0);
  must(contributions.every((each) => each.length === size && each.every(Number.isFinite)), "a contribution that is not finite");
  if (noise.distribution === "codebook" || noise.distribution === "signs") {
    const far = noise.distribution === "signs" ? highest : (values: number[]) => norm(values, 2);
    must(noise.epsilon <= epsilon * (1 + 1e-9), "an epsilon above the accepted one");
    must(contributions.every((each) => far(each) <= noise.radius * OUTSIDE), "a contribution outside of the radius");
    return;
  }
  for (const one of contributions) {
    for (const other of contributions) {
      const apart = one.map((each, i) => each - other[i]!);
      if (noise.distribution === "laplace") must(norm(apart, 1) <= noise.scale * epsilon * (1 + 1e-4), "contributions too far apart for Laplace noise");
      else must(norm(apart, 2) <= (noise.scale - 2 * grid) * mu * (1 + 1e-6), "contributions too far apart for Gaussian noise");
    }
  }
}

function must(holds: boolean, otherwise: string): void {
  if (!holds) throw new Error(otherwise);
}

/** Bytes that are a function of a seed (mulberry32), for tests that can be repeated. */
export function bytes(seed: number): Take {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 24;
  };
  return (size) => Uint8Array.from({ length: size }, next);
}

// Random rounds: half of them have other tables and other noise, half of them are damaged at one to three places.

const NASTY = [null, true, false, "", "1", "__proto__", [], {}, [[]], NaN, Infinity, -Infinity, -1, 0, 0.5, 1e-320, 2 ** 53, 2 ** 60, 1e308, undefined];

type Part = Record<string, unknown>;

export function randomRound(take: Take, bases: readonly string[]): unknown {
  const even = (limit: number) => Number(below(take)(BigInt(limit)));
  const document = JSON.parse(bases[even(bases.length)]!) as Part;
  if (even(2)) refill(document, take, even);
  else for (let left = 1 + even(3); left > 0; left--) damage(document, take, even);
  return document;
}

function refill(document: Part, take: Take, even: (limit: number) => number): void {
  const statistic = document.statistic as Part;
  const noise = (document.channel as Part).noise as Part;
  const replaced = (part: unknown, number: () => number): unknown => (Array.isArray(part) ? part.map((each) => replaced(each, number)) : number());
  if (statistic.kind === "transitions") {
    const size = 2 ** (1 + even(25));
    statistic.table = replaced(statistic.table, () => Math.round((uniform(take) + uniform(take) - 1) * 2 * size));
  } else if (statistic.kind === "answers") {
    statistic.signs = replaced(statistic.signs, () => even(3) - 1);
    statistic.steps = replaced(statistic.steps, () => even(6));
  } else {
    const places = (statistic.successors as unknown[]).length;
    const edges = (statistic.costs as unknown[]).slice(1).map(() => even(places + 1));
    statistic.costs = replaced(statistic.costs, () => Math.floor(2 ** (40 * uniform(take))));
    statistic.successors = replaced(statistic.successors, () => even(3));
    statistic.indptr = [0, ...edges.sort((a, b) => a - b), places];
    if (statistic.balance) statistic.balance = 1 + even(256);
  }
  for (const name of ["scale", "radius"]) if (name in noise) noise[name] = (noise[name] as number) * 2 ** (4 * uniform(take) - 2);
}

/** Replace, remove or repeat something anywhere in the document. */
function damage(document: Part, take: Take, even: (limit: number) => number): void {
  let parent: Part = document;
  let place = "";
  let part: unknown = document;
  while (typeof part === "object" && part !== null && Object.keys(part).length && (place === "" || uniform(take) < 0.85)) {
    parent = part as Part;
    const places = Object.keys(parent);
    place = places[even(places.length)]!;
    part = parent[place];
  }
  const choice = uniform(take);
  if (choice < 0.5) parent[place] = NASTY[even(NASTY.length)];
  else if (choice < 0.7 && typeof part === "number") parent[place] = part * 2 ** (even(9) - 4) + even(3) - 1;
  else if (choice < 0.85 && Array.isArray(parent)) parent.push(structuredClone(part));
  else if (Array.isArray(parent)) parent.splice(Number(place), 1);
  else delete parent[place];
}
