/** The noise is worth what the person accepts, whatever tables a server sends. */
import { describe, expect, test } from "vitest";
import { sensitivity, type Statistic } from "../src/contribution.js";
import { ConfideError, InvalidDocument, PromiseBroken } from "../src/errors.js";
import { messageOf, type Channel } from "../src/message.js";
import type { Accepts } from "../src/promise.js";
import { systemEntropy } from "../src/entropy.js";
import { choose, justAbove } from "../src/reports.js";
import { vectors } from "./vectors.js";

const STEP = 2 ** -10;
const ANSWERED = { generation: 7, round: "ab".repeat(32) };
const rows: Statistic = { kind: "transitions", steps: 4, table: [[[[0, 0], [3 / STEP, 0], [0, 4 / STEP]]]] }; // 5 apart in L2, 7 in L1

function channel(noise: object, kind: "numbers" | "index" = "numbers"): Channel {
  return { id: "00".repeat(8), kind, size: 8, grid: STEP, source: "secure", noise: noise as Channel["noise"] };
}

/** What a device does before it sends anything. */
function checkNoise(given: Channel, statistic: Statistic | null, accepts: Accepts): void {
  messageOf(given, statistic, { states: [], actions: [], rewards: [] }, ANSWERED, accepts, systemEntropy());
}

describe("added noise", () => {
  const gaussian = { distribution: "gaussian", scale: 10 / 0.25 + 2 * STEP, step: STEP }; // mu = 1/4 for a distance of 10
  const accepts = vectors.deltas.find(({ epsilon, mu }) => epsilon === 1 && mu === 0.25)!; // what 1/4-GDP is worth

  test("keeps a promise for what the tables allow", () => {
    expect(sensitivity(rows, STEP, 2)).toBe(10);
    expect(sensitivity(rows, STEP, 1)).toBe(28);
    checkNoise(channel(gaussian), rows, accepts);
    checkNoise(channel({ distribution: "laplace", scale: 28, step: STEP }), rows, { epsilon: 1 });
  });

  test.each([
    ["larger tables", gaussian, { ...rows, table: [[[[0, 0], [3.25 / STEP, 0], [0, 4.25 / STEP]]]] }],
        ["less noise", { ...gaussian, scale: 39.99 }, rows],
    ["noise below the lattice", { ...gaussian, scale: STEP }, rows],
    ["less Laplace noise", { distribution: "laplace", scale: 27.9, step: STEP }, rows],
  ])("%s: refused", (_, noise, statistic) => {
    expect(() => checkNoise(channel(noise), statistic as Statistic, accepts)).toThrow(PromiseBroken);
  });

  test.each([
    ["more steps than the size has", gaussian, { ...rows, steps: 5 }],
    ["noise of no size", { ...gaussian, scale: NaN }, rows],
    ["another lattice", { ...gaussian, step: 2 * STEP }, rows],
    ["the reals", { ...gaussian, step: null }, rows],
    ["cubes", { ...gaussian, distribution: "cube" }, rows],
    ["nobody knows what", gaussian, null],
  ])("%s: refused as no round", (_, noise, statistic) => {
    expect(() => checkNoise(channel(noise), statistic as Statistic | null, accepts)).toThrow(ConfideError);
  });

  test("pairs of a budget have places of their own, and the grid counts", () => {
    const { channel: given, statistic } = vectors.messages.find((each) => each.name === "gaussian, a budget")!;
    expect(sensitivity(statistic, 2 ** -24, 2)).toBeCloseTo(Math.SQRT2 * Math.hypot(1, 0.5), 12);
    expect(sensitivity(statistic, 2 ** -20, 2)).toBeCloseTo(16 * Math.SQRT2 * Math.hypot(1, 0.5), 12);
    for (const indptr of [[0, 2, 4, 7, 8, 10, 13], [0, 2, 1, 7, 8, 10, 12], [-1, 2, 4, 7, 8, 10, 12], [0, 12]]) {
      expect(() => checkNoise(given, { ...statistic, indptr } as Statistic, accepts)).toThrow(InvalidDocument);
    }
  });
});

describe("reports by an index", () => {
  const codebook = { distribution: "codebook", radius: 10, epsilon: 1, nearest: 354, vectors: 1024 };

  test.each([
    { ...codebook, nearest: 0 },
    { ...codebook, nearest: 1024 },
    { ...codebook, nearest: 1.5 },
    { ...codebook, vectors: 2048 },
    { ...codebook, radius: 0 },
    { ...codebook, epsilon: Infinity },
    { distribution: "signs", radius: 1, epsilon: 1, asked: 3, nearest: 2 },
    { distribution: "signs", radius: 1, epsilon: 1, asked: 9, nearest: 1 },
  ])("%o does not exist", (noise) => {
    expect(() => checkNoise(channel(noise, "index"), rows, { epsilon: 10 })).toThrow(InvalidDocument);
  });

  test("a channel cannot call numbers an index", () => {
    expect(() => checkNoise(channel(codebook), rows, { epsilon: 10 })).toThrow(InvalidDocument);
  });

  test("an epsilon above the accepted one is refused", () => {
    expect(() => checkNoise(channel(codebook, "index"), rows, { epsilon: 0.99 })).toThrow(PromiseBroken);
    const episode = { states: [0, 1], actions: [0], rewards: [0] };
    expect(messageOf(channel(codebook, "index"), rows, episode, ANSWERED, { epsilon: 1 }, systemEntropy())).toHaveLength(82);
  });

  test("each index owns its part of one draw", () => {
    const likely = [false, true, false, true];
    const one = 1n << 128n;
    const other = justAbove(1);
    const at = (number: bigint) => choose(likely, 1, (limit) => (expect(limit).toBe(2n * one + 2n * other), number));
    expect([0n, one - 1n, one, 2n * one - 1n].map(at)).toEqual([1, 1, 3, 3]);
    expect([2n * one, 2n * one + other - 1n, 2n * one + other, 2n * one + 2n * other - 1n].map(at)).toEqual([0, 0, 2, 2]);
    expect(Number(other) / 2 ** 128).toBeCloseTo(Math.exp(-1), 15);
    expect(justAbove(1e-300)).toBe(one);
  });
});
