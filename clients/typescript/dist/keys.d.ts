/** Make a key that no other payment has. Node 18, and pages without TLS, have no `randomUUID`. */
export declare function newKey(): string;
