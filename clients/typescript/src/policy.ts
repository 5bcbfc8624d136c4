/** Policies of a round, as plain tables. */
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
  round: string; // the digest of the round, which reports name
  policies: Policy[];
  shares: number[];
  statistic?: Statistic | null; // of local runs
  channel?: Channel;
}

/** The policy of a device that drew this number out of 2^128, before there were any data. */
export function drawnPolicy(document: RoundDocument, which: bigint): Policy {
  let sum = 0;
  const edges = document.shares.map((share) => (sum += share));
  const at = (Number(which) / 2 ** 128) * sum;
  return document.policies[edges.slice(0, -1).filter((edge) => edge <= at).length]!;
}

/** The action of a policy: a number, or a vector for linear systems. */
export function act(policy: Policy, step: number, state: number | readonly number[] | readonly (readonly number[])[], take: Take): number | number[] {
  switch (policy.kind) {
    case "tabular":
      return known(policy.actions[step]?.[state as number]);
    case "stochastic":
      return weighted(known(policy.weights[step]?.[state as number]), uniform(take));
    case "random":
      return Number(below(take)(BigInt(policy.choices)));
    case "linear":
      return known(policy.gains[step]).map((row) => dot(row, state as readonly number[]));
    case "context": {
      const scores = (state as readonly (readonly number[])[]).map((context) => {
        const widths = policy.widths?.map((row) => dot(row, context)) ?? [];
        return dot(policy.weights, context) + Math.hypot(...widths);
      });
      return scores.indexOf(Math.max(...scores));
    }
    default:
      throw new Unsupported(`this client knows no policy of kind ${(policy as { kind: string }).kind}`);
  }
}

function known<T>(value: T | undefined): T {
  if (value === undefined) throw new InvalidIndex("there is no such step or state");
  return value;
}

function weighted(weights: readonly number[], even: number): number {
  const total = weights.reduce((sum, each) => sum + each, 0);
  let past = 0;
  const found = weights.findIndex((weight) => (past += weight) > even * total);
  return found < 0 ? weights.length - 1 : found;
}

function dot(one: readonly number[], other: readonly number[]): number {
  return one.reduce((sum, each, i) => sum + each * other[i]!, 0);
}
