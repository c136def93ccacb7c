// Fetches a page that costs something, by the client for TypeScript. Reads {client, api, key, agent, services, url,
// mostUnits, purchase, dies} from standard input; with `dies` it is killed with -9 once it has paid, before it asks again.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const said = JSON.parse(readFileSync(0, "utf8"));
const { Allowance, payingFetch } = await import(pathToFileURL(said.client).href);
const allowance = new Allowance({ baseUrl: said.api, apiKey: said.key });
const paid = [];
const get = payingFetch(allowance, {
  agentId: said.agent,
  services: said.services,
  mostUnits: BigInt(said.mostUnits),
  onPaid: ({ id }) => (said.dies ? process.kill(process.pid, "SIGKILL") : paid.push(id)),
});
const told = await get(said.url, { idempotencyKey: said.purchase }).then(
  async (page) => ({ status: page.status, text: await page.text(), paid }),
  ({ name, idempotencyKey, payment }) => ({ error: name, idempotencyKey, payment: payment?.id }),
);
console.log(JSON.stringify(told));
