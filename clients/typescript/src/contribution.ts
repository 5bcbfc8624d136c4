/**
 * What an episode contributes, computed from the plain tables of a round.
 *
 * What makes no sense adds zero. The numbers are those of confide/service/device/episodes.py, and
 * ../vectors.json holds both languages to them.
 *
 * Guarantee: a contribution satisfies `belongs`, whatever the tables and the episode are.
 * `sensitivity` and `largest` are proved for all such numbers. Whoever changes `belongs` must prove
 * them again.
 */
import { checkStatistic, WHOLE_LIMIT } from "./checks.js";
import type { Channel } from "./message.js";

/**
 * Of one person. Parts of joint runs may be vectors; whatever is in it, nothing but numbers counts.
 */
export interface Episode {
  /** One more than actions: the last one is where the episode ended. */
  states: readonly unknown[];
  actions: readonly unknown[];
  rewards: readonly unknown[];
}

export interface Transitions {
  kind: "transitions";
  steps: number;
  /** [state][action][next state][code], in whole steps of the grid. */
  table: number[][][][];
}

export interface Answers {
  kind: "answers";
  /** The step that each question is about. */
  steps: number[];
  /** [question][state][action][next state]. */
  signs: number[][][][];
  /** Whether each question is about the reward. */
  rewards: boolean[];
}

export interface Budget {
  kind: "budget";
  layers: number;
  states: number;
  actions: number;
  steps: number;
  /** What rewards count beside transitions, in units of 2^-8; 0 if they are not learned. */
  balance: number;
  /** Pair p of a state and an action has the places indptr[p] to indptr[p + 1] - 1. */
  indptr: number[];
  /** The next state of each place. */
  successors: number[];
  /** The cost of one step of each pair. */
  costs: number[];
}

export type Statistic = Transitions | Answers | Budget;

const BUDGET = 2 ** 40;
// Required for privacy: the same numbers as in confide/tables/_contribution_kernels.py. A cost
// times the first one is the square of a weight in steps of the grid. A reward of 1 has so many
// units, and a balance of 1 too.
const STEPS_PER_COST = 2 ** 8;
const REWARD_UNITS = 2 ** 20;
const SCALE_UNITS = 2 ** 8;
/**
 * If a table has at most so many different rows, the distances of all pairs are computed. If it has
 * more, twice the largest row is used, which is never smaller. A matter of taste.
 */
const MAX_ROWS_FOR_PAIRS = 4000;

/**
 * What an episode contributes, in whole steps of the channel's grid. Tables that make no sense are
 * refused. An episode that makes none contributes zero.
 */
export function contribution(
  statistic: Statistic | null,
  channel: Channel,
  episode: Episode,
): number[] {
  const checked = checkStatistic(statistic, channel);
  try {
    const steps = compute(checked, channel, episode);
    if (belongs(checked, channel, steps)) return steps;
  } catch {
    // An error would tell whoever misses the message something about the data.
  }
  return new Array<number>(channel.size).fill(0);
}

/**
 * Whether these numbers are what some episode contributes. `sensitivity` and `largest` are about
 * such numbers, so the noise was made for nothing else. This is asked before noise is added, and of
 * the result alone: it does not rely on how the result was computed.
 */
export function belongs(
  statistic: Statistic,
  channel: Channel,
  steps: readonly number[],
): boolean {
  if (steps.length !== channel.size) return false;
  const isExact = (step: number) => Number.isSafeInteger(step) && Math.abs(step) < WHOLE_LIMIT;
  if (!steps.every(isExact)) return false;
  switch (statistic.kind) {
    case "transitions": {
      const codes = channel.size / statistic.steps;
      const rows = new Set(distinct(statistic.table.flat(2)).map((row) => row.join()));
      for (let h = 0; h < statistic.steps; h++) {
        const row = withoutSignedZero(steps.slice(h * codes, (h + 1) * codes));
        if (!rows.has(row.join())) return false;
      }
      return true;
    }
    case "answers":
      return steps.every((step) => Math.abs(step) * channel.grid <= 0.5);
    case "budget":
      return isPaid(statistic, steps);
  }
}

/**
 * Whether a user's budget pays for these weighted visits and rewards. The squares of all visits sum
 * to at most the budget, and those of the rewards to the share of it that `balance` states. At most
 * so many pairs were visited as an episode has steps, which bounds the plain sums, too.
 */
function isPaid(statistic: Budget, steps: readonly number[]): boolean {
  const cells = statistic.successors.length;
  const visits = steps.slice(0, cells);
  const rewards = steps.slice(cells);
  const budget = BigInt(BUDGET * STEPS_PER_COST);
  const pairs = Math.min(statistic.steps, statistic.costs.length);
  if (sum(visits) > root(BUDGET * STEPS_PER_COST) * Math.sqrt(pairs) + pairs) return false;
  if (squares(visits) > budget) return false;
  const rewardSquares = squares(rewards) * BigInt(SCALE_UNITS) ** 2n;
  if (rewardSquares > budget * BigInt(statistic.balance) ** 2n) return false;
  if (!steps.every((step) => step >= 0)) return false;
  return sum(rewards) * SCALE_UNITS <= sum(visits) * statistic.balance;
}

/** The largest coordinate and the largest norm in L2 that a contribution can have. */
export function largest(statistic: Statistic, grid: number): { coordinate: number; norm: number } {
  switch (statistic.kind) {
    case "transitions": {
      const rows = distinct(statistic.table.flat(2));
      const zero = rows[0]!;
      let norm = 0;
      let coordinate = 0;
      for (const row of rows) {
        norm = Math.max(norm, distance(row, zero, 2));
        for (const value of row) coordinate = Math.max(coordinate, Math.abs(value));
      }
      return { coordinate: coordinate * grid, norm: norm * Math.sqrt(statistic.steps) * grid };
    }
    case "answers":
      return { coordinate: 0.5, norm: Math.sqrt(statistic.steps.length) / 2 };
    case "budget": {
      const unit = root(BUDGET * STEPS_PER_COST) * grid;
      const rewardShare = statistic.balance / SCALE_UNITS;
      return {
        coordinate: unit * Math.max(1, rewardShare),
        norm: unit * Math.hypot(1, rewardShare),
      };
    }
  }
}

/** The same numbers, with 0 in place of -0, so that equal rows are the same text. */
function withoutSignedZero(row: readonly number[]): number[] {
  return row.map((value) => value + 0);
}

/** The sum of the squares, exactly. */
function squares(steps: readonly number[]): bigint {
  return steps.reduce((total, step) => total + BigInt(step) ** 2n, 0n);
}

function sum(steps: readonly number[]): number {
  return steps.reduce((total, step) => total + step, 0);
}

function compute(statistic: Statistic, channel: Channel, episode: Episode): number[] {
  switch (statistic.kind) {
    case "transitions":
      return transitionContribution(statistic, channel, episode);
    case "answers":
      return answerContribution(statistic, channel, episode);
    case "budget":
      return budgetContribution(statistic, episode);
  }
}

/** One row of the table for each step, side by side. */
function transitionContribution(
  statistic: Transitions,
  channel: Channel,
  episode: Episode,
): number[] {
  const codes = channel.size / statistic.steps;
  const sums = new Array<number>(channel.size).fill(0);
  for (const { step, state, action, nextState } of episodeSteps(episode, statistic.steps)) {
    const row = statistic.table[state]?.[action]?.[nextState];
    if (row === undefined) continue;
    for (let c = 0; c < codes; c++) sums[step * codes + c]! += row[c]!;
  }
  return sums;
}

/**
 * The answer to each question: a half with a sign, or a reward from -1/2 to 1/2. A question is
 * about one step. Whoever was not in its state, or took another action, answers 0.
 */
function answerContribution(statistic: Answers, channel: Channel, episode: Episode): number[] {
  const lastStep = statistic.steps.reduce((most, step) => Math.max(most, step), 0);
  const steps = episodeSteps(episode, lastStep + 1);
  return statistic.signs.map((signs, question) => {
    const askedStep = statistic.steps[question]!;
    const { state, action, nextState } = steps[askedStep] ?? {
      state: -1,
      action: -1,
      nextState: -1,
    };
    const row = signs[state]?.[action];
    if (row === undefined) return 0;
    if (!statistic.rewards[question]) {
      const sign = row[nextState];
      return sign === undefined ? 0 : roundHalfToEven(sign / (2 * channel.grid));
    }
    if (askedStep >= episode.rewards.length) throw new RangeError("no such reward");
    const reward = toNumber(episode.rewards[askedStep]);
    if (!Number.isFinite(reward)) return 0;
    const centredReward = Math.min(Math.max(reward, 0), 1) - 0.5;
    return row[0]! * roundHalfToEven(centredReward / channel.grid);
  });
}

/**
 * Weighted visits, and rewards if there is a balance. A step counts if the budget can pay it. The
 * c-th step of a pair adds sqrt(c) - sqrt(c - 1) times the square root of its cost.
 */
function budgetContribution(statistic: Budget, episode: Episode): number[] {
  const { layers, states, actions, balance, indptr, successors, costs } = statistic;
  const sums = new Array<number>(successors.length + (balance ? costs.length : 0)).fill(0);
  const visitsOfPair = new Map<number, number>();
  let spent = 0;
  for (const { step, state, action, nextState } of episodeSteps(episode, statistic.steps)) {
    const stateExists = state >= 0 && state < states && nextState >= 0 && nextState < states;
    const actionExists = action >= 0 && action < actions;
    if (!stateExists || !actionExists || (layers > 1 && step >= layers)) continue;
    const layer = layers > 1 ? step : 0;
    const pair = (layer * states + state) * actions + action;
    const cost = costs[pair]!;
    const place = successors.slice(indptr[pair]!, indptr[pair + 1]!).indexOf(nextState);
    const reward = balance ? toNumber(episode.rewards[step]) : 0;
    if (cost <= 0 || spent + cost > BUDGET || place < 0 || !Number.isFinite(reward)) continue;
    spent += cost;
    const visits = (visitsOfPair.get(pair) ?? 0) + 1;
    visitsOfPair.set(pair, visits);
    const weight =
      root(visits * cost * STEPS_PER_COST) - root((visits - 1) * cost * STEPS_PER_COST);
    sums[indptr[pair]! + place]! += weight;
    if (balance) {
      const fineReward = Math.trunc(Math.min(Math.max(reward, 0), 1) * REWARD_UNITS);
      const product = BigInt(weight) * BigInt(balance) * BigInt(fineReward);
      sums[successors.length + pair]! += Number(product / BigInt(REWARD_UNITS * SCALE_UNITS));
    }
  }
  return sums;
}

/** The largest whole number whose square is not larger; of whole numbers below 2^52. */
function root(value: number): number {
  const rounded = Math.floor(Math.sqrt(value));
  return rounded * rounded > value ? rounded - 1 : rounded;
}

interface EpisodeStep {
  step: number;
  state: number;
  action: number;
  nextState: number;
}

/** The first `most` steps. -1 stands for what is missing, or is no whole number. */
function episodeSteps(episode: Episode, most: number): EpisodeStep[] {
  return Array.from({ length: Math.min(most, episode.actions.length) }, (_, step) => ({
    step,
    state: toIndex(episode.states[step]),
    action: toIndex(episode.actions[step]),
    nextState: toIndex(episode.states[step + 1]),
  }));
}

function toIndex(value: unknown): number {
  const number = toNumber(value);
  return Number.isInteger(number) ? number : -1;
}

function toNumber(value: unknown): number {
  return typeof value === "number" || typeof value === "boolean" ? Number(value) : NaN;
}

/** The nearest whole number, of two the even one. */
function roundHalfToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1;
}

/**
 * How far apart the contributions of two people can be, in L1 or L2, for these tables. A device
 * relies on nobody else for it. Proved, and required for privacy.
 */
export function sensitivity(statistic: Statistic, grid: number, norm: 1 | 2): number {
  if (statistic.kind === "budget") return budgetSensitivity(statistic, grid, norm);
  if (statistic.kind === "answers") {
    // Two answers to one question are at most 1 apart.
    const questions = statistic.steps.length;
    return norm === 1 ? questions : Math.sqrt(questions);
  }
  const rows = distinct(statistic.table.flat(2));
  const zero = rows[0]!;
  let farthest = 0;
  if (rows.length > MAX_ROWS_FOR_PAIRS) {
    for (const row of rows) farthest = Math.max(farthest, 2 * distance(row, zero, norm));
  } else {
    for (const row of rows) {
      for (const other of rows) farthest = Math.max(farthest, distance(row, other, norm));
    }
  }
  return farthest * grid * (norm === 1 ? statistic.steps : Math.sqrt(statistic.steps));
}

function budgetSensitivity(
  { costs, balance, steps }: Budget,
  grid: number,
  norm: 1 | 2,
): number {
  const rewardShare = balance / SCALE_UNITS;
  // What the whole budget buys.
  const unit = root(BUDGET * STEPS_PER_COST) * grid;
  // Contributions are not negative, so two of them are at most sqrt(2) norms apart.
  if (norm === 2) return unit * Math.SQRT2 * Math.hypot(1, rewardShare);
  return unit * 2 * (1 + rewardShare) * Math.sqrt(Math.min(steps, costs.length));
}

/** Zero, which is what an impossible transition adds, and the other rows of a table. */
function distinct(rows: number[][]): number[][] {
  const zero = new Array<number>(rows[0]!.length).fill(0);
  const byText = new Map<string, number[]>();
  for (const row of [zero, ...rows.map(withoutSignedZero)]) byText.set(row.join(), row);
  return [...byText.values()];
}

function distance(one: number[], other: number[], norm: 1 | 2): number {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += Math.abs(one[i]! - other[i]!) ** norm;
  return norm === 1 ? sum : Math.sqrt(sum);
}
