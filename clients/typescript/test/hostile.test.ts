/** A hostile server: each round is refused, or what is sent stays within its bound; each other answer is refused with a clear error. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ConfideError, Device, MemoryStore } from "../src/index.js";
import { bytes, outcomeOf, outcomeOfText, randomRound, type Hostile, type HostileAnswer } from "./hostile.js";
import { FakeService } from "./service.js";

const hostile = JSON.parse(readFileSync(new URL("../../hostile.json", import.meta.url), "utf8")) as Hostile;
const honest = hostile.rounds.filter(({ name }) => name.startsWith("an honest round")).map(({ text }) => text);
const ROUNDS = Number(process.env.CONFIDE_RANDOM_ROUNDS ?? 300);
const EPISODE = hostile.episodes[0]!;

test.each(hostile.rounds)("$name", ({ text, refused }) => {
  expect(outcomeOfText(text, hostile)).toBe(refused ? "refused" : "sent");
});

test("random rounds: 10,000 of them by CONFIDE_RANDOM_ROUNDS=10000", { timeout: 600_000 }, () => {
  const take = bytes(0);
  const sent = Array.from({ length: ROUNDS }, () => outcomeOf(randomRound(take, honest), hostile)).filter((each) => each === "sent").length;
  expect(sent / ROUNDS).toBeGreaterThan(0.05);
  expect(sent / ROUNDS).toBeLessThan(0.95);
});

describe("answers", () => {
  function device(service: FakeService): Device {
    const { fetch, sleep } = service;
    return new Device({ url: "https://service/", run: "demo", subject: "ann", apiKey: "key", accepts: hostile.accepts, store: new MemoryStore(), fetch, sleep });
  }

  function service(answer?: HostileAnswer): FakeService {
    const made = new FakeService("local", { epsilon: 1 });
    made.round = JSON.parse(honest[0]!) as object;
    if (answer) made.hostile = { path: "reports", ...answer };
    return made;
  }

  test("of an honest service are accepted", async () => {
    const one = device(service());
    await one.join();
    expect(await one.report(EPISODE)).toBe("counted");
  });

  test.each(hostile.answers)("$name: $path", async (answer) => {
    const lying = service(answer);
    const one = device(lying);
    await expect(one.join()).rejects.toThrow(ConfideError);
    await expect(one.report(EPISODE)).rejects.toThrow("call join first");
    expect(lying.posts).toHaveLength(0);
  });

  test.each(hostile.replies)("to a report: $name", async (answer) => {
    const lying = service(answer);
    const one = device(lying);
    await one.join();
    await expect(one.report(EPISODE)).rejects.toThrow(ConfideError);
    lying.hostile = null;
    expect(await one.report(EPISODE)).toBe("same");
    expect(lying.posts).toHaveLength(2);
    expect(lying.posts[0]).toEqual(lying.posts[1]);
  });

  test("that never end are refused", async () => {
    const lying = service();
    const endless = () => new Response(new ReadableStream({ pull: (stream) => stream.enqueue(new Uint8Array(2 ** 22)) }));
    lying.sleep(0);
    const one = device(Object.assign(lying, { fetch: (async () => endless()) as typeof fetch }));
    await expect(one.join()).rejects.toThrow("at most");
  });
});
