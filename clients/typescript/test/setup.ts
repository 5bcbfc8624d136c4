/** Node 18, which some distributions still ship, has WebCrypto, but not under its global name. */
import { webcrypto } from "node:crypto";

if (!("crypto" in globalThis)) Object.defineProperty(globalThis, "crypto", { value: webcrypto });
