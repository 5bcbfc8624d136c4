/** The same bytes as in Python, from the same entropy. */
import { describe, expect, test } from "vitest";
import { contribution } from "../src/contribution.js";
import { jointBody } from "../src/device.js";
import { checkChain, checkSignature, digest, statementBytes } from "../src/documents.js";
import { toBase64 } from "../src/entropy.js";
import { SignatureError } from "../src/errors.js";
import { message } from "../src/message.js";
import { drawnPolicy } from "../src/policy.js";
import { gaussianDelta } from "../src/promise.js";
import { stream, vectors } from "./vectors.js";

describe("messages", () => {
  test.each(vectors.messages)("$name", ({ channel, statistic, episode, generation, round, entropy, steps, message: expected }) => {
    const made = contribution(statistic, channel, episode);
    expect(made.map((each) => each + 0)).toEqual(steps);
    const take = stream(entropy);
    expect(toBase64(message(channel, made, { generation, round }, take))).toBe(expected);
    expect(take.left()).toBe(0);
  });

  test("of other entropy are others", () => {
    const { channel, steps, generation, round, entropy, message: expected } = vectors.messages[0]!;
    const other = stream(entropy.replace(/^..../, "AAAA"));
    expect(toBase64(message(channel, steps, { generation, round }, other))).not.toBe(expected);
  });
});

test.each(vectors.bodies)("the report of $subject in a joint run", ({ subject, generation, round, episode, horizon, body }) => {
  expect(new TextDecoder().decode(jointBody({ generation, round }, subject, episode, horizon))).toBe(body);
});

describe("documents", () => {
  const { statement, bytes, digest: expected, key, signature, keys } = vectors.documents;

  test("a statement has the same bytes, digest and signature", async () => {
    const made = statementBytes(statement);
    expect(new TextDecoder().decode(made)).toBe(bytes);
    expect(await digest(made)).toBe(expected);
    await checkSignature(key, signature, made);
    await expect(checkSignature(key, signature, statementBytes({ ...statement, generation: 4 }))).rejects.toThrow(SignatureError);
    await expect(checkSignature(keys[1]!.public, signature, made)).rejects.toThrow(SignatureError);
    await expect(checkSignature("00", signature, made)).rejects.toThrow(SignatureError);
  });

  test("a newer key is endorsed by an older one", async () => {
    expect([...(await checkChain(keys, key)).keys()]).toEqual(keys.map((each) => each.id));
    await expect(checkChain([keys[0]!, { ...keys[1]!, endorsed_by: "nobody" }], key)).rejects.toThrow(SignatureError);
    await expect(checkChain([keys[0]!, { ...keys[1]!, endorsement: signature }], key)).rejects.toThrow(SignatureError);
  });
});

test.each(vectors.policies)("$which draws policy $place", ({ shares, which, place }) => {
  const policies = shares.map((_, choices) => ({ kind: "random" as const, choices }));
  expect(drawnPolicy({ format: "", run: "", generation: 0, round: "", shares, policies }, BigInt(which))).toEqual({ kind: "random", choices: place });
});

test.each(vectors.deltas)("epsilon=$epsilon, mu=$mu", ({ epsilon, mu, delta }) => {
  expect(gaussianDelta(epsilon, mu) / delta).toBeCloseTo(1, 9);
});
