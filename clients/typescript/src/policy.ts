/**
 * Policies of a round, as plain tables. They were checked (checks.ts). The names of the kinds are a
 * wire format. A device acts by them as confide/service/device/policies.py does.
 */
import type { Statistic } from "./contribution.js";
import { below, uniform, type Take } from "./entropy.js";
import { InvalidIndex, Unsupported } from "./errors.js";
import type { Channel } from "./message.js";

export type Policy =
  | { kind: "tabular"; actions: number[][]; choices: number }
  | { kind: "stochastic"; weights: number[][][] }
  | { kind: "linear"; gains: number[][][] }
  | { kind: "context"; weights: number[]; widths: number[][] | null }
  | { kind: "random"; choices: number };

export interface RoundDocument {
  format: string;
  run: string;
  generation: number;
  /** The digest of the round, which reports name. */
  round: string;
  policies: Policy[];
  shares: number[];
  /** Of local runs. */
  statistic?: Statistic | null;
  channel?: Channel;
}

/**
 * The policy of a device that drew this number out of 2^128, before there were any data. A policy
 * with a larger share has more numbers.
 */
export function drawnPolicy(document: RoundDocument, which: bigint): Policy {
  let sum = 0;
  const edges = document.shares.map((share) => (sum += share));
  const point = (Number(which) / 2 ** 128) * sum;
  const index = edges.slice(0, -1).filter((edge) => edge <= point).length;
  return document.policies[index]!;
}

/** The action of a policy: a number, or a vector for linear systems. */
export function act(
  policy: Policy,
  step: number,
  state: number | readonly number[] | readonly (readonly number[])[],
  take: Take,
): number | number[] {
  switch (policy.kind) {
    case "tabular":
      return existing(policy.actions[step]?.[state as number]);
    case "stochastic":
      return drawByWeight(existing(policy.weights[step]?.[state as number]), uniform(take));
    case "random":
      return Number(below(take)(BigInt(policy.choices)));
    case "linear":
      return existing(policy.gains[step]).map((row) => dot(row, state as readonly number[]));
    case "context": {
      // One row of features per action. The widths reward features that are not yet known.
      const scores = (state as readonly (readonly number[])[]).map((features) => {
        const widths = policy.widths?.map((row) => dot(row, features)) ?? [];
        return dot(policy.weights, features) + Math.hypot(...widths);
      });
      return scores.indexOf(Math.max(...scores));
    }
    default:
      throw new Unsupported(
        `this client knows no policy of kind ${(policy as { kind: string }).kind}`,
      );
  }
}

/** The value, if there is one: a step and a state may have none. */
function existing<T>(value: T | undefined): T {
  if (value === undefined) throw new InvalidIndex("there is no such step or state");
  return value;
}

/** The index whose weights reach a random number from 0 to 1. */
function drawByWeight(weights: readonly number[], random: number): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let passed = 0;
  const index = weights.findIndex((weight) => (passed += weight) > random * total);
  return index < 0 ? weights.length - 1 : index;
}

function dot(one: readonly number[], other: readonly number[]): number {
  return one.reduce((sum, value, i) => sum + value * other[i]!, 0);
}
