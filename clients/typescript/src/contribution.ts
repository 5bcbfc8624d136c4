/** What an episode contributes, computed from the plain tables of a round. What makes no sense adds zero. */
import { checkStatistic, MOST_WHOLE } from "./checks.js";
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

export interface Budget {
  kind: "budget";
  layers: number;
  states: number;
  actions: number;
  steps: number;
  balance: number; // what rewards count beside transitions, in units of 2^-8; 0 if they are not learned
  indptr: number[]; // pair p of a state and an action has places indptr[p] to indptr[p + 1] - 1
  successors: number[]; // the next state of each place
  costs: number[]; // of one step of each pair
}

export type Statistic = Transitions | Answers | Budget;

const BUDGET = 2 ** 40;
const SHIFT = 2 ** 8;
const FINE = 2 ** 20;
const PART = 2 ** 8;
const PAIRS = 4000; // rows of a table: up to here all pairs are measured

/** In whole steps of the channel's grid. Tables that make no sense are refused; an episode that makes none contributes zero. */
export function contribution(statistic: Statistic | null, channel: Channel, episode: Episode): number[] {
  const checked = checkStatistic(statistic, channel);
  try {
    const steps = computed(checked, channel, episode);
    if (belongs(checked, channel, steps)) return steps;
  } catch {
    // an error would tell whoever misses the message something about the data
  }
  return new Array<number>(channel.size).fill(0);
}

/**
 * Whether these numbers are what some episode contributes. `sensitivity` and `largest` are about such numbers, so the noise was made for
 * nothing else. It is asked before noise is added, and of the result alone: it does not rely on how the result was computed.
 */
export function belongs(statistic: Statistic, channel: Channel, steps: readonly number[]): boolean {
  if (steps.length !== channel.size || !steps.every((each) => Number.isSafeInteger(each) && Math.abs(each) < MOST_WHOLE)) return false;
  switch (statistic.kind) {
    case "transitions": {
      const codes = channel.size / statistic.steps;
      const rows = new Set(distinct(statistic.table.flat(2)).map((row) => row.join()));
      return Array.from({ length: statistic.steps }, (_, h) => positive(steps.slice(h * codes, (h + 1) * codes)).join()).every((part) => rows.has(part));
    }
    case "answers":
      return steps.every((each) => Math.abs(each) * channel.grid <= 0.5);
    case "budget": {
      const cells = statistic.successors.length;
      const [visits, rewards] = [steps.slice(0, cells), steps.slice(cells)];
      const most = BigInt(BUDGET * SHIFT);
      const pairs = Math.min(statistic.steps, statistic.costs.length);
      if (sum(visits) > root(BUDGET * SHIFT) * Math.sqrt(pairs) + pairs) return false;
      const paid = squares(visits) <= most && squares(rewards) * BigInt(PART) ** 2n <= most * BigInt(statistic.balance) ** 2n;
      return paid && steps.every((each) => each >= 0) && sum(rewards) * PART <= sum(visits) * statistic.balance;
    }
  }
}

/** The largest coordinate and the largest norm in L2 that a contribution can have. */
export function largest(statistic: Statistic, grid: number): { coordinate: number; norm: number } {
  switch (statistic.kind) {
    case "transitions": {
      const rows = distinct(statistic.table.flat(2));
      const zero = rows[0]!;
      const norm = rows.reduce((most, row) => Math.max(most, distance(row, zero, 2)), 0);
      const coordinate = rows.reduce((most, row) => row.reduce((high, each) => Math.max(high, Math.abs(each)), most), 0);
      return { coordinate: coordinate * grid, norm: norm * Math.sqrt(statistic.steps) * grid };
    }
    case "answers":
      return { coordinate: 0.5, norm: Math.sqrt(statistic.steps.length) / 2 };
    case "budget": {
      const unit = root(BUDGET * SHIFT) * grid;
      const part = statistic.balance / PART;
      return { coordinate: unit * Math.max(1, part), norm: unit * Math.hypot(1, part) };
    }
  }
}

/** Zero has no sign as text. */
function positive(row: readonly number[]): number[] {
  return row.map((each) => each + 0);
}

function squares(steps: readonly number[]): bigint {
  return steps.reduce((total, each) => total + BigInt(each) ** 2n, 0n);
}

function sum(steps: readonly number[]): number {
  return steps.reduce((total, each) => total + each, 0);
}

function computed(statistic: Statistic, channel: Channel, episode: Episode): number[] {
  switch (statistic.kind) {
    case "transitions":
      return transitions(statistic, channel, episode);
    case "answers":
      return answers(statistic, channel, episode);
    case "budget":
      return budget(statistic, episode);
  }
}

function transitions(statistic: Transitions, channel: Channel, episode: Episode): number[] {
  const codes = channel.size / statistic.steps;
  const sums = new Array<number>(channel.size).fill(0);
  for (const { step, state, action, after } of steps(episode, statistic.steps)) {
    const row = statistic.table[state]?.[action]?.[after];
    if (row === undefined) continue;
    for (let c = 0; c < codes; c++) sums[step * codes + c]! += row[c]!;
  }
  return sums;
}

function answers(statistic: Answers, channel: Channel, episode: Episode): number[] {
  const seen = steps(episode, statistic.steps.reduce((most, each) => Math.max(most, each), 0) + 1);
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

/** A step counts if the budget can pay it; the c-th step of a pair adds sqrt(c) - sqrt(c - 1) of it. */
function budget(statistic: Budget, episode: Episode): number[] {
  const { layers, states, actions, balance, indptr, successors, costs } = statistic;
  const sums = new Array<number>(successors.length + (balance ? costs.length : 0)).fill(0);
  const often = new Map<number, number>();
  let spent = 0;
  for (const { step, state, action, after } of steps(episode, statistic.steps)) {
    const inside = state >= 0 && state < states && action >= 0 && action < actions && after >= 0 && after < states;
    if (!inside || (layers > 1 && step >= layers)) continue;
    const pair = ((layers > 1 ? step : 0) * states + state) * actions + action;
    const cost = costs[pair]!;
    const place = successors.slice(indptr[pair]!, indptr[pair + 1]!).indexOf(after);
    const reward = balance ? number(episode.rewards[step]) : 0;
    if (cost <= 0 || spent + cost > BUDGET || place < 0 || !Number.isFinite(reward)) continue;
    spent += cost;
    const c = (often.get(pair) ?? 0) + 1;
    often.set(pair, c);
    const weight = root(c * cost * SHIFT) - root((c - 1) * cost * SHIFT);
    sums[indptr[pair]! + place]! += weight;
    if (balance) {
      const part = BigInt(weight) * BigInt(balance) * BigInt(Math.trunc(Math.min(Math.max(reward, 0), 1) * FINE));
      sums[successors.length + pair]! += Number(part / BigInt(FINE * PART));
    }
  }
  return sums;
}

/** The largest whole number whose square is not larger; of whole numbers below 2^52. */
function root(value: number): number {
  const found = Math.floor(Math.sqrt(value));
  return found * found > value ? found - 1 : found;
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

/** How far apart two contributions can be, in L1 or L2, for these tables: a device relies on nobody else for it. */
export function sensitivity(statistic: Statistic, grid: number, norm: 1 | 2): number {
  if (statistic.kind === "budget") return budgetSensitivity(statistic, grid, norm);
  if (statistic.kind === "answers") return norm === 1 ? statistic.steps.length : Math.sqrt(statistic.steps.length);
  const rows = distinct(statistic.table.flat(2));
  const zero = rows[0]!;
  let far = 0;
  if (rows.length > PAIRS) for (const one of rows) far = Math.max(far, 2 * distance(one, zero, norm));
  else for (const one of rows) for (const other of rows) far = Math.max(far, distance(one, other, norm));
  return far * grid * (norm === 1 ? statistic.steps : Math.sqrt(statistic.steps));
}

function budgetSensitivity({ costs, balance, steps }: Budget, grid: number, norm: 1 | 2): number {
  const part = balance / PART;
  const unit = root(BUDGET * SHIFT) * grid; // what the whole budget buys
  return norm === 2 ? unit * Math.SQRT2 * Math.hypot(1, part) : unit * 2 * (1 + part) * Math.sqrt(Math.min(steps, costs.length));
}

/** Zero, which is what an impossible transition adds, and the other rows of a table. */
function distinct(rows: number[][]): number[][] {
  const zero = new Array<number>(rows[0]!.length).fill(0);
  return [...new Map([zero, ...rows.map(positive)].map((row) => [row.join(), row])).values()];
}

function distance(one: number[], other: number[], norm: 1 | 2): number {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += Math.abs(one[i]! - other[i]!) ** norm;
  return norm === 1 ? sum : Math.sqrt(sum);
}
