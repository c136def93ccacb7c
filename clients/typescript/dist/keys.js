/** Make a key that no other payment has. Node 18, and pages without TLS, have no `randomUUID`. */
export function newKey() {
    return globalThis.crypto?.randomUUID?.() ?? [Date.now(), Math.random(), Math.random()].map(toText).join("-");
}
const toText = (number) => number.toString(36).replace("0.", "");
