/** The API answered with an error. `detail` is what it said; `code` tells errors apart. */
export class AllowanceError extends Error {
    detail;
    status;
    idempotencyKey;
    name = "AllowanceError";
    /** The seconds after which to ask again, if the API named them. */
    retryAfterS;
    /** The name of the request, for whoever runs the installation. */
    requestId;
    constructor(detail, status, headers, 
    /** The key of the payment that was requested. */
    idempotencyKey = null) {
        super(`${detail.code}: ${detail.message}${fieldsOf(detail)}`);
        this.detail = detail;
        this.status = status;
        this.idempotencyKey = idempotencyKey;
        this.retryAfterS = secondsOf(headers);
        this.requestId = headers.get("X-Request-Id");
    }
    get code() {
        return this.detail.code;
    }
    /** With which key to go on: `same_key` (after `retryAfterS`), `new_key` once the reason is gone, null: with none. */
    get retry() {
        return this.detail.retry;
    }
}
/** A rule of the policy refused the payment: nothing was paid, and its idempotency key is used up. */
export class PolicyRefused extends AllowanceError {
    name = "PolicyRefused";
    get rule() {
        return this.detail.rule;
    }
    /** The agent above the one that pays whose limit or status refused it; null: it is the agent's own. */
    get level() {
        return this.detail.level ?? null;
    }
    /** When the same payment would fit, asked for with a new key; null if waiting does not help. */
    get allowedAt() {
        return this.detail.allowedAt ? new Date(this.detail.allowedAt) : null;
    }
}
/** A person had to approve the payment, and did not: nothing was paid. Do not ask for it again. */
export class ApprovalDeclined extends PolicyRefused {
    name = "ApprovalDeclined";
    /** Its last state, where that was read. */
    payment = null;
    /** Make it of a payment whose state says that it was declined, or has expired. */
    static of(payment) {
        const detail = {
            code: "approval_declined",
            message: payment.declineReason ?? "A person had to approve this payment, and did not.",
            retry: "new_key",
            docs: "/v1/docs/errors/approval_declined",
            rule: "approved_by_person",
            logId: payment.logId,
            policyRevision: payment.policyRevision,
        };
        const error = new ApprovalDeclined(detail, 403, new Headers());
        error.payment = payment;
        return error;
    }
}
/** A person has to approve the payment, and has not in the time given. It may still be paid: do not pay again. */
export class NotDecidedYet extends Error {
    payment;
    idempotencyKey;
    name = "NotDecidedYet";
    constructor(payment, 
    /** The key to ask again with, and only that. */
    idempotencyKey = null) {
        super(`${payment.id} waits for a person's approval until ${payment.approvalExpiresAt ?? "it expires"}`);
        this.payment = payment;
        this.idempotencyKey = idempotencyKey;
    }
}
/**
 * No answer came, or none of Allowance's. **A payment may have been approved all the same**: ask again with the same
 * `idempotencyKey` and the same request, and be told.
 */
export class NoAnswer extends Error {
    idempotencyKey;
    name = "NoAnswer";
    constructor(cause, idempotencyKey = null) {
        super(`No answer came: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
        this.idempotencyKey = idempotencyKey;
    }
}
/** The payment can no longer be paid by its chain; its amount is the agent's again. */
export class PaymentFailed extends Error {
    payment;
    name = "PaymentFailed";
    constructor(payment) {
        super(`${payment.id} failed: ${payment.failureReason ?? "no reason is known"}`);
        this.payment = payment;
    }
}
/** The time to wait is over. The payment is still on its way, and may settle at any moment. */
export class NotSettledYet extends Error {
    payment;
    name = "NotSettledYet";
    constructor(payment) {
        super(`${payment.id} is ${payment.status}`);
        this.payment = payment;
    }
}
/** Read an answer's error: undefined if it is none of Allowance's, such as a proxy's page. */
export function readError(body, { status, headers }, idempotencyKey) {
    const detail = body?.error;
    if (typeof detail?.code !== "string" || typeof detail.message !== "string")
        return undefined;
    // A 503 names its rule, too, but keeps no key.
    if (!("rule" in detail) || detail.retry === "same_key")
        return new AllowanceError(detail, status, headers, idempotencyKey);
    const Refusal = detail.code === "approval_declined" ? ApprovalDeclined : PolicyRefused;
    return new Refusal(detail, status, headers, idempotencyKey);
}
/** What is wrong with which field, to stand behind the message: a trace shows nothing else. */
const fieldsOf = ({ fields = [] }) => fields.map(({ param, message }) => ` ${param}: ${message}`).join("");
function secondsOf(headers) {
    const said = headers.get("Retry-After");
    return said !== null && /^[0-9]+$/.test(said) ? Number(said) : null;
}
