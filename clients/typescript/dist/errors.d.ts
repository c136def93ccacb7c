/** What a call of the client may end with beside an answer. */
import type { components } from "../schema.js";
type Schemas = components["schemas"];
export type ErrorCode = Schemas["ErrorCode"];
export type ErrorDetail = Schemas["ErrorDetail"];
export type PolicyRefusalDetail = Schemas["PolicyRefusalDetail"];
export type HeldPayment = Schemas["HeldPayment"];
export type PaymentState = Schemas["PaymentState"];
/** The API answered with an error. `detail` is what it said; `code` tells errors apart. */
export declare class AllowanceError<Detail extends ErrorDetail = ErrorDetail> extends Error {
    readonly detail: Detail;
    readonly status: number;
    /** The key of the payment that was requested. */
    readonly idempotencyKey: string | null;
    readonly name: string;
    /** The seconds after which to ask again, if the API named them. */
    readonly retryAfterS: number | null;
    /** The name of the request, for whoever runs the installation. */
    readonly requestId: string | null;
    constructor(detail: Detail, status: number, headers: Headers, 
    /** The key of the payment that was requested. */
    idempotencyKey?: string | null);
    get code(): ErrorCode;
    /** With which key to go on: `same_key` (after `retryAfterS`), `new_key` once the reason is gone, null: with none. */
    get retry(): ErrorDetail["retry"];
}
/** A rule of the policy refused the payment: nothing was paid, and its idempotency key is used up. */
export declare class PolicyRefused extends AllowanceError<PolicyRefusalDetail> {
    readonly name: string;
    get rule(): PolicyRefusalDetail["rule"];
    /** The agent above the one that pays whose limit or status refused it; null: it is the agent's own. */
    get level(): PolicyRefusalDetail["level"] | null;
    /** When the same payment would fit, asked for with a new key; null if waiting does not help. */
    get allowedAt(): Date | null;
}
/** A person had to approve the payment, and did not: nothing was paid. Do not ask for it again. */
export declare class ApprovalDeclined extends PolicyRefused {
    readonly name = "ApprovalDeclined";
    /** Its last state, where that was read. */
    payment: PaymentState | null;
    /** Make it of a payment whose state says that it was declined, or has expired. */
    static of(payment: PaymentState): ApprovalDeclined;
}
/** A person has to approve the payment, and has not in the time given. It may still be paid: do not pay again. */
export declare class NotDecidedYet extends Error {
    readonly payment: PaymentState | HeldPayment;
    /** The key to ask again with, and only that. */
    readonly idempotencyKey: string | null;
    readonly name = "NotDecidedYet";
    constructor(payment: PaymentState | HeldPayment, 
    /** The key to ask again with, and only that. */
    idempotencyKey?: string | null);
}
/**
 * No answer came, or none of Allowance's. **A payment may have been approved all the same**: ask again with the same
 * `idempotencyKey` and the same request, and be told.
 */
export declare class NoAnswer extends Error {
    readonly idempotencyKey: string | null;
    readonly name = "NoAnswer";
    constructor(cause: unknown, idempotencyKey?: string | null);
}
/** The payment can no longer be paid by its chain; its amount is the agent's again. */
export declare class PaymentFailed extends Error {
    readonly payment: PaymentState;
    readonly name = "PaymentFailed";
    constructor(payment: PaymentState);
}
/** The time to wait is over. The payment is still on its way, and may settle at any moment. */
export declare class NotSettledYet extends Error {
    readonly payment: PaymentState;
    readonly name = "NotSettledYet";
    constructor(payment: PaymentState);
}
/** Read an answer's error: undefined if it is none of Allowance's, such as a proxy's page. */
export declare function readError(body: unknown, { status, headers }: Response, idempotencyKey: string | null): AllowanceError | undefined;
export {};
