/** What an episode contributes, computed from the plain tables of a round. What makes no sense adds zero. */
import { Unsupported } from "./errors.js";
import type { Channel } from "./message.js";

/** Of one person. Parts of joint runs may be vectors; whatever is in it, nothing but numbers counts. */
export interface Episode {
  states: readonly unknown[]; // one more than actions: the last one is where the episode ended
  actions: readonly unknown[];
  rewards: readonly unknown[];
}

export interface Transitions {
  kind: "transitions";
  steps: number;
  table: number[][][][]; // [state][action][next state][code], whole steps of the grid
}

export interface Answers {
  kind: "answers";
  steps: number[]; // question q is about this step
  signs: number[][][][]; // [question][state][action][next state]
  rewards: boolean[]; // whether question q is about the reward
}

export type Statistic = Transitions | Answers;

const MOST = 2 ** 50;

/** In whole steps of the channel's grid. */
export function contribution(statistic: Statistic | null, channel: Channel, episode: Episode): number[] {
  if (statistic === null || !["transitions", "answers"].includes(statistic.kind)) {
    throw new Unsupported("this client cannot compute what this run's users contribute");
  }
  try {
    const made = statistic.kind === "transitions" ? transitions(statistic, channel, episode) : answers(statistic, channel, episode);
    if (made.length === channel.size && made.every((each) => Number.isInteger(each) && Math.abs(each) < MOST)) return made;
  } catch {
    // an error would tell whoever misses the message something about the data
  }
  return new Array<number>(channel.size).fill(0);
}

function transitions(statistic: Transitions, channel: Channel, episode: Episode): number[] {
  const codes = channel.size / statistic.steps;
  const sums = new Array<number>(channel.size).fill(0);
  for (const { step, state, action, after } of steps(episode, statistic.steps)) {
    const row = statistic.table[state]?.[action]?.[after];
    if (row === undefined) continue;
    if (row.length !== codes) throw new RangeError("ragged table");
    for (let c = 0; c < codes; c++) sums[step * codes + c]! += row[c]!;
  }
  return sums;
}

function answers(statistic: Answers, channel: Channel, episode: Episode): number[] {
  const seen = steps(episode, Math.max(...statistic.steps) + 1);
  return statistic.signs.map((signs, question) => {
    const asked = statistic.steps[question]!;
    const { state, action, after } = seen[asked] ?? { state: -1, action: -1, after: -1 };
    const row = signs[state]?.[action];
    if (row === undefined) return 0;
    if (!statistic.rewards[question]) return row[after] === undefined ? 0 : rint(row[after] / (2 * channel.grid));
    if (asked >= episode.rewards.length) throw new RangeError("no such reward");
    const reward = number(episode.rewards[asked]);
    if (!Number.isFinite(reward)) return 0;
    return row[0]! * rint((Math.min(Math.max(reward, 0), 1) - 0.5) / channel.grid);
  });
}

/** The first `most` steps; -1 for what is no whole number. */
function steps(episode: Episode, most: number): { step: number; state: number; action: number; after: number }[] {
  return Array.from({ length: Math.min(most, episode.actions.length) }, (_, step) => ({
    step,
    state: index(episode.states[step]),
    action: index(episode.actions[step]),
    after: index(episode.states[step + 1]),
  }));
}

function index(value: unknown): number {
  const found = number(value);
  return Number.isInteger(found) ? found : -1;
}

function number(value: unknown): number {
  return typeof value === "number" || typeof value === "boolean" ? Number(value) : NaN;
}

/** To the nearest whole number, of two the even one. */
function rint(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1;
}

/** How far apart two contributions can be, in L1 or L2: at most, over all episodes. */
export function reach(statistic: Statistic, grid: number, norm: 1 | 2): number {
  if (statistic.kind === "transitions") {
    const rows = distinct(statistic.table.flat(2));
    let far = 0;
    for (const one of rows) for (const other of rows) far = Math.max(far, distance(one, other, norm));
    return far * grid * (norm === 1 ? statistic.steps : Math.sqrt(statistic.steps));
  }
  const largest = Math.max(...statistic.signs.flat(3).map(Math.abs));
  const questions = statistic.signs.length;
  return 2 * grid * largest * rint(1 / (2 * grid)) * (norm === 1 ? questions : Math.sqrt(questions));
}

/** The different rows of a table, and zero, which is what an impossible transition adds. */
function distinct(rows: number[][]): number[][] {
  const zero = new Array<number>(rows[0]!.length).fill(0);
  return [...new Map([zero, ...rows].map((row) => [row.join(), row])).values()];
}

function distance(one: number[], other: number[], norm: 1 | 2): number {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += Math.abs(one[i]! - other[i]!) ** norm;
  return norm === 1 ? sum : Math.sqrt(sum);
}
