import type { Allowance, DemandedPayment } from "./index.js";
export interface PayingOptions {
    agentId: string;
    /** The service id of each payee, by origin: `{"https://reports.example": "reports"}`. Nobody else is paid. */
    services: Readonly<Record<string, string>>;
    /** The most to be paid for one request, in base units of the token, as 402s state amounts: 1 USDC is 1000000n. */
    mostUnits: bigint;
    /** For the log, which the payee reads, too. Without it: method and address, without its query. */
    reason?: string;
    /** If a person has to approve a payment, wait so many seconds for that: 0. */
    waitUntilDecidedS?: number;
    fetch?: typeof globalThis.fetch;
    /** Is told of each payment, before the payee is asked again. */
    onPaid?: (payment: DemandedPayment) => void;
}
export interface PayingInit extends RequestInit {
    /** Your own name for this purchase. Keep it where a restart finds it; without one, a new one is made. */
    idempotencyKey?: string;
}
/**
 * Make a `fetch` that asks again with a payment where a payee answers 402. One call is one purchase, paid once; what the
 * payee answers to the payment is returned, be it another 402. Throws what `payDemand` throws: `NotDecidedYet` while a
 * person has to approve the payment; call again later with the same `idempotencyKey`.
 */
export declare function payingFetch(allowance: Allowance, { agentId, services, mostUnits, reason, waitUntilDecidedS, fetch, onPaid }: PayingOptions): (input: string | URL | Request, init?: PayingInit) => Promise<Response>;
