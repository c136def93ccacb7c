// An agent buys something: it asks before it pays, pays, loses the answer and gets it again, is refused, and waits for the chain.
//
// ALLOWANCE_URL, ALLOWANCE_KEY, AGENT and SERVICE say where, with which key, who pays, and whom.
import { env } from "node:process";

import { Allowance, PolicyRefused, type PaymentRequest } from "allowance-client";

const { ALLOWANCE_URL: baseUrl = "http://127.0.0.1:8000", ALLOWANCE_KEY: apiKey = "", AGENT = "", SERVICE = "" } = env;

// For this show, the network loses the first answer to a payment request.
let payments = 0;
const unreliable: typeof fetch = async (input, init) => {
  const answer = await fetch(input, init);
  if (!answer.url.endsWith("/v1/payments/request") || ++payments > 1) return answer;
  console.log(`lost an answer: ${answer.status}`);
  throw new TypeError("connection reset");
};

const allowance = new Allowance({ baseUrl, apiKey, fetch: unreliable });
const purchase: PaymentRequest = {
  agentId: AGENT,
  service: SERVICE,
  amount: "0.25",
  asset: "USDC",
  reason: "Forecast for Oslo",
};

const evaluation = await allowance.evaluate(purchase);
const daily = evaluation.rules.find(({ rule }) => rule === "under_daily_limit");
console.log(`would be ${evaluation.result}; could still be paid today after it: ${daily?.headroom}`);

const payment = await allowance.pay(purchase);
console.log(`approved ${payment.id}, spent today: ${payment.spentToday}`);

try {
  await allowance.pay({ ...purchase, amount: "1000" });
} catch (error) {
  if (!(error instanceof PolicyRefused)) throw error;
  const { limit, remaining } = error.detail;
  console.log(`refused by ${error.rule} (limit ${limit}, remaining ${remaining}), go on with: ${error.retry}`);
}

const settled = await allowance.waitSettled(payment.id, { timeoutS: 120 });
console.log(`settled in ${settled.finalTx}`);

const { spentToday, dailyLimit } = await allowance.budget(AGENT);
console.log(`spent today: ${spentToday} of ${dailyLimit}`);
