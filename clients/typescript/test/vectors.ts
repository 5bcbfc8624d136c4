/** The vectors that all clients share, and a stream of entropy from one of them. */
import { readFileSync } from "node:fs";
import type { Episode, Statistic } from "../src/contribution.js";
import type { SigningKey, Statement } from "../src/documents.js";
import { fromBase64, type Take } from "../src/entropy.js";
import type { Channel } from "../src/message.js";

export interface MessageVector {
  name: string;
  channel: Channel;
  statistic: Statistic;
  episode: Episode;
  generation: number;
  round: string;
  entropy: string;
  steps: number[];
  message: string;
}

export interface Vectors {
  messages: MessageVector[];
  bodies: { subject: string; generation: number; round: string; episode: Episode; horizon: number; body: string }[];
  documents: { statement: Statement; bytes: string; digest: string; key: string; signature: string; keys: SigningKey[] };
  policies: { shares: number[]; which: string; place: number }[];
  deltas: { epsilon: number; mu: number; delta: number }[];
}

export const vectors = JSON.parse(readFileSync(new URL("../../vectors.json", import.meta.url), "utf8")) as Vectors;

/** These bytes, and not one more. */
export function stream(entropy: string): Take & { left(): number } {
  const bytes = fromBase64(entropy);
  let used = 0;
  const take = (size: number) => {
    if (used + size > bytes.length) throw new Error("the vector has no more entropy");
    return bytes.slice(used, (used += size));
  };
  return Object.assign(take, { left: () => bytes.length - used });
}
