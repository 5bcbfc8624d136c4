/**
 * Philox-4x64-10, the counter-based generator of Salmon and others (2011), as NumPy's `Philox(key,
 * counter).random_raw` gives it.
 */

// The multipliers and the steps of the key: high and low 32 bits. Constants of the paper.
const M0 = [0xd2e7470e, 0xe14c6c93] as const;
const M1 = [0xca5a8263, 0x95121157] as const;
const W0 = [0x9e3779b9, 0x7f4a7c15] as const;
const W1 = [0xbb67ae85, 0x84caa73b] as const;

/** The product of two numbers of 64 bits, the lowest 32 bits first. */
const product = new Uint32Array(4);

/**
 * The 64-bit outputs of so many blocks of four, from `counter` on, as pairs (low, high) of 32 bits.
 */
export function philox(key: Uint8Array, counter: number, blocks: number): Uint32Array<ArrayBuffer> {
  const words = new DataView(key.buffer, key.byteOffset, 16);
  const outputs = new Uint32Array(8 * blocks);
  const c = new Uint32Array(8);
  for (let block = 0; block < blocks; block++) {
    // NumPy counts before it draws.
    const at = counter + block + 1;
    c.fill(0);
    c[0] = at >>> 0;
    c[1] = Math.floor(at / 2 ** 32);
    rounds(c, words.getUint32(12), words.getUint32(8), words.getUint32(4), words.getUint32(0));
    outputs.set(c, 8 * block);
  }
  return outputs;
}

function rounds(c: Uint32Array, k0: number, k0High: number, k1: number, k1High: number): void {
  for (let round = 0; round < 10; round++) {
    const low0 = c[0]!;
    const high0 = c[1]!;
    multiply(M1[0], M1[1], c[5]!, c[4]!);
    c[0] = product[2]! ^ c[2]! ^ k0;
    c[1] = product[3]! ^ c[3]! ^ k0High;
    c[2] = product[0]!;
    c[3] = product[1]!;
    multiply(M0[0], M0[1], high0, low0);
    c[4] = product[2]! ^ c[6]! ^ k1;
    c[5] = product[3]! ^ c[7]! ^ k1High;
    c[6] = product[0]!;
    c[7] = product[1]!;
    k0High = (k0High + W0[0] + (k0 + W0[1] > 0xffffffff ? 1 : 0)) >>> 0;
    k0 = (k0 + W0[1]) >>> 0;
    k1High = (k1High + W1[0] + (k1 + W1[1] > 0xffffffff ? 1 : 0)) >>> 0;
    k1 = (k1 + W1[1]) >>> 0;
  }
}

/** 64 times 64 bits, into `product`. A sum has a carry if it is below one of its terms. */
function multiply(aHigh: number, aLow: number, bHigh: number, bLow: number): void {
  const cross = low(aLow, bHigh);
  const other = low(aHigh, bLow);
  const first = (high(aLow, bLow) + cross) >>> 0;
  const second = (first + other) >>> 0;
  const carried = (first < cross ? 1 : 0) + (second < other ? 1 : 0);
  const right = high(aHigh, bLow);
  const top = low(aHigh, bHigh);
  const third = (high(aLow, bHigh) + right) >>> 0;
  const fourth = (third + top) >>> 0;
  const fifth = (fourth + carried) >>> 0;
  product[0] = low(aLow, bLow);
  product[1] = second;
  product[2] = fifth;
  const carries = (third < right ? 1 : 0) + (fourth < top ? 1 : 0) + (fifth < carried ? 1 : 0);
  product[3] = high(aHigh, bHigh) + carries;
}

function low(a: number, b: number): number {
  return Math.imul(a, b) >>> 0;
}

/** The upper 32 bits of a product of two numbers of 32 bits. */
function high(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) >>> 0;
  const other = (Math.imul(aLow, bHigh) + (middle & 0xffff)) >>> 0;
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (other >>> 16)) >>> 0;
}
