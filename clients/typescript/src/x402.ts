/** A `fetch` that pays what a 402 asks for (x402, version 2). */
import { AllowanceError } from "./errors.js";
import type { Allowance, DemandedPayment, DemandedPaymentRequest } from "./index.js";
import { newKey } from "./keys.js";

type Requirements = DemandedPaymentRequest["paymentRequirements"];

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
export function payingFetch(
  allowance: Allowance,
  { agentId, services, mostUnits, reason, waitUntilDecidedS = 0, fetch = globalThis.fetch, onPaid }: PayingOptions,
): (input: string | URL | Request, init?: PayingInit) => Promise<Response> {
  const byOrigin = new Map(Object.entries(services).map(([origin, service]) => [new URL(origin).origin, service]));

  async function pay(accepted: Requirements[], purchase: Omit<DemandedPaymentRequest, "paymentRequirements">, key: string) {
    for (const [index, paymentRequirements] of accepted.entries()) {
      try {
        return await allowance.payDemand({ ...purchase, paymentRequirements }, { idempotencyKey: key, waitUntilDecidedS });
      } catch (error) {
        if (index === accepted.length - 1 || !isNotServed(error)) throw error;
      }
    }
    return undefined;
  }

  return async (input, { idempotencyKey = newKey(), ...init } = {}) => {
    const request = new Request(input, init);
    const again = request.clone(); // its body can be read once
    const response = await fetch(request);
    // Who was asked in the end, after all redirections.
    const address = new URL(response.url || request.url);
    const service = byOrigin.get(address.origin);
    if (response.status !== 402 || service === undefined || request.headers.has(PAYMENT)) return response;
    const accepted = readDemand(response.headers.get("PAYMENT-REQUIRED")).filter((one) => isPayable(one, mostUnits));
    const why = reason ?? `${request.method} ${address.origin}${address.pathname}`;
    const payment = await pay(accepted, { agentId, service, reason: why }, idempotencyKey);
    if (payment === undefined) return response;
    await response.body?.cancel();
    onPaid?.(payment);
    again.headers.set(PAYMENT, encode(payment.paymentPayload));
    return fetch(again);
  };
}

const PAYMENT = "PAYMENT-SIGNATURE";

/** Read the `accepts` of a 402: what is none of version 2 accepts nothing. */
function readDemand(header: string | null): Requirements[] {
  try {
    const bytes = Uint8Array.from(atob(header ?? ""), (letter) => letter.charCodeAt(0));
    const demand = JSON.parse(new TextDecoder().decode(bytes)) as { x402Version?: unknown; accepts?: unknown } | null;
    return demand?.x402Version === 2 && Array.isArray(demand.accepts) ? (demand.accepts as Requirements[]) : [];
  } catch {
    return [];
  }
}

/** Tell whether an escrow can pay it, and whether it is within the limit: whether it may be paid, the API decides. */
function isPayable(one: Partial<Requirements> | null, mostUnits: bigint): boolean {
  const method = one?.extra?.["assetTransferMethod"] ?? "eip3009";
  return (
    one?.scheme === "exact" &&
    method === "eip3009" &&
    /^eip155:/.test(String(one.network)) &&
    /^[0-9]{1,26}$/.test(String(one.amount)) &&
    BigInt(String(one.amount)) <= mostUnits
  );
}

/** Tell whether only this way of paying is refused: nothing is stored then, and the payee may accept another. */
function isNotServed(error: unknown): boolean {
  const fields = error instanceof AllowanceError && error.code === "invalid_request" ? error.detail.fields : undefined;
  return fields?.length === 1 && fields[0]?.param === "paymentRequirements";
}

function encode(payload: unknown): string {
  return btoa(Array.from(new TextEncoder().encode(JSON.stringify(payload)), (byte) => String.fromCharCode(byte)).join(""));
}
