/** A device believes signatures and nothing else, stores before it sends, and sends the same bytes. */
import { mkdtempSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Device, InvalidParameter, LateReport, MemoryStore, PromiseBroken, ServiceRefused, SignatureError, StoreError, type Accepts, type Store } from "../src/index.js";
import { FileStore } from "../src/node.js";
import { FakeService } from "./service.js";

const EPISODE = { states: [0, 2, 1, 1], actions: [1, 0, 1], rewards: [0.25, 1, 0] };

function device(service: FakeService, store: Store = new MemoryStore(), more: { accepts?: Partial<Accepts>; key?: string; subject?: string } = {}): Device {
  const accepts: Accepts = { epsilon: 4, delta: 1e-5, trust: service.trust, ...more.accepts };
  const { fetch, sleep } = service;
  const pinned = more.key === undefined ? {} : { key: more.key };
  return new Device({ url: "https://service/", run: "demo", subject: more.subject ?? "person", apiKey: "secret", accepts, store, fetch, sleep, ...pinned });
}

describe.each(["joint", "local"] as const)("a %s run", (trust) => {
  test("joins, acts and reports once", async () => {
    const service = new FakeService(trust);
    const one = device(service);
    expect((await one.join()).generation).toBe(0);
    expect(one.act(0, 1)).toBe(0);
    expect(await one.report(EPISODE)).toBe("counted");
    expect(await one.report(EPISODE)).toBe("same");
    expect(service.posts).toHaveLength(1);
    expect(service.posts[0]!.authorization).toBe("Bearer secret");
    const body = JSON.parse(service.posts[0]!.body) as Record<string, unknown>;
    expect(Object.keys(body)).toEqual(trust === "joint" ? ["generation", "round", "subject", "trajectory"] : ["generation", "message", "subject"]);
  });

  test("sends the same bytes after a restart, whatever is reported", async () => {
    const service = new FakeService(trust);
    const store = new MemoryStore();
    const one = device(service, store);
    await one.join();
    service.weather = ["lost", ...Array<"offline">(7).fill("offline")];
    await expect(one.report(EPISODE)).rejects.toThrow(ServiceRefused);
    const again = device(service, store);
    expect(await again.pending()).toBe(true);
    expect(await again.report({ states: [], actions: [], rewards: [] })).toBe("same");
    expect(service.posts).toHaveLength(2);
    expect(service.posts[1]).toEqual(service.posts[0]);
    expect(await again.pending()).toBe(false);
    expect(await again.resume()).toBeNull();
  });

  test("is not sent again when it is late", async () => {
    const service = new FakeService(trust);
    const one = device(service);
    await one.join();
    service.generation = 1;
    await expect(one.report(EPISODE)).rejects.toThrow(LateReport);
    await one.join();
    await expect(one.report(EPISODE)).rejects.toThrow(LateReport);
    expect(service.posts).toHaveLength(1);
  });
});

test("the report is stored before it is sent, and forgotten when it is answered", async () => {
  const service = new FakeService("joint");
  const store = new MemoryStore();
  const one = device(service, store);
  await one.join();
  let stored: string | null = null;
  const send = service.fetch;
  const watched = device({ ...service, trust: "joint", sleep: service.sleep, fetch: (async (url: string, options: RequestInit) => {
    if (options.method === "POST") stored = await store.read();
    return send(url, options);
  }) as typeof fetch } as unknown as FakeService, store);
  await watched.join();
  await watched.report(EPISODE);
  const { sent } = JSON.parse(stored!) as { sent: string };
  expect(atob(sent)).toBe(service.posts[0]!.body);
  expect(JSON.parse((await store.read())!)).toMatchObject({ outcome: "counted" });
  expect(await store.read()).not.toContain(sent);
});

test("an episode whose parts do not belong together is refused, and may be reported when it is whole", async () => {
  const service = new FakeService("joint");
  const one = device(service);
  await one.join();
  await expect(one.report({ ...EPISODE, rewards: [] })).rejects.toThrow(/0 rewards/);
  expect(await one.pending()).toBe(false);
  expect(await one.report(EPISODE)).toBe("counted");
});

test("nothing is sent if it cannot be stored", async () => {
  const service = new FakeService("local");
  const store = new MemoryStore();
  const one = device(service, store);
  await one.join();
  store.update = () => Promise.reject(new Error("the disk is full"));
  await expect(one.report(EPISODE)).rejects.toThrow("the disk is full");
  expect(service.posts).toHaveLength(0);
});

test("two tabs send one report", async () => {
  const service = new FakeService("local");
  const store = new MemoryStore();
  const tabs = [device(service, store), device(service, store)];
  for (const tab of tabs) await tab.join();
  await Promise.all(tabs.map((tab) => tab.report(EPISODE)));
  expect(new Set(service.posts.map((post) => post.body + post.nonce)).size).toBe(1);
});

test("it waits longer and longer, and as long as the service asks for", async () => {
  const service = new FakeService("joint");
  const one = device(service);
  await one.join();
  service.weather = [503, "offline", 429];
  service.retryAfter = "7";
  expect(await one.report(EPISODE)).toBe("counted");
  expect(service.slept[0]).toBe(7000);
  expect(service.slept[1]).toBeGreaterThanOrEqual(100);
  expect(service.slept[1]).toBeLessThanOrEqual(200);
  expect(service.slept[2]).toBe(7000);
  expect(new Set(service.posts.map((post) => post.nonce)).size).toBe(1);
});

test("it gives up after eight tries, and says why", async () => {
  const service = new FakeService("joint");
  const one = device(service);
  await one.join();
  service.weather = Array<number>(8).fill(503);
  await expect(one.report(EPISODE)).rejects.toMatchObject({ status: 503 });
  service.weather = Array<"offline">(8).fill("offline");
  await expect(one.resume()).rejects.toMatchObject({ status: 0, kind: "TypeError" });
  expect(await one.resume()).toBe("counted");
});

test("a release that closes while it is read is read again", async () => {
  const service = new FakeService("joint");
  const one = device(service);
  await one.join();
  service.closing = true;
  expect((await one.join()).generation).toBe(1);
});

test("another report of the same person is refused", async () => {
  const service = new FakeService("joint");
  for (const [number, one] of [device(service), device(service)].entries()) {
    await one.join();
    if (number === 0) await one.report(EPISODE);
    else await expect(one.report(EPISODE)).rejects.toMatchObject({ status: 409, kind: "another-report" });
  }
});

describe.each(["joint", "local"] as const)("a refusal of a report to a %s run", (trust) => {
  async function reporting(status: number, kind: string) {
    const service = new FakeService(trust);
    const store = new MemoryStore();
    const one = device(service, store);
    await one.join();
    service.hostile = { name: kind, path: "reports", status, text: JSON.stringify({ type: `/problems/${kind}` }) };
    await expect(one.report(EPISODE)).rejects.toMatchObject({ status });
    service.hostile = null;
    return { service, store, one };
  }

  const FINAL = [[400, "invalid"], [403, "over-budget"], [409, "another-report"], [413, "too-large"]] as const;

  test.each(FINAL)("with %i %s is for good: the report is deleted, and none is sent again", async (status, kind) => {
    const { service, store, one } = await reporting(status, kind);
    const kept = JSON.parse((await store.read())!) as Record<string, unknown>;
    expect(kept).toMatchObject({ outcome: "refused", refused: [status, kind] });
    expect(Object.keys(kept)).not.toContain("sent");
    expect(Object.keys(kept)).not.toContain("nonce");
    const restarted = device(service, store);
    await restarted.join();
    for (const each of [one, restarted]) {
      expect(await each.pending()).toBe(false);
      await expect(each.report({ states: [1, 1], actions: [1], rewards: [0] })).rejects.toMatchObject({ name: "ServiceRefused", status, kind });
      await expect(each.resume()).rejects.toMatchObject({ status, kind });
    }
    expect(service.posts).toHaveLength(1);
  });

  test.each([[401, "unauthorised"], [403, "forbidden"], [403, "not-enrolled"], [404, "unknown"], [405, "invalid"], [413, "<html>"]] as const)(
    "with %i %s may end: the report is kept, and the same bytes are sent",
    async (status, kind) => {
      const { service, store, one } = await reporting(status, kind);
      expect(await one.pending()).toBe(true);
      expect(await device(service, store).resume()).toBe("same");
      expect(service.posts[1]).toEqual(service.posts[0]);
    },
  );

  test.each([["x"], [409], [409, "late"], [409, ["another-report"]], [403, "not-enrolled"], ["409 another-report"], null, "409", {}, undefined].map((refused) => [refused]))(
    "that no service gives is a damaged store: %j",
    async (refused) => {
      const { service, store } = await reporting(409, "another-report");
      await store.update((kept) => JSON.stringify({ ...(JSON.parse(kept!) as object), refused }));
      await expect(device(service, store).resume()).rejects.toThrow(StoreError);
    },
  );

  test("does not belong to another outcome", async () => {
    const { service, store } = await reporting(409, "another-report");
    await store.update((kept) => JSON.stringify({ ...(JSON.parse(kept!) as object), outcome: "counted" }));
    await expect(device(service, store).resume()).rejects.toThrow(StoreError);
  });
});

test.each([
  [undefined, 400],
  [{ name: "lock" }, 400],
  [{ horizon: 0 }, 400],
  [{ horizon: 3 }, 3],
  [{ horizon: 3.0, states: 2 }, 3],
  [{ horizon: 500 }, 400],
])("an episode of 400 steps is cut at the horizon of the manifest: %j", async (problem, steps) => {
  const service = new FakeService("joint");
  service.problem = problem;
  const one = device(service);
  await one.join();
  const count = (length: number) => Array.from({ length }, (_, step) => step);
  expect(await one.report({ states: count(401), actions: count(400), rewards: count(400) })).toBe("counted");
  const { trajectory } = JSON.parse(service.posts[0]!.body) as { trajectory: object };
  expect(trajectory).toEqual({ states: count(steps + 1), actions: count(steps), rewards: count(steps) });
});

describe("what a person accepts", () => {
  test.each([
    [{ epsilon: 3.9 }, "accepts epsilon=3.9"],
    [{ delta: 1e-6 }, "accepts epsilon=4, delta=0.000001"],
    [{ trust: "local" as const }, "asks for raw data"],
  ])("%o", async (accepts, why) => {
    await expect(device(new FakeService("joint"), new MemoryStore(), { accepts }).join()).rejects.toThrow(why);
  });

  test("simulations only if they say so", async () => {
    await expect(device(new FakeService("joint", {}, true)).join()).rejects.toThrow(PromiseBroken);
    await device(new FakeService("joint", {}, true), new MemoryStore(), { accepts: { simulation: true } }).join();
  });

  test.each([{ trust: "Local" }, { trust: null }, { simulation: "no" }, { relation: "Null" }, { epsilon: "1" }, { delta: NaN }])("what a person accepts has no misspelt words: %j", (wrong) => {
    const service = new FakeService("joint");
    expect(() => device(service, new MemoryStore(), { accepts: wrong as Partial<Accepts> })).toThrow(InvalidParameter);
    expect(service.posts).toHaveLength(0);
  });

  test("a weaker relation must be accepted", async () => {
    const service = new FakeService("joint", { relation: "null" });
    await expect(device(service).join()).rejects.toThrow("no data at all");
    await device(service, new MemoryStore(), { accepts: { relation: "null" } }).join();
  });

  test("a round cannot ask for a larger epsilon than the manifest says", async () => {
    const service = new FakeService("local", { epsilon: 1 });
    const one = device(service, new MemoryStore(), { accepts: { epsilon: 1 } });
    await one.join(); // the round's codebook has epsilon = 4
    await expect(one.report(EPISODE)).rejects.toThrow("asks for epsilon=4");
    expect(service.posts).toHaveLength(0);
  });
});

describe("signatures", () => {
  test.each(["manifest", "release", "round/0"])("a byte of %s that is changed on the way is found", async (path) => {
    const service = new FakeService("joint");
    const send = service.fetch;
    const changed = Object.assign(Object.create(service) as FakeService, { fetch: async (url: string, options: RequestInit) => {
      const answer = await send(url, options);
      if (!url.endsWith(path)) return answer;
      return new Response((await answer.text()).replace("e", "e "), { headers: answer.headers });
    } });
    await expect(device(changed).join()).rejects.toThrow(SignatureError);
  });

  test("an older release, another one of the same number, and one that does not follow are refused", async () => {
    const service = new FakeService("joint");
    const store = new MemoryStore();
    await device(service, store).join();
    service.generation = 1;
    await device(service, store).join();
    service.generation = 0;
    await expect(device(service, store).join()).rejects.toThrow("has seen release 1");
    service.generation = 1;
    service.release = "another release";
    await expect(device(service, store).join()).rejects.toThrow("two different releases 1");
    service.release = "release";
    await device(service, store).join();
    service.generation = 2;
    service.previous = "00".repeat(32);
    await expect(device(service, store).join()).rejects.toThrow("does not follow");
    service.previous = null;
    await device(service, store).join();
  });

  test("keys are pinned and rotated", async () => {
    const service = new FakeService("joint");
    const store = new MemoryStore();
    const key = await service.publicKey();
    const one = device(service, store, { key });
    await one.join();
    await service.rotate();
    service.generation = 1;
    expect((await one.join()).generation).toBe(1);
    expect((await device(service, store, { key }).join()).generation).toBe(1);
    await expect(device(service, new MemoryStore(), { key: "00".repeat(32) }).join()).rejects.toThrow(SignatureError);
    await expect(device(new FakeService("joint"), store).join()).rejects.toThrow("another key");
  });
});

test("a store is of one person in one run", async () => {
  const service = new FakeService("joint");
  const store = new MemoryStore();
  await device(service, store).join();
  await expect(device(service, store, { subject: "somebody else" }).join()).rejects.toThrow(StoreError);
});

test("a file keeps the report, and only its owner can read it", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "confide-")), "device.json");
  const service = new FakeService("local");
  const one = device(service, new FileStore(path));
  await one.join();
  service.weather = Array<"offline">(8).fill("offline");
  await expect(one.report(EPISODE)).rejects.toThrow(ServiceRefused);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(await device(service, new FileStore(path)).resume()).toBe("counted");
});
