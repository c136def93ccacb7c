/** Pay with an Allowance: a typed client that keeps the idempotency key of a payment over every attempt. */
import createOperations, { type Client as Operations } from "openapi-fetch";

import { NoAnswer, NotSettledYet, PaymentFailed, readError, type AllowanceError, type PaymentState } from "./errors.js";
import { newKey } from "./keys.js";
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
}

interface Answer<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

export class Allowance {
  /** Every operation of the API, typed, sent once: what it answers is for you to judge. */
  readonly operations: Operations<paths>;
  readonly #attempts: number;
  readonly #patienceS: number;

  constructor({ baseUrl, apiKey, attempts = 4, patienceS = 40, fetch = globalThis.fetch }: Options) {
    this.#attempts = attempts;
    this.#patienceS = patienceS;
    this.operations = createOperations<paths>({
      baseUrl,
      fetch: (request) => fetch(request),
      headers: { Authorization: `Bearer ${apiKey}` },
      redirect: "error", // the key is for this address alone
    });
  }

  /**
   * Request a payment; returns it once it is approved. A lost answer is asked for again with the same key, so that
   * nothing is paid twice.
   *
   * Throws `PolicyRefused`, `AllowanceError` and `NoAnswer`; each says which key was used.
   */
  pay(body: PaymentRequest, { idempotencyKey = newKey(), waitS }: PayOptions = {}): Promise<Payment> {
    const header = {
      "Idempotency-Key": idempotencyKey,
      ...(waitS === undefined ? {} : { Prefer: `wait=${Math.ceil(waitS)}` }),
    };
    return this.#repeat(
      (signal) => this.operations.POST("/v1/payments/request", { params: { header }, body, signal }),
      idempotencyKey,
    );
  }

  /**
   * Pay what a payee's 402 asks for: `paymentRequirements` is one element of its `accepts`, as it came. `payingFetch`
   * does all of it. The answer's `paymentPayload` is for the payee; keys and what is thrown are as `pay` has them.
   */
  payDemand(
    body: DemandedPaymentRequest,
    { idempotencyKey = newKey() }: Pick<PayOptions, "idempotencyKey"> = {},
  ): Promise<DemandedPayment> {
    const header = { "Idempotency-Key": idempotencyKey };
    return this.#repeat(
      (signal) => this.operations.POST("/v1/payments/x402", { params: { header }, body, signal }),
      idempotencyKey,
    );
  }

  /** Ask what `pay` would be answered now, rule by rule. Nothing is decided, and what is decided meanwhile counts. */
  evaluate(body: PaymentRequest): Promise<Evaluation> {
    return this.#repeat((signal) => this.operations.POST("/v1/payments/evaluate", { body, signal }));
  }

  /** Read a payment as it is now. */
  payment(id: string): Promise<PaymentState> {
    return this.#repeat((signal) => this.operations.GET("/v1/payments/{id}", { params: { path: { id } }, signal }));
  }

  /** Read what an agent may still spend. */
  budget(id: string): Promise<Budget> {
    return this.#repeat((signal) =>
      this.operations.GET("/v1/agents/{id}/budget", { params: { path: { id } }, signal }),
    );
  }

  /**
   * Wait until a payment is final on its chain.
   *
   * Throws `PaymentFailed`, `NotSettledYet` after `timeoutS` seconds, and what `payment` throws.
   */
  async waitSettled(id: string, { timeoutS = 300 }: { timeoutS?: number } = {}): Promise<PaymentState> {
    const end = Date.now() + timeoutS * 1000;
    for (let pauseS = 1; ; pauseS = Math.min(pauseS * 1.5, 5)) {
      const payment = await this.payment(id);
      if (payment.status === "settled") return payment;
      if (payment.status === "failed") throw new PaymentFailed(payment);
      const leftS = (end - Date.now()) / 1000;
      if (leftS <= 0) throw new NotSettledYet(payment);
      await pause(Math.min(pauseS, leftS));
    }
  }

  /** Send a request until it is answered for good; every attempt is the same. */
  async #repeat<Data>(
    send: (signal: AbortSignal) => Promise<Answer<Data>>,
    idempotencyKey: string | null = null,
  ): Promise<Data> {
    for (let attempt = 1; ; attempt += 1) {
      const { data, error } = await this.#once(send, idempotencyKey);
      if (error === undefined) return data as Data;
      const waitS = "retryAfterS" in error ? (error.retryAfterS ?? attempt) : attempt * (0.5 + Math.random());
      const mayRepeat = error instanceof NoAnswer || error.retry === "same_key";
      if (!mayRepeat || attempt >= this.#attempts || waitS > this.#patienceS) throw error;
      await pause(waitS);
    }
  }

  async #once<Data>(
    send: (signal: AbortSignal) => Promise<Answer<Data>>,
    idempotencyKey: string | null,
  ): Promise<{ data?: Data | undefined; error?: AllowanceError | NoAnswer }> {
    try {
      const { data, error, response } = await send(AbortSignal.timeout(this.#patienceS * 1000));
      if (response.ok) return { data };
      return {
        error: readError(error, response, idempotencyKey) ?? new NoAnswer(`status ${response.status}`, idempotencyKey),
      };
    } catch (cause) {
      return { error: new NoAnswer(cause, idempotencyKey) };
    }
  }
}

const pause = (seconds: number): Promise<void> => new Promise((done) => setTimeout(done, seconds * 1000));
