/** What a call of the client may end with beside an answer. */
import type { components } from "../schema.js";

type Schemas = components["schemas"];
export type ErrorCode = Schemas["ErrorCode"];
export type ErrorDetail = Schemas["ErrorDetail"];
export type PolicyRefusalDetail = Schemas["PolicyRefusalDetail"];
export type HeldPayment = Schemas["HeldPayment"];
export type PaymentState = Schemas["PaymentState"];

/** The API answered with an error. `detail` is what it said; `code` tells errors apart. */
export class AllowanceError<Detail extends ErrorDetail = ErrorDetail> extends Error {
  override readonly name: string = "AllowanceError";
  /** The seconds after which to ask again, if the API named them. */
  readonly retryAfterS: number | null;
  /** The name of the request, for whoever runs the installation. */
  readonly requestId: string | null;

  constructor(
    readonly detail: Detail,
    readonly status: number,
    headers: Headers,
    /** The key of the payment that was requested. */
    readonly idempotencyKey: string | null = null,
  ) {
    super(`${detail.code}: ${detail.message}${fieldsOf(detail)}`);
    this.retryAfterS = secondsOf(headers);
    this.requestId = headers.get("X-Request-Id");
  }

  get code(): ErrorCode {
    return this.detail.code;
  }

  /** With which key to go on: `same_key` (after `retryAfterS`), `new_key` once the reason is gone, null: with none. */
  get retry(): ErrorDetail["retry"] {
    return this.detail.retry;
  }
}

/** A rule of the policy refused the payment: nothing was paid, and its idempotency key is used up. */
export class PolicyRefused extends AllowanceError<PolicyRefusalDetail> {
  override readonly name: string = "PolicyRefused";

  get rule(): PolicyRefusalDetail["rule"] {
    return this.detail.rule;
  }

  /** The agent above the one that pays whose limit or status refused it; null: it is the agent's own. */
  get level(): PolicyRefusalDetail["level"] | null {
    return this.detail.level ?? null;
  }

  /** When the same payment would fit, asked for with a new key; null if waiting does not help. */
  get allowedAt(): Date | null {
    return this.detail.allowedAt ? new Date(this.detail.allowedAt) : null;
  }
}

/** A person had to approve the payment, and did not: nothing was paid. Do not ask for it again. */
export class ApprovalDeclined extends PolicyRefused {
  override readonly name = "ApprovalDeclined";
  /** Its last state, where that was read. */
  payment: PaymentState | null = null;

  /** Make it of a payment whose state says that it was declined, or has expired. */
  static of(payment: PaymentState): ApprovalDeclined {
    const detail: PolicyRefusalDetail = {
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
  override readonly name = "NotDecidedYet";

  constructor(
    readonly payment: PaymentState | HeldPayment,
    /** The key to ask again with, and only that. */
    readonly idempotencyKey: string | null = null,
  ) {
    super(`${payment.id} waits for a person's approval until ${payment.approvalExpiresAt ?? "it expires"}`);
  }
}

/**
 * No answer came, or none of Allowance's. **A payment may have been approved all the same**: ask again with the same
 * `idempotencyKey` and the same request, and be told.
 */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";

  constructor(
    cause: unknown,
    readonly idempotencyKey: string | null = null,
  ) {
    super(`No answer came: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** The payment can no longer be paid by its chain; its amount is the agent's again. */
export class PaymentFailed extends Error {
  override readonly name = "PaymentFailed";

  constructor(readonly payment: PaymentState) {
    super(`${payment.id} failed: ${payment.failureReason ?? "no reason is known"}`);
  }
}

/** The time to wait is over. The payment is still on its way, and may settle at any moment. */
export class NotSettledYet extends Error {
  override readonly name = "NotSettledYet";

  constructor(readonly payment: PaymentState) {
    super(`${payment.id} is ${payment.status}`);
  }
}

/** Read an answer's error: undefined if it is none of Allowance's, such as a proxy's page. */
export function readError(
  body: unknown,
  { status, headers }: Response,
  idempotencyKey: string | null,
): AllowanceError | undefined {
  const detail = (body as { error?: Partial<PolicyRefusalDetail> } | null | undefined)?.error;
  if (typeof detail?.code !== "string" || typeof detail.message !== "string") return undefined;
  // A 503 names its rule, too, but keeps no key.
  if (!("rule" in detail) || detail.retry === "same_key")
    return new AllowanceError(detail as ErrorDetail, status, headers, idempotencyKey);
  const Refusal = detail.code === "approval_declined" ? ApprovalDeclined : PolicyRefused;
  return new Refusal(detail as PolicyRefusalDetail, status, headers, idempotencyKey);
}

/** What is wrong with which field, to stand behind the message: a trace shows nothing else. */
const fieldsOf = ({ fields = [] }: ErrorDetail): string =>
  fields.map(({ param, message }) => ` ${param}: ${message}`).join("");

function secondsOf(headers: Headers): number | null {
  const said = headers.get("Retry-After");
  return said !== null && /^[0-9]+$/.test(said) ? Number(said) : null;
}
