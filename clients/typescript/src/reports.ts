/**
 * Reports by one index: the k-closest mechanism with a public codebook, and the one with patterns
 * of signs.
 */
import { own, real, whole } from "./checks.js";
import { InvalidDocument } from "./errors.js";
import { ratio } from "./discrete.js";
import type { Below } from "./entropy.js";
import { philox } from "./philox.js";

/** Probabilities are in units of 2^-128. */
const COIN = 1n << 128n;
// Limits of time and memory, the same as in confide/service/device/checks.py. A matter of taste.
const MAX_COORDINATES = 2 ** 14;
const MAX_VECTORS = 1024;
const MAX_SIGNS = 10;
/** So many random numbers are in memory. A matter of taste. */
const NUMBERS_IN_MEMORY = 2 ** 12;

export interface CodebookNoise {
  distribution: "codebook";
  radius: number;
  epsilon: number;
  nearest: number;
  vectors: number;
}

export interface SignNoise {
  distribution: "signs";
  radius: number;
  epsilon: number;
  asked: number;
  nearest: number;
}

export type ReportNoise = CodebookNoise | SignNoise;

/**
 * The report that a server asks for. What it counts must be true for every contribution, because
 * its epsilon rests on nothing else.
 */
export function checkReport(
  noise: Record<string, unknown>,
  distribution: "codebook" | "signs",
  size: number,
): ReportNoise {
  const count = (name: string, least: number, most: number) =>
    whole(name, own(noise, name), least, most);
  whole("size", size, 1, MAX_COORDINATES);
  const radius = real("radius", own(noise, "radius"), 2 ** -80, 2 ** 80);
  const epsilon = real("epsilon", own(noise, "epsilon"), Number.MIN_VALUE, Number.MAX_VALUE);
  if (distribution === "codebook") {
    const vectors = count("vectors", 2, MAX_VECTORS);
    return { distribution, radius, epsilon, vectors, nearest: count("nearest", 1, vectors - 1) };
  }
  const asked = count("asked", 1, Math.min(size, MAX_SIGNS));
  const nearest = count("nearest", 1, 2 ** asked - 1);
  if (!levels(asked).includes(nearest)) {
    throw new InvalidDocument("nearest must count all patterns that differ in few places");
  }
  return { distribution, radius, epsilon, asked, nearest };
}

/**
 * The index that is sent: those of the nearest vectors or patterns are e^epsilon times as likely as
 * the others.
 */
export function drawIndex(
  noise: ReportNoise,
  values: Float64Array,
  nonce: Uint8Array,
  even: Below,
): number {
  const likely =
    noise.distribution === "codebook"
      ? nearVectors(noise, values, nonce)
      : nearPatterns(noise, values, nonce);
  return choose(likely, noise.epsilon, even);
}

/**
 * One even draw from n + (N - n) e^-loss, in units of 2^-128: each likely index owns 1 of it, each
 * other one e^-loss, rounded up. Required for privacy: it is rounded up, and there is one draw
 * whatever comes of it, so its time says nothing about the index.
 */
export function choose(likely: boolean[], loss: number, even: Below): number {
  const other = justAbove(loss);
  const order = [...likely.keys()].filter((i) => likely[i]);
  const near = BigInt(order.length);
  order.push(...[...likely.keys()].filter((i) => !likely[i]));
  const drawn = even(near * COIN + (BigInt(likely.length) - near) * other);
  const past = drawn - near * COIN;
  const places = [drawn / COIN, near + past / other] as const;
  return order[Number(places[past >= 0n ? 1 : 0])]!;
}

/** e^-loss in units of 2^-128, rounded up. */
export function justAbove(loss: number): bigint {
  // e^-100 is below one unit.
  if (loss > 100) return 2n;
  const [above, under] = ratio(loss);
  const one = 1n << 320n;
  const x = (above * one) / under / 128n; // e^-loss = (e^(-loss / 128))^128
  let term = one;
  let sum = one;
  for (let k = 1n; term !== 0n; k += 1n) {
    term = (-term * x) / (one * k);
    sum += term;
  }
  for (let i = 0; i < 7; i++) sum = (sum * sum) / one;
  const units = (sum * COIN) / one + 2n;
  return units < COIN ? units : COIN;
}

/** Whether a vector is one of the nearest of this contribution; of equally near ones the first. */
export function nearVectors(
  noise: CodebookNoise,
  values: Float64Array,
  nonce: Uint8Array,
): boolean[] {
  const products = codebookProducts(noise, values, nonce);
  const order = [...products.keys()].sort((a, b) => products[b]! - products[a]! || a - b);
  const isNear = new Array<boolean>(noise.vectors).fill(false);
  for (const index of order.slice(0, noise.nearest)) isNear[index] = true;
  return isNear;
}

/**
 * The products of all vectors with the contribution, padded to a unit vector. The server computes
 * vectors in single precision; here they are doubles. Which vectors are near may differ for one
 * message in thousands: this touches the accuracy alone.
 */
export function codebookProducts(
  noise: CodebookNoise,
  values: Float64Array,
  nonce: Uint8Array,
): Float64Array {
  const size = values.length;
  const width = Math.ceil((size + 1) / 8) * 8;
  const unit = new Float64Array(width); // the last ones are zero
  let square = 0;
  for (let i = 0; i < size; i++) {
    unit[i] = values[i]! / noise.radius;
    square += unit[i]! ** 2;
  }
  unit[size] = Math.sqrt(Math.max(0, 1 - square));
  const half = width / 2;
  const products = new Float64Array(noise.vectors);
  const rows = Math.max(1, Math.floor(NUMBERS_IN_MEMORY / width));
  let raw = new Uint32Array(0);
  for (let row = 0; row < noise.vectors; row++) {
    if (row % rows === 0) raw = philox(nonce, (row * width) / 8, (rows * width) / 8);
    const at = (row % rows) * width;
    let product = 0;
    for (let i = 0; i < half; i++) {
      const length = Math.sqrt(-2 * Math.log(((raw[at + i]! >>> 8) + 1) * 2 ** -24));
      const angle = (raw[at + half + i]! >>> 8) * 2 ** -23 * Math.PI;
      product += length * (Math.cos(angle) * unit[i]! + Math.sin(angle) * unit[half + i]!);
    }
    products[row] = product;
  }
  return products;
}

/**
 * Whether a pattern is one of the nearest: bit c of it is the sign of the c-th coordinate that the
 * nonce picks.
 */
export function nearPatterns(
  noise: SignNoise,
  values: Float64Array,
  nonce: Uint8Array,
): boolean[] {
  const size = values.length;
  const words = philox(nonce, 0, Math.ceil((size + noise.asked) / 4));
  const raw = Array.from(
    { length: size + noise.asked },
    (_, i) => (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!),
  );
  const order = [...Array(size).keys()].sort((a, b) => {
    if (raw[a]! === raw[b]!) return a - b;
    return raw[a]! < raw[b]! ? -1 : 1;
  });
  let signs = 0;
  for (let c = 0; c < noise.asked; c++) {
    const even = Number(raw[size + c]! >> 11n) * 2 ** -53;
    if (values[order[c]!]! > (2 * even - 1) * noise.radius) signs |= 1 << c;
  }
  const reach = levels(noise.asked).indexOf(noise.nearest);
  return Array.from({ length: 2 ** noise.asked }, (_, pattern) => ones(pattern ^ signs) <= reach);
}

/** How many patterns differ from one of them in at most 0, 1, ..., asked places. */
function levels(asked: number): number[] {
  let ways = 1;
  let sum = 0;
  return Array.from({ length: asked + 1 }, (_, wrong) => {
    sum += ways;
    ways = (ways * (asked - wrong)) / (wrong + 1);
    return sum;
  });
}

function ones(value: number): number {
  let count = 0;
  for (; value; value &= value - 1) count += 1;
  return count;
}
