// Does what the tests ask for, by the verifier of docs/integrate/verify-webhooks.md and by the reference library.
// Reads jobs as JSON, prints results.
//
// Arguments: the folder in which the library is installed, and the file with that verifier.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, verifier] = process.argv.slice(2);
const { Webhook, WebhookVerificationError } = createRequire(join(folder, "package.json"))("standardwebhooks");
const { isGenuine } = await import(pathToFileURL(verifier).href);

const does = {
  page: ({ secret, headers, body }) => isGenuine(secret, headers, Buffer.from(body, "base64")),
  reference: ({ secret, headers, body }) => {
    try {
      new Webhook(secret).verify(Buffer.from(body, "base64"), headers, { jsonParse: false });
      return true;
    } catch (error) {
      if (error instanceof WebhookVerificationError) return false;
      throw error;
    }
  },
  sign: ({ secret, id, timestamp, body }) =>
    new Webhook(secret).sign(id, new Date(timestamp * 1000), Buffer.from(body, "base64")),
};
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map((job) => does[job.do](job))));
