/** Random bytes, and whole numbers below a limit from them. */

/** Gives that many random bytes. Only tests use another one than `systemEntropy`. */
export type Take = (size: number) => Uint8Array;

/** Gives a whole number from 0 to limit - 1, all equally likely. */
export type Below = (limit: bigint) => bigint;

const POOL = 4096;

/**
 * The browser's or Node's `crypto.getRandomValues`, asked for a page at a time. What was used is
 * wiped.
 */
export function systemEntropy(): Take {
  const pool = new Uint8Array(POOL);
  let used = POOL;
  return (size) => {
    if (size > POOL) return crypto.getRandomValues(new Uint8Array(size));
    if (used + size > POOL) {
      crypto.getRandomValues(pool);
      used = 0;
    }
    const taken = pool.slice(used, used + size);
    pool.fill(0, used, used + size);
    used += size;
    return taken;
  };
}

/** As many bits as the limit needs, the first ones first, until the number is below it. */
export function below(take: Take): Below {
  return (limit) => {
    const bits = bitLength(limit - 1n);
    const size = Math.ceil(bits / 8);
    const spare = BigInt(8 * size - bits);
    for (;;) {
      const drawn = toBigInt(take(size)) >> spare;
      if (drawn < limit) return drawn;
    }
  };
}

/** A number of [0, 1) with 53 bits. */
export function uniform(take: Take): number {
  return Number(toBigInt(take(8)) >> 11n) * 2 ** -53;
}

/** Bytes as one whole number, the most significant byte first. */
export function toBigInt(bytes: Uint8Array): bigint {
  return bytes.length ? BigInt(`0x${toHex(bytes)}`) : 0n;
}

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += (byte < 16 ? "0" : "") + byte.toString(16);
  return text;
}

export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  if (text.length % 2 || !/^[0-9a-f]*$/i.test(text)) throw new TypeError("not hexadecimal digits");
  return Uint8Array.from({ length: text.length / 2 }, (_, i) =>
    parseInt(text.slice(2 * i, 2 * i + 2), 16),
  );
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

function bitLength(value: bigint): number {
  return value === 0n ? 0 : value.toString(2).length;
}
