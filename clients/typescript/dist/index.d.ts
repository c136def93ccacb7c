/** Pay with an Allowance: a typed client that keeps the idempotency key of a payment over every attempt. */
import { type Client as Operations } from "openapi-fetch";
import { type HeldPayment, type PaymentState } from "./errors.js";
import type { components, paths } from "../schema.js";
export * from "./errors.js";
export * from "./x402.js";
export type { components, operations, paths } from "../schema.js";
type Schemas = components["schemas"];
export type Asset = Schemas["Asset"];
export type Budget = Schemas["Budget"];
export type DemandedPayment = Schemas["DemandedPaymentAnswer"];
export type DemandedPaymentRequest = Schemas["DemandedPayment"];
export type Evaluation = Schemas["Evaluation"];
export type Payment = Schemas["Payment"];
export type PaymentRequest = Schemas["PaymentRequest"];
export type Rule = Schemas["Rule"];
export interface Options {
    /** The address of the installation, such as `https://allowance.example.com`. */
    baseUrl: string;
    /** `alw_…` Whoever has it can pay: keep it out of pages and of what a model reads. */
    apiKey: string;
    /** How often a request is sent at most: 4. */
    attempts?: number;
    /** How many seconds an answer may take, and the API may ask to wait before the next attempt: 40. */
    patienceS?: number;
    fetch?: typeof globalThis.fetch;
}
export interface PayOptions {
    /** Your own name for this purchase. Keep it where a restart finds it; without one, a new one is made. */
    idempotencyKey?: string;
    /** Let the API answer only once the transaction is in a block, or after so many seconds: at most 30. */
    waitS?: number;
    /** If a person has to approve the payment, wait so many seconds for that: 0. */
    waitUntilDecidedS?: number;
}
export declare class Allowance {
    #private;
    /** Every operation of the API, typed, sent once: what it answers is for you to judge. */
    readonly operations: Operations<paths>;
    constructor({ baseUrl, apiKey, attempts, patienceS, fetch }: Options);
    /**
     * Request a payment; returns it once it is approved. A lost answer is asked for again with the same key, so that
     * nothing is paid twice. If a person has to approve it and has not yet, it is returned with the status
     * `pending_approval`: nothing is paid, and the same key tells later what has become of it.
     *
     * Throws `PolicyRefused` (of which `ApprovalDeclined` is one), `AllowanceError` and `NoAnswer`; each says which key
     * was used.
     */
    pay(body: PaymentRequest, { idempotencyKey, waitS, waitUntilDecidedS }?: PayOptions): Promise<Payment | HeldPayment>;
    /**
     * Pay what a payee's 402 asks for: `paymentRequirements` is one element of its `accepts`, as it came. `payingFetch`
     * does all of it. The answer's `paymentPayload` is for the payee; keys and what is thrown are as `pay` has them. While
     * a person has to approve it there is none, and `NotDecidedYet` is thrown.
     */
    payDemand(body: DemandedPaymentRequest, { idempotencyKey, waitUntilDecidedS }?: Omit<PayOptions, "waitS">): Promise<DemandedPayment>;
    /** Ask what `pay` would be answered now, rule by rule. Nothing is decided, and what is decided meanwhile counts. */
    evaluate(body: PaymentRequest): Promise<Evaluation>;
    /** Read a payment as it is now. */
    payment(id: string): Promise<PaymentState>;
    /** Read what an agent may still spend. */
    budget(id: string): Promise<Budget>;
    /**
     * Wait until a payment is final on its chain.
     *
     * Throws `PaymentFailed`, `ApprovalDeclined`, `NotSettledYet` after `timeoutS` seconds, and what `payment` throws.
     */
    waitSettled(id: string, { timeoutS }?: {
        timeoutS?: number;
    }): Promise<PaymentState>;
    /**
     * Wait while a person has to approve a payment; returns it once it is approved.
     *
     * Throws `ApprovalDeclined`, `NotDecidedYet` after `timeoutS` seconds, and what `payment` throws.
     */
    waitUntilDecided(id: string, { timeoutS }?: {
        timeoutS?: number;
    }): Promise<PaymentState>;
}
