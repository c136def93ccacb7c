/** Pay with an Allowance: a typed client that keeps the idempotency key of a payment over every attempt. */
import createOperations, {} from "openapi-fetch";
import { ApprovalDeclined, NoAnswer, NotDecidedYet, NotSettledYet, PaymentFailed, readError, } from "./errors.js";
import { newKey } from "./keys.js";
export * from "./errors.js";
export * from "./x402.js";
export class Allowance {
    /** Every operation of the API, typed, sent once: what it answers is for you to judge. */
    operations;
    #attempts;
    #patienceS;
    constructor({ baseUrl, apiKey, attempts = 4, patienceS = 40, fetch = globalThis.fetch }) {
        this.#attempts = attempts;
        this.#patienceS = patienceS;
        this.operations = createOperations({
            baseUrl,
            fetch: (request) => fetch(request),
            headers: { Authorization: `Bearer ${apiKey}` },
            redirect: "error", // the key is for this address alone
        });
    }
    /**
     * Request a payment; returns it once it is approved. A lost answer is asked for again with the same key, so that
     * nothing is paid twice. If a person has to approve it and has not yet, it is returned with the status
     * `pending_approval`: nothing is paid, and the same key tells later what has become of it.
     *
     * Throws `PolicyRefused` (of which `ApprovalDeclined` is one), `AllowanceError` and `NoAnswer`; each says which key
     * was used.
     */
    pay(body, { idempotencyKey = newKey(), waitS, waitUntilDecidedS = 0 } = {}) {
        const header = {
            "Idempotency-Key": idempotencyKey,
            ...(waitS === undefined ? {} : { Prefer: `wait=${Math.ceil(waitS)}` }),
        };
        const ask = () => this.#repeat((signal) => this.operations.POST("/v1/payments/request", { params: { header }, body, signal }), idempotencyKey);
        return this.#askUntilDecided(ask, waitUntilDecidedS, idempotencyKey);
    }
    /**
     * Pay what a payee's 402 asks for: `paymentRequirements` is one element of its `accepts`, as it came. `payingFetch`
     * does all of it. The answer's `paymentPayload` is for the payee; keys and what is thrown are as `pay` has them. While
     * a person has to approve it there is none, and `NotDecidedYet` is thrown.
     */
    async payDemand(body, { idempotencyKey = newKey(), waitUntilDecidedS = 0 } = {}) {
        const header = { "Idempotency-Key": idempotencyKey };
        const ask = () => this.#repeat((signal) => this.operations.POST("/v1/payments/x402", { params: { header }, body, signal }), idempotencyKey);
        const payment = await this.#askUntilDecided(ask, waitUntilDecidedS, idempotencyKey);
        if (isHeld(payment))
            throw new NotDecidedYet(payment, idempotencyKey);
        return payment;
    }
    /** Ask what `pay` would be answered now, rule by rule. Nothing is decided, and what is decided meanwhile counts. */
    evaluate(body) {
        return this.#repeat((signal) => this.operations.POST("/v1/payments/evaluate", { body, signal }));
    }
    /** Read a payment as it is now. */
    payment(id) {
        return this.#repeat((signal) => this.operations.GET("/v1/payments/{id}", { params: { path: { id } }, signal }));
    }
    /** Read what an agent may still spend. */
    budget(id) {
        return this.#repeat((signal) => this.operations.GET("/v1/agents/{id}/budget", { params: { path: { id } }, signal }));
    }
    /**
     * Wait until a payment is final on its chain.
     *
     * Throws `PaymentFailed`, `ApprovalDeclined`, `NotSettledYet` after `timeoutS` seconds, and what `payment` throws.
     */
    async waitSettled(id, { timeoutS = 300 } = {}) {
        const payment = await this.#wait(id, timeoutS, ({ status }) => status === "settled" || status === "failed");
        if (payment.status === "failed")
            throw new PaymentFailed(payment);
        if (payment.status !== "settled")
            throw new NotSettledYet(payment);
        return payment;
    }
    /**
     * Wait while a person has to approve a payment; returns it once it is approved.
     *
     * Throws `ApprovalDeclined`, `NotDecidedYet` after `timeoutS` seconds, and what `payment` throws.
     */
    async waitUntilDecided(id, { timeoutS = 600 } = {}) {
        const payment = await this.#wait(id, timeoutS, (one) => !isHeld(one));
        if (isHeld(payment))
            throw new NotDecidedYet(payment);
        return payment;
    }
    /** Read a payment until that is over, or the time. */
    async #wait(id, timeoutS, isOver) {
        const end = Date.now() + timeoutS * 1000;
        for (let pauseS = 1;; pauseS = Math.min(pauseS * 1.5, 5)) {
            const payment = await this.payment(id);
            if (payment.status === "declined" || payment.status === "expired")
                throw ApprovalDeclined.of(payment);
            const leftS = (end - Date.now()) / 1000;
            if (isOver(payment) || leftS <= 0)
                return payment;
            await pause(Math.min(pauseS, leftS));
        }
    }
    /** Ask; while a person has to approve it, wait for that, and ask with the same key what has become of it. */
    async #askUntilDecided(ask, decidedS, idempotencyKey) {
        const end = Date.now() + decidedS * 1000;
        for (;;) {
            const payment = await ask();
            const leftS = (end - Date.now()) / 1000;
            if (!isHeld(payment) || leftS <= 0)
                return payment;
            try {
                await this.waitUntilDecided(payment.id, { timeoutS: leftS });
            }
            catch (error) {
                if (error instanceof NotDecidedYet)
                    return payment;
                // The key's own answer is the whole refusal.
                if (!(error instanceof ApprovalDeclined))
                    throw error instanceof NoAnswer ? new NoAnswer(error.cause, idempotencyKey) : error;
            }
        }
    }
    /** Send a request until it is answered for good; every attempt is the same. */
    async #repeat(send, idempotencyKey = null) {
        for (let attempt = 1;; attempt += 1) {
            const { data, error } = await this.#once(send, idempotencyKey);
            if (error === undefined)
                return data;
            const waitS = "retryAfterS" in error ? (error.retryAfterS ?? attempt) : attempt * (0.5 + Math.random());
            const mayRepeat = error instanceof NoAnswer || error.retry === "same_key";
            if (!mayRepeat || attempt >= this.#attempts || waitS > this.#patienceS)
                throw error;
            await pause(waitS);
        }
    }
    async #once(send, idempotencyKey) {
        try {
            const { data, error, response } = await send(AbortSignal.timeout(this.#patienceS * 1000));
            if (response.ok)
                return { data };
            return {
                error: readError(error, response, idempotencyKey) ?? new NoAnswer(`status ${response.status}`, idempotencyKey),
            };
        }
        catch (cause) {
            return { error: new NoAnswer(cause, idempotencyKey) };
        }
    }
}
const isHeld = (payment) => payment.status === "pending_approval";
const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
