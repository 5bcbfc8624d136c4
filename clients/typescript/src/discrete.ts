/**
 * Exact discrete noise by whole numbers: the algorithms of Canonne, Kamath and Steinke (2020). No
 * floating point takes part.
 */
import type { Below } from "./entropy.js";

/** True with probability e^(-above / under), exactly (Algorithm 1). */
export function exponentialCoin(even: Below, above: bigint, under: bigint): boolean {
  for (;;) {
    // e^-loss = e^-1 ... e^-1 e^-rest: one coin for each factor.
    const part = above < under ? above : under;
    let k = 1n;
    while (even(under * k) < part) k += 1n;
    if (k % 2n === 0n) return false;
    if (above <= under) return true;
    above -= under;
  }
}

/** z with probability proportional to exp(-|z| s / t) (Algorithm 2). */
export function discreteLaplace(even: Below, t: bigint, s: bigint): bigint {
  for (;;) {
    const first = even(t);
    if (!exponentialCoin(even, first, t)) continue;
    let more = 0n;
    while (exponentialCoin(even, 1n, 1n)) more += 1n;
    const size = (first + t * more) / s;
    const negative = even(2n) === 1n;
    if (size !== 0n || !negative) return negative ? -size : size;
  }
}

/**
 * z with probability proportional to exp(-z^2 / (2 scale^2)), scale = above / under (Algorithm 3).
 */
export function discreteGaussian(even: Below, above: bigint, under: bigint): bigint {
  const p = above * above;
  const q = under * under;
  const t = above / under + 1n;
  for (;;) {
    const tried = discreteLaplace(even, t, 1n);
    const off = (tried < 0n ? -tried : tried) * t * q - p;
    // The coin falls with probability e^-((|z| - scale^2 / t)^2 / (2 scale^2)).
    if (exponentialCoin(even, off * off, 2n * p * q * t * t)) return tried;
  }
}

/** The fraction in lowest terms that a positive double is. */
export function ratio(value: number): [bigint, bigint] {
  if (!(value > 0 && Number.isFinite(value))) {
    throw new RangeError("a scale must be positive and finite");
  }
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const whole = bits.getBigUint64(0);
  const exponent = Number((whole >> 52n) & 0x7ffn);
  let above = (whole & 0xfffffffffffffn) | (exponent ? 1n << 52n : 0n);
  let shift = (exponent || 1) - 1075;
  while (shift < 0 && above % 2n === 0n) {
    above /= 2n;
    shift += 1;
  }
  return shift < 0 ? [above, 1n << BigInt(-shift)] : [above << BigInt(shift), 1n];
}
