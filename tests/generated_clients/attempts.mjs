// Calls the compiled client, whose address is the argument. Reads {method, answers, request, key, attempts, decidedS} from
// standard input; prints its result or error, and the requests that it sent. An answer is null where it is lost on its way.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { Allowance } = await import(pathToFileURL(process.argv[2]).href);
const { method, answers, request, key, attempts, decidedS } = JSON.parse(readFileSync(0, "utf8"));

const requests = [];
async function fetch(sent) {
  requests.push({
    path: new URL(sent.url).pathname,
    key: sent.headers.get("Idempotency-Key"),
    authorization: sent.headers.get("Authorization"),
    body: sent.method === "POST" ? await sent.json() : null,
  });
  const answer = answers.shift();
  if (answer === null) throw new TypeError("connection reset");
  const { status = 201, headers = { "Content-Type": "application/json" }, body = answer } = answer;
  return new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers });
}

const allowance = new Allowance({ baseUrl: "http://allowance.test", apiKey: "alw_key", fetch, ...(attempts && { attempts }) });
const calls = {
  pay: () => allowance.pay(request, { ...(key && { idempotencyKey: key }), ...(decidedS && { waitUntilDecidedS: decidedS }) }),
  payDemand: () => allowance.payDemand(request, { idempotencyKey: key, waitUntilDecidedS: decidedS ?? 0 }),
  waitUntilDecided: () => allowance.waitUntilDecided("pay_01krkwqp1kzyp86wfhrxwpz1t0", { timeoutS: 2 }),
  waitSettled: () => allowance.waitSettled("pay_01krkwqp1kzyp86wfhrxwpz1t0", { timeoutS: 3 }),
};
const tried = await calls[method]().then(
  (result) => ({ result }),
  (error) => ({ error: { ...error, message: error.message, code: error.code, level: error.level } }),
);
console.log(JSON.stringify({ ...tried, requests }));
